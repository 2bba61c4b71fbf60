package appended

import (
	"cmp"
	"slices"

	"weft/graph"
)

// Neighbours lists the in-neighbours, or the out-neighbours, of the vertices of a type along a relation.
type Neighbours struct {
	own   *graph.Relation // a row for each vertex that the graph has
	added graph.Relation  // a row for each of rows
	rows  []int32         // the vertices that have new edges, ascending
}

// In lists the in-neighbours along a relation.
func (g *Graph) In(relation int) *Neighbours {
	e := &g.Added.Edges[relation]
	return newNeighbours(&g.Relations[relation], e, e.Source, e.Target)
}

// Out lists the out-neighbours along a relation, without features of edges. The first call for a Base reads
// all edges of the relation.
func (g *Graph) Out(relation int) *Neighbours {
	e := g.Added.Edges[relation]
	e.Features, e.FeatureColumns = nil, 0
	return newNeighbours(g.out[relation](), &e, e.Target, e.Source)
}

// newNeighbours lists own, and from each of of edges to one of to.
func newNeighbours(own *graph.Relation, e *graph.Edges, of, to []int32) *Neighbours {
	n := &Neighbours{own: own}
	order := make([]int, e.Len())
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(to[a], to[b]), cmp.Compare(of[a], of[b]))
	})
	for _, k := range order {
		if len(n.rows) == 0 || n.rows[len(n.rows)-1] != to[k] {
			n.rows, n.added.Indptr = append(n.rows, to[k]),
				append(n.added.Indptr, int64(len(n.added.Sources)))
		}
		n.added.Sources = append(n.added.Sources, of[k])
		if e.Weights != nil {
			n.added.Weights = append(n.added.Weights, e.Weights[k])
		}
		n.added.EdgeFeatures = append(n.added.EdgeFeatures,
			e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]...)
	}
	n.added.EdgeColumns, n.added.Indptr = e.FeatureColumns,
		append(n.added.Indptr, int64(len(n.added.Sources)))
	return n
}

// Changed are the vertices that have new edges, ascending.
func (n *Neighbours) Changed() []int32 { return n.rows }

// spans returns where the edges of a vertex lie: own, and added.
func (n *Neighbours) spans(v int32) (from, to, fromAdded, toAdded int64) {
	if int(v) < len(n.own.Indptr)-1 {
		from, to = n.own.Indptr[v], n.own.Indptr[v+1]
	}
	if k, found := slices.BinarySearch(n.rows, v); found {
		fromAdded, toAdded = n.added.Indptr[k], n.added.Indptr[k+1]
	}
	return from, to, fromAdded, toAdded
}

// Each calls f for the edges of a vertex in order: with the neighbour u, and the k-th edge of the relation
// that has it.
func (n *Neighbours) Each(v int32, f func(u int32, in *graph.Relation, k int64)) {
	k, to, added, toAdded := n.spans(v)
	for ; added < toAdded; added++ {
		u := n.added.Sources[added]
		for ; k < to && n.own.Sources[k] <= u; k++ {
			f(n.own.Sources[k], n.own, k)
		}
		f(u, &n.added, added)
	}
	for ; k < to; k++ {
		f(n.own.Sources[k], n.own, k)
	}
}
