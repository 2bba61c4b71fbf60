package parallel

import (
	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// operator is one aggregation as a matrix: Â·x forward, Âᵀ·g backward. Its factors are vectors; only edge weights have an entry
// for each edge.
type operator struct {
	in, out           *kernel.CSR
	forward, backward kernel.Scales
}

func (o operator) apply(team *kernel.Team, z, x *tensor.Matrix, accumulate bool) {
	team.SpMM(z, o.in, x, o.forward, accumulate)
}

func (o operator) applyTransposed(team *kernel.Team, dx, g *tensor.Matrix, accumulate bool) {
	team.SpMM(dx, o.out, g, o.backward, accumulate)
}

// operator makes the matrix of a linear aggregation over the relation.
func (t *topology) operator(team *kernel.Team, r gnn.Reduce) operator {
	plain := func(a *kernel.CSR) *kernel.CSR {
		b := *a
		b.Values = nil
		return &b
	}
	switch r.Kind {
	case gnn.KindSum:
		o := operator{in: plain(t.in), out: plain(t.out)}
		if t.loops != nil || r.Self != 0 {
			o.forward.Self = t.column(team, func(v int) float64 { return float64(r.Self) + float64(t.loopsOf(v)) })
			o.backward.Self = o.forward.Self
		}
		return o
	case gnn.KindMean:
		o := operator{in: plain(t.in), out: plain(t.out)}
		o.forward.Row = t.column(team, func(v int) float64 { return inverse(float64(t.inDegree(v))) })
		o.backward.Col = o.forward.Row
		if t.loops != nil {
			o.forward.Self = t.column(team, func(v int) float64 { return float64(t.loopsOf(v)) })
			o.backward.Self = t.column(team, func(v int) float64 { return float64(t.loopsOf(v)) * inverse(float64(t.inDegree(v))) })
		}
		return o
	case gnn.KindSymmetric, gnn.KindSymmetricNoLoops:
		loop := func(v int) float64 {
			switch {
			case r.Kind == gnn.KindSymmetric && t.loopsOf(v) == 0:
				return 1
			case r.Kind == gnn.KindSymmetric:
				return float64(t.loopW[v].last)
			case t.loops != nil:
				return float64(t.loopW[v].sum)
			}
			return 0
		}
		root := t.column(team, func(v int) float64 { return inverseRoot(t.weightedInDegree(v) + loop(v)) })
		s := kernel.Scales{Row: root, Col: root}
		if r.Kind == gnn.KindSymmetric || t.loops != nil {
			s.Self = t.column(team, func(v int) float64 { return loop(v) * float64(root.Floats()[v]) })
		}
		return operator{in: t.in, out: t.out, forward: s, backward: s}
	}
	panic("parallel: the aggregation is not linear")
}
