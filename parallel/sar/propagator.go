package sar

import (
	"cmp"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/order"
	"weft/tensor"
)

// propagator is the gnn.Propagator of a layer, for one relation and direction.
type propagator struct {
	part  *Partition
	layer *order.Layer
	along gnn.Along

	tape  *autograd.Tape // of the last call; calls counts the calls on this tape
	calls int
}

// AggregateLinear implements gnn.Propagator.
func (p *propagator) AggregateLinear(x, w *autograd.Var, r gnn.Reduce) *autograd.Var {
	return p.layer.AggregateLinear(p, x, w, r)
}

// Rows implements order.Axis.
func (p *propagator) Rows(x *autograd.Var) *autograd.RowSet { return cmp.Or(p.targets(), x.RowSet()) }

// targets describes the rows of the targets; nil if they are of the same vertex type as the sources.
func (p *propagator) targets() *autograd.RowSet {
	source, target := p.part.Ends(p.along)
	if source == target {
		return nil
	}
	return p.part.Types()[target]
}

// AggregateInto implements order.Axis. Rows are sent with all columns, as they are stored, because inference
// reads the result, too.
func (p *propagator) AggregateInto(z *tensor.Matrix, x *autograd.Var, r gnn.Reduce) {
	c := p.callLinear(x.Tape(), r)
	team := p.part.team
	c.Format, c.sends = kernel.AsStored, nil
	c.count(x.Cols())
	switch tile := p.tile(x); {
	case tile < x.Cols():
		c.inTiles(tile, z, x.Value(), kernel.Replace, c.sum)
	case len(c.Edges.Blocks) > 1 && z.Element != tensor.Float32:
		sum := c.sum(x.Value(), func() *tensor.Matrix {
			return team.Memory.New(tensor.Buffers, z.Rows, z.Cols)
		})
		team.Convert(z, sum)
		sum.Release()
	default:
		c.sum(x.Value(), func() *tensor.Matrix { return z })
	}
	exchange.Release(c.buffers...)
}

// opposite is −f(−x).
func opposite(x *autograd.Var, f func(x *autograd.Var) *autograd.Var) *autograd.Var {
	x = autograd.Scale(-1, x)
	z := f(x)
	x.Drop()
	return negated(z)
}

// negated is −z, in place of z.
func negated(z *autograd.Var) *autograd.Var {
	defer z.Drop()
	return autograd.Scale(-1, z)
}

// Propagate implements gnn.Propagator.
func (p *propagator) Propagate(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	p.layer.Explain(func() string { return order.Aggregation(x.Cols(), k) })
	return k.Run(autograd.Dense(x), func(h *autograd.Var) *autograd.Var {
		switch r.Kind {
		case gnn.KindMax:
			return p.max(h, r.Loops)
		case gnn.KindMin:
			return opposite(h, func(h *autograd.Var) *autograd.Var { return p.max(h, r.Loops) })
		}
		return p.Aggregate(h, r)
	})
}
