package parallel

import (
	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// operator is one linear aggregation as a matrix, block by block: Â·x forward, Âᵀ·g backward. Its factors are vectors; only edge
// weights have an entry for each edge.
type operator struct {
	weighted bool // edge weights are factors too
	factors  map[*block]factors
}

type factors struct{ forward, backward kernel.Scales }

// apply is z = Â_b·x, or z += Â_b·x, for the rows x of block b's sources; z has the rows of b's matrix.
func (o operator) apply(team *kernel.Team, z *tensor.Matrix, b *block, x *tensor.Matrix, accumulate bool) {
	team.SpMM(z, o.matrix(b.in), x, o.factors[b].forward, accumulate)
}

// applyTransposed is dx = Â_bᵀ·g, or dx += Â_bᵀ·g, for the rows dx of block b's sources; g has the rows of b's matrix.
func (o operator) applyTransposed(team *kernel.Team, dx *tensor.Matrix, b *block, g *tensor.Matrix, accumulate bool) {
	team.SpMM(dx, o.matrix(b.out), g, o.factors[b].backward, accumulate)
}

func (o operator) matrix(a *kernel.CSR) *kernel.CSR {
	if o.weighted {
		return a
	}
	plain := *a
	plain.Values = nil
	return &plain
}

// operator makes the matrix of a linear aggregation. Where the factors of remote sources are needed, their workers send them.
func (g *Graph) operator(t *topology, r gnn.Reduce, reversed bool) (operator, error) {
	o := operator{factors: map[*block]factors{}}
	column := func(value func(v int) float64) *tensor.Matrix { return t.column(g.team, value) }
	switch r.Kind {
	case gnn.KindSum:
		var own factors
		if t.loops != nil || r.Self != 0 {
			own.forward.Self = column(func(v int) float64 { return float64(r.Self) + float64(t.loopsOf(v)) })
			own.backward.Self = own.forward.Self
		}
		o.factors[t.local()] = own
	case gnn.KindMean:
		share := g.meanShares(t, loopsKey{reversed: reversed})
		for _, b := range t.remote() {
			its := b.ofTargets(g.team, share)
			o.factors[b] = factors{kernel.Scales{Row: its}, kernel.Scales{Col: its}}
		}
		own := factors{kernel.Scales{Row: share}, kernel.Scales{Col: share}}
		if t.loops != nil {
			own.forward.Self = column(func(v int) float64 { return float64(t.loopsOf(v)) })
			own.backward.Self = column(func(v int) float64 { return float64(t.loopsOf(v)) * float64(share.Floats()[v]) })
		}
		o.factors[t.local()] = own
	case gnn.KindSymmetric, gnn.KindSymmetricNoLoops:
		o.weighted = true
		loop := func(v int) float64 { return t.weightOfLoops(v, r.Kind == gnn.KindSymmetric) }
		root := t.degreeColumn(g.team, true, func(v int, degree float64) float64 { return inverseRoot(degree + loop(v)) })
		remote, err := g.columnOfSources(t, root)
		if err != nil {
			return o, err
		}
		for i, b := range t.remote() {
			its := b.ofTargets(g.team, root)
			o.factors[b] = factors{kernel.Scales{Row: its, Col: remote[i]}, kernel.Scales{Row: remote[i], Col: its}}
		}
		own := kernel.Scales{Row: root, Col: root}
		if r.Kind == gnn.KindSymmetric || t.loops != nil {
			own.Self = column(func(v int) float64 { return loop(v) * float64(root.Floats()[v]) })
		}
		o.factors[t.local()] = factors{own, own}
	default:
		panic("parallel: the aggregation is not linear")
	}
	return o, nil
}

// weightOfLoops is the weight of a vertex's self loops together; or where each vertex is to have exactly one, that of the last, and 1
// where there is none (PyG's add_remaining_self_loops).
func (t *topology) weightOfLoops(v int, one bool) (sum float64) {
	n := t.loopsOf(v)
	switch {
	case one && n == 0:
		return 1
	case t.loopW == nil && one:
		return 1
	case t.loopW == nil:
		return float64(n)
	case one:
		return float64(t.loopWeights(v)[n-1])
	}
	for _, w := range t.loopWeights(v) {
		sum += float64(w)
	}
	return sum
}
