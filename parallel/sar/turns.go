package sar

import (
	"slices"

	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Partitions of one worker, which take turns, read each other's rows where they lie. What travels as a
// message between workers, with the same bits, is made by its receiver in its own turn:
//
//	turn 1 of each partition p: compute x_p, and expose it
//	turn 2: for each block b: gather x_b;  z ← z ⊕ Â_b·x_b
//
// So no message waits, and no sum that is not complete. In case 1 of the backward pass the partition that
// owns the rows computes what it adds to their gradients, from g of the others:
//
//	turn 1 of each partition p: compute g_p, and expose it
//	turn 2: for each partition q that needs rows of p: add Â_qpᵀ·g_q to ∂L/∂x_p
//
// In case 2 gradients are messages, as each visit also adds to gradients of its own partition.

// exposed is what a partition lets the others of its worker use, from a LocalBarrier to the next.
type exposed struct {
	call *Call
	rank int
	rows []*tensor.Matrix // that they gather from; nil: none
	// visit fills in the gradients of the rows of a block, and reads these matrices; nil: messages have them
	visit func(Visit) bool
	reads []*tensor.Matrix
}

// firstTurn sends other workers what they need, and lets the other partitions of this worker use what they
// read. When it returns, theirs is there.
func (w *wire) firstTurn(call *Call, t Transfer, visit func(Visit) bool) error {
	defer w.comm.KeepTurn()()
	o := &exposed{call: call, rank: w.rank}
	switch {
	case t.fetches():
		out := w.forRows(call, t, 1)
		err := w.sendRows(call, out.sender(w.comm), out, t.Rows)
		out.release()
		if err != nil {
			return err
		}
		o.rows = t.Rows
		read := 0
		for _, p := range call.Edges.Needed {
			read += w.retain(p.Peer, o.rows, p.Len())
		}
		want(o.rows, read)
	case t.owned():
		if _, far := w.split(len(call.Edges.Remote()), func(i int) int {
			return call.Edges.Remote()[i].Peer
		}); far > 0 {
			v := w.visits(call, t)
			v.buffers(1)
			err := v.visit(visit)
			v.release()
			if err != nil {
				return err
			}
		}
		o.visit, o.reads = visit, t.Reads
		read := 0
		for _, b := range call.Edges.Remote() {
			read += w.retain(b.Peer, o.reads, b.In.Rows)
		}
		want(o.reads, read)
	default:
		return nil
	}
	w.comm.Expose(o)
	w.comm.LocalBarrier()
	return w.comm.Aborted()
}

// secondTurn visits the remote blocks, and adds gradients to those of the local rows. What has to come from
// other workers is there, or on its way.
func (w *wire) secondTurn(call *Call, t Transfer, yield func(Visit) bool) error {
	defer w.comm.KeepTurn()()
	if !t.owned() {
		v := w.visits(call, t)
		v.buffers(1)
		err := v.visit(yield)
		v.release()
		if err != nil || v.back == nil {
			return err
		}
		w.comm.LocalBarrier()
		if err := w.comm.Aborted(); err != nil {
			return err
		}
	}
	into := w.forGradients(call, t)
	near := w.giver(call, t)
	defer into.release()
	defer near.release()
	return w.addGradients(call, w.withNearby(into.inbox(w.comm), near.buffers, near.give), into, t.Grads)
}

// split counts the messages to or from partitions of this worker, and those of other workers.
func (w *wire) split(messages int, peer func(i int) int) (near, far int) {
	for i := range messages {
		if w.comm.Nearby(peer(i)) {
			near++
		}
	}
	return near, messages - near
}

// retain keeps matrices for a partition of this worker that reads so many of their rows, and returns the
// number; 0: the partition is another worker's.
func (w *wire) retain(peer int, ms []*tensor.Matrix, rows int) int {
	if !w.comm.Nearby(peer) {
		return 0
	}
	for _, m := range ms {
		m.Retain().SetReadOnly()
	}
	return rows
}

// want keeps matrices in memory for the next turns where these read more rows than there are.
func want(ms []*tensor.Matrix, read int) {
	for _, m := range ms {
		if read > m.Rows {
			m.WillNeed()
		}
	}
}

// nearby is an inbox of messages from other workers, and of those that this worker makes of what its other
// partitions expose.
type nearby struct {
	inbox // of other workers
	wire  *wire
	into  []*tensor.Matrix // the messages that are made, or one for all
	make  maker

	expected []nearbyMessage
	taken    int // of expected
	made     int
	used     []*tensor.Matrix // for the message that was taken last
}

// maker makes a message of what another partition exposes, which has this number among those of the two. It
// returns what it read, which is to be released.
type maker func(o *exposed, number int, message *tensor.Matrix) (used []*tensor.Matrix)

// withNearby is the inbox with messages that the worker makes; none, if there is nothing to make them in.
func (w *wire) withNearby(in inbox, into []*tensor.Matrix, make maker) inbox {
	if len(into) == 0 {
		return in
	}
	return &nearby{inbox: in, wire: w, into: into, make: make}
}

// nearbyMessage is one of those between this partition and a peer, in their order.
type nearbyMessage struct{ peer, number, rows, cols int }

func (n *nearby) Expect(peer, rows, cols int) {
	number := 0
	for _, m := range n.expected {
		if m.peer == peer {
			number++
		}
	}
	n.expected = append(n.expected, nearbyMessage{peer, number, rows, cols})
	if !n.wire.comm.Nearby(peer) {
		n.inbox.Expect(peer, rows, cols)
	}
}

func (n *nearby) Next() (*tensor.Matrix, error) {
	i := n.taken
	m := n.expected[i]
	n.taken++
	if !n.wire.comm.Nearby(m.peer) {
		return n.inbox.Next()
	}
	message := n.into[n.made%len(n.into)].Prefix(m.rows, m.cols)
	n.made++
	n.used = n.make(n.wire.comm.Exposed(m.peer).(*exposed), m.number, message)
	return message, nil
}

func (n *nearby) Free() {
	if n.wire.comm.Nearby(n.expected[n.taken-1].peer) {
		for _, m := range n.used {
			m.DontNeed()
			m.Release()
		}
		return
	}
	n.inbox.Free()
}

// of is the call as the partition that exposes it makes it.
func (o *exposed) of(call *Call) *Call {
	c := *call
	c.Edges, c.by = o.call.Edges, o.call.by
	return &c
}

// as is the wire as another partition of the worker has it.
func (w *wire) as(rank int) *wire {
	as := *w
	as.rank = rank
	return &as
}

// gather makes a message of the rows that another partition exposes.
func (v *visits) gather(o *exposed, number int, message *tensor.Matrix) []*tensor.Matrix {
	at, p := nth(o.call.Edges.Needed, number, func(p *edges.Message) bool { return p.Peer == v.rank })
	if v.rows.Encodes() || p.Sums != nil {
		call := o.of(v.call)
		from := v.toSend(call, v.rows)
		v.as(o.rank).pack(call, message, p, at, from, o.rows)
		from.release()
		return o.rows
	}
	for i, rows := range v.rows.Parts(message) {
		if !o.rows[i].GatherAtRest(rows, p.Rows.ReadInt32s()) {
			v.team.Gather(rows, o.rows[i], p.Rows)
		}
	}
	return o.rows
}

// giver makes gradients of local rows in place of the partitions that need these.
type giver struct {
	*wire
	call    *Call
	form    exchange.Form
	buffers []*tensor.Matrix // for a message
	encoded *tensor.Matrix   // for a message's gradients as they are stored; nil: messages have them so
	copies  []copied         // by matrix that is exposed
}

// copied is a matrix of another partition which rests, and a copy of it.
type copied struct{ of, memory, copy *tensor.Matrix }

// giver makes what gradients of local rows are made with.
func (w *wire) giver(call *Call, t Transfer) *giver {
	g := &giver{wire: w, call: call, form: t.Sent}
	near, _ := w.split(len(call.Edges.Needed), func(i int) int { return call.Edges.Needed[i].Peer })
	if !t.owned() || near == 0 {
		return g
	}
	g.buffers = t.Sent.New(w.team.Memory, 1, call.Edges.MostOut)
	if t.Sent.Encodes() {
		g.encoded = t.Sent.Stored().New(w.team.Memory, 1, call.Edges.MostOut)[0]
	}
	g.copies = make([]copied, len(t.Reads))
	return g
}

func (g *giver) release() {
	exchange.Release(append(g.buffers, g.encoded)...)
	for _, c := range g.copies {
		c.memory.Release()
	}
}

// give makes a message of the gradients that another partition has for local rows.
func (g *giver) give(o *exposed, number int, message *tensor.Matrix) []*tensor.Matrix {
	at, b := nth(o.call.Edges.Remote(), number, func(b *edges.Block) bool { return b.Peer == g.rank })
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
		if c := g.copies[i]; c.of == m {
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
		v := &visits{wire: g.as(o.rank), call: o.of(g.call), Transfer: Transfer{Sent: g.form}}
		v.encode(message, gradients, b, at)
	}
	return o.reads
}

// whole returns the i-th matrix that is exposed, or a copy of it if it rests.
func (g *giver) whole(m *tensor.Matrix, i int) *tensor.Matrix {
	c := &g.copies[i]
	if c.of == m {
		return c.copy
	}
	if !m.AtRest() {
		return m
	}
	if c.memory == nil {
		most := 0
		for _, p := range g.call.Edges.Needed {
			if g.comm.Nearby(p.Peer) {
				most = max(most, g.comm.Exposed(p.Peer).(*exposed).reads[i].Memory())
			}
		}
		c.memory = g.team.Memory.NewElement(tensor.Buffers, tensor.Byte, 1, most)
	}
	c.of, c.copy = m, m.CopyAtRest(c.memory)
	return c.copy
}

// nth returns the number-th of those that have the property, and its index.
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
