package mfg

import (
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/partition"
)

// Model says what a model reads from a graph.
type Model struct {
	Blocks []Reach
	// SourceDegrees says that an aggregation divides by the degrees of sources, as GCN's does.
	SourceDegrees bool
	EdgeFeatures  bool // the model reads edge features of the relations along which it aggregates
	Labels        bool // the model reads the labels of training vertices
}

// Extract copies out of a graph, which may be far larger, what the results for some vertices of each type
// depend on. The result is a share from which New takes the same vertices, with the same bits. Types at the
// end of vertices may be missing: none of their vertices is listed. The share's rows are the rows that the
// first block reads, by their ids in the graph. Behind them each type has a row that stands for all other
// vertices, of which only the number counts. Whole describes the graph.
func Extract(g *appended.Graph, m *Model, vertices [][]int32, scratch *Scratch) *partition.Share {
	x := newExtractor(g, scratch)
	x.find(m.Blocks, vertices)
	small := &graph.Graph{}
	ids := make([][]int32, len(g.Counts))
	for i := range g.Types {
		t := &g.Types[i]
		ids[i] = append(x.sets[i].list(0, g.Counts[i]), int32(g.Counts[i]))
		x.sets[i].count()
		made := graph.VertexType{
			Type: t.Type, Frame: graph.Frame{Count: len(ids[i]), Features: x.features(i, t, ids[i])},
		}
		small.Types = append(small.Types, made)
	}
	if m.Labels { // new vertices have no labels
		own, _ := slices.BinarySearch(ids[0], int32(g.Types[0].Count))
		to, from := &small.Types[0], &g.Types[0]
		to.Labels, to.Splits = from.Labels.Select(ids[0][:own]), graph.SplitsOf(from.Splits, ids[0][:own])
	}
	out := make([]graph.Relation, len(g.Relations))
	for i := range g.Relations {
		r := &g.Relations[i]
		made := x.directions[2*i].copied(x, m, ids)
		made.Source, made.Name, made.Target = r.Source, r.Name, r.Target
		made.Features.Columns = r.Features.Columns
		small.Relations = append(small.Relations, made)
		out[i] = x.directions[2*i+1].copied(x, m, ids)
	}
	return partition.Some(small, ids, out, x.whole)
}

// Scratch is memory for Extract: some bits for each vertex of the graph. One call at a time may use it.
type Scratch struct{ sets []*marks }

// setsOf are empty sets of vertices, one for each type, whose sizes are counts.
func (r *Scratch) setsOf(counts []int) []*marks {
	for i, n := range counts {
		if i == len(r.sets) {
			r.sets = append(r.sets, &marks{})
		}
		r.sets[i].clear()
		r.sets[i].reach(n)
	}
	return r.sets
}

// extractor finds rows of a graph.
type extractor struct {
	g          *appended.Graph
	whole      partition.Whole
	directions []*direction // by relation: along its edges, and in reverse
	sets       []*marks     // by vertex type: the rows found so far
}

// direction is a relation in a direction.
type direction struct {
	along          gnn.Along
	source, target int // vertex types, in this direction
	weighted       bool
	list           func() *appended.Neighbours
	neighbours     *appended.Neighbours // lists neighbours, once a block aggregates along it
	into           []int32              // rows whose neighbours have been found, ascending
}

func newExtractor(g *appended.Graph, scratch *Scratch) *extractor {
	base := partition.All(g.Graph)
	base.Arrange(g.Arrangements)
	x := &extractor{
		g: g, whole: base.Whole.Grown(g.Counts, g.Edges()), sets: scratch.setsOf(g.Counts),
	}
	for i, r := range base.Edges.Relations {
		x.directions = append(x.directions,
			&direction{
				along: gnn.Along{Relation: r.Name}, source: r.Source, target: r.Target,
				weighted: r.In.Weights != nil,
				list:     func() *appended.Neighbours { return g.In(i) },
			},
			&direction{
				along: gnn.Along{Relation: r.Name, Reversed: true}, source: r.Target, target: r.Source,
				weighted: r.In.Weights != nil,
				list:     func() *appended.Neighbours { return g.Out(i) },
			})
	}
	return x
}

// find marks the rows that the blocks read for some vertices.
func (x *extractor) find(blocks []Reach, vertices [][]int32) {
	for kind, list := range vertices {
		x.sets[kind].add(list...)
	}
	for _, b := range slices.Backward(blocks) {
		for range b.Rounds {
			if len(b.Along) > 0 {
				x.step(b.Along)
			}
		}
	}
}

// step marks the neighbours of all rows that are marked.
func (x *extractor) step(along []gnn.Along) {
	into := make([][]int32, len(x.sets))
	for i, set := range x.sets {
		into[i] = set.list(0, x.g.Counts[i])
	}
	for _, d := range x.directions {
		if !slices.Contains(along, d.along) {
			continue
		}
		if d.neighbours == nil {
			d.neighbours = d.list()
		}
		done, from := d.into, x.sets[d.source]
		d.into = into[d.target]
		for _, row := range d.into {
			if len(done) > 0 && done[0] == row {
				done = done[1:]
				continue
			}
			d.neighbours.Each(row, func(u int32, _ *graph.Relation, _ int64) { from.add(u) })
		}
	}
}

// copied has the edges from the neighbours of d.into. Other rows have their self loops and, if degrees count,
// as many neighbours as in the graph: all of these are the last row.
func (d *direction) copied(x *extractor, m *Model, ids [][]int32) (r graph.Relation) {
	rows := ids[d.target]
	r.Indptr = make([]int64, 1, len(rows)+1)
	if d.weighted {
		r.Weights = []float32{}
	}
	if d.neighbours == nil { // no block reads the relation
		r.Indptr = make([]int64, len(rows)+1)
		return r
	}
	features := m.EdgeFeatures && !d.along.Reversed
	add := func(source int32, in *graph.Relation, k int64) {
		r.Sources = append(r.Sources, source)
		if r.Weights != nil {
			r.Weights = append(r.Weights, in.Weights[k])
		}
		if n := int64(in.Features.Columns); features {
			r.Features.Dense = append(r.Features.Dense, in.Features.Dense[k*n:(k+1)*n]...)
		}
	}
	from, into := x.sets[d.source], d.into
	degrees := m.SourceDegrees && d.source == d.target
	last := int32(len(ids[d.source]) - 1)
	for _, row := range rows[:len(rows)-1] {
		switch {
		case len(into) > 0 && into[0] == row:
			into = into[1:]
			d.neighbours.Each(row, func(u int32, in *graph.Relation, k int64) { add(from.rank(u), in, k) })
		case degrees:
			d.neighbours.Each(row, func(u int32, in *graph.Relation, k int64) {
				if u == row {
					add(from.rank(u), in, k)
				}
			})
			d.neighbours.Each(row, func(u int32, in *graph.Relation, k int64) {
				if u != row {
					add(last, in, k)
				}
			})
		}
		r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	}
	r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	return r
}

// features copies the features of rows of a vertex type. The last row has none.
func (x *extractor) features(kind int, t *graph.VertexType, rows []int32) (f graph.Features) {
	f.Columns = x.g.Width(kind)
	if t.Features.Sparse() {
		f.Indptr = make([]int64, 1, len(rows)+1)
	} else {
		f.Dense = make([]float32, 0, len(rows)*f.Columns)
	}
	for _, row := range rows[:len(rows)-1] {
		values, columns := x.g.Row(f.Dense[len(f.Dense):], kind, row)
		if f.Indptr == nil {
			f.Dense = append(f.Dense, values...)
			continue
		}
		f.Data, f.Indices = append(f.Data, values...), append(f.Indices, columns...)
		f.Indptr = append(f.Indptr, int64(len(f.Data)))
	}
	if f.Indptr == nil {
		f.Dense = f.Dense[:len(rows)*f.Columns]
	} else {
		f.Indptr = append(f.Indptr, int64(len(f.Data)))
	}
	return f
}
