package sar

import (
	"iter"

	"weft/comm"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// halo is a layer's movement of rows between the workers: those of the remote blocks' sources come here, own
// rows go to the workers that need them, and gradients go the other ways.
//
// A sweep goes over the remote blocks in an order that differs from worker to worker: in round r worker p
// takes in rows of worker p−r while its own go to worker p+r, so that each one sends to one and receives from
// one. Within a round the rows go in pieces. What is on its way is bounded: Prefetch+1 pieces are received,
// and two sent, at most.
type halo struct {
	g     *Graph
	edges *edges.Edges
	kept  []*tensor.Matrix // the rows of every remote block, where the settings keep them for the backward pass
}

// visit is a remote block in a sweep.
type visit struct {
	*edges.Block
	rows *tensor.Matrix // of the block's sources, there until the next visit; nil where they were not asked for
	// grad is where the gradient of the rows belongs, with undefined elements: it is sent to their worker
	// after the visit; nil where it was not asked for.
	grad *tensor.Matrix
}

// fetch visits every remote block with its rows of x. With keep set, and --keep-halo, they stay in kept, for
// the caller to release.
func (h *halo) fetch(x *tensor.Matrix, keep bool) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		if h.g.options.KeepHalo {
			for _, b := range h.edges.Remote() {
				h.kept = append(h.kept, h.g.team.Memory.New(tensor.Buffers, b.In.Cols, x.Cols))
			}
		}
		h.sweep(x, h.kept, nil, yield)
		if !keep {
			release(h.kept)
			h.kept = nil
		}
	}
}

// giveBack visits every remote block for the gradient of its rows. What other workers give back is added to
// dx.
func (h *halo) giveBack(dx *tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) { h.sweep(nil, nil, dx, yield) }
}

// rematerialize visits every remote block with its rows of x, which are fetched again unless they were kept,
// for their gradient, unless dx is nil. What other workers give back is added to dx.
func (h *halo) rematerialize(x, dx *tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		if h.g.options.KeepHalo {
			x = nil
		}
		h.sweep(x, h.kept, dx, yield)
	}
}

// sweep fetches rows of x, unless that is nil, into rooms, or into a few of its own where there are none, and
// gives back gradients, unless dx is nil. A failure of another worker ends the pass.
func (h *halo) sweep(x *tensor.Matrix, rooms []*tensor.Matrix, dx *tensor.Matrix, yield func(visit) bool) {
	if h.edges.Alone() {
		return
	}
	call := func(v visit) {
		if !yield(v) {
			panic("parallel: a sweep that is broken off, for which the other workers would wait")
		}
	}
	exchange.Must(h.giving(dx, func(back *sender) error {
		return h.fetching(x, rooms, func(b *edges.Block, rows *tensor.Matrix) error {
			if back == nil {
				call(visit{b, rows, nil})
				return nil
			}
			return back.send(b.Peer, b.In.Cols, h.g.timed, func(d *tensor.Matrix) { call(visit{b, rows, d}) })
		})
	}))
}

// fetching gives each remote block its rows, one after the other. Meanwhile the rows of this worker's x that
// others need go to them. Where x is nil nothing moves, and the rows are those in the rooms.
func (h *halo) fetching(x *tensor.Matrix, rooms []*tensor.Matrix, use func(b *edges.Block, rows *tensor.Matrix) error) error {
	g, remote := h.g, h.edges.Remote()
	if x == nil {
		for i, b := range remote {
			var rows *tensor.Matrix
			if rooms != nil {
				rows = rooms[i]
			}
			if err := use(b, rows); err != nil {
				return err
			}
		}
		return nil
	}
	if rooms == nil {
		rooms = g.buffers(min(g.options.Prefetch+1, len(remote)), largestBlock(h.edges), x.Cols)
		defer release(rooms)
	}
	out := g.sender(comm.Halo, largestPiece(h.edges), x.Cols)
	defer release(out.rooms)
	send := func() error {
		for _, p := range h.edges.Needed {
			pack := func(rows *tensor.Matrix) { g.team.Gather(rows, x, p.Rows) }
			if err := out.send(p.Peer, p.Rows.Cols, wait, pack); err != nil {
				return err
			}
		}
		return out.finish(wait)
	}
	receive := func() error {
		from := func(i int) (peer, rows int) { return remote[i].Peer, remote[i].In.Cols }
		return g.receive(comm.Halo, len(remote), from, rooms, g.timed, func(i int, rows *tensor.Matrix) error { return use(remote[i], rows) })
	}
	return g.beside(send, receive)
}

// giving runs f, which sends the gradients of remote rows with back. Beside it, those that come for own rows
// are added to dx, in the order of the sweep; f does not touch dx. Where dx is nil nothing moves, and back is
// nil.
func (h *halo) giving(dx *tensor.Matrix, f func(back *sender) error) error {
	if dx == nil {
		return f(nil)
	}
	g, needed := h.g, h.edges.Needed
	back := g.sender(comm.HaloGradient, largestBlock(h.edges), dx.Cols)
	defer release(back.rooms)
	in := g.buffers(min(g.options.Prefetch+1, len(needed)), largestPiece(h.edges), dx.Cols)
	defer release(in)
	add := func() error {
		from := func(i int) (peer, rows int) { return needed[i].Peer, needed[i].Rows.Cols }
		return g.receive(comm.HaloGradient, len(needed), from, in, wait, func(i int, rows *tensor.Matrix) error {
			g.team.ScatterAdd(dx, rows, needed[i].Rows)
			return nil
		})
	}
	return g.beside(add, func() error {
		if err := f(back); err != nil {
			return err
		}
		return back.finish(g.timed)
	})
}
