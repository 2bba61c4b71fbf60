package train

import (
	"context"
	"errors"
	"time"

	"weft/comm"
	"weft/internal/trace"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
	"weft/train/plan"
	"weft/train/task"
	"weft/train/worker"
)

// Run trains. Before any work it refuses a run that would exceed the memory limit. When ctx is cancelled it
// finishes the epoch and keeps the results; before the first epoch it returns the cause. A run that diverges
// keeps the results of the best epoch so far; without one its error wraps a Diverged. After an error that
// wraps a Common, Comm still works; any other error has ended it.
func (j *Job) Run(ctx context.Context) (*Result, error) { return j.RunPlanned(ctx, nil) }

// RunPlanned is Run with the result of Plan for the same job. nil: it plans itself if there is a memory
// limit, or matrices rest on disk.
func (j *Job) RunPlanned(ctx context.Context, planned *plan.Plan) (r *Result, err error) {
	if j.Started.IsZero() {
		defer func() { j.Started = time.Time{} }()
		j.Started = time.Now()
	}
	s, err := j.begin(ctx, nil, false)
	if err != nil {
		return nil, err
	}
	t := &trainingSession{session: s}
	if err := t.prepare(ctx, planned); err != nil {
		return nil, err
	}
	err = s.eachWorker(func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		return s.validation(s.Mesh.Coords(c.Rank()).Partition, func(other *worker.Validation) error {
			result, err := t.train(ctx, team, c, share, other)
			if s.isReporter(c) {
				r = result
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// trainingSession is a session whose workers train.
type trainingSession struct {
	*session
	profiles []*trace.Profile // by worker, for its ranks
}

// prepare does what comes before the work: it refuses what exceeds a limit. All processes call it.
func (t *trainingSession) prepare(ctx context.Context, planned *plan.Plan) (err error) {
	if err = t.standardise(); err != nil {
		return err
	}
	if ranks := t.job.ranks(); t.DeviceMessages {
		if err = ranks.Together(CheckMessages(ranks.Comm)); err != nil {
			return err
		}
	}
	if t.Savings, err = t.checkLimit(ctx, planned); err != nil {
		return err
	}
	ranks := make([]int, t.Workers)
	for _, worker := range t.Holders() {
		ranks[worker]++
	}
	for _, n := range ranks {
		t.profiles = append(t.profiles, trace.NewProfile(trace.Clock, n))
	}
	return nil
}

// standardise says how features are standardised: as in the run that continues, or as the initial weights
// expect, if these say so. Other features have the graph's own means and deviations.
func (t *trainingSession) standardise() error {
	if c := t.job.Checkpoints; c != nil && c.From != nil {
		var record Record
		err := c.From.State(&record)
		t.Standard = record.Standard
		return t.job.ranks().Together(err)
	}
	if t.Init == "" {
		return nil
	}
	weights, err := worker.ReadInit(t.Init)
	t.Started = worker.StandardOf(weights, t.Resolved, t.whole)
	return t.job.ranks().Together(err)
}

// train trains as one worker.
func (t *trainingSession) train(ctx context.Context, team *kernel.Team, c *comm.Comm, share *partition.Share,
	other *worker.Validation,
) (result *Result, err error) {
	j, config := t.job, t.Config
	config.Recorder, err = worker.NewRecorder(c, j.Trace, t.profiles[t.Holders()[c.Rank()]])
	if err != nil {
		return nil, err
	}
	w, err := worker.New(config, team, c, share, other)
	if err != nil {
		return nil, err
	}
	if j.Checkpoints == nil || j.Checkpoints.From == nil {
		if err := w.LoadInit(); err != nil {
			return nil, err
		}
	}
	// before the first epoch there is nothing to keep
	if err := w.Ranks().Together(context.Cause(ctx)); err != nil {
		return nil, err
	}
	loop := newState(&t.Options, j.Started, w.Task.Metric())
	loop.reads = w.Reads()
	if w.Ranks().First() {
		loop.told = j.OnEpoch
	}
	loop.saver = newSaver(j.Checkpoints, w, j.inputs.columns)
	defer func() { err = errors.Join(err, loop.saver.close()) }()
	if err := loop.resume(j.Checkpoints, w, j.OnResume); err != nil {
		return nil, err
	}
	if err := loop.train(ctx, w); err != nil {
		return nil, err
	}
	result = newResult(w, share, other)
	if result.Trace, err = w.Trace(); err != nil {
		return nil, err
	}
	if err := loop.finish(w); err != nil {
		return nil, err
	}
	loop.report(result)
	team.Memory.Drain() // before the caller gets copies of weights and predictions
	return result, t.compute(result, w)
}

// newResult describes what is trained on.
func newResult(w *worker.Worker, share *partition.Share, other *worker.Validation) *Result {
	r := &Result{
		Metric: w.Task.Metric(), Whole: share.Whole, Learned: *task.FrameOf(w.Kind, &share.Whole),
		Passed: task.PassedOf(w.Kind, &share.Whole),
	}
	for _, relation := range share.Edges.Relations {
		r.Relations = append(r.Relations, relation.Name)
		r.Weighted = r.Weighted || relation.In.Weights != nil
	}
	if other != nil {
		r.Validation = &other.Share.Whole
	}
	return r
}

// compute computes what a result has of the best epoch, with its weights.
func (t *trainingSession) compute(result *Result, w *worker.Worker) (err error) {
	j := t.job
	if result.Weights, err = w.Weights(); err != nil {
		return err
	}
	err = w.Ranks().OnFirst(func() error {
		if j.OnWeights == nil {
			return nil
		}
		return j.OnWeights(result.Weights)
	})
	if err != nil {
		return err
	}
	report := func(output *tensor.Matrix) (err error) { // the best epoch's output is finite
		w.Task.Predict(output)
		result.Links, err = w.Task.Report(output)
		return err
	}
	if err := w.Results(0, report, worker.OrKeep(j.OnLogits, &result.Logits, nil)); err != nil {
		return err
	}
	if j.OnEmbeddings != nil {
		if err := w.Results(1, func(*tensor.Matrix) error { return nil }, j.OnEmbeddings); err != nil {
			return err
		}
	}
	result.Totals, err = w.Totals()
	return err
}
