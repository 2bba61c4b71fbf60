package trace

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Profile adds up the time of a worker in one epoch, by layer and by what the worker does. It also keeps the
// memory that the worker holds over the epoch. At each moment of the training pass it counts one thing: a
// kernel, if one runs; else the start of a message, with its copy; else the main work, which waits or does
// something else. So the times add up to the pass, and no moment counts twice. Ranks that one worker holds
// share a Profile. A nil Profile does nothing.
type Profile struct {
	clock func() time.Duration
	on    atomic.Bool // between the Begin and the End of an epoch

	ranks int // ranks that share it

	mu             sync.Mutex
	epoch          int // the epoch that began last; 0: none
	passed, ended  int // ranks that have ended the epoch's training pass, and the epoch
	start, last    time.Duration
	timing         bool  // the training pass is under way
	current        *work // the rank that was at work last
	open           []activity
	started        int // activities so far
	times          map[int]*Times
	seconds        time.Duration // duration of the training pass
	paths          map[int]string
	samples        []Sample
	stride, merged int // how many samples one stands for, and how many the last one has so far
}

// work is the main work of a rank.
type work struct {
	layer int
	part  Part
}

// activity is a span that has begun.
type activity struct {
	number   int
	category Category
	work     *work
	at       work // where it began
}

// Part is a part of an epoch.
type Part uint8

// The parts of an epoch.
const (
	Other      Part = iota // loss, optimizer and checks of the training pass
	Forward                // a layer's forward pass
	Backward               // a layer's backward pass
	Evaluation             // after the training pass
)

// String is the part's name.
func (p Part) String() string {
	return [...]string{"rest", "forward", "backward", "evaluation"}[p]
}

// NoLayer is the layer of work outside all layers.
const NoLayer = -1

// Times say where the time of a worker went, in a layer or outside all layers.
type Times struct {
	Forward, Backward, Other time.Duration // kernels, and all other work
	Communication            time.Duration // messages on their way out or in, while no kernel runs
	Wait                     time.Duration // waiting for other workers, while no kernel runs
}

// Sum returns the sum of the times.
func (t Times) Sum() time.Duration {
	return t.Forward + t.Backward + t.Other + t.Communication + t.Wait
}

// Sample is the memory of a worker from a moment of the epoch on. If it stands for several consecutive
// moments, it has the most of them.
type Sample struct {
	Time    time.Duration // time of the first moment, from the epoch's beginning
	Layer   int           // layer of the main work
	Part    Part
	Kinds   []int64 // bytes
	Counted int64   // the bytes that a peak is the largest of
}

// mostSamples is how many samples of an epoch are kept.
const mostSamples = 512

// NewProfile returns a Profile with a clock, which so many ranks share.
func NewProfile(clock func() time.Duration, ranks int) *Profile {
	return &Profile{clock: clock, ranks: ranks, paths: map[int]string{}}
}

// Begin begins an epoch for a rank. The first rank of its worker to do so forgets the epoch before.
func (p *Profile) Begin(epoch int) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch == p.epoch {
		return false
	}
	p.epoch, p.passed, p.ended, p.start = epoch, 0, 0, p.clock()
	p.last, p.timing, p.current, p.open, p.times = p.start, true, nil, nil, map[int]*Times{}
	p.samples, p.stride, p.merged = nil, 1, 0
	p.on.Store(true)
	return true
}

// EndPass ends the training pass of a rank.
func (p *Profile) EndPass(epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != p.epoch { // another rank has begun the next one
		return
	}
	p.passed++
	if p.passed == p.ranks {
		p.advance()
		p.timing, p.seconds = false, p.last-p.start
	}
}

// End ends the epoch of a rank. It reports whether all ranks of its worker have ended it.
func (p *Profile) End(epoch int) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch != p.epoch {
		return false
	}
	p.ended++
	if p.ended < p.ranks {
		return false
	}
	p.on.Store(false)
	return true
}

// Memory takes a sample of the worker's memory: so many bytes of each kind, and the bytes that count for a
// peak. If the epoch has many samples, several consecutive ones become one.
func (p *Profile) Memory(kinds []int64, counted int64) {
	if p == nil || !p.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.samples) - 1
	merges := last >= 0 && p.merged < p.stride
	if merges {
		p.merged++
		if counted <= p.samples[last].Counted {
			return
		}
	}
	s := Sample{Time: p.clock() - p.start, Layer: NoLayer, Kinds: slices.Clone(kinds), Counted: counted}
	if p.current != nil {
		s.Layer, s.Part = p.current.layer, p.current.part
	}
	if merges {
		p.samples[last] = p.samples[last].with(s)
		return
	}
	if len(p.samples) == mostSamples {
		kept := p.samples[:0]
		for pair := range slices.Chunk(p.samples, 2) {
			kept = append(kept, pair[0].with(pair[1]))
		}
		p.samples, p.stride = kept, 2*p.stride
	}
	p.samples = append(p.samples, s)
	p.merged = 1
}

// with returns the most of a sample and the next one.
func (s Sample) with(next Sample) Sample {
	if next.Counted <= s.Counted {
		return s
	}
	next.Time = s.Time
	return next
}

// Epoch returns an epoch that has ended: its number, the time of its training pass, the times in each layer,
// and the samples of memory.
func (p *Profile) Epoch() (epoch int, pass time.Duration, byLayer map[int]*Times, memory []Sample) {
	if p == nil {
		return 0, 0, nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch, p.seconds, p.times, p.samples
}

// Path returns the module path that the rank was at in a layer, such as propagation; "": none.
func (p *Profile) Path(layer int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paths[layer]
}

// advance counts the time since the last call.
func (p *Profile) advance() {
	now := p.clock()
	if p.timing {
		since := now - p.last
		at, kind := p.doing()
		t := p.times[at.layer]
		if t == nil {
			t = &Times{}
			p.times[at.layer] = t
		}
		switch {
		case kind == Send || kind == Start:
			t.Communication += since
		case kind == Receive || kind == Wait:
			t.Wait += since
		case at.part == Forward:
			t.Forward += since
		case at.part == Backward:
			t.Backward += since
		default:
			t.Other += since
		}
	}
	p.last = now
}

// doing returns what the worker does now, and in which layer.
func (p *Profile) doing() (at work, kind Category) {
	at = work{layer: NoLayer}
	if p.current != nil {
		at = *p.current
	}
	kind = Phase
	for _, a := range p.open {
		switch a.category {
		case Compute:
			at, kind = a.at, Compute
		case Send, Start:
			if kind != Compute {
				at, kind = a.at, a.category
			}
		default:
			if kind == Phase && a.work == p.current {
				kind = Wait
			}
		}
	}
	return at, kind
}

// begin begins a span of a rank. number is 0 if the span does not count: the main work hides waits beside it.
func (p *Profile) begin(w *work, c Category, main bool) (number int) {
	switch {
	case p == nil || !p.on.Load():
		return 0
	case c == Compute, c == Send, c == Start:
	case main && (c == Receive || c == Wait):
	default:
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.started++
	if main || c == Compute {
		p.current = w
	}
	p.open = append(p.open, activity{p.started, c, w, *w})
	return p.started
}

// end ends a span.
func (p *Profile) end(number int) {
	if number == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.open, func(a activity) bool { return a.number == number })
	if i < 0 { // a span of an earlier epoch
		return
	}
	p.advance()
	if p.open[i].category != Send && p.open[i].category != Start {
		p.current = p.open[i].work
	}
	p.open = slices.Delete(p.open, i, i+1)
}

// moves says where the main work of a rank is from now on.
func (p *Profile) moves(w *work, layer int, part Part) {
	if p == nil || !p.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	w.layer, w.part = layer, part
	p.current = w
}

// at says which module the rank is at. The first module of a layer names it.
func (p *Profile) at(w *work, module string) {
	if p == nil || !p.on.Load() || module == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.layer != NoLayer && p.paths[w.layer] == "" {
		p.paths[w.layer] = module
	}
}
