package sar

import (
	"iter"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
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
	part  *Partition
	site  string
	edges *edges.Edges
	kept  []*tensor.Matrix // the rows of every remote block, where Options.KeepHalo keeps them
}

// halo begins the forward pass of one call at the site.
func (p *propagator) halo() *halo {
	h := &halo{part: p.part, site: p.site}
	h.resume()
	var err error
	h.edges, err = p.part.edges(p.along)
	exchange.Must(err)
	return h
}

// resume says that the work of the site goes on; errors name it. Each backward pass begins with it.
func (h *halo) resume() { h.part.comm.At(h.part.epoch, h.site) }

func (h *halo) operator(r gnn.Reduce) edges.Operator {
	o, err := h.edges.Operator(r)
	exchange.Must(err)
	return o
}

// visit is a remote block in a sweep.
type visit struct {
	*edges.Block
	rows *tensor.Matrix // of the block's sources, there until the next visit; nil: not asked for
	// grad is for the gradient of the rows, and goes to their worker after the visit. Its elements are
	// undefined before. It is nil where no gradient was asked for.
	grad *tensor.Matrix
}

// fetch visits every remote block with its rows of x. With Options.KeepHalo they stay in kept, for the caller
// to release.
func (h *halo) fetch(x *tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		if h.part.options.KeepHalo {
			for _, b := range h.edges.Remote() {
				h.kept = append(h.kept, h.part.team.Memory.New(tensor.Buffers, b.In.Cols, x.Cols))
			}
		}
		h.sweep(x, h.kept, nil, yield)
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
		if h.part.options.KeepHalo {
			x = nil
		}
		h.sweep(x, h.kept, dx, yield)
	}
}

// sweep visits every remote block. Where x is given, its rows are fetched: into rooms, or into a few of the
// sweep's own. Where dx is given, gradients go back. A failure of another worker ends the pass.
func (h *halo) sweep(x *tensor.Matrix, rooms []*tensor.Matrix, dx *tensor.Matrix, yield func(visit) bool) {
	if h.edges.Alone() {
		return
	}
	call := func(v visit) {
		if !yield(v) {
			panic("parallel: a sweep that is broken off, for which the other workers would wait")
		}
	}
	exchange.Must(h.giving(dx, func(back *exchange.Sender) error {
		return h.fetching(x, rooms, func(b *edges.Block, rows *tensor.Matrix) error {
			if back == nil {
				call(visit{b, rows, nil})
				return nil
			}
			return back.Send(b.Peer, b.In.Cols, func(d *tensor.Matrix) { call(visit{b, rows, d}) })
		})
	}))
}

// fetching gives each remote block its rows, one after the other. Meanwhile the rows of this worker's x that
// others need go to them. Where x is nil nothing moves, and the rows are those in the rooms.
func (h *halo) fetching(x *tensor.Matrix, rooms []*tensor.Matrix, use func(b *edges.Block, rows *tensor.Matrix) error) error {
	part, remote := h.part, h.edges.Remote()
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
		rooms = exchange.Rooms(part.team.Memory, min(part.options.Prefetch+1, len(remote)), largestBlock(h.edges), x.Cols)
		defer exchange.Release(rooms)
	}
	out := exchange.Rooms(part.team.Memory, 2, largestPiece(h.edges), x.Cols)
	defer exchange.Release(out)
	send := func(aside *comm.Comm) error {
		s := &exchange.Sender{Comm: aside, Kind: comm.Halo, Rooms: out}
		for _, p := range h.edges.Needed {
			pack := func(rows *tensor.Matrix) { part.team.Gather(rows, x, p.Rows) }
			if err := s.Send(p.Peer, p.Rows.Cols, pack); err != nil {
				return err
			}
		}
		return s.Finish()
	}
	take := func() error {
		from := func(i int) (peer, rows int) { return remote[i].Peer, remote[i].In.Cols }
		return exchange.Receive(part.comm, comm.Halo, len(remote), from, rooms, func(i int, rows *tensor.Matrix) error { return use(remote[i], rows) })
	}
	return exchange.Beside(part.comm, send, take)
}

// giving runs f, which sends the gradients of remote rows with back. Beside it, those that come for own rows
// are added to dx, in the order of the sweep; f does not touch dx. Where dx is nil nothing moves, and back is
// nil.
func (h *halo) giving(dx *tensor.Matrix, f func(back *exchange.Sender) error) error {
	if dx == nil {
		return f(nil)
	}
	part, needed := h.part, h.edges.Needed
	back := &exchange.Sender{Comm: part.comm, Kind: comm.HaloGradient, Rooms: exchange.Rooms(part.team.Memory, 2, largestBlock(h.edges), dx.Cols)}
	defer exchange.Release(back.Rooms)
	in := exchange.Rooms(part.team.Memory, min(part.options.Prefetch+1, len(needed)), largestPiece(h.edges), dx.Cols)
	defer exchange.Release(in)
	add := func(aside *comm.Comm) error {
		from := func(i int) (peer, rows int) { return needed[i].Peer, needed[i].Rows.Cols }
		return exchange.Receive(aside, comm.HaloGradient, len(needed), from, in, func(i int, rows *tensor.Matrix) error {
			part.team.ScatterAdd(dx, rows, needed[i].Rows)
			return nil
		})
	}
	return exchange.Beside(part.comm, add, func() error {
		if err := f(back); err != nil {
			return err
		}
		return back.Finish()
	})
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

// gradientApart is where the gradient of target is added up while that of source takes in what other workers
// send: a matrix of its own where both are one, as a row has one writer. addApart then adds it to target's.
func gradientApart(target, source *autograd.Var) *tensor.Matrix {
	d := target.GradSum()
	if target == source && source.Wants() {
		return target.Tape().Team.Zeros(tensor.Gradients, target.Rows(), target.Cols())
	}
	return d
}

func addApart(target *autograd.Var, d *tensor.Matrix) {
	if d != target.GradSum() {
		target.AddGrad(d)
	}
}
