package train

import (
	"context"
	"fmt"
	"math"

	"weft/internal/launch"
	"weft/nn"
	"weft/train/setting"
	"weft/train/worker"
)

// state is the state of a run: everything that its next epoch reads besides the worker's own. It is the same
// on all workers.
type state struct {
	epoch           int // the last one
	losses, seconds []float64
	best            best
	interrupted     bool
	diverged        *Diverged
}

func newState(o *setting.Options) *state {
	return &state{best: best{byLoss: o.Select == setting.SelectLoss, patience: o.Patience}}
}

// train runs epochs until the run is over, and calls told on worker 0 after each.
func (s *state) train(ctx context.Context, w *worker.Worker, told func(Epoch)) error {
	for s.epoch < w.Epochs && !s.over() {
		e, err := s.step(ctx, w)
		if err != nil {
			return err
		}
		if told != nil && w.Ranks().First() {
			told(e)
		}
	}
	return nil
}

// over reports whether the run ends before its last epoch.
func (s *state) over() bool { return s.interrupted || s.diverged != nil || s.best.exhausted(s.epoch) }

// step runs an epoch.
func (s *state) step(ctx context.Context, w *worker.Worker) (e Epoch, err error) {
	s.epoch++
	loss, stop, err := w.TrainEpoch(ctx, s.epoch)
	if err != nil {
		return e, err
	}
	s.losses, s.seconds = append(s.losses, loss), append(s.seconds, w.Pass.Seconds)
	e = Epoch{Epoch: s.epoch, Epochs: w.Epochs, Metric: w.Task.Metric(), Loss: loss, Seconds: w.Pass.Seconds}
	switch {
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		s.diverged = &Diverged{s.epoch, fmt.Sprintf("the loss is %v", loss)}
	case s.epoch%w.EvalEvery == 0 || s.epoch == w.Epochs || stop:
		scores, err := s.evaluate(w)
		if err != nil {
			return e, err
		}
		e.Train, e.Val, e.Test, e.ValLoss, e.Evaluated = scores.Train, scores.Val, scores.Test, scores.ValLoss, true
	}
	s.interrupted = stop && s.epoch < w.Epochs && s.diverged == nil
	e.LiveBytes, e.PeakBytes = w.Team.Memory.LiveTensors(), w.Team.Memory.Peak()
	return e, nil
}

// evaluate measures the model after the epoch, and keeps it if it is the best so far.
func (s *state) evaluate(w *worker.Worker) (worker.Scores, error) {
	scores, err := w.Evaluate()
	if err != nil {
		return scores, err
	}
	s.best.take(s.epoch, scores, w.Params)
	if scores.Fault != "" {
		s.diverged = &Diverged{s.epoch, scores.Fault}
	}
	return scores, nil
}

// finish loads the weights of the best epoch into the worker, and releases what only training needs.
func (s *state) finish(w *worker.Worker) error {
	if s.best.seen < s.epoch && s.diverged == nil { // patience ran out between two evaluations
		if _, err := s.evaluate(w); err != nil {
			return err
		}
	}
	if s.best.epoch == 0 {
		return &launch.Common{Err: s.diverged}
	}
	w.Params.Restore(&s.best.weights)
	w.Optimizer.Release()
	return nil
}

// report writes the run's state into its result.
func (s *state) report(r *Result) {
	r.Epochs, r.Losses, r.EpochSeconds, r.Interrupted, r.Diverged = s.epoch, s.losses, s.seconds, s.interrupted, s.diverged
	b := s.best.scores
	r.BestEpoch, r.Train, r.Val, r.Test, r.ValLoss = s.best.epoch, b.Train, b.Val, b.Test, b.ValLoss
}

// best remembers the best epoch so far.
type best struct {
	epoch    int // 0: none yet
	scores   worker.Scores
	weights  nn.Snapshot
	byLoss   bool // select the lowest validation loss, not the highest metric
	patience int
	lowest   float64 // validation loss
	since    int     // the epoch of the last progress
	seen     int     // the last epoch that was evaluated
}

// take records an epoch's scores, and keeps its weights if it is the best so far.
func (b *best) take(epoch int, s worker.Scores, params *nn.Params) {
	b.seen = epoch
	if s.Fault == "" && b.better(epoch, s) {
		params.Save(&b.weights)
	}
}

// better reports whether the epoch is better than all earlier ones. Without validation vertices every epoch
// is.
func (b *best) better(epoch int, s worker.Scores) bool {
	higher := b.epoch == 0 || math.IsNaN(s.Val) || s.Val > b.scores.Val
	lower := b.epoch == 0 || math.IsNaN(s.ValLoss) || s.ValLoss < b.lowest
	better, progress := higher, higher || lower
	if b.byLoss {
		better, progress = lower, lower
	}
	if lower {
		b.lowest = s.ValLoss
	}
	if progress {
		b.since = epoch
	}
	if better {
		b.epoch, b.scores = epoch, s
	}
	return better
}

// exhausted reports whether patience has run out: for so many epochs the validation loss has not fallen, nor
// the metric risen if that selects the best epoch.
func (b *best) exhausted(epoch int) bool { return b.patience > 0 && epoch-b.since >= b.patience }
