package comm

import (
	"slices"
	"time"
)

// Ranks of one worker take turns. The rank at work keeps its turn until it waits for something that has not
// happened. The next turn goes to the lowest rank whose wait is over. Within an epoch all ranks wait at the
// same places (LocalBarrier), so the order of their turns, and the memory that they take, are the same in
// every run.

// Begin waits for the rank's first turn. A rank of a SharedWorker calls it before any other work, and End at
// the end. For other ranks both do nothing.
func (c *Comm) Begin() {
	if m := c.member(); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.starting--
		m.await(func() bool { return true })
	}
}

// End ends the rank's last turn.
func (c *Comm) End() {
	if m := c.member(); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.last = true
		m.leave()
	}
}

// TakesTurns reports whether the rank shares its worker with others.
func (c *Comm) TakesTurns() bool { return c.member() != nil }

// LocalBarrier waits until all ranks of the group that the worker holds have called it as often as this rank.
// Messages that they sent to each other before it have then arrived. For a rank that has its worker for
// itself, LocalBarrier does nothing.
func (c *Comm) LocalBarrier() {
	m := c.member()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.barriers[c.tags]++
	m.came.restart()
	m.went.restart()
	want := m.barriers[c.tags]
	m.await(func() bool {
		for _, other := range m.members {
			if other.barriers[c.tags] < want && !other.last && slices.Contains(c.ranks, other.rank) {
				return false
			}
		}
		return true
	})
}

// Aborted returns why the rank's worker was aborted; nil: it was not. LocalBarrier does not report it: what
// others exposed may then belong to another call, or be incomplete.
func (c *Comm) Aborted() error {
	if m := c.member(); m != nil {
		return m.aborted()
	}
	return nil
}

// Publish lets the nearby ranks of the group read a value, by Published, from the next LocalBarrier on. They
// use it in their turns. For a rank that has its worker for itself, Publish does nothing.
func (c *Comm) Publish(value any) {
	if m := c.member(); m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.published[c.tags] = value
	}
}

// Nearby reports whether a rank of the group is a different rank of the same worker.
func (c *Comm) Nearby(rank int) bool {
	m := c.member()
	return m != nil && rank != c.rank && m.sameWorker(c.ranks[rank])
}

// Turn is a rank's place among the ranks of the group that its worker holds. Between two calls of
// LocalBarrier they take their turns in this order.
func (c *Comm) Turn(rank int) int { return slices.Index(c.heldWith(rank), rank) }

// Opposite returns the rank of the group that is at work on the worker of rank on while rank is at work on
// its own. It is the rank of the same Turn, or the last one of a worker with fewer.
func (c *Comm) Opposite(rank, on int) int {
	ranks := c.heldWith(on)
	return ranks[min(c.Turn(rank), len(ranks)-1)]
}

// heldWith lists the ranks of the group that the worker of rank holds, ascending.
func (c *Comm) heldWith(rank int) (ranks []int) {
	m := c.member()
	for other, global := range c.ranks {
		if m.holders[global] == m.holders[c.ranks[rank]] {
			ranks = append(ranks, other)
		}
	}
	return ranks
}

// Unqueued is c for messages to and from ranks of other workers that are at work at the same time, each with
// KeepTurn. These messages wait in no Spool: a send ends when its receiver takes it. Messages from one worker
// to another are matched in the order in which they are made, whichever ranks of the two make them.
func (c *Comm) Unqueued() *Comm {
	unqueued := *c
	unqueued.unqueued = true
	return &unqueued
}

// unqueued is the Transport of Unqueued. In a plan it sends nothing, and everything has already come.
type unqueued struct{ *member }

func (u unqueued) Send(data []byte, to, tag int) Request {
	return u.move(func(t Transport, tag int) Request { return t.Send(data, u.holders[to], tag) }, tag)
}

func (u unqueued) Receive(data []byte, from, tag int) Request {
	return u.move(func(t Transport, tag int) Request { return t.Receive(data, u.holders[from], tag) }, tag)
}

// move makes a request of the worker, with a tag of its own for each kind.
func (u unqueued) move(request func(t Transport, tag int) Request, tag int) Request {
	if u.workers == nil {
		t := newTransfer(nil)
		t.finish(u.aborted())
		return t
	}
	return request(u.workers.end.transport, u.workers.tags+int(KindOf(tag)))
}

// Published returns the value of a nearby rank of the group.
func (c *Comm) Published(rank int) any {
	m := c.member()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memberOf(c.ranks[rank]).published[c.tags]
}

// memberOf is the member for one of the worker's ranks.
func (w *SharedWorker) memberOf(rank int) *member {
	return w.members[slices.IndexFunc(w.members, func(m *member) bool { return m.rank == rank })]
}

// Expose lets the nearby ranks of the group read a value, by Exposed, between the next LocalBarrier and the
// one after it. They use it in their turns.
func (c *Comm) Expose(value any) {
	m := c.member()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exposed[c.tags] == nil {
		m.exposed[c.tags] = &[2]any{}
	}
	m.exposed[c.tags][(m.barriers[c.tags]+1)%2] = value
}

// Exposed returns what a nearby rank of the group, or this one, exposed before the last LocalBarrier.
func (c *Comm) Exposed(rank int) any {
	m := c.member()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memberOf(c.ranks[rank]).exposed[c.tags][m.barriers[c.tags]%2]
}

// KeepTurn lets the rank keep its turn while it waits, until release is called. Between two calls of
// LocalBarrier it then waits only for ranks of other workers. All these ranks have sent what it waits for, or
// will do so before they hold their turns, or are Opposite. So nobody waits for ever.
func (c *Comm) KeepTurn() (release func()) {
	m := c.member()
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	m.turnsKept++
	m.mu.Unlock()
	return func() {
		m.mu.Lock()
		m.turnsKept--
		m.mu.Unlock()
	}
}

// member is the rank's member of its SharedWorker. It is nil if the rank has no turn to give away: it has a
// worker of its own, or c is for work beside the rank's own.
func (c *Comm) member() *member {
	if c.aside {
		return nil
	}
	return c.end.shared
}

// await gives the turn away until over reports true, or the worker is aborted, and the rank's turn comes
// again. The caller holds mu.
func (m *member) await(over func() bool) {
	m.over = over
	m.leave()
	for m.turn != m {
		m.changed.Wait()
	}
	m.over = nil
}

// during gives the turn away while f waits for work of the rank in other goroutines.
func (m *member) during(f func()) {
	m.mu.Lock()
	m.leave()
	m.mu.Unlock()
	f()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.await(func() bool { return true })
}

// leave ends the rank's turn, if it is at work. The caller holds mu.
func (m *member) leave() {
	if m.turn == m {
		m.turn, m.ended = nil, time.Now()
		m.turned(m, false)
	}
	m.next()
}

// next gives the turn to the lowest rank whose wait is over, if none is at work and all have begun. The
// caller holds mu.
func (w *SharedWorker) next() {
	if w.turn != nil || w.starting > 0 {
		return
	}
	for _, m := range w.members {
		if m.over != nil && (w.err != nil || m.over()) {
			w.turn = m
			if !w.ended.IsZero() {
				w.idle += time.Since(w.ended)
			}
			w.turned(m, true)
			w.changed.Broadcast()
			return
		}
	}
}

// wasIdle adds a wait that ends now, in which a rank kept its turn.
func (w *SharedWorker) wasIdle(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle += time.Since(since)
}

// waitedSoFar is how long no rank has been at work since the first turn began.
func (w *SharedWorker) waitedSoFar() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.idle
}

// turned reports to OnTurn that a turn begins or ends. The caller holds mu.
func (w *SharedWorker) turned(m *member, begins bool) {
	if w.OnTurn != nil {
		w.OnTurn(m.rank, begins)
	}
}

// happened tells waiting ranks that their waits may be over.
func (w *SharedWorker) happened() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next()
}

// holds reports whether the rank keeps its turn while it waits.
func (m *member) holds() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turnsKept > 0
}

// otherAtWork reports whether another rank of the worker is at work. This rank may be waiting for what that
// one does.
func (c *Comm) otherAtWork() bool {
	m := c.end.shared
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.turn != nil && m.turn != m
}

// waitFor waits for a request of the rank, while others take their turns. It returns false after the timeout,
// unless another rank of the worker is then at work.
func (m *member) waitFor(r Request, timeout time.Duration) (done bool) {
	expired := false // under mu
	if timeout > 0 {
		stopped := make(chan struct{})
		defer close(stopped)
		go m.expire(timeout, stopped, &expired)
	}
	ended := func() bool {
		select {
		case <-r.Done():
			return true
		default:
			return false
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.await(func() bool { return expired || ended() })
	return ended()
}

// expire sets expired once no rank of the worker is at work at the end of a timeout.
func (m *member) expire(timeout time.Duration, stopped <-chan struct{}, expired *bool) {
	deadline := NewDeadline(timeout)
	defer deadline.Stop()
	for {
		if _, in := InTime(deadline, stopped); in {
			return
		}
		m.mu.Lock()
		*expired = m.turn == nil
		m.next()
		m.mu.Unlock()
	}
}
