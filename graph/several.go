package graph

import (
	"fmt"
	"math"
	"slices"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// Several graphs are stored as one with a block-diagonal adjacency. GraphOf says which graph a vertex belongs
// to. Whatever is computed along edges is so computed for each graph by itself.

const graphIDsFile = "graph_ids.npy" // int32, V: the graph of each vertex

// checkGraphs checks the graph of each vertex. No edge may join two graphs.
func (g *Graph) checkGraphs(d depth) error {
	if err := g.checkGraphIDs(); err != nil || d != everything || g.Types[0].GraphOf == nil {
		return err
	}
	types := g.Types
	for i := range g.Relations {
		r := &g.Relations[i]
		s, t, err := g.Joins(r)
		if err != nil {
			return err
		}
		from, to := types[s].GraphOf, types[t].GraphOf
		if err := r.checkGraphs(from, to, 0); err != nil {
			return inFolder(g.layout().vertices(types[t].Name()), err)
		}
	}
	return nil
}

// checkGraphs checks that no edge joins two graphs, in the rows from first on. from has the graphs of the
// sources, to the graphs of the targets.
func (r *Relation) checkGraphs(from, to []int32, first int) error {
	for v := range r.rows() {
		if err := checkOneGraph(from, to, first+v, r.Sources[r.Indptr[v]:r.Indptr[v+1]]); err != nil {
			return err
		}
	}
	return nil
}

// checkGraphIDs checks the numbers of the vertices' graphs.
func (g *Graph) checkGraphIDs() error {
	several := g.Types[0].GraphOf != nil || g.Graphs != 0
	for _, t := range g.Types {
		at := g.layout().vertices(t.Name())
		switch {
		case !several && t.GraphOf == nil:
			continue
		case len(t.GraphOf) != t.Count || g.Graphs < 1 || g.Graphs > g.Vertices():
			return inFolder(at, flawf(graphIDsFile, "%d ids of %d graphs for %d vertices", len(t.GraphOf),
				g.Graphs, t.Count))
		}
		for v, id := range t.GraphOf {
			if id < 0 || int(id) >= g.Graphs {
				return inFolder(at, flawf(graphIDsFile, "vertex %d is of graph %d, where graphs are 0 to %d",
					v, id, g.Graphs-1))
			}
		}
	}
	return nil
}

// checkOneGraph checks that the edges into vertex v come from its graph. from has the graphs of the sources,
// to the graphs of the targets.
func checkOneGraph(from, to []int32, v int, sources []int32) error {
	for _, u := range sources {
		if from[u] != to[v] {
			return flawf(graphIDsFile,
				"the edge from vertex %d of graph %d leads to vertex %d of graph %d; edges join vertices "+
					"of one graph, so leave the edge or the ids out",
				u, from[u], v, to[v])
		}
	}
	return nil
}

// CheckGraphs refuses an edge that joins two graphs, by the graph of each vertex.
func (e *Edges) CheckGraphs(graphOf []int32) error {
	for k, v := range e.Target {
		if err := checkOneGraph(graphOf, graphOf, int(v), e.Source[k:k+1]); err != nil {
			return refusal.Errorf("%w", err)
		}
	}
	return nil
}

// NumberGraphs numbers graphs from 0 in the order of their ids. Each vertex has the id of its graph.
// NumberGraphs returns the number of each vertex's graph, and how many graphs there are.
func NumberGraphs(ids []int64) (graphOf []int32, graphs int, err error) {
	if err := memory.Need((8 + 4) * int64(len(ids))); err != nil {
		return nil, 0, err
	}
	distinct := slices.Clone(ids)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	graphOf = make([]int32, len(ids))
	for v, id := range ids {
		k, _ := slices.BinarySearch(distinct, id)
		graphOf[v] = int32(k)
	}
	return graphOf, len(distinct), nil
}

// ofVertices gives g the graphs of the vertices ids of from. It numbers them anew if some have no vertex
// left.
func (g *Graph) ofVertices(from *Graph, ids []int32) {
	was := from.Types[0].GraphOf
	if was == nil {
		return
	}
	left := make([]bool, from.Graphs)
	number := make([]int32, from.Graphs)
	for _, v := range ids {
		left[was[v]] = true
	}
	g.Graphs = 0
	for k := range left {
		number[k] = int32(g.Graphs)
		if left[k] {
			g.Graphs++
		}
	}
	now := make([]int32, len(ids))
	for i, v := range ids {
		now[i] = number[was[v]]
	}
	g.Types[0].GraphOf = now
}

// Merge makes one block-diagonal graph of several, as dgl.batch and PyG's Batch do. The vertices of each
// graph follow those of the graph before, and GraphOf tells them apart. The graphs must have the same types,
// relations and kinds of data. Only labels may be missing: vertices of a graph without labels get none. The
// classes are those of the graph with the most. Names of vertices stay if all graphs have names. Notes and
// Warnings are collected from all graphs, each once.
func Merge(graphs []*Graph) (*Graph, error) {
	if len(graphs) == 0 {
		return nil, refusal.Errorf("no graph to merge")
	}
	for k, g := range graphs {
		if g.CheckLists() != nil {
			return nil, refusal.Errorf("graph %d of %d: it has %d vertex types and %d relations, and needs one of each",
				k, len(graphs), len(g.Types), len(g.Relations))
		}
	}
	first, labels := graphs[0], &graphs[0].Types[0].Labels
	if k := slices.IndexFunc(graphs, func(g *Graph) bool { return g.Types[0].Labels.There() }); k >= 0 {
		labels = &graphs[k].Types[0].Labels
	}
	vertices, bytes := 0, int64(0)
	for k, g := range graphs {
		if err := g.mergeable(first, labels); err != nil {
			return nil, refusal.Errorf("graph %d of %d: %w", k, len(graphs), err)
		}
		vertices += g.Vertices()
		bytes += g.bytes() + labels.rowBytes(g.Types[0].Count)
	}
	if err := checkVertexCount(vertices); err != nil {
		return nil, err
	}
	types := make([]merged, len(first.Types))
	for i := range types {
		m := &types[i]
		m.count(graphs, i)
		if m.dense {
			bytes += 4 * int64(m.Count) * int64(m.Features.Columns)
		}
	}
	if err := memory.Need(bytes + 4*int64(vertices)); err != nil {
		return nil, err
	}
	g := &Graph{
		Metric: first.Metric, Graphs: len(graphs), Relations: slices.Clone(first.Relations),
	}
	learned := &types[0]
	learned.Labels = Labels{Columns: labels.Columns, Names: labels.Names}
	learned.Splits = make([]Split, len(first.Types[0].Splits))
	for i := range g.Relations {
		r := &g.Relations[i]
		rows, edges := 1, 0
		for _, member := range graphs {
			rows, edges = rows+member.Relations[i].rows(), edges+len(member.Relations[i].Sources)
		}
		r.Indptr = append(make([]int64, 0, rows), 0)
		r.Sources = make([]int32, 0, edges)
		r.Weights = nil
		r.Features.Dense = nil
		r.Symmetric = true
	}
	before := make([]int32, len(types)) // vertices of the graphs before
	for k, member := range graphs {
		for i := range g.Relations {
			s, _, err := member.Joins(&member.Relations[i])
			if err != nil {
				return nil, err
			}
			g.Relations[i].add(&member.Relations[i], before[s])
		}
		for s := range member.Types[0].Splits {
			for part, ids := range member.Types[0].Splits[s].Parts() {
				list := learned.Splits[s].Parts()[part]
				for _, v := range *ids {
					*list = append(*list, int64(before[0])+v)
				}
			}
		}
		learned.Labels.Append(&member.Types[0].Labels, labels, member.Types[0].Count)
		for i, t := range member.Types {
			types[i].add(&t, k)
			before[i] += int32(t.Count)
		}
		g.Notes, g.Warnings = union(g.Notes, member.Notes), union(g.Warnings, member.Warnings)
	}
	for _, m := range types {
		g.Types = append(g.Types, m.VertexType)
	}
	return g, nil
}

// merged is a vertex type of several graphs.
type merged struct {
	VertexType
	dense, named bool // its features are dense; all of its vertices have names
}

// count looks at the i-th type of all graphs.
func (m *merged) count(graphs []*Graph, i int) {
	m.named = true
	for k, g := range graphs {
		t := g.Types[i]
		if k == 0 {
			m.Type, m.Features.Columns = t.Type, t.Features.Columns
		}
		m.Count += t.Count
		m.dense, m.named = m.dense || !t.Features.Sparse(), m.named && t.Names != nil
	}
	m.GraphOf = make([]int32, 0, m.Count)
	if !m.dense {
		m.Features.Indptr = []int64{0}
	}
}

// add appends the vertices of the k-th graph.
func (m *merged) add(t *VertexType, k int) {
	m.GraphOf = append(m.GraphOf, slices.Repeat([]int32{int32(k)}, t.Count)...)
	m.Features.add(&t.Features, t.Count, m.dense)
	if m.named {
		m.Names = append(m.Names, t.Names...)
	}
}

// mergeable refuses a graph that Merge cannot put beside the first one, or beside labels of another.
func (g *Graph) mergeable(first *Graph, labels *Labels) error {
	types := g.Types
	like := first.Types
	l := &g.Types[0].Labels
	switch {
	case len(types) != len(like) || len(g.Relations) != len(first.Relations):
		return refusal.Errorf("it has %d vertex types and %d relations, and the first graph has %d and %d: "+
			"give graphs of the same types", len(types), len(g.Relations), len(like), len(first.Relations))
	case g.Types[0].GraphOf != nil:
		return refusal.Errorf("it is several graphs itself; give the graphs apart")
	case g.Types[0].Count == 0:
		return refusal.Errorf("it has no vertex%s; leave it out", ofType(g, types[0].Name()))
	}
	for i := range types {
		t, want := &types[i], &like[i]
		switch {
		case t.Name() != want.Name():
			return refusal.Errorf("its vertex type %d is %q, and that of the first graph %q: give graphs "+
				"of the same types", i, t.Name(), want.Name())
		case len(t.Arrays) > 0:
			return refusal.Errorf("it has arrays that no model reads, which are those of one graph; leave " +
				"them out")
		case t.Features.Columns != want.Features.Columns:
			return refusal.Errorf("it has %d features%s, and the first graph has %d: give all graphs the "+
				"same features", t.Features.Columns, ofType(g, t.Name()), want.Features.Columns)
		}
	}
	for i := range g.Relations {
		r, want := &g.Relations[i], &first.Relations[i]
		switch {
		case r.Source != want.Source || r.Name != want.Name || r.Target != want.Target:
			return refusal.Errorf("its relation %d is (%s, %s, %s), and that of the first graph (%s, %s, "+
				"%s): give graphs of the same types", i, r.Source, r.Name, r.Target, want.Source, want.Name,
				want.Target)
		case r.EdgeSplit != nil:
			return refusal.Errorf("it has a split of edges, which is that of one graph; leave it out")
		case (r.Weights == nil) != (want.Weights == nil) || r.Features.Columns != want.Features.Columns:
			return refusal.Errorf("its edges have %d features (weights: %t), and those of the first graph "+
				"have %d (weights: %t): give all edges the same", r.Features.Columns, r.Weights != nil,
				want.Features.Columns, want.Weights != nil)
		}
	}
	switch {
	case l.There() && !l.like(labels):
		return refusal.Errorf("its labels (%d classes, %d columns of values) are not of the kind of those "+
			"of another graph (%d classes, %d columns of values)", l.Classes, l.Columns, labels.Classes,
			labels.Columns)
	case len(g.Types[0].Splits) != len(first.Types[0].Splits):
		return refusal.Errorf("it has %d splits, and the first graph has %d: give all graphs as many",
			len(g.Types[0].Splits), len(first.Types[0].Splits))
	}
	return nil
}

// ofType names the type of vertices, if the graph has several.
func ofType(g *Graph, name string) string {
	if len(g.Types) == 1 {
		return ""
	}
	return fmt.Sprintf(" of type %q", name)
}

// add appends the rows of another relation, whose vertices are numbered from before on.
func (r *Relation) add(other *Relation, before int32) {
	r.Indptr = appendRows(r.Indptr, other.Indptr)
	for _, u := range other.Sources {
		r.Sources = append(r.Sources, before+u)
	}
	r.Weights, r.Features.Dense = append(r.Weights, other.Weights...),
		append(r.Features.Dense, other.Features.Dense...)
	r.Symmetric = r.Symmetric && other.Symmetric
}

// add appends the rows of the features of so many vertices: dense ones, or if all are sparse, sparse ones.
func (f *Features) add(other *Features, vertices int, dense bool) {
	switch {
	case !dense:
		f.Indptr = appendRows(f.Indptr, other.Indptr)
		f.Indices, f.Data = append(f.Indices, other.Indices...), append(f.Data, other.Data...)
	case other.Sparse():
		rows := make([]float32, vertices*f.Columns)
		for v := range vertices {
			for k := other.Indptr[v]; k < other.Indptr[v+1]; k++ {
				rows[v*f.Columns+int(other.Indices[k])] = other.Data[k]
			}
		}
		f.Dense = append(f.Dense, rows...)
	default:
		f.Dense = append(f.Dense, other.Dense...)
	}
}

// like reports whether labels are of the same kind as others. There may be other numbers of classes where a
// vertex has one.
func (l *Labels) like(other *Labels) bool {
	return (l.Class == nil) == (other.Class == nil) && l.Columns == other.Columns &&
		slices.Equal(l.Names, other.Names) &&
		l.MultiLabel() == other.MultiLabel() && (!l.MultiLabel() || l.Classes == other.Classes)
}

// rowBytes is the size of the labels of so many vertices.
func (l *Labels) rowBytes(vertices int) int64 {
	if l.Class != nil {
		return 8 * int64(vertices)
	}
	return 4 * int64(vertices) * int64(max(l.Classes, l.Columns))
}

// Append appends the labels of so many further vertices. Those that have none get missing ones of the kind of
// like.
func (l *Labels) Append(other, like *Labels, vertices int) {
	missing := float32(math.NaN())
	l.Classes = max(l.Classes, other.Classes)
	switch {
	case other.There() || !like.There():
		l.Class, l.Multi, l.Values = append(l.Class, other.Class...), append(l.Multi, other.Multi...),
			append(l.Values, other.Values...)
	case like.Class != nil:
		l.Class = append(l.Class, slices.Repeat([]int64{-1}, vertices)...)
	case like.MultiLabel():
		l.Multi = append(l.Multi, slices.Repeat([]float32{missing}, vertices*like.Classes)...)
	default:
		l.Values = append(l.Values, slices.Repeat([]float32{missing}, vertices*like.Columns)...)
	}
}

// union appends the lines of more that are not in lines.
func union(lines, more []string) []string {
	for _, line := range more {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
