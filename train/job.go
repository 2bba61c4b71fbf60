// Package train runs a training: epochs, evaluation, early stopping, and the run directory that keeps the
// results.
package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

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

	// Watch makes the kernel calls of each worker of this process, as kernel.Team's does; nil: they are just
	// made.
	Watch func(c kernel.Call, run func())
	// Trace has Result.Trace hold what all workers did in the training pass of the last epoch. Of processes
	// worker 0's decides.
	Trace bool

	uncut   bool            // Plan found that only uncut sums keep to the memory limit
	planned *Plan           // what Plan found out last; nil: it was not asked
	kept    *partition.Kept // the edges that pass messages where edges are learned
	chunks  chunks          // of partitions, on a mesh of several stages; nil: none were asked for
}

// Epoch is what one epoch came to. The metrics stand only in epochs that were evaluated.
type Epoch struct {
	Epoch, Epochs        int // counted from 1
	Loss                 float64
	Train, Val, Test     float64
	ValLoss              float64
	Evaluated            bool
	Seconds              float64 // evaluation excluded
	LiveBytes, PeakBytes int64   // tensors of one worker
}

// Traffic is what workers sent.
type Traffic struct {
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
}

// Result is what a run came to.
type Result struct {
	Epochs int // that were run
	// BestEpoch: the first with the highest validation metric or, as the options select, the lowest
	// validation loss
	BestEpoch        int
	Metric           string
	Train, Val, Test float64 // the metric at the best epoch
	ValLoss          float64 // at the best epoch
	Losses           []float64
	EpochSeconds     []float64
	PeakTensorBytes  []int64 // per worker
	GraphBytes       []int64 // per worker
	LiveBytes        []int64 // per worker: tensors when the run is done, those of the model
	// Communication is what all workers sent in the training pass of the last epoch.
	Communication Communication
	EdgeColumns   []int64        // in that pass, per worker: edges × columns that it aggregated, forward and backward
	SentBytes     []int64        // in that pass, per worker
	WaitSeconds   []float64      // in that pass: how long each worker stood still for others
	WaitShare     float64        // of its time in that pass, of the worker that waited most
	Stages        []StageSummary // of that pass, where the mesh has several
	Interrupted   bool
	// Diverged: what ended the run after its last epoch; nil: nothing. The best epoch is one before
	Diverged *Diverged
	Weights  nn.State  // at the best epoch; on worker 0
	Logits   []float32 // at the best epoch, V × classes, on worker 0; nil where OnLogits took them
	Workers  int
	Whole    partition.Whole // the graph's counts
	Links    *Links          // where edges were learned
	Trace    *trace.Trace    // as Job.Trace asks; on worker 0
}

// Diverged ends a run whose numbers are not finite any more; all workers come to it.
type Diverged struct {
	Epoch int
	Fault string // what is not finite
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: %s; try a smaller %s, %s 1, or %s layer",
		d.Epoch, d.Fault, refusal.Setting("lr"), refusal.Setting("clip"), refusal.Setting("norm"))
}

// Run trains. A run that would pass the memory limit is refused before any work, by the plan that was made,
// or that Run makes where there is none. When ctx is cancelled it finishes the epoch and keeps the results; before
// the first epoch it ends with the cause. A run that diverges keeps those of the best epoch before; without
// one its error wraps a Diverged. An error that wraps a Common leaves Comm whole; any other has ended it.
func (j *Job) Run(ctx context.Context) (r *Result, err error) {
	if err := j.checkLimit(ctx); err != nil {
		return nil, err
	}
	err = j.eachWorker(ctx, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		mine, err := j.work(ctx, team, c, share)
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

// work is what each worker does.
func (j *Job) work(ctx context.Context, team *kernel.Team, c *comm.Comm, share *partition.Share) (r *Result, err error) {
	o := &j.Options
	recorder, err := j.recorder(c)
	if err != nil {
		return nil, err
	}
	w, err := newWorker(j, c.Recorded(recorder), o.task().outputs(o, &share.Whole), engine.Config{Team: recorded(team, recorder), Share: share, Training: true})
	if err != nil {
		return nil, err
	}
	w.recorder = recorder
	if err := w.loadInit(); err != nil {
		return nil, err
	}
	if err := w.ranks().Together(context.Cause(ctx)); err != nil { // before the first epoch: there is nothing to keep
		return nil, err
	}
	r = &Result{Metric: w.metric, Workers: 1, Whole: share.Whole}
	best := newBest(o)
	evaluate := func(epoch int) (scores, error) {
		s, err := w.evaluate()
		if err == nil {
			best.take(epoch, s, w.params)
			r.Diverged = s.diverged(epoch)
		}
		return s, err
	}
	var pass tally
	for epoch := 1; epoch <= o.Epochs; epoch++ {
		start, before := time.Now(), w.done()
		loss, interrupted, err := w.trainEpoch(ctx, epoch)
		if err != nil {
			return nil, err
		}
		seconds := time.Since(start).Seconds()
		pass = w.done().since(before)
		pass.Seconds = seconds
		r.Epochs, r.Losses, r.EpochSeconds = epoch, append(r.Losses, loss), append(r.EpochSeconds, seconds)
		e := Epoch{Epoch: epoch, Epochs: o.Epochs, Loss: loss, Seconds: seconds}
		switch {
		case math.IsNaN(loss) || math.IsInf(loss, 0):
			r.Diverged = &Diverged{epoch, fmt.Sprintf("the loss is %v", loss)}
		case epoch%o.EvalEvery == 0 || epoch == o.Epochs || interrupted:
			s, err := evaluate(epoch)
			if err != nil {
				return nil, err
			}
			e.Train, e.Val, e.Test, e.ValLoss, e.Evaluated = s.train, s.val, s.test, s.valLoss, true
		}
		e.LiveBytes, e.PeakBytes = team.Memory.LiveTensors(), team.Memory.Peak()
		if j.OnEpoch != nil && w.ranks().First() {
			j.OnEpoch(e)
		}
		r.Interrupted = interrupted && epoch < o.Epochs && r.Diverged == nil
		if r.Interrupted || r.Diverged != nil || best.exhausted(epoch) {
			break
		}
	}
	if r.Trace, err = w.trace(); err != nil {
		return nil, err
	}
	if best.seen < r.Epochs && r.Diverged == nil { // patience ran out between two evaluations
		if _, err := evaluate(r.Epochs); err != nil {
			return nil, err
		}
	}
	if best.epoch == 0 {
		return nil, &Common{Err: r.Diverged}
	}
	w.params.Restore(&best.weights)
	r.BestEpoch, r.Train, r.Val, r.Test, r.ValLoss = best.epoch, best.scores.train, best.scores.val, best.scores.test, best.scores.valLoss
	w.optimizer.Release()
	team.Memory.Drain() // before weights and predictions are copied for the caller
	if r.Weights, err = w.weights(); err != nil {
		return nil, err
	}
	err = w.ranks().OnFirst(func() error {
		if j.OnWeights == nil {
			return nil
		}
		return j.OnWeights(r.Weights)
	})
	if err != nil {
		return nil, err
	}
	report := func(output *tensor.Matrix) error { return w.task.report(output, r) } // the best epoch's is finite
	if err := w.results(0, report, orKeep(j.OnLogits, &r.Logits, nil)); err != nil {
		return nil, err
	}
	return r, w.report(r, pass)
}

// trainEpoch makes one step on the whole graph and returns the training loss before it, and whether any
// worker's context is cancelled.
func (w *worker) trainEpoch(ctx context.Context, epoch int) (loss float64, stopped bool, err error) {
	w.epoch = epoch
	w.recorder.Start(epoch)
	defer w.recorder.Stop()
	whole := w.phase("training pass")
	defer whole.End()
	loss = w.engine.Train(epoch)
	w.groups.World.At(epoch, "")
	step := w.phase("optimizer step")
	w.params.Commit()
	w.optimizer.Step(optim.Schedule(w.o.Schedule, epoch, w.o.Epochs))
	w.params.ZeroGrad()
	step.End()
	waited := w.groups.World.Waited()
	loss, stopped, err = w.agree(epoch, loss, ctx.Err() != nil)
	w.spent.Bubble += w.groups.World.Waited() - waited // for stages that the pipeline drains through
	return loss, stopped, err
}

// loadInit sets the parameters to those of the file that training starts from, if there is one.
func (w *worker) loadInit() error {
	if w.o.Init == "" {
		return nil
	}
	weights, err := nn.ReadState(w.o.Init)
	if err == nil {
		err = w.params.Load(weights)
	}
	if err = w.loaded(err); refusal.Weights.In(err) {
		return refusal.Errorf("%s %s: %w", refusal.Setting("init"), w.o.Init, err)
	}
	return err
}
