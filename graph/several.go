package graph

import (
	"math"
	"slices"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// Several graphs are stored as one, whose adjacency is block-diagonal: GraphOf says which graph a vertex
// belongs to. What is computed along edges is then computed for each graph by itself.

const graphIDsFile = "graph_ids.npy" // int32, V: the graph of each vertex

// checkGraphs checks GraphOf. No edge may join two graphs.
func (g *Graph) checkGraphs(d depth) error {
	own := g.Own()
	switch {
	case g.GraphOf == nil && g.Graphs == 0:
		return nil
	case len(g.Others) > 0:
		return flawf(graphIDsFile, "several graphs of %d vertex types; several graphs have one type", 1+len(g.Others))
	case len(g.GraphOf) != own || g.Graphs < 1 || g.Graphs > own:
		return flawf(graphIDsFile, "%d ids of %d graphs for %d vertices", len(g.GraphOf), g.Graphs, own)
	}
	for v, id := range g.GraphOf {
		if id < 0 || int(id) >= g.Graphs {
			return flawf(graphIDsFile, "vertex %d is of graph %d, where graphs are 0 to %d", v, id, g.Graphs-1)
		}
	}
	if d == indices {
		return nil
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		for v := range r.rows() {
			for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
				if g.GraphOf[u] != g.GraphOf[v] {
					return flawf(graphIDsFile, "the edge from vertex %d of graph %d leads to vertex %d of graph %d; edges join vertices of one graph, "+
						"so leave the edge or the ids out", u, g.GraphOf[u], v, g.GraphOf[v])
				}
			}
		}
	}
	return nil
}

// NumberGraphs numbers graphs from 0 in the order of their ids, of which each vertex has that of its graph.
// It returns the number of each vertex' graph, and how many there are.
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

// ofVertices gives g the graphs of the vertices ids of from, numbered anew where some have no vertex left.
func (g *Graph) ofVertices(from *Graph, ids []int32) {
	if from.GraphOf == nil {
		return
	}
	left, number := make([]bool, from.Graphs), make([]int32, from.Graphs)
	for _, v := range ids {
		left[from.GraphOf[v]] = true
	}
	g.Graphs = 0
	for k := range left {
		if number[k] = int32(g.Graphs); left[k] {
			g.Graphs++
		}
	}
	g.GraphOf = make([]int32, len(ids))
	for i, v := range ids {
		g.GraphOf[i] = number[from.GraphOf[v]]
	}
}

// Merge makes one block-diagonal graph of several of one vertex type and one relation, as dgl.batch and PyG's
// Batch do: the vertices of each graph follow those of the graph before, and GraphOf tells them apart. The
// graphs must have the same kinds of data, but for labels: vertices of a graph without labels have none.
// Classes are as many as those of the graph that has most. Names of vertices stay if all graphs have some.
// Notes and Warnings are those of all graphs, each once.
func Merge(graphs []*Graph) (*Graph, error) {
	if len(graphs) == 0 {
		return nil, refusal.Errorf("no graph to merge")
	}
	first, labels := graphs[0], &graphs[0].Labels
	if k := slices.IndexFunc(graphs, func(g *Graph) bool { return g.Labels.There() }); k >= 0 {
		labels = &graphs[k].Labels
	}
	vertices, edges, bytes, named := 0, 0, int64(0), true
	for k, g := range graphs {
		if err := g.mergeable(first, labels); err != nil {
			return nil, refusal.Errorf("graph %d of %d: %w", k, len(graphs), err)
		}
		vertices, edges = vertices+g.Own(), edges+len(g.Relations[0].Sources)
		bytes, named = bytes+g.bytes()+labels.rowBytes(g.Own()), named && g.Names != nil
	}
	if err := checkVertexCount(vertices); err != nil {
		return nil, err
	}
	dense := slices.ContainsFunc(graphs, func(g *Graph) bool { return !g.Features.Sparse() })
	if dense {
		bytes += 4 * int64(vertices) * int64(first.Features.Columns)
	}
	if err := memory.Need(bytes + 4*int64(vertices)); err != nil {
		return nil, err
	}
	r := &first.Relations[0]
	m := &Graph{
		Type: first.Type, Count: vertices, Metric: first.Metric, GraphOf: make([]int32, 0, vertices), Graphs: len(graphs),
		Relations: []Relation{{
			Source: r.Source, Name: r.Name, Target: r.Target, EdgeColumns: r.EdgeColumns, Symmetric: true,
			Indptr: append(make([]int64, 0, vertices+1), 0), Sources: make([]int32, 0, edges),
		}},
		Features: Features{Columns: first.Features.Columns},
		Labels:   Labels{Columns: labels.Columns, Names: labels.Names},
		Splits:   make([]Split, len(first.Splits)),
	}
	if !dense {
		m.Features.Indptr = []int64{0}
	}
	for k, g := range graphs {
		before := int32(len(m.GraphOf))
		m.GraphOf = append(m.GraphOf, slices.Repeat([]int32{int32(k)}, g.Own())...)
		m.Relations[0].add(&g.Relations[0], before)
		m.Features.add(&g.Features, g.Own(), dense)
		m.Labels.add(&g.Labels, labels, g.Own())
		for s := range g.Splits {
			for part, ids := range g.Splits[s].Parts() {
				list := m.Splits[s].Parts()[part]
				for _, v := range *ids {
					*list = append(*list, int64(before)+v)
				}
			}
		}
		if named {
			m.Names = append(m.Names, g.Names...)
		}
		m.Notes, m.Warnings = union(m.Notes, g.Notes), union(m.Warnings, g.Warnings)
	}
	return m, nil
}

// mergeable refuses a graph that Merge cannot put beside the first one, or beside labels of another.
func (g *Graph) mergeable(first *Graph, labels *Labels) error {
	if g.Typed() || len(g.Relations) == 0 {
		return refusal.Errorf("it has %d vertex types and %d relations, and several graphs have one of each; import one graph by itself", len(g.Types()), len(g.Relations))
	}
	r, like, l := &g.Relations[0], &first.Relations[0], &g.Labels
	switch {
	case g.GraphOf != nil:
		return refusal.Errorf("it is several graphs itself; give the graphs apart")
	case g.Own() == 0:
		return refusal.Errorf("it has no vertex; leave it out")
	case r.EdgeSplit != nil || len(g.Arrays) > 0:
		return refusal.Errorf("it has a split of edges, or arrays that no model reads, which are those of one graph; leave them out")
	case g.Features.Columns != first.Features.Columns:
		return refusal.Errorf("it has %d features, and the first graph has %d: give all graphs the same features", g.Features.Columns, first.Features.Columns)
	case (r.Weights == nil) != (like.Weights == nil) || r.EdgeColumns != like.EdgeColumns:
		return refusal.Errorf("its edges have %d features (weights: %t), and those of the first graph have %d (weights: %t): give all edges the same",
			r.EdgeColumns, r.Weights != nil, like.EdgeColumns, like.Weights != nil)
	case l.There() && !l.like(labels):
		return refusal.Errorf("its labels (%d classes, %d columns of values) are not of the kind of those of another graph (%d classes, %d columns of values)",
			l.Classes, l.Columns, labels.Classes, labels.Columns)
	case len(g.Splits) != len(first.Splits):
		return refusal.Errorf("it has %d splits, and the first graph has %d: give all graphs as many", len(g.Splits), len(first.Splits))
	}
	return nil
}

// add appends the rows of another relation, whose vertices are numbered from before on.
func (r *Relation) add(other *Relation, before int32) {
	edges := int64(len(r.Sources))
	for _, end := range other.Indptr[1:] {
		r.Indptr = append(r.Indptr, edges+end)
	}
	for _, u := range other.Sources {
		r.Sources = append(r.Sources, before+u)
	}
	r.Weights, r.EdgeFeatures = append(r.Weights, other.Weights...), append(r.EdgeFeatures, other.EdgeFeatures...)
	r.Symmetric = r.Symmetric && other.Symmetric
}

// add appends the rows of the features of so many vertices: dense ones, or if all are sparse, sparse ones.
func (f *Features) add(other *Features, vertices int, dense bool) {
	switch {
	case !dense:
		edge := f.Indptr[len(f.Indptr)-1]
		for _, end := range other.Indptr[1:] {
			f.Indptr = append(f.Indptr, edge+end)
		}
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
	return (l.Class == nil) == (other.Class == nil) && l.Columns == other.Columns && slices.Equal(l.Names, other.Names) &&
		l.MultiLabel() == other.MultiLabel() && (!l.MultiLabel() || l.Classes == other.Classes)
}

// rowBytes is the size of the labels of so many vertices.
func (l *Labels) rowBytes(vertices int) int64 {
	if l.Class != nil {
		return 8 * int64(vertices)
	}
	return 4 * int64(vertices) * int64(max(l.Classes, l.Columns))
}

// add appends the labels of so many further vertices. Those that have none get missing ones of the kind of
// like.
func (l *Labels) add(other, like *Labels, vertices int) {
	missing := float32(math.NaN())
	switch l.Classes = max(l.Classes, other.Classes); {
	case other.There() || !like.There():
		l.Class, l.Multi, l.Values = append(l.Class, other.Class...), append(l.Multi, other.Multi...), append(l.Values, other.Values...)
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
