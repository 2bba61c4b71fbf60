// Package train runs a training: epochs, evaluation, early stopping, and the run directory that keeps the results.
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
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/partition"
)

// Job is one training of a model on a graph.
type Job struct {
	Graph   *graph.Graph // nil where Parts holds it
	Parts   *Parts       // the graph's partitions, for several workers; nil: they are cut from Graph
	Dataset string       // the graph's name in reports
	Options Options
	// Comm connects this process, which is one worker, to processes that are the others; nil: all workers are goroutines of this one.
	Comm *comm.Comm
	// LocalWorkers is how many workers run on this machine and share its memory; 0: all of them.
	LocalWorkers int
	// CoreSharers is how many workers share the cores that this process may use; 0: all that run on this machine.
	CoreSharers int
	OnEpoch     func(Epoch) // called by worker 0 after every epoch, nil: not
	// OnLogits takes the logits of the best epoch, on worker 0; nil: Result.Logits and Prediction.Logits hold them.
	OnLogits func(Rows) error
	// OnEmbeddings takes the input of the last layer in a prediction, on worker 0; nil: Prediction.Embeddings may hold it.
	OnEmbeddings func(Rows) error
	// Model describes a model of the caller's own in place of the one that Options name; nil: not. Its first block takes the graph's
	// features, its last gives a logit for each class.
	Model func(features, classes int) []gnn.BlockSpec
}

// Epoch is what one epoch came to. The metrics stand only in epochs that were evaluated.
type Epoch struct {
	Epoch, Epochs        int // counted from 1
	Loss                 float64
	Train, Val, Test     float64
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
	Epochs           int // that were run
	BestEpoch        int // the first with the highest validation metric
	Metric           string
	Train, Val, Test float64 // the metric at the best epoch
	Losses           []float64
	EpochSeconds     []float64
	PeakTensorBytes  []int64 // per worker
	GraphBytes       []int64 // per worker
	// Communication is what all workers sent in the training pass of the last epoch.
	Communication Communication
	SentBytes     []int64   // in that pass, per worker
	WaitSeconds   []float64 // in that pass: how long each worker stood still for others
	WaitShare     float64   // of its time in that pass, of the worker that waited most
	Interrupted   bool
	Weights       nn.State  // at the best epoch; on worker 0
	Logits        []float32 // at the best epoch, V × classes, on worker 0; nil where OnLogits took them
	Workers       int
	Whole         partition.Whole // the graph's counts
}

// Diverged ends a run whose loss is no finite number any more; all workers come to it.
type Diverged struct {
	Epoch int
	Loss  float64
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: the loss is %v; try a smaller --lr, --clip 1, or --norm batch", d.Epoch, d.Loss)
}

// Run trains. When ctx is cancelled it finishes the epoch and keeps the results. An error that wraps a Common leaves Comm whole; any other
// has ended it.
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
	w, err := newWorker(team, c, share, j, share.Whole.Classes)
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
	best := newBest(o.Patience)
	var pass traffic
	for epoch := 1; epoch <= o.Epochs; epoch++ {
		w.graph.BeginEpoch(epoch)
		start, before := time.Now(), w.traffic()
		loss, interrupted, err := w.trainEpoch(epoch, ctx.Err() != nil)
		if err != nil {
			return nil, err
		}
		seconds := time.Since(start).Seconds()
		pass = w.traffic().since(before)
		pass.seconds = seconds
		r.Epochs, r.Losses, r.EpochSeconds = epoch, append(r.Losses, loss), append(r.EpochSeconds, seconds)
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return nil, &Common{&Diverged{epoch, loss}}
		}
		e := Epoch{Epoch: epoch, Epochs: o.Epochs, Loss: loss, Seconds: seconds}
		if epoch%o.EvalEvery == 0 || epoch == o.Epochs || interrupted {
			s, err := best.take(epoch, w)
			if err != nil {
				return nil, err
			}
			e.Train, e.Val, e.Test, e.Evaluated = s.train, s.val, s.test, true
		}
		e.LiveBytes, e.PeakBytes = team.Memory.LiveTensors(), team.Memory.Peak()
		if j.OnEpoch != nil && w.first() {
			j.OnEpoch(e)
		}
		r.Interrupted = interrupted && epoch < o.Epochs
		if r.Interrupted || best.exhausted(epoch) {
			break
		}
	}
	if best.seen < r.Epochs { // patience ran out between two evaluations
		if _, err := best.take(r.Epochs, w); err != nil {
			return nil, err
		}
	}
	w.params.Restore(&best.weights)
	r.BestEpoch, r.Train, r.Val, r.Test = best.epoch, best.scores.train, best.scores.val, best.scores.test
	w.optimizer.Release()
	team.Memory.Drain() // before weights and predictions are copied for the caller
	if w.first() {
		r.Weights = w.params.State()
	}
	always := func() error { return nil }
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
func (w *worker) first() bool { return w.comm == nil || w.comm.Rank() == 0 }

// best remembers the best epoch so far.
type best struct {
	epoch    int
	scores   scores
	weights  nn.Snapshot
	patience int
	lowest   float64 // validation loss
	since    int     // the epoch of the last progress
	seen     int     // the last epoch that was evaluated
}

func newBest(patience int) *best { return &best{patience: patience, lowest: math.Inf(1)} }

// take evaluates the epoch, and keeps its weights if it is the best.
func (b *best) take(epoch int, w *worker) (scores, error) {
	s, err := w.evaluate()
	b.seen = epoch
	if err == nil && b.better(epoch, s) {
		w.params.Save(&b.weights)
	}
	return s, err
}

// better reports whether the epoch's validation metric is above all before. Without validation vertices the last epoch is the best.
func (b *best) better(epoch int, s scores) bool {
	higher := b.epoch == 0 || math.IsNaN(s.val) || s.val > b.scores.val
	if higher || s.valLoss < b.lowest {
		b.since = epoch
	}
	b.lowest = math.Min(b.lowest, s.valLoss)
	if higher {
		b.epoch, b.scores = epoch, s
	}
	return higher
}

// exhausted reports whether patience ran out: so many epochs have neither raised the validation metric nor lowered the validation
// loss.
func (b *best) exhausted(epoch int) bool { return b.patience > 0 && epoch-b.since >= b.patience }

// trainEpoch makes one step on the whole graph and returns the training loss before it, and whether any worker is to stop.
func (w *worker) trainEpoch(epoch int, stop bool) (loss float64, stopped bool, err error) {
	loss, err = w.gradients(epoch)
	if err != nil {
		return 0, false, err
	}
	w.optimizer.Step(optim.Schedule(w.o.Schedule, epoch, w.o.Epochs))
	w.params.ZeroGrad()
	return w.agree(epoch, loss, stop)
}

func (w *worker) loadInit() error {
	if w.o.Init == "" {
		return nil
	}
	weights, _, err := safetensors.ReadFile(w.o.Init)
	if err != nil {
		return err
	}
	if err := w.params.Load(weights); err != nil {
		return refusal.Errorf("--init %s: %w", w.o.Init, err)
	}
	return nil
}
