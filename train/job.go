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

	uncut bool // sums take no scratch, as Plan found out
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
	SentBytes     []int64   // in that pass, per worker
	WaitSeconds   []float64 // in that pass: how long each worker stood still for others
	WaitShare     float64   // of its time in that pass, of the worker that waited most
	Interrupted   bool
	// Diverged: what ended the run after its last epoch; nil: nothing. The best epoch is one before
	Diverged *Diverged
	Weights  nn.State  // at the best epoch; on worker 0
	Logits   []float32 // at the best epoch, V × classes, on worker 0; nil where OnLogits took them
	Workers  int
	Whole    partition.Whole // the graph's counts
}

// Diverged ends a run whose numbers are not finite any more; all workers come to it.
type Diverged struct {
	Epoch int
	Fault string // what is not finite
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: %s; try a smaller %s, %s 1, or %s batch",
		d.Epoch, d.Fault, refusal.Setting("lr"), refusal.Setting("clip"), refusal.Setting("norm"))
}

// Run trains. When ctx is cancelled it finishes the epoch and keeps the results. A run that diverges keeps
// those of the best epoch before; without one its error wraps a Diverged. An error that wraps a Common leaves
// Comm whole; any other has ended it.
func (j *Job) Run(ctx context.Context) (r *Result, err error) {
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
	w, err := newWorker(team, c, share, j, share.Whole.Classes, true)
	if err != nil {
		return nil, err
	}
	if err := w.prepareTraining(); err != nil {
		return nil, err
	}
	if err := w.loadInit(); err != nil {
		return nil, err
	}
	r = &Result{Metric: w.metric, Workers: 1, Whole: share.Whole}
	best := newBest(o)
	evaluate := func(epoch int) (scores, error) {
		s, err := best.take(epoch, w)
		if s.fault != "" {
			r.Diverged = &Diverged{epoch, s.fault}
		}
		return s, err
	}
	var pass traffic
	for epoch := 1; epoch <= o.Epochs; epoch++ {
		start, before := time.Now(), w.traffic()
		loss, interrupted, err := w.trainEpoch(epoch, ctx.Err() != nil)
		if err != nil {
			return nil, err
		}
		seconds := time.Since(start).Seconds()
		pass = w.traffic().since(before)
		pass.seconds = seconds
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
		if j.OnEpoch != nil && w.first() {
			j.OnEpoch(e)
		}
		r.Interrupted = interrupted && epoch < o.Epochs && r.Diverged == nil
		if r.Interrupted || r.Diverged != nil || best.exhausted(epoch) {
			break
		}
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
	err = w.onFirst(func() error {
		if j.OnWeights == nil {
			return nil
		}
		return j.OnWeights(r.Weights)
	})
	if err != nil {
		return nil, err
	}
	always := func(*tensor.Matrix) error { return nil } // the best epoch's were finite
	if err := w.eachLogits(always, orKeep(j.OnLogits, &r.Logits, nil)); err != nil {
		return nil, err
	}
	return r, w.report(r, pass)
}

// orKeep is take, or where that is nil a function that keeps the rows and their width.
func orKeep(take func(Rows) error, kept *[]float32, columns *int) func(Rows) error {
	if take != nil {
		return take
	}
	return func(rows Rows) error {
		for piece := range rows.Each {
			*kept = append(*kept, piece...)
		}
		if columns != nil {
			*columns = rows.Columns
		}
		return nil
	}
}

// first reports whether this is worker 0.
func (w *worker) first() bool { return w.comm.Rank() == 0 }

// best remembers the best epoch so far.
type best struct {
	epoch    int // 0: none yet
	scores   scores
	weights  nn.Snapshot
	byLoss   bool // the lowest validation loss makes the best epoch, and not the highest metric
	patience int
	lowest   float64 // validation loss
	since    int     // the epoch of the last progress
	seen     int     // the last epoch that was evaluated
}

func newBest(o *Options) *best { return &best{byLoss: o.Select == selectLoss, patience: o.Patience} }

// take evaluates the epoch, and keeps its weights if it is the best.
func (b *best) take(epoch int, w *worker) (scores, error) {
	s, err := w.evaluate()
	b.seen = epoch
	if err == nil && s.fault == "" && b.better(epoch, s) {
		w.params.Save(&b.weights)
	}
	return s, err
}

// better reports whether the epoch is better than all before. Without validation vertices the last epoch is
// the best.
func (b *best) better(epoch int, s scores) bool {
	higher := b.epoch == 0 || math.IsNaN(s.val) || s.val > b.scores.val
	lower := b.epoch == 0 || math.IsNaN(s.valLoss) || s.valLoss < b.lowest
	better, progress := higher, higher || lower
	if b.byLoss {
		better, progress = lower, lower
	}
	if lower {
		b.lowest = s.valLoss
	}
	if progress {
		b.since = epoch
	}
	if better {
		b.epoch, b.scores = epoch, s
	}
	return better
}

// exhausted reports whether patience ran out: so many epochs have not lowered the validation loss nor, where
// the metric makes the best epoch, raised the metric.
func (b *best) exhausted(epoch int) bool { return b.patience > 0 && epoch-b.since >= b.patience }

// trainEpoch makes one step on the whole graph and returns the training loss before it, and whether any
// worker is to stop.
func (w *worker) trainEpoch(epoch int, stop bool) (loss float64, stopped bool, err error) {
	w.epoch = epoch
	loss, err = w.engine.Train(epoch)
	if err != nil {
		return 0, false, err
	}
	w.comm.At(epoch, "")
	w.params.Commit()
	w.optimizer.Step(optim.Schedule(w.o.Schedule, epoch, w.o.Epochs))
	w.params.ZeroGrad()
	return w.agree(epoch, loss, stop)
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
