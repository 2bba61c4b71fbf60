package engine

import (
	"weft/autograd"
	"weft/gnn"
	"weft/internal/trace"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/parallel/tensor"
)

// Whole is the Engine of a worker that holds all layers: one tape, forward and backward.
type Whole struct {
	Config
	axis     Axis
	features []*features // by vertex type
	params   *nn.Params
	model    gnn.Model
	reducer  *reducer
}

// New is the engine that belongs to the mesh: all layers, along the graph axis, and inside its partitions
// along the tensor axis where that has several workers.
func New(c Config) (Engine, error) {
	if c.Groups.Mesh.Stages > 1 {
		return newPipeline(c)
	}
	o := sar.Options{Prefetch: c.Prefetch, KeepHalo: c.KeepHalo, Aggregated: c.Aggregated}
	if c.Groups.Mesh.Slices > 1 {
		a, err := tensor.New(c.Team, c.Groups, c.Share, c.Order, tensor.Options{Options: o, Chunks: c.AggregationChunks, Redistributed: c.Redistributed})
		if err != nil {
			return nil, err
		}
		return newWhole(c, a), nil
	}
	p, err := sar.New(c.Team, c.Groups, c.Share, c.Order, o)
	if err != nil {
		return nil, err
	}
	return newWhole(c, p), nil
}

// newWhole builds the model in the team's memory, along the edges of a, an axis of the worker's share, and
// copies the features of its rows there.
func newWhole(c Config, a Axis) *Whole {
	w := &Whole{Config: c, axis: a, params: nn.NewParams(c.Team, c.Seed)}
	w.features = loadAllFeatures(c, a)
	w.model = gnn.Build(c.Blocks, 0, len(c.Blocks), gnn.Env{Params: w.params, Schema: a.Schema(), Rows: a.Types(), Propagators: a.Propagator})
	w.reducer = newReducer(c, w.params.List)
	return w
}

// Params are all of the model's.
func (w *Whole) Params() *nn.Params { return w.params }

// Vertices are those whose values this worker computes on.
func (w *Whole) Vertices() []int32 { return w.axis.Vertices() }

// Train runs the model forward and backward, and sums the gradients over the replicas beside the backward
// pass.
func (w *Whole) Train(epoch int) (loss float64) {
	w.axis.BeginEpoch(epoch)
	exchange.Must(w.reducer.Beside(func(l *autograd.Ledger) {
		t := autograd.NewTrainingTape(w.Team, autograd.Random{Seed: w.Seed, Epoch: epoch})
		t.Ledger = l
		span := w.Trace.Begin(trace.Phase, "forward", trace.Args{})
		logits := w.model.Forward(input(w.features, t)).Output()
		root := autograd.Root{Var: logits}
		loss, root.Grad = w.Loss(logits)
		span.End()
		span = w.Trace.Begin(trace.Phase, "backward", trace.Args{})
		t.Backward(root)
		span.End()
	}))
	return loss
}

// Infer runs the model forward.
func (w *Whole) Infer(without int) *autograd.Var {
	in := input(w.features, autograd.NewTape(w.Team))
	return autograd.Dense(w.model[:len(w.model)-without].Forward(in).Output())
}
