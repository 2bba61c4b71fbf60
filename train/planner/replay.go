package planner

import (
	"errors"
	"math"
	"slices"

	"weft/internal/trace"
)

// Machine is what the workers run on.
type Machine struct {
	Cores   int // that the workers of a machine share
	Threads int // of each worker
	Sharers int // the workers of a machine
	Links
}

// replay repeats the steps of the workers of a plan in a time of its own, by these rules:
//
//   - A kernel takes its time alone, or longer while the workers of its machine want more cores than it has:
//     for the threads of kernels, and for the bytes of messages. All get the same part of what they want.
//   - A message may move when its sender has started to send it and, unless it is short, its receiver to
//     receive it. The messages from one worker to another move one after the other. Each takes its latency,
//     and then its bytes. The messages that leave a worker at a time have equal parts of its link, and so
//     have those that come to one.
//   - A wait ends when the message has moved, or when the other track has reached the point.
//
// Everything else takes no time.
type replay struct {
	machine Machine
	seconds Seconds
	now     float64

	tracks    []*track
	ready     []*track // those that make steps now
	computing []*track
	links     map[pair]*link
	moving    []*message // the first of each link
	leaving   []int      // by worker: the messages whose bytes leave it now
	coming    []int      // by worker: those whose bytes come to it
	points    []map[trace.Point]*point
}

// Seconds is the time that a kernel call of a worker takes alone.
type Seconds func(worker int, kernel *trace.Event) float64

// track is the steps of one goroutine of a worker.
type track struct {
	worker int
	steps  []*trace.Event
	next   int
	left   float64  // seconds of its kernel, alone
	on     *message // what it waits for; nil: none
	after  *point   // what it waits for; nil: none
}

// point is a step of a track that others wait for.
type point struct {
	of      *track
	reached bool
	waiting []*track
}

type pair struct{ from, to int }

// link is what one worker sends another.
type link struct {
	streams map[int]*stream // by tag
	queue   []*message      // that may move
}

// stream has messages that are matched in order. first is the number of the first at each end.
type stream struct {
	messages []*message
	first    map[trace.Category]trace.Index
}

type message struct {
	pair
	bytes          int64
	sent, received bool // have started
	queued, moved  bool
	latency, left  float64 // seconds, and then bytes
	waiting        []*track
}

// doing is what a worker does at a time.
type doing int

const (
	computes  doing = iota
	transfers       // it waits for a message that moves
	waits           // it waits for another worker
	doings
)

// Work is how long a worker did what, in seconds.
type Work [doings]float64

var errStuck = errors.New("the steps of a plan wait for each other")

// Replay returns what each worker does, and how long all of it takes. steps are those of each worker.
func Replay(steps [][]trace.Event, m Machine, seconds Seconds) (work []Work, end float64, err error) {
	n := len(steps)
	r := &replay{
		machine: m, seconds: seconds, links: map[pair]*link{}, leaving: make([]int, n),
		coming: make([]int, n),
	}
	work = make([]Work, n)
	main := make([]*track, n)
	for worker := range steps {
		main[worker] = r.add(worker, steps[worker])
	}
	r.ready = slices.Clone(r.tracks)
	for {
		for len(r.ready) > 0 {
			t := r.ready[0]
			r.ready = r.ready[1:]
			r.proceed(t)
		}
		now := r.speeds()
		step := r.untilNext(now)
		if math.IsInf(step, 1) {
			break
		}
		for worker, t := range main {
			work[worker][t.doing()] += step
		}
		r.pass(step, now)
	}
	for _, t := range r.tracks {
		if t.on != nil || t.after != nil {
			return nil, 0, errStuck
		}
	}
	return work, r.now, nil
}

// add divides the steps of a worker into tracks. It returns that of its main work.
func (r *replay) add(worker int, steps []trace.Event) (main *track) {
	main = &track{worker: worker}
	byLane, points := map[trace.Lane]*track{{}: main}, map[trace.Point]*point{}
	r.tracks = append(r.tracks, main)
	for i := range steps {
		e := &steps[i]
		t := byLane[e.Lane]
		if t == nil {
			t = &track{worker: worker}
			byLane[e.Lane], r.tracks = t, append(r.tracks, t)
		}
		t.steps = append(t.steps, e)
		if e.Category == trace.Signal {
			points[e.Args.Point] = &point{of: t}
		}
	}
	r.points = append(r.points, points)
	return main
}

// proceed makes the steps of a track up to one that takes time.
func (r *replay) proceed(t *track) {
	for t.next < len(t.steps) {
		e := t.steps[t.next]
		t.next++
		switch e.Category {
		case trace.Compute:
			if t.left = r.seconds(t.worker, e); t.left > 0 {
				r.computing = append(r.computing, t)
				return
			}
		case trace.Send, trace.Start:
			r.start(t, e)
		case trace.Receive, trace.Wait:
			if e.Args.Peer == 0 { // for work beside, of which a point tells
				continue
			}
			if m := r.message(t, e); !m.moved {
				t.on, m.waiting = m, append(m.waiting, t)
				return
			}
		case trace.Signal:
			p := r.points[t.worker][e.Args.Point]
			p.reached = true
			r.wake(p.waiting)
		case trace.After:
			if p := r.points[t.worker][e.Args.Point]; p != nil && !p.reached { // nil: before the first step
				t.after, p.waiting = p, append(p.waiting, t)
				return
			}
		}
	}
}

func (r *replay) wake(tracks []*track) {
	for _, t := range tracks {
		t.on, t.after = nil, nil
	}
	r.ready = append(r.ready, tracks...)
}

// message returns the message that a step starts or waits for.
func (r *replay) message(t *track, e *trace.Event) *message {
	p, end := pair{t.worker, int(e.Args.Peer) - 1}, trace.Send
	if e.Category == trace.Start || e.Category == trace.Receive {
		p, end = pair{p.to, p.from}, trace.Start
	}
	l := r.links[p]
	if l == nil {
		l = &link{streams: map[int]*stream{}}
		r.links[p] = l
	}
	s := l.streams[e.Args.Tag]
	if s == nil {
		s = &stream{first: map[trace.Category]trace.Index{}}
		l.streams[e.Args.Tag] = s
	}
	if _, begun := s.first[end]; !begun {
		s.first[end] = e.Args.Message
	}
	number := int(e.Args.Message - s.first[end])
	for len(s.messages) <= number {
		s.messages = append(s.messages, &message{pair: p})
	}
	return s.messages[number]
}

// start starts one end of a message.
func (r *replay) start(t *track, e *trace.Event) {
	m := r.message(t, e)
	m.bytes = e.Args.Bytes
	if e.Category == trace.Send {
		m.sent = true
	} else {
		m.received = true
	}
	if m.queued || !m.sent || !m.received && m.bytes > r.machine.Eager {
		return
	}
	m.queued, m.latency, m.left = true, r.machine.Latency, float64(m.bytes)
	l := r.links[m.pair]
	if l.queue = append(l.queue, m); len(l.queue) == 1 {
		r.move(m)
	}
}

// move begins to move a message.
func (r *replay) move(m *message) {
	r.moving = append(r.moving, m)
	if m.latency == 0 {
		r.leaving[m.from]++
		r.coming[m.to]++
	}
}

// speeds are how fast kernels and messages go on now.
type speeds struct {
	shares []float64 // by machine: what each thread gets of the part of a core that it wants
	rates  []float64 // bytes per second of each message in moving; 0 before its first byte
}

// speeds divides links and cores among what computes and moves. One thread of each worker handles its
// messages.
func (r *replay) speeds() speeds {
	workers := len(r.leaving)
	s := speeds{slices.Repeat([]float64{0}, (workers-1)/r.machine.Sharers+1), make([]float64, len(r.moving))}
	handling := make([]float64, workers) // the part of a core that a worker's messages want
	for i, m := range r.moving {
		if m.latency == 0 {
			s.rates[i] = min(r.machine.Sends/float64(r.leaving[m.from]),
				r.machine.Receives/float64(r.coming[m.to]))
			if r.machine.Handling > 0 { // links may be infinitely fast
				handling[m.from] += s.rates[i] * r.machine.Handling
				handling[m.to] += s.rates[i] * r.machine.Handling
			}
		}
	}
	wanted := s.shares
	for worker, cores := range handling {
		wanted[worker/r.machine.Sharers] += min(1, cores)
	}
	for _, t := range r.computing {
		wanted[t.worker/r.machine.Sharers] += float64(r.machine.Threads)
	}
	for machine, cores := range wanted {
		s.shares[machine] = min(1, float64(r.machine.Cores)/max(cores, 1e-9))
	}
	for i, m := range r.moving {
		handled := func(worker int) float64 {
			return s.shares[worker/r.machine.Sharers] / max(1, handling[worker])
		}
		s.rates[i] *= min(handled(m.from), handled(m.to))
	}
	return s
}

// untilNext is the time until the next kernel ends or the next message has moved, or its latency is over;
// infinite if there is none.
func (r *replay) untilNext(s speeds) float64 {
	next := math.Inf(1)
	for _, t := range r.computing {
		next = min(next, t.left/s.shares[t.worker/r.machine.Sharers])
	}
	for i, m := range r.moving {
		if m.latency > 0 {
			next = min(next, m.latency)
		} else {
			next = min(next, m.left/s.rates[i])
		}
	}
	return next
}

// pass lets that time pass.
func (r *replay) pass(seconds float64, s speeds) {
	const rest = 1e-9 // of a second, and a thousandth of a byte: what rounding leaves
	r.now += seconds
	r.computing = slices.DeleteFunc(r.computing, func(t *track) bool {
		if t.left -= seconds * s.shares[t.worker/r.machine.Sharers]; t.left > rest {
			return false
		}
		t.left = 0
		r.ready = append(r.ready, t)
		return true
	})
	moving := r.moving
	r.moving = nil
	for i, m := range moving {
		if m.latency > 0 {
			if m.latency -= seconds; m.latency > rest {
				r.moving = append(r.moving, m)
				continue
			}
			m.latency = 0
			r.move(m)
			continue
		}
		if m.left -= seconds * s.rates[i]; m.left > 1e6*rest {
			r.moving = append(r.moving, m)
			continue
		}
		r.arrive(m)
	}
}

// arrive ends the moving of a message. The next of its link begins.
func (r *replay) arrive(m *message) {
	m.moved = true
	r.leaving[m.from]--
	r.coming[m.to]--
	r.wake(m.waiting)
	l := r.links[m.pair]
	if l.queue = l.queue[1:]; len(l.queue) > 0 {
		r.move(l.queue[0])
	}
}

// doing is what a track does now. It does what the track does that it waits for.
func (t *track) doing() doing {
	for t.after != nil {
		t = t.after.of
	}
	switch {
	case t.left > 0:
		return computes
	case t.on != nil && t.on.queued:
		return transfers
	}
	return waits
}
