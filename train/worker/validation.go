package worker

import (
	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/task"
)

// Validation is another graph, whose validation and test vertices select and measure the model.
type Validation struct {
	Config                   // the run's Config, for this graph
	Share   *partition.Share // of this worker's partition
	Dataset string           // the graph's name in errors
}

// named prefixes a refusal of the graph with the setting and the graph.
func (v *Validation) named(err error) error {
	if !refusal.Is(err) {
		return err
	}
	return &launch.Common{Err: refusal.Errorf("--validate %s: %v", v.Dataset, err)}
}

// onOther makes the worker that computes the model on another graph.
func (w *Worker) onOther(other *Validation, world *comm.Comm) (*Worker, error) {
	c := other.Config
	c.Savings, c.Resolved = w.Savings, c.Keeping(w.KeepEdgeStates)
	for kind := range other.Share.Whole.Types {
		c.Standard = append(c.Standard, w.Standard[w.Share.Whole.TypeLike(&other.Share.Whole, kind)])
	}
	v, err := NewInference(c, w.Team, world, other.Share)
	if err != nil {
		return nil, other.named(err)
	}
	v.Task, err = c.Kind.Begin(task.Env{
		Team: w.Team, World: v.Groups.World, Share: other.Share, Vertices: v.Inference.Vertices(),
		Params: v.Params, Trained: w.Task, Loss: v.ownLoss(),
	})
	if err != nil {
		return nil, other.named(err)
	}
	if err := v.Params.Like(w.Params); err != nil {
		return nil, other.named(err)
	}
	return v, nil
}

// Validates reports whether any worker has something to validate on, as far as this worker knows.
func (w *Worker) Validates() bool { return w.validation().Validates() }

// validation is the task on the graph on which the model is validated.
func (w *Worker) validation() task.Task {
	if w.validates != nil {
		return w.validates.Task
	}
	return w.Task
}
