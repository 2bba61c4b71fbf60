package engine

import (
	"weft/autograd"
	"weft/checkpoint"
	"weft/gnn"
	"weft/graph"
	"weft/internal/trace"
	"weft/nn"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/tensor"
)

// Whole is the Engine of a worker that holds all layers: one tape, forward and backward.
type Whole struct {
	Config
	axis     Axis
	features []*features // by vertex type
	params   *nn.Params
	model    gnn.Model
	vertices []int32 // of the result, by original id, ascending; nil: all
	reducer  *reducer
}

// New makes the mesh's engine: a Pipeline if there are several stages, else a Whole. A Whole aggregates along
// the graph axis, or along the tensor axis if partitions have several slices.
func New(c Config) (Engine, error) {
	if c.Groups.Mesh.Stages > 1 {
		return newPipeline(c)
	}
	if c.Groups.Mesh.Slices > 1 {
		a, err := tp.New(c.env(), c.Options.Options)
		if err != nil {
			return nil, err
		}
		return newWhole(c, a), nil
	}
	p, err := sar.New(c.env(), c.Options.Options)
	if err != nil {
		return nil, err
	}
	return newWhole(c, p), nil
}

// newWhole builds the model in the team's memory, along the axis a of the worker's share. It copies the
// features of the axis' rows there.
func newWhole(c Config, a Axis) *Whole {
	w := &Whole{Config: c, axis: a, params: nn.NewParams(c.Team, c.Seed), vertices: a.Vertices()}
	if c.Outputs != nil {
		n := c.numbering()
		w.vertices = n.List(c.Share, a.Places)
	}
	w.params.InitScheme = c.InitScheme
	w.features = loadAllFeatures(c, a)
	slicer, _ := a.(gnn.Slicer)
	w.model = gnn.Build(c.Blocks, 0, len(c.Blocks), gnn.Env{
		Params: w.params, Schema: a.Schema(), Rows: a.Types(), Propagators: a.Propagator, Slicer: slicer,
		Degrees: c.Degrees, Explain: c.Explain,
	})
	w.reducer = newReducer(c, w.params.List)
	return w
}

// Params are all parameters of the model.
func (w *Whole) Params() *nn.Params { return w.params }

// Vertices are the vertices whose values this worker computes.
func (w *Whole) Vertices() []int32 { return w.vertices }

// Inputs implements Engine.
func (w *Whole) Inputs() (rows []*autograd.RowSet) { return w.axis.Types() }

// Arrays implements Engine: nothing passes from one epoch to the next.
func (w *Whole) Arrays() []checkpoint.Array { return nil }

// Restore implements Engine.
func (w *Whole) Restore(*checkpoint.Checkpoint) error { return nil }

// wholePass is a Whole's Pass. It owns the tape of the outputs.
type wholePass struct {
	whole   *Whole
	tape    *autograd.Tape
	input   gnn.State
	outputs []*autograd.Var
	call    Call
}

// Forward implements Engine.
func (w *Whole) Forward(c Call) Pass {
	w.barrier()
	w.axis.BeginEpoch(c.Epoch)
	w.features[0].labels.show(c.Epoch)
	t := c.tape(w.Team)
	t.Ledger, t.Recompute = w.reducer.ledger(), w.Recompute
	w.observe(t, trace.Forward)
	span := w.Trace.Begin(trace.Phase, "forward", trace.Args{})
	defer span.End()
	in := input(w.features, t, &c)
	outputs := w.model.Forward(in).Outputs(w.Outputs...)
	for k, v := range outputs {
		outputs[k] = inFloat32(v)
	}
	return &wholePass{w, t, in, outputs, c}
}

// Outputs implements Pass.
func (p *wholePass) Outputs() []*autograd.Var { return p.outputs }

// EdgeNumbers implements Pass.
func (p *wholePass) EdgeNumbers(output int, numbering *edges.Numbering) []int64 {
	states := p.whole.Blocks[len(p.whole.Blocks)-1].EdgeOutputs
	numbers, err := p.whole.axis.EdgeNumbers(p.tape, states[output-len(p.outputs)+len(states)], numbering)
	exchange.Must(err)
	return numbers
}

// EdgeNumbers implements Inference.
func (w *Whole) EdgeNumbers(relation *graph.Relation) (numbers []int64) {
	return w.edgeNumbers(relation, w.axis.Places, func(s gnn.EdgeState, n *edges.Numbering) []int64 {
		numbers, err := w.axis.EdgeNumbers(autograd.NewTape(w.Team), s, n)
		exchange.Must(err)
		return numbers
	})
}

// Backward implements Pass. It sums gradients over the replicas beside the backward pass.
func (p *wholePass) Backward(roots ...autograd.Root) []*tensor.Matrix {
	exchange.Must(p.whole.reducer.Beside(func() {
		span := p.whole.Trace.Begin(trace.Phase, "backward", trace.Args{})
		p.tape.Backward(roots...)
		span.End()
	}))
	return p.call.gradients(p.input)
}

// Discard implements Pass.
func (p *wholePass) Discard() {
	drop(p.outputs)
	p.tape.Discard()
}

// Infer runs the model forward.
func (w *Whole) Infer(without int) *autograd.Var {
	w.barrier()
	w.features[0].labels.show(0)
	in := input(w.features, autograd.NewTape(w.Team), &Call{})
	return inFloat32(w.model[:len(w.model)-without].Forward(in).Output(w.Outputs...))
}

// barrier waits until all partitions of the worker begin a pass. Within a pass they take turns in the same
// order on all workers, as the all-to-alls of the tensor axis need.
func (w *Whole) barrier() { w.Groups.Replicas.LocalBarrier() }
