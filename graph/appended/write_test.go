package appended

import (
	"path/filepath"
	"testing"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/require"
)

// small is a graph of two types and three vertices with all that a store can have, and an addition to it.
func small(t *testing.T) (*graph.Graph, *Addition) {
	t.Helper()
	table := func(ages int64) *columns.Table {
		return &columns.Table{
			Path: "p.csv", ID: "id",
			Columns: columns.List{{Name: "age", Kind: columns.Number, Missing: ages}},
		}
	}
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Type: "person",
			Frame: graph.Frame{
				Count: 2, Features: graph.Features{Columns: 1, Dense: []float32{1, 2}},
				Names: []string{"a", "b"}, Table: table(1),
				Labels: graph.Labels{Classes: 2, Class: []int64{1, 0}, Names: []string{"x", "y"}},
				Splits: []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{}}},
			},
		}, {
			Type: "shop", Frame: graph.Frame{Count: 1, Features: graph.Features{
				Columns: 3, Indptr: []int64{0, 1}, Indices: []int32{2},
				Data: []float32{7},
			}},
		}},
		Metric: "macro-f1",
	}
	buys, err := graph.NewBipartite(2, 1, graph.Edges{
		Source: []int32{1, 0}, Target: []int32{0, 0}, Weights: []float32{10, 20},
	})
	require.NoError(t, err)
	knows, err := graph.NewRelation(2, graph.Edges{
		Source: []int32{1, 1}, Target: []int32{0, 0}, Features: []float32{1, 2, 3, 4}, FeatureColumns: 2,
	})
	require.NoError(t, err)
	buys.Source, buys.Name, buys.Target = "person", "buys", "shop"
	knows.Source, knows.Name, knows.Target = "person", "knows", "person"
	knows.EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 1}, {1, 0}, {}}}
	knows.Labels = graph.Labels{Column: "years", Columns: 1, Values: []float32{.5, 2}}
	knows.Splits = []graph.Split{{Train: []int64{1}, Val: []int64{}, Test: []int64{0}}}
	g.Relations = []graph.Relation{buys, knows}
	return g, &Addition{
		Frames: []graph.Frame{{}, {Labels: graph.Labels{Columns: 1, Values: []float32{7, 8, 9}}}},
		Types: []NewVertices{
			{
				Count: 2, Features: graph.Features{Columns: 1, Dense: []float32{3, 4}},
				Names: []string{"c", "d"}, Table: table(2),
			},
			{
				Count: 1,
				Features: graph.Features{
					Columns: 3, Indptr: []int64{0, 1}, Indices: []int32{0},
					Data: []float32{8},
				},
			},
		},
		Labels: graph.Labels{Classes: 2, Class: []int64{-1, 1}},
		Edges: []graph.Edges{
			{Source: []int32{3, 0, 2}, Target: []int32{0, 0, 1}, Weights: []float32{30, 40, 50}},
			{
				Source: []int32{1, 0, 3}, Target: []int32{0, 0, 2}, Features: []float32{5, 6, 7, 8, 9, 10},
				FeatureColumns: 2,
			},
		},
	}
}

// TestWrite: the store has what the graph has, with new vertices behind the old ones and new edges between
// them, behind the old ones from the same vertex.
func TestWrite(t *testing.T) {
	g, added := small(t)
	g.Relations[0].Symmetric = true // as far as anybody knows
	with, err := On(g).With(added)
	require.NoError(t, err)
	assert.Equal(t, 2, int(with.Repeated())) // 0→0 of buys and 1→0 of knows
	store := filepath.Join(t.TempDir(), "store")
	written, err := with.Write(store, "both", nil)
	require.NoError(t, err)
	assert.Equal(t, 10, int(written.Edges))
	assert.Equal(t, true, written.Weighted)
	assert.Equal(t, false, written.Relations[0].Symmetric)
	got, err := graph.Open(store)
	require.NoError(t, err)
	defer got.Close()
	assert.Equal(t, "both", got.Provenance)
	assert.Equal(t, "macro-f1", got.Metric)
	assert.Equal(t, []float32{1, 2, 3, 4}, got.Types[0].Features.Dense)
	assert.Equal(t, []int64{1, 0, -1, 1}, got.Types[0].Labels.Class)
	assert.Equal(t, []string{"x", "y"}, got.Types[0].Labels.Names)
	assert.Equal(t, []string{"a", "b", "c", "d"}, got.Types[0].Names)
	assert.Equal(t, int64(2), got.Types[0].Table.Columns[0].Missing)
	assert.Equal(t, g.Types[0].Splits, got.Types[0].Splits)
	shop := &got.Types[1]
	assert.Equal(t, graph.Features{
		Columns: 3, Indptr: []int64{0, 1, 2}, Indices: []int32{2, 0}, Data: []float32{7, 8},
	}, shop.Features)
	buys, knows := &got.Relations[0], &got.Relations[1]
	assert.Equal(t, []int64{0, 4, 5}, buys.Indptr)
	assert.Equal(t, []int32{0, 0, 1, 3, 2}, buys.Sources)
	assert.Equal(t, []float32{20, 40, 10, 30, 50}, buys.Weights)
	assert.Equal(t, []int64{0, 4, 4, 5, 5}, knows.Indptr)
	assert.Equal(t, []int32{0, 1, 1, 1, 3}, knows.Sources)
	assert.Equal(t, []float32{7, 8, 1, 2, 3, 4, 5, 6, 9, 10}, knows.Features.Dense)
	assert.Equal(t, []float32{8, .5, 2, 7, 9}, knows.Labels.Values)
	assert.Equal(t, []graph.Split{{Train: []int64{2}, Val: []int64{}, Test: []int64{1}}},
		knows.Splits)
	assert.Equal(t, "years", knows.Labels.Column)
	assert.Equal(t, 5, written.LabelledEdges)
	splits, err := graph.OpenRelations(store)
	require.NoError(t, err)
	defer splits.Close()
	assert.Equal(t, g.Relations[1].EdgeSplit.Edges, splits.Relations[1].EdgeSplit.Edges)
}

// TestWriteNothing: without an addition the store is that of the graph.
func TestWriteNothing(t *testing.T) {
	g, _ := small(t)
	g.Relations[0].Symmetric = true
	with, err := On(g).With(nil)
	require.NoError(t, err)
	dir := t.TempDir()
	written, err := with.Write(filepath.Join(dir, "got"), g.Provenance, nil)
	require.NoError(t, err)
	assert.Equal(t, true, written.Relations[0].Symmetric)
	require.NoError(t, g.Write(filepath.Join(dir, "want")))
	assert.Equal(t, streamedtest.Files(t, filepath.Join(dir, "want")),
		streamedtest.Files(t, filepath.Join(dir, "got")))
}

// TestWriteFullDisk: a disk that is full at the last byte is an error, and leaves nothing.
func TestWriteFullDisk(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		g, added := small(t)
		with, err := On(g).With(added)
		require.NoError(t, err)
		_, err = with.Write(dir, "both", nil)
		return err
	})
}

// TestWriteUnlabelledEdges: new edges without labels are not labelled, and labels that are not of the kind of
// the graph's are refused.
func TestWriteUnlabelledEdges(t *testing.T) {
	g, added := small(t)
	added.Frames = nil
	with, err := On(g).With(added)
	require.NoError(t, err)
	store := filepath.Join(t.TempDir(), "store")
	written, err := with.Write(store, "both", nil)
	require.NoError(t, err)
	assert.Equal(t, 2, written.LabelledEdges)
	got, err := graph.Open(store)
	require.NoError(t, err)
	defer got.Close()
	for k, labelled := range []bool{false, true, true, false, false} {
		assert.Equal(t, labelled, got.Relations[1].Labels.Labelled(int64(k)))
	}
	const kind = "labels of 3 edges are not of the kind of the graph's"
	for _, c := range []struct {
		relation int
		labels   graph.Labels
		want     string
	}{
		{0, graph.Labels{Columns: 1, Values: []float32{7, 8, 9}}, "the graph's edges have no labels, and the new "},
		{1, graph.Labels{Classes: 2, Class: []int64{1, 0, 1}}, kind},
		{1, graph.Labels{Columns: 1, Values: []float32{7}}, kind},
	} {
		added.Frames = make([]graph.Frame, 2)
		added.Frames[c.relation].Labels = c.labels
		_, err := On(g).With(added)
		assert.Refused(t, err, c.want)
	}
	// Edges that are divided by dates have one each, and those of parts need none.
	added.Frames = nil
	by := &graph.SplitBy{Column: "at", Kind: graph.ByPart, Values: []float64{1, 2}}
	g.Relations[1].SplitBy = by
	written, err = with.Write(filepath.Join(t.TempDir(), "parts"), "both", nil)
	require.NoError(t, err)
	assert.Equal(t, 2, written.LabelledEdges)
	by.Kind = graph.ByDate
	_, err = with.Write(filepath.Join(t.TempDir(), "dates"), "both", nil)
	assert.Refused(t, err, "the graph's edges are divided by at, which new ones lack")
	added.Frames = []graph.Frame{{}, {SplitBy: &graph.SplitBy{Values: []float64{7, 8, 9}}}}
	dates := filepath.Join(t.TempDir(), "dates")
	_, err = with.Write(dates, "both", nil)
	require.NoError(t, err)
	later, err := graph.Open(dates)
	require.NoError(t, err)
	defer later.Close()
	assert.Equal(t, []float64{8, 1, 2, 7, 9}, later.Relations[1].SplitBy.Values)
}

// TestWrittenSplits: what is said of a store's labels of edges is of the first relation that has some, and so
// are the splits.
func TestWrittenSplits(t *testing.T) {
	g, added := small(t)
	added.Frames = nil
	buys := &g.Relations[0]
	buys.Labels = graph.Labels{Column: "sum", Columns: 1, Values: []float32{1, 2}}
	buys.Splits = []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{}}}
	with, err := On(g).With(added)
	require.NoError(t, err)
	written, err := with.Write(filepath.Join(t.TempDir(), "store"), "both", nil)
	require.NoError(t, err)
	assert.Equal(t, "sum", written.Labelled.Labels.Column)
	// 0→0 and 1→0 have the new edge 0→0 between them.
	assert.Equal(t, []graph.Split{{Train: []int64{0}, Val: []int64{2}, Test: []int64{}}},
		written.Labelled.Splits)
	assert.Equal(t, 4, written.LabelledEdges)
}
