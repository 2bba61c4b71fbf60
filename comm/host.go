package comm

import (
	"errors"
	"fmt"
	"sync"
)

// Host is a worker that holds several ranks of a run, which take turns (turns.go). A message between two of
// them stays on the worker. One to another worker's rank travels over the link between the two workers.
//
// A send is complete once the host's Shelf has the message. So ranks that take turns need not be at work at
// the same time.
type Host struct {
	// OnTurn is called when a rank's turn begins, and when it ends. It may be nil. It must not wait.
	OnTurn func(rank int, begins bool)

	link    *Comm     // connects the workers; nil: the host plans
	holders []int     // by rank: the worker that holds it
	shelf   Shelf     // messages between their sending and their receipt
	members []*member // the worker's ranks, ascending

	couriers []*courier // by worker; nil: this one
	carrying sync.WaitGroup

	mu       sync.Mutex
	boxes    map[lane]*box
	err      error     // why everything was aborted
	turn     *member   // at work; nil: none
	changed  sync.Cond // the turn
	starting int       // members that have not begun
}

// Shelf keeps messages that are sent and not yet received.
type Shelf interface {
	// Put copies a message of a kind.
	Put(k Kind, message []byte) (Parcel, error)
}

// Parcel is a message on a Shelf.
type Parcel interface {
	Len() int
	// Ahead says that Take will be called soon.
	Ahead()
	// Take copies the message and removes it from the shelf.
	Take(into []byte) error
	// Drop removes it.
	Drop()
}

// box holds the messages of a lane that nobody has asked for, or the receives that wait for one.
type box struct {
	parcels []Parcel
	waiting []*transfer
}

// NewHost returns the host of one worker's ranks. link connects the workers, which all make their host in the
// same step; its messages are the host's alone from then on. holders[r] is the worker that holds rank r.
func NewHost(link *Comm, holders []int, s Shelf) *Host {
	h := newHost(holders, link.Rank(), s)
	everyone := make([]int, link.Size())
	for w := range everyone {
		everyone[w] = w
	}
	h.link = link.Group(everyone...)
	h.couriers = make([]*courier, link.Size())
	for w := range h.couriers {
		if w != link.Rank() {
			h.couriers[w] = h.newCourier(w)
		}
	}
	return h
}

// PlanHost is the host of one worker's ranks for a plan, without other workers. What is sent to these goes
// nowhere. What is received from them is left as it was.
func PlanHost(worker int, holders []int, s Shelf) *Host { return newHost(holders, worker, s) }

func newHost(holders []int, me int, s Shelf) *Host {
	h := &Host{holders: holders, shelf: s, boxes: map[lane]*box{}}
	h.changed.L = &h.mu
	for rank, worker := range holders {
		if worker == me {
			h.members = append(h.members, &member{Host: h, rank: rank, met: map[int]int{}})
		}
	}
	h.starting = len(h.members)
	return h
}

// Queued bounds, after a plan, the bytes of messages to and from other workers that lie on the shelf at a
// time: those to others between two calls of Meet, and those from others for this and the next one, as other
// workers may be ahead. A plan does not put them there.
func (h *Host) Queued() (bytes int64) {
	for _, m := range h.members {
		bytes += m.mostWent + 2*m.mostCame
	}
	return bytes
}

// Largest returns, after a plan, the bytes of the largest message to or from another worker.
func (h *Host) Largest() (bytes int64) {
	for _, m := range h.members {
		bytes = max(bytes, m.largest)
	}
	return bytes
}

// Transports are those of the worker's ranks, in ascending order.
func (h *Host) Transports() []Transport {
	ts := make([]Transport, len(h.members))
	for i, m := range h.members {
		ts[i] = m
	}
	return ts
}

// Close ends the link in an orderly way, when all ranks of the worker have ended.
func (h *Host) Close() error {
	for _, c := range h.couriers {
		if c != nil {
			c.put(errand{lane: lane{tag: lastErrand}})
		}
	}
	h.carrying.Wait()
	return h.aborted()
}

// member is one of the ranks that a worker holds.
type member struct {
	*Host
	rank int

	// Under Host.mu:
	over func() bool // reports whether its wait is over; nil: it does not wait for its turn
	// Of a plan: bytes from and to other workers since the last Meet, and the most so far
	came, mostCame, went, mostWent int64
	largest                        int64 // message from or to one

	met  map[int]int // the number of its calls of Meet, by the tags of the group
	held int         // it keeps its turn while it waits
	last bool        // it has ended
}

func (m *member) Rank() int { return m.rank }
func (m *member) Size() int { return len(m.holders) }

// beside reports whether the same worker holds the rank.
func (m *member) beside(rank int) bool { return m.holders[rank] == m.holders[m.rank] }

func (m *member) Send(data []byte, to, tag int) Request {
	t := &transfer{done: make(chan struct{})}
	if err := m.aborted(); err != nil {
		t.finish(err)
		return t
	}
	p, err := m.shelf.Put(kindOf(tag), data)
	if err != nil {
		err = shelfError{err}
	}
	switch {
	case err != nil:
	case m.beside(to):
		err = m.deliver(lane{m.rank, to, tag}, p)
	case m.link == nil:
		p.Drop()
		m.went, m.largest = m.went+int64(len(data)), max(m.largest, int64(len(data)))
		m.mostWent = max(m.mostWent, m.went)
	default:
		m.couriers[m.holders[to]].put(errand{lane{m.rank, to, tag}, p})
	}
	t.finish(err)
	return t
}

func (m *member) Receive(data []byte, from, tag int) Request {
	t, l := &transfer{data: data, done: make(chan struct{})}, lane{from, m.rank, tag}
	if m.link == nil && !m.beside(from) {
		m.came, m.largest = m.came+int64(len(data)), max(m.largest, int64(len(data)))
		m.mostCame = max(m.mostCame, m.came)
		t.finish(nil)
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		t.finish(m.err)
		return t
	}
	b := m.box(l)
	if len(b.parcels) == 0 {
		b.waiting = append(b.waiting, t)
		return t
	}
	p := b.parcels[0]
	b.parcels = b.parcels[1:]
	m.clear(l)
	m.hand(p, t)
	return t
}

// deliver puts a message into the box of its lane, or hands it to the receive that waits for it.
func (h *Host) deliver(l lane, p Parcel) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		p.Drop()
		return h.err
	}
	b := h.box(l)
	if len(b.waiting) == 0 {
		b.parcels = append(b.parcels, p)
		return nil
	}
	t := b.waiting[0]
	b.waiting = b.waiting[1:]
	h.clear(l)
	h.hand(p, t)
	return nil
}

// box is that of a lane. The caller holds mu.
func (h *Host) box(l lane) *box {
	if h.boxes[l] == nil {
		h.boxes[l] = &box{}
	}
	return h.boxes[l]
}

// clear forgets the box of a lane if it is empty. The caller holds mu.
func (h *Host) clear(l lane) {
	if b := h.boxes[l]; len(b.parcels)+len(b.waiting) == 0 {
		delete(h.boxes, l)
	}
}

// hand gives a message to its receiver, who collects it. The caller holds mu.
func (h *Host) hand(p Parcel, t *transfer) {
	if p.Len() != len(t.data) {
		t.finish(fmt.Errorf("%w: %d bytes were sent where %d are expected", ErrLength, p.Len(), len(t.data)))
		p.Drop()
		return
	}
	p.Ahead()
	t.parcel = p
	t.finish(nil)
}

// collect copies a message that has come, once.
func (t *transfer) collect() {
	if p := t.parcel; p != nil {
		t.parcel = nil
		t.err = p.Take(t.data)
	}
}

// Abort ends the requests of all ranks of the worker, and of the other workers as the link does.
func (h *Host) Abort(err error) {
	h.mu.Lock()
	if h.err == nil {
		h.err = fmt.Errorf("%w: %w", ErrAborted, err)
		for l, b := range h.boxes {
			for _, p := range b.parcels {
				p.Drop()
			}
			for _, t := range b.waiting {
				t.finish(h.err)
			}
			delete(h.boxes, l)
		}
		h.next()
	}
	h.mu.Unlock()
	if h.link != nil {
		h.link.Abort(err)
		for _, c := range h.couriers {
			if c != nil {
				c.stop()
			}
		}
	}
}

// aborted is why everything was aborted, nil if it was not.
func (h *Host) aborted() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Close ends the rank's communication. It refuses while messages to it are not received.
func (m *member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	for l := range m.boxes {
		if l.to == m.rank {
			return errors.New("a message to the rank was not received")
		}
	}
	return nil
}
