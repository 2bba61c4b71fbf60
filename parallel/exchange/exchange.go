// Package exchange is what moves rows between the workers of a group, and how a pass ends that cannot go on.
package exchange

import (
	"errors"

	"weft/comm"
	"weft/internal/launch"
	"weft/tensor"
)

// Receiver takes in messages of one kind, in the order in which they are expected. As many as there are
// buffers are on their way at a time.
type Receiver struct {
	Comm     *comm.Comm
	Kind     comm.Kind
	Buffers  []*tensor.Matrix // each with as many elements as the largest message
	expected []message
	taken    int
}

type message struct {
	peer, rows, cols int
	value            *tensor.Matrix
	pending          *comm.Pending
}

// Expect says that a message of rows × cols elements is to come from a peer, after those that are expected
// already.
func (r *Receiver) Expect(peer, rows, cols int) {
	r.expected = append(r.expected, message{peer: peer, rows: rows, cols: cols})
	if i := len(r.expected) - 1; i < len(r.Buffers) {
		r.ask(i)
	}
}

func (r *Receiver) ask(i int) {
	m := &r.expected[i]
	m.value = r.Buffers[i%len(r.Buffers)].Prefix(m.rows, m.cols)
	m.pending = r.Comm.Receive(r.Kind, m.value.Bytes(), m.peer)
}

// Next waits for the next message. Its rows are there until Free.
func (r *Receiver) Next() (rows *tensor.Matrix, err error) {
	m := r.expected[r.taken]
	r.taken++
	return m.value, m.pending.Wait()
}

// Free says that the rows of the last message are not needed any more: one that is expected takes their
// buffer.
func (r *Receiver) Free() {
	if i := r.taken - 1 + len(r.Buffers); i < len(r.expected) {
		r.ask(i)
	}
}

// Sender sends messages of one kind from its buffers in turn: the others' are on their way while one is made.
type Sender struct {
	Comm    *comm.Comm
	Kind    comm.Kind
	Buffers []*tensor.Matrix // each with as many elements as the largest message
	pending []*comm.Pending  // of each buffer, once it was used
	value   *tensor.Matrix   // of the message that is being made
	turn    int
}

// Buffer waits for a buffer and returns rows × cols elements of it, which are undefined, for the message that
// Send sends.
func (s *Sender) Buffer(rows, cols int) (value *tensor.Matrix, err error) {
	if err := s.wait(s.turn); err != nil {
		return nil, err
	}
	s.value = s.Buffers[s.turn].Prefix(rows, cols)
	return s.value, nil
}

// Send starts to send what Buffer returned last.
func (s *Sender) Send(peer int) {
	p := s.Comm.Send(s.Kind, s.value.Bytes(), peer)
	if s.turn < len(s.pending) {
		s.pending[s.turn] = p
	} else {
		s.pending = append(s.pending, p)
	}
	s.turn = (s.turn + 1) % len(s.Buffers)
}

// Finish waits for what is on its way.
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

// Side is work of a worker beside its main work, with a Comm of its own for the same group.
type Side func(aside *comm.Comm) error

// Beside runs the sides beside f, and waits for all. Where one fails, or panics, the workers' connection is
// broken off, so that the others end too and nothing reads or writes the buffers any more.
func Beside(c *comm.Comm, sides []Side, f func() error) error {
	failures, joins := make([]error, len(sides)), make([]func(), len(sides))
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
		if err == nil || theirs != nil && errors.Is(err, theirs) { // it broke off because of this side
			err = theirs
		}
	}
	return err
}

// errBroken ends the sides of work that panicked.
var errBroken = errors.New("the worker broke off")

// Buffers are n matrices of so many rows.
func Buffers(memory *tensor.Meter, n, rows, cols int) []*tensor.Matrix {
	m := make([]*tensor.Matrix, n)
	for i := range m {
		m[i] = memory.New(tensor.Buffers, rows, cols)
	}
	return m
}

// Like are matrices of so many rows, each as wide as the one in its place.
func Like(memory *tensor.Meter, rows int, widths []*tensor.Matrix) []*tensor.Matrix {
	m := make([]*tensor.Matrix, len(widths))
	for i, w := range widths {
		m[i] = memory.New(tensor.Buffers, rows, w.Cols)
	}
	return m
}

// Parts are the rows of several matrices that travel in one message, or the buffer for them, one matrix's
// after the other's. The widths are their numbers of columns, which the message has together.
func Parts(message *tensor.Matrix, widths []int) (rows []*tensor.Matrix) {
	flat, at := message.Reshape(message.Len(), 1), 0
	for _, columns := range widths {
		end := at + message.Rows*columns
		rows = append(rows, flat.RowRange(at, end).Reshape(message.Rows, columns))
		at = end
	}
	return rows
}

// Release releases matrices, of which some may be nil.
func Release(ms ...*tensor.Matrix) {
	for _, m := range ms {
		m.Release()
	}
}
