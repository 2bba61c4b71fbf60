// Package trace records what a worker does in an epoch, as spans of time, and writes those of all workers as
// one file in Chrome's trace event format, which Perfetto (ui.perfetto.dev) shows.
//
// A worker's spans lie on tracks: one of its main work, one for each goroutine beside it, and one for the
// kernels that its team runs, with another where several run at once. Those of one track nest or do not
// overlap. Where nothing is recorded the Recorder, its tracks and their spans are nil or zero, and do
// nothing.
package trace

import (
	"slices"
	"sync"
	"time"
)

// Most is how many spans of an epoch a Recorder usually keeps: some 20 MB.
const Most = 1 << 17

// Recorder keeps the spans of one epoch of a worker, the first ones where there are too many. It may be used
// from any goroutine.
type Recorder struct {
	clock func() time.Duration
	most  int

	work *Track

	mu      sync.Mutex
	on      bool
	epoch   int           // that is recorded, or was last
	site    string        // where the kernels work
	now     time.Duration // that was read last
	events  []Event
	lost    int // spans that there was no room for
	beside  lanes
	kernels lanes
}

// New records by a clock, and keeps so many spans of an epoch at most.
func New(clock func() time.Duration, most int) *Recorder {
	r := &Recorder{clock: clock, most: most}
	r.work = &Track{recorder: r}
	return r
}

// Clock is one that all workers of this process share.
func Clock() time.Duration { return time.Since(started) }

var started = time.Now()

// Now reads the clock. No two times are equal, so that every span has a length, and none begins when another
// ends.
func (r *Recorder) Now() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tick()
}

func (r *Recorder) tick() time.Duration {
	r.now = max(r.now+1, r.clock())
	return r.now
}

// Start forgets what was recorded and records the epoch, until Stop.
func (r *Recorder) Start(epoch int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.epoch, r.events, r.lost, r.kernels, r.work.chunk = true, epoch, r.events[:0], 0, lanes{}, 0
}

// Stop ends what is recorded, with spans that are open.
func (r *Recorder) Stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	for i := len(r.events) - 1; i >= 0; i-- { // what is inside ends first
		if r.events[i].End == 0 {
			r.events[i].End = r.tick()
		}
	}
}

// Work is the track of the worker's main work.
func (r *Recorder) Work() *Track {
	if r == nil {
		return nil
	}
	return r.work
}

// Kernel begins a span of a kernel that works on the shape, on a track of the kernels. It is taken for one of
// the main work, as far as place and chunk go.
func (r *Recorder) Kernel(name string, shape Shape) Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.begin(Event{Category: Compute, Name: name, Args: Args{Site: r.site, Chunk: r.work.chunk, Shape: shape}})
	if s.recorder != nil {
		r.events[s.index].Lane = Lane{kernelLanes, r.kernels.take()}
	}
	return s
}

func (r *Recorder) begin(e Event) Span {
	switch {
	case !r.on:
		return Span{}
	case len(r.events) == r.most:
		r.lost++
		return Span{}
	}
	e.Start = r.tick()
	r.events = append(r.events, e)
	return Span{r, r.epoch, len(r.events) - 1}
}

// Events are what was recorded, in the order in which the spans began, and how many spans there was no room
// for. They are there until the next Start.
func (r *Recorder) Events() (events []Event, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, r.lost
}

// Track is where the spans of one goroutine lie.
type Track struct {
	recorder *Recorder
	lane     Lane
	chunk    Index
}

// Begin begins a span on the track. The goroutine that the track is of ends it, after those that it begins
// inside it.
func (t *Track) Begin(c Category, name string, a Args) Span {
	if t == nil {
		return Span{}
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	if a.Chunk == 0 {
		a.Chunk = t.chunk
	}
	return t.recorder.begin(Event{Lane: t.lane, Category: c, Name: name, Args: a})
}

// Chunk says of which chunk the spans are that begin on the track from now on; its zero value: of none.
func (t *Track) Chunk(i Index) {
	if t == nil {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.chunk = i
}

// Beside is the track of a goroutine that works beside this one, until its Leave.
func (t *Track) Beside() *Track {
	if t == nil {
		return nil
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	return &Track{recorder: t.recorder, lane: Lane{besideLanes, t.recorder.beside.take()}, chunk: t.chunk}
}

// Leave ends the use of a track that Beside gave.
func (t *Track) Leave() {
	if t == nil {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.beside.leave(t.lane.Number)
}

// At says at which place of the model the kernels work from now on.
func (t *Track) At(site string) {
	if t == nil {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.site = site
}

// Span is one that has begun; its zero value is not recorded.
type Span struct {
	recorder *Recorder
	epoch    int
	index    int
}

// End ends it, unless it has ended, with its epoch or before.
func (s Span) End() {
	r := s.recorder
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on || r.epoch != s.epoch || r.events[s.index].End != 0 {
		return
	}
	e := &r.events[s.index]
	e.End = r.tick()
	if e.Lane.Sort == kernelLanes {
		r.kernels.leave(e.Lane.Number)
	}
}

// lanes are tracks of one sort, of which each is used by one goroutine at a time.
type lanes struct{ used []bool }

// take is the first that nobody uses.
func (l *lanes) take() int {
	i := slices.Index(l.used, false)
	if i < 0 {
		i = len(l.used)
		l.used = append(l.used, false)
	}
	l.used[i] = true
	return i
}

func (l *lanes) leave(i int) { l.used[i] = false }
