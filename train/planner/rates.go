package planner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

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

// Of returns the seconds of a kernel call. One of widths that were not measured takes the rate of the most
// similar ones; one that was not measured takes the mean rate of all.
func (r *Rates) Of(e *trace.Event) float64 {
	w, todo := widths(e.Args.Shape), work(e.Args.Shape, e.Args.Entries)
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

// measuring is what a run's kernels take.
type measuring struct {
	slots chan struct{} // kernels at a time

	mu    sync.Mutex
	epoch int
	taken map[string]map[int]*taken // by key and epoch
}

type taken struct {
	kernel        string
	widths        [2]int
	seconds, work float64
}

func (m *measuring) watch(c kernel.Call, run func()) {
	m.slots <- struct{}{}
	start := time.Now()
	run()
	seconds := time.Since(start).Seconds()
	<-m.slots
	if c.Shape[1] == 0 { // the parts of hubs
		return
	}
	shape := trace.Shape(c.Shape)
	w := widths(shape)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := key(c.Kernel, w)
	if m.taken[k] == nil {
		m.taken[k] = map[int]*taken{}
	}
	t := m.taken[k][m.epoch]
	if t == nil {
		t = &taken{kernel: c.Kernel, widths: w}
		m.taken[k][m.epoch] = t
	}
	t.seconds, t.work = t.seconds+seconds, t.work+work(shape, c.Entries)
}

const measuredEpochs = 3 // besides the first, which takes fresh memory

// measure trains on a mesh in this process for a few epochs, and returns how long the kernels took in the
// fastest of them. At most so many kernels run at a time, each on its team's threads.
func measure(ctx context.Context, g *graph.Graph, o setting.Options, atOnce int) (*Rates, error) {
	m := &measuring{slots: make(chan struct{}, atOnce), taken: map[string]map[int]*taken{}}
	job := &train.Job{Graph: g, Options: o, Watch: m.watch, OnEpoch: func(e train.Epoch) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.epoch = e.Epoch
	}}
	if _, err := job.Run(ctx); err != nil {
		return nil, err
	}
	r := &Rates{Measured: time.Now(), Kernels: map[string]*Rate{}}
	for k, epochs := range m.taken {
		best := &Rate{Seconds: math.Inf(1)}
		for epoch, t := range epochs {
			if s := t.seconds / t.work; t.work > 0 && (epoch > 0 || len(epochs) == 1) && s < best.Seconds {
				best = &Rate{Kernel: t.kernel, Widths: t.widths, Seconds: s}
			}
		}
		if !math.IsInf(best.Seconds, 1) {
			r.Kernels[k] = best
		}
	}
	return r, nil
}
