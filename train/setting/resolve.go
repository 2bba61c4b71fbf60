package setting

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
	"weft/train/task"
)

// Resolved are options that make sense on a mesh, with what their words stand for. All that needs no graph
// has been checked.
type Resolved struct {
	Options
	Mesh mesh.Mesh
	// Workers is their number: that of the mesh's places, or less if workers hold several partitions each.
	Workers int
	Kind    task.Kind
	// Storage is the element type of Precision.
	Storage tensor.Element
}

// Resolve refuses options that make no sense, naming the setting and what would be accepted. Those of the
// settings given that are not for the mesh are refused even where they have their default, unless that turns
// them off, and those that the model does not use where they have not. Others may be for another model, as in
// a file for several: see Unused.
func (o *Options) Resolve(given ...string) (*Resolved, error) {
	r, err := o.on(mesh.Mesh{}, given)
	if err != nil || r.Mesh.Stages == 1 {
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
	if err := o.CheckValues(); err != nil {
		return nil, err
	}
	r = &Resolved{Options: *o, Mesh: m, Kind: o.kind()}
	if err := r.checkTask(); err != nil {
		return nil, err
	}
	if err := r.checkModel(given); err != nil {
		return nil, err
	}
	if err := r.checkNeeds(); err != nil {
		return nil, err
	}
	if o.Precision == bf16 {
		r.Storage = tensor.BFloat16
	}
	if o.Wire == axis.Float32 && r.Storage == tensor.BFloat16 {
		return nil, refusal.Errorf("{wire} %s: with {precision} %s values are stored in %s, and more bits "+
			"would tell nothing more; leave it out, or take int8 or int4", r.Wire, bf16, bf16)
	}
	if m != (mesh.Mesh{}) {
		r.Parallel = Axes(m)
	} else if r.Mesh, err = o.mesh(); err != nil {
		return nil, err
	}
	if err := r.divide(); err != nil {
		return nil, err
	}
	return r, r.checkMesh(given)
}

// CheckValues refuses a value that its setting never has, on whatever mesh.
func (o *Options) CheckValues() error {
	for _, s := range settings {
		if reason := s.reject(o); reason != "" {
			return s.refuse(o, "%s", reason)
		}
	}
	return nil
}

// divide divides the graph into as many partitions as Partitions says.
func (r *Resolved) divide() error {
	n, grid := r.Partitions, r.Mesh
	r.Workers = grid.Workers()
	switch {
	case r.Offload != "" && n <= grid.Partitions:
		return refusal.Errorf("{offload} %s: matrices rest while other partitions of their worker are at "+
			"work; give {partitions} N, more than the %d of the mesh, or an empty folder name for none",
			r.Offload, grid.Partitions)
	case n == 0:
		return nil
	case grid.Stages > 1:
		return refusal.Errorf("{partitions} %d on the mesh %s: a stage divides its rows into chunks, and "+
			"partitions do not take turns there; leave it out, or take {parallel} graph=%d", n, Axes(grid),
			r.Workers)
	case n < grid.Partitions:
		return refusal.Errorf("{partitions} %d on the mesh %s: each of the %d workers along the graph axis "+
			"has a partition at least; take {partitions} %d or more", n, Axes(grid), grid.Partitions,
			grid.Partitions)
	case n*grid.Slices > mesh.MaxWorkers:
		return refusal.Errorf("{partitions} %d on the mesh %s: at most %d slices of partitions are "+
			"possible; take {partitions} %d or less", n, Axes(grid), mesh.MaxWorkers,
			mesh.MaxWorkers/grid.Slices)
	}
	r.Mesh.Partitions = n
	return nil
}

// TakesTurns reports whether workers hold several partitions, which take turns.
func (r *Resolved) TakesTurns() bool { return r.Workers < r.Mesh.Workers() }

// SharesEdges reports whether workers of a machine that slice the same partition have its edges in common.
// They must need them at the same time. Where matrices rest each worker has a disk of its own.
func (r *Resolved) SharesEdges() bool {
	return r.Mesh.Slices > 1 && r.Mesh.Stages == 1 && r.Offload == "" &&
		(r.Mesh.Partitions == 1 || r.Halo == edges.HaloRows)
}

// Holders returns for each place of the mesh, by its rank, the worker that holds it. Workers hold the same
// slice of consecutive partitions, of about equally many.
func (r *Resolved) Holders() []int {
	holders, grid := make([]int, r.Mesh.Workers()), r.Mesh
	grid.Partitions = r.Workers / (grid.Stages * grid.Slices)
	for rank := range holders {
		at := r.Mesh.Place(rank)
		at.Partition = at.Partition * grid.Partitions / r.Mesh.Partitions
		holders[rank] = grid.Rank(at)
	}
	return holders
}

// First returns the lowest rank that a worker holds.
func (r *Resolved) First(worker int) int { return slices.Index(r.Holders(), worker) }

// checkMesh refuses what makes no sense on the mesh.
func (r *Resolved) checkMesh(given []string) error {
	o, m, defaults := &r.Options, r.Mesh, Defaults()
	for _, s := range settings {
		text := s.Text(o)
		if !s.appliesTo(m) &&
			(text != s.Text(&defaults) || slices.Contains(given, s.Name) && !turnsOff(text)) {
			return s.refuseOn(m, o)
		}
	}
	if m.Partitions > 1 && o.AggregationChunks > 1 {
		return refusal.Errorf("{aggregation-chunks} %s with %d partitions: each is aggregated in one "+
			"chunk, as rows of others come in messages of their own; leave it out, or take one partition, "+
			"as in {parallel} tensor=%d", o.AggregationChunks, m.Partitions, r.Workers)
	}
	if m.Stages > 1 && o.AggregationChunks > 1 {
		return refusal.Errorf("{aggregation-chunks} %s on the mesh %s: a chunk of the pipeline is "+
			"aggregated at once; leave it out, or take more chunks with {chunks} N", o.AggregationChunks,
			Axes(m))
	}
	if o.Task == task.Link && m.Stages > 1 {
		return refusal.Errorf("{parallel} %s: link prediction needs workers that have all layers of a "+
			"vertex; take {parallel} graph=%d or tensor=%[2]d", o.Parallel, r.Workers)
	}
	if err := r.checkDelay(); err != nil {
		return err
	}
	if o := &r.Options; r.DropEdge > 0 && r.Uses("drop-edge") && r.Halo != edges.HaloRows &&
		r.Mesh.Partitions > 1 {
		return refusal.Errorf("{drop-edge} %v with {halo} %s: partial sums are of the same edges in all "+
			"epochs; take {halo} %s, or leave {drop-edge} out", o.DropEdge, o.Halo, edges.HaloRows)
	}
	return r.checkPipeline()
}

// checkDelay refuses a late halo where workers cannot hold one.
func (r *Resolved) checkDelay() error {
	m := r.Mesh
	switch {
	case r.HaloDelay == 0 && r.HaloSmoothing != axis.NoSmoothing:
		return refusal.Errorf("{halo-smoothing} %s: belongs to a late halo; give {halo-delay} 1, or leave "+
			"it out", r.HaloSmoothing)
	case r.HaloDelay == 0:
	case r.TakesTurns():
		return refusal.Errorf("{halo-delay} %d with {partitions} %d: partitions that take turns get each "+
			"other's rows in time; leave one of the two out", r.HaloDelay, r.Partitions)
	case m.Slices > 1:
		return refusal.Errorf("{halo-delay} %d on the mesh %s: slices of columns would wait for each other "+
			"all the same; take {parallel} graph=%d, or leave it out", r.HaloDelay, Axes(m), r.Workers)
	case r.WireSchedule != axis.WireSchedule{}:
		return refusal.Errorf("{halo-delay} %d with {wire-schedule} %s: rows of the epoch before have "+
			"other columns; leave one of the two out", r.HaloDelay, r.WireSchedule)
	}
	return nil
}

// checkTask refuses the settings of another task.
func (r *Resolved) checkTask() error {
	o, defaults := &r.Options, Defaults()
	for _, s := range settings {
		if s.task != "" && s.task != o.Task && s.Text(o) != s.Text(&defaults) {
			return s.refuse(o, "belongs to {task} %s; give that, or leave it out", s.task)
		}
	}
	if o.LabelSmoothing > 0 && o.Loss == task.Focal {
		return refusal.Errorf("{label-smoothing} %v: belongs to {loss} %s; leave one of the two out",
			o.LabelSmoothing, task.CrossEntropy)
	}
	if known := r.Kind.Metrics(); o.Metric != metric.Auto && !slices.Contains(known, o.Metric) {
		return refusal.Errorf("{metric} %s: no measure of {task} %s; %s", o.Metric, o.Task,
			suggest.OneOf(o.Metric, known))
	}
	return nil
}

// checkModel refuses what a model cannot do, and what only its decoupled form can.
func (r *Resolved) checkModel(given []string) error {
	o := &r.Options
	kind, _ := gnn.KindOf(o.Model)
	if kind.OneDirection && o.Direction == "both" {
		return refusal.Errorf("{direction} both: %s aggregates along one direction; take {direction} in or "+
			"out", o.Model)
	}
	if o.UsesEdgeFeatures() && o.Direction != "in" {
		return refusal.Errorf("{direction} %s: %s uses edge features, which are stored for the edges as "+
			"they are, and not for reversed ones; import the graph with {symmetrize} or "+
			"{reverse-relations}, which give reversed edges the same features, and take {direction} in",
			o.Direction, o.Model)
	}
	if o.Decoupled {
		if err := gnn.CheckDecoupled(o.Model); err != nil {
			return refusal.Errorf("{decoupled}: %w", err)
		}
		if o.Direction == "both" {
			return refusal.Errorf("{direction} both: a decoupled model aggregates along one direction; " +
				"take {direction} in or out")
		}
	}
	if err := r.checkBlocks(); err != nil {
		return err
	}
	defaults := Defaults()
	for _, s := range settings {
		switch {
		case s.Applies(o) || s.task != "" || s.Text(o) == s.Text(&defaults):
		case !kind.Uses(s.Name):
			if slices.Contains(given, s.Name) {
				return s.refuse(o, "the model %s does not use it; leave it out, or take {model} %s", o.Model,
					strings.Join(s.Models(), ", "))
			}
		case o.Decoupled:
			return s.refuse(o, "belongs to the layers of %s that aggregate, which it lacks with "+
				"{decoupled}; leave it out", o.Model)
		case s.Name == "aggregation-order" || s.Name == "aggregation-chunks":
			return s.refuse(o, "with {aggregation} %s a layer aggregates first, in one chunk; leave it out",
				o.Aggregation)
		case s.Name == "output-heads" && o.BlockForm == gnn.BlockForms[0]:
			return s.refuse(o, "with {jk} %s no attention layer computes the logits; leave it out", o.Jump)
		case slices.Contains(kind.Settings, s.Name): // of its plain form alone
			return s.refuse(o, "residual blocks do without it; leave it out, or take {blocks} plain")
		default:
			return s.refuse(o, "belongs to a decoupled model; give {decoupled}, or leave it out")
		}
	}
	if r.Uses("heads") && o.Hidden%o.Heads != 0 {
		return refusal.Errorf("{heads} %d does not divide {hidden} %d: each head of %s gets an equal share "+
			"of the hidden width", o.Heads, o.Hidden, o.Model)
	}
	if o.Task == task.Link && o.Decoder == task.DistMult && o.BlockForm != gnn.BlockForms[0] {
		return refusal.Errorf("{decoder} %s: its weights have the name of the linear decoder of {blocks} "+
			"%s, decoder.weight; take {decoder} dot, or {blocks} plain", o.Decoder, o.BlockForm)
	}
	return nil
}

// checkBlocks refuses blocks that weights cannot consist of. What the graph has a part in is the model's to
// refuse.
func (r *Resolved) checkBlocks() error {
	switch n := r.NumBlocks; {
	case n == 0 || !r.Uses("num-blocks"):
	case r.Bases > 0:
		return refusal.Errorf("{bases} %d and {num-blocks} %d: relations share weights in one of the two "+
			"ways; leave one out", r.Bases, n)
	case r.Layers > 1 && r.Hidden%n != 0:
		return refusal.Errorf("{num-blocks} %d does not divide {hidden} %d: blocks are of equal size; take "+
			"another number, or {bases} N", n, r.Hidden)
	}
	return nil
}

// checkNeeds refuses the settings that are for another value of another setting.
func (r *Resolved) checkNeeds() error {
	defaults := Defaults()
	for _, s := range settings {
		other, given := settingNamed(s.needs.setting)
		if given && !slices.Contains(s.needs.values, other.Text(&r.Options)) &&
			s.Text(&r.Options) != s.Text(&defaults) {
			return s.refuse(&r.Options, "belongs to {"+other.Name+"} %s; give that, or leave it out",
				strings.Join(s.needs.values, " or "))
		}
	}
	return nil
}

// OwnPass is the setting, as a flag with its value, for which an evaluation needs a pass of its own: the
// forward pass of the next epoch computes something else, or of another graph. "": there is none, and both
// passes have the same bits.
func (r *Resolved) OwnPass() string {
	o := &r.Options
	for _, of := range []struct {
		name  string
		needs bool
	}{
		{"dropout", o.Dropout > 0},
		{"input-dropout", o.InputDropout > 0},
		{"transform-dropout", o.TransformDropout > 0},
		{"attention-dropout", o.AttentionDropout > 0},
		{"drop-edge", o.DropEdge > 0},
		{"label-input", o.LabelInput > 0},
		{"norm", gnn.OverVertices(o.Norm) && !gnn.OverAll(o.Norm)}, // running statistics
		{"wire", o.Wire.Format(r.Storage) != kernel.AsStored},
		{"wire-schedule", o.WireSchedule != axis.WireSchedule{}},
		{"halo-delay", o.HaloDelay > 0},
		{"chunks", r.Mesh.Stages > 1 && int(o.Chunks) != r.Mesh.Partitions},
		{"validate", o.Validate != ""},
	} {
		if s, _ := settingNamed(of.name); of.needs && s.Applies(o) {
			return refusal.Setting(of.name).String() + " " + s.Text(o)
		}
	}
	return ""
}

// Given are the model and the settings that differ from their defaults, as flags of weft train.
func (o *Options) Given() string {
	defaults, text := Defaults(), ""
	for _, s := range settings {
		if is := s.Text(o); s.Name == "model" || is != s.Text(&defaults) {
			text += " " + refusal.Setting(s.Name).String() + " " + is
		}
	}
	return strings.TrimPrefix(text, " ")
}

// Unused lists the settings ("heads") that differ from their default although the model does not use them.
// Resolve refuses those that were given.
func (o *Options) Unused() []string {
	defaults := Defaults()
	var names []string
	for _, s := range settings {
		if !s.Applies(o) && s.Text(o) != s.Text(&defaults) {
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
	if _, err := r.Kind.Metric(whole, &g.Labels); err != nil {
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
	case outputs < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn; import it from a source that has "+
			"labels, or with the flags of its format that name some, as the help of weft import FORMAT "+
			"lists them; or learn edges with {task} %s", task.Link)
	}
	if err := r.checkFeatures(whole); err != nil {
		return err
	}
	if err := r.checkLabelInput(whole, outputs); err != nil {
		return err
	}
	if err := r.checkGraphs(whole); err != nil {
		return err
	}
	return r.checkTypes(whole)
}

// CheckSome refuses a model or a mesh that cannot predict some vertices alone.
func (r *Resolved) CheckSome() error {
	if gnn.OverAll(r.Norm) && r.Uses("norm") {
		return refusal.Errorf("{norm} %s takes its mean over all vertices, so that no vertex can be predicted "+
			"without the others; predict all, without {vertices} and {unlabelled}", r.Norm)
	}
	if r.Mesh.Slices == 1 && r.Mesh.Stages == 1 {
		return nil
	}
	return refusal.Errorf("one worker or the graph axis predicts some vertices alone, and the mesh has "+
		"other axes; give {parallel} graph=%d", r.Workers)
}

// BlockSpecs are the blocks of the model on the graph of a share, with so many outputs, or those of own in
// its place where that is not nil. The first costs as much less as sparse features have fewer values.
func (r *Resolved) BlockSpecs(s *partition.Share, outputs int,
	own func(features, outputs int) []gnn.BlockSpec,
) (blocks []gnn.BlockSpec, err error) {
	whole := &s.Whole
	input := r.InputColumns(whole.FeatureColumns, outputs)
	if own != nil {
		blocks = slices.Clone(own(input, outputs))
	} else {
		schema := sar.SchemaOf(s)
		schema.Types[0].Columns = input
		if schema.Outputs, err = r.Kind.Types(s); err != nil {
			return nil, err
		}
		if blocks, err = r.Blocks(schema, outputs); err != nil {
			return nil, err
		}
	}
	if r.RequireEdgeFeatures && !gnn.ReadEdgeFeatures(blocks) {
		if r.Uses("use-edge-features") {
			return nil, refusal.Errorf("{require-edge-features}: the model %s uses edge features only with "+
				"{use-edge-features}; give that, or leave it out", r.Model)
		}
		return nil, refusal.Errorf("{require-edge-features}: the model %s does not use edge features; take "+
			"{model} %s, or leave it out", r.Model, modelsWith(usesFeatures))
	}
	if whole.FeatureValues > 0 && len(blocks) > 0 {
		share := float64(whole.FeatureValues) / (float64(whole.Own()) * float64(whole.FeatureColumns))
		blocks[0].Cost.Vertex = int(math.Ceil(share * float64(blocks[0].Cost.Vertex)))
	}
	if r.Mesh.Stages > 1 {
		err = checkStages(r.Mesh, blocks)
	}
	return blocks, err
}

// InputColumns is the number of columns of the model's input, of so many features and outputs: features, and
// labels where these are input.
func (r *Resolved) InputColumns(features, outputs int) int {
	if r.LabelInput > 0 {
		return features + outputs
	}
	return features
}

// checkLabelInput refuses a graph or a mesh where labels cannot be input of the model.
func (r *Resolved) checkLabelInput(whole *partition.Whole, outputs int) error {
	no := ""
	switch {
	case r.LabelInput == 0 || r.Task != task.Vertex:
		return nil
	case r.Mesh.Stages > 1:
		return refusal.Errorf("{label-input} %v on the mesh %s: the input of a stage's chunks is that of "+
			"all epochs; leave it out, or take {parallel} graph=%d", r.LabelInput, Axes(r.Mesh), r.Workers)
	case whole.ValueColumns > 0:
		no = "the labels of the graph are values"
	case whole.Classes == 0:
		no = "the graph has no labels"
	case r.Split.Number >= len(whole.Splits):
		no = fmt.Sprintf("the graph has no split %v into training, validation and test vertices", r.Split)
	case whole.Classes > outputs:
		no = fmt.Sprintf("the graph has %d classes, and the model computes %d", whole.Classes, outputs)
	case len(whole.Others) > 0:
		no = fmt.Sprintf("the graph has %d vertex types", 1+len(whole.Others))
	case whole.FeatureColumns == 0:
		no = "the graph has no features beside which the labels stand"
	}
	if no == "" {
		return nil
	}
	return refusal.Errorf("{label-input} %v: the input are classes of training vertices beside the "+
		"features, of one vertex type, and %s; train without it, or give such a graph", r.LabelInput, no)
}

// checkFeatures refuses a graph whose first vertex type has no features where the model needs some, or the
// mesh does.
func (r *Resolved) checkFeatures(whole *partition.Whole) error {
	o, grid := &r.Options, r.Mesh
	kind, _ := gnn.KindOf(o.Model)
	switch {
	case o.NormalizeFeatures == Standard && slices.ContainsFunc(whole.Types(), isSparse):
		return refusal.Errorf("{normalize-features} %s: would make sparse features dense; take row, or "+
			"import them again with {dense-features}", Standard)
	case whole.FeatureColumns > 0:
		return nil
	case !kind.Featureless && o.NodeEmbedding == 0:
		return refusal.Graph.Errorf("the graph has no features; import it with {random-features} N, or "+
			"with features of its own; or have some learned with {node-embedding} N; or take {model} %s, "+
			"which needs none", strings.Join(gnn.Featureless(), " or "))
	case grid.Stages > 1:
		return refusal.Errorf("{parallel} %s: the graph has no features, and a pipeline does not divide "+
			"learned embeddings; take {parallel} graph=%d or tensor=%[2]d", o.Parallel, r.Workers)
	}
	return nil
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

// checkGraphs refuses several graphs for a norm whose statistics are of all vertices: each graph would have
// its own, as by PyG's batch.
func (r *Resolved) checkGraphs(whole *partition.Whole) error {
	if whole.Graphs < 2 || !gnn.OverAll(r.Norm) || !r.Uses("norm") {
		return nil
	}
	return refusal.Errorf("{norm} %s: its statistics are those of one graph, and the store has %d graphs; "+
		"take batch or layer, or give one graph", r.Norm, whole.Graphs)
}

// checkTypes refuses a pipeline for several vertex types: chunks and the history are of one type's rows.
func (r *Resolved) checkTypes(whole *partition.Whole) error {
	if len(whole.Others) == 0 || r.Mesh.Stages == 1 {
		return nil
	}
	return refusal.Errorf("{parallel} %s: the pipeline divides into chunks the rows of one vertex type, "+
		"and the graph has %d; take {parallel} graph=%d or tensor=%[3]d, which divide all types", r.Parallel,
		1+len(whole.Others), r.Workers)
}

// kind is the kind of task.
func (o *Options) kind() task.Kind {
	goal := o.Goal
	goal.OutFeatures = cmp.Or(goal.OutFeatures, o.Hidden)
	return task.New(goal)
}
