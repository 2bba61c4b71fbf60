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
	kept  []*tensor.Matrix // the rooms of every remote block's rows, where Options.KeepHalo keeps them
}

// halo begins the forward pass of one call at the site.
func (p *propagator) halo() *halo {
	h := &halo{part: p.part, site: p.site.Path}
	h.resume()
	var err error
	h.edges, err = p.part.Edges(p.along)
	exchange.Must(err)
	return h
}

// resume says that the work of the site goes on; errors name it. Each backward pass begins with it.
func (h *halo) resume() { h.part.comm.At(h.part.epoch, h.site) }

func (h *halo) count(columns int) { h.part.Count(h.site, h.edges, columns) }

func (h *halo) operator(r gnn.Reduce) edges.Operator {
	o, err := h.edges.Operator(r)
	exchange.Must(err)
	return o
}

// visit is a remote block in a sweep.
type visit struct {
	*edges.Block
	rows []*tensor.Matrix // of the block's sources in each matrix, there until the next visit; nil: not asked for
	// grads are for the gradients of the rows, and go to their worker after the visit. Their elements are
	// undefined before. They are nil where none were asked for.
	grads []*tensor.Matrix
}

// fetch visits every remote block with its rows of the matrices xs, which travel together. With
// Options.KeepHalo they stay in kept, for the caller to release.
func (h *halo) fetch(xs ...*tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		if h.part.options.KeepHalo {
			for _, b := range h.edges.Remote() {
				h.kept = append(h.kept, h.part.team.Memory.New(tensor.Buffers, b.In.Cols, columns(xs)))
			}
		}
		h.sweep(sweep{rows: xs, rooms: h.kept}, yield)
	}
}

// giveBack visits every remote block for the gradient of its rows. What other workers give back is added to
// dx.
func (h *halo) giveBack(dx *tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) { h.sweep(sweep{grads: []*tensor.Matrix{dx}}, yield) }
}

// rematerialize visits every remote block again, with its rows of xs (kept or fetched once more) and, for
// each of dxs, a matrix for their gradient, which goes to their worker. What other workers give back is added
// to dxs.
func (h *halo) rematerialize(xs, dxs []*tensor.Matrix) iter.Seq[visit] {
	return func(yield func(visit) bool) {
		h.sweep(sweep{rows: xs, rooms: h.kept, there: h.part.options.KeepHalo, grads: dxs}, yield)
	}
}

// sweep is what moves when the remote blocks are visited. Rows of several matrices travel in one message, one
// matrix's after the other's.
type sweep struct {
	rows  []*tensor.Matrix // whose rows are fetched; nil: none
	rooms []*tensor.Matrix // one for each block's rows; nil: a few of the sweep's own
	there bool             // the rows are in their rooms already
	grads []*tensor.Matrix // what the gradients of own rows are added to; nil: none go back
}

// columns is the width of a message with rows of all of them.
func columns(ms []*tensor.Matrix) (sum int) {
	for _, m := range ms {
		sum += m.Cols
	}
	return sum
}

// parts are the rows of a message, or the room for it, matrix by matrix.
func parts(message *tensor.Matrix, of []*tensor.Matrix) []*tensor.Matrix {
	widths := make([]int, len(of))
	for i, m := range of {
		widths[i] = m.Cols
	}
	return exchange.Parts(message, widths)
}

// sweep visits every remote block. Rows that are fetched come into the rooms, while those that others need go
// to them. Where gradients go back, those that come for own rows are added in the order of the sweep; the
// visits do not touch what they are added to. A failure of another worker ends the pass.
func (h *halo) sweep(s sweep, yield func(visit) bool) {
	e, c := h.edges, h.part.comm
	if e.Alone() {
		return
	}
	ahead := h.part.options.Prefetch + 1
	taken := func(n, rows, cols int) []*tensor.Matrix { return exchange.Rooms(h.part.team.Memory, n, rows, cols) }
	var sides []exchange.Side
	var back *exchange.Sender
	if len(s.grads) > 0 {
		out := taken(2, e.MostIn, columns(s.grads))
		defer exchange.Release(out...)
		come := taken(min(ahead, len(e.Needed)), e.MostOut, columns(s.grads))
		defer exchange.Release(come...)
		back = &exchange.Sender{Comm: c, Kind: comm.HaloGradient, Rooms: out}
		sides = append(sides, func(aside *comm.Comm) error { return h.addGradients(aside, come, s.grads) })
	}
	var in *exchange.Receiver
	if len(s.rows) > 0 && !s.there {
		rooms := s.rooms
		if rooms == nil {
			rooms = taken(min(ahead, len(e.Remote())), e.MostIn, columns(s.rows))
			defer exchange.Release(rooms...)
		}
		out := taken(2, e.MostOut, columns(s.rows))
		defer exchange.Release(out...)
		in = &exchange.Receiver{Comm: c, Kind: comm.Halo, Rooms: rooms}
		sides = append(sides, func(aside *comm.Comm) error { return h.sendRows(aside, out, s.rows) })
	}
	exchange.Must(exchange.Beside(c, sides, func() error {
		if in != nil {
			for _, b := range e.Remote() {
				in.Expect(b.Peer, b.In.Cols, columns(s.rows))
			}
		}
		for i, b := range e.Remote() {
			v := visit{Block: b}
			switch {
			case in != nil:
				rows, err := in.Next()
				if err != nil {
					return err
				}
				v.rows = parts(rows, s.rows)
			case s.there:
				v.rows = parts(s.rooms[i], s.rows)
			}
			if back != nil {
				room, err := back.Room(b.In.Cols, columns(s.grads))
				if err != nil {
					return err
				}
				v.grads = parts(room, s.grads)
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

// sendRows is the side that sends the rows of xs that other workers need.
func (h *halo) sendRows(aside *comm.Comm, rooms, xs []*tensor.Matrix) error {
	out := &exchange.Sender{Comm: aside, Kind: comm.Halo, Rooms: rooms}
	for _, p := range h.edges.Needed {
		room, err := out.Room(p.Rows.Cols, columns(xs))
		if err != nil {
			return err
		}
		for i, rows := range parts(room, xs) {
			h.part.team.Gather(rows, xs[i], p.Rows)
		}
		out.Send(p.Peer)
	}
	return out.Finish()
}

// addGradients is the side that adds what other workers give back for own rows to dxs.
func (h *halo) addGradients(aside *comm.Comm, rooms, dxs []*tensor.Matrix) error {
	in := &exchange.Receiver{Comm: aside, Kind: comm.HaloGradient, Rooms: rooms}
	for _, p := range h.edges.Needed {
		in.Expect(p.Peer, p.Rows.Cols, columns(dxs))
	}
	for _, p := range h.edges.Needed {
		message, err := in.Next()
		if err != nil {
			return err
		}
		for i, rows := range parts(message, dxs) {
			h.part.team.ScatterAdd(dxs[i], rows, p.Rows)
		}
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
