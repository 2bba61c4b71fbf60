package program

import (
	"math"
	"slices"
)

// The part of the rule of reductions that finds the aggregation of GCN.

// symmetric returns GCN's aggregation (Kipf & Welling 2017): a sum of rows times 1/√(d_i·d_j), and perhaps
// times the edges' weights. d is the number of edges into a vertex, or the sum of their weights. nil: it is
// another sum.
func (b *builder) symmetric(o Operation, gathers, others, after []*value) *value {
	var weight *value
	if len(others) == 1 {
		weight = withoutReshape(others[0])
	}
	if o.Reduce != "sum" || len(others) > 1 || weight != nil && !isWeight(weight) && !isMerged(weight) {
		return nil
	}
	for s, from := range gathers {
		root := withoutReshape(from.in[0])
		loops := from.o.loops()
		if loops != one && loops != stored || !isInverseRoot(root, o.End, from.Type, weight) {
			continue
		}
		t := slices.IndexFunc(after, func(f *value) bool { return withoutReshape(f) == root })
		if t < 0 {
			continue
		}
		rest := slices.Delete(slices.Clone(gathers), s, s+1)
		if len(rest) == 0 {
			rest = append(rest, b.gathered(from.Type, o))
		}
		o.Reduce, o.Weighted = "symmetric", weight != nil
		if weight != nil && isMerged(weight) {
			o.Reduce = "merged"
		}
		z := b.aggregate(o, b.product(o, rest...))
		return b.product(o, append([]*value{z}, slices.Delete(slices.Clone(after), t, t+1)...)...)
	}
	return nil
}

func withoutReshape(v *value) *value {
	for v.op == "reshape" && v.size() == 1 {
		v = v.in[0]
	}
	return v
}

// isInverseRoot reports whether v is 1/√d of the vertices' degrees d along a set of edges, and 0 where d is
// 0.
func isInverseRoot(v *value, end string, edges Type, weight *value) bool {
	if v.op == "where" && v.in[0].op == "eq" {
		zero, is := v.in[1].isConstant()
		infinite, isToo := v.in[0].in[1].isConstant()
		if !is || !isToo || zero != 0 || !math.IsInf(infinite, 1) || v.in[0].in[0] != v.in[2] {
			return false
		}
		v = v.in[2]
	} else if edges.Loops != one {
		return false
	}
	switch v.op {
	case "rsqrt":
	case "pow":
		if power, is := v.in[1].isConstant(); !is || power != -.5 {
			return false
		}
	default:
		return false
	}
	d := withoutReshape(v.in[0])
	if weight != nil && isMerged(weight) {
		return d.op == "scatter" && d.o.Reduce == "sum" && d.o.End == end && d.in[0] == weight
	}
	return d.op == opAggregate && d.o.Reduce == "sum" && d.o.End == end && d.o.TypeName == edges.TypeName &&
		d.o.loops() == edges.Loops && d.o.Weighted == (weight != nil) && d.in[0].op == "ones"
}

// isMerged reports whether rows of edges are their weights, with one loop for each vertex. The loop has the
// weight of the stored loop, or 1 if there is none.
func isMerged(x *value) bool {
	if x.op != "with_loops" || x.in[0].op != "without_loops" || !isWeight(x.in[0].in[0]) {
		return false
	}
	y := x.in[1]
	return y.op == "loop_values" && isWeight(y.in[0]) && y.in[1].isOne()
}
