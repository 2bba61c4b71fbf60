package engine

import (
	"time"

	"weft/autograd"
	"weft/gnn"
	"weft/nn"
)

// Whole is the Engine of a worker that holds all layers: one tape, forward and backward.
type Whole struct {
	Config
	graph    Graph
	features *Features
	params   *nn.Params
	model    *gnn.Model
	reducer  *reducer // nil where no other worker holds the same parameters
}

// NewWhole builds the model in the team's memory, along the edges of g, which is of the worker's partition, and
// copies the features of its rows there.
func NewWhole(c Config, g Graph) *Whole {
	w := &Whole{Config: c, graph: g, params: nn.NewParams(c.Team, c.Seed)}
	w.features = LoadFeatures(c, g)
	w.model = gnn.Build(c.Blocks, 0, len(c.Blocks), gnn.Env{Params: w.params, Propagators: g.Propagator})
	if c.Training && c.Groups.Replicas.Size() > 1 {
		w.reducer = newReducer(c.Team, c.Groups.Replicas, w.params.List)
	}
	return w
}

// Params are all of the model's.
func (w *Whole) Params() *nn.Params { return w.params }

// Vertices are those whose values this worker computes on.
func (w *Whole) Vertices() []int32 { return w.graph.Vertices() }

// Explain says in which order each site works.
func (w *Whole) Explain() []string { return w.graph.Explain() }

// Waited is the time for rows and for sums of gradients.
func (w *Whole) Waited() time.Duration {
	if w.reducer == nil {
		return w.graph.Waited()
	}
	return w.graph.Waited() + w.reducer.waited
}

// Train runs the model forward and backward, and sums the gradients over the workers beside the backward pass.
func (w *Whole) Train(epoch int) (float64, error) {
	w.graph.BeginEpoch(epoch)
	t := autograd.NewTrainingTape(w.Team, autograd.Random{Seed: w.Seed, Epoch: epoch})
	if w.reducer != nil {
		w.reducer.begin()
		defer w.reducer.abandon()
		t.Ledger = autograd.NewLedger(w.reducer.add)
	}
	logits := w.model.Logits(w.features.On(t))
	loss, g := w.Loss(logits)
	t.Backward(autograd.Root{Var: logits, Grad: g})
	if w.reducer != nil {
		return loss, w.reducer.finish()
	}
	return loss, nil
}

// Infer runs the model forward.
func (w *Whole) Infer(without int) *autograd.Var {
	return w.model.Until(len(w.model.Blocks)-without, w.features.On(autograd.NewTape(w.Team)))
}
