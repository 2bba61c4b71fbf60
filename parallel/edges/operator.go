package edges

import (
	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// Operator is the matrix Â of one linear aggregation, in blocks: Â·x in the forward pass, Âᵀ·g in the
// backward pass. It stores a factor for each row and each column. It has no coefficient for each edge, except
// for edge weights.
type Operator struct {
	team     *kernel.Team
	weighted bool // edge weights are factors, too
	factors  map[*Block]factors
}

// On returns the operator as another team applies it.
func (o Operator) On(team *kernel.Team) Operator {
	o.team = team
	return o
}

type factors struct{ forward, backward kernel.Scales }

// Apply computes z = Â_b·x or z += Â_b·x. x has the rows of block b's sources, and z has a row for each local
// row. A block with Targets can only be added.
func (o Operator) Apply(z *tensor.Matrix, b *Block, x *tensor.Matrix, to kernel.Output) {
	apply := func(z *tensor.Matrix, to kernel.Output) {
		o.team.SpMM(z, o.matrix(b.In), x, o.factors[b].forward, to)
	}
	switch {
	case b.Targets == nil:
		apply(z, to)
	case to == kernel.Accumulate:
		b.Onto(o.team, z, apply)
	default:
		panic("edges: a block with Targets cannot replace all rows")
	}
}

// ApplyTransposed computes dx = Â_bᵀ·g or dx += Â_bᵀ·g. dx has the rows of block b's sources, and g the rows
// of its Targets.
func (o Operator) ApplyTransposed(dx *tensor.Matrix, b *Block, g *tensor.Matrix, to kernel.Output) {
	o.team.SpMM(dx, o.matrix(b.Out), g, o.factors[b].backward, to)
}

// ApplyRows computes rows lo…hi−1 of Apply, with the same bits. It reads only the rows of x that are sources
// of these rows; for the local block, it also reads rows lo…hi−1 of x.
func (o Operator) ApplyRows(z *tensor.Matrix, b *Block, x *tensor.Matrix, to kernel.Output, lo, hi int) {
	o.team.SpMMRows(z, o.matrix(b.In), x, o.factors[b].forward, to, lo, hi)
}

// ApplyTransposedRows computes rows lo…hi−1 of ApplyTransposed in the same manner.
func (o Operator) ApplyTransposedRows(dx *tensor.Matrix, b *Block, g *tensor.Matrix,
	to kernel.Output, lo, hi int,
) {
	o.team.SpMMRows(dx, o.matrix(b.Out), g, o.factors[b].backward, to, lo, hi)
}

func (o Operator) matrix(a *kernel.CSR) *kernel.CSR {
	if o.weighted {
		return a
	}
	plain := *a
	plain.Values = nil
	return &plain
}

// Operator returns the matrix of a linear aggregation, and makes it at the first call. Workers send each
// other the factors of remote sources, so all of them must ask for the same aggregations in the same order.
func (e *Edges) Operator(r gnn.Reduce) (o Operator, err error) {
	o, made := e.operators[r]
	if !made {
		o, err = e.newOperator(r)
		e.team.Memory.SetAllReadOnly(tensor.Graph)
		e.operators[r] = o
	}
	return o, err
}

func (e *Edges) newOperator(r gnn.Reduce) (Operator, error) {
	o := Operator{team: e.team, factors: map[*Block]factors{}}
	loops := r.Loops
	if r.Kind == gnn.KindSymmetric {
		loops = merged
		if r.Unweighted {
			loops = gnn.OneLoop
		}
	}
	symmetric := r.Kind == gnn.KindSymmetric || r.Kind == gnn.KindSymmetricNoLoops
	o.weighted = r.Weighted || symmetric && !r.Unweighted
	if r.Self != 0 || symmetric || loops.Add() {
		e.needsOneType("an aggregation with own rows or degrees")
	}
	looped := r.Self != 0 || e.Loops != nil && loops.Keep() || loops.Add() || loops == merged
	self := func(v, stored int) float64 {
		if o.weighted {
			return float64(r.Self) + e.loopWeight(v, stored, loops)
		}
		return float64(r.Self) + float64(loops.Count(stored))
	}
	switch r.Kind {
	case gnn.KindSum:
		var own factors
		if looped {
			own.forward.Self = e.column(self)
			own.backward.Self = own.forward.Self
		}
		o.factors[e.Local()] = own
	case gnn.KindMean:
		factor := e.MeanFactors(loops, r.Self)
		for _, b := range e.Remote() {
			its := e.ofTargets(b, factor)
			o.factors[b] = factors{kernel.Scales{Row: its}, kernel.Scales{Col: its}}
		}
		own := factors{kernel.Scales{Row: factor}, kernel.Scales{Col: factor}}
		if looped {
			own.forward.Self = e.column(self)
			factors := factor.ReadFloats()
			own.backward.Self = e.column(func(v, stored int) float64 {
				return self(v, stored) * float64(factors[v])
			})
		}
		o.factors[e.Local()] = own
	case gnn.KindSymmetric, gnn.KindSymmetricNoLoops:
		root := e.inverseRoots(loops, r.Unweighted)
		remote, err := e.others.Columns(e, func(e *Edges) *tensor.Matrix {
			return e.inverseRoots(loops, r.Unweighted)
		})
		if err != nil {
			return o, err
		}
		e.made = append(e.made, remote...)
		for i, b := range e.Remote() {
			its := e.ofTargets(b, root)
			o.factors[b] = factors{
				kernel.Scales{Row: its, Col: remote[i]},
				kernel.Scales{Row: remote[i], Col: its},
			}
		}
		for _, m := range e.Needed {
			if b := m.Sums; b != nil {
				o.factors[b] = factors{
					forward:  kernel.Scales{Row: e.ofTargets(b, root)},
					backward: kernel.Scales{Col: root},
				}
			}
		}
		own := kernel.Scales{Row: root, Col: root}
		if looped {
			roots := root.ReadFloats()
			own.Self = e.column(func(v, stored int) float64 { return self(v, stored) * float64(roots[v]) })
		}
		o.factors[e.Local()] = factors{own, own}
	default:
		panic("edges: the aggregation is not linear")
	}
	return o, nil
}
