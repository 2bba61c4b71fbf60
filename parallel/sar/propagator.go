package sar

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/parallel/exchange"
	"weft/tensor"
)

// propagator is the gnn.Propagator of a site.
type propagator struct {
	part  *Partition
	site  string
	along gnn.Along
	once  map[aggregated]firstAggregation
}

// aggregated is what is computed once: an aggregation of an input of these rows, as those of a chunk.
type aggregated struct {
	by   gnn.Reduce
	rows *autograd.RowSet
}

// firstAggregation is the aggregation of an input that stays the same over the epochs, computed once. That of
// another input takes its place, once no pass reads it any more.
type firstAggregation struct {
	of, value *tensor.Matrix
}

// explain says what the site does, the first time.
func (p *propagator) explain(order string) {
	if g := p.part; g.options.Explain != nil && !g.explained[p.site] {
		g.explained[p.site] = true
		g.options.Explain(p.site + ": " + order)
	}
}

// AggregateLinear implements gnn.Propagator. Sparse features are transformed first. A dense input that stays
// the same over the epochs is aggregated once, unless that would keep a matrix more than twice as wide as the
// output. Elsewhere the narrower rows are the ones that are aggregated.
func (p *propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	in, out := x.Cols(), w.Cols()
	switch {
	case x.Sparse() != nil:
		p.explain("transform the sparse features, then aggregate")
		return p.transformed(x, w, r)
	case x.Fixed() && in <= 2*out:
		p.explain("aggregate the features once, then transform in every epoch")
		return autograd.Linear(p.aggregateOnce(x, r), w)
	case in < out:
		p.explain(fmt.Sprintf("aggregate %d columns, then transform to %d", in, out))
		return autograd.Linear(p.aggregate(x, r), w)
	}
	p.explain(fmt.Sprintf("transform %d columns to %d, then aggregate", in, out))
	return p.transformed(x, w, r)
}

// transformed is Â(xW), whose xW nobody reads again.
func (p *propagator) transformed(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	xw := autograd.Linear(x, w)
	z := p.aggregate(xw, r)
	xw.Drop()
	return z
}

func (p *propagator) aggregateOnce(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	key := aggregated{r, x.RowSet()}
	first, ok := p.once[key]
	if !ok || first.of != x.Value() {
		p.part.retired = append(p.part.retired, first.value) // a tape of this epoch may still read it
		first = firstAggregation{x.Value(), p.part.team.Memory.New(tensor.Features, x.Rows(), x.Cols())}
		h := p.halo()
		h.sum(h.operator(r), first.value, first.of)
		exchange.Release(h.kept...)
		p.once[key] = first
	}
	return x.Tape().Fixed(first.value, x.RowSet())
}

// Propagate implements gnn.Propagator.
func (p *propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	p.explain(fmt.Sprintf("aggregate %d columns", x.Cols()) + times(k))
	return k.Of(autograd.Dense(x), func(h *autograd.Var) *autograd.Var {
		if r.Kind == gnn.KindMax {
			return p.max(h)
		}
		return p.aggregate(h, r)
	})
}

// times says how often an aggregation is made, where that is not once.
func times(k gnn.Rounds) string {
	if k.Count < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", k.Count)
}
