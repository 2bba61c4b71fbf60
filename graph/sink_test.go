package graph

import (
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

// TestSinksOfGraphs: a Sink of a whole graph also takes classes and splits.
func TestSinksOfGraphs(t *testing.T) {
	g, p := batches()
	for name, begin := range map[string]func(bare *Graph) (to Sink, end func() *Graph){
		"in memory": func(bare *Graph) (Sink, func() *Graph) {
			return Hold(&Part{Graph: bare}), func() *Graph { return bare }
		},
		"a store": func(bare *Graph) (Sink, func() *Graph) {
			dir := filepath.Join(t.TempDir(), "store")
			w := create(t, dir, bare)
			return w, func() *Graph {
				require.NoError(t, w.Close())
				stored, err := Open(dir)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, stored.Close()) })
				return stored
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bare := g.Copy()
			bare.Types[0].Splits, bare.Types[0].Labels.Class, bare.Types[0].Features.Dense = nil, nil, nil
			bare.Relations = []Relation{{Indptr: []int64{0}}}
			to, end := begin(bare)
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
