package sar

import (
	"cmp"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// A pass with masks of edges (edges.Inputs.Mask) computes each aggregation as a message function, and
// multiplies the results by the masks, as PyG's explanations do (torch_geometric.explain). Divisors of
// messages have no masks: degrees, and the sums of a softmax.

// mask is the factors of a batch's messages, edges × 1. Without a Var there are none.
type mask struct {
	*autograd.Var
	values *tensor.Matrix
}

// masks puts the factors of the batch's messages on their tape.
func (m *messages) masks(b *batch, e gnn.Edges) mask {
	if m.mask == nil || b.block.MaskGradients == nil {
		return mask{}
	}
	values := m.tape.Memory().New(tensor.Buffers, b.n, 1)
	m.tape.Team.Serial(func() {
		for k, all := 0, values.WriteFloats(); k < len(all); k++ {
			all[k] = *m.mask
		}
	})
	set := cmp.Or(e.Source, e.Target).RowSet()
	return mask{onTape(e.Tape, values, set, true), values}
}

// scale returns messages times their factors.
func (m mask) scale(messages *autograd.Var) *autograd.Var {
	if m.Var == nil {
		return messages
	}
	return autograd.HeadScale(messages, m.Var)
}

func (m mask) release() {
	if m.Var != nil {
		m.values.Release()
	}
}

// masked reports whether the pass on a tape has masks of edges.
func (p *propagator) masked(t *autograd.Tape) bool {
	e, err := p.part.EdgesOn(t, p.along)
	exchange.Must(err)
	return e.Masked()
}

// aggregateMasked is Aggregate with masks.
func (p *propagator) aggregateMasked(x *autograd.Var, r gnn.Reduce) *autograd.Var {
	t := x.Tape()
	e, err := p.part.EdgesOn(t, p.along)
	exchange.Must(err)
	row, column, self, weighted, err := e.Scales(r)
	exchange.Must(err)
	x = autograd.Dense(x)
	z := p.Message(gnn.Message{
		Source: scaled(x, column), Columns: x.Cols(), Loops: gnn.RemovedLoops,
		Function: func(e gnn.Edges) *autograd.Var {
			if weighted && e.Weight != nil {
				return autograd.HeadScale(e.Source, e.Weight)
			}
			return e.Source
		},
	})
	if self != nil {
		z = autograd.Add(z, scaled(x, self))
	}
	return scaled(z, row)
}

// scaled are the rows of x, each times its factor; factors nil: x.
func scaled(x *autograd.Var, factors *tensor.Matrix) *autograd.Var {
	if factors == nil {
		return x
	}
	return autograd.HeadScale(x, x.Tape().Constant(factors, x.RowSet()))
}

// maxMasked is max with masks.
func (p *propagator) maxMasked(x *autograd.Var, loops gnn.Loops) *autograd.Var {
	return p.Message(gnn.Message{
		Source: x, Columns: x.Cols(), Loops: loops, Reduce: gnn.KindMax,
		Function: func(e gnn.Edges) *autograd.Var { return e.Source },
	})
}

// attendMasked is attend with masks. The coefficients are a softmax over all edges, whatever their masks.
func (p *propagator) attendMasked(a gnn.Attention) *autograd.Var {
	scores := p.scores(a)
	ofEdges := func(v *autograd.Var) []gnn.EdgeRows { return []gnn.EdgeRows{{Var: v, Loops: a.Loops}} }
	target := autograd.Detach(a.Source) // its rows are the targets' if the relation joins one type to itself
	if rows := p.targets(); rows != nil {
		if target = cmp.Or(a.TargetScore, a.Target); target != nil { // softmax aggregation has none
			target = autograd.Detach(target)
		}
	}
	most := gnn.Message{
		Target: target, EdgeRows: ofEdges(scores), Columns: a.Heads, Loops: a.Loops, Reduce: gnn.KindMax,
		Unmasked: true, Function: func(e gnn.Edges) *autograd.Var { return e.Rows[0] },
	}
	if target == nil {
		most.Source = autograd.Detach(a.Source)
	}
	largest := autograd.Detach(p.Message(most))
	exps := p.ApplyEdges(gnn.Message{
		Target: largest, EdgeRows: ofEdges(scores), Columns: a.Heads, Loops: a.Loops,
		Function: func(e gnn.Edges) *autograd.Var {
			return autograd.Exp(autograd.Add(e.Rows[0], autograd.Scale(-1, e.Target)))
		},
	})
	sum := p.Message(gnn.Message{
		Target: largest, EdgeRows: ofEdges(exps), Columns: a.Heads, Loops: a.Loops, Unmasked: true,
		Function: func(e gnn.Edges) *autograd.Var { return e.Rows[0] },
	})
	z := p.Message(gnn.Message{
		Source: a.Source, EdgeRows: ofEdges(exps), Columns: a.Source.Cols(), Loops: a.Loops, Reads: readBy(a),
		Function: func(e gnn.Edges) *autograd.Var {
			x := e.Source
			if a.Key != nil && a.EdgeWeight != nil {
				x = autograd.Add(x, ofFeatures(e, a.EdgeWeight))
			}
			return autograd.HeadScale(x, e.Rows[0])
		},
	})
	return autograd.HeadScale(z, autograd.Reciprocal(sum)) // 0 for a vertex without edges
}

// scores are the scores of attention, edges × heads.
func (p *propagator) scores(a gnn.Attention) *autograd.Var {
	m := gnn.Message{
		Source: a.SourceScore, Target: a.TargetScore, Columns: a.Heads, Loops: a.Loops, Reads: readBy(a),
	}
	sum := func(e gnn.Edges, features *autograd.Var) *autograd.Var {
		s := autograd.Add(e.Source, e.Target)
		if features != nil {
			s = autograd.Add(s, ofFeatures(e, features))
		}
		return leaky(s, a.Slope)
	}
	m.Function = func(e gnn.Edges) *autograd.Var { return sum(e, a.EdgeVector) }
	switch {
	case a.SourceScore != nil:
	case a.InverseTemperature != nil:
		m.Source = autograd.HeadDot(a.Source, a.InverseTemperature, a.Heads)
		m.Function = func(e gnn.Edges) *autograd.Var { return e.Source }
	case a.Key != nil:
		m.Source, m.Target = a.Key, a.Target
		product := kernel.RowProduct{Groups: a.Heads, Rows: 1, Inner: a.Key.Cols() / a.Heads, Cols: 1}
		m.Function = func(e gnn.Edges) *autograd.Var {
			key := e.Source
			if a.EdgeWeight != nil {
				key = autograd.Add(key, ofFeatures(e, a.EdgeWeight))
			}
			return autograd.RowProduct(e.Target, key, product)
		}
	case a.ATarget == nil:
		m.Source, m.Target = a.Source, a.Target
		m.Function = func(e gnn.Edges) *autograd.Var {
			vector := e.Tape.Constant(a.ASource.Value(), nil)
			return autograd.HeadDot(sum(e, a.EdgeWeight), vector, a.Heads)
		}
	default:
		m.Source = autograd.HeadDot(a.Source, a.ASource, a.Heads)
		m.Target = autograd.HeadDot(a.Target, a.ATarget, a.Heads)
	}
	return p.ApplyEdges(m)
}

// readBy are the values, other than the ends, that functions of attention read.
func readBy(a gnn.Attention) (all []*autograd.Var) {
	for _, v := range []*autograd.Var{a.ASource, a.OfFeatures()} {
		if v != nil {
			all = append(all, v)
		}
	}
	return all
}

// ofFeatures are the features of a batch's edges times a matrix w, for which no gradient is computed.
func ofFeatures(e gnn.Edges, w *autograd.Var) *autograd.Var {
	return autograd.Linear(e.Features, e.Tape.Constant(w.Value(), nil))
}

// leaky is LeakyReLU.
func leaky(x *autograd.Var, slope float64) *autograd.Var {
	e := &kernel.Expression{Inputs: 1}
	e.Results = []int{e.OpOf(kernel.OpLeakyReLU, float32(slope), 0)}
	return autograd.Pointwise(e, autograd.Operand{Var: x})
}
