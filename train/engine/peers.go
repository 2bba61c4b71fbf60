package engine

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// peers are the stages before and after a Pipeline's, with which a pass exchanges states and gradients.
type peers struct {
	*Pipeline
	call *Call
	coding
	padding *orderBound // of messages with the output of the stage; nil: there is none
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
	*Config
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

// link makes the link to a stage, for messages with the input of a block. It is the same for all chunks of a
// call.
func (p *peers) link(peer, block int) link {
	l := link{Config: &p.Config, peer: peer, coding: p.coding}
	if peer > p.Groups.Stage {
		l.bound = p.padding
	}
	before, b := &p.Blocks[block-1], &p.Blocks[block]
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
	l.states = append(l.states, p.edgeStates(b.Edges, p.call)...)
	for _, s := range before.Beside {
		add(s.Type, s.Columns)
	}
	return l
}

// coding says how values are sent, and keys the draws that encode them. The zero value sends them as they are
// stored.
type coding struct {
	format kernel.Format
	random autograd.Random
}

// form is the form of messages whose rows have so many columns.
func (b *link) form(columns int) exchange.Form {
	return exchange.Form{{Count: columns, Element: b.Team.Storage, Format: b.format}}
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

// receiveStates receives the states of the chunks from the previous stage, in that order. It is nil on the
// first stage.
func (p *peers) receiveStates(order []int) *inbox {
	if p.first() {
		return nil
	}
	return p.inbox(p.Groups.Stage-1, tensor.Activations, p.from, order)
}

// receiveGradients receives the gradients of this stage's output. It is nil on the last stage.
func (p *peers) receiveGradients(order []int) *inbox {
	if p.last() {
		return nil
	}
	return p.inbox(p.Groups.Stage+1, tensor.Gradients, p.from+len(p.model), order)
}

// inbox receives states or gradients of the input of a block.
func (p *peers) inbox(peer int, kind tensor.Kind, block int, order []int) *inbox {
	b := &inbox{link: p.link(peer, block), kind: kind, order: order}
	b.ask()
	return b
}

// ask starts as many receives as inFlight allows.
func (b *inbox) ask() {
	for len(b.come) < min(b.taken+inFlight, len(b.order)) {
		var m message
		for i, s := range b.states {
			rows := s.rows[b.order[len(b.come)]]
			v := b.Team.Memory.NewElement(b.kind, b.Team.Storage, rows, s.columns).Pin()
			m.values, m.padding = append(m.values, v), append(m.padding, b.padding(v, i))
			if form := b.form(s.columns); form.Encodes() {
				v = form.New(b.Team.Memory, 1, rows)[0]
				m.encoded, m.padding = append(m.encoded, v), append(m.padding, b.padding(v, i))
			}
			m.pending = append(m.pending, exchange.Receive(b.Groups.Stages, comm.Stage, v, b.peer))
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
		b.form(m.values[i].Cols).Decode(b.Team, m.values[i], e)
	}
	exchange.Release(m.encoded...)
	exchange.Release(m.padding...)
	return m.values
}

// outbox sends to the stage at a distance of step. It is nil if there is no such stage.
func (p *peers) outbox(step int) *outbox {
	peer, block := p.Groups.Stage+step, p.from
	if peer < 0 || peer == p.Groups.Mesh.Stages {
		return nil
	}
	if step > 0 {
		block += len(p.model)
	}
	return &outbox{link: p.link(peer, block)}
}

// send sends a chunk's matrices, and releases them once they are sent.
func (b *outbox) send(values []*tensor.Matrix, chunk *chunkPass) {
	if len(b.gone) == inFlight {
		b.settle(1)
	}
	m := message{values: values}
	for i, v := range values {
		if form := b.form(v.Cols); form.Encodes() {
			e := form.New(b.Team.Memory, 1, v.Rows)[0]
			form.Encode(b.Team, e, v, func(int) kernel.Draws {
				key := b.random.Key(fmt.Sprintf("stage %d to %d", b.Groups.Stage, b.peer))
				return kernel.Draws{Key: key, Stream: uint32(i), IDs: chunk.Rows().IDs}
			})
			m.encoded = append(m.encoded, e)
			v = e
		}
		m.pending = append(m.pending, exchange.Send(b.Groups.Stages, comm.Stage, v.Pin(), b.peer))
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
