package tensor

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/exchange"
	"weft/parallel/order"
	"weft/tensor"
)

// propagator is the gnn.Propagator of a site.
type propagator struct {
	place
	axis  *Axis
	along gnn.Along
	inner gnn.Propagator // on a slice
	order *order.Site
}

// cut are the slices of so many columns.
func (p *propagator) cut(columns int) []span { return even(columns, p.comm.Size()) }

// AggregateLinear implements gnn.Propagator.
func (p *propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.order.AggregateLinear(p, x, w, r)
}

// Aggregate implements order.Axis.
func (p *propagator) Aggregate(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.rounds(x, r, gnn.Once)
}

// AggregateInto implements order.Axis.
func (p *propagator) AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce) {
	if p.flows(r, gnn.Once) {
		p.flow(forward, r, gnn.Once).run(z, x.Value())
		return
	}
	cut := p.cut(x.Cols())
	s := p.toSlices(x.Value(), cut)
	h := p.inner.Propagate(autograd.NewTape(p.team).Constant(s, p.all), r, gnn.Once)
	s.Release()
	p.toRows(z, h.Value(), cut)
	h.Drop()
}

// Propagate implements gnn.Propagator: two switches, however many the rounds.
func (p *propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	p.order.Explain(func() string { return order.Aggregation(x.Cols(), k) })
	return p.rounds(autograd.Dense(x), r, k)
}

func (p *propagator) rounds(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	if p.flows(r, k) {
		return p.flowing(x, r, k)
	}
	return p.through(x, p.cut(x.Cols()), func(s *autograd.Var) *autograd.Var { return p.inner.Propagate(s, r, k) })
}

// Message implements gnn.Propagator, for functions that act on each column apart.
func (p *propagator) Message(m gnn.Message) *autograd.Var {
	if !m.Columnwise {
		exchange.Must(refusal.Errorf("%s tensor=%d: the message function of %s needs complete rows, and may be given slices only where it is said to be columnwise; take graph=%d",
			refusal.Setting("parallel"), p.comm.Size(), p.site, p.comm.Size()))
	}
	cut := p.cut(m.Columns)
	mine := cut[p.comm.Rank()]
	p.order.Explain(func() string { return fmt.Sprintf("messages of %d columns, each a function of its own", m.Columns) })
	return p.sliced(m.Source, m.Target, cut, func(source, target *autograd.Var) *autograd.Var {
		m.Source, m.Target, m.Columns, m.FirstColumn = source, target, mine.count, m.FirstColumn+mine.from
		return p.inner.Message(m)
	})
}

// ends are the different ones of a source and a target, which may be nil.
func ends(source, target *autograd.Var) []*autograd.Var {
	if target == nil || target == source {
		return []*autograd.Var{source}
	}
	return []*autograd.Var{source, target}
}

// sliced is through for rows of both ends. Where the worker has no columns, inner is not asked; the
// gradients' switches are made all the same.
func (p *propagator) sliced(source, target *autograd.Var, cut []span, inner func(source, target *autograd.Var) *autograd.Var) *autograd.Var {
	var s []*autograd.Var
	for _, x := range ends(source, target) {
		s = append(s, p.split(x, cut))
	}
	if cut[p.comm.Rank()].count == 0 {
		return p.gatherAll(cut, s...)
	}
	t := s[len(s)-1]
	if target == nil {
		t = nil
	}
	h := inner(s[0], t)
	for _, x := range s {
		x.Drop()
	}
	return p.gatherAll(cut, h)
}

// gatherAll gathers own columns that stand side by side, and drops them.
func (p *propagator) gatherAll(cut []span, parts ...*autograd.Var) *autograd.Var {
	h := parts[0]
	if len(parts) > 1 {
		h = autograd.Join(parts...)
		for _, part := range parts {
			part.Drop()
		}
	}
	z := p.gather(h, cut)
	h.Drop()
	return z
}
