package planner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/internal/trace"
	"weft/kernel"
	"weft/train"
	"weft/train/setting"
)

// Rates say how long kernels take.
type Rates struct {
	Measured time.Time        `json:"measured"`
	Kernels  map[string]*Rate `json:"kernels"` // by kernel and the widths that it works on
	Beside   float64          `json:"beside"`  // the work beside kernels, for each second of these
	// Path is the file that keeps them; "": none, because of Unkept if that is not nil.
	Path   string `json:"-"`
	Unkept error  `json:"-"`
}

// Rate is how long one kernel takes for some widths.
type Rate struct {
	Kernel  string  `json:"kernel"`
	Widths  [2]int  `json:"widths"`
	Seconds float64 `json:"seconds"` // for each unit of work
}

// widths are the elements of a row, or the columns and rows of a weight.
func widths(s trace.Shape) [2]int { return [2]int{max(1, s[1]), max(1, s[2])} }

// work is about how many elements a kernel reads: for each of its rows and edges the widths.
func work(s trace.Shape, entries int) float64 {
	w := widths(s)
	return float64(s[0]+entries) * float64(w[0]) * float64(w[1])
}

func key(kernel string, w [2]int) string { return fmt.Sprintf("%s %d %d", kernel, w[0], w[1]) }

// Of returns the seconds of a kernel call and its part of the work beside kernels. One of widths that were
// not measured takes the rate of the most similar ones; one that was not measured takes the mean rate of all.
func (r *Rates) Of(e *trace.Event) float64 {
	w, todo := widths(e.Args.Shape), (1+r.Beside)*work(e.Args.Shape, e.Args.Entries)
	if known := r.Kernels[key(e.Name, w)]; known != nil {
		return known.Seconds * todo
	}
	apart := func(a, b int) float64 { return math.Abs(math.Log(float64(a) / float64(b))) }
	nearest, sum, count := (*Rate)(nil), 0.0, 0.0
	least := math.Inf(1)
	for _, known := range r.sorted() {
		far := apart(known.Widths[0], w[0]) + apart(known.Widths[1], w[1])
		if known.Kernel == e.Name && far < least {
			nearest, least = known, far
		}
		sum, count = sum+known.Seconds, count+1
	}
	switch {
	case nearest != nil:
		return nearest.Seconds * todo
	case count > 0:
		return sum / count * todo
	}
	return 0
}

// sorted are the rates in the order of their keys.
func (r *Rates) sorted() (list []*Rate) {
	for _, k := range slices.Sorted(maps.Keys(r.Kernels)) {
		list = append(list, r.Kernels[k])
	}
	return list
}

// observed is what an epoch's kernels take, and the work beside them, in seconds of cores.
type observed struct {
	slots chan struct{} // kernels at a time

	mu      sync.Mutex
	epochs  []*epoch // the last one is under way
	started time.Duration
}

// epoch is what an epoch took.
type epoch struct {
	kernels         map[string]*taken
	inKernels, took float64
}

type taken struct {
	kernel        string
	widths        [2]int
	seconds, work float64
}

// watch measures a kernel call by the time of the thread that makes it: other work on the machine does not
// count.
func (o *observed) watch(c kernel.Call, run func()) {
	o.slots <- struct{}{}
	runtime.LockOSThread()
	start := threadTime()
	run()
	seconds := (threadTime() - start).Seconds()
	runtime.UnlockOSThread()
	<-o.slots
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.epochs[len(o.epochs)-1]
	now.inKernels += seconds
	if c.Shape[1] == 0 { // the parts of hubs
		return
	}
	shape := trace.Shape(c.Shape)
	w := widths(shape)
	t := now.kernels[key(c.Kernel, w)]
	if t == nil {
		t = &taken{kernel: c.Kernel, widths: w}
		now.kernels[key(c.Kernel, w)] = t
	}
	t.seconds, t.work = t.seconds+seconds, t.work+work(shape, c.Entries)
}

// next ends an epoch, and begins another.
func (o *observed) next() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := processorTime()
	if n := len(o.epochs); n > 0 {
		o.epochs[n-1].took = (now - o.started).Seconds()
	}
	o.started, o.epochs = now, append(o.epochs, &epoch{kernels: map[string]*taken{}})
}

// measuredEpochs are those of a measured run. The first takes fresh memory, and the last evaluates.
const measuredEpochs = 6

// observe trains on a mesh in this process for a few epochs. At most so many kernels run at a time, each on
// its team's threads.
func observe(ctx context.Context, g *graph.Graph, options setting.Options, atOnce int) (*observed, error) {
	o := &observed{slots: make(chan struct{}, atOnce)}
	o.next()
	job := &train.Job{Graph: g, Options: options, Watch: o.watch, OnEpoch: func(train.Epoch) { o.next() }}
	if _, err := job.Run(ctx); err != nil {
		return nil, err
	}
	o.epochs = o.epochs[1 : len(o.epochs)-1] // what follows the last epoch is none
	return o, context.Cause(ctx)
}

// median returns the median over the epochs without evaluation.
func (o *observed) median(of func(*epoch) float64) float64 {
	var all []float64
	for _, e := range o.epochs[:len(o.epochs)-1] {
		all = append(all, of(e))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// measure returns how long kernels take on a mesh in this process.
func measure(ctx context.Context, g *graph.Graph, options setting.Options, atOnce int) (*Rates, error) {
	many, err := observe(ctx, g, options, atOnce)
	if err != nil {
		return nil, err
	}
	one := many
	if options.Threads > 1 { // whose helpers take time that is not told from work beside kernels
		options.Threads = 1
		if one, err = observe(ctx, g, options, atOnce); err != nil {
			return nil, err
		}
	}
	beside := one.median(func(e *epoch) float64 { return e.took - e.inKernels })
	inKernels := many.median(func(e *epoch) float64 { return e.inKernels })
	r := &Rates{Measured: time.Now(), Beside: max(0, beside/inKernels), Kernels: map[string]*Rate{}}
	calls := map[string][]*Rate{}
	for _, e := range many.epochs {
		for k, t := range e.kernels {
			if t.work > 0 {
				calls[k] = append(calls[k], &Rate{t.kernel, t.widths, t.seconds / t.work})
			}
		}
	}
	for k, list := range calls {
		slices.SortFunc(list, func(a, b *Rate) int { return cmp.Compare(a.Seconds, b.Seconds) })
		r.Kernels[k] = list[len(list)/2]
	}
	return r, nil
}

// threadTime is what the calling thread has taken of a core.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// processorTime is what this process has taken of all cores.
func processorTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// clock reads a clock that every Linux has.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("planner: " + err.Error())
	}
	return time.Duration(t.Nano())
}
