// Package exchange sends and receives messages with rows of matrices between the workers of a group, while
// the worker computes. A Receiver asks for some messages ahead of the one in use. A Sender sends messages
// while the next one is made. A Form describes the rows of a message: the columns of their matrices, and how
// they are encoded. If another worker fails, a pass ends by a panic with a Failure (Must). The axes, and
// package links, send rows by it.
package exchange

import (
	"errors"

	"weft/comm"
	"weft/comm/launch"
	"weft/tensor"
)

// Send starts to send the elements of a matrix. Nobody may change them until they are sent.
func Send(c *comm.Comm, k comm.Kind, m *tensor.Matrix, to int) *comm.Pending {
	data, made := m.SendBuffer(tensor.Transport)
	return c.SendWhen(k, data, made, to)
}

// Arriving is a message whose bytes become the elements of a matrix.
type Arriving struct {
	pending *comm.Pending
	value   *tensor.Matrix
}

// Receive starts to receive the elements of a matrix. Nobody may use them until Wait has returned.
func Receive(c *comm.Comm, k comm.Kind, m *tensor.Matrix, from int) Arriving {
	data, free := m.ReceiveBuffer(tensor.Transport)
	return Arriving{c.ReceiveWhen(k, data, free, from), m}
}

// Wait waits for the message. It is called once.
func (a Arriving) Wait() error {
	err := a.pending.Wait()
	if err == nil {
		a.value.Arrived(tensor.Transport)
	}
	return err
}

// Receiver receives messages of one kind, in the order in which they are expected. At a time it receives at
// most as many as it has buffers.
type Receiver struct {
	Comm     *comm.Comm
	Kind     comm.Kind
	Buffers  []*tensor.Matrix // each with as many elements as the largest message
	expected []message
	taken    int
}

type message struct {
	peer, rows, cols int
	Arriving
}

// Expect announces a message of rows × cols elements from a peer, after those announced before.
func (r *Receiver) Expect(peer, rows, cols int) {
	r.expected = append(r.expected, message{peer: peer, rows: rows, cols: cols})
	if i := len(r.expected) - 1; i < len(r.Buffers) {
		r.ask(i)
	}
}

func (r *Receiver) ask(i int) {
	m := &r.expected[i]
	m.Arriving = Receive(r.Comm, r.Kind, r.Buffers[i%len(r.Buffers)].Prefix(m.rows, m.cols), m.peer)
}

// Next waits for the next message. Its rows are valid until Free is called.
func (r *Receiver) Next() (rows *tensor.Matrix, err error) {
	m := r.expected[r.taken]
	r.taken++
	return m.value, m.Wait()
}

// Free says that the rows of the last message are no longer needed. Their buffer receives another expected
// message.
func (r *Receiver) Free() {
	if i := r.taken - 1 + len(r.Buffers); i < len(r.expected) {
		r.ask(i)
	}
}

// Sender sends messages of one kind, using its buffers in turn, so that one message is made while others are
// being sent.
type Sender struct {
	Comm    *comm.Comm
	Kind    comm.Kind
	Buffers []*tensor.Matrix // each with as many elements as the largest message
	pending []*comm.Pending  // for each buffer that was used
	value   *tensor.Matrix   // the message that is being made
	next    int              // the buffer of the next message
}

// Buffer waits for a free buffer. It returns rows × cols elements of the buffer, with undefined values, for
// Send to send.
func (s *Sender) Buffer(rows, cols int) (value *tensor.Matrix, err error) {
	if err := s.wait(s.next); err != nil {
		return nil, err
	}
	s.value = s.Buffers[s.next].Prefix(rows, cols)
	return s.value, nil
}

// Send starts to send the elements that Buffer returned last.
func (s *Sender) Send(peer int) {
	p := Send(s.Comm, s.Kind, s.value, peer)
	if s.next < len(s.pending) {
		s.pending[s.next] = p
	} else {
		s.pending = append(s.pending, p)
	}
	s.next = (s.next + 1) % len(s.Buffers)
}

// Finish waits until all messages are sent.
func (s *Sender) Finish() error {
	for k := range s.pending {
		if err := s.wait(k); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until buffer k is free.
func (s *Sender) wait(k int) error {
	if k < len(s.pending) {
		return s.pending[k].Wait()
	}
	return nil
}

// Side is work that a worker does beside its main work, with a Comm of its own for the same group.
type Side func(aside *comm.Comm) error

// Beside runs the sides beside f, and waits for all of them. If f or a side fails or panics, Beside aborts
// the connection of the workers, so that the others end, too. Nothing reads or writes the buffers afterwards.
func Beside(c *comm.Comm, sides []Side, f func() error) error {
	failures := make([]error, len(sides))
	joins := make([]func(), len(sides))
	for i, side := range sides {
		failures[i] = errBroken
		joins[i] = c.Beside(func(aside *comm.Comm) {
			defer func() {
				if p := recover(); p != nil {
					failures[i] = launch.Recovered(p, "")
				}
				if failures[i] != nil {
					aside.Abort(failures[i])
				}
			}()
			failures[i] = side(aside)
		})
	}
	join := func() {
		for _, j := range joins {
			j()
		}
	}
	panics := true
	defer func() {
		if panics {
			c.Abort(errBroken)
			join()
		}
	}()
	err := f()
	panics = false
	if err != nil {
		c.Abort(err)
	}
	join()
	for _, theirs := range failures {
		if err == nil || theirs != nil && errors.Is(err, theirs) { // f failed because this side had failed
			err = theirs
		}
	}
	return err
}

// errBroken ends the sides when the main work has panicked.
var errBroken = errors.New("the worker broke off")

// Buffers makes n matrices of rows × cols.
func Buffers(memory *tensor.Meter, n int, e tensor.Element, rows, cols int) []*tensor.Matrix {
	m := make([]*tensor.Matrix, n)
	for i := range m {
		m[i] = memory.NewElement(tensor.Buffers, e, rows, cols)
	}
	return m
}

// Like makes matrices of so many rows. Each has the width and the element type of the given matrix in the
// same position.
func Like(memory *tensor.Meter, rows int, like []*tensor.Matrix) []*tensor.Matrix {
	m := make([]*tensor.Matrix, len(like))
	for i, l := range like {
		m[i] = memory.NewElement(tensor.Buffers, l.Element, rows, l.Cols)
	}
	return m
}

// Release releases matrices; some may be nil.
func Release(ms ...*tensor.Matrix) {
	for _, m := range ms {
		m.Release()
	}
}
