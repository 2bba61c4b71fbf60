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
	return kept, g.beside(func() error { return g.send(t, x, out) }, func() error { return g.receive(t, in, use) })
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

// returns is the way back of a sweep, as its caller sees it: where the gradients of remote rows are put and sent.
type returns struct {
	g       *Graph
	out     []*tensor.Matrix
	pending []*comm.Pending
	i       int
}

// giveBack runs f, which computes and sends the gradients of remote rows. Beside it, those that come for own rows are added to dx, in the
// order of the sweep; f does not touch dx.
func (g *Graph) giveBack(t *topology, dx *tensor.Matrix, f func(r *returns) error) error {
	if len(t.blocks)+len(t.needed) == 1 {
		return nil
	}
	r := &returns{g: g, out: g.pieces(2, largestBlock(t), dx.Cols), pending: make([]*comm.Pending, 2)}
	defer release(r.out)
	in := g.pieces(min(g.sar.Prefetch+1, len(t.needed)), largestPiece(t.needed), dx.Cols)
	defer release(in)
	return g.beside(func() error { return g.add(t, dx, in) }, func() error {
		err := f(r)
		for _, p := range r.pending {
			if err == nil {
				err = g.stand(p)
			}
		}
		return err
	})
}

// add receives the gradients of own rows, len(in) pieces at a time, and adds them.
func (g *Graph) add(t *topology, dx *tensor.Matrix, in []*tensor.Matrix) error {
	pending := make([]*comm.Pending, len(t.needed))
	rows := func(i int) *tensor.Matrix { return in[i%len(in)].RowRange(0, t.needed[i].list.Cols) }
	ask := func(i int) {
		if i < len(t.needed) {
			pending[i] = g.comm.Receive(comm.HaloGradient, comm.Bytes(rows(i).Floats()), t.needed[i].peer)
		}
	}
	for i := range in {
		ask(i)
	}
	for i, p := range t.needed {
		if err := wait(pending[i]); err != nil {
			return err
		}
		g.team.ScatterAdd(dx, rows(i), p.list)
		ask(i + len(in))
	}
	return nil
}

// send lets compute fill the gradient of block b's rows, whose elements are undefined, and starts to send it. There are two places for
// gradients: the one before may still be on its way.
func (r *returns) send(b *block, compute func(d *tensor.Matrix)) error {
	k := r.i % len(r.out)
	r.i++
	if err := r.g.stand(r.pending[k]); err != nil {
		return err
	}
	d := r.out[k].RowRange(0, b.in.Cols)
	compute(d)
	if r.g.comm == nil {
		r.g.planned += bytesOfRows(d.Rows, d)
	} else {
		r.pending[k] = r.g.comm.Send(comm.HaloGradient, comm.Bytes(d.Floats()), b.peer)
	}
	return nil
}

// beside runs other beside f, and waits for both. Where one side fails, or panics, the workers' connection is broken off, so that the
// other ends too and nothing reads or writes the buffers any more. A plan has no other side.
func (g *Graph) beside(other, f func() error) error {
	if g.comm == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		err := fmt.Errorf("internal error: a panic while rows were moved")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("internal error: %v", p)
			}
			if err != nil {
				g.comm.Abort(err)
			}
			done <- err
		}()
		err = other()
	}()
	panics := true
	defer func() {
		if panics {
			g.comm.Abort(errBroken)
			<-done
		}
	}()
	err := f()
	panics = false
	if err != nil {
		g.comm.Abort(err)
	}
	start := time.Now()
	theirs := <-done
	g.waited += time.Since(start)
	if err == nil || theirs != nil && errors.Is(err, theirs) { // f broke off because of the other side
		return theirs
	}
	return err
}

// errBroken ends the other side of work that panicked.
var errBroken = errors.New("the worker broke off")

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

// giveBack computes and sends the gradient of every remote block's rows, and adds what other workers send to dx.
func (p *propagator) giveBack(t *topology, dx *tensor.Matrix, compute func(b *block, d *tensor.Matrix)) {
	p.graph.must(p.graph.giveBack(t, dx, func(back *returns) error {
		for _, b := range t.remote() {
			if err := back.send(b, func(d *tensor.Matrix) { compute(b, d) }); err != nil {
				return err
			}
		}
		return nil
	}))
}

// rematerialize fetches the rows of every remote block again, unless they were kept, and gives back the gradient that compute fills. Where
// dx is nil no gradient is asked for, and compute gets none to fill.
func (p *propagator) rematerialize(t *topology, x *tensor.Matrix, kept []*tensor.Matrix, dx *tensor.Matrix, compute func(b *block, rows, d *tensor.Matrix)) {
	again := func(use func(b *block, rows *tensor.Matrix) error) error {
		if kept == nil {
			_, err := p.graph.fetch(t, x, false, use)
			return err
		}
		for i, b := range t.remote() {
			if err := use(b, kept[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if dx == nil {
		p.graph.must(again(func(b *block, rows *tensor.Matrix) error {
			compute(b, rows, nil)
			return nil
		}))
		return
	}
	p.graph.must(p.graph.giveBack(t, dx, func(back *returns) error {
		return again(func(b *block, rows *tensor.Matrix) error {
			return back.send(b, func(d *tensor.Matrix) { compute(b, rows, d) })
		})
	}))
}
