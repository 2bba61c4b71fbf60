package program

import (
	"cmp"
	"slices"
)

// opApply is rows of edges that are kept.
const opApply = "apply_edges"

// allStates keeps each state of edges: every one-th.
const allStates = 1

// Keeping returns the program that keeps every so many-th of the states of edges that pass through its
// layers, 0: none, and computes those between again from the last that is kept. The program itself keeps all.
func (p *Program) Keeping(every int) *Program {
	if every == allStates {
		return p
	}
	kept := *p
	kept.keep(every)
	return &kept
}

// States returns how many states of edges the program keeps.
func (p *Program) States() (n int) {
	for _, v := range reachable(p.built...) {
		if v.op == opApply {
			n++
		}
	}
	return n
}

// Keepings returns for which numbers Keeping keeps different states, of 1, 2, 4 and 0: those that keep most
// come first.
func (p *Program) Keepings() []int {
	all, last := []int{allStates}, p.States()
	for _, every := range []int{2, 4, 0} {
		if last == 0 {
			break
		}
		if n := p.Keeping(every).States(); n < last {
			all, last = append(all, every), n
		}
	}
	return all
}

// keep has rows of edges kept that several message functions would compute again: states of edges, which pass
// through layers. A value is kept if
//
//   - what reads it leads to different results, so that no value after it could be kept in its place,
//   - products of rows of edges are among what computes it, so that it costs more than to read it.
//
// It is then the operand of an operation opApply, whose region computes it, and what read it reads that. What
// a norm over all edges reads is kept, and so is its result. The other values are chains, in which each value
// depends on the one before: every so many-th is kept; 0: none. Those between are computed again from the
// last that is kept. An output of edges becomes an opApply in any case, which is what its readers read if it
// may be kept.
func keep(outputs []*value, every int) {
	all := reachable(outputs...)
	readers := readersOf(all)
	own := map[*value]*value{} // the opApply of outputs of edges
	for k, v := range outputs {
		if v.Rows == Edges {
			own[v] = applied(v, endOfOutput(v, readers), false)
			own[v].number = len(all) + k
			outputs[k] = own[v]
		}
	}
	all = reachable(outputs...)
	readers = readersOf(all)
	ends := endsOfKept(all, readers)
	costs := map[*value]bool{} // products, since the last value that may be kept
	depth := map[*value]int{}  // how many values that may be kept it depends on, along edges alone
	kept := map[*value]*value{}
	var list []*value
	for _, v := range all {
		if v.op == opApply { // an output
			if kept[v.in[0]] == nil {
				list = append(list, v)
			}
			continue
		}
		v.in = slices.Clone(v.in) // other values may have the same list
		for i, x := range v.in {
			v.in[i] = cmp.Or(kept[x], x)
		}
		list = append(list, v)
		if v.Rows != Edges {
			continue
		}
		costs[v] = v.op == "linear" || v.op == "matmul"
		for _, x := range v.in {
			costs[v], depth[v] = costs[v] || costs[x], max(depth[v], depth[x])
		}
		end, may := ends[v]
		normed := slices.ContainsFunc(readers[v], isNormOfEdges)
		switch {
		case isNormOfEdges(v):
			v.o.End, costs[v] = end, false
		case may && (costs[v] || normed):
			depth[v]++
			if costs[v] = false; normed || own[v] != nil || every > 0 && depth[v]%every == 0 {
				kept[v] = cmp.Or(own[v], applied(v, end, normed))
				kept[v].counted = normed
				depth[kept[v]] = depth[v]
				list = append(list, kept[v])
			}
		}
	}
	for i, v := range list {
		v.number = i
	}
}

// readersOf returns, for each value, the values that read it.
func readersOf(all []*value) map[*value][]*value {
	readers := map[*value][]*value{}
	for _, v := range all {
		for _, x := range v.in {
			readers[x] = append(readers[x], v)
		}
	}
	return readers
}

// endOfOutput is the end of the edges at which an output of edges is computed: the source where all is
// aggregated there that reads what the output reads, so that this may be kept, else the target. Features of
// edges are read at the target alone.
func endOfOutput(output *value, readers map[*value][]*value) string {
	end, seen := "target", map[*value]bool{}
	var atSource func(v *value) bool
	atSource = func(v *value) bool {
		if seen[v] || v.Rows != Edges {
			return true
		}
		seen[v] = true
		for _, r := range readers[v] {
			if r.Rows != Edges {
				if r.o.End != "source" {
					return false
				}
				end = "source"
			}
		}
		elsewhere := func(x *value) bool { return !atSource(x) }
		return v.op != "edge_features" && !slices.ContainsFunc(v.in, elsewhere)
	}
	if !atSource(output) {
		return "target"
	}
	return end
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
		if v.op == opApply { // an output
			ends[v], results[v] = v.o.End, []*value{v}
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

// applied is a kept value, as its readers see it. counted says that its rows are counted over all workers.
func applied(v *value, end string, counted bool) *value {
	a := *v
	a.op, a.in, a.counted = opApply, []*value{v}, counted
	a.o = Operation{Op: opApply, Path: v.o.Path, Line: v.o.Line, End: end}
	return &a
}
