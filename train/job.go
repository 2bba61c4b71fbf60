// Package train runs a training: epochs, evaluation, early stopping, and predictions with the weights.
package train

import (
	"context"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
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
	// Options is everything that a run can be told.
	Options = setting.Options
	// Rows are a result for each vertex.
	Rows = worker.Rows
	// Common is an error that all workers come to at the same point of their work. Their connection is still
	// whole.
	Common = launch.Common
)

// Defaults are the options of a run that was told nothing.
func Defaults() Options { return setting.Defaults() }

// Job is one training of a model on a graph.
type Job struct {
	Graph   *graph.Graph // nil where Parts holds it
	Parts   *Parts       // the graph's partitions, for several workers; nil: they are cut from Graph
	Dataset string       // the graph's name in reports
	Options Options
	// Comm connects this process, which is one worker, to processes that are the others; nil: all workers are
	// goroutines of this one.
	Comm *comm.Comm
	// LocalWorkers is how many workers run on this machine and share its memory; 0: all of them.
	LocalWorkers int
	// CoreSharers is how many workers share the cores that this process may use; 0: all that run on this
	// machine.
	CoreSharers int
	OnEpoch     func(Epoch) // called by worker 0 after every epoch, nil: not
	// OnWeights takes the weights of the best epoch on worker 0, before their logits are computed; nil: not.
	// The other workers wait for it.
	OnWeights func(nn.State) error
	// OnLogits takes the logits of the best epoch, on worker 0; nil: Result.Logits and Prediction.Logits hold
	// them.
	OnLogits func(Rows) error
	// OnEmbeddings takes the input of the last layer in a prediction, on worker 0; nil: Prediction.Embeddings
	// may hold it.
	OnEmbeddings func(Rows) error
	// Vertices are those that Predict computes, each once and in this order, of the first vertex type; nil:
	// all. All processes name the same ones. A mesh then has no axis but the graph axis.
	Vertices []int32
	// Model describes a model of the caller's own in place of the one that Options name; nil: not. Its first
	// block takes the graph's features, its last gives a logit for each class.
	Model func(features, classes int) []gnn.BlockSpec
	// Mesh takes the place of the one that Options describe; its zero value does not.
	Mesh mesh.Mesh
	// Engine makes a worker's engine in place of the one that belongs to the mesh; nil: not.
	Engine func(engine.Config) (engine.Engine, error)
	// Planned is what Plan found out of this job, as it is; nil: Run plans where there is a memory limit.
	Planned *plan.Plan

	// Watch makes the kernel calls of each worker of this process, as kernel.Team's does; nil: they are just
	// made.
	Watch func(c kernel.Call, run func())
	// Trace has Result.Trace hold what all workers did in the training pass of the last epoch. Of processes
	// worker 0's decides.
	Trace bool

	chunks chunks // of partitions, on a mesh of several stages; nil: none were asked for
}

// Plan finds out what the run would take, before any work. Where ctx is cancelled it ends with the cause.
func (j *Job) Plan(ctx context.Context) (p plan.Plan, err error) {
	s, err := j.begin(ctx, nil)
	if err != nil {
		return p, err
	}
	return j.plan(ctx, s)
}

func (j *Job) plan(ctx context.Context, s *shared) (plan.Plan, error) {
	return plan.Of(ctx, plan.Inputs{Config: s.Config, Comm: j.peers(), Open: s.open})
}

// Run trains. A run that would pass the memory limit is refused before any work. When ctx is cancelled it
// finishes the epoch and keeps the results; before the first epoch it ends with the cause. A run that
// diverges keeps those of the best epoch before; without
// one its error wraps a Diverged. An error that wraps a Common leaves Comm whole; any other has ended it.
func (j *Job) Run(ctx context.Context) (r *Result, err error) {
	s, err := j.begin(ctx, nil)
	if err != nil {
		return nil, err
	}
	uncut, err := j.checkLimit(ctx, s)
	if err != nil {
		return nil, err
	}
	err = j.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		team.Uncut = uncut
		mine, err := j.work(ctx, s.Config, team, c, share)
		if j.speaks(c) {
			r = mine
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// checkLimit refuses a run that would pass the memory limit of any process, as its plan says, and tells
// whether sums have to be uncut.
func (j *Job) checkLimit(ctx context.Context, s *shared) (uncut bool, err error) {
	ranks := launch.Ranks{Comm: j.peers()}
	limit, err := ranks.Largest(int64(s.MemoryLimit))
	if limit == 0 || err != nil {
		return false, err
	}
	p := j.Planned
	if p == nil {
		made, err := j.plan(ctx, s)
		if err := ranks.Together(err); err != nil {
			return false, err
		}
		p = &made
	}
	return p.Uncut, ranks.Together(p.CheckLimit(s.MemoryLimit))
}

// work is what each worker does.
func (j *Job) work(ctx context.Context, c worker.Config, team *kernel.Team, world *comm.Comm, share *partition.Share) (r *Result, err error) {
	if c.Recorder, err = worker.NewRecorder(world, j.Trace); err != nil {
		return nil, err
	}
	w, err := worker.New(c, team, world, share)
	if err != nil {
		return nil, err
	}
	if err := w.LoadInit(); err != nil {
		return nil, err
	}
	if err := w.Ranks().Together(context.Cause(ctx)); err != nil { // before the first epoch: there is nothing to keep
		return nil, err
	}
	s := newState(&c.Options)
	if err := s.train(ctx, w, j.OnEpoch); err != nil {
		return nil, err
	}
	r = &Result{Metric: w.Task.Metric(), Whole: share.Whole}
	if r.Trace, err = w.Trace(); err != nil {
		return nil, err
	}
	if err := s.finish(w); err != nil {
		return nil, err
	}
	s.report(r)
	team.Memory.Drain() // before weights and predictions are copied for the caller
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
	report := func(output *tensor.Matrix) (err error) { // the best epoch's is finite
		r.Links, err = w.Task.Report(output)
		return err
	}
	if err := w.Results(0, report, worker.OrKeep(j.OnLogits, &r.Logits, nil)); err != nil {
		return nil, err
	}
	r.Totals, err = w.Totals()
	return r, err
}
