package kernel

// #include "native/weft.h"
import "C"

import (
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"weft/internal/cores"
)

// linger is how long a thread without work looks for more before it sleeps. It is about the time that waking
// a thread takes, and the kernels of a small graph are shorter.
const linger = 50 * time.Microsecond

// call is one hand-out of work(0) … work(n−1). Each thread has the same share in every call, so that its
// caches still hold the share's data. A thread that has finished its share takes over parts of the others'
// shares.
type call struct {
	shares []share
	work   func(k int)
	// inside is the number of helpers that are at work. It is finished or more once the caller lets no more
	// of them in.
	inside atomic.Int64
	left   chan struct{} // closed when the last helper is out
	failed atomic.Pointer[any]
}

const finished = math.MinInt64

// share is a range of consecutive parts of a call's work. The parts from next on are not yet done.
type share struct {
	next atomic.Int64
	end  int64
}

func newCall(n, threads int, work func(k int)) *call {
	c := &call{shares: make([]share, min(n, threads)), work: work, left: make(chan struct{})}
	for i := range c.shares {
		c.shares[i].next.Store(int64(n * i / len(c.shares)))
		c.shares[i].end = int64(n * (i + 1) / len(c.shares))
	}
	return c
}

// take works, from share own on, until nothing is left. It keeps a panic for the caller's goroutine, which
// can recover from it.
func (c *call) take(own int) {
	defer func() {
		if p := recover(); p != nil {
			c.failed.Store(&p)
		}
	}()
	for i := range c.shares {
		s := &c.shares[(own+i)%len(c.shares)]
		for k := s.next.Add(1) - 1; k < s.end; k = s.next.Add(1) - 1 {
			c.work(int(k))
		}
	}
}

// help is take for the helper with this number, unless the call is finished: nobody waits for a helper that
// wakes up late.
func (c *call) help(number int) {
	for inside := c.inside.Load(); inside >= 0; inside = c.inside.Load() {
		if c.inside.CompareAndSwap(inside, inside+1) {
			defer func() {
				if c.inside.Add(-1) == finished {
					close(c.left)
				}
			}()
			c.take(1 + number%max(1, len(c.shares)-1)) // the caller begins with share 0
			return
		}
	}
}

// finish waits for the helpers that are at work. If one of them panicked, it panics with the same value in
// the caller's goroutine.
func (c *call) finish() {
	if c.inside.Add(finished) != finished {
		if _, soon := lingered(c.left); !soon {
			<-c.left
		}
	}
	if p := c.failed.Load(); p != nil {
		panic(*p)
	}
}

// helpers are the goroutines that work beside the callers. Between two calls they linger.
type helpers struct {
	begun     atomic.Int64 // number of helpers so far, which numbers them
	lingering atomic.Int64 // number of helpers that linger and are not promised to a call
	// calls that helpers were promised to; if it is full, a lingering helper receives one soon
	calls chan *call
}

// join lets one more helper take part in a call.
func (h *helpers) join(c *call) {
	if h.claim() {
		h.calls <- c
	} else {
		go h.help(c)
	}
}

// help takes part in a call, and in calls that come soon after it. A fault of a mapped file in its work
// becomes a panic like any other, which the caller's goroutine gets.
func (h *helpers) help(c *call) {
	debug.SetPanicOnFault(true)
	number := int(h.begun.Add(1))
	for more := true; more; c, more = h.another() {
		c.help(number)
	}
}

// another returns the next call, if it comes soon.
func (h *helpers) another() (*call, bool) {
	if !h.offer() {
		return nil, false
	}
	for {
		if c, soon := lingered(h.calls); soon {
			return c, true
		}
		if h.claim() {
			return nil, false
		}
	}
}

// offer announces one more lingering helper. It returns false if as many linger as there are processors
// besides the caller's.
func (h *helpers) offer() bool {
	most := int64(cores.Count()) - 1
	for n := h.lingering.Load(); n < most; n = h.lingering.Load() {
		if h.lingering.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// claim promises one of the helpers that linger to a call, or to itself.
func (h *helpers) claim() bool {
	for n := h.lingering.Load(); n > 0; n = h.lingering.Load() {
		if h.lingering.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

// lingered receives from a channel, and returns true also if it is closed. It returns false if nothing comes
// while a thread lingers.
func lingered[T any](from <-chan T) (v T, came bool) {
	for start := time.Now(); time.Since(start) < linger; C.weft_pause() {
		select {
		case v = <-from:
			return v, true
		default:
		}
	}
	return v, false
}
