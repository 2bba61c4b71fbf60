package program

import (
	"cmp"
	"slices"
)

// The rule by which reductions of rows of edges become aggregations of rows of vertices.

// scattered takes factors that do not depend on the other end of an edge out of an aggregation. It finds
// linear aggregations, maxima and attention.
func (b *builder) scattered(o Operation, in []*value) *value {
	if o.Op != "scatter" {
		return nil
	}
	x := in[0]
	switch o.Reduce {
	case "max", "min":
		switch {
		case x.op == "gather" && x.o.End != o.End:
			return b.aggregate(o, x)
		case x.op == "gather": // the vertex's own row, if it has an edge
			return b.make(o.op("mul"), b.finite(x.in[0], x.Type, o), b.make(o, b.ones(x.Type)))
		case x.op == "ones":
			return b.aggregate(o, b.gathered(x.Type, o))
		}
	case "mul":
		return b.productOf(o, x)
	case "sum", "mean":
		if v := b.attends(o, x); v != nil {
			return v
		}
		o.Masked = o.Masked || !o.Divisor && (x.requiresGrad || x.featured)
		return b.inShape(b.factored(o, x), x.Shape)
	}
	return nil
}

// productOf returns the product of rows of edges, as the exponential of the sum of their logarithms, with the
// sign of the number of negative factors. If one factor is 0, its gradient is the product of the other
// factors.
func (b *builder) productOf(o Operation, x *value) *value {
	o.Reduce = "sum"
	op := func(name string, xs ...*value) *value { return b.make(o.op(name), xs...) }
	is0, no0, no1 := op("eq", x, b.constant(0)), b.constant(0), b.constant(1)
	logarithms := b.make(o, op("log", op("where", is0, no1, op("abs", x))))
	// pairs of negative factors, and half a pair for an odd one
	pairs := op("mul", b.make(o, op("lt", x, no0)), b.constant(.5))
	sign := op("where", op("eq", pairs, op("floor", pairs)), no1, b.constant(-1))
	others := op("mul", op("exp", logarithms), sign)
	zeros := b.make(o, is0)
	withOne := op("where", op("eq", zeros, no1), op("mul", others, b.make(o, op("where", is0, x, no0))), no0)
	return op("where", op("eq", zeros, no0), others, withOne)
}

// inShape returns a value in another shape of as many elements.
func (b *builder) inShape(v *value, shape []int) *value {
	return b.make(Operation{Op: "reshape", Shape: shape, Path: v.o.Path}, v)
}

// ones returns rows of ones for the edges of a set.
func (b *builder) ones(edges Type) *value {
	return b.plain(Operation{Op: "ones", Rows: "edges", TypeName: edges.TypeName, Loops: edges.Loops})
}

// gathered returns ones for the edges of a set, gathered from the end that an aggregation reads.
func (b *builder) gathered(edges Type, o Operation) *value {
	end := otherEnd(o.End)
	return b.plain(Operation{Op: "gather", End: end, TypeName: edges.TypeName, Loops: edges.Loops},
		b.plain(Operation{
			Op: "ones", Rows: "vertices", TypeName: b.program.relation(edges.TypeName).end(end),
		}))
}

func otherEnd(end string) string {
	if end == "source" {
		return "target"
	}
	return "source"
}

// aggregate returns the aggregation o of the rows of vertices that x gathers.
func (b *builder) aggregate(o Operation, x *value) *value {
	o.Op, o.TypeName, o.Loops = opAggregate, x.TypeName, x.Loops
	return b.plain(o, x.in[0])
}

// mostFactors bounds the number of factors or terms into which a value is divided. A value that is squared
// again and again has more than can be listed.
const mostFactors = 64

// factors returns the factors of a product of rows of edges.
func (b *builder) factors(x *value) []*value {
	factors := []*value{x}
	for i := 0; i < len(factors); {
		if parts := b.factorsOf(factors[i]); parts != nil && len(factors) < mostFactors {
			factors = slices.Replace(factors, i, i+1, parts...)
		} else {
			i++
		}
	}
	return factors
}

// factorsOf returns the factors that an operation multiplies; nil: it is no product.
func (b *builder) factorsOf(x *value) []*value {
	if x.Rows != Edges {
		return nil
	}
	switch x.op {
	case "mul":
		return x.in
	case "div":
		if y := x.in[1]; y.Rows == None || y.op == "gather" {
			return []*value{x.in[0], b.make(x.o.op("reciprocal"), y)}
		}
	case "neg":
		return []*value{x.in[0], b.constant(-1)}
	case "reshape":
		return b.reshaped(x)
	}
	return nil
}

// reshaped returns the factors of a product in another shape; nil: x is not a reshaped product, or a factor
// is broadcast.
func (b *builder) reshaped(x *value) (factors []*value) {
	for _, f := range b.factorsOf(x.in[0]) {
		switch {
		case slices.Equal(f.Shape, x.in[0].Shape):
			factors = append(factors, b.make(x.o, f))
		case f.size() == 1:
			factors = append(factors, b.inShape(f, []int{}))
		default:
			return nil
		}
	}
	return factors
}

// factored returns a sum or mean of rows of edges. Factors that are the same for all edges of a vertex
// multiply the result.
func (b *builder) factored(o Operation, x *value) *value {
	var gathers, others, after []*value
	for factors := b.factors(x); len(factors) > 0; {
		f := factors[0]
		factors = factors[1:]
		switch {
		case f.Rows == None:
			after = append(after, f)
		case f.op == "gather" && f.o.End == o.End:
			after = append(after, b.finite(f.in[0], x.Type, o))
		case f.op == "gather":
			gathers = append(gathers, f)
		default:
			if p, inverse := b.unnormalized(f, o); p != nil {
				factors, after = append(factors, b.factors(p)...), append(after, inverse)
				continue
			}
			if withoutReshape(f).op != "ones" {
				others = append(others, f)
			}
		}
	}
	if z := b.symmetric(o, gathers, others, after); z != nil {
		return z
	}
	inside := append(gathers, others...)
	if len(inside) == 0 {
		inside = append(inside, b.gathered(x.Type, o))
	}
	return b.product(o, append([]*value{b.summed(o, b.product(o, inside...))}, after...)...)
}

// summed returns a sum or mean of a product whose factors depend on the other end, or on the edge.
func (b *builder) summed(o Operation, x *value) *value {
	switch {
	case x.op == "gather":
		return b.aggregate(o, x)
	case x.op == "linear" && len(x.Shape) == 1 && !x.in[1].ofRows: // Σ (x·W + b) = (Σ x)·W + (Σ 1)·b
		z := b.make(x.o, b.make(o, x.in[0]), x.in[1])
		if len(x.in) == 3 {
			z = b.make(o.op("add"), z, b.make(o.op("mul"), b.make(o, b.ones(x.Type)), x.in[2]))
		}
		return z
	case isWeight(x):
		o.Weighted = true
		return b.aggregate(o, b.gathered(x.Type, o))
	case x.op == "mul" && x.in[0].op == "gather" && x.in[0].o.End != o.End && isWeight(x.in[1]):
		o.Weighted = true
		return b.aggregate(o, x.in[0])
	}
	return b.plain(o, x)
}

// isWeight reports whether rows of edges are their weights, with 1 for added loops. Differentiable weights do
// not count, because an aggregation has no gradient of its weights.
func isWeight(x *value) bool {
	switch x.op {
	case "edge_weight":
		return !x.o.Differentiable
	case "reshape":
		return x.size() == 1 && isWeight(x.in[0])
	case "without_loops":
		return isWeight(x.in[0])
	case "with_loops":
		return isWeight(x.in[0]) && x.in[1].isOne()
	}
	return false
}

// finite returns f, a factor of sums over edges. If f may be infinite, it is replaced by 0 for vertices
// without edges, so that their sum 0 stays 0.
func (b *builder) finite(f *value, edges Type, o Operation) *value {
	if edges.Loops == one || edges.Loops == added || !f.infinite {
		return f
	}
	return b.make(o.op("where"), b.hasEdges(edges, o), f, b.constant(0))
}

// hasEdges returns 1 for vertices that an aggregation has edges for, and 0 for others.
func (b *builder) hasEdges(edges Type, o Operation) *value {
	o.Reduce, o.End, o.Masked = "sum", cmp.Or(o.End, "target"), false
	return b.make(o.op("gt"), b.aggregate(o, b.gathered(edges, o)), b.constant(0))
}
