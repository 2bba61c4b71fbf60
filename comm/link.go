package comm

import "sync"

// A courier carries the messages between the ranks of two workers, one after the other. Each has a header of
// four numbers: sender, receiver, tag and length.

const (
	headerLen  = 4
	lastErrand = -1 // the tag of the header that ends a link
)

// errand is a message to a rank of another worker.
type errand struct {
	lane
	parcel Parcel
}

// courier sends the messages to one worker.
type courier struct {
	mu      sync.Mutex
	added   sync.Cond
	errands []errand
	stopped bool
}

// newCourier starts to carry messages to and from a worker.
func (h *Host) newCourier(worker int) *courier {
	c := &courier{}
	c.added.L = &c.mu
	for _, carry := range []func() error{func() error { return h.sendTo(worker, c) }, func() error { return h.receiveFrom(worker) }} {
		h.carrying.Go(func() {
			if err := carry(); err != nil {
				go h.Abort(err) // it may wait for this goroutine's message
			}
		})
	}
	return c
}

// put adds a message.
func (c *courier) put(e errand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errands = append(c.errands, e)
	c.added.Signal()
}

// stop ends the sending.
func (c *courier) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.added.Signal()
}

// next waits for a message to send.
func (c *courier) next() (e errand, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.errands) == 0 && !c.stopped {
		c.added.Wait()
	}
	if c.stopped {
		return e, true
	}
	e = c.errands[0]
	c.errands = c.errands[1:]
	return e, false
}

// sendTo sends the messages to a worker.
func (h *Host) sendTo(worker int, c *courier) error {
	var message []byte
	header := make([]int64, headerLen)
	for {
		e, stopped := c.next()
		if stopped {
			return nil
		}
		header[0], header[1], header[2], header[3] = int64(e.from), int64(e.to), int64(e.tag), 0
		if e.parcel != nil {
			header[3] = int64(e.parcel.Len())
		}
		if err := h.carry(h.link.Send(Setup, Bytes(header), worker)); err != nil || e.tag == lastErrand {
			return err
		}
		message = room(message, e.parcel.Len())
		if err := e.parcel.Take(message); err != nil {
			return err
		}
		if err := h.carry(h.link.Send(Setup, message, worker)); err != nil {
			return err
		}
	}
}

// receiveFrom receives the messages from a worker.
func (h *Host) receiveFrom(worker int) error {
	var message []byte
	header := make([]int64, headerLen)
	for {
		if err := h.carry(h.link.Receive(Setup, Bytes(header), worker)); err != nil || header[2] == lastErrand {
			return err
		}
		message = room(message, int(header[3]))
		if err := h.carry(h.link.Receive(Setup, message, worker)); err != nil {
			return err
		}
		p, err := h.shelf.Put(kindOf(int(header[2])), message)
		if err == nil {
			err = h.deliver(lane{int(header[0]), int(header[1]), int(header[2])}, p)
		}
		if err != nil {
			return err
		}
		h.happened()
	}
}

// carry waits for a message of the link, without a deadline: the ranks that wait for it have theirs.
func (h *Host) carry(p *Pending) error {
	<-p.request.Done()
	return p.request.Err()
}

// room returns n bytes, of b if it has as many.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}
