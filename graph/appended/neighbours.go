package appended

import (
	"cmp"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// Neighbours lists the in-neighbours, or the out-neighbours, of the vertices of a type along a relation.
type Neighbours struct {
	own      *graph.Relation  // a row for each vertex that the graph has
	vertices []int32          // the vertices with new edges, ascending
	added    graph.Relation   // a row for each of vertices
	order    []int64          // the numbers of added's edges in the Addition
	gone     map[int32][]Edge // by vertex: its removed edges, from its neighbours; nil: none
	// passes reports whether the edge of vertex v from the neighbour u passes messages; nil: all do.
	passes func(u, v int32, before int) bool
}

// In lists the in-neighbours along a relation.
func (g *Graph) In(relation int) *Neighbours {
	e := &g.Added.Edges[relation]
	n := newNeighbours(&g.Relations[relation], e, e.Source, e.Target)
	n.leaveOut(g, relation, false)
	return n
}

// Out lists the out-neighbours along a relation, without features of edges. The first call for a Base reads
// all edges of the relation.
func (g *Graph) Out(relation int) *Neighbours {
	e := g.Added.Edges[relation]
	e.Features, e.FeatureColumns = nil, 0
	n := newNeighbours(g.out[relation](), &e, e.Target, e.Source)
	n.leaveOut(g, relation, true)
	return n
}

// leaveOut leaves out the edges of a relation that are removed from the graph, and those that pass no
// messages.
func (n *Neighbours) leaveOut(g *Graph, relation int, reversed bool) {
	if g.Passes != nil {
		n.passes = g.Passes(relation)
	}
	if passes := n.passes; passes != nil && reversed {
		n.passes = func(u, v int32, before int) bool { return passes(v, u, before) }
	}
	if g.Removed == nil || len(g.Removed[relation]) == 0 {
		return
	}
	n.gone = map[int32][]Edge{}
	for _, e := range g.Removed[relation] {
		if reversed {
			e.Source, e.Target = e.Target, e.Source
		}
		n.gone[e.Target] = append(n.gone[e.Target], e)
	}
}

// Before is how many edges of a relation between two vertices come before the one before which passing edges
// that pass messages come.
func (g *Graph) Before(relation int, source, target int32, passing int) int {
	if g.Passes == nil {
		return passing
	}
	passes := g.Passes(relation)
	if passes == nil {
		return passing
	}
	before := 0
	for ; ; before++ {
		if passes(source, target, before) {
			if passing == 0 {
				return before
			}
			passing--
		}
	}
}

// newNeighbours lists own and, for the edges e, the neighbours from of the vertices to.
func newNeighbours(own *graph.Relation, e *graph.Edges, from, to []int32) *Neighbours {
	n, columns := &Neighbours{own: own}, int64(e.FeatureColumns)
	order := make([]int64, e.Len())
	for k := range order {
		order[k] = int64(k)
	}
	n.order = order
	slices.SortStableFunc(order, func(a, b int64) int {
		return cmp.Or(cmp.Compare(to[a], to[b]), cmp.Compare(from[a], from[b]))
	})
	for _, k := range order {
		if len(n.vertices) == 0 || n.vertices[len(n.vertices)-1] != to[k] {
			n.vertices, n.added.Indptr = append(n.vertices, to[k]),
				append(n.added.Indptr, int64(len(n.added.Sources)))
		}
		n.added.Sources = append(n.added.Sources, from[k])
		if e.Weights != nil {
			n.added.Weights = append(n.added.Weights, e.Weights[k])
		}
		n.added.Features.Dense = append(n.added.Features.Dense,
			e.Features[k*columns:(k+1)*columns]...)
	}
	n.added.Features.Columns, n.added.Indptr = e.FeatureColumns,
		append(n.added.Indptr, int64(len(n.added.Sources)))
	return n
}

// label gives the new edges their labels, in the order of the addition, if the graph's edges have labels. It
// refuses edges that lack a value by which the graph's edges are divided.
func (n *Neighbours) label(added *graph.Frame) error {
	own := &n.own.Frame
	if !own.HasLabels() {
		return nil
	}
	none := slices.Repeat([]int64{-1}, len(n.order))
	made := &graph.Frame{Labels: own.OfRows(none), SplitBy: own.SplitBy.OfRows(none)}
	if added.Labels.There() {
		made.Labels = added.OfRows(n.order)
	}
	switch by := own.SplitBy; {
	case by == nil:
	case added.SplitBy != nil:
		made.SplitBy = added.SplitBy.OfRows(n.order)
	case by.Kind != graph.ByPart && len(n.order) > 0:
		return refusal.Errorf("the graph's edges are divided by %s, which new ones lack", by.Column)
	}
	n.added.SetLabels(made)
	return nil
}

// renumbered are lists of the graph's edges, by the numbers that these have together with the new edges.
func (n *Neighbours) renumbered(splits []graph.Split) (all []graph.Split) {
	var before []int64 // by new edge: how many of the graph's edges come before it
	for i, v := range n.vertices {
		k, end := int64(len(n.own.Sources)), int64(len(n.own.Sources))
		if int(v) < len(n.own.Indptr)-1 {
			k, end = n.own.Indptr[v], n.own.Indptr[v+1]
		}
		for _, u := range n.added.Sources[n.added.Indptr[i]:n.added.Indptr[i+1]] {
			for k < end && n.own.Sources[k] <= u {
				k++
			}
			before = append(before, k)
		}
	}
	for i := range splits {
		var split graph.Split
		for part, list := range splits[i].Parts() {
			edges := make([]int64, len(*list))
			for at, k := range *list {
				more, _ := slices.BinarySearch(before, k+1)
				edges[at] = k + int64(more)
			}
			*split.Parts()[part] = edges
		}
		all = append(all, split)
	}
	return all
}

// Changed are the vertices with new edges, ascending.
func (n *Neighbours) Changed() []int32 { return n.vertices }

// spans returns where the edges of a vertex lie, in own and in added.
func (n *Neighbours) spans(v int32) (from, to, fromAdded, toAdded int64) {
	if int(v) < len(n.own.Indptr)-1 {
		from, to = n.own.Indptr[v], n.own.Indptr[v+1]
	}
	if k, found := slices.BinarySearch(n.vertices, v); found {
		fromAdded, toAdded = n.added.Indptr[k], n.added.Indptr[k+1]
	}
	return from, to, fromAdded, toAdded
}

// runs calls f with the edges of a vertex, in order: runs from … to−1 of consecutive edges of a relation.
func (n *Neighbours) runs(v int32, f func(in *graph.Relation, from, to int64)) {
	if gone := n.gone[v]; gone != nil || n.passes != nil {
		f = n.where(v, gone, f)
	}
	k, to, added, toAdded := n.spans(v)
	for ; added < toAdded; added++ {
		from, u := k, n.added.Sources[added]
		for k < to && n.own.Sources[k] <= u {
			k++
		}
		f(n.own, from, k)
		f(&n.added, added, added+1)
	}
	f(n.own, k, to)
}

// where calls f with the edges of a vertex's runs that are not gone and pass messages.
func (n *Neighbours) where(v int32, gone []Edge, f func(in *graph.Relation, from, to int64),
) func(*graph.Relation, int64, int64) {
	last, before, there := int32(-1), 0, 0
	return func(in *graph.Relation, from, to int64) {
		for k := from; k < to; k++ {
			u := in.Sources[k]
			if before++; u != last {
				last, before, there = u, 0, 0
			}
			out := slices.ContainsFunc(gone, func(e Edge) bool { return e.Source == u && e.Before == before })
			if !out {
				out = n.passes != nil && !n.passes(u, v, there)
				there++
			}
			if out {
				f(in, from, k)
				from = k + 1
			}
		}
		f(in, from, to)
	}
}

// Each calls f for the edges of a vertex, in order, with the neighbour u, and the relation and the number k
// of the edge in it.
func (n *Neighbours) Each(v int32, f func(u int32, in *graph.Relation, k int64)) {
	n.runs(v, func(in *graph.Relation, from, to int64) {
		for k := from; k < to; k++ {
			f(in.Sources[k], in, k)
		}
	})
}

// rows calls do with the edges of vertices 0 … vertices−1 as rows of a relation, a batch at a time. They are
// valid until do returns.
func (n *Neighbours) rows(vertices int, do func(*graph.Relation) error) error {
	const most = 1 << 16 // most rows or edges in a batch, unless a vertex has more
	b := &graph.Relation{Indptr: []int64{0}, Frame: n.own.Announced()}
	b.Features.Columns = n.own.Features.Columns
	for v := range vertices {
		n.runs(int32(v), func(in *graph.Relation, from, to int64) {
			b.Sources = append(b.Sources, in.Sources[from:to]...)
			if in.Weights != nil {
				b.Weights = append(b.Weights, in.Weights[from:to]...)
			}
			c := int64(b.Features.Columns)
			b.Features.Dense = append(b.Features.Dense, in.Features.Dense[from*c:to*c]...)
			b.AppendRows(&in.Frame, from, to)
		})
		b.Indptr = append(b.Indptr, int64(len(b.Sources)))
		if max(len(b.Sources), len(b.Indptr)) < most && v < vertices-1 {
			continue
		}
		if err := do(b); err != nil {
			return err
		}
		b.Indptr, b.Sources, b.Weights, b.Features.Dense = b.Indptr[:1], b.Sources[:0], b.Weights[:0],
			b.Features.Dense[:0]
		none := n.own.Announced()
		b.SetLabels(&none)
	}
	return nil
}
