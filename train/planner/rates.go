package planner

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"weft/graph"
	"weft/kernel"
	"weft/kernel/machine"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// Rates say how long kernels take.
type Rates struct {
	Measured time.Time               `json:"measured"`
	Kernels  map[plan.Kernel]float64 `json:"kernels"` // seconds for each unit of work
	// The work besides kernels takes Beside seconds for each second of kernels, and Call seconds for each
	// kernel call.
	Beside float64 `json:"beside"`
	Call   float64 `json:"call_seconds"`
	Unkept error   `json:"-"` // why they are not kept

	card *onCard // the card's rates; nil: kernels take as long as measured on this machine
}

// Seconds returns the seconds of calls of a kernel, with their part of the work besides kernels. A kernel of
// widths that were not measured takes the rate of the most similar widths. A kernel that was not measured
// takes the mean rate of all.
func (r *Rates) Seconds(k plan.Kernel, calls plan.Calls) float64 {
	if r.card != nil {
		parts := r.card.seconds(k, calls)
		return parts[moving] + parts[multiplying] + parts[launching] + parts[onTheCPU]
	}
	apart := func(a, b int) float64 { return math.Abs(math.Log(float64(a) / float64(b))) }
	rate, sum, least := 0.0, 0.0, math.Inf(1)
	for _, known := range slices.SortedFunc(maps.Keys(r.Kernels), plan.Kernel.Compare) {
		far := apart(known.Widths[0], k.Widths[0]) + apart(known.Widths[1], k.Widths[1])
		if known.Name == k.Name && far < least {
			rate, least = r.Kernels[known], far
		}
		sum += r.Kernels[known]
	}
	if math.IsInf(least, 1) {
		rate = sum / float64(max(1, len(r.Kernels)))
	}
	return (1+r.Beside)*rate*calls.Work + r.Call*float64(calls.Number)
}

// possible reports whether the rates could come from a measurement.
func (r Rates) possible() bool {
	for k, rate := range r.Kernels {
		if min(k.Widths[0], k.Widths[1]) < 1 || rate < 0 {
			return false
		}
	}
	return len(r.Kernels) > 0 && min(r.Beside, r.Call) >= 0
}

// add adds the kernels of other that r lacks. The work besides kernels is the larger one.
func (r *Rates) add(other *Rates) {
	if r.Kernels == nil {
		*r = *other
		r.Kernels = maps.Clone(r.Kernels)
	}
	for k, rate := range other.Kernels {
		if _, known := r.Kernels[k]; !known {
			r.Kernels[k] = rate
		}
	}
	r.Beside, r.Call = max(r.Beside, other.Beside), max(r.Call, other.Call)
}

// observed is how long an epoch's kernels take, and the work besides them, in seconds of cores.
type observed struct {
	slots chan struct{} // has room for as many kernels as run at a time

	mu      sync.Mutex
	epochs  []*epoch // the last one is under way
	started time.Duration
}

// epoch is what an epoch took.
type epoch struct {
	calls           plan.Kernels
	seconds         map[plan.Kernel]float64
	inKernels, took float64
}

// watch measures a kernel call by the time of the thread that makes it, so that other work on the machine
// does not count.
func (o *observed) watch(c kernel.Call, run func()) {
	o.slots <- struct{}{}
	seconds := machine.Timed(run).Seconds()
	<-o.slots
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.epochs[len(o.epochs)-1]
	now.inKernels += seconds
	if k, work := now.calls.Add(c); work > 0 {
		now.seconds[k] += seconds
	}
}

// next ends an epoch, and begins another.
func (o *observed) next() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := machine.ProcessorTime()
	if n := len(o.epochs); n > 0 {
		o.epochs[n-1].took = (now - o.started).Seconds()
	}
	o.started, o.epochs = now,
		append(o.epochs, &epoch{calls: plan.Kernels{}, seconds: map[plan.Kernel]float64{}})
}

// measuredEpochs is the number of epochs of a measured run. The first takes fresh memory, and the last
// evaluates.
const measuredEpochs = 6

// observe trains on a mesh in this process for a few epochs. At most atOnce kernels run at a time, each on
// its team's threads.
func observe(ctx context.Context, g *graph.Graph, options setting.Options, atOnce int) (*observed, error) {
	o := &observed{slots: make(chan struct{}, atOnce)}
	o.next()
	job := &train.Job{Graph: g, Options: options, Watch: o.watch, OnEpoch: func(train.Epoch) { o.next() }}
	if _, err := job.Run(ctx); err != nil {
		return nil, err
	}
	o.epochs = o.epochs[1 : len(o.epochs)-1] // what follows the last epoch is no epoch
	return o, context.Cause(ctx)
}

// median returns the median over the epochs without evaluation.
func (o *observed) median(quantity func(*epoch) float64) float64 {
	var all []float64
	for _, e := range o.epochs[:len(o.epochs)-1] {
		all = append(all, quantity(e))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// sample is a graph on which kernels are measured, and options for it.
type sample struct {
	*graph.Graph
	setting.Options
}

// measure returns how long kernels take on a mesh in this process, on the graph of all. The work besides
// kernels has a part for each call, and a part that grows with the seconds of the calls. The work on a
// smaller graph, few, tells how large each part is. If few is nil, all of it counts for the calls.
func measure(ctx context.Context, all sample, few *sample, atOnce int) (r Rates, err error) {
	many, err := observe(ctx, all.Graph, all.Options, atOnce)
	if err != nil {
		return r, err
	}
	single := many
	if all.Threads > 1 { // the time of the team's helpers cannot be told from the work besides kernels
		all.Threads = 1
		if single, err = observe(ctx, all.Graph, all.Options, atOnce); err != nil {
			return r, err
		}
	}
	r = Rates{Measured: time.Now(), Kernels: map[plan.Kernel]float64{}}
	if few == nil {
		r.Call = max(0, single.overhead()/single.calls())
	} else {
		few.Threads = 1
		fewer, err := observe(ctx, few.Graph, few.Options, atOnce)
		if err != nil {
			return r, err
		}
		r.Call, r.Beside = divide(single, fewer)
	}
	r.Beside *= single.inKernels() / many.inKernels()
	rates := map[plan.Kernel][]float64{}
	for _, e := range many.epochs {
		for k, seconds := range e.seconds {
			rates[k] = append(rates[k], seconds/e.calls[k].Work)
		}
	}
	for k, list := range rates {
		slices.Sort(list)
		r.Kernels[k] = list[len(list)/2]
	}
	return r, nil
}

// divide divides the work besides kernels into a part for each call, in seconds, and a part for each second
// of kernels:
//
//	overhead = call·calls + share·kernels     on either graph
//
// If both equations contradict each other, as clocks are not exact, the first graph decides which part is
// more than nothing.
func divide(first, few *observed) (call, share float64) {
	calls, kernels, overhead := first.calls(), first.inKernels(), first.overhead()
	if more := few.calls()*kernels - calls*few.inKernels(); more > 0 {
		call = (few.overhead()*kernels - overhead*few.inKernels()) / more
	}
	call = max(0, min(call, overhead/calls))
	return call, max(0, (overhead-call*calls)/kernels)
}

func (o *observed) inKernels() float64 {
	return o.median(func(e *epoch) float64 { return e.inKernels })
}

// overhead is how long an epoch takes besides kernels.
func (o *observed) overhead() float64 {
	return o.median(func(e *epoch) float64 { return e.took - e.inKernels })
}

// calls is how many kernel calls an epoch has.
func (o *observed) calls() float64 {
	return o.median(func(e *epoch) (calls float64) {
		for _, its := range e.calls {
			calls += float64(its.Number)
		}
		return calls
	})
}
