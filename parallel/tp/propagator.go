package tp

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/tensor"
)

// propagator is the gnn.Propagator of a layer, for one relation and direction.
type propagator struct {
	module
	along gnn.Along
	inner gnn.Propagator // aggregates the columns of the slice
	order *order.Layer
}

// cut returns each worker's span of the columns.
func (p *propagator) cut(columns int) []span { return even(columns, p.axis.comm.Size()) }

// AggregateLinear implements gnn.Propagator.
func (p *propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.order.AggregateLinear(p, x, w, r)
}

// Aggregate implements order.Axis.
func (p *propagator) Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.aggregate(x, r, gnn.Once)
}

// Rows implements order.Axis.
func (p *propagator) Rows(*autograd.Var) *autograd.RowSet { return p.to.own }

// AggregateInto implements order.Axis.
func (p *propagator) AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce) {
	if p.overlaps(r, gnn.Once) {
		p.newOverlap(x.Tape(), forward, x.Cols(), r, gnn.Once).run(z, x.Value())
		return
	}
	cut := p.cut(x.Cols())
	s := p.axis.newSlice(p.from, x.Element(), cut)
	p.moveToSlices(p.from, part{x: x.Value(), z: s, cut: cut})
	h := p.inner.Propagate(autograd.NewTape(p.axis.team).Constant(s, p.from.all), r, gnn.Once)
	s.Release()
	p.moveToRows(p.to, part{x: z, z: h.Value(), cut: cut})
	h.Drop()
}

// Propagate implements gnn.Propagator. It makes two all-to-alls, for any number of rounds.
func (p *propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	p.order.Explain(func() string { return order.Aggregation(x.Cols(), k) })
	return p.aggregate(autograd.Dense(x), r, k)
}

func (p *propagator) aggregate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	if p.overlaps(r, k) {
		return p.aggregateOverlapped(x, r, k)
	}
	cut := p.cut(x.Cols())
	return p.onSlices(p.inputs(cut, x, nil), cut, func(own []*autograd.Var) []*autograd.Var {
		return []*autograd.Var{p.inner.Propagate(own[0], r, k)}
	})
}

// Message implements gnn.Propagator. A function that computes each column from that column alone gets slices.
// For any other function the workers send each other complete rows of the sources, and each computes the
// messages into its own rows.
func (p *propagator) Message(m gnn.Message) *autograd.Var {
	exchange.Must(m.Check(p.path, p.to.own.Here))
	if !m.Columnwise || len(m.EdgeRows) > 0 {
		return p.ofRows("messages", m, messenger.MessageInto)
	}
	// On workers without columns, too: gradients are complete in the same order on all workers.
	for _, q := range m.Parameters {
		autograd.Columns(q.On(m.Ends()[0].Tape()), 0, 0)
	}
	cut := p.cut(m.Columns)
	p.order.Explain(func() string {
		return fmt.Sprintf("messages of %d columns, each a function of its own", m.Columns)
	})
	return p.onSlices(p.inputs(cut, m.Source, m.Target), cut, func(own []*autograd.Var) []*autograd.Var {
		ownSpan := cut[p.axis.comm.Rank()]
		some := m
		some.Columns, some.FirstColumn, some.Columnwise = ownSpan.count, m.FirstColumn+ownSpan.from, false
		if m.Source != nil {
			some.Source = own[0]
		}
		if m.Target != nil {
			some.Target = own[len(own)-1]
		}
		return []*autograd.Var{p.inner.Message(some)}
	})
}

// ApplyEdges implements gnn.Propagator. Each worker has the rows of the edges into its own rows.
func (p *propagator) ApplyEdges(m gnn.Message) *autograd.Var {
	return p.ofRows(sar.KeptRows, m, messenger.ApplyEdgesInto)
}

// messenger computes messages into some rows, from complete rows.
type messenger interface {
	MessageInto(m gnn.Message, into sar.Into) *autograd.Var
	ApplyEdgesInto(m gnn.Message, into sar.Into) *autograd.Var
}

// ofRows computes functions of complete rows, whose results what names. It sums the gradients of the sources
// over the workers.
func (p *propagator) ofRows(what string, m gnn.Message,
	compute func(messenger, gnn.Message, sar.Into) *autograd.Var,
) *autograd.Var {
	p.order.Explain(func() string {
		return fmt.Sprintf("%s of %d columns, computed for this worker's rows from complete rows", what,
			m.Columns)
	})
	if m.Source != nil {
		complete := slices.Repeat([]span{{0, m.Source.Cols()}}, p.axis.comm.Size())
		m.Source = p.toSlices([]input{
			{x: m.Source, vertices: p.from, cut: complete, back: kernel.Accumulate},
		})[0]
		defer m.Source.Drop()
	}
	return compute(p.inner.(messenger), m, p.to.into(p.axis.comm.Rank()))
}
