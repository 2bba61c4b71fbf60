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

// count tells Options.Aggregated of a pass along all edges for so many columns.
func (h *halo) count(columns int) {
	if tell := h.part.options.Aggregated; tell != nil {
		tell(h.edges.Entries() * int64(columns))
	}
}

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

// rematerialize visits every remote block again, with its rows of x (kept or fetched once more) and, unless
// dx is nil, a matrix for their gradient, which goes to their worker. What other workers give back is added
// to dx.
func (h *halo) rematerialize(x, dx *tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		if h.part.options.KeepHalo {
			x = nil
		}
		h.sweep(x, h.kept, dx, yield)
	}
}

// sweep visits every remote block. Where x is given, its rows are fetched, into rooms or into a few of the
// sweep's own, while those that others need go to them; else the rows are those in rooms. Where dx is given,
// gradients go back, and those that come for own rows are added to it, in the order of the sweep; the visits
// do not touch it. A failure of another worker ends the pass.
func (h *halo) sweep(x *tensor.Matrix, rooms []*tensor.Matrix, dx *tensor.Matrix, yield func(visit) bool) {
	e, c := h.edges, h.part.comm
	if e.Alone() {
		return
	}
	ahead := h.part.options.Prefetch + 1
	taken := func(n, rows, cols int) []*tensor.Matrix { return exchange.Rooms(h.part.team.Memory, n, rows, cols) }
	var sides []exchange.Side
	var back *exchange.Sender
	if dx != nil {
		out := taken(2, e.MostIn, dx.Cols)
		defer exchange.Release(out...)
		come := taken(min(ahead, len(e.Needed)), e.MostOut, dx.Cols)
		defer exchange.Release(come...)
		back = &exchange.Sender{Comm: c, Kind: comm.HaloGradient, Rooms: [2]*tensor.Matrix(out)}
		sides = append(sides, func(aside *comm.Comm) error { return h.addGradients(aside, come, dx) })
	}
	var in *exchange.Receiver
	if x != nil {
		if rooms == nil {
			rooms = taken(min(ahead, len(e.Remote())), e.MostIn, x.Cols)
			defer exchange.Release(rooms...)
		}
		out := taken(2, e.MostOut, x.Cols)
		defer exchange.Release(out...)
		in = &exchange.Receiver{Comm: c, Kind: comm.Halo, Rooms: rooms}
		sides = append(sides, func(aside *comm.Comm) error { return h.sendRows(aside, [2]*tensor.Matrix(out), x) })
	}
	exchange.Must(exchange.Beside(c, sides, func() error {
		if in != nil {
			for _, b := range e.Remote() {
				in.Expect(b.Peer, b.In.Cols)
			}
		}
		for i, b := range e.Remote() {
			v, err := visit{Block: b}, error(nil)
			switch {
			case in != nil:
				v.rows, err = in.Next()
			case rooms != nil:
				v.rows = rooms[i]
			}
			if err == nil && back != nil {
				v.grad, err = back.Room(b.In.Cols)
			}
			if err != nil {
				return err
			}
			if !yield(v) {
				panic("sar: a sweep that is broken off, for which the other workers would wait")
			}
			if back != nil {
				back.Send(b.Peer)
			}
			if in != nil {
				in.Free()
			}
		}
		if back != nil {
			return back.Finish()
		}
		return nil
	}))
}

// sendRows is the side that sends the rows of x that other workers need.
func (h *halo) sendRows(aside *comm.Comm, rooms [2]*tensor.Matrix, x *tensor.Matrix) error {
	out := &exchange.Sender{Comm: aside, Kind: comm.Halo, Rooms: rooms}
	for _, p := range h.edges.Needed {
		rows, err := out.Room(p.Rows.Cols)
		if err != nil {
			return err
		}
		h.part.team.Gather(rows, x, p.Rows)
		out.Send(p.Peer)
	}
	return out.Finish()
}

// addGradients is the side that adds what other workers give back for own rows to dx.
func (h *halo) addGradients(aside *comm.Comm, rooms []*tensor.Matrix, dx *tensor.Matrix) error {
	in := &exchange.Receiver{Comm: aside, Kind: comm.HaloGradient, Rooms: rooms}
	for _, p := range h.edges.Needed {
		in.Expect(p.Peer, p.Rows.Cols)
	}
	for _, p := range h.edges.Needed {
		rows, err := in.Next()
		if err != nil {
			return err
		}
		h.part.team.ScatterAdd(dx, rows, p.Rows)
		in.Free()
	}
	return nil
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
