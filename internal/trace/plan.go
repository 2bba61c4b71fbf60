package trace

import "sync"

// A plan has no times. Its recorder records what each track does, in order, and which step of another track
// of the worker must come first. One goroutine of the worker is at work at a time, so that the track of a
// kernel is known.

// Point is a step of a track, which other tracks of the worker may wait for. The zero value is none.
type Point int

// steps is what a plan's recorder has besides spans.
type steps struct {
	turn    sync.Mutex // of the goroutine that is at work
	current *Track     // whose turn it is
	points  Point
}

// NewPlan returns the recorder of a worker that plans, with no limit. The caller's goroutine is at work.
func NewPlan() *Recorder {
	r := New(Clock, 0, nil)
	r.plan = &steps{current: r.work}
	r.plan.turn.Lock()
	return r
}

// Enter begins the use of a track from Beside, by its goroutine.
func (t *Track) Enter() {
	if t == nil || t.recorder.plan == nil {
		return
	}
	t.take()
	t.After(t.begins)
}

// take waits for the turn.
func (t *Track) take() {
	t.recorder.plan.turn.Lock()
	t.recorder.plan.current = t
}

// Yield runs f, which waits for another goroutine of the worker.
func (t *Track) Yield(f func()) {
	if t == nil || t.recorder.plan == nil {
		f()
		return
	}
	t.recorder.plan.turn.Unlock()
	defer t.take()
	f()
}

// Signal is the point that the track has reached.
func (t *Track) Signal() Point {
	if t == nil || t.recorder.plan == nil {
		return 0
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	return t.signal()
}

// signal is Signal for a caller that holds mu.
func (t *Track) signal() Point {
	r := t.recorder
	r.plan.points++
	r.begin(Event{Lane: t.lane, Category: Signal, Args: Args{Point: r.plan.points}})
	return r.plan.points
}

// After says that the track goes on after the point.
func (t *Track) After(p Point) {
	if t == nil || t.recorder.plan == nil || p == 0 {
		return
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.begin(Event{Lane: t.lane, Category: After, Args: Args{Point: p}})
}
