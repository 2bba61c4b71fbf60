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
	b := w.buffers(call, t, messages)
	defer b.release()
	beside, done := w.beside(call)
	defer done()
	var sides []exchange.Side
	if b.back != nil {
		incoming, spread := w.forGradients(call, t)
		defer exchange.Release(append(incoming, spread)...)
		sides = append(sides, func(aside *comm.Comm) error { return beside.addGradients(call, aside, incoming, spread, &t) })
	}
	if b.in != nil {
		out := call.Form(t.Rows).New(memory, messages, e.MostOut)
		defer exchange.Release(out...)
		sides = append(sides, func(aside *comm.Comm) error { return beside.sendRows(call, aside, out, t.Rows) })
	}
	exchange.Must(exchange.Beside(c, sides, func() error { return b.visit(yield) }))
}

// inTurns is Exchange for a worker that holds several partitions: all of them have sent before one receives.
// So the messages that a partition receives are there, and one buffer is enough for those that it makes.
func (w *wire) inTurns(call *Call, t Transfer, yield func(Visit) bool) {
	e, c, memory := call.Edges, w.comm, w.team.Memory
	if t.fetches() {
		out := call.Form(t.Rows).New(memory, 1, e.MostOut)
		err := w.sendRows(call, c, out, t.Rows)
		exchange.Release(out...)
		exchange.Must(err)
		c.Meet()
	}
	hold := c.Hold()
	b := w.buffers(call, t, 1)
	err := b.visit(yield)
	b.release()
	hold()
	exchange.Must(err)
	if b.back != nil {
		c.Meet()
		hold := c.Hold()
		incoming, spread := w.forGradients(call, t)
		err := w.addGradients(call, c, incoming, spread, &t)
		exchange.Release(append(incoming, spread)...)
		hold()
		exchange.Must(err)
	}
}

// visits are what a worker visits the remote blocks of a call with.
type visits struct {
	*wire
	call *Call
	Transfer
	rows exchange.Form      // of the messages with rows
	in   *exchange.Receiver // of the blocks' rows; nil if Buffers has them already, or if no rows are needed
	back *exchange.Sender   // of gradients; nil if none are sent
	own  []*tensor.Matrix
	// decoded has the rows of a block, and toEncode their gradients, as they are stored. Each is nil if
	// messages have them so.
	decoded, toEncode *tensor.Matrix
}

// buffers makes what a worker receives rows with, and what it sends gradients with from so many buffers.
func (w *wire) buffers(call *Call, t Transfer, messages int) *visits {
	e, memory := call.Edges, w.team.Memory
	v := &visits{wire: w, call: call, Transfer: t, rows: call.Form(t.Rows)}
	if len(t.Grads) > 0 {
		v.own = t.Sent.New(memory, messages, e.MostIn)
		v.back = &exchange.Sender{Comm: w.comm, Kind: comm.HaloGradient, Buffers: v.own}
		if t.Sent.Encodes() {
			v.toEncode = t.Sent.Stored().New(memory, 1, e.MostIn)[0]
		}
	}
	if t.fetches() {
		buffers := t.Buffers
		if buffers == nil || v.rows.Encodes() {
			buffers = v.rows.New(memory, min(w.prefetch+1, len(e.Remote())), e.MostIn)
			v.own = append(v.own[:len(v.own):len(v.own)], buffers...)
		}
		if t.Buffers == nil && v.rows.Encodes() {
			v.decoded = v.rows.Stored().New(memory, 1, e.MostIn)[0]
		}
		v.in = &exchange.Receiver{Comm: w.comm, Kind: comm.Halo, Buffers: buffers}
	}
	return v
}

func (v *visits) release() {
	exchange.Release(v.own...)
	exchange.Release(v.decoded, v.toEncode)
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

// visit calls yield for each block.
func (v *visits) visit(yield func(Visit) bool) error {
	blocks := v.call.Edges.Remote()
	if v.in != nil {
		for _, b := range blocks {
			v.in.Expect(b.Peer, b.In.Cols, v.rows.Width())
		}
	}
	for i, b := range blocks {
		visit := Visit{Block: b}
		if v.in != nil {
			message, err := v.in.Next()
			if err != nil {
				return err
			}
			visit.Rows = v.received(i, message)
		} else if v.Received {
			visit.Rows = v.rows.Stored().Parts(v.Buffers[i])
		}
		var gradients, message *tensor.Matrix
		if v.back != nil {
			var err error
			if message, err = v.back.Buffer(b.In.Cols, v.Sent.Width()); err != nil {
				return err
			}
			gradients = message
			if v.toEncode != nil {
				gradients = v.toEncode.Prefix(b.In.Cols, v.Sent.Stored().Width())
			}
			visit.Grads = v.Sent.Stored().Parts(gradients)
		}
		yield(visit)
		if v.back != nil {
			if gradients != message {
				v.encode(v.call, v.Sent, message, gradients, b)
			}
			v.back.Send(b.Peer)
		}
		if v.in != nil {
			v.in.Free()
		}
	}
	if v.back != nil {
		return v.back.Finish()
	}
	return nil
}

// encode makes a message of the gradients of a block's sources.
func (w *wire) encode(call *Call, form exchange.Form, message, gradients *tensor.Matrix, b *edges.Block) {
	form.Encode(w.team, message, gradients, func(int) kernel.Draws { return call.GradientDraws(w.comm.Rank(), b.IDs) })
}

// received returns the rows of a message of block i as they are stored.
func (v *visits) received(i int, message *tensor.Matrix) []*tensor.Matrix {
	stored := v.rows.Stored()
	if v.rows.Encodes() {
		into := v.decoded
		if v.Buffers != nil {
			into = v.Buffers[i]
		}
		into = into.Prefix(message.Rows, stored.Width())
		v.rows.Decode(v.team, into, message)
		message = into
	}
	return stored.Parts(message)
}

// sendRows sends the rows of xs that other workers need. It runs concurrently with the visits.
func (w *wire) sendRows(call *Call, aside *comm.Comm, buffers, xs []*tensor.Matrix) error {
	out, form := &exchange.Sender{Comm: aside, Kind: comm.Halo, Buffers: buffers}, call.Form(xs)
	for _, p := range call.Edges.Needed {
		buffer, err := out.Buffer(p.Len(), form.Width())
		if err != nil {
			return err
		}
		w.pack(call, form, buffer, p, xs)
		out.Send(p.Peer)
	}
	return out.Finish()
}

// pack makes a message of rows of xs.
func (w *wire) pack(call *Call, form exchange.Form, message *tensor.Matrix, p *edges.Message, xs []*tensor.Matrix) {
	for i, rows := range form.Parts(message) {
		if form.Encodes() {
			w.team.Encode(form[i].Format, rows, xs[i], p.Rows, call.Draws(call.Edges.SourceIDs))
		} else {
			call.by.Pack(w.team, rows, p, xs[i])
		}
	}
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
		w.unpack(call, t, message, p, spread)
		in.Free()
	}
	return nil
}

// unpack adds the gradients of a message to t.Grads.
func (w *wire) unpack(call *Call, t *Transfer, message *tensor.Matrix, p *edges.Message, spread *tensor.Matrix) {
	for i, rows := range t.Sent.Parts(message) {
		if t.Sent.Encodes() {
			w.team.Decode(t.Sent[i].Format, t.Grads[i], rows, p.Rows, kernel.Accumulate)
		} else {
			call.by.Unpack(w.team, t.Grads[i], p, rows, spread)
		}
	}
}
