package comm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// SharedWorker is a worker that holds several ranks of a run, which take turns (turns.go). A message between
// two of them stays on the worker. A message to another worker's rank travels over the link between the two
// workers.
//
// A send is complete once the worker's Spool has the message, so ranks that take turns need not be at work at
// the same time.
type SharedWorker struct {
	// OnTurn is called when a rank's turn begins, and when it ends. It may be nil. It must not wait.
	OnTurn func(rank int, begins bool)

	workers *Comm     // connects the workers; nil: this is a plan
	holders []int     // by rank: the worker that holds the rank
	spool   Spool     // keeps messages until they are received
	members []*member // the worker's ranks, ascending

	links    []*link // by worker; nil for this worker
	carrying sync.WaitGroup
	carried  atomic.Int64 // how many headers and messages have gone or come, over all links

	mu       sync.Mutex
	lanes                  // messages for which nobody has asked, and receives that wait for one
	err      error         // why everything was aborted
	turn     *member       // the rank at work; nil: none
	changed  sync.Cond     // signalled when the turn changes
	starting int           // how many members have not begun
	ended    time.Time     // when the last turn ended
	idle     time.Duration // how long no rank was at work, since the first turn began
}

// Spool keeps messages that have been sent and not yet received.
type Spool interface {
	// Put copies a message of a kind.
	Put(k Kind, message []byte, p Path) (Message, error)
	// Takes returns the memory that a message of a kind takes, and whether it may rest while it waits.
	Takes(k Kind, bytes int) (memory int64, rests bool)
}

// Path says from where to where a message goes.
type Path uint8

// The paths of messages.
const (
	Within   Path = iota // between two ranks of the same worker
	Outgoing             // to another worker's rank
	Incoming             // from another worker's rank
)

// Message is a message in a Spool.
type Message interface {
	Len() int
	// Ahead says that Take will be called soon.
	Ahead()
	// Take copies the message and removes it.
	Take(into []byte) error
	// Drop removes the message unread.
	Drop()
}

// NewSharedWorker returns the worker that holds several ranks. workers connects the workers, which all make
// their SharedWorker in the same step. From then on nothing else may send messages over workers. holders[r]
// is the worker that holds rank r.
func NewSharedWorker(workers *Comm, holders []int, s Spool) *SharedWorker {
	w := newSharedWorker(holders, workers.Rank(), s)
	everyone := make([]int, workers.Size())
	for k := range everyone {
		everyone[k] = k
	}
	w.workers = workers.Group(everyone...)
	w.links = make([]*link, workers.Size())
	for k := range w.links {
		if k != workers.Rank() {
			w.links[k] = w.newLink(k)
		}
	}
	return w
}

// PlanSharedWorker returns the worker that holds several ranks in a plan, without other workers. What is sent
// to them goes nowhere. What is received from them stays as it was, and the Spool sees it as if it had come.
func PlanSharedWorker(worker int, holders []int, s Spool) *SharedWorker {
	return newSharedWorker(holders, worker, s)
}

func newSharedWorker(holders []int, me int, s Spool) *SharedWorker {
	w := &SharedWorker{holders: holders, spool: s, lanes: lanes{}}
	w.changed.L = &w.mu
	for rank, worker := range holders {
		if worker == me {
			w.members = append(w.members, &member{
				SharedWorker: w, rank: rank, barriers: map[int]int{},
				published: map[int]any{}, exposed: map[int]*[2]any{},
			})
		}
	}
	w.starting = len(w.members)
	return w
}

// Queued bounds, after a plan, the memory of messages to and from other workers while they wait: of all
// messages, of those that stay in memory, and of those that may rest. It takes the messages between two calls
// of LocalBarrier together with those before the next call, as a link may be slow and other workers may be
// ahead. A plan does not put them into the Spool.
func (w *SharedWorker) Queued() (all, stay, rest int64) {
	for _, m := range w.members {
		for _, v := range []*volume{&m.went, &m.came} {
			all, stay, rest = all+2*v.all.most, stay+2*v.stay.most, rest+2*v.rest.most
		}
	}
	return all, stay, rest
}

// Largest returns, after a plan, the memory of the largest message to or from another worker that may rest.
func (w *SharedWorker) Largest() (bytes int64) {
	for _, m := range w.members {
		bytes = max(bytes, m.went.largest, m.came.largest)
	}
	return bytes
}

// Transports are the transports of the worker's ranks, in ascending order.
func (w *SharedWorker) Transports() []Transport {
	ts := make([]Transport, len(w.members))
	for i, m := range w.members {
		ts[i] = m
	}
	return ts
}

// Close ends the links in an orderly way, when all ranks of the worker have ended. It waits for the other
// workers. It fails if no message goes or comes within the deadline of any wait.
func (w *SharedWorker) Close() error {
	for _, l := range w.links {
		if l != nil {
			l.put(queuedMessage{lane: lane{tag: lastTag}})
		}
	}
	if w.workers == nil {
		return w.aborted()
	}
	ended := make(chan struct{})
	go func() {
		w.carrying.Wait()
		close(ended)
	}()
	deadline := NewDeadline(w.workers.Timeout())
	defer deadline.Stop()
	carried := w.carried.Load()
	for {
		if _, in := InTime(deadline, ended); in {
			return w.aborted()
		}
		before := carried
		if carried = w.carried.Load(); carried == before {
			err := fmt.Errorf("rank %d: end of the links between workers: %w (%v): a rank died after its last "+
				"epoch; see what the others printed",
				w.workers.Rank(), ErrTimeout, w.workers.Timeout())
			w.Abort(err)
			<-ended
			return err
		}
	}
}

// volume counts the memory of messages in a plan.
type volume struct {
	all, stay, rest between
	largest         int64 // memory of the largest message that may rest
}

// between counts memory between two calls of LocalBarrier.
type between struct{ since, most int64 }

func (v *volume) add(memory int64, rests bool) {
	part := &v.stay
	if rests {
		part, v.largest = &v.rest, max(v.largest, memory)
	}
	for _, b := range []*between{&v.all, part} {
		b.since += memory
		b.most = max(b.most, b.since)
	}
}

// queued counts a message of a plan in v, unless Apart leaves out messages that are not bounds.
func (m *member) queued(v *volume, k Kind, bytes int, bound bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bound || !m.apart {
		v.add(m.spool.Takes(k, bytes))
	}
}

// Bound counts in SharedWorker.Queued a message of another epoch to another worker, or from it. It is for a
// plan of a rank that shares its worker.
func (c *Comm) Bound(k Kind, bytes int, p Path) {
	m := c.member()
	v := &m.went
	if p == Incoming {
		v = &m.came
	}
	m.queued(v, k, bytes, true)
}

// Apart leaves the messages of f out of SharedWorker.Queued, in a plan of a rank that shares its worker.
// Bound counts upper bounds in their place.
func (c *Comm) Apart(f func()) {
	m := c.member()
	set := func(apart bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.apart = apart
	}
	set(true)
	defer set(false)
	f()
}

// restart begins to count anew.
func (v *volume) restart() { v.all.since, v.stay.since, v.rest.since = 0, 0, 0 }

// member is one of the ranks that a worker holds.
type member struct {
	*SharedWorker
	rank int

	// Under SharedWorker.mu:
	over func() bool // reports whether its wait is over; nil: it does not wait for its turn
	came volume      // in a plan: messages from other workers
	went volume      // in a plan: messages to other workers
	// apart says, in a plan, that the present messages are those for which Bound counts others.
	apart     bool
	barriers  map[int]int // how often it has called LocalBarrier, by the tags of the group
	turnsKept int         // above 0 while it keeps its turn in waits
	last      bool        // it has ended

	published map[int]any     // the values of Publish, by the tags of the group
	exposed   map[int]*[2]any // the values of Expose, by the tags of the group and the parity of barriers
}

func (m *member) Rank() int { return m.rank }
func (m *member) Size() int { return len(m.holders) }

// sameWorker reports whether the same worker holds the rank.
func (m *member) sameWorker(rank int) bool { return m.holders[rank] == m.holders[m.rank] }

func (m *member) Send(data []byte, to, tag int) Request {
	t := newTransfer(nil)
	if err := m.aborted(); err != nil {
		t.finish(err)
		return t
	}
	path := Outgoing
	if m.sameWorker(to) {
		path = Within
	}
	p, err := m.spool.Put(KindOf(tag), data, path)
	switch {
	case err != nil:
		err = spoolError{err}
	case path == Within:
		err = m.deliver(lane{m.rank, to, tag}, p)
	case m.workers == nil:
		p.Drop()
		m.queued(&m.went, KindOf(tag), len(data), false)
	default:
		m.links[m.holders[to]].put(queuedMessage{lane{m.rank, to, tag}, p})
	}
	t.finish(err)
	return t
}

func (m *member) Receive(data []byte, from, tag int) Request {
	t := newTransfer(data)
	if m.workers == nil && !m.sameWorker(from) {
		m.queued(&m.came, KindOf(tag), len(data), false)
		p, err := m.spool.Put(KindOf(tag), data, Incoming)
		if err == nil {
			err = p.Take(data)
		}
		t.finish(err)
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		t.finish(m.err)
	} else if sent := m.match(lane{from, m.rank, tag}, t, false); sent != nil {
		hand(sent.message, t)
	}
	return t
}

// deliver gives a message to the receive for which it is.
func (w *SharedWorker) deliver(l lane, p Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		p.Drop()
		return w.err
	}
	sent := newTransfer(nil)
	sent.message = p
	if t := w.match(l, sent, true); t != nil {
		hand(p, t)
	}
	return nil
}

// hand gives a message to its receiver, which copies it in its own turn.
func hand(p Message, t *transfer) {
	if p.Len() != len(t.data) {
		t.finish(fmt.Errorf("%w: %d bytes were sent where %d are expected", ErrLength, p.Len(), len(t.data)))
		p.Drop()
		return
	}
	p.Ahead()
	t.message = p
	t.finish(nil)
}

// Abort ends the requests of all ranks of the worker. Requests of other workers end as after Comm.Abort.
func (w *SharedWorker) Abort(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = fmt.Errorf("%w: %w", ErrAborted, err)
		w.drop(anyLane, w.err)
		w.next()
	}
	w.mu.Unlock()
	if w.workers != nil {
		w.workers.Abort(err)
		for _, l := range w.links {
			if l != nil {
				l.stop()
			}
		}
	}
}

// aborted is why everything was aborted; nil: it was not.
func (w *SharedWorker) aborted() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the rank's communication. It fails if messages to the rank have not been received.
func (m *member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	for l := range m.lanes {
		if l.to == m.rank {
			return errors.New("a message to the rank was not received")
		}
	}
	return nil
}
