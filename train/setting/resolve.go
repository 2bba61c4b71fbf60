package setting

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/task"
)

// Resolved are options that make sense on a mesh, with the meaning of their words. All that can be checked
// without a graph has been checked.
type Resolved struct {
	Options
	Meshes
	Kind task.Kind
	// Storage is the element type of Precision.
	Storage tensor.Element
	// TF32 has cards multiply by tensor cores.
	TF32 bool
	// Undecoded says that the model ends before its EdgeScorer, with the rows of vertices that the EdgeScorer
	// reads.
	Undecoded bool
}

// Resolve refuses options that make no sense. It names the setting and what would be accepted. supplied names
// the settings that the caller has set. It refuses them if they are not for the mesh, even with their default
// value, unless that turns them off. It also refuses them if the model does not use them, unless they have
// their default value. Settings that are not given may be for another model, as in a file for several models:
// see Unused.
func (o *Options) Resolve(supplied ...string) (*Resolved, error) {
	r, err := o.on(mesh.Mesh{}, supplied)
	if err != nil || r.Mesh.Stages == 1 || r.Program.Program != nil { // a program has one number of features
		return r, err
	}
	spec := r.Spec
	spec.NumBlocks, spec.NodeEmbedding = 0, 0 // whether these can be depends on the graph, too
	blocks, err := spec.Blocks(gnn.OneType(1, 1), 1)
	if err == nil {
		err = checkStages(r.Mesh, blocks)
	}
	return r, err
}

// On is Resolve for the mesh m in place of the one that Parallel describes, unless m is zero. BlockSpecs
// checks into how many stages the model can be cut, as the model may be the caller's own.
func (o *Options) On(m mesh.Mesh) (*Resolved, error) { return o.on(m, nil) }

func (o *Options) on(m mesh.Mesh, supplied []string) (r *Resolved, err error) {
	if reflect.ValueOf(*o).IsZero() {
		return nil, refusal.Errorf("the options are all zero: begin with those of Defaults, and change " +
			"what you want")
	}
	r = &Resolved{Options: *o, Meshes: Meshes{Mesh: m, SampleGroups: 1}}
	o = &r.Options
	if err := cmp.Or(o.ReadFiles(), o.CheckValues()); err != nil {
		return nil, err
	}
	if err := o.learnEdges(supplied); err != nil {
		return nil, err
	}
	r.Kind = o.kind()
	if err := r.checkModel(supplied); err != nil {
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
	if err := r.checkMesh(supplied); err != nil {
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

// learnEdges sets the task if labels of edges are named, and the decoder of that task, unless others were
// given.
func (o *Options) learnEdges(supplied []string) error {
	if o.EdgeLabel != "" && o.Task == task.Vertex {
		if slices.Contains(supplied, "task") {
			return refusal.Errorf("--edge-label %s: belongs to --task %s, and --task %s was given; leave one of "+
				"them out", o.EdgeLabel, task.Edge, o.Task)
		}
		o.Task = task.Edge
	}
	if o.Task == task.Edge && o.Decoder == task.Decoders[0] && !slices.Contains(supplied, "decoder") {
		o.Decoder = task.MLP
	}
	return nil
}

// apply lists the settings that have a meaning for the model and the mesh.
func (r *Resolved) apply() []Setting {
	return slices.DeleteFunc(All(), func(s Setting) bool {
		return !s.Applies(&r.Options) || !s.appliesTo(r.Mesh)
	})
}

// CheckValues refuses a value that its setting does not have on any mesh.
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

// SharesEdges reports whether workers of a machine that slice the same partition share its edges in memory.
// They must need them at the same time. If matrices rest, each worker has a disk of its own, and on a card
// memory of its own.
func (r *Resolved) SharesEdges() bool {
	return r.Mesh.Slices > 1 && r.Mesh.Stages == 1 && r.Offload == "" && !r.OnCard() &&
		(r.Mesh.Partitions == 1 || r.Halo == edges.HaloRows)
}

// checkMesh refuses what makes no sense on the mesh.
func (r *Resolved) checkMesh(supplied []string) error {
	o, m := &r.Options, r.Mesh
	for _, s := range settings {
		if s.shared && r.SampleGroups > 1 {
			continue
		}
		if !s.appliesTo(m) && (s.differs(o) || slices.Contains(supplied, s.Name) && !turnsOff(s.Text(o))) {
			return s.refuseUnused(m, o)
		}
	}
	return nil
}

// checkNeeds refuses settings of another task, and settings that need another value of another setting.
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

// checkModel refuses what a model cannot do, and what only its decoupled form can do.
func (r *Resolved) checkModel(supplied []string) error {
	o := &r.Options
	kind, _ := gnn.KindOf(o.Model)
	own := o.Program.Path != ""
	if own && slices.Contains(supplied, "model") {
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
		case own && slices.Contains(supplied, s.Name):
			return s.refuse(o, "is for models that weft knows by name, and not for --program %s; leave it out", o.Program)
		case !kind.Uses(s.Name):
			if slices.Contains(supplied, s.Name) {
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
		case slices.Contains(kind.Settings, s.Name): // only the model's plain blocks use it
			return s.refuse(o, "residual blocks do without it; leave it out, or take --blocks plain")
		default:
			return s.refuse(o, "belongs to a decoupled model; give --decoupled, or leave it out")
		}
	}
	return nil
}

// OwnPass names, as flags with their values, the settings for which an evaluation of a model of these blocks
// needs a pass of its own: the forward pass of the next epoch computes something else, or on another graph.
// "": there is none, and both passes have the same bits.
func (r *Resolved) OwnPass(blocks []gnn.BlockSpec) string {
	var ofBlocks, flags []string
	for _, b := range blocks {
		ofBlocks = append(ofBlocks, b.OwnPass...)
	}
	for _, s := range r.apply() {
		if s.ownPass != nil && s.ownPass(r) || slices.Contains(ofBlocks, s.Name) {
			flags = append(flags, "--"+s.Name+" "+s.Text(&r.Options))
		}
	}
	return strings.Join(flags, ", ")
}

// Exact reports whether training on the mesh gives the results of one worker, up to rounding. It ignores the
// settings named in but.
func (r *Resolved) Exact(but ...string) bool {
	return !slices.ContainsFunc(r.apply(), func(s Setting) bool {
		return s.inexact != nil && s.inexact(r) && !slices.Contains(but, s.Name)
	})
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

// Unused lists the settings, as in "heads", that differ from their default although the model does not use
// them. Resolve refuses such settings if they were given.
func (o *Options) Unused() []string {
	var names []string
	for _, s := range settings {
		if !s.Applies(o) && s.differs(o) && s.Name != "model" {
			names = append(names, s.Name)
		}
	}
	return names
}

// kind is the kind of task.
func (o *Options) kind() task.Kind {
	goal := o.Goal
	if goal.OutFeatures = cmp.Or(goal.OutFeatures, o.Hidden); o.Program.Program != nil {
		goal.OutFeatures = o.Program.Outputs()
	}
	return task.New(goal)
}
