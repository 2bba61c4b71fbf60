package sar

import (
	"slices"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// wire is the Exchanger that sends messages between the workers of the partitions.
//
// The order of the blocks differs from worker to worker: in round r worker p receives rows from worker p−r
// and sends rows to worker p+r. So each worker sends to one worker and receives from one at a time. The rows
// of a round are divided into messages. A worker receives at most Prefetch+1 messages at a time, and sends at
// most two.
type wire struct {
	team     *kernel.Team
	comm     *comm.Comm
	rank     int // rank of the partition whose messages it makes
	prefetch int
}

func newWire(team *kernel.Team, c *comm.Comm, prefetch int) *wire {
	return &wire{team: team, comm: c, rank: c.Rank(), prefetch: prefetch}
}

// Begin implements Exchanger. If partitions take turns, it waits until the other partitions of the worker
// have exposed their part.
func (w *wire) Begin(call *Call, t Transfer, visit func(Visit) bool) {
	if w.comm.TakesTurns() {
		exchange.Must(w.firstTurn(call, t, visit))
	}
}

// Exchange implements Exchanger. Gradients for local rows are added in the order of the rounds. If another
// worker fails, the pass ends.
func (w *wire) Exchange(call *Call, t Transfer, yield func(Visit) bool) {
	c := w.comm
	if c.TakesTurns() {
		exchange.Must(w.secondTurn(call, t, yield))
		return
	}
	if call.Edges.Alone() {
		return
	}
	const messages = 2 // one is made while the other is being sent
	v := w.newVisitor(call, t)
	defer v.release()
	v.buffers(messages)
	side, done := w.sideWire(call)
	defer done()
	var sides []exchange.Side
	if v.back != nil {
		in := w.forGradients(call, t)
		defer in.release()
		sides = append(sides, func(aside *comm.Comm) error {
			return side.addGradients(call, in.inbox(aside), in, t.Grads)
		})
	}
	if v.in != nil {
		out := w.forRows(call, t, messages)
		defer out.release()
		sides = append(sides, func(aside *comm.Comm) error {
			return side.sendRows(call, out.sender(aside), out, t.Rows)
		})
	}
	exchange.Must(exchange.Beside(c, sides, func() error { return v.each(yield) }))
}

// inbox receives messages, in the order in which they are expected: an exchange.Receiver.
type inbox interface {
	Expect(peer, rows, cols int)
	Next() (message *tensor.Matrix, err error)
	Free()
}

// outbox sends messages. It is an exchange.Sender, or keeps the messages until their receivers' turns.
type outbox interface {
	Buffer(rows, cols int) (message *tensor.Matrix, err error)
	Send(peer int)
	Finish() error
}

// visitor visits the remote blocks of a call: it receives their rows, and sends gradients back.
type visitor struct {
	*wire
	call *Call
	Transfer
	rows, stored exchange.Form // of the rows in the inbox, and of the same rows as they are stored
	in           inbox         // of the blocks' rows; nil if Buffers has them, or if none are needed
	back         outbox        // of gradients; nil if none are sent
	own          []*tensor.Matrix
	inPlace      bool // rows are received where they stay
	// decoded has the rows of a block as they are stored, and toEncode their gradients. Each is nil if
	// messages hold them as stored.
	decoded, toEncode *tensor.Matrix
}

func (w *wire) newVisitor(call *Call, t Transfer) *visitor {
	v := &visitor{wire: w, call: call, Transfer: t, rows: call.Form(t.Rows)}
	v.stored = v.rows.Stored()
	return v
}

// buffers makes the buffers in which the worker receives rows, and messages buffers from which it sends
// gradients.
func (v *visitor) buffers(messages int) {
	if v.Returns() {
		v.own = v.Sent.New(v.team.Memory, messages, v.call.Edges.MostIn)
		v.sendsFrom(&exchange.Sender{Comm: v.comm, Kind: comm.HaloGradient, Buffers: v.own})
	}
	if v.fetches() {
		far, _ := v.places()
		v.in = &exchange.Receiver{Comm: v.comm, Kind: comm.Halo, Buffers: far}
	}
}

// places makes the buffers of messages with rows: far for messages of other workers, near for messages of
// other partitions of this worker.
func (v *visitor) places() (far, near []*tensor.Matrix) {
	e, memory := v.call.Edges, v.team.Memory
	v.inPlace = v.Buffers != nil && !v.rows.Encodes()
	if v.inPlace {
		for i, b := range v.Buffers { // a message counts the elements of its form
			in := b.As(v.rows.Element(), b.Rows, v.rows.Width())
			if v.comm.Nearby(e.Remote()[i].Peer) {
				near = append(near, in)
			} else {
				far = append(far, in)
			}
		}
		return far, near
	}
	fewNear, fewFar := v.split(len(e.Remote()), func(i int) int { return e.Remote()[i].Peer })
	making := 1
	if memory.GathersBeside() && !v.rows.Encodes() {
		making = 2 // the rows of a block come while the rows before are used
	}
	near = v.rows.New(memory, min(making, fewNear), e.MostIn)
	far = v.rows.New(memory, min(v.prefetch+1, fewFar), e.MostIn)
	v.own = slices.Concat(v.own, near, far)
	if v.Buffers == nil && v.rows.Encodes() {
		v.decoded = v.stored.New(memory, 1, e.MostIn)[0]
	}
	return far, near
}

// sendsFrom sets the outbox of gradients.
func (v *visitor) sendsFrom(back outbox) {
	v.back = back
	if v.Sent.Encodes() {
		v.toEncode = v.Sent.Stored().New(v.team.Memory, 1, v.call.Edges.MostIn)[0]
	}
}

func (v *visitor) release() {
	exchange.Release(v.own...)
	exchange.Release(v.decoded, v.toEncode)
}

// sideWire returns the wire whose team makes the sums of messages while the worker does its main work. Its
// scratch, a few rows, is not counted: it would live at another time in each run, so no plan could tell the
// peak.
func (w *wire) sideWire(call *Call) (side *wire, done func()) {
	if !call.Edges.Sums {
		return w, func() {}
	}
	team, aside := *w.team, *w
	team.Memory = w.team.Memory.Uncounted()
	team.Untiled = true
	aside.team = &team
	return &aside, team.Memory.Close
}

// local has the matrices from which a worker sends local rows, or in which it receives their gradients.
type local struct {
	kind    comm.Kind
	form    exchange.Form // of the messages
	buffers []*tensor.Matrix
	sums    *tensor.Matrix // partial sums of a message as they are stored; nil: they are not encoded
	spread  *tensor.Matrix // scratch for the gradients of partial sums; nil: none
}

func (l *local) release() { exchange.Release(append(l.buffers, l.sums, l.spread)...) }

func (l *local) inbox(c *comm.Comm) inbox {
	return &exchange.Receiver{Comm: c, Kind: l.kind, Buffers: l.buffers}
}

func (l *local) sender(c *comm.Comm) *exchange.Sender {
	return &exchange.Sender{Comm: c, Kind: l.kind, Buffers: l.buffers}
}

// forRows makes what is needed to send rows, with messages buffers.
func (w *wire) forRows(call *Call, t Transfer, messages int) *local {
	l := w.toSend(call, call.Form(t.Rows))
	l.buffers = l.form.New(w.team.Memory, messages, call.Edges.MostOut)
	return l
}

// toSend makes the part of it that needs no buffers.
func (w *wire) toSend(call *Call, form exchange.Form) *local {
	return &local{kind: comm.Halo, form: form, sums: w.storedSums(call, form)}
}

// forGradients makes what is needed to receive gradients of local rows.
func (w *wire) forGradients(call *Call, t Transfer) *local {
	l := &local{kind: comm.HaloGradient, form: t.Sent}
	if most := call.Edges.MostSpread; most > 0 {
		l.spread = w.team.Memory.New(tensor.Buffers, most, t.Sent.Stored().Width())
	}
	l.sums = w.storedSums(call, t.Sent)
	_, far := w.split(len(call.Edges.Needed), func(i int) int { return call.Edges.Needed[i].Peer })
	l.buffers = t.Sent.New(w.team.Memory, min(w.prefetch+1, far), call.Edges.MostOut)
	return l
}

// storedSums makes the matrix for the partial sums of a message as they are stored; nil: they are not
// encoded.
func (w *wire) storedSums(call *Call, form exchange.Form) *tensor.Matrix {
	if !call.Edges.Sums || !form.Encodes() {
		return nil
	}
	return form.Stored().New(w.team.Memory, 1, call.Edges.MostSums)[0]
}

// each calls yield for each block.
func (v *visitor) each(yield func(Visit) bool) error {
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
			visit.Rows = v.stored.Parts(v.Buffers[i])
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
				v.encode(message, gradients, b, i)
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

// received returns the rows of a message of block i as they are stored.
func (v *visitor) received(i int, message *tensor.Matrix) []*tensor.Matrix {
	into := v.decoded
	if v.Buffers != nil && !v.inPlace {
		into = v.Buffers[i]
	}
	if into == nil {
		return v.stored.Parts(message)
	}
	rows := v.stored.Parts(into.Prefix(message.Rows, v.stored.Width()))
	v.rows.DecodeInto(v.team, rows, message)
	return rows
}

// encode makes a message from the gradients of block b, which is remote block number i: first of the rows of
// vertices, then of the partial sums.
func (v *visitor) encode(message, gradients *tensor.Matrix, b *edges.Block, i int) {
	w, call, form := v.wire, v.call, v.Sent
	stored := form.Stored().Parts(gradients)
	rows := b.IDs.Cols
	for k, part := range form.Parts(message) {
		encode := func(lo, hi int, d kernel.Draws) {
			form[k].Encode(w.team, part.RowRange(lo, hi), stored[k].RowRange(lo, hi), nil, d)
		}
		encode(0, rows, call.GradientDraws(k, w.rank, b.IDs))
		if rows < part.Rows {
			encode(rows, part.Rows, call.sumDraws(comm.HaloGradient, w.rank, i))
		}
	}
}

// sendRows sends the rows of xs that other workers need. It runs concurrently with the visits.
func (w *wire) sendRows(call *Call, out *exchange.Sender, from *local, xs []*tensor.Matrix) error {
	for number, p := range call.Edges.Needed {
		message, err := out.Buffer(p.Len(), from.form.Width())
		if err != nil {
			return err
		}
		w.pack(call, message, p, number, from, xs)
		out.Send(p.Peer)
	}
	return out.Finish()
}

// pack makes message p, which is the number-th of the call: rows of xs, followed by partial sums.
func (w *wire) pack(
	call *Call, message *tensor.Matrix, p *edges.Message, number int, from *local, xs []*tensor.Matrix,
) {
	form := from.form
	for i, rows := range form.Parts(message) {
		if !form.Encodes() {
			call.by.Pack(w.team, rows, p, xs[i])
			continue
		}
		form[i].Encode(w.team, rows, xs[i], p.Rows, call.Draws(i, call.Edges.SourceIDs))
		if p.Sums != nil {
			sums := from.sums.Prefix(p.Sums.In.Cols, xs[i].Cols)
			call.by.PackSums(w.team, sums, p, xs[i])
			draws := call.sumDraws(comm.Halo, w.rank, number)
			form[i].Encode(w.team, rows.RowRange(p.Rows.Cols, p.Len()), sums, nil, draws)
		}
	}
}

// addGradients adds the gradients that other workers send for local rows to grads. It runs concurrently with
// the visits.
func (w *wire) addGradients(call *Call, in inbox, into *local, grads []*tensor.Matrix) error {
	for _, p := range call.Edges.Needed {
		in.Expect(p.Peer, p.Len(), into.form.Width())
	}
	for _, p := range call.Edges.Needed {
		message, err := in.Next()
		if err != nil {
			return err
		}
		w.unpack(call, message, p, into, grads)
		in.Free()
	}
	return nil
}

// unpack adds the gradients of message p to grads.
func (w *wire) unpack(
	call *Call, message *tensor.Matrix, p *edges.Message, into *local, grads []*tensor.Matrix,
) {
	form := into.form
	for i, rows := range form.Parts(message) {
		if !form.Encodes() {
			call.by.Unpack(w.team, grads[i], p, rows, into.spread)
			continue
		}
		form[i].Decode(w.team, grads[i], rows, p.Rows, kernel.Accumulate)
		if p.Sums != nil {
			sums := into.sums.Prefix(p.Sums.In.Cols, form[i].Count)
			form[i].Decode(w.team, sums, rows.RowRange(p.Rows.Cols, p.Len()), nil, kernel.Replace)
			call.by.UnpackSums(w.team, grads[i], p, sums, into.spread)
		}
	}
}
