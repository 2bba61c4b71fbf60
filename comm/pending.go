package comm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/internal/trace"
)

// Pending is a message that has started. Wait finishes it.
type Pending struct {
	comm    *Comm
	kind    Kind
	sends   bool
	within  string // the collective to which it belongs, with its article; "" for a message of its own
	peer    int    // rank of the transport
	place   place
	request Request
	since   time.Time // when the wait began, under end.mu
	bytes   int
	number  int  // its number among recorded messages of its stream
	waited  bool // a wait for it is recorded only once

	patience int // how many timeouts its wait lasts; 0: one
}

// Send starts to send data to a rank of the group. data must stay unchanged until Wait returns. The send ends
// only when a Receive of the same kind takes the message, so wait for it after the receives for which its
// receiver may be waiting.
func (c *Comm) Send(k Kind, data []byte, to int) *Pending { return c.send(k, data, nil, to, "") }

// Receive starts to receive a message of exactly len(data) bytes from a rank of the group. data is valid once
// Wait has returned.
func (c *Comm) Receive(k Kind, data []byte, from int) *Pending {
	return c.receive(k, data, nil, from, "")
}

func (c *Comm) send(k Kind, data []byte, ready func() error, to int, within string) *Pending {
	p := c.pending(k, to, within)
	p.sends = true
	span := p.begins(len(data))
	p.request = c.end.when(ready, p.stream(), func() Request {
		return c.transport().Send(data, p.peer, c.tags+int(k))
	})
	span.End()
	if len(data) > 0 && c.leaves(p.peer) {
		c.end.sent[k].bytes.Add(int64(len(data)))
		c.end.sent[k].messages.Add(1)
		if k != Setup {
			c.end.sentTo[p.peer].Add(int64(len(data)))
		}
		if k.ofRows() {
			c.end.mu.Lock()
			c.end.sentBy[p.place.layer] += int64(len(data))
			c.end.mu.Unlock()
		}
	}
	return p
}

// transport moves the bytes of c's messages.
func (c *Comm) transport() Transport {
	if c.unqueued {
		return unqueued{c.end.shared}
	}
	return c.end.transport
}

// leaves reports whether a message to a rank of the transport leaves this rank's worker.
func (c *Comm) leaves(to int) bool {
	m := c.end.shared
	return to != c.end.transport.Rank() && (m == nil || !m.sameWorker(to))
}

func (c *Comm) receive(k Kind, data []byte, ready func() error, from int, within string) *Pending {
	p := c.pending(k, from, within)
	span := p.begins(len(data))
	p.request = c.end.when(ready, p.stream(), func() Request {
		return c.transport().Receive(data, p.peer, c.tags+int(k))
	})
	span.End()
	return p
}

func (c *Comm) pending(k Kind, peer int, within string) *Pending {
	if peer < 0 || peer >= len(c.ranks) {
		panic(fmt.Sprintf("comm: rank %d in a group of %d", peer, len(c.ranks)))
	}
	return &Pending{comm: c, kind: k, peer: c.ranks[peer], within: within, place: *c.end.place.Load()}
}

// Wait waits until the message has been moved, at most for the timeout of the Comm. An error is always an
// *Error, and has aborted the transport, so that no transfer uses a buffer. Further calls return the same
// result.
func (p *Pending) Wait() error {
	span := p.waits()
	defer span.End()
	select {
	case <-p.request.Done():
		return p.outcome()
	default:
	}
	e := p.comm.end
	e.enter(p)
	defer e.leave(p)
	timeout := e.timeout * time.Duration(max(1, p.patience))
	if m := p.comm.member(); m != nil && !m.holds() {
		if !m.waitFor(p.request, timeout) {
			return p.fail(fmt.Errorf("%w (%v)", ErrTimeout, timeout))
		}
		return p.outcome()
	}
	defer p.comm.countWait(p.since)
	deadline := NewDeadline(timeout)
	defer deadline.Stop()
	for {
		if _, in := InTime(deadline, p.request.Done()); in {
			return p.outcome()
		}
		if !p.comm.otherAtWork() {
			return p.fail(fmt.Errorf("%w (%v)", ErrTimeout, timeout))
		}
	}
}

func (p *Pending) outcome() error {
	if err := p.request.Err(); err != nil {
		return p.fail(err)
	}
	return nil
}

func (p *Pending) fail(reason error) error {
	transport := p.comm.end.transport
	err := &Error{transport.Rank(), p.peer, p.operation(), p.place.epoch, p.place.layer, reason}
	if !errors.Is(reason, ErrAborted) {
		transport.Abort(err)
	}
	return err
}

func (p *Pending) operation() string {
	verb := "receive"
	if p.sends {
		verb = "send"
	}
	if p.within != "" {
		verb += " in " + p.within
	}
	return verb + " of " + kindNames[p.kind].what
}

func (p *Pending) stream() stream { return stream{p.peer, p.comm.tags + int(p.kind), p.sends} }

// begins numbers a recorded message, and begins the span of its start.
func (p *Pending) begins(bytes int) trace.Span {
	c := p.comm
	if c.track.Off() {
		return trace.Span{}
	}
	w := p.stream()
	c.end.mu.Lock()
	p.bytes, p.number = bytes, c.end.traced[w]
	c.end.traced[w]++
	c.end.mu.Unlock()
	if p.sends {
		return p.span(trace.Send, "")
	}
	return p.span(trace.Start, "start of ")
}

// waits begins the span of the first wait for a recorded message.
func (p *Pending) waits() trace.Span {
	if p.comm.track.Off() || p.waited {
		return trace.Span{}
	}
	p.waited = true
	if p.sends {
		return p.span(trace.Wait, "wait for ")
	}
	return p.span(trace.Receive, "")
}

func (p *Pending) span(c trace.Category, what string) trace.Span {
	return p.comm.track.Begin(c, what+p.operation(), trace.Args{
		Module: p.place.layer, Kind: p.kind.String(), Peer: trace.At(p.peer), Bytes: int64(p.bytes),
		Tag: p.comm.tags + int(p.kind), Message: trace.At(p.number),
	})
}

func (e *end) enter(p *Pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.since = time.Now()
	e.waits = append(e.waits, p)
}

func (e *end) leave(p *Pending) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.Index(e.waits, p)
	e.waits = slices.Delete(e.waits, i, i+1)
}

// waitAll waits for the messages of a collective. The first failure aborts, which ends the others.
func waitAll(ps []*Pending) error {
	for _, p := range ps {
		if err := p.Wait(); err != nil {
			return err
		}
	}
	return nil
}
