package setting

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/task"
)

// Resolved are options that make sense on a mesh, with what their words stand for. All that needs no graph
// has been checked.
type Resolved struct {
	Options
	Mesh mesh.Mesh
	// SampleGroups is how many meshes hold the graph, each of which takes other samples.
	SampleGroups int
	// Workers is their number: that of the meshes' places, or less if workers hold several partitions each.
	Workers int
	Kind    task.Kind
	// Storage is the element type of Precision.
	Storage tensor.Element
	// TF32 has cards multiply by tensor cores.
	TF32 bool
	// Undecoded says that the model ends before its EdgeScorer, with the rows of vertices that this reads.
	Undecoded bool
}

// Resolve refuses options that make no sense, naming the setting and what would be accepted. Those of the
// settings given that are not for the mesh are refused even where they have their default, unless that turns
// them off, and those that the model does not use where they have not. Others may be for another model, as in
// a file for several: see Unused.
func (o *Options) Resolve(given ...string) (*Resolved, error) {
	r, err := o.on(mesh.Mesh{}, given)
	if err != nil || r.Mesh.Stages == 1 || r.Program.Program != nil { // which fits one number of features
		return r, err
	}
	spec := r.Spec
	spec.NumBlocks, spec.NodeEmbedding = 0, 0 // the graph has a part in whether they can be
	blocks, err := spec.Blocks(gnn.OneType(1, 1), 1)
	if err == nil {
		err = checkStages(r.Mesh, blocks)
	}
	return r, err
}

// On is Resolve for a mesh in place of the one that Parallel describes, unless it is zero. How many stages
// the model can be cut into is left to BlockSpecs, as the model may be the caller's own.
func (o *Options) On(m mesh.Mesh) (*Resolved, error) { return o.on(m, nil) }

func (o *Options) on(m mesh.Mesh, given []string) (r *Resolved, err error) {
	if reflect.ValueOf(*o).IsZero() {
		return nil, refusal.Errorf("the options are all zero: begin with those of Defaults, and change " +
			"what you want")
	}
	r = &Resolved{Options: *o, Mesh: m, SampleGroups: 1}
	o = &r.Options
	if err := cmp.Or(o.ReadFiles(), o.CheckValues()); err != nil {
		return nil, err
	}
	if err := o.learnEdges(given); err != nil {
		return nil, err
	}
	r.Kind = o.kind()
	if err := r.checkModel(given); err != nil {
		return nil, err
	}
	if o.Precision == bf16 {
		r.Storage = tensor.BFloat16
	}
	r.TF32 = o.Precision == tf32x3
	if m != (mesh.Mesh{}) {
		r.Parallel = Axes(m)
	} else if r.Mesh, r.SampleGroups, err = o.mesh(); err != nil {
		return nil, err
	}
	if err := r.divide(); err != nil {
		return nil, err
	}
	if err := r.checkMesh(given); err != nil {
		return nil, err
	}
	if err := r.checkNeeds(); err != nil {
		return nil, err
	}
	for _, s := range r.apply() {
		if s.check != nil {
			if err := s.check(s, r); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// learnEdges has the labels of edges that are named say the task, and the task its decoder, unless others
// were given.
func (o *Options) learnEdges(given []string) error {
	if o.EdgeLabel != "" && o.Task == task.Vertex {
		if slices.Contains(given, "task") {
			return refusal.Errorf("--edge-label %s: belongs to --task %s, and --task %s was given; leave one of "+
				"them out", o.EdgeLabel, task.Edge, o.Task)
		}
		o.Task = task.Edge
	}
	if o.Task == task.Edge && o.Decoder == task.Decoders[0] && !slices.Contains(given, "decoder") {
		o.Decoder = task.MLP
	}
	return nil
}

// apply are the settings that mean something for the model and the mesh.
func (r *Resolved) apply() []Setting {
	return slices.DeleteFunc(All(), func(s Setting) bool {
		return !s.Applies(&r.Options) || !s.appliesTo(r.Mesh)
	})
}

// CheckValues refuses a value that its setting never has, on whatever mesh.
func (o *Options) CheckValues() error {
	for _, s := range settings {
		if reason := s.reject(o); reason != "" && (s.Name != "model" || o.Program.Path == "") {
			return s.refuse(o, "%s", reason)
		}
	}
	return nil
}

// divide divides the graph into as many partitions as Partitions says.
func (r *Resolved) divide() error {
	n, grid := int(r.Partitions), r.Mesh
	r.Workers = grid.Workers() * r.SampleGroups
	switch {
	case r.Partitions == AutoPartitions:
		return refusal.Errorf("--partitions %s: weft train alone chooses how many; give a number", r.Partitions)
	case grid.Stages > 1 && n == 0 && r.OffloadFolder() != "":
		return refusal.Errorf("--offload %s on the mesh %s: matrices of a stage rest in the host's memory alone, "+
			"below a card; take --device %s with --offload %s, or --parallel graph=%d with --partitions",
			r.Offload, Axes(grid), AllCards, RAM, r.Workers)
	case grid.Stages > 1 && n == 0:
		return nil
	case r.Offload != "" && n <= grid.Partitions:
		return refusal.Errorf("--offload %s: matrices rest while other partitions of their worker are at "+
			"work; give --partitions N, more than the %d of the mesh, or an empty folder name for none",
			r.Offload, grid.Partitions)
	case n == 0:
		return nil
	case grid.Stages > 1:
		return refusal.Errorf("--partitions %d on the mesh %s: a stage divides its rows into chunks, and "+
			"partitions do not take turns there; leave it out, or take --parallel graph=%d", n, Axes(grid),
			r.Workers)
	case n > grid.Partitions && r.SampleGroups > 1:
		return refusal.Errorf("--partitions %d with %d groups of samples: partitions take turns where one group "+
			"takes all samples; leave it out, or take --parallel %s", n, r.SampleGroups, Axes(grid))
	case n < grid.Partitions:
		return refusal.Errorf("--partitions %d on the mesh %s: each of the %d workers along the graph axis "+
			"has a partition at least; take --partitions %d or more", n, Axes(grid), grid.Partitions,
			grid.Partitions)
	case n*grid.Slices > mesh.MaxWorkers:
		return refusal.Errorf("--partitions %d on the mesh %s: at most %d slices of partitions are "+
			"possible; take --partitions %d or less", n, Axes(grid), mesh.MaxWorkers,
			mesh.MaxWorkers/grid.Slices)
	}
	r.Mesh.Partitions = n
	return nil
}

// TakesTurns reports whether workers hold several partitions, which take turns.
func (r *Resolved) TakesTurns() bool { return r.Workers < r.Ranks() }

// Ranks is the number of places of all groups' meshes.
func (r *Resolved) Ranks() int { return r.Mesh.Workers() * r.SampleGroups }

// PartitionOf is the partition of a rank of these.
func (r *Resolved) PartitionOf(rank int) int { return r.Mesh.Place(rank % r.Mesh.Workers()).Partition }

// SharesEdges reports whether workers of a machine that slice the same partition have its edges in common.
// They must need them at the same time. Where matrices rest each worker has a disk of its own, and on a card
// memory of its own.
func (r *Resolved) SharesEdges() bool {
	return r.Mesh.Slices > 1 && r.Mesh.Stages == 1 && r.Offload == "" && !r.OnCard() &&
		(r.Mesh.Partitions == 1 || r.Halo == edges.HaloRows)
}

// Holders returns for each place of the groups' meshes, by its rank, the worker that holds it. Workers hold
// the same slice of consecutive partitions, of about equally many.
func (r *Resolved) Holders() []int {
	holders := make([]int, r.Ranks())
	grid, n := r.Mesh, r.Mesh.Workers()
	grid.Partitions = r.Workers / (r.SampleGroups * grid.Stages * grid.Slices)
	for rank := range holders {
		at := r.Mesh.Place(rank % n)
		at.Partition = at.Partition * grid.Partitions / r.Mesh.Partitions
		holders[rank] = rank/n*grid.Workers() + grid.Rank(at)
	}
	return holders
}

// First returns the lowest rank that a worker holds.
func (r *Resolved) First(worker int) int { return slices.Index(r.Holders(), worker) }

// checkMesh refuses what makes no sense on the mesh.
func (r *Resolved) checkMesh(given []string) error {
	o, m := &r.Options, r.Mesh
	for _, s := range settings {
		if s.shared && r.SampleGroups > 1 {
			continue
		}
		if !s.appliesTo(m) && (s.differs(o) || slices.Contains(given, s.Name) && !turnsOff(s.Text(o))) {
			return s.refuseUnused(m, o)
		}
	}
	return nil
}

// checkNeeds refuses the settings of another task, and those that are for another value of another setting.
func (r *Resolved) checkNeeds() error {
	o := &r.Options
	for _, s := range settings {
		if !s.differs(o) {
			continue
		}
		if !s.ofTask(o.Task) {
			return s.refuse(o, "belongs to --task %s; give that, or leave it out", strings.Join(s.tasks, " or "))
		}
		if missing := s.needs.missing(o); missing != "" {
			return s.refuse(o, "belongs to %s; give that, or leave it out", missing)
		}
	}
	return nil
}

// checkModel refuses what a model cannot do, and what only its decoupled form can.
func (r *Resolved) checkModel(given []string) error {
	o := &r.Options
	kind, _ := gnn.KindOf(o.Model)
	own := o.Program.Path != ""
	if own && slices.Contains(given, "model") {
		return refusal.Errorf("--program %s: it is the model; leave --model out", o.Program)
	}
	if o.Decoupled {
		if err := gnn.CheckDecoupled(o.Model); err != nil {
			return refusal.Errorf("--decoupled: %w", err)
		}
	}
	for _, s := range settings {
		switch {
		case s.Applies(o) || s.tasks != nil || !s.differs(o) && !own:
		case own && slices.Contains(given, s.Name):
			return s.refuse(o, "is for models that weft knows by name, and not for --program %s; leave it out", o.Program)
		case !kind.Uses(s.Name):
			if slices.Contains(given, s.Name) {
				return s.refuse(o, "the model %s does not use it; leave it out, or take --model %s", o.Model,
					strings.Join(s.Models(), ", "))
			}
		case o.Decoupled:
			return s.refuse(o, "belongs to the layers of %s that aggregate, which it lacks with "+
				"--decoupled; leave it out", o.Model)
		case s.Name == "aggregation-order" || s.Name == "aggregation-chunks":
			return s.refuse(o, "with --aggregation %s a layer aggregates first, in one chunk; leave it out",
				o.Aggregation)
		case s.Name == "output-heads" && o.BlockForm == gnn.BlockForms[0]:
			return s.refuse(o, "with --jk %s no attention layer computes the logits; leave it out", o.Jump)
		case slices.Contains(kind.Settings, s.Name): // of its plain form alone
			return s.refuse(o, "residual blocks do without it; leave it out, or take --blocks plain")
		default:
			return s.refuse(o, "belongs to a decoupled model; give --decoupled, or leave it out")
		}
	}
	return nil
}

// OwnPass are the settings, as flags with their values, for which an evaluation needs a pass of its own: the
// forward pass of the next epoch computes something else, or of another graph. "": there is none, and both
// passes have the same bits.
func (r *Resolved) OwnPass() string {
	var flags []string
	for _, s := range r.apply() {
		if s.ownPass != nil && s.ownPass(r) {
			flags = append(flags, "--"+s.Name+" "+s.Text(&r.Options))
		}
	}
	return strings.Join(flags, ", ")
}

// Exact reports whether training on the mesh gives the results of one worker, but for rounding.
func (r *Resolved) Exact() bool {
	return !slices.ContainsFunc(r.apply(), func(s Setting) bool { return s.inexact != nil && s.inexact(r) })
}

// Given are the model and the settings that differ from their defaults, as flags of weft train.
func (o *Options) Given() string {
	text := ""
	for _, s := range settings {
		if s.Name == "model" && s.Applies(o) || s.Name != "model" && s.differs(o) {
			text += " --" + s.Name + " " + s.Text(o)
		}
	}
	return strings.TrimPrefix(text, " ")
}

// Unused lists the settings ("heads") that differ from their default although the model does not use them.
// Resolve refuses those that were given.
func (o *Options) Unused() []string {
	var names []string
	for _, s := range settings {
		if !s.Applies(o) && s.differs(o) && s.Name != "model" {
			names = append(names, s.Name)
		}
	}
	return names
}

// CheckGraph refuses a graph that cannot be trained on, before any work.
func (r *Resolved) CheckGraph(g *graph.Graph) error {
	share := partition.All(g)
	whole := &share.Whole
	outputs := r.Kind.Outputs(whole)
	if err := r.CheckCounts(whole, outputs); err != nil {
		return err
	}
	if _, err := r.BlockSpecs(share, outputs, nil); err != nil {
		return err
	}
	if err := r.Kind.Check(whole); err != nil {
		return err
	}
	of, _ := g.LearnsEdges(r.EdgeLabel)
	if _, err := r.Kind.Metric(whole, &of.Labels); err != nil {
		return err
	}
	if r.Mesh.Partitions > whole.Vertices {
		given, _ := settingNamed("parallel")
		if r.Partitions > 0 {
			given, _ = settingNamed("partitions")
		}
		return given.refuse(&r.Options, "the graph has only %d vertices to divide; take at most as many "+
			"partitions", whole.Vertices)
	}
	return nil
}

// CheckCounts refuses a graph from which the model cannot compute so many outputs on the mesh, as far as its
// counts tell.
func (r *Resolved) CheckCounts(whole *partition.Whole, outputs int) error {
	switch {
	case whole.Vertices == 0:
		return refusal.Graph.Errorf("the graph has no vertices; import one that has some")
	case outputs < 1 && r.Task == task.Edge:
		_, err := task.RelationOf(r.Kind, whole)
		return err
	case outputs < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn; import it from a source that has "+
			"labels, or with the flags of its format that name some, as the help of weft import FORMAT "+
			"lists them; or learn edges with --task %s, or labels of edges with --edge-label", task.Link)
	}
	if err := r.checkFeatures(whole); err != nil {
		return err
	}
	for _, s := range r.apply() {
		if s.checkGraph != nil {
			if err := s.checkGraph(s, r, whole, outputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckSome refuses a model or a mesh that cannot predict some vertices alone.
func (r *Resolved) CheckSome() error {
	if mean := r.OverAll(); mean != "" {
		return refusal.Errorf("%s takes its mean over all vertices, so that no vertex can be "+
			"predicted without the others; predict all, without --vertices and --unlabelled", mean)
	}
	if r.Mesh.Slices == 1 && r.Mesh.Stages == 1 {
		return nil
	}
	return refusal.Errorf("one worker or the graph axis predicts some vertices alone, and the mesh has "+
		"other axes; give --parallel graph=%d", r.Workers)
}

// schemaOf is the schema of the graph of a share for a model with so many outputs.
func (r *Resolved) schemaOf(s *partition.Share, outputs int) (schema gnn.Schema, err error) {
	schema = sar.SchemaOf(s)
	schema.Types[0].Columns = r.InputColumns(s.Whole.Types[0].FeatureColumns, outputs)
	schema.Outputs, err = r.Kind.Types(s)
	return schema, err
}

// BlockSpecs are the blocks of the model on the graph of a share, with so many outputs, or those of own in
// its place where that is not nil. The first costs as much less as sparse features have fewer values.
func (r *Resolved) BlockSpecs(s *partition.Share, outputs int,
	own func(features, outputs int) []gnn.BlockSpec,
) (blocks []gnn.BlockSpec, err error) {
	whole := &s.Whole
	input := r.InputColumns(whole.Types[0].FeatureColumns, outputs)
	if own != nil {
		blocks = slices.Clone(own(input, outputs))
	} else {
		schema, err := r.schemaOf(s, outputs)
		if err != nil {
			return nil, err
		}
		if r.Task == task.Edge {
			blocks, err = r.edgeBlocks(s, schema, outputs)
		} else {
			blocks, err = r.Blocks(schema, outputs)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.RequireEdgeFeatures && !gnn.ReadEdgeFeatures(blocks) {
		if r.Uses("use-edge-features") {
			return nil, refusal.Errorf("--require-edge-features: the model %s uses edge features only with "+
				"--use-edge-features; give that, or leave it out", r.Model)
		}
		return nil, refusal.Errorf("--require-edge-features: the model %s does not use edge features; take "+
			"--model %s, or leave it out", r.Model, modelsWith(usesFeatures))
	}
	if t := &whole.Types[0]; t.FeatureValues > 0 && len(blocks) > 0 {
		share := float64(t.FeatureValues) / (float64(t.Vertices) * float64(t.FeatureColumns))
		blocks[0].Cost.Vertex = int(math.Ceil(share * float64(blocks[0].Cost.Vertex)))
	}
	if r.Mesh.Stages > 1 {
		err = checkStages(r.Mesh, blocks)
	}
	return blocks, err
}

// edgeBlocks are blocks whose only output is rows of edges: those of a program, or of a model by name with
// a decoder behind them.
func (r *Resolved) edgeBlocks(s *partition.Share, schema gnn.Schema, outputs int) ([]gnn.BlockSpec, error) {
	decoder, err := r.edgeDecoder(s, outputs)
	if err != nil {
		return nil, err
	}
	if r.Program.Program != nil {
		relation, scored := decoder.Relation, ""
		if name, silent := partition.IsSilent(relation); silent {
			relation, scored = name, relation
		}
		of, err := r.programFor(relation)
		switch {
		case err != nil:
			return nil, err
		case r.Undecoded:
			return of.Blocks(schema, 0, r.Mesh.Stages)
		}
		return of.EdgeBlocks(schema, relation, scored, outputs, r.Mesh.Stages)
	}
	blocks, err := r.Blocks(schema, decoder.Width)
	if r.Undecoded {
		return blocks, err
	}
	return append(blocks, decoder.Block()), err
}

// EdgeScorer is what an Undecoded model ends before.
func (r *Resolved) EdgeScorer(s *partition.Share, outputs int) (d gnn.EdgeScorer, err error) {
	decoder, err := r.edgeDecoder(s, outputs)
	if err != nil || r.Program.Program == nil {
		return decoder.Scorer(), err
	}
	schema, err := r.schemaOf(s, outputs)
	if err != nil {
		return d, err
	}
	relation, _ := partition.IsSilent(decoder.Relation)
	of, err := r.Program.Undecoded(relation)
	if err != nil {
		return d, err
	}
	return of.EdgeScorer(schema, relation), nil
}

// edgeDecoder is the last block of a model by name that learns labels of edges, behind rows of vertices.
func (r *Resolved) edgeDecoder(s *partition.Share, outputs int) (d gnn.EdgeDecoder, err error) {
	relation, err := task.RelationOf(r.Kind, &s.Whole)
	if err != nil {
		return d, err
	}
	of := sar.SchemaOf(s).Relations[relation]
	name := of.Name
	if task.PassesEarlier(r.Kind, &s.Whole) && !r.Undecoded {
		name = partition.SilentName(name)
	}
	return gnn.EdgeDecoder{
		Relation: name, Source: of.Source, Target: of.Target,
		Width: cmp.Or(r.OutFeatures, r.Hidden), Features: of.Columns,
		Layers: r.DecoderLayers, Hidden: cmp.Or(r.DecoderHidden, r.Hidden), Outputs: outputs,
		Dropout: r.Dropout,
	}, nil
}

// OutputsIn is how many outputs weights of the model tell that it has; 0: they do not.
func (r *Resolved) OutputsIn(weights nn.State) int {
	switch of := r.Program.Program; {
	case r.Task == task.Edge && of == nil:
		return gnn.DecoderOutputs(weights, r.DecoderLayers)
	case r.Task == task.Edge && len(of.EdgeOutputs) == 1:
		return of.OutputsByRelation()[0].Columns
	}
	_, n := r.Widths(weights)
	return n
}

// InputColumns is the number of columns of the model's input, of so many features and outputs: features, and
// labels where these are input.
func (r *Resolved) InputColumns(features, outputs int) int {
	if r.LabelInput > 0 {
		return features + outputs
	}
	return features
}

// checkFeatures refuses a graph whose first vertex type has no features where the model needs some.
func (r *Resolved) checkFeatures(whole *partition.Whole) error {
	kind, _ := gnn.KindOf(r.Model)
	needs := !kind.Featureless
	if r.Program.Program != nil {
		columns, _ := r.Widths(nil)
		needs = columns > 0
	}
	if whole.Types[0].FeatureColumns > 0 || !needs || r.NodeEmbedding > 0 {
		return nil
	}
	return refusal.Graph.Errorf("the graph has no features; import it with --random-features N, or with "+
		"features of its own; or have some learned with --node-embedding N; or take --model %s, which needs "+
		"none", strings.Join(gnn.Featureless(), " or "))
}

func isSparse(t partition.WholeType) bool { return t.FeatureValues > 0 }

// Standardises says of each feature of a vertex type whether it is standardised; nil: none is.
func (r *Resolved) Standardises(t *partition.WholeType) []bool {
	switch {
	case t.FeatureColumns == 0:
	case r.NormalizeFeatures == Standard:
		return slices.Repeat([]bool{true}, t.FeatureColumns)
	case r.NormalizeFeatures == AutoFeatures && slices.Contains(t.Columns.Scaled(), true):
		return t.Columns.Scaled()
	}
	return nil
}

// kind is the kind of task.
func (o *Options) kind() task.Kind {
	goal := o.Goal
	if goal.OutFeatures = cmp.Or(goal.OutFeatures, o.Hidden); o.Program.Program != nil {
		goal.OutFeatures = o.Program.Outputs()
	}
	return task.New(goal)
}
