// Package train runs a training: epochs, evaluation, early stopping, and the run directory that keeps the results.
package train

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/tensor"
)

// Job is one training of a model on a graph.
type Job struct {
	Graph   *graph.Graph
	Dataset string // the graph's name in reports
	Options Options
	OnEpoch func(Epoch) // called after every epoch, nil: not
	// Model builds a model of the caller's own in place of the one that Options name; nil: not.
	Model func(e gnn.Env) (*gnn.Model, error)
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
	Communication    map[string]Traffic
	SentBytes        []int64 // per worker
	Interrupted      bool
	Weights          nn.State  // at the best epoch
	Logits           []float32 // at the best epoch, V × classes
	Workers          int
}

// Run trains. When ctx is cancelled it finishes the epoch and keeps the results.
func (j *Job) Run(ctx context.Context) (r *Result, err error) {
	err = j.guarded(func() error {
		r, err = j.run(ctx)
		return err
	})
	return r, err
}

// guarded checks the job and runs f, which reads the graph's arrays and allocates tensors.
func (j *Job) guarded(f func() error) (err error) {
	defer recoverMemory(&err)
	if err := j.Options.Validate(); err != nil {
		return err
	}
	return j.Graph.Guard(func() error {
		if err := j.Graph.CheckMade(); err != nil {
			return err
		}
		return f()
	})
}

func (j *Job) run(ctx context.Context) (r *Result, err error) {
	o := &j.Options
	team := kernel.NewTeam(threads(o), tensor.NewMeter())
	defer team.Memory.Close()
	w, err := newWorker(team, j, j.Graph.Labels.Classes)
	if err != nil {
		return nil, err
	}
	if err := w.prepareTraining(); err != nil {
		return nil, err
	}
	if err := w.loadInit(); err != nil {
		return nil, err
	}
	r = &Result{Metric: w.metric, Workers: 1, SentBytes: []int64{0}}
	best := newBest(o.Patience)
	for epoch := 1; epoch <= o.Epochs; epoch++ {
		start := time.Now()
		loss := w.trainEpoch(epoch)
		seconds := time.Since(start).Seconds()
		r.Epochs, r.Losses, r.EpochSeconds = epoch, append(r.Losses, loss), append(r.EpochSeconds, seconds)
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return nil, fmt.Errorf("epoch %d: the loss is %v; try a smaller --lr, --clip 1, or --norm batch", epoch, loss)
		}
		e := Epoch{Epoch: epoch, Epochs: o.Epochs, Loss: loss, Seconds: seconds}
		if epoch%o.EvalEvery == 0 || epoch == o.Epochs || ctx.Err() != nil {
			s := best.take(epoch, w)
			e.Train, e.Val, e.Test, e.Evaluated = s.train, s.val, s.test, true
		}
		e.LiveBytes, e.PeakBytes = team.Memory.LiveTensors(), team.Memory.Peak()
		if j.OnEpoch != nil {
			j.OnEpoch(e)
		}
		r.Interrupted = ctx.Err() != nil && epoch < o.Epochs
		if r.Interrupted || best.exhausted(epoch) {
			break
		}
	}
	if best.seen < r.Epochs { // interrupted between two evaluations
		best.take(r.Epochs, w)
	}
	w.params.Restore(&best.weights)
	r.BestEpoch, r.Train, r.Val, r.Test = best.epoch, best.scores.train, best.scores.val, best.scores.test
	w.optimizer.Release()
	team.Memory.Drain() // before weights and predictions are copied for the caller
	r.Weights = w.params.State()
	r.Logits = w.logits()
	r.PeakTensorBytes, r.GraphBytes = []int64{team.Memory.Peak()}, []int64{team.Memory.Live(tensor.Graph)}
	return r, nil
}

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
func (b *best) take(epoch int, w *worker) scores {
	s := w.evaluate()
	b.seen = epoch
	if b.better(epoch, s) {
		w.params.Save(&b.weights)
	}
	return s
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

// trainEpoch makes one step on the whole graph and returns the training loss before it.
func (w *worker) trainEpoch(epoch int) float64 {
	loss := w.gradients(epoch)
	w.optimizer.Step(optim.Schedule(w.o.Schedule, epoch, w.o.Epochs))
	w.params.ZeroGrad()
	return loss
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

// recoverMemory turns the operating system's refusal of memory into an error.
func recoverMemory(err *error) {
	switch p := recover().(type) {
	case nil:
	case tensor.OutOfMemory:
		*err = fmt.Errorf("%w; see what the run needs with --explain", p)
	default:
		panic(p)
	}
}

func threads(o *Options) int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}
