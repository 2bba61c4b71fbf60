package sar

import (
	"errors"
	"fmt"

	"weft/comm"
	"weft/parallel/edges"
	"weft/tensor"
)

// What moves messages: rooms that are bounded, and two sides of a worker beside each other.

// receive takes in n messages in their order and uses each. As many as there are rooms are on their way at a
// time. from says whose message i is, and how many rows it has.
func receive(c *comm.Comm, kind comm.Kind, n int, from func(i int) (peer, rows int), rooms []*tensor.Matrix,
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

// sender sends messages of one kind from its two rooms in turn: one is on its way while the next is made.
type sender struct {
	comm    *comm.Comm
	kind    comm.Kind
	rooms   []*tensor.Matrix
	pending [2]*comm.Pending
	turn    int
}

// send lets fill make a message of some rows, whose elements are undefined, and starts to send it.
func (s *sender) send(peer, rows int, fill func(rows *tensor.Matrix)) error {
	k := s.turn % len(s.rooms)
	s.turn++
	if err := s.wait(k); err != nil {
		return err
	}
	m := s.rooms[k].RowRange(0, rows)
	fill(m)
	s.pending[k] = s.comm.Send(s.kind, comm.Bytes(m.Floats()), peer)
	return nil
}

// finish waits for what is on its way.
func (s *sender) finish() error {
	for k := range s.pending {
		if err := s.wait(k); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until room k is free.
func (s *sender) wait(k int) error {
	if p := s.pending[k]; p != nil {
		return p.Wait()
	}
	return nil
}

// beside runs other beside f, and waits for both. Where one side fails, or panics, the workers' connection is
// broken off, so that the other ends too and nothing reads or writes the buffers any more.
func (g *Graph) beside(other func(aside *comm.Comm) error, f func() error) error {
	theirs := errBroken
	join := g.comm.Beside(func(aside *comm.Comm) {
		defer func() {
			if p := recover(); p != nil {
				theirs = fmt.Errorf("internal error: %v", p)
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
			g.comm.Abort(errBroken)
			join()
		}
	}()
	err := f()
	panics = false
	if err != nil {
		g.comm.Abort(err)
	}
	join()
	if err == nil || theirs != nil && errors.Is(err, theirs) { // f broke off because of the other side
		return theirs
	}
	return err
}

// errBroken ends the other side of work that panicked.
var errBroken = errors.New("the worker broke off")

// buffers are n matrices of so many rows.
func (g *Graph) buffers(n, rows, cols int) []*tensor.Matrix {
	m := make([]*tensor.Matrix, n)
	for i := range m {
		m[i] = g.team.Memory.New(tensor.Buffers, rows, cols)
	}
	return m
}

func release(list []*tensor.Matrix) {
	for _, m := range list {
		m.Release()
	}
}

// largestBlock is the number of rows of the largest piece that comes, and largestPiece of the largest that
// goes.
func largestBlock(t *edges.Edges) (rows int) {
	for _, b := range t.Remote() {
		rows = max(rows, b.In.Cols)
	}
	return rows
}

func largestPiece(t *edges.Edges) (rows int) {
	for _, p := range t.Needed {
		rows = max(rows, p.Rows.Cols)
	}
	return rows
}
