package exchange

import (
	"errors"

	"weft/comm"
	"weft/internal/launch"
	"weft/tensor"
)

// What moves messages: rooms that are bounded, and two sides of a worker beside each other.

// Receive takes in n messages in their order and uses each. As many as there are rooms are on their way at a
// time. from says whose message i is, and how many rows it has.
func Receive(c *comm.Comm, kind comm.Kind, n int, from func(i int) (peer, rows int), rooms []*tensor.Matrix,
	use func(i int, rows *tensor.Matrix) error,
) error {
	pending, rows := make([]*comm.Pending, n), make([]*tensor.Matrix, n)
	ask := func(i int) {
		if i < n {
			peer, k := from(i)
			rows[i] = rooms[i%len(rooms)].RowRange(0, k)
			pending[i] = c.Receive(kind, comm.Bytes(rows[i].Floats()), peer)
		}
	}
	for i := range rooms {
		ask(i)
	}
	for i := range n {
		if err := pending[i].Wait(); err != nil {
			return err
		}
		if err := use(i, rows[i]); err != nil {
			return err
		}
		ask(i + len(rooms))
	}
	return nil
}

// Sender sends messages of one kind from its two rooms in turn: one is on its way while the next is made.
type Sender struct {
	Comm    *comm.Comm
	Kind    comm.Kind
	Rooms   []*tensor.Matrix // two
	pending [2]*comm.Pending
	turn    int
}

// Send lets fill make a message of some rows, whose elements are undefined, and starts to send it.
func (s *Sender) Send(peer, rows int, fill func(rows *tensor.Matrix)) error {
	k := s.turn % len(s.Rooms)
	s.turn++
	if err := s.wait(k); err != nil {
		return err
	}
	m := s.Rooms[k].RowRange(0, rows)
	fill(m)
	s.pending[k] = s.Comm.Send(s.Kind, comm.Bytes(m.Floats()), peer)
	return nil
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

// wait waits until room k is free.
func (s *Sender) wait(k int) error {
	if p := s.pending[k]; p != nil {
		return p.Wait()
	}
	return nil
}

// Beside runs other beside f, and waits for both. Where one side fails, or panics, the workers' connection is
// broken off, so that the other ends too and nothing reads or writes the buffers any more.
func Beside(c *comm.Comm, other func(aside *comm.Comm) error, f func() error) error {
	theirs := errBroken
	join := c.Beside(func(aside *comm.Comm) {
		defer func() {
			if p := recover(); p != nil {
				theirs = launch.Recovered(p, "")
			}
			if theirs != nil {
				aside.Abort(theirs)
			}
		}()
		theirs = other(aside)
	})
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
	if err == nil || theirs != nil && errors.Is(err, theirs) { // f broke off because of the other side
		return theirs
	}
	return err
}

// errBroken ends the other side of work that panicked.
var errBroken = errors.New("the worker broke off")

// Rooms are n matrices of so many rows.
func Rooms(memory *tensor.Meter, n, rows, cols int) []*tensor.Matrix {
	m := make([]*tensor.Matrix, n)
	for i := range m {
		m[i] = memory.New(tensor.Buffers, rows, cols)
	}
	return m
}

func Release(list []*tensor.Matrix) {
	for _, m := range list {
		m.Release()
	}
}
