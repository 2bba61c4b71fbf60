package parallel

import (
	"errors"
	"fmt"
	"time"

	"weft/comm"
	"weft/tensor"
)

// A sweep goes over the remote blocks of a topology in an order that differs from worker to worker: in round r worker p takes in rows
// of worker p−r while its own go to worker p+r, so that each one sends to one and receives from one. Within a round the rows go in
// pieces. What is on its way is bounded: Prefetch+1 pieces are received, and two sent, at most.

// fetch receives the rows of x that the remote blocks need and gives each block its own, one after the other; after use returns
// they are freed. Meanwhile the rows of this worker's x that others need go to them. With keep set the rows of all blocks are received
// at once and returned, for the caller to release.
func (g *Graph) fetch(t *topology, x *tensor.Matrix, keep bool, use func(b *block, rows *tensor.Matrix) error) (kept []*tensor.Matrix, err error) {
	room := min(g.sar.Prefetch+1, len(t.remote()))
	if keep {
		room = len(t.remote())
	}
	if len(t.blocks)+len(t.needed) == 1 {
		return nil, nil
	}
	if g.comm == nil {
		for _, p := range t.needed {
			g.planned += bytesOfRows(p.list.Cols, x)
		}
	}
	in := g.pieces(room, largestBlock(t), x.Cols)
	if keep {
		for i, b := range t.remote() {
			in[i].Release()
			in[i] = g.team.Memory.New(tensor.Buffers, b.in.Cols, x.Cols)
		}
		kept = in
	} else {
		defer release(in)
	}
	out := g.pieces(2, largestPiece(t.needed), x.Cols)
	defer release(out)
	sent := g.background(func() error { return g.send(t, x, out) })
	err = g.receive(t, in, use)
	return kept, g.join(sent, err)
}

// send sends the pieces of own rows that other workers need.
func (g *Graph) send(t *topology, x *tensor.Matrix, out []*tensor.Matrix) error {
	var pending [2]*comm.Pending
	for i, p := range t.needed {
		if err := wait(pending[i%2]); err != nil {
			return err
		}
		rows := out[i%2].RowRange(0, p.list.Cols)
		g.team.Gather(rows, x, p.list)
		pending[i%2] = g.comm.Send(comm.Halo, comm.Bytes(rows.Floats()), p.peer)
	}
	for _, s := range pending {
		if err := wait(s); err != nil {
			return err
		}
	}
	return nil
}

// receive takes in each block's rows, len(in) of them at a time, and uses them.
func (g *Graph) receive(t *topology, in []*tensor.Matrix, use func(b *block, rows *tensor.Matrix) error) error {
	remote := t.remote()
	pending, rows := make([]*comm.Pending, len(remote)), make([]*tensor.Matrix, len(remote))
	ask := func(i int) {
		if i < len(remote) {
			rows[i] = in[i%len(in)].RowRange(0, remote[i].in.Cols)
			if g.comm != nil {
				pending[i] = g.comm.Receive(comm.Halo, comm.Bytes(rows[i].Floats()), remote[i].peer)
			}
		}
	}
	for i := range in {
		ask(i)
	}
	for i, b := range remote {
		if err := g.stand(pending[i]); err != nil {
			return err
		}
		if err := use(b, rows[i]); err != nil {
			return err
		}
		ask(i + len(in))
	}
	return nil
}

// returns is the way back of a sweep: gradients of remote rows go to their workers, and those that come for own rows are added to dx,
// in the order of the sweep and beside the caller's work.
type returns struct {
	g       *Graph
	out     []*tensor.Matrix
	pending []*comm.Pending
	in      []*tensor.Matrix
	added   chan error
	i       int
}

// giveBack begins to add what other workers return to dx. The caller does not touch dx until finish.
func (g *Graph) giveBack(t *topology, dx *tensor.Matrix) *returns {
	r := &returns{g: g}
	if len(t.blocks)+len(t.needed) == 1 {
		return r
	}
	r.out, r.in = g.pieces(2, largestBlock(t), dx.Cols), g.pieces(min(g.sar.Prefetch+1, len(t.needed)), largestPiece(t.needed), dx.Cols)
	r.pending = make([]*comm.Pending, len(r.out))
	r.added = g.background(func() error { return r.add(t, dx) })
	return r
}

// add receives the gradients of own rows, piece by piece, and adds them.
func (r *returns) add(t *topology, dx *tensor.Matrix) error {
	g, n := r.g, len(r.in)
	pending := make([]*comm.Pending, len(t.needed))
	rows := func(i int) *tensor.Matrix { return r.in[i%n].RowRange(0, t.needed[i].list.Cols) }
	ask := func(i int) {
		if i < len(t.needed) {
			pending[i] = g.comm.Receive(comm.HaloGradient, comm.Bytes(rows(i).Floats()), t.needed[i].peer)
		}
	}
	for i := range n {
		ask(i)
	}
	for i, p := range t.needed {
		if err := wait(pending[i]); err != nil {
			return err
		}
		g.team.ScatterAdd(dx, rows(i), p.list)
		ask(i + n)
	}
	return nil
}

// gradient is where the gradient of block b's rows goes, with undefined elements; send sends it. There are two such places: the
// one before may still be on its way.
func (r *returns) gradient(b *block) (*tensor.Matrix, error) {
	k := r.i % len(r.out)
	err := r.g.stand(r.pending[k])
	r.pending[k] = nil
	return r.out[k].RowRange(0, b.in.Cols), err
}

func (r *returns) send(b *block, d *tensor.Matrix) {
	if r.g.comm == nil {
		r.g.planned += bytesOfRows(d.Rows, d)
	} else {
		r.pending[r.i%len(r.out)] = r.g.comm.Send(comm.HaloGradient, comm.Bytes(d.Floats()), b.peer)
	}
	r.i++
}

// finish ends the sweep, with err if the caller's part failed.
func (r *returns) finish(err error) error {
	if r.out == nil {
		return err
	}
	for _, p := range r.pending {
		if err == nil {
			err = r.g.stand(p)
		}
	}
	err = r.g.join(r.added, err)
	release(r.out)
	release(r.in)
	return err
}

// background runs f beside the caller. join waits for it, and for it alone: where one side fails, the workers' connection is broken
// off, so that the other ends too and nothing reads or writes the buffers any more.
func (g *Graph) background(f func() error) chan error {
	if g.comm == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				err := fmt.Errorf("internal error: %v", p)
				g.comm.Abort(err)
				done <- err
			}
		}()
		err := f()
		if err != nil {
			g.comm.Abort(err)
		}
		done <- err
	}()
	return done
}

func (g *Graph) join(done chan error, err error) error {
	if done == nil {
		return err
	}
	if err != nil {
		g.comm.Abort(err)
	}
	start := time.Now()
	other := <-done
	g.waited += time.Since(start)
	if err == nil || other != nil && errors.Is(err, other) { // it broke off because of the other
		return other
	}
	return err
}

// stand waits for p and counts the time.
func (g *Graph) stand(p *comm.Pending) error {
	start := time.Now()
	err := wait(p)
	g.waited += time.Since(start)
	return err
}

func wait(p *comm.Pending) error {
	if p == nil {
		return nil
	}
	return p.Wait()
}

// pieces takes n buffers of so many rows.
func (g *Graph) pieces(n, rows, cols int) []*tensor.Matrix {
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

// bytesOfRows is the size of n rows like those of x.
func bytesOfRows(n int, x *tensor.Matrix) int64 {
	return int64(n) * int64(x.Cols) * int64(x.Element.Size())
}

func largestBlock(t *topology) (rows int) {
	for _, b := range t.remote() {
		rows = max(rows, b.in.Cols)
	}
	return rows
}

func largestPiece(list []*piece) (rows int) {
	for _, p := range list {
		rows = max(rows, p.list.Cols)
	}
	return rows
}

// fetch is Graph.fetch for a use that cannot fail, in a pass that a failure ends. What is kept is kept for the backward pass.
func (p *propagator) fetch(t *topology, x *tensor.Matrix, recording bool, use func(b *block, rows *tensor.Matrix)) []*tensor.Matrix {
	kept, err := p.graph.fetch(t, x, p.graph.sar.KeepHalo, func(b *block, rows *tensor.Matrix) error {
		use(b, rows)
		return nil
	})
	p.graph.must(err)
	if !recording {
		release(kept)
		return nil
	}
	return kept
}

// each computes and sends the gradient of every remote block's rows.
func (r *returns) each(t *topology, compute func(b *block, d *tensor.Matrix)) error {
	for _, b := range t.remote() {
		d, err := r.gradient(b)
		if err != nil {
			return err
		}
		compute(b, d)
		r.send(b, d)
	}
	return nil
}

// rematerialize fetches the rows of every remote block again, unless they were kept, computes the gradient of each and sends it, and
// adds what other workers return to dx. Where dx is nil no gradient is asked for, and compute gets none to fill.
func (p *propagator) rematerialize(t *topology, x *tensor.Matrix, kept []*tensor.Matrix, dx *tensor.Matrix, compute func(b *block, rows, d *tensor.Matrix)) error {
	back := &returns{g: p.graph}
	if dx != nil {
		back = p.graph.giveBack(t, dx)
	}
	one := func(b *block, rows *tensor.Matrix) error {
		if dx == nil {
			compute(b, rows, nil)
			return nil
		}
		d, err := back.gradient(b)
		if err == nil {
			compute(b, rows, d)
			back.send(b, d)
		}
		return err
	}
	if kept == nil {
		_, err := p.graph.fetch(t, x, false, one)
		return back.finish(err)
	}
	for i, b := range t.remote() {
		if err := one(b, kept[i]); err != nil {
			return back.finish(err)
		}
	}
	return back.finish(nil)
}
