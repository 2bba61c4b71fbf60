// Package trace records what a worker does in an epoch, as spans of time. It writes the spans of all workers
// to one file in Chrome's trace event format, which Perfetto (ui.perfetto.dev) shows.
//
// A worker has several tracks: one for its main work, one for each goroutine beside it, and one for the
// kernels of its team. Several kernels at once have a track each. Spans of one track nest or do not overlap.
// If nothing is recorded, the Recorder, its tracks and their spans are nil or zero, and do nothing.
//
// A worker records by it where the command train is given --trace.
package trace

import (
	"slices"
	"sync"
	"time"
)

// Most is how many spans of an epoch a Recorder usually keeps: some 20 MB.
const Most = 1 << 17

// Recorder keeps the first spans of one epoch of a worker, and feeds a Profile. Any goroutine may use it.
type Recorder struct {
	clock   func() time.Duration
	most    int
	profile *Profile
	place   work

	work *Track

	mu      sync.Mutex
	on      bool
	epoch   int           // the recorded epoch, or the last one
	module  string        // the module whose kernels run now
	now     time.Duration // the last time read
	events  []Event
	lost    int // spans beyond the limit
	tracks  lanes
	kernels lanes
	disk    lanes
}

// New returns a Recorder with a clock, which keeps at most so many spans of an epoch, and a Profile, which
// may be nil.
func New(clock func() time.Duration, most int, p *Profile) *Recorder {
	r := &Recorder{clock: clock, most: most, profile: p, place: work{layer: NoLayer}}
	r.work = &Track{recorder: r}
	return r
}

// Traces reports whether the Recorder keeps spans.
func (r *Recorder) Traces() bool { return r != nil && r.most > 0 }

// Profile returns the Profile that the Recorder feeds; nil: none.
func (r *Recorder) Profile() *Profile {
	if r == nil {
		return nil
	}
	return r.profile
}

// off reports whether nothing is recorded now.
func (r *Recorder) off() bool {
	return !r.Traces() && (r.profile == nil || !r.profile.on.Load())
}

// Clock reads a clock that all workers of this process share.
func Clock() time.Duration { return time.Since(started) }

var started = time.Now()

// Now reads the clock. No two times are equal. So every span has a length, and none begins when another ends.
func (r *Recorder) Now() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tick()
}

func (r *Recorder) tick() time.Duration {
	r.now = max(r.now+1, r.clock())
	return r.now
}

// Start forgets all spans, and records the epoch until Stop.
func (r *Recorder) Start(epoch int) {
	if !r.Traces() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on, r.epoch, r.events, r.lost, r.kernels, r.disk, r.work.chunk = true, epoch, r.events[:0], 0,
		lanes{}, lanes{}, 0
}

// Stop ends the recording, and all open spans.
func (r *Recorder) Stop() {
	if !r.Traces() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = false
	for i := len(r.events) - 1; i >= 0; i-- { // inner spans end first
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

// Kernel begins a span of a kernel on the given shape and number of edges, on a track of the kernels. It has
// the module and chunk of the main work.
func (r *Recorder) Kernel(name string, shape Shape, entries int) Span {
	if r.off() {
		return Span{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.begin(Event{Category: Compute, Name: name, Args: Args{
		Module: r.module, Chunk: r.work.chunk,
		Shape: shape, Entries: entries,
	}})
	if s.index >= 0 {
		r.events[s.index].Lane = Lane{kernelLanes, r.kernels.take()}
	}
	return s
}

// Rest begins a span of a matrix that moves to disk, or back.
func (r *Recorder) Rest(name string, bytes int64) Span {
	return r.moved(Event{Category: Disk, Name: name, Args: Args{Bytes: bytes}}, diskLanes)
}

// Beside is Copy for a copy that runs beside a device's kernels.
func (r *Recorder) Beside(name string, s Shape, bytes int64, caller string) Span {
	return r.moved(Event{
		Category: Copy, Name: name, Args: Args{Bytes: bytes, Shape: s, Caller: caller},
	}, copyLanes)
}

// moved begins a span on a track of a sort.
func (r *Recorder) moved(e Event, sort laneSort) Span {
	if !r.Traces() {
		return Span{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.begin(e)
	if s.index >= 0 {
		r.events[s.index].Lane = Lane{sort, r.disk.take()}
	}
	return s
}

// Copy begins a span of a matrix that is copied to a device, or back.
func (r *Recorder) Copy(name string, s Shape, bytes int64, caller string) Span {
	if !r.Traces() {
		return Span{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begin(Event{
		Category: Copy, Name: name, Lane: Lane{Sort: deviceLanes},
		Args: Args{Bytes: bytes, Shape: s, Caller: caller},
	})
}

func (r *Recorder) begin(e Event) Span {
	s := Span{r, r.epoch, -1, r.profile.begin(&r.place, e.Category, e.Lane == r.work.lane)}
	switch {
	case !r.on:
		return s
	case len(r.events) == r.most:
		r.lost++
		return s
	}
	e.Start = r.tick()
	r.events = append(r.events, e)
	s.index = len(r.events) - 1
	return s
}

// Events returns the recorded spans in the order in which they began, and the number of spans beyond the
// limit. They are valid until the next Start.
func (r *Recorder) Events() (events []Event, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events, r.lost
}

// Track has the spans of one goroutine.
type Track struct {
	recorder *Recorder
	lane     Lane
	chunk    Index
}

// Off reports whether nothing is recorded now.
func (t *Track) Off() bool { return t == nil || t.recorder.off() }

// Layer says that the main work is in a part of a layer from now on, or, with NoLayer, outside all layers.
func (t *Track) Layer(layer int, part Part) {
	if !t.Off() {
		t.recorder.profile.moves(&t.recorder.place, layer, part)
	}
}

// Begin begins a span on the track. The track's goroutine ends it, after the spans inside it.
func (t *Track) Begin(c Category, name string, a Args) Span {
	if t.Off() {
		return Span{}
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	if a.Chunk == 0 && c != Start && c != Wait { // the message of a Start or Wait may have another chunk
		a.Chunk = t.chunk
	}
	return t.recorder.begin(Event{Lane: t.lane, Category: c, Name: name, Args: a})
}

// Chunk sets the chunk of all phases, sends and receives that begin on the track from now on, and of the main
// work's kernels. The zero value is no chunk.
func (t *Track) Chunk(i Index) {
	if t == nil || !t.recorder.Traces() {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.chunk = i
}

// Beside returns the track of a goroutine beside this one, until its Leave.
func (t *Track) Beside() *Track {
	if t == nil {
		return nil
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	return &Track{recorder: t.recorder, lane: Lane{besideLanes, t.recorder.tracks.take()}, chunk: t.chunk}
}

// Leave ends the use of a track from Beside.
func (t *Track) Leave() {
	if t == nil {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.tracks.leave(t.lane.Number)
}

// At sets the module of the kernels that run from now on.
func (t *Track) At(module string) {
	if t.Off() {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.module = module
	t.recorder.profile.at(&t.recorder.place, module)
}

// Span is a span that has begun. The zero value is not recorded.
type Span struct {
	recorder *Recorder
	epoch    int
	index    int // among the events; below 0: it is none of them
	activity int // its number in the Profile
}

// Recorded reports whether its time counts.
func (s Span) Recorded() bool { return s.recorder != nil && (s.index >= 0 || s.activity > 0) }

// End ends the span, unless it or its epoch has ended.
func (s Span) End() {
	r := s.recorder
	if r == nil {
		return
	}
	r.profile.end(s.activity)
	if s.index < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on || r.epoch != s.epoch || r.events[s.index].End != 0 {
		return
	}
	e := &r.events[s.index]
	e.End = r.tick()
	switch e.Lane.Sort {
	case kernelLanes:
		r.kernels.leave(e.Lane.Number)
	case diskLanes, copyLanes:
		r.disk.leave(e.Lane.Number)
	}
}

// lanes are tracks of one sort. One goroutine at a time uses a track.
type lanes struct{ used []bool }

// take takes the first free track.
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
