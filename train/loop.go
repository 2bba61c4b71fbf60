package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"weft/comm/launch"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/worker"
)

// state is the state of a run: everything that its next epoch reads, but for the worker's own state. It is
// the same on all workers.
type state struct {
	progress
	told     func(Epoch) // called with each epoch that is done; nil: nobody is told
	done     int         // how many epochs of the curve told has had
	reads    bool        // worker.Worker.Reads
	epochs   int         // how many epochs the run has, unless it ends before
	stopped  Ended       // why the run stops after this epoch; "": it goes on
	diverged *Diverged

	saver    *saver // nil: there are no checkpoints
	deadline time.Time
	longest  time.Duration // the longest time of an epoch, with evaluation and checkpoint
	begun    time.Time     // when the epoch began
}

func newState(o *setting.Options, started time.Time, name string) *state {
	s := &state{epochs: o.Epochs, progress: progress{best: best{
		byLoss: o.Select == setting.SelectLoss, smaller: metric.SmallerIsBetter(name),
		patience: o.Patience,
	}}}
	if o.MaxTime > 0 {
		s.deadline = started.Add(o.MaxTime)
	}
	return s
}

// train runs epochs until the run is over.
func (s *state) train(ctx context.Context, w *worker.Worker) error {
	w.Begin()
	for s.epoch < w.Epochs && !s.over() {
		s.begun = time.Now()
		if err := s.step(ctx, w); err != nil {
			return err
		}
		s.longest = max(s.longest, time.Since(s.begun))
		s.tell()
	}
	return s.saver.settle()
}

// pending is the last epoch if the forward pass of the next one evaluates it; else nil.
func (s *state) pending() *Epoch {
	n := len(s.curve)
	if !s.reads || n == 0 || s.curve[n-1].Evaluated || s.diverged != nil {
		return nil
	}
	return &s.curve[n-1]
}

// finished are the epochs of the curve without a pending one.
func (s *state) finished() []Epoch {
	if s.pending() != nil {
		return s.curve[:len(s.curve)-1]
	}
	return s.curve
}

// tell calls told with the epochs that have finished since the last call.
func (s *state) tell() {
	for finished := s.finished(); s.done < len(finished); s.done++ {
		if s.told != nil {
			s.told(finished[s.done])
		}
	}
}

// over reports whether the run ends before its last epoch.
func (s *state) over() bool {
	return s.stopped != "" || s.diverged != nil || s.pending() == nil && s.best.exhausted(s.epoch)
}

// ends reports whether the run ends or stops after this epoch.
func (s *state) ends(w *worker.Worker) bool { return s.epoch == w.Epochs || s.stopped != "" }

// step runs an epoch, unless its forward pass finds that the run has ended with the epoch before.
func (s *state) step(ctx context.Context, w *worker.Worker) error {
	defer w.EndProfile()
	epoch := s.epoch + 1
	loss, asked, err := w.TrainEpoch(epoch, s.reader(w), func() worker.Asks { return s.asks(ctx, w, epoch) })
	switch {
	case err != nil:
		return err
	case s.diverged != nil:
		return nil
	case s.over():
		return s.saver.save(&s.progress, worker.Writing, true)
	}
	s.epoch = epoch
	s.drainAtEnd(w)
	e := Epoch{
		Epoch: s.epoch, Epochs: w.Epochs, Metric: w.Task.Metric(), Loss: loss,
		LR: w.LR * w.Rate.Factor(s.epoch), Seconds: w.LastPass.Seconds,
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		s.diverged = &Diverged{s.epoch, fmt.Sprintf("the loss is %v", loss)}
	} else if w.EvaluatesAfter(epoch) {
		if err := s.evaluate(w, &e); err != nil {
			return err
		}
	}
	s.saver.allocate(&s.progress)
	e.LiveBytes, e.PeakBytes = w.Team.Memory.LiveTensors(), w.Team.Memory.Peak()
	s.curve = append(s.curve, e)
	if s.ended() == EndedDiverged {
		return nil
	}
	switch {
	case s.ends(w): // it ends by itself
	case asked&worker.Stop != 0:
		s.stopped = EndedSignal
	case asked&worker.TimeUp != 0:
		s.stopped = EndedTime
	}
	if err := s.saver.save(&s.progress, asked, s.ends(w) || s.over()); err != nil {
		return err
	}
	return s.evaluateLast(w)
}

// reader returns a function that takes the scores of the pending epoch, and reports whether the run ends with
// it. Without a pending epoch it returns nil.
func (s *state) reader(w *worker.Worker) func(worker.Scores) bool {
	e := s.pending()
	if e == nil {
		return nil
	}
	return func(scores worker.Scores) bool {
		s.measured(w, e, scores)
		s.tell()
		return s.over()
	}
}

// asks is what this worker asks of all workers at the end of an epoch.
func (s *state) asks(ctx context.Context, w *worker.Worker, epoch int) (asks worker.Asks) {
	if ctx.Err() != nil {
		asks |= worker.Stop
	}
	// Another epoch takes as long as the longest so far, and so do the results. A checkpoint takes as long as
	// the last one.
	if soon := max(s.longest, time.Since(s.begun))*2 + s.saver.lasts(); !s.deadline.IsZero() &&
		w.Ranks().First() && time.Until(s.deadline) < soon {
		asks |= worker.TimeUp
	}
	return asks | s.saver.asks(epoch)
}

// evaluate measures the model after the epoch, by a pass of its own.
func (s *state) evaluate(w *worker.Worker, e *Epoch) error {
	scores, err := w.Evaluate()
	s.drainAtEnd(w)
	if err == nil {
		s.measured(w, e, scores)
	}
	return err
}

// drainAtEnd gives idle memory back after the last epoch and its evaluation. What follows takes less of it,
// and results take memory of Go and pages of files.
func (s *state) drainAtEnd(w *worker.Worker) {
	if s.ends(w) && w.Offload == "" {
		w.Team.Memory.Drain()
	}
}

// measured takes the scores of the model after the epoch, and keeps it if it is the best so far.
func (s *state) measured(w *worker.Worker, e *Epoch, scores worker.Scores) {
	s.best.take(e.Epoch, scores, w.Params)
	if scores.Fault != "" {
		s.diverged = &Diverged{e.Epoch, scores.Fault}
	}
	e.Scores, e.Evaluated = scores.Scores, true
	w.Rate.Observe(e.Epoch, s.best.measure(e))
}

// evaluateLast measures the model if the run ends or stops after an epoch that is not otherwise evaluated, or
// continues from an epoch that the next one does not evaluate. A checkpoint of the epoch does not hold the
// scores: a run that goes on would not have measured it.
func (s *state) evaluateLast(w *worker.Worker) error {
	n := len(s.curve)
	due := s.ends(w) || w.EvaluatesAfter(s.epoch)
	if due && n > 0 && !s.curve[n-1].Evaluated && s.diverged == nil {
		return s.evaluate(w, &s.curve[n-1])
	}
	return nil
}

// finish loads the weights of the best epoch into the worker, and releases what only training needs.
func (s *state) finish(w *worker.Worker) error {
	if s.best.seen < s.epoch && s.diverged == nil { // patience ran out between two evaluations
		if err := s.evaluate(w, &Epoch{Epoch: s.epoch}); err != nil {
			return err
		}
	}
	if s.best.epoch == 0 {
		return &launch.Common{Err: s.diverged}
	}
	w.Params.Restore(&s.best.weights)
	w.Optimizer.Release()
	s.saver.release()
	return nil
}

// ended is why the run ended.
func (s *state) ended() Ended {
	switch {
	case s.diverged != nil:
		return EndedDiverged
	case s.stopped == "" && (s.epoch < s.epochs || s.best.exhausted(s.epoch)):
		return EndedPatience
	case s.stopped == "":
		return EndedEpochs
	}
	return s.stopped
}

// report writes the run's state into its result.
func (s *state) report(r *Result) {
	r.Epochs = s.epoch
	r.Ended = s.ended()
	r.Diverged = s.diverged
	for _, e := range s.curve {
		r.Losses, r.EpochSeconds = append(r.Losses, e.Loss), append(r.EpochSeconds, e.Seconds)
	}
	if s.saver != nil {
		r.Checkpoints = s.saver.totals
	}
	r.BestEpoch, r.Scores = s.best.epoch, s.best.scores
}
