package engine

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/internal/trace"
	"weft/kernel"
	"weft/parallel/chunked"
	"weft/parallel/exchange"
	"weft/tensor"
)

// stageChunk is a chunk of a stage.
type stageChunk struct {
	*chunked.Chunk
	features []*features // by vertex type, on the first stage
}

// chunkPass is a chunk's forward and backward pass through a stage.
type chunkPass struct {
	*stageChunk
	supplied []InputMatrix    // rows that the call gives in place of the features, by vertex type; nil: none
	came     []*tensor.Matrix // on other stages: the state from the previous stage, until a tape owns it
	ledger   *autograd.Ledger // records when gradients are complete; may be nil
	in, out  gnn.State        // on the tape of the last forward pass
}

// forward runs the stage's blocks on a chunk. With recomputation it records nothing.
func (p *Pipeline) forward(c *chunkPass, call *Call) gnn.State {
	p.give(c, call)
	t := call.tape(p.Team)
	t.Rows = c.Types()
	t.Recording = call.Recording && !p.Recompute
	p.observe(t, trace.Forward)
	return p.record(c, call, t)
}

// give gives a chunk its rows of the features that come with the call, if they do.
func (p *Pipeline) give(c *chunkPass, call *Call) {
	if !p.first() {
		return
	}
	for kind, supplied := range call.Features {
		if supplied.Values == nil {
			supplied = InputMatrix{}
		} else {
			supplied.Values = p.chunkRows(tensor.Activations, supplied.Values, c.Places[kind])
		}
		c.supplied = append(c.supplied, supplied)
	}
}

// takeBack releases the rows that give has supplied.
func (c *chunkPass) takeBack() {
	for _, supplied := range c.supplied {
		supplied.Values.Release()
	}
	c.supplied = nil
}

func (p *Pipeline) record(c *chunkPass, call *Call, t *autograd.Tape) gnn.State {
	if t.Recording {
		t.Ledger = c.ledger
	}
	c.in = p.begin(c, call, t)
	c.out = p.result(p.model.Forward(c.in))
	return c.out
}

// inFloat32 returns an output of a model, dense and in Float32.
func inFloat32(output *autograd.Var) *autograd.Var {
	stored := autograd.Dense(output)
	z := autograd.Float32(stored)
	if z != stored {
		stored.Drop()
	}
	return z
}

// result returns the state after the stage, as it is sent. The last stage has the outputs alone, in Float32.
func (p *Pipeline) result(out gnn.State) gnn.State {
	if p.last() {
		outputs := out.Outputs(p.Outputs...)
		for k, v := range outputs {
			outputs[k] = inFloat32(v)
		}
		vertices := len(outputs) - len(out.Edges)
		return gnn.State{Rows: outputs[:vertices], Edges: outputs[vertices:]}
	}
	for k, v := range out.Rows {
		out.Rows[k] = stored(v)
	}
	out.H0 = stored(out.H0)
	for k, v := range out.Beside {
		out.Beside[k] = stored(v)
	}
	return out
}

// stored converts a value to the element type in which states are sent: sums of edge features are Float32.
func stored(v *autograd.Var) *autograd.Var {
	if v == nil {
		return nil
	}
	z := autograd.Stored(v)
	if z != v {
		v.Drop()
	}
	return z
}

// begin returns the input of the stage's first block. A tape owns the matrices that came, unless the pass is
// repeated.
func (p *Pipeline) begin(c *chunkPass, call *Call, t *autograd.Tape) (in gnn.State) {
	if p.first() {
		return input(c.features, t, &Call{Features: c.supplied})
	}
	on := t.Received
	if call.Recording && !t.Recording {
		on = t.Input
	}
	came, types := c.came, c.Types()
	next := func(rows *autograd.RowSet) *autograd.Var {
		v := on(came[0], rows)
		came = came[1:]
		return v
	}
	before, block := &p.Blocks[p.from-1], &p.Blocks[p.from]
	in.Rows = make([]*autograd.Var, len(types))
	for kind, columns := range before.Widths() {
		if columns > 0 {
			in.Rows[kind] = next(types[kind])
		}
	}
	if block.H0 > 0 {
		in.H0 = next(c.Rows())
	}
	for _, s := range block.Edges {
		in.Edges = append(in.Edges, next(p.edgeRows(t, c.stageChunk, s)))
	}
	for _, s := range before.Beside {
		in.Beside = append(in.Beside, next(types[s.Type]))
	}
	return in
}

// edgeRows describes a chunk's rows of a state of edges.
func (p *Pipeline) edgeRows(t *autograd.Tape, c *stageChunk, s gnn.EdgeState) *autograd.RowSet {
	set, err := c.EdgeRows(t, s)
	exchange.Must(err)
	return set
}

// backward runs the chunk's backward pass, which adds to the gradients of the stage's weights. It takes
// ownership of grads, the gradients of the stage's output.
func (p *Pipeline) backward(c *chunkPass, call *Call, grads []*tensor.Matrix) {
	if p.Recompute {
		c.BeginEpoch(call.Epoch) // the repeated pass draws the same random numbers for its messages
		t := call.tape(p.Team)
		t.Rows = c.Types()
		p.observe(t, trace.Backward)
		p.record(c, call, t)
	}
	var roots []autograd.Root
	for i, v := range c.out.Vars() {
		roots = append(roots, autograd.Root{Var: v, Grad: grads[i]})
	}
	roots[0].Tape().Backward(roots...)
}

// discard releases what a chunk keeps for a backward pass that will not come.
func (p *Pipeline) discard(c *chunkPass, call *Call) {
	switch {
	case !call.Recording:
	case p.Recompute:
		exchange.Release(c.came...)
	default:
		out := c.out.Vars()
		drop(out)
		out[0].Tape().Discard()
	}
	c.takeBack()
}

// joinGradients copies the gradients of a chunk's rows of the features that a call gives to their places, by
// vertex type.
func (p *Pipeline) joinGradients(all []*tensor.Matrix, c *chunkPass) {
	for kind, supplied := range c.supplied {
		if !supplied.Differentiable {
			continue
		}
		if like := supplied.Values; all[kind] == nil {
			rows := p.graph.Types()[kind].Here
			all[kind] = p.Team.Memory.NewElement(tensor.Gradients, like.Element, rows, like.Cols)
		}
		part := c.in.Rows[kind].TakeGrad()
		p.Team.Scatter(all[kind], part, c.Places[kind])
		part.Release()
	}
	c.takeBack()
}

// chunkRows copies the rows at a chunk's places from a matrix with one row for each row of the worker.
func (p *Pipeline) chunkRows(kind tensor.Kind, all, places *tensor.Matrix) *tensor.Matrix {
	part := p.Team.Memory.NewElement(kind, all.Element, places.Cols, all.Cols)
	p.Team.Gather(part, all, places)
	return part
}

// inbox receives the states of chunks, or their gradients, from another stage, in the given order. It
// receives a few chunks ahead.
type inbox struct {
	link
	kind  tensor.Kind
	order []int // of the chunks
	come  []message
	taken int
}

// outbox sends states or gradients to another stage while the next chunk is computed. A nil outbox sends
// nothing.
type outbox struct {
	link
	gone []message
}

type link struct {
	p      *Pipeline
	peer   int
	states []state     // the states in a chunk's message
	bound  *orderBound // nil: no padding
	coding
}

// state is rows of vertices or of edges that pass from a stage to the next.
type state struct {
	columns int
	rows    []int // by chunk
}

// link makes the link to the stage peer, for messages with the input of a block. It is the same for all
// chunks of a call.
func (p *Pipeline) link(peer, block int, w *orderBound, c coding, call *Call) link {
	l, before, b := link{p: p, peer: peer, bound: w, coding: c}, &p.Blocks[block-1], &p.Blocks[block]
	add := func(kind, columns int) {
		if columns == 0 {
			return
		}
		s := state{columns: columns}
		for _, chunk := range p.chunks {
			s.rows = append(s.rows, chunk.Types()[kind].Here)
		}
		l.states = append(l.states, s)
	}
	for kind, columns := range before.Widths() {
		add(kind, columns)
	}
	add(0, b.H0)
	l.states = append(l.states, p.edgeStates(b.Edges, call)...)
	for _, s := range before.Beside {
		add(s.Type, s.Columns)
	}
	return l
}

// edgeStates are states of rows of edges, which a call may give.
func (p *Pipeline) edgeStates(states []gnn.EdgeState, call *Call) (all []state) {
	t := autograd.NewTape(p.Team)
	call.giveEdges(t)
	for _, e := range states {
		e.Counted = false
		s := state{columns: e.Columns}
		for _, c := range p.chunks {
			s.rows = append(s.rows, p.edgeRows(t, c, e).Here)
		}
		all = append(all, s)
	}
	return all
}

// coding says how values are sent, and keys the draws that encode them. The zero value sends them as they are
// stored.
type coding struct {
	format kernel.Format
	random autograd.Random
}

// form is the form of messages whose rows have so many columns.
func (b *link) form(columns int) exchange.Form {
	return exchange.Form{{Count: columns, Element: b.p.Team.Storage, Format: b.format}}
}

// message is a chunk's matrices, one for each state.
type message struct {
	values  []*tensor.Matrix // nil: they are sent, encoded
	encoded []*tensor.Matrix // nil: the values are sent as they are
	padding []*tensor.Matrix // in a plan: memory besides the values
	pending []interface{ Wait() error }
}

func (m message) wait() {
	for _, p := range m.pending {
		exchange.Must(p.Wait())
	}
}

// inFlight is how many chunks' messages an outbox sends at a time, and how many an inbox receives ahead.
const inFlight = 2

// states receives the states of the chunks from the previous stage, in that order. It is nil on the first
// stage.
func (p *Pipeline) states(order []int, c coding, call *Call) *inbox {
	if p.first() {
		return nil
	}
	return p.inbox(p.Groups.Stage-1, tensor.Activations, p.from, order, nil, c, call)
}

// gradients receives the gradients of this stage's output. It is nil on the last stage.
func (p *Pipeline) gradients(order []int, c coding, call *Call) *inbox {
	if p.last() {
		return nil
	}
	return p.inbox(p.Groups.Stage+1, tensor.Gradients, p.from+len(p.model), order, p.bound, c, call)
}

// inbox receives states or gradients of the input of a block.
func (p *Pipeline) inbox(peer int, kind tensor.Kind, block int, order []int, w *orderBound, c coding,
	call *Call,
) *inbox {
	b := &inbox{link: p.link(peer, block, w, c, call), kind: kind, order: order}
	b.ask()
	return b
}

// ask starts as many receives as inFlight allows.
func (b *inbox) ask() {
	for len(b.come) < min(b.taken+inFlight, len(b.order)) {
		var m message
		for i, s := range b.states {
			rows := s.rows[b.order[len(b.come)]]
			v := b.p.Team.Memory.NewElement(b.kind, b.p.Team.Storage, rows, s.columns).Pin()
			m.values, m.padding = append(m.values, v), append(m.padding, b.padding(v, i))
			if form := b.form(s.columns); form.Encodes() {
				v = form.New(b.p.Team.Memory, 1, rows)[0]
				m.encoded, m.padding = append(m.encoded, v), append(m.padding, b.padding(v, i))
			}
			m.pending = append(m.pending, exchange.Receive(b.p.Groups.Stages, comm.Stage, v, b.peer))
		}
		b.come = append(b.come, m)
	}
}

// padding is memory that fills up a chunk's rows of a state to those of the largest chunk.
func (b *link) padding(rows *tensor.Matrix, state int) *tensor.Matrix {
	return b.bound.padding(rows, slices.Max(b.states[state].rows))
}

// take waits for the next chunk's matrices, which the caller then owns. A nil inbox returns none.
func (b *inbox) take() []*tensor.Matrix {
	if b == nil {
		return nil
	}
	m := b.come[b.taken]
	b.come[b.taken] = message{}
	b.taken++
	b.ask()
	m.wait()
	unpin(m.values)
	for i, e := range m.encoded {
		b.form(m.values[i].Cols).Decode(b.p.Team, m.values[i], e)
	}
	exchange.Release(m.encoded...)
	exchange.Release(m.padding...)
	return m.values
}

// outbox sends to the stage at a distance of step. It is nil if there is no such stage.
func (p *Pipeline) outbox(step int, w *orderBound, c coding, call *Call) *outbox {
	peer, block := p.Groups.Stage+step, p.from
	if peer < 0 || peer == p.Groups.Mesh.Stages {
		return nil
	}
	if step > 0 {
		block += len(p.model)
	}
	return &outbox{link: p.link(peer, block, w, c, call)}
}

// send sends a chunk's matrices, and releases them once they are sent.
func (b *outbox) send(values []*tensor.Matrix, chunk *chunkPass) {
	if len(b.gone) == inFlight {
		b.settle(1)
	}
	m := message{values: values}
	for i, v := range values {
		if form := b.form(v.Cols); form.Encodes() {
			e := form.New(b.p.Team.Memory, 1, v.Rows)[0]
			form.Encode(b.p.Team, e, v, func(int) kernel.Draws {
				key := b.random.Key(fmt.Sprintf("stage %d to %d", b.p.Groups.Stage, b.peer))
				return kernel.Draws{Key: key, Stream: uint32(i), IDs: chunk.Rows().IDs}
			})
			m.encoded = append(m.encoded, e)
			v = e
		}
		m.pending = append(m.pending, exchange.Send(b.p.Groups.Stages, comm.Stage, v.Pin(), b.peer))
		m.padding = append(m.padding, b.padding(v, i))
	}
	if m.encoded != nil {
		exchange.Release(m.values...)
		m.values = nil
	}
	b.gone = append(b.gone, m)
}

// finish waits until everything is sent.
func (b *outbox) finish() {
	if b != nil {
		b.settle(len(b.gone))
	}
}

// settle waits for the first n messages in flight.
func (b *outbox) settle(n int) {
	for _, m := range b.gone[:n] {
		m.wait()
		unpin(m.values)
		exchange.Release(m.values...)
		exchange.Release(m.encoded...)
		exchange.Release(m.padding...)
	}
	b.gone = b.gone[n:]
}

// unpin ends Pin, which keeps what travels in memory.
func unpin(values []*tensor.Matrix) {
	for _, v := range values {
		v.Unpin()
	}
}

// retained returns the values of Vars, and retains them for another owner.
func retained(vars []*autograd.Var) (values []*tensor.Matrix) {
	for _, v := range vars {
		values = append(values, v.Value().Retain())
	}
	return values
}

// drop drops Vars.
func drop(vars []*autograd.Var) {
	for _, v := range vars {
		v.Drop()
	}
}

// taken takes the gradients of inputs.
func taken(vars []*autograd.Var) (grads []*tensor.Matrix) {
	for _, v := range vars {
		grads = append(grads, v.TakeGrad())
	}
	return grads
}
