// Package comm connects the workers of a run: messages between two ranks and collectives over all of them,
// named after MPI.
//
// A Transport moves the bytes: InProcess between goroutines, package mpi between processes. Everything else
// is here, so a run sends the same bytes, and rounds its sums the same way, on either. A send is not queued:
// it waits until its receiver takes the message. Every wait has a deadline, after which it fails with an
// Error that says who waited for whom.
//
// A failed wait aborts the transport before it returns. From then on no transfer uses a buffer, and the
// caller may release what it holds. There is no recovery from an error: the worker ends, and so does the run.
//
// A worker may hold several ranks, which take turns (SharedWorker). What they send waits for the turn of its
// receiver, unless both are at work at the same time (Comm.Unqueued). A rank of a plan sends nothing, and
// counts what it would send (Plan).
//
// Reading order: comm.go, pending.go (messages), collective.go, and setup.go (collectives before the first
// epoch). group.go makes groups of ranks. sharedworker.go keeps the messages between the ranks of a worker,
// turns.go has the order of their turns, and link.go carries the messages of all its ranks to another worker.
//
// The axes (parallel/*) send rows by it, and workers agree by it on what all need to know.
package comm

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weft/internal/trace"
)

// Comm is one rank's end of a group of workers. Goroutines may make calls of different kinds at the same
// time. Calls of one kind to one peer are matched in the order in which they are made, so every rank must
// make its collective calls of one kind in the same order.
type Comm struct {
	end   *end
	rank  int
	ranks []int // the members, as ranks of the transport
	tags  int   // the tag of the group's messages of kind k is tags+k
	aside bool  // its waits are for work beside the worker's own: see Beside
	// unqueued says that its messages to other workers' ranks wait in no Spool: see Unqueued.
	unqueued bool
	track    *trace.Track // the track of its goroutine; nil: nothing is recorded
}

// end is what all groups of a rank share.
type end struct {
	transport Transport
	shared    *member // the transport of a rank that shares its worker with others; nil: it does not
	plans     bool    // messages to and from other workers go nowhere
	timeout   time.Duration
	place     atomic.Pointer[place]
	sent      [Kinds]struct{ bytes, messages atomic.Int64 }
	sentTo    []atomic.Int64 // bytes of all kinds but Setup, by rank
	waited    atomic.Int64   // nanoseconds that the rank has waited

	mu     sync.Mutex
	waits  []*Pending       // in progress, the oldest first
	groups int              // the number of the next group, from 1
	sentBy map[string]int64 // bytes of rows sent, by layer
	traced map[stream]int   // how many messages were started while recording
	// postponed has the last request of each stream that has no place among its messages yet, or that has
	// failed.
	postponed map[stream]*postponed
}

// stream identifies messages that are matched in order.
type stream struct {
	peer, tag int
	sends     bool
}

// New returns one rank's end of the group of all ranks of the transport. A wait fails after the timeout, in
// which time while this process is stopped does not count (Deadline); 0 sets no limit.
func New(t Transport, timeout time.Duration) *Comm {
	e := &end{
		transport: t, timeout: timeout, groups: 1,
		traced: map[stream]int{}, postponed: map[stream]*postponed{},
		sentTo: make([]atomic.Int64, t.Size()), sentBy: map[string]int64{},
	}
	switch t := t.(type) {
	case plan:
		e.plans = true
	case *member:
		e.shared, e.plans = t, t.workers == nil
	}
	e.place.Store(&place{})
	c := &Comm{end: e, rank: t.Rank(), ranks: make([]int, t.Size())}
	for r := range c.ranks {
		c.ranks[r] = r
	}
	return c
}

// Rank is this worker's number in the group, from 0.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of workers in the group.
func (c *Comm) Size() int { return len(c.ranks) }

// Timeout is the time after which a wait fails; 0: never.
func (c *Comm) Timeout() time.Duration { return c.end.timeout }

// SetTimeout sets the time after which a wait of this rank fails, in all its groups. No wait may be under
// way.
func (c *Comm) SetTimeout(timeout time.Duration) { c.end.timeout = timeout }

// Recorded returns c with r recording what this rank sends and waits for, also in groups and goroutines made
// from it. A nil r records nothing. All ranks of the transport start recording in the same step.
func (c *Comm) Recorded(r *trace.Recorder) *Comm {
	recorded := *c
	recorded.track = r.Work()
	return &recorded
}

// Track has the spans of c's goroutine: the worker's main work, or work beside it. It is nil if nothing is
// recorded.
func (c *Comm) Track() *trace.Track { return c.track }

// At sets where in the run this rank is, in all its groups, for errors and for Waiting: the epoch, counted
// from 1, and the module path of a layer, which may be empty.
func (c *Comm) At(epoch int, layer string) {
	c.end.place.Store(&place{epoch, layer})
	c.track.At(layer)
}

// Traffic is an amount of payload. An empty message does not count.
type Traffic struct{ Bytes, Messages int64 }

// Sent is what this rank has sent so far to ranks of other workers, in all its groups.
func (c *Comm) Sent(k Kind) Traffic {
	s := &c.end.sent[k]
	return Traffic{s.bytes.Load(), s.messages.Load()}
}

// SentTo is the bytes of all kinds but Setup that this rank has sent so far, in all its groups, by rank of
// the transport. Ranks of its own worker have 0.
func (c *Comm) SentTo() []int64 {
	bytes := make([]int64, len(c.end.sentTo))
	for rank := range bytes {
		bytes[rank] = c.end.sentTo[rank].Load()
	}
	return bytes
}

// SentBy is the bytes of rows and their gradients, between partitions and between layouts, that this rank has
// sent so far to ranks of other workers. They are keyed by the module path of the layer (At).
func (c *Comm) SentBy() map[string]int64 {
	c.end.mu.Lock()
	defer c.end.mu.Unlock()
	return maps.Clone(c.end.sentBy)
}

// Beside runs f in a goroutine of its own, beside the caller's work. join waits for the end of f. f
// communicates through aside, which is the same group. The caller's work hides the waits of f: only the time
// in join counts.
func (c *Comm) Beside(f func(aside *Comm)) (join func()) {
	aside := *c
	done := make(chan struct{})
	aside.aside = true
	aside.track = c.track.Beside()
	go func() {
		defer close(done)
		defer aside.track.Leave()
		f(&aside)
	}()
	return func() { c.Await(func() { <-done }) }
}

// Waited is how long this rank has waited for others so far, in all its groups. Waits of goroutines beside
// its work do not count. For a rank of a SharedWorker it is how long none of the worker's ranks has been at
// work, since the first of them began.
func (c *Comm) Waited() time.Duration {
	if m := c.end.shared; m != nil {
		return m.waitedSoFar()
	}
	return time.Duration(c.end.waited.Load())
}

// Await runs f, which waits for others without a call of this Comm. Its time counts as a wait.
func (c *Comm) Await(f func()) {
	span := c.track.Begin(trace.Wait, "wait for work beside", trace.Args{})
	defer span.End()
	if m := c.member(); m != nil {
		m.during(f)
		return
	}
	defer c.countWait(time.Now())
	f()
}

// Signalled waits for a signal of work beside this rank's own. The time counts as a wait. came is false if no
// more signals will come.
func (c *Comm) Signalled(by <-chan struct{}) (came bool) {
	c.Await(func() { _, came = <-by })
	return came
}

// countWait counts a wait that ends now. A rank of a SharedWorker has kept its turn in it.
func (c *Comm) countWait(since time.Time) {
	if m := c.member(); m != nil {
		m.wasIdle(since)
	} else if !c.aside {
		c.end.waited.Add(int64(time.Since(since)))
	}
}

// Waiting says in words what this rank is waiting for, and for how long. Of several waits it takes the
// oldest. It returns "" if there is none. Any goroutine may call it.
func (c *Comm) Waiting() (what string, lasted time.Duration) {
	e := c.end
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waits) == 0 {
		return "", 0
	}
	p := e.waits[0]
	return fmt.Sprintf("%s, peer rank %d%s", p.operation(), p.peer, p.place), time.Since(p.since)
}

// Device is the transport, if it may send from a device's memory; else nil.
func (c *Comm) Device() DeviceTransport {
	t, _ := c.end.transport.(DeviceTransport)
	return t
}

// Abort ends every pending and later call with an error that wraps ErrAborted and err. In one process these
// are the calls of every rank, and with MPI the calls of this rank. When it returns, no transfer uses a
// buffer.
func (c *Comm) Abort(err error) { c.end.transport.Abort(err) }

// Close ends, in an orderly way, the group that New made. It waits for all ranks, with the deadline of any
// wait, and then closes the transport. Groups made by Group end with it; their own Close does nothing.
func (c *Comm) Close() error {
	if c.tags != 0 {
		return nil
	}
	if err := c.Barrier(Setup); err != nil {
		return err
	}
	closed := make(chan error, 1)
	go func() { closed <- c.end.transport.Close() }()
	deadline := NewDeadline(c.end.timeout)
	defer deadline.Stop()
	err, in := InTime(deadline, closed)
	if !in {
		return fmt.Errorf("rank %d: end of communication: %w (%v): a rank died while the run ended",
			c.rank, ErrTimeout, c.end.timeout)
	}
	return err
}

// Bytes is the memory of s as bytes.
func Bytes[T byte | int32 | int64 | float32 | float64](s []T) []byte {
	var element T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(element)))
}
