package comm

import (
	"slices"
	"sync"
)

// A link carries the messages from the ranks of one worker to those of another, one after the other. Each
// message has a header of four numbers: sender, receiver, tag and length.

const (
	headerLen = 4
	lastTag   = -1 // the tag of the header that ends a link
)

// queuedMessage is a message to a rank of another worker.
type queuedMessage struct {
	lane
	message Message
}

// link sends the messages to one worker.
type link struct {
	mu      sync.Mutex
	added   sync.Cond
	waiting []queuedMessage
	stopped bool
}

// newLink returns the link to a worker. It starts to carry messages both ways.
func (w *SharedWorker) newLink(worker int) *link {
	l := &link{}
	l.added.L = &l.mu
	for _, carry := range []func() error{func() error {
		return w.sendTo(worker, l)
	}, func() error { return w.receiveFrom(worker) }} {
		w.carrying.Go(func() {
			if err := carry(); err != nil {
				w.Abort(err)
			}
		})
	}
	return l
}

// put adds a message.
func (l *link) put(m queuedMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, m)
	l.added.Signal()
}

// stop ends the sending.
func (l *link) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.added.Signal()
}

// next waits for a message to send. stopped reports that there will be none.
func (l *link) next() (m queuedMessage, stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.stopped {
		l.added.Wait()
	}
	if l.stopped {
		return m, true
	}
	m = l.waiting[0]
	l.waiting = l.waiting[1:]
	return m, false
}

// sendTo sends the messages to a worker.
func (w *SharedWorker) sendTo(worker int, l *link) error {
	var data []byte
	header := make([]int64, headerLen)
	for {
		m, stopped := l.next()
		if stopped {
			return nil
		}
		header[0], header[1], header[2], header[3] = int64(m.from), int64(m.to), int64(m.tag), 0
		if m.message != nil {
			header[3] = int64(m.message.Len())
		}
		if err := w.moved(w.workers.Send(Setup, Bytes(header), worker)); err != nil || m.tag == lastTag {
			return err
		}
		n := m.message.Len()
		data = slices.Grow(data[:0], n)[:n]
		if err := m.message.Take(data); err != nil {
			return err
		}
		if err := w.moved(w.workers.Send(Setup, data, worker)); err != nil {
			return err
		}
	}
}

// receiveFrom receives the messages from a worker.
func (w *SharedWorker) receiveFrom(worker int) error {
	var data []byte
	header := make([]int64, headerLen)
	for {
		if err := w.moved(w.workers.Receive(Setup, Bytes(header), worker)); err != nil ||
			header[2] == lastTag {
			return err
		}
		n := int(header[3])
		data = slices.Grow(data[:0], n)[:n]
		if err := w.moved(w.workers.Receive(Setup, data, worker)); err != nil {
			return err
		}
		m, err := w.spool.Put(KindOf(int(header[2])), data, Incoming)
		if err == nil {
			err = w.deliver(lane{int(header[0]), int(header[1]), int(header[2])}, m)
		}
		if err != nil {
			return err
		}
		w.happened()
	}
}

// moved waits for a message of a link, without a deadline. The ranks that wait for the message have
// deadlines, and so has Close.
func (w *SharedWorker) moved(p *Pending) error {
	<-p.request.Done()
	w.carried.Add(1)
	return p.request.Err()
}
