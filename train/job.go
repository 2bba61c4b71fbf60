// Package train trains a model: epochs, evaluation, early stopping, and predictions with the weights.
package train

import (
	"context"
	"errors"
	"time"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/launch"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

type (
	// Options are all settings of a run.
	Options = setting.Options
	// Rows is a result for each vertex.
	Rows = worker.Rows
	// Common is an error that all workers return at the same point of their work. Their connection still
	// works.
	Common = launch.Common
)

// Defaults are the default options.
func Defaults() Options { return setting.Defaults() }

// RowsOf are values in rows of so many columns, such as the logits of a Result.
func RowsOf(values []float32, columns int) Rows { return worker.RowsOf(values, columns) }

// Job is the training of a model on a graph. It can run again, with whatever its caller changes:
//
//	job := train.Job{Graph: g, Options: train.Defaults()}
//	job.OnEpoch = func(e train.Epoch) { fmt.Println(e.Epoch, e.Loss) }
//	for seed := range uint64(5) {
//		job.Options.Seed = seed
//		result, err := job.Run(ctx)
//		if err != nil {
//			return err
//		}
//		fmt.Println(seed, result.Metric, result.Test)
//	}
type Job struct {
	Graph   *graph.Graph // nil if Parts holds it
	Parts   *Parts       // the graph's partitions; nil: each call divides Graph, as MakeParts does
	Dataset string       // the graph's name in reports
	Options Options
	// Validate has another graph, whose validation and test vertices select and measure the model in place of
	// those of the job's graph. Only its Graph, Parts and Dataset count. nil: there is none.
	Validate *Job
	// Comm connects this process, which is one worker, to the processes of the others. nil: all workers are
	// goroutines of this process.
	Comm *comm.Comm
	// LocalWorkers is how many workers run on this machine and share its memory; 0: all.
	LocalWorkers int
	// Machines has for each worker the number of its machine, whose processes can map each other's memory.
	// nil: goroutines are on one machine, and processes each on its own.
	Machines []int
	// CoreSharers is how many workers share the cores that this process may use; 0: all on this machine.
	CoreSharers int
	// Started is when the run began, from where MaxTime counts. Zero: when Run is called.
	Started time.Time
	// Checkpoints say where the run keeps its state. nil: nowhere.
	Checkpoints *Checkpoints
	// OnResume is called by worker 0 before the first epoch, with those that a checkpoint has. It may be nil.
	OnResume func([]Epoch) error
	OnEpoch  func(Epoch) // called by worker 0 with every epoch, in order; may be nil
	// OnWeights is called by worker 0 with the weights of the best epoch, before their logits are computed.
	// The other workers wait for it. It may be nil.
	OnWeights func(nn.State) error
	// OnLogits is called by worker 0 with the logits of the best epoch. If it is nil, Result.Logits and
	// Prediction.Logits hold them.
	OnLogits func(Rows) error
	// OnEmbeddings is called by worker 0 with the input of the last layer: of the best epoch, or in a
	// prediction. If it is nil, Run computes none, and Prediction.Embeddings may hold it. All
	// processes have one, or none.
	OnEmbeddings func(Rows) error
	// Vertices are the vertices that Predict computes, of the first vertex type, each once, in this order.
	// nil is all. All processes have the same list. The mesh must then have the graph axis alone.
	Vertices []int32
	// Appended is Base with vertices and edges appended, of which Predict computes Vertices. nil: with none.
	Appended *appended.Graph
	// HeldOut has Predict leave out the edges that link prediction holds out, as Run does.
	HeldOut bool
	// Model describes a model of the caller's own, instead of the one that Options name. Its first block
	// takes the graph's features. Its last block gives a logit for each class. It may be nil.
	Model func(features, classes int) []gnn.BlockSpec
	// Loss is a loss of the caller's own for labels of vertices, instead of the one that Options name. The
	// loss of an epoch is the sum over the training vertices of all workers, divided by the number of their
	// labels: the vertices, if each has one class. It may be nil.
	Loss nn.LossFunc
	// Mesh replaces the mesh that Options describe, unless it is zero.
	Mesh mesh.Mesh
	// Engine makes a worker's engine, instead of engine.New. It may be nil.
	Engine func(engine.Config) (engine.Engine, error)

	// Watch is called around each kernel call of this process, as kernel.Team.Watch. It may be nil.
	Watch func(c kernel.Call, run func())
	// Trace asks for Result.Trace: what all workers did in the training pass of the last epoch. With several
	// processes worker 0's value counts.
	Trace bool

	chunks chunks // that divide made last

	// Made by Like: the columns that features are brought into, and how, by the number of the vertex type.
	columns      columns.ByType
	arrangements []*columns.Arrangement
}

// Plan computes what the run would take, before any work. If ctx is cancelled it returns the cause.
func (j *Job) Plan(ctx context.Context) (plan.Plan, error) { return j.PlanWith(ctx, plan.Asks{}) }

// PlanWith is Plan for what is asked.
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

// Run trains. It refuses a run that would exceed the memory limit before any work. When ctx is cancelled it
// finishes the epoch and keeps the results; before the first epoch it returns the cause. A run that diverges
// keeps the results of the best epoch so far; without one its error wraps a Diverged. After an error that
// wraps a Common, Comm still works; any other error has ended it.
func (j *Job) Run(ctx context.Context) (*Result, error) { return j.RunPlanned(ctx, nil) }

// RunPlanned is Run with the result of Plan for the job as it is; nil: it plans if there is a memory limit.
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
	if s.Savings, err = j.checkLimit(ctx, s, planned); err != nil {
		return nil, err
	}
	ranks, profiles := make([]int, s.Workers), make([]*trace.Profile, s.Workers)
	for _, worker := range s.Holders() {
		ranks[worker]++
	}
	for worker, n := range ranks {
		profiles[worker] = trace.NewProfile(trace.Clock, n)
	}
	err = j.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		return s.validation(s.Mesh.Place(c.Rank()).Partition, func(other *worker.Validation) error {
			mine := s.Config
			var err error
			if mine.Recorder, err = worker.NewRecorder(c, j.Trace,
				profiles[s.Holders()[c.Rank()]]); err != nil {
				return err
			}
			result, err := j.work(ctx, mine, team, c, share, other)
			if j.speaks(s, c) {
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
// plan or, without a limit, of the settings.
func (j *Job) checkLimit(ctx context.Context, s *shared, p *plan.Plan) (savings worker.Savings, err error) {
	ranks := j.ranks()
	limit, err := ranks.Largest(int64(s.MemoryLimit))
	if limit == 0 && s.Offload == "" || err != nil {
		return worker.Savings{Recompute: s.Recomputes()[0]}, err
	}
	if p == nil {
		made, err := j.plan(ctx, s, plan.Asks{})
		if err := ranks.Together(err); err != nil {
			return savings, err
		}
		p = &made
	}
	s.Limit, s.Rooms = p.Limit, p.Rooms()
	if p.InMemory {
		s.inMemory()
	}
	return p.Savings, ranks.Together(p.CheckLimit(s.MemoryLimit))
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
	defer func() {
		if err == nil || errors.As(err, new(*Common)) { // the connection works, and goes on or is closed
			err = errors.Join(err, w.Settle())
		}
	}()
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
	r = &Result{Metric: w.Task.Metric(), Whole: share.Whole}
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
