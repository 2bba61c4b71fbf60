package sar

import (
	"weft/comm"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// wire is the Exchanger that sends messages between the workers of the partitions.
//
// The order of the blocks differs from worker to worker: in round r worker p receives rows from
// worker p−r and sends rows to worker p+r. So each worker sends to one and receives from one at a time.
// The rows of a round are divided into messages. A worker receives at most Prefetch+1 messages at a time, and
// sends at most two.
type wire struct {
	team     *kernel.Team
	comm     *comm.Comm
	prefetch int
}

// Exchange implements Exchanger. Gradients for local rows are added in the order of the rounds. If another
// worker fails, the pass ends.
func (w *wire) Exchange(call *Call, t Transfer, yield func(Visit) bool) {
	e, c, memory := call.Edges, w.comm, w.team.Memory
	if c.TakesTurns() {
		w.inTurns(call, t, yield)
		return
	}
	if e.Alone() {
		return
	}
	const messages = 2 // one is made while the other is being sent
	in, back, release := w.buffers(call, t, messages)
	defer release()
	beside, done := w.beside(call)
	defer done()
	var sides []exchange.Side
	if back != nil {
		incoming, spread := w.forGradients(call, t)
		defer exchange.Release(append(incoming, spread)...)
		sides = append(sides, func(aside *comm.Comm) error { return beside.addGradients(call, aside, incoming, spread, &t) })
	}
	if in != nil {
		out := exchange.FormOf(t.Rows).New(memory, messages, e.MostOut)
		defer exchange.Release(out...)
		sides = append(sides, func(aside *comm.Comm) error { return beside.sendRows(call, aside, out, t.Rows) })
	}
	exchange.Must(exchange.Beside(c, sides, func() error { return t.visit(e.Remote(), in, back, yield) }))
}

// inTurns is Exchange for a worker that holds several partitions: all of them have sent before one receives.
// So the messages that a partition receives are there, and one buffer is enough for those that it makes.
func (w *wire) inTurns(call *Call, t Transfer, yield func(Visit) bool) {
	e, c, memory := call.Edges, w.comm, w.team.Memory
	if t.fetches() {
		out := exchange.FormOf(t.Rows).New(memory, 1, e.MostOut)
		err := w.sendRows(call, c, out, t.Rows)
		exchange.Release(out...)
		exchange.Must(err)
		c.Meet()
	}
	hold := c.Hold()
	in, back, release := w.buffers(call, t, 1)
	err := t.visit(e.Remote(), in, back, yield)
	release()
	hold()
	exchange.Must(err)
	if back != nil {
		c.Meet()
		hold := c.Hold()
		incoming, spread := w.forGradients(call, t)
		err := w.addGradients(call, c, incoming, spread, &t)
		exchange.Release(append(incoming, spread)...)
		hold()
		exchange.Must(err)
	}
}

// buffers makes what a worker receives rows with, and what it sends gradients with from so many buffers. Each
// is nil if there are none. release releases the buffers.
func (w *wire) buffers(call *Call, t Transfer, messages int) (in *exchange.Receiver, back *exchange.Sender, release func()) {
	e, memory := call.Edges, w.team.Memory
	var own []*tensor.Matrix
	if len(t.Grads) > 0 {
		own = t.Sent.New(memory, messages, e.MostIn)
		back = &exchange.Sender{Comm: w.comm, Kind: comm.HaloGradient, Buffers: own}
	}
	if t.fetches() {
		buffers := t.Buffers
		if buffers == nil {
			buffers = exchange.FormOf(t.Rows).New(memory, min(w.prefetch+1, len(e.Remote())), e.MostIn)
			own = append(own[:len(own):len(own)], buffers...)
		}
		in = &exchange.Receiver{Comm: w.comm, Kind: comm.Halo, Buffers: buffers}
	}
	return in, back, func() { exchange.Release(own...) }
}

// beside returns the wire whose team makes the sums of messages beside the worker's main work. Its scratch, a
// few rows, is not counted: it would be live at another time in each run, and no plan could tell the peak.
func (w *wire) beside(call *Call) (beside *wire, done func()) {
	if !call.Edges.Sums {
		return w, func() {}
	}
	team := kernel.NewTeam(w.team.Threads(), tensor.NewMeter())
	if w.team.Planning() {
		team = kernel.NewPlan(w.team.Threads(), tensor.NewMeter())
	}
	team.Uncut, team.Storage, team.Watch = true, w.team.Storage, w.team.Watch
	aside := *w
	aside.team = team
	return &aside, team.Memory.Close
}

// forGradients makes the buffers in which gradients of local rows are received, and scratch for those of
// partial sums; nil: none.
func (w *wire) forGradients(call *Call, t Transfer) (buffers []*tensor.Matrix, spread *tensor.Matrix) {
	if n := call.Edges.MostSpread; n > 0 {
		spread = w.team.Memory.New(tensor.Buffers, n, t.Sent.Width())
	}
	return t.Sent.New(w.team.Memory, min(w.prefetch+1, len(call.Edges.Needed)), call.Edges.MostOut), spread
}

// fetches reports whether rows are received.
func (t *Transfer) fetches() bool { return len(t.Rows) > 0 && !t.Received }

// visit calls yield for each block. in receives the rows of the blocks' sources; it is nil if Buffers has
// them already, or if no rows are needed. back sends gradients; it is nil if none are sent.
func (t *Transfer) visit(blocks []*edges.Block, in *exchange.Receiver, back *exchange.Sender, yield func(Visit) bool) error {
	form := exchange.FormOf(t.Rows)
	if in != nil {
		for _, b := range blocks {
			in.Expect(b.Peer, b.In.Cols, form.Width())
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
			v.Rows = form.Parts(rows)
		case t.Received:
			v.Rows = form.Parts(t.Buffers[i])
		}
		if back != nil {
			buffer, err := back.Buffer(b.In.Cols, t.Sent.Width())
			if err != nil {
				return err
			}
			v.Grads = t.Sent.Parts(buffer)
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

// sendRows sends the rows of xs that other workers need. It runs concurrently with the visits.
func (w *wire) sendRows(call *Call, aside *comm.Comm, buffers, xs []*tensor.Matrix) error {
	out, form := &exchange.Sender{Comm: aside, Kind: comm.Halo, Buffers: buffers}, exchange.FormOf(xs)
	for _, p := range call.Edges.Needed {
		buffer, err := out.Buffer(p.Len(), form.Width())
		if err != nil {
			return err
		}
		for i, rows := range form.Parts(buffer) {
			call.by.Pack(w.team, rows, p, xs[i])
		}
		out.Send(p.Peer)
	}
	return out.Finish()
}

// addGradients adds the gradients that other workers send for local rows to t.Grads. It runs concurrently
// with the visits.
func (w *wire) addGradients(call *Call, aside *comm.Comm, buffers []*tensor.Matrix, spread *tensor.Matrix, t *Transfer) error {
	in := &exchange.Receiver{Comm: aside, Kind: comm.HaloGradient, Buffers: buffers}
	for _, p := range call.Edges.Needed {
		in.Expect(p.Peer, p.Len(), t.Sent.Width())
	}
	for _, p := range call.Edges.Needed {
		message, err := in.Next()
		if err != nil {
			return err
		}
		for i, rows := range t.Sent.Parts(message) {
			call.by.Unpack(w.team, t.Grads[i], p, rows, spread)
		}
		in.Free()
	}
	return nil
}
