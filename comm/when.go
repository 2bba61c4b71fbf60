package comm

import "cmp"

// SendWhen is Send for data that is there once ready has returned without an error; ready nil: it is there
// now. The caller does not wait for it, unless ranks take turns.
func (c *Comm) SendWhen(k Kind, data []byte, ready func() error, to int) *Pending {
	return c.send(k, data, ready, to, "")
}

// ReceiveWhen is Receive into memory that may be written once ready has returned.
func (c *Comm) ReceiveWhen(k Kind, data []byte, ready func() error, from int) *Pending {
	return c.receive(k, data, ready, from, "")
}

// postponed is a request that a goroutine of its own makes.
type postponed struct {
	made   chan struct{} // closed when the request has its place among the messages of its stream
	failed error         // why it was not made, once made is closed
	done   chan struct{}
	err    error // once done is closed
}

func (p *postponed) Done() <-chan struct{} { return p.done }
func (p *postponed) Err() error            { return p.err }

// when makes a request once ready has returned, after the earlier requests of its stream.
func (e *end) when(ready func() error, s stream, request func() Request) Request {
	if e.shared != nil { // the turns of ranks have the same order in each run
		if ready != nil {
			if err := ready(); err != nil {
				return &postponed{done: done, err: err}
			}
		}
		return request()
	}
	e.mu.Lock()
	before := e.postponed[s]
	if before == nil && ready == nil {
		e.mu.Unlock()
		return request()
	}
	p := &postponed{made: make(chan struct{}), done: make(chan struct{})}
	e.postponed[s] = p
	e.mu.Unlock()
	go e.run(p, s, before, ready, request)
	return p
}

func (e *end) run(p *postponed, s stream, before *postponed, ready func() error, request func() Request) {
	defer close(p.done)
	if ready != nil {
		p.failed = ready()
	}
	if before != nil {
		<-before.made
		p.failed = cmp.Or(before.failed, p.failed)
	}
	if p.err = p.failed; p.err != nil {
		close(p.made)
		return
	}
	r := request()
	close(p.made)
	e.mu.Lock()
	if e.postponed[s] == p { // the next request need not wait
		delete(e.postponed, s)
	}
	e.mu.Unlock()
	<-r.Done()
	p.err = r.Err()
}
