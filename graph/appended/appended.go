// Package appended is a graph with vertices and edges behind its own, without a copy of it.
//
// The new vertices of a type have the ids that follow. A vertex's neighbours ascend. Those along new edges
// come behind those along the graph's edges to or from the same vertex, which is the order of a store that
// has both.
//
// The commands predict, serve and explain read it for vertices and edges that a graph lacks.
package appended

import (
	"math"
	"slices"
	"sync"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// Addition is what is appended to a graph.
type Addition struct {
	Types  []NewVertices // by vertex type
	Labels graph.Labels  // of the new vertices of the first type; none: they are not labelled
	Edges  []graph.Edges // by relation; ends are ids within their types
	// Frames have the labels of the new edges by relation, a row for each, with values of SplitBy if the
	// graph's labels have some. An entry without rows: the edges are not labelled. nil: no relation has
	// labels.
	Frames   []graph.Frame
	Notes    []string // notes on what has been read, a line each
	Reversed []string // notes on edges that AddReverses has added, a line each
	reverses []int    // the relations of these edges
}

// NewVertices are the new vertices of a type.
type NewVertices struct {
	Count    int
	Features graph.Features // with as many columns as the graph's, and as dense
	Names    []string       // a name for each, if the graph's vertices have names; only Write needs them
	Table    *columns.Table // of the graph's vertices and these; nil: the graph's table stays
}

// Base is a graph to which one can append several times. Each Addition is appended to the graph alone.
type Base struct {
	*graph.Graph
	// Arrangements bring the graph's features, by vertex type, into the form of appended ones. nil: they have
	// it already.
	Arrangements []*columns.Arrangement
	Ends         []Ends                   // by relation
	out          []func() *graph.Relation // by relation: out-neighbours, listed at the first use
}

// Ends are the numbers of the vertex types that a relation joins.
type Ends struct{ Source, Target int }

// Graph is a graph with an addition. It reads the graph's arrays: use it within Guard.
type Graph struct {
	*Base
	Added  *Addition
	Counts []int // vertices of each type
	// Removed are edges that the graph is without, each once, by relation; nil: none.
	Removed [][]Edge
	// Passes says which edges pass messages. Neighbours lists only these. nil: all pass messages.
	Passes Rule
}

// Rule returns, for a relation, a function that reports whether an edge passes messages. before is how many
// edges between the same ends come before it, not counting removed edges. nil: all edges of the relation pass
// messages.
type Rule = func(relation int) func(source, target int32, before int) bool

// Edge is an edge of a relation: the one that Before parallel edges come before.
type Edge struct {
	Source, Target int32
	Before         int
}

// On makes g a graph to which one can append. Several goroutines may use it.
func On(g *graph.Graph) *Base {
	b := &Base{Graph: g}
	types := g.Types
	for i := range g.Relations {
		r := &g.Relations[i]
		source, target, _ := g.Joins(r) // an open graph has these types
		b.Ends = append(b.Ends, Ends{source, target})
		b.out = append(b.out, sync.OnceValue(func() *graph.Relation {
			return r.Reversed(types[source].Count)
		}))
	}
	return b
}

// Nothing is an Addition without vertices and edges, to which both can be appended.
func (b *Base) Nothing() *Addition {
	a := &Addition{Types: make([]NewVertices, len(b.Types)), Edges: make([]graph.Edges, len(b.Relations))}
	for i, t := range b.Types {
		f := &a.Types[i].Features
		f.Columns = b.Width(i)
		if t.Features.Sparse() {
			f.Indptr = []int64{0}
		}
	}
	for i := range b.Relations {
		a.Edges[i].FeatureColumns = b.Relations[i].Features.Columns
	}
	return a
}

// Width is the number of features of a new vertex of a type.
func (b *Base) Width(kind int) int {
	return b.arrangement(kind).Width(b.Types[kind].Features.Columns)
}

// arrangement is the Arrangement of a vertex type; nil: there is none.
func (b *Base) arrangement(kind int) *columns.Arrangement {
	if b.Arrangements == nil {
		return nil
	}
	return b.Arrangements[kind]
}

// Append appends a vertex with its features. Sparse features keep the values that are not 0.
func (r *NewVertices) Append(row []float32) {
	r.Count++
	f := &r.Features
	if !f.Sparse() {
		f.Dense = append(f.Dense, row...)
		return
	}
	for k, x := range row {
		if x != 0 {
			f.Indices, f.Data = append(f.Indices, int32(k)), append(f.Data, x)
		}
	}
	f.Indptr = append(f.Indptr, int64(len(f.Data)))
}

// With is the graph with an Addition; a nil: nothing is added. It refuses an Addition that does not fit the
// graph.
func (b *Base) With(a *Addition) (*Graph, error) {
	types := b.Types
	if a == nil {
		a = b.Nothing()
	}
	g := &Graph{Base: b, Added: a}
	for i, t := range types {
		g.Counts = append(g.Counts, t.Count+a.Types[i].Count)
		if err := a.Types[i].check(&t, b.Width(i)); err != nil {
			return nil, err
		}
	}
	all := 0
	for _, n := range g.Counts {
		all += n
	}
	if all > math.MaxInt32 {
		return nil, refusal.Errorf("%d vertices: a graph has fewer than 2³¹", all)
	}
	for i := range b.Relations {
		r, e, ends := &b.Relations[i], &a.Edges[i], b.Ends[i]
		err := checkEdges(r, e)
		if err == nil && a.Frames != nil {
			err = checkLabels(r, e, &a.Frames[i])
		}
		if err != nil {
			return nil, refusal.Errorf("new edges of %s: %w", r.FullName(), err)
		}
		if err := e.CheckEnds(0, g.Counts[ends.Source], g.Counts[ends.Target]); err != nil {
			return nil, refusal.Errorf("new edges of %s: %w", r.FullName(), err)
		}
	}
	return g, nil
}

// check refuses rows that do not fit the type, or do not have width features.
func (r *NewVertices) check(t *graph.VertexType, width int) error {
	f := &r.Features
	values := f.Dense
	switch {
	case r.Count == 0:
		return nil
	case f.Columns != width:
		return refusal.Errorf("new vertices of %s have %d features, and those of the graph %d", t.Name(),
			f.Columns, width)
	case f.Sparse() != t.Features.Sparse():
		return refusal.Errorf("new vertices of %s have dense features where those of the graph are sparse, "+
			"or the other way round", t.Name())
	case f.Sparse():
		values = f.Data
	}
	if graph.NotFinite(values) >= 0 {
		return refusal.Errorf("a feature of a new vertex of %s is not finite", t.Name())
	}
	return nil
}

// checkEdges refuses edges whose data differ from the relation's in kind.
func checkEdges(r *graph.Relation, e *graph.Edges) error {
	switch n := e.Len(); {
	case n == 0:
		return nil
	case (e.Weights != nil) != (r.Weights != nil):
		return refusal.Errorf("either all edges have weights, or none: those of the graph %s",
			map[bool]string{true: "have", false: "have none"}[r.Weights != nil])
	case len(e.Features) != n*r.Features.Columns || len(e.Target) != n ||
		e.Weights != nil && len(e.Weights) != n:
		return refusal.Errorf("%d edges with %d feature values, where the graph's have %d features each", n,
			len(e.Features), r.Features.Columns)
	}
	if graph.NotFinite(e.Weights) >= 0 || graph.NotFinite(e.Features) >= 0 {
		return refusal.Errorf("a weight or a feature is not finite")
	}
	return nil
}

// checkLabels refuses labels of another kind than the relation's, and labels that do not have a row for each
// edge.
func checkLabels(r *graph.Relation, e *graph.Edges, l *graph.Frame) error {
	if !l.Labels.There() {
		return nil
	}
	if !r.HasLabels() {
		return refusal.Errorf("the graph's edges have no labels, and the new ones have some")
	}
	own, width := &r.Labels, max(1, l.Labels.Columns)
	if own.MultiLabel() {
		width = own.Classes
	}
	if l.Labels.MultiLabel() != own.MultiLabel() || l.Labels.Columns != own.Columns ||
		l.Labels.Classes != own.Classes ||
		len(l.Labels.Class)+len(l.Labels.Multi)+len(l.Labels.Values) != e.Len()*width {
		return refusal.Errorf("labels of %d edges are not of the kind of the graph's", e.Len())
	}
	return nil
}

// Edges returns the number of edges of all relations, whether or not they pass messages.
func (g *Graph) Edges() int64 {
	n := g.Base.Edges()
	for i := range g.Added.Edges {
		n += int64(g.Added.Edges[i].Len())
	}
	for _, gone := range g.Removed {
		n -= int64(len(gone))
	}
	return n
}

// Repeated returns how many of the new edges join vertices that an edge of the graph, in the same relation,
// joins already.
func (g *Graph) Repeated() (n int64) {
	for i := range g.Relations {
		r, e := &g.Relations[i], &g.Added.Edges[i]
		for k, v := range e.Target {
			if int(v) >= len(r.Indptr)-1 {
				continue
			}
			if _, there := slices.BinarySearch(r.Sources[r.Indptr[v]:r.Indptr[v+1]], e.Source[k]); there {
				n++
			}
		}
	}
	return n
}

// Row returns the values of the features of a vertex of a type and, for sparse features, their columns. If an
// arrangement changes the values, they are in room, which grows if needed.
func (g *Graph) Row(room []float32, kind int, v int32) (values []float32, columns []int32) {
	types := g.Types
	f := &types[kind].Features
	row := int(v)
	arrangement := g.arrangement(kind)
	if row >= types[kind].Count {
		f, row, arrangement = &g.Added.Types[kind].Features, row-types[kind].Count, nil
	}
	if f.Sparse() {
		columns = f.Indices[f.Indptr[row]:f.Indptr[row+1]]
	}
	return arrangement.Row(room, f.Row(row)), columns
}
