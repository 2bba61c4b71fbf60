package program

import (
	"cmp"
	"slices"
)

// opApply is rows of edges that are kept.
const opApply = "apply_edges"

// keep has rows of edges kept that several message functions would compute again: states of edges, which pass
// through layers. A value is kept if
//
//   - what reads it leads to different results, so that no value after it could be kept in its place,
//   - products of rows of edges are among what computes it, so that it costs more than to read it.
//
// It is then the operand of an operation opApply, whose region computes it, and what read it reads that. What
// a norm over all edges reads is kept, and so is its result.
func keep(outputs []*value) {
	all := reachable(outputs...)
	ends := map[*value]string{} // of kept values
	readers, results := map[*value][]*value{}, map[*value][]*value{}
	for _, v := range all {
		for _, x := range v.in {
			readers[x] = append(readers[x], v)
		}
	}
	for _, v := range slices.Backward(all) {
		if v.Rows != Edges {
			continue
		}
		apart := isNormOfEdges(v)
		for i, r := range readers[v] {
			of := []*value{r}
			if _, kept := ends[r]; r.Rows == Edges && !kept {
				of = results[r]
			}
			apart = apart || isNormOfEdges(r) || i > 0 && !slices.Equal(of, results[v])
			results[v] = union(results[v], of)
		}
		if end, is := endOf(results[v], ends); apart && is {
			ends[v] = end
		}
	}
	costs := map[*value]bool{} // products, since the last kept value
	var list []*value
	for _, v := range all {
		list = append(list, v)
		if v.Rows != Edges {
			continue
		}
		costs[v] = v.op == "linear" || v.op == "matmul" ||
			slices.ContainsFunc(v.in, func(x *value) bool { return costs[x] })
		end, kept := ends[v]
		normed := slices.ContainsFunc(readers[v], isNormOfEdges)
		switch {
		case isNormOfEdges(v):
			v.o.End, costs[v] = end, false
		case kept && (costs[v] || normed):
			costs[v] = false
			list = append(list, applied(v, end, readers[v], normed))
		}
	}
	for i, v := range list {
		v.number = i
	}
}

// isNormOfEdges reports whether each row depends on all others.
func isNormOfEdges(v *value) bool { return v.op == "batch_norm" && v.Rows == Edges }

// isKept reports whether a value is rows of edges that are kept.
func isKept(v *value) bool { return v.op == opApply || isNormOfEdges(v) }

// union is values of two lists, in their order.
func union(a, b []*value) []*value {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(x, y *value) int { return cmp.Compare(x.number, y.number) })
	return slices.Compact(all)
}

// endOf is the end of the edges at which all results are aggregated; none: at different ones, or over each
// vertex's last loop, whose rows are not kept.
func endOf(results []*value, ends map[*value]string) (end string, is bool) {
	for i, r := range results {
		own, kept := ends[r]
		if !kept {
			own = r.o.End
		}
		if r.o.Loops == lastLoops || i > 0 && own != end {
			return "", false
		}
		end = own
	}
	return end, true
}

// applied is a value that is kept, and takes its place in those that read it. counted says that its rows are
// counted over all workers.
func applied(v *value, end string, readers []*value, counted bool) *value {
	a := *v
	a.op, a.in = opApply, []*value{v}
	a.o = Operation{Op: opApply, Path: v.o.Path, Line: v.o.Line, End: end}
	a.counted = counted
	for _, r := range readers {
		for i, x := range r.in {
			if x == v {
				r.in[i] = &a
			}
		}
	}
	return &a
}
