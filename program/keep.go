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
	readers := map[*value][]*value{}
	for _, v := range all {
		for _, x := range v.in {
			readers[x] = append(readers[x], v)
		}
	}
	ends := endsOfKept(all, readers)
	costs := map[*value]bool{} // products, since the last kept value
	kept := map[*value]*value{}
	var list []*value
	for _, v := range all {
		v.in = slices.Clone(v.in) // other values may have the same list
		for i, x := range v.in {
			v.in[i] = cmp.Or(kept[x], x)
		}
		list = append(list, v)
		if v.Rows != Edges {
			continue
		}
		costs[v] = v.op == "linear" || v.op == "matmul" ||
			slices.ContainsFunc(v.in, func(x *value) bool { return costs[x] })
		end, may := ends[v]
		normed := slices.ContainsFunc(readers[v], isNormOfEdges)
		switch {
		case isNormOfEdges(v):
			v.o.End, costs[v] = end, false
		case may && (costs[v] || normed):
			kept[v] = applied(v, end, normed)
			list = append(list, kept[v])
		}
	}
	for i, v := range list {
		v.number = i
	}
}

// endsOfKept has the values that may be kept, by the first condition, and the end of the edges at which what
// reads them is aggregated.
func endsOfKept(all []*value, readers map[*value][]*value) map[*value]string {
	ends := map[*value]string{}
	results := map[*value][]*value{} // that rows of edges lead to: rows of vertices, and kept rows
	for _, v := range slices.Backward(all) {
		if v.Rows != Edges {
			continue
		}
		var led [][]*value // by reader
		apart := isNormOfEdges(v)
		for _, r := range readers[v] {
			of := []*value{r}
			if _, kept := ends[r]; r.Rows == Edges && !kept {
				of = results[r]
			}
			led = append(led, of)
			apart = apart || isNormOfEdges(r) || !slices.Equal(of, led[0])
		}
		results[v] = union(led)
		switch end, is := endOf(results[v], ends); {
		case !is:
			results[v] = []*value{ofBothEnds}
		case apart:
			ends[v] = end
		}
	}
	return ends
}

// ofBothEnds stands for results that are aggregated at different ends of the edges.
var ofBothEnds = &value{}

// isNormOfEdges reports whether each row depends on all others.
func isNormOfEdges(v *value) bool { return v.op == "batch_norm" && v.Rows == Edges }

// isKept reports whether a value is rows of edges that are kept.
func isKept(v *value) bool { return v.op == opApply || isNormOfEdges(v) }

// union is the values of several lists, in the order of their numbers.
func union(lists [][]*value) []*value {
	all := slices.Concat(lists...)
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
		if r == ofBothEnds || r.o.Loops == lastLoops || i > 0 && own != end {
			return "", false
		}
		end = own
	}
	return end, true
}

// applied is a value that is kept, for those that read it. counted says that its rows are counted over all
// workers.
func applied(v *value, end string, counted bool) *value {
	a := *v
	a.op, a.in, a.counted = opApply, []*value{v}, counted
	a.o = Operation{Op: opApply, Path: v.o.Path, Line: v.o.Line, End: end}
	return &a
}
