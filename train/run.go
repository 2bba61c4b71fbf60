package train

import (
	"cmp"
	"context"
	"errors"
	"time"

	"weft/comm"
	"weft/internal/trace"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// Plan computes what the run would take, before any work. If ctx is cancelled it returns the cause.
func (j *Job) Plan(ctx context.Context) (plan.Plan, error) { return j.PlanWith(ctx, plan.Asks{}) }

// PlanWith is Plan with all that a plan may be asked.
func (j *Job) PlanWith(ctx context.Context, asks plan.Asks) (p plan.Plan, err error) {
	s, err := j.begin(ctx, nil, asks.Alike)
	if err != nil {
		return p, err
	}
	return j.plan(ctx, s, asks)
}

func (j *Job) plan(ctx context.Context, s *shared, asks plan.Asks) (plan.Plan, error) {
	return plan.Of(ctx, plan.Inputs{
		Config: s.Config, Comm: j.peers(), Threads: j.Threads(s.Resolved), Open: s.open,
		Validation: s.validation, Checkpoints: j.Checkpoints != nil, Asks: asks,
	})
}

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
	if err := j.standards(s); err != nil {
		return nil, err
	}
	if s.DeviceMessages {
		if err := j.ranks().Together(CheckMessages(j.peers())); err != nil {
			return nil, err
		}
	}
	if s.Savings, err = j.checkLimit(ctx, s, planned); err != nil {
		return nil, err
	}
	ranks := make([]int, s.Workers)
	profiles := make([]*trace.Profile, s.Workers)
	for _, worker := range s.Holders() {
		ranks[worker]++
	}
	for worker, n := range ranks {
		profiles[worker] = trace.NewProfile(trace.Clock, n)
	}
	err = j.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		return s.validation(s.Mesh.Coords(c.Rank()).Partition, func(other *worker.Validation) error {
			config := s.Config
			var err error
			if config.Recorder, err = worker.NewRecorder(c, j.Trace,
				profiles[s.Holders()[c.Rank()]]); err != nil {
				return err
			}
			result, err := j.work(ctx, config, team, c, share, other)
			if j.isReporter(s, c) {
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

// checkLimit refuses a run whose plan exceeds the memory limit of any process. It returns the savings of the
// plan or, without a limit, of the settings. It also sets which states of edges are kept.
func (j *Job) checkLimit(ctx context.Context, s *shared, p *plan.Plan) (savings worker.Savings, err error) {
	ranks := j.ranks()
	limit, err := ranks.Largest(int64(s.MemoryLimit))
	if limit == 0 && s.Offload == "" && s.Cards == nil || err != nil {
		s.set(func(o *setting.Options) { o.KeepEdgeStates = s.EdgeStates()[0] })
		return worker.Savings{Recompute: s.Recomputes()[0]}, err
	}
	if p == nil {
		made, err := j.plan(ctx, s, plan.Asks{})
		if err := ranks.Together(err); err != nil {
			return savings, err
		}
		p = &made
	}
	s.set(func(o *setting.Options) { o.KeepEdgeStates = p.EdgeStates })
	s.Limit, s.Reserves, s.Rests = p.Limit, p.Reserves(), nil
	for i := range p.Workers {
		s.Rests = append(s.Rests, p.Workers[i].DiskBytes)
	}
	if s.Cards != nil {
		card := *p.Cards
		if s.Offload == "" || p.InMemory { // some room is left, so that extents move less often
			_, needs := p.Most()
			card.Bytes = min(card.Bytes, needs+needs/8)
		}
		s.Cards = &card
	}
	if p.InMemory {
		s.set(func(o *setting.Options) { o.Offload = "" })
	}
	return p.Savings, ranks.Together(cmp.Or(p.CheckLimit(s.MemoryLimit),
		p.CheckHost(s.HostMemoryLimit, j.LocalWorkers)))
}

// standards says how features are standardised: as in the run that continues, or as the initial weights
// expect, if these say so. Other features have the graph's own means and deviations. All processes call it.
func (j *Job) standards(s *shared) error {
	if j.Checkpoints != nil && j.Checkpoints.From != nil {
		var r Record
		err := j.Checkpoints.From.State(&r)
		s.Standard = r.Standard
		return j.ranks().Together(err)
	}
	if s.Init == "" {
		return nil
	}
	weights, err := worker.ReadInit(s.Init)
	s.Started = worker.StandardOf(weights, s.Resolved, s.whole)
	return j.ranks().Together(err)
}

// work is the work of one worker.
func (j *Job) work(ctx context.Context, c worker.Config, team *kernel.Team, world *comm.Comm,
	share *partition.Share, other *worker.Validation,
) (r *Result, err error) {
	w, err := worker.New(c, team, world, share, other)
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
	s := newState(&c.Options, j.Started, w.Task.Metric())
	s.reads = w.Reads()
	if w.Ranks().First() {
		s.told = j.OnEpoch
	}
	s.saver = newSaver(j.Checkpoints, w, j.columns)
	defer func() { err = errors.Join(err, s.saver.close()) }()
	if err := s.resume(j.Checkpoints, w, j.OnResume); err != nil {
		return nil, err
	}
	if err := s.train(ctx, w); err != nil {
		return nil, err
	}
	r = &Result{
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
	if r.Trace, err = w.Trace(); err != nil {
		return nil, err
	}
	if err := s.finish(w); err != nil {
		return nil, err
	}
	s.report(r)
	team.Memory.Drain() // before the caller gets copies of weights and predictions
	if r.Weights, err = w.Weights(); err != nil {
		return nil, err
	}
	err = w.Ranks().OnFirst(func() error {
		if j.OnWeights == nil {
			return nil
		}
		return j.OnWeights(r.Weights)
	})
	if err != nil {
		return nil, err
	}
	report := func(output *tensor.Matrix) (err error) { // the best epoch's output is finite
		w.Task.Predict(output)
		r.Links, err = w.Task.Report(output)
		return err
	}
	if err := w.Results(0, report, worker.OrKeep(j.OnLogits, &r.Logits, nil)); err != nil {
		return nil, err
	}
	if j.OnEmbeddings != nil {
		if err := w.Results(1, func(*tensor.Matrix) error { return nil }, j.OnEmbeddings); err != nil {
			return nil, err
		}
	}
	r.Totals, err = w.Totals()
	return r, err
}
