package engine

import (
	"weft/autograd"
	"weft/gnn"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/sar"
)

// Whole is the Engine of a worker that holds all layers: one tape, forward and backward.
type Whole struct {
	Config
	axis     Axis
	features *Features
	params   *nn.Params
	model    *gnn.Model
	reducer  *Reducer
}

// New is the engine that belongs to the mesh: all layers, along the graph axis.
func New(c Config) (Engine, error) {
	p, err := sar.New(c.Team, c.Groups.Halo, c.Share, sar.Options{Prefetch: c.Prefetch, KeepHalo: c.KeepHalo})
	if err != nil {
		return nil, err
	}
	return NewWhole(c, p), nil
}

// NewWhole builds the model in the team's memory, along the edges of a, an axis of the worker's share, and
// copies the features of its rows there.
func NewWhole(c Config, a Axis) *Whole {
	w := &Whole{Config: c, axis: a, params: nn.NewParams(c.Team, c.Seed)}
	w.features = LoadFeatures(c, a)
	w.model = gnn.Build(c.Blocks, 0, len(c.Blocks), gnn.Env{Params: w.params, Relations: a.Relations(), Propagators: a.Propagator})
	w.reducer = NewReducer(c, w.params.List)
	return w
}

// Params are all of the model's.
func (w *Whole) Params() *nn.Params { return w.params }

// Vertices are those whose values this worker computes on.
func (w *Whole) Vertices() []int32 { return w.axis.Vertices() }

// Explain says in which order each site works.
func (w *Whole) Explain() []string { return w.axis.Explain() }

// EdgeColumns is how much this worker has aggregated.
func (w *Whole) EdgeColumns() int64 { return w.axis.EdgeColumns() }

// Train runs the model forward and backward, and sums the gradients over the replicas beside the backward
// pass.
func (w *Whole) Train(epoch int) float64 {
	w.axis.BeginEpoch(epoch)
	t := autograd.NewTrainingTape(w.Team, autograd.Random{Seed: w.Seed, Epoch: epoch})
	t.Ledger = w.reducer.Begin()
	defer w.reducer.Abandon()
	logits := w.model.Until(len(w.model.Blocks), w.features.On(t))
	loss, g := w.Loss(logits)
	t.Backward(autograd.Root{Var: logits, Grad: g})
	exchange.Must(w.reducer.Finish())
	return loss
}

// Infer runs the model forward.
func (w *Whole) Infer(without int) *autograd.Var {
	return autograd.Dense(w.model.Until(len(w.model.Blocks)-without, w.features.On(autograd.NewTape(w.Team))))
}
