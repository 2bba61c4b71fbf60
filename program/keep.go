package program

import (
	"cmp"
	"slices"
)

// opApply computes rows of edges, which are kept.
const opApply = "apply_edges"

// allStates is the number with which Keeping keeps every state of edges.
const allStates = 1

// Keeping returns the program that keeps every n-th of the states of edges that pass through its layers, for
// n = every, or none for 0. It computes the states between again from the last kept one. The program itself
// keeps all.
func (p *Program) Keeping(every int) *Program {
	if every == allStates {
		return p
	}
	kept := *p
	kept.rebuild(every)
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

// Keepings returns those of the numbers 1, 2, 4 and 0 for which Keeping keeps different states. The number
// that keeps most comes first.
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

// keep chooses rows of edges to be kept, because several message functions would compute them again: states
// of edges, which pass through layers. A value is kept if
//
//   - its readers lead to different results, so that no later value could be kept in its place,
//   - products of rows of edges compute it, so that computing it costs more than reading it.
//
// It then becomes the operand of an opApply, whose region computes it, and its readers read that. The operand
// and the result of a norm over all edges are always kept. The other values form chains, in which each value
// depends on the one before: every n-th is kept for n = every, or none for 0. Values between are computed
// again from the last kept one. An output of edges becomes an opApply in any case; its readers read that if
// it may be kept.
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
	costs := map[*value]bool{} // whether products compute it, since the last value that may be kept
	// number of values that may be kept on the way to it, along rows of edges alone
	depth := map[*value]int{}
	kept := map[*value]*value{}
	var list []*value
	for _, v := range all {
		if v.op == opApply { // an output of edges
			if kept[v.in[0]] == nil {
				list = append(list, v)
			}
			continue
		}
		v.in = slices.Clone(v.in) // other values may share the list
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

// endOfOutput returns the end of the edges at which an output of edges is computed. It is the source if every
// aggregation that reads a value of the output is at the source, so that these values may be kept. Otherwise
// it is the target. Features of edges can be read only at the target.
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

// endsOfKept returns the values that may be kept by the first condition, with the end of the edges at which
// their readers are aggregated.
func endsOfKept(all []*value, readers map[*value][]*value) map[*value]string {
	ends := map[*value]string{}
	// by rows of edges, the results that they lead to: rows of vertices, and kept rows
	results := map[*value][]*value{}
	for _, v := range slices.Backward(all) {
		if v.Rows != Edges {
			continue
		}
		if v.op == opApply { // an output of edges
			ends[v], results[v] = v.o.End, []*value{v}
			continue
		}
		var led [][]*value // results by reader
		apart := isNormOfEdges(v)
		for _, r := range readers[v] {
			reached := []*value{r}
			if _, kept := ends[r]; r.Rows == Edges && !kept {
				reached = results[r]
			}
			led = append(led, reached)
			apart = apart || isNormOfEdges(r) || !slices.Equal(reached, led[0])
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

// isNormOfEdges reports whether a value is a norm over all edges, whose rows depend on each other.
func isNormOfEdges(v *value) bool { return v.op == "batch_norm" && v.Rows == Edges }

// isKept reports whether a value is rows of edges that are kept.
func isKept(v *value) bool { return v.op == opApply || isNormOfEdges(v) }

// union returns the values of several lists, each once, in the order of their numbers.
func union(lists [][]*value) []*value {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(x, y *value) int { return cmp.Compare(x.number, y.number) })
	return slices.Compact(all)
}

// endOf returns the end of the edges at which all results are aggregated. There is none if the ends differ,
// or for an aggregation over each vertex's last loop, whose rows are not kept.
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

// applied returns the opApply that readers of a kept value read. counted says that its rows are counted over
// all workers.
func applied(v *value, end string, counted bool) *value {
	a := *v
	a.op, a.in, a.counted = opApply, []*value{v}, counted
	a.o = Operation{Op: opApply, Path: v.o.Path, Line: v.o.Line, End: end}
	return &a
}
