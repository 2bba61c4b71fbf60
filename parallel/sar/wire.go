package sar

import (
	"weft/comm"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// wire exchanges rows between the workers that hold the partitions.
//
// Each worker goes over its remote blocks in an order of its own: in round r worker p receives rows from
// worker p−r and sends rows to worker p+r. So each worker sends to one and receives from one at a time.
// Within a round the rows travel in messages. At most Prefetch+1 messages are being received at a time, and
// two are being sent.
type wire struct {
	team     *kernel.Team
	comm     *comm.Comm
	prefetch int
}

// Exchange implements Mover. Gradients for local rows are added in the order of the rounds. If another worker
// fails, the pass ends.
func (w *wire) Exchange(h *Halo, t Transfer, yield func(Visit) bool) {
	e, c := h.Edges, w.comm
	if e.Alone() {
		return
	}
	ahead := w.prefetch + 1
	taken := func(n, rows, cols int) []*tensor.Matrix { return exchange.Buffers(w.team.Memory, n, rows, cols) }
	var sides []exchange.Side
	var back *exchange.Sender
	if len(t.Grads) > 0 {
		out := taken(2, e.MostIn, Columns(t.Grads))
		defer exchange.Release(out...)
		come := taken(min(ahead, len(e.Needed)), e.MostOut, Columns(t.Grads))
		defer exchange.Release(come...)
		back = &exchange.Sender{Comm: c, Kind: comm.HaloGradient, Buffers: out}
		sides = append(sides, func(aside *comm.Comm) error { return w.addGradients(h, aside, come, t.Grads) })
	}
	var in *exchange.Receiver
	if len(t.Rows) > 0 && !t.There {
		buffers := t.Buffers
		if buffers == nil {
			buffers = taken(min(ahead, len(e.Remote())), e.MostIn, Columns(t.Rows))
			defer exchange.Release(buffers...)
		}
		out := taken(2, e.MostOut, Columns(t.Rows))
		defer exchange.Release(out...)
		in = &exchange.Receiver{Comm: c, Kind: comm.Halo, Buffers: buffers}
		sides = append(sides, func(aside *comm.Comm) error { return w.sendRows(h, aside, out, t.Rows) })
	}
	exchange.Must(exchange.Beside(c, sides, func() error { return t.visit(e.Remote(), in, back, yield) }))
}

// visit visits the blocks. in receives the rows of their sources; it is nil if they are in their buffers
// already, or not asked for. back sends their gradients; it is nil if none are sent.
func (t *Transfer) visit(blocks []*edges.Block, in *exchange.Receiver, back *exchange.Sender, yield func(Visit) bool) error {
	if in != nil {
		for _, b := range blocks {
			in.Expect(b.Peer, b.In.Cols, Columns(t.Rows))
		}
	}
	for i, b := range blocks {
		v := Visit{Block: b}
		switch {
		case in != nil:
			rows, err := in.Next()
			if err != nil {
				return err
			}
			v.Rows = Parts(rows, t.Rows)
		case t.There:
			v.Rows = Parts(t.Buffers[i], t.Rows)
		}
		if back != nil {
			buffer, err := back.Buffer(b.In.Cols, Columns(t.Grads))
			if err != nil {
				return err
			}
			v.Grads = Parts(buffer, t.Grads)
		}
		yield(v)
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
}

// sendRows runs beside the visits. It sends the rows of xs that other workers need.
func (w *wire) sendRows(h *Halo, aside *comm.Comm, buffers, xs []*tensor.Matrix) error {
	out := &exchange.Sender{Comm: aside, Kind: comm.Halo, Buffers: buffers}
	for _, p := range h.Edges.Needed {
		buffer, err := out.Buffer(p.Rows.Cols, Columns(xs))
		if err != nil {
			return err
		}
		for i, rows := range Parts(buffer, xs) {
			w.team.Gather(rows, xs[i], p.Rows)
		}
		out.Send(p.Peer)
	}
	return out.Finish()
}

// addGradients runs beside the visits. It adds the gradients that other workers send for local rows to dxs.
func (w *wire) addGradients(h *Halo, aside *comm.Comm, buffers, dxs []*tensor.Matrix) error {
	in := &exchange.Receiver{Comm: aside, Kind: comm.HaloGradient, Buffers: buffers}
	for _, p := range h.Edges.Needed {
		in.Expect(p.Peer, p.Rows.Cols, Columns(dxs))
	}
	for _, p := range h.Edges.Needed {
		message, err := in.Next()
		if err != nil {
			return err
		}
		for i, rows := range Parts(message, dxs) {
			w.team.ScatterAdd(dxs[i], rows, p.Rows)
		}
		in.Free()
	}
	return nil
}
