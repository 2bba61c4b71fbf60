package sar

import (
	"cmp"
	"slices"

	"weft/comm"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Partitions of one worker, which take turns, read each other's rows where they lie. The receiver itself
// makes, in its own turn, what would travel as a message between workers, with the same bits:
//
//	turn 1 of each partition p: compute x_p, and expose it
//	turn 2: for each block b: gather x_b;  z ← z ⊕ Â_b·x_b
//
// So no message waits, and no incomplete sum. In case 1 of the backward pass the partition that owns the rows
// computes what others would add to their gradients, from g of the others:
//
//	turn 1 of each partition p: compute g_p, and expose it
//	turn 2: for each partition q that needs rows of p: add Â_qpᵀ·g_q to ∂L/∂x_p
//
// In case 2 each visit also adds to gradients of its own partition. So the message that it makes stays until
// the owner's turn, as a matrix that may rest.
//
// Partitions of different workers take their second turns at the same time. In addition to its own, each
// makes the messages of the partitions at work elsewhere (lockstep.go).

// exposed is what a partition lets the others of its worker use, from one LocalBarrier to the next.
type exposed struct {
	call *Call
	rank int
	rows []*tensor.Matrix // the matrices from which the others gather rows; nil: none
	// visit fills in the gradients of the rows of a block, and reads the following matrices; nil: gradients
	// has them.
	visit     func(Visit) bool
	reads     []*tensor.Matrix
	gradients []*tensor.Matrix // by remote block: the message with the gradients of its rows
}

// firstTurn exposes what others need from this partition. When it returns, the other partitions of the worker
// have exposed theirs.
func (w *wire) firstTurn(call *Call, t Transfer, visit func(Visit) bool) error {
	o := &exposed{call: call, rank: w.rank}
	read := 0
	switch {
	case t.fetches():
		o.rows = t.Rows
		for _, p := range call.Edges.Needed {
			read += retain(o.rows, p.Len())
		}
		want(o.rows, read)
	case t.owned():
		o.visit, o.reads = visit, t.Reads
		for _, b := range call.Edges.Remote() {
			read += retain(o.reads, b.In.Rows)
		}
		want(o.reads, read)
	default:
		return nil
	}
	return w.expose(o)
}

// expose lets the other partitions of the worker use o. When it returns, the others have exposed theirs.
func (w *wire) expose(o *exposed) error {
	w.comm.Expose(o)
	w.comm.LocalBarrier()
	return w.comm.Aborted()
}

// secondTurn visits the remote blocks, and adds gradients to those of the local rows.
func (w *wire) secondTurn(call *Call, t Transfer, yield func(Visit) bool) error {
	defer w.comm.KeepTurn()()
	if !t.owned() {
		gradients, err := w.visitInTurn(call, t, yield)
		if err != nil || !t.Returns() {
			return err
		}
		if err := w.expose(&exposed{call: call, rank: w.rank, gradients: gradients}); err != nil {
			return err
		}
	}
	into := w.forGradients(call, t)
	defer into.release()
	l := w.lockstep(comm.HaloGradient, t.Sent)
	l.inbox = into.inbox(w.comm.Unqueued())
	if t.owned() {
		g := w.giver(call, t, l)
		defer g.release()
	} else {
		l.make = take
	}
	defer l.release()
	return exchange.Beside(w.comm, nil, func() error { // if this fails, nothing uses the buffers afterwards
		return cmp.Or(w.addGradients(call, l, into, t.Grads), l.finish())
	})
}

// visitInTurn visits the remote blocks. It returns a message for each with the gradients of its rows. It
// returns none if gradients are not returned.
func (w *wire) visitInTurn(call *Call, t Transfer, yield func(Visit) bool) ([]*tensor.Matrix, error) {
	v := w.newVisitor(call, t)
	defer v.release()
	back := &keeper{visitor: v}
	if t.Returns() {
		v.sendsFrom(back)
	}
	if !t.fetches() {
		err := v.each(yield)
		return back.messages, err
	}
	l := w.lockstep(comm.Halo, v.rows)
	defer l.release()
	l.buffers(v.rows)
	far, near := v.places()
	l.inbox = &exchange.Receiver{Comm: w.comm.Unqueued(), Kind: comm.Halo, Buffers: far}
	l.near, l.make, v.in = near, v.gather, l
	err := exchange.Beside(w.comm, nil, func() error { return cmp.Or(v.each(yield), l.finish()) })
	return back.messages, err
}

// keeper is an outbox for gradients that keeps the messages until their owners' turns.
type keeper struct {
	*visitor
	messages []*tensor.Matrix
}

func (k *keeper) Buffer(rows, cols int) (*tensor.Matrix, error) {
	m := k.team.Memory.NewElement(tensor.Activations, k.Sent.Element(), rows, cols)
	if k.call.sends != nil { // messages of another epoch are larger, and rest
		m.UnpinFrom(0)
	}
	k.messages = append(k.messages, m)
	return m, nil
}

func (k *keeper) Send(int) {
	m := k.messages[len(k.messages)-1]
	m.SetReadOnly()
	m.DontNeed()
}

func (k *keeper) Finish() error { return nil }

// split counts the messages to or from partitions of this worker, and those of other workers.
func (w *wire) split(messages int, peer func(i int) int) (near, far int) {
	for i := range messages {
		if w.comm.Nearby(peer(i)) {
			near++
		}
	}
	return near, messages - near
}

// retain keeps matrices for a turn that reads rows of their rows, and returns the number.
func retain(ms []*tensor.Matrix, rows int) int {
	for _, m := range ms {
		m.Retain().SetReadOnly()
	}
	return rows
}

// want keeps matrices in memory for the next turns, if these read more rows than there are.
func want(ms []*tensor.Matrix, read int) {
	for _, m := range ms {
		if read > m.Rows {
			m.WillNeed()
		}
	}
}

// counterpart returns the same call of the layer, as the partition that exposed o made it.
func (o *exposed) counterpart(call *Call) *Call {
	c := *call
	c.Edges, c.by = o.call.Edges, o.call.by
	return &c
}

// as is the wire of another partition of the worker.
func (w *wire) as(rank int) *wire {
	as := *w
	as.rank = rank
	return &as
}

// gather makes a message from the rows that a partition exposes.
func (v *visitor) gather(o *exposed, p passage, message *tensor.Matrix) (_ *tensor.Matrix,
	used []*tensor.Matrix,
) {
	at, needed := nth(o.call.Edges.Needed, p.number, func(n *edges.Message) bool { return n.Peer == p.to })
	if v.rows.Encodes() || needed.Sums != nil {
		call := o.counterpart(v.call)
		from := v.toSend(call, v.rows)
		v.as(o.rank).pack(call, message, needed, at, from, o.rows)
		from.release()
		return message, o.rows
	}
	for i, rows := range v.rows.Parts(message) {
		if !o.rows[i].GatherAtRest(rows, needed.Rows.ReadInt32s()) {
			v.team.Gather(rows, o.rows[i], needed.Rows)
		}
	}
	return message, o.rows
}

// take returns a message that a partition exposes.
func take(o *exposed, p passage, _ *tensor.Matrix) (message *tensor.Matrix, used []*tensor.Matrix) {
	at, _ := nth(o.call.Edges.Remote(), p.number, func(b *edges.Block) bool { return b.Peer == p.to })
	return o.gradients[at], o.gradients[at : at+1]
}

// giver computes gradients of rows in place of the partitions that need them.
type giver struct {
	*lockstep
	call    *Call
	form    exchange.Form
	encoded *tensor.Matrix // a message's gradients before they are encoded; nil: they are not
	copies  []copied       // by matrix that is exposed
}

// copied is a source, a matrix of another partition that rests, with a copy of it in memory.
type copied struct{ source, memory, copy *tensor.Matrix }

// giver lets the partitions in lockstep give each other only gradients.
func (w *wire) giver(call *Call, t Transfer, l *lockstep) *giver {
	g := &giver{lockstep: l, call: call, form: t.Sent, copies: make([]copied, len(t.Reads))}
	l.make = g.give
	l.buffers(t.Sent)
	near, _ := w.split(len(call.Edges.Needed), func(i int) int { return call.Edges.Needed[i].Peer })
	most := l.most()
	if near > 0 {
		l.near = t.Sent.New(w.team.Memory, 1, call.Edges.MostOut)
		most = max(most, call.Edges.MostOut)
	}
	if t.Sent.Encodes() && most > 0 {
		g.encoded = t.Sent.Stored().New(w.team.Memory, 1, most)[0]
	}
	return g
}

func (g *giver) release() {
	exchange.Release(append(g.near, g.encoded)...)
	for _, c := range g.copies {
		c.memory.Release()
	}
}

// give makes a message with the gradients that a partition has for rows of another one.
func (g *giver) give(o *exposed, p passage, message *tensor.Matrix) (_ *tensor.Matrix,
	used []*tensor.Matrix,
) {
	at, b := nth(o.call.Edges.Remote(), p.number, func(b *edges.Block) bool { return b.Peer == p.to })
	gradients := message
	stored := g.form.Stored()
	if g.encoded != nil {
		gradients = g.encoded.Prefix(message.Rows, stored.Width())
	}
	var picked []*tensor.Matrix
	pick := func(m *tensor.Matrix) *tensor.Matrix {
		i := slices.Index(o.reads, m)
		if b.Targets == nil {
			return g.whole(m, i)
		}
		rows := g.team.Memory.NewElement(tensor.Buffers, m.Element, b.In.Rows, m.Cols)
		if c := g.copies[i]; c.source == m {
			g.team.Gather(rows, c.copy, b.Targets)
		} else if !m.GatherAtRest(rows, b.Targets.ReadInt32s()) {
			g.team.Gather(rows, m, b.Targets)
		}
		picked = append(picked, rows)
		return rows
	}
	o.visit(Visit{Block: b, Grads: stored.Parts(gradients), Pick: pick, Team: g.team})
	exchange.Release(picked...)
	if g.encoded != nil {
		v := &visitor{wire: g.as(o.rank), call: o.counterpart(g.call), Transfer: Transfer{Sent: g.form}}
		v.encode(message, gradients, b, at)
	}
	return message, o.reads
}

// whole returns the i-th exposed matrix, or a copy of it if it rests.
func (g *giver) whole(m *tensor.Matrix, i int) *tensor.Matrix {
	c := &g.copies[i]
	if c.source == m {
		return c.copy
	}
	if !m.AtRest() {
		return m
	}
	if c.memory == nil {
		most := 0
		for rank := range g.comm.Size() {
			if g.isLocal(rank) {
				most = max(most, g.exposedBy(rank).reads[i].Memory())
			}
		}
		c.memory = g.team.Memory.NewElement(tensor.Buffers, tensor.Byte, 1, most)
	}
	c.source, c.copy = m, m.CopyAtRest(c.memory)
	return c.copy
}

// nth returns the number-th element for which has is true, and its index.
func nth[T any](all []T, number int, has func(T) bool) (at int, found T) {
	for i, x := range all {
		if has(x) {
			if number == 0 {
				return i, x
			}
			number--
		}
	}
	panic("sar: two partitions of a worker count the messages between them differently")
}
