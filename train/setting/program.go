package setting

import (
	"io"
	"slices"

	"weft/gnn"
	"weft/nn"
	"weft/parallel/axis"
	"weft/partition"
	"weft/program"
)

// ProgramFile is the name of a run's program in its directory.
const ProgramFile = "program.json"

// Program is a file with the caller's own model, as package program reads it. The zero value is none.
type Program struct {
	Path             string
	*program.Program // nil: there is none, or it has not been read
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Program) UnmarshalText(text []byte) error {
	*p = Program{Path: string(text)}
	return nil
}

// String is the path.
func (p Program) String() string { return p.Path }

// has reports whether the program has one of the operations.
func (p Program) has(operations ...string) bool {
	return p.Program != nil && slices.ContainsFunc(p.Operations, func(o program.Operation) bool {
		return slices.Contains(operations, o.Op)
	})
}

// Unread removes from weights what the program has. The rest belongs to the caller's model, and no operation
// reads it.
func (p Program) Unread(weights nn.State) {
	for _, q := range p.Parameters {
		for _, name := range append(q.Aliases, q.Name) {
			delete(weights, name)
		}
	}
}

// Alias gives the weights of a program all the names that they have in the caller's model.
func (p Program) Alias(weights nn.State) {
	if p.Program == nil {
		return
	}
	for _, q := range p.Parameters {
		for _, name := range q.Aliases {
			weights[name] = weights[q.Name]
		}
	}
}

// Fit sets the decay of a program's parameters, the same for all as in PyTorch's optimizers, or their own
// rates and decays. It fixes the parameters that the program does not train.
func (p Program) Fit(params []*nn.Param) {
	for _, param := range params {
		q := p.Parameter(param.Name)
		if q == nil {
			continue
		}
		param.Decay, param.OwnDecay, param.Fixed = nn.WeightDecay, q.Decay, !q.Trained
		if q.Rate != nil {
			param.Rate = *q.Rate
		}
	}
}

// readProgram reads a program. The model then has the name of its class.
func (o *Options) readProgram(f io.Reader) (err error) {
	if o.Program.Program, err = program.Read(f); err != nil {
		return err
	}
	o.Model = o.Program.Class
	if _, known := gnn.KindOf(o.Model); known {
		o.Model += " (program)"
	}
	return nil
}

// ReadsWeights reports whether the model uses the weights of edges.
func (o *Options) ReadsWeights() bool {
	if o.Program.Program != nil {
		return o.Program.ReadsWeights()
	}
	kind, _ := gnn.KindOf(o.Model)
	return kind.EdgeWeights
}

// OverAll names, as flags, what takes a mean over all vertices, so that no vertex can be predicted without
// the others; "": nothing does.
func (o *Options) OverAll() string {
	switch {
	case gnn.OverAll(o.Norm) && o.Uses("norm"):
		return "--norm " + o.Norm
	case o.Program.readsAll():
		return "--program " + o.Program.Path
	}
	return ""
}

// overAll are the operations of a program over all vertices, in training and in evaluation.
var overAll = []string{"row_sum", "row_mean", "row_max", "row_min"}

// readsAll reports whether each row of the output depends on all vertices, also in evaluation.
func (p Program) readsAll() bool {
	return p.has(overAll...) ||
		p.Program != nil && slices.ContainsFunc(p.Operations, func(o program.Operation) bool {
			return o.Op == "batch_norm" && o.Mean == ""
		})
}

// Blocks describes the model: the program, or the model that is known by name.
func (r *Resolved) Blocks(schema gnn.Schema, outputs int) ([]gnn.BlockSpec, error) {
	if r.Program.Program == nil {
		return r.Spec.Blocks(schema, outputs)
	}
	return r.Program.Keeping(r.KeepEdgeStates.Every()).Blocks(schema, outputs, r.Mesh.Stages)
}

// PassesSome reports whether a pass may compute only some vertices, with the results of a pass over all. With
// a memory limit it may not: the limit is for passes over all vertices, whose memory a plan knows.
func (r *Resolved) PassesSome(training bool) bool {
	if r.CheckSome() != nil || r.TakesTurns() || r.OnCard() || r.MemoryLimit > 0 || r.Offload != "" {
		return false
	}
	return !training || !r.Program.has("batch_norm") && r.DropEdge == 0 &&
		r.WireSchedule == (axis.WireSchedule{})
}

// BlocksApart is Blocks for a pass of a program that computes only some vertices.
func (r *Resolved) BlocksApart(s *partition.Share, outputs int) ([]gnn.BlockSpec, error) {
	schema, err := r.schemaOf(s, outputs)
	if err != nil {
		return nil, err
	}
	if !r.Undecoded {
		return r.Program.Keeping(r.KeepEdgeStates.Every()).BlocksApart(schema, outputs)
	}
	decoder, err := r.edgeDecoder(s, outputs)
	if err != nil {
		return nil, err
	}
	model, err := r.programFor(decoder.Relation)
	if err != nil {
		return nil, err
	}
	return model.BlocksApart(schema, 0)
}

// programFor is the program. If it is Undecoded, it ends before its function of the relation's edges.
func (r *Resolved) programFor(relation string) (*program.Program, error) {
	if r.Undecoded {
		return r.Program.Undecoded(relation)
	}
	return r.Program.Keeping(r.KeepEdgeStates.Every()), nil
}

// Widths returns the numbers of features and outputs of the model, as its weights or its program tell them;
// 0: they do not.
func (o *Options) Widths(weights nn.State) (features, outputs int) {
	if o.Program.Program == nil {
		return o.Spec.Widths(weights)
	}
	for _, operation := range o.Program.Operations {
		if operation.Op == "features" && operation.TypeName == o.Program.OutputType() {
			features = operation.Shape[0]
		}
	}
	return features, o.Program.Outputs()
}

var programSetting = Setting{
	Name: "program", keeps: &kept{
		name: ProgramFile, is: "it names the program.json of a run",
		text: func(o *Options) (string, []byte) {
			if o.Program.Program == nil {
				return "", nil
			}
			return o.Program.Class, o.Program.Text()
		},
		read: (*Options).readProgram,
	}, Meaning: "`file` with a model of your own, which the Python " +
		"package writes, in place of --model; its weights come from --init",
	check: func(s Setting, r *Resolved) error {
		operations := append([]string{"batch_norm"}, overAll...)
		if r.Mesh.Stages > 1 && inChunks(r) && r.Program.has(operations...) {
			return s.refuseOnMesh(r, "it takes a mean over all vertices, of which a stage has one chunk at a "+
				"time; take --chunks %[3]d: a chunk for each partition", r.Mesh.Partitions)
		}
		return nil
	},
}
