package graph

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// sinks begin a part in each implementation of Sink: rows, which are announced, without their arrays. end
// completes the part, and returns it.
var sinks = map[string]func(t *testing.T, p *Part) (to Sink, end func() *Part){
	"in memory": func(_ *testing.T, p *Part) (Sink, func() *Part) {
		h := Hold(p)
		return h, func() *Part { return h.Part }
	},
	"in a folder": func(t *testing.T, p *Part) (Sink, func() *Part) {
		dir := t.TempDir()
		f, err := CreateFolder(dir, "parts")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Abort()) })
		w, err := f.CreatePart("0", p)
		require.NoError(t, err)
		return w, func() *Part {
			require.NoError(t, w.Close())
			require.NoError(t, f.AddInt32s("ids.npy", []int32{1, 2}))
			require.NoError(t, f.Commit())
			stored, err := OpenPart(filepath.Join(dir, "parts", "0"))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, stored.Graph.Close()) })
			return stored
		}
	},
}

// TestSinks: every Sink has what it took, however the rows are divided into batches, of which some are empty:
// features, dense and sparse, and edges with weights and features. What Written returns are the in-edges,
// before the part is complete.
func TestSinks(t *testing.T) {
	for name, begin := range sinks {
		for _, make := range []func() *Graph{dense, sparse} {
			for _, batch := range []int{1, 2, 100} {
				t.Run(name, func(t *testing.T) {
					want := part(make())
					announced := *want.Graph
					announced.Types = []VertexType{{Frame: Frame{
						Count:  want.Graph.Vertices(),
						Labels: want.Graph.Types[0].Labels, Splits: want.Graph.Types[0].Splits,
					}}}
					announced.Relations = []Relation{{}}
					to, end := begin(t, &Part{Graph: &announced, IDs: want.IDs, Whole: want.Whole})
					take(t, to, want, batch)

					written, err := to.Written(0)
					require.NoError(t, err)
					in := &written.Relations[0]
					assert.Equal(t, want.Graph.Relations[0].Indptr, in.Indptr, "rows")
					assert.Equal(t, want.Graph.Relations[0].Sources, in.Sources, "sources")
					require.NoError(t, written.Close())

					got := end()
					got.Graph.Metric, got.Graph.Provenance = want.Graph.Metric, want.Graph.Provenance
					assert.Equal(t, "", same(want.Graph, got.Graph), "in-edges and vertices")
					assert.Equal(t, want.Out[0].Indptr, got.Out[0].Indptr, "rows of out-edges")
					assert.Equal(t, want.Out[0].Sources, got.Out[0].Sources, "targets")
					assert.Equal(t, want.Out[0].Weights, got.Out[0].Weights, "weights of out-edges")
				})
			}
		}
	}
}

// take gives a part to a Sink in batches of so many rows, with an empty one before each.
func take(t *testing.T, to Sink, p *Part, batch int) {
	t.Helper()
	x := &p.Graph.Types[0].Features
	stored := -1
	if x.Sparse() {
		stored = len(x.Data)
	}
	require.NoError(t, to.Features(0, x.Columns, stored, func(write func(*Features) error) error {
		return inRows(p.Graph.Vertices(), batch, func(lo, hi int) error { return write(x.rowsOf(lo, hi)) })
	}))
	in, out := &p.Graph.Relations[0], &p.Out[0]
	for _, e := range []struct {
		edges *Relation
		take  func(r int, edges int64, like *Relation, batches Batches[*Relation]) error
	}{{in, to.In}, {out, to.Out}} {
		require.NoError(t, e.take(0, int64(len(e.edges.Sources)), e.edges,
			func(write func(*Relation) error) error {
				return inRows(len(e.edges.Indptr)-1, batch, func(lo, hi int) error {
					return write(e.edges.rowsOf(lo, hi))
				})
			}))
	}
}

// inRows calls f with ranges of so many rows, and with an empty range before each.
func inRows(rows, batch int, f func(lo, hi int) error) error {
	for lo := 0; lo < rows; lo += batch {
		if err := f(lo, lo); err != nil {
			return err
		}
		if err := f(lo, min(rows, lo+batch)); err != nil {
			return err
		}
	}
	return nil
}

// rowsOf are rows lo to hi.
func (f *Features) rowsOf(lo, hi int) *Features {
	if !f.Sparse() {
		return &Features{Columns: f.Columns, Dense: f.Dense[lo*f.Columns : hi*f.Columns]}
	}
	from, to := f.Indptr[lo], f.Indptr[hi]
	return &Features{
		Columns: f.Columns, Indptr: fromZero(f.Indptr[lo : hi+1]), Indices: f.Indices[from:to],
		Data: f.Data[from:to],
	}
}

// rowsOf are the edges of rows lo to hi.
func (r *Relation) rowsOf(lo, hi int) *Relation {
	from, to := r.Indptr[lo], r.Indptr[hi]
	rows := &Relation{Indptr: fromZero(r.Indptr[lo : hi+1]), Sources: r.Sources[from:to]}
	if r.Weights != nil {
		rows.Weights = r.Weights[from:to]
	}
	if n := int64(r.Features.Columns); n > 0 {
		rows.Features = Features{Columns: int(n), Dense: r.Features.Dense[from*n : to*n]}
	}
	return rows
}

// fromZero are the ends of rows, of which the first begins at 0.
func fromZero(indptr []int64) []int64 {
	ends := slices.Clone(indptr)
	for k := range ends {
		ends[k] -= indptr[0]
	}
	return ends
}

// graphSinks begin a whole graph in each implementation of Sink, as sinks do.
var graphSinks = map[string]func(t *testing.T, bare *Graph) (to Sink, end func() *Graph){
	"in memory": func(_ *testing.T, bare *Graph) (Sink, func() *Graph) {
		return Hold(&Part{Graph: bare}), func() *Graph { return bare }
	},
	"a store": func(t *testing.T, bare *Graph) (Sink, func() *Graph) {
		dir := filepath.Join(t.TempDir(), "store")
		w, err := Create(dir, bare)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.Abort()) }) // nothing to do after Close
		return w, func() *Graph {
			require.NoError(t, w.Close())
			stored, err := Open(dir)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, stored.Close()) })
			return stored
		}
	},
}

// TestSinksOfGraphs: a Sink of a whole graph also takes classes and splits.
func TestSinksOfGraphs(t *testing.T) {
	g, p := batches()
	for name, begin := range graphSinks {
		t.Run(name, func(t *testing.T) {
			bare := g.Copy()
			bare.Types[0].Splits, bare.Types[0].Labels.Class, bare.Types[0].Features.Dense = nil, nil, nil
			bare.Relations = []Relation{{Indptr: []int64{0}}}
			to, end := begin(t, bare)
			require.NoError(t, to.In(0, 6, &Relation{}, each(p.rows)))
			var rows []*Features
			for _, x := range p.features {
				rows = append(rows, &Features{Columns: 3, Dense: x})
			}
			require.NoError(t, to.Features(0, 3, -1, each(rows)))
			require.NoError(t, to.Classes(each(p.classes)))
			require.NoError(t, to.Splits(p.splits))
			assert.Equal(t, "", same(g, end()), "the graph")
		})
	}
}

// labelledEdges is a graph of two vertices with labels of its edges 0 → 0, 1 → 0 and 0 → 1.
func labelledEdges(labels Labels, by *SplitBy) *Graph {
	g := Of(Relation{Indptr: []int64{0, 2, 3}, Sources: []int32{0, 1, 0}})
	labels.Column = "rating"
	g.Relations[0].Labels, g.Relations[0].SplitBy = labels, by
	return g
}

// bareEdges is a graph without the rows of its edges and of their labels, and batches of these: the edges
// into a vertex each, and none between.
func bareEdges(g *Graph) (bare *Graph, rows []*Relation) {
	r := &g.Relations[0]
	bare = g.Copy()
	bare.Relations = []Relation{{Indptr: []int64{0}, Frame: r.Announced()}}
	batch := func(edges ...int64) *Relation {
		b := &Relation{Indptr: []int64{0, int64(len(edges))}}
		for _, k := range edges {
			b.Sources = append(b.Sources, r.Sources[k])
		}
		b.Labels, b.SplitBy = r.OfRows(edges), r.SplitBy.OfRows(edges)
		return b
	}
	return bare, []*Relation{batch(0, 1), {Indptr: []int64{0}}, batch(2)}
}

// TestSinksOfLabelledEdges: every Sink keeps the labels of edges, of each kind, with the values that divide
// them. What was announced stays as it was.
func TestSinksOfLabelledEdges(t *testing.T) {
	nan := float32(math.NaN())
	for kind, g := range map[string]*Graph{
		"classes": labelledEdges(Labels{Classes: 2, Class: []int64{1, -1, 0}, Names: []string{"a", ""}}, nil),
		"several": labelledEdges(Labels{Classes: 2, Multi: []float32{0, 1, 1, 1, nan, 0}}, nil),
		"values": labelledEdges(Labels{Columns: 2, Values: []float32{.5, 2, nan, 3, 4, 5}},
			&SplitBy{Column: "at", Kind: ByNumber, Values: []float64{30, 10, 20}}),
	} {
		for name, begin := range graphSinks {
			t.Run(kind+"/"+name, func(t *testing.T) {
				bare, rows := bareEdges(g)
				announced := bare.Relations[0].SplitBy
				to, end := begin(t, bare)
				require.NoError(t, to.In(0, 3, &Relation{}, each(rows)))
				assert.Equal(t, "", same(g, end()), "the graph")
				if announced != nil {
					assert.Len(t, announced.Values, 0)
				}
			})
		}
	}
}

// TestSinksMissNoLabels: a Sink refuses labels of edges that it would lose, and edges without those that were
// announced.
func TestSinksMissNoLabels(t *testing.T) {
	by := func() *SplitBy { return &SplitBy{Column: "at", Kind: ByNumber, Values: []float64{30, 10, 20}} }
	classes := func() Labels { return Labels{Classes: 2, Class: []int64{1, -1, 0}} }
	const labels, values = "are not what was announced: labels ", "other values to divide them by"
	for what, c := range map[string]struct {
		change func(bare, first, none *Frame) // of the graph, of a batch of two edges, and of one of none
		want   string
	}{
		"labels not announced": {func(bare, _, _ *Frame) { *bare = Frame{} }, labels + `""`},
		"no labels":            {func(_, first, _ *Frame) { *first = Frame{} }, labels + `"rating"`},
		"other labels": {
			func(_, first, _ *Frame) { first.Labels.Column = "stars" }, `2 edges with 2 labels "stars" ` + labels,
		},
		"fewer labels": {
			func(_, first, _ *Frame) { first.Labels.Class = first.Labels.Class[:1] },
			`2 edges with 1 labels "rating" ` + labels,
		},
		"labels of no edges": {
			func(_, first, none *Frame) { none.Labels = first.Labels }, `0 edges with 2 labels "rating" ` + labels,
		},
		"another kind": {
			func(_, first, _ *Frame) {
				first.Labels = Labels{Column: "rating", Columns: 1, Values: []float32{1, 2}}
			}, labels,
		},
		"values not announced": {func(bare, _, _ *Frame) { bare.SplitBy = nil }, values},
		"no values":            {func(_, first, _ *Frame) { first.SplitBy = nil }, values},
		"fewer values": {
			func(_, first, _ *Frame) { first.SplitBy.Values = first.SplitBy.Values[:1] }, values,
		},
	} {
		for name, begin := range graphSinks {
			t.Run(what+"/"+name, func(t *testing.T) {
				bare, rows := bareEdges(labelledEdges(classes(), by()))
				c.change(&bare.Relations[0].Frame, &rows[0].Frame, &rows[1].Frame)
				to, _ := begin(t, bare)
				assert.ErrorContains(t, to.In(0, 3, &Relation{}, each(rows)), c.want)
			})
		}
	}
	for name, begin := range sinks {
		t.Run("labels of edges out/"+name, func(t *testing.T) {
			label := Frame{Labels: Labels{Column: "rating", Classes: 1, Class: []int64{0}}}
			whole := Of(Relation{Indptr: []int64{0, 0}, Frame: label.Announced()})
			to, _ := begin(t, &Part{Graph: whole, IDs: [][]int32{{0}}, Whole: []int{2}})
			assert.ErrorContains(t, to.Out(0, 1, &Relation{}, each([]*Relation{{
				Indptr: []int64{0, 1}, Sources: []int32{1}, Frame: label,
			}})), labels+`""`)
		})
	}
}
