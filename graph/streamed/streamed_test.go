package streamed_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// list is a graph of so many vertices whose edges come in these batches.
func list(vertices int, batches ...graph.Edges) *streamed.Graph {
	e := streamed.Edges{Refuse: func(err error) error { return refusal.Errorf("list: %w", err) }}
	for _, batch := range batches {
		e.Count += int64(batch.Len())
		e.Columns, e.Weighted = batch.FeatureColumns, batch.Weights != nil
	}
	e.Each = func(do func(graph.Edges) error) error {
		for _, batch := range batches {
			if err := do(batch); err != nil {
				return err
			}
		}
		return nil
	}
	return &streamed.Graph{
		InMemory:  &graph.Graph{Types: []graph.VertexType{{Frame: graph.Frame{Count: vertices}}}},
		Source:    "source",
		Relations: []streamed.Relation{{Edges: e}},
	}
}

// Batches are one list: edges are sorted by target and source, and parallel ones stay in their order. Of
// these Symmetrize keeps the first one that was listed.
func TestBatches(t *testing.T) {
	batches := []graph.Edges{
		{
			Source: []int32{2, 0}, Target: []int32{1, 1}, Weights: []float32{1, 2},
			Features: []float32{10, 11, 20, 21}, FeatureColumns: 2,
		},
		{Source: []int32{}, Target: []int32{}, Weights: []float32{}, FeatureColumns: 2},
		{
			Source: []int32{2, 1}, Target: []int32{1, 3}, Weights: []float32{3, 4},
			Features: []float32{30, 31, 40, 41}, FeatureColumns: 2,
		},
	}
	for _, c := range []struct {
		symmetrize bool
		want       graph.Relation
		warnings   []string
	}{
		{false, graph.Relation{
			Indptr: []int64{0, 0, 3, 3, 4}, Sources: []int32{0, 2, 2, 1}, Weights: []float32{2, 1, 3, 4},
			Frame: graph.Frame{
				Features: graph.Features{Dense: []float32{20, 21, 10, 11, 30, 31, 40, 41}, Columns: 2},
			},
		}, nil},
		{true, graph.Relation{
			Indptr: []int64{0, 1, 4, 5, 6}, Sources: []int32{1, 0, 2, 3, 1, 1},
			Weights: []float32{2, 2, 1, 4, 1, 4},
			Frame: graph.Frame{
				Features: graph.Features{
					Dense: []float32{20, 21, 20, 21, 10, 11, 40, 41, 10, 11, 40, 41}, Columns: 2,
				},
			},
			Symmetric: true,
		}, []string{"4 edges made undirected: 3 added, 1 duplicates left out with their weights: " +
			"the first of each pair of vertices stays"}},
	} {
		g := list(4, batches...)
		g.Symmetrize = c.symmetrize
		whole, err := g.Read()
		require.NoError(t, err)
		diff := cmp.Diff(c.want, whole.Relations[0])
		if diff != "" || whole.Notes != nil || !slices.Equal(whole.Warnings, c.warnings) {
			t.Errorf("symmetrize %v: notes %q, warnings %q, (-want +got):\n%s", c.symmetrize, whole.Notes,
				whole.Warnings, diff)
		}
		streamedtest.Equal(t, g, whole)
	}
}

// A graph may have no edge, and say that edges have weights and features.
func TestWithoutEdges(t *testing.T) {
	for _, symmetrize := range []bool{false, true} {
		g := list(3)
		r := &g.Relations[0]
		r.Weighted, r.Columns, g.Symmetrize = true, 2, symmetrize
		whole, err := g.Read()
		require.NoError(t, err)
		streamedtest.Equal(t, g, whole)
	}
}

// What is refused, is refused in the same words in a stream and in memory; the disk is not the list's fault.
func TestRefused(t *testing.T) {
	inf := float32(math.Inf(1))
	edge := func(u, v int32) graph.Edges { return graph.Edges{Source: []int32{0, u}, Target: []int32{0, v}} }
	graphs := list(3, edge(0, 2))
	graphs.InMemory.Types[0].GraphOf, graphs.InMemory.Graphs = []int32{0, 1, 1}, 2
	split := list(3, edge(1, 0))
	split.Relations[0].EdgeSplit = &graph.EdgeSplit{Edges: [3][]int32{{0, 3}}}
	splits := list(3, edge(1, 0))
	splits.InMemory.Types[0].Splits = []graph.Split{{Train: []int64{1}, Val: []int64{1}}}
	infinite, rows := list(2, edge(1, 0)), list(2, edge(1, 0))
	infinite.FromEdges = func(*graph.Relation) ([]float32, error) { return []float32{0, inf}, nil }
	infinite.Relations[0].Columns = 1
	infinite.Relations[0].Each = func(do func(graph.Edges) error) error {
		return do(graph.Edges{
			Source: []int32{0}, Target: []int32{1}, Features: []float32{1},
			FeatureColumns: 1,
		})
	}
	rows.Types = []streamed.Type{{Rows: &streamed.RowSource{
		Columns: 1, Each: func(do func([]float32) error) error { return do([]float32{inf, 0}) },
	}}}
	for want, g := range map[string]*streamed.Graph{
		"list: edge 3 (2→3) leaves the range of 3 vertices, whose numbers begin at 0": list(3,
			edge(1, 0), edge(2, 3)),
		"list: edge 1 (-1→0) leaves the range of 3 vertices, whose numbers begin at 0": list(3, edge(-1, 0)),
		"source: features: vertex 1 has the value +Inf in column 0":                    infinite,
		"source: features: vertex 0 has the value +Inf in column 0":                    rows,
		"source: train_edges: edge 0 has an end 3, which is outside the range of 3":    split,
		"source: val: split 0: vertex 1 is also in train.npy":                          splits,
		"source: graph_ids: the edge from vertex 0 of graph 0 leads to vertex 2 of graph 1; edges join " +
			"vertices of one graph, so leave the edge or the ids out": graphs,
	} {
		_, err := g.Read()
		if !refusal.Is(err) || err.Error() != want {
			t.Errorf("%v, want the refusal %q", err, want)
			continue
		}
		streamedtest.Refused(t, func() (*streamed.Graph, error) { return g, nil }, err)
	}
	graphs.Symmetrize = true // the edge is named as it is listed
	_, err := graphs.Read()
	assert.ErrorContains(t, err, "the edge from vertex 0 of graph 0 leads to vertex 2 of graph 1",
		"made undirected")
	streamedtest.Refused(t, func() (*streamed.Graph, error) { return graphs, nil }, err)
	full := list(3)
	full.Relations[0].Each = func(func(graph.Edges) error) error { return syscall.ENOSPC }
	dir := t.TempDir()
	if _, err := full.Write(filepath.Join(dir, "store")); !errors.Is(err, syscall.ENOSPC) || refusal.Is(err) {
		t.Errorf("error %v, want that of the disk", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A store that is large enough for a record of its checks knows that its edges are symmetric, where their
// list says so, and where each is stored in both directions.
func TestSymmetric(t *testing.T) {
	const vertices = 70_000 // a store of more than a megabyte
	ring := func(both bool) (e graph.Edges) {
		for v := range int32(vertices) {
			e.Source, e.Target = append(e.Source, v), append(e.Target, (v+1)%vertices)
			if both {
				e.Source, e.Target = append(e.Source, (v+1)%vertices), append(e.Target, v)
			}
		}
		return e
	}
	for _, c := range []struct{ both, symmetric, symmetrize, want bool }{
		{false, false, false, false},
		{true, true, false, true},
		{false, false, true, true},
		{true, true, true, true},
	} {
		g, dir := list(vertices, ring(c.both)), filepath.Join(t.TempDir(), "store")
		g.Relations[0].Symmetric, g.Symmetrize = c.symmetric, c.symmetrize
		_, err := g.Write(dir)
		require.NoError(t, err)
		written, err := graph.Open(dir)
		require.NoError(t, err)
		if written.Relations[0].Symmetric != c.want {
			t.Errorf("%+v: symmetric %v", c, written.Relations[0].Symmetric)
		}
		assert.NoError(t, written.Close())
	}
}

// TestProgress: edges and vertices are counted before each batch, of how many there are.
func TestProgress(t *testing.T) {
	batch := graph.Edges{Source: []int32{0, 1}, Target: []int32{1, 2}}
	for _, known := range []bool{true, false} {
		g := list(3, batch, batch)
		if !known {
			g.Relations[0].Count, g.Relations[0].About, g.Complete = streamed.Unknown, 4,
				func() error { return nil }
		}
		var told []string
		g.Progress = func(stage string, done, all int64) {
			told = append(told, fmt.Sprint(stage, " ", done, " of ", all))
		}
		_, err := g.Write(filepath.Join(t.TempDir(), "store"))
		require.NoError(t, err)
		want := []string{"reading edges 0 of 4", "reading edges 2 of 4", "sorting edges 0 of 3"}
		if !known {
			want = want[2:]
		}
		told = slices.DeleteFunc(told, func(s string) bool {
			return strings.HasPrefix(s, "writing")
		})
		assert.Equal(t, want, told, "told")
	}
}

// typed is a graph of two types and two relations, of which users have dense features in the source, items
// sparse ones in memory, and items labels.
func typed() *streamed.Graph {
	edges := func(e graph.Edges) streamed.Edges {
		return streamed.Listed(e, func(err error) error { return refusal.Errorf("list: %w", err) })
	}
	rows := func(do func([]float32) error) error {
		return errors.Join(do([]float32{1, 2}), do([]float32{3, 4, 5, 6}))
	}
	items := graph.VertexType{
		Type: "item", Frame: graph.Frame{Count: 2, Features: graph.Features{
			Columns: 4, Indptr: []int64{0, 1, 2}, Indices: []int32{3, 0}, Data: []float32{7, 8},
		}},
	}
	items.Labels = graph.Labels{Classes: 2, Class: []int64{1, 0}}
	items.Splits = []graph.Split{{Train: []int64{0}, Test: []int64{1}}}
	g := &graph.Graph{}
	g.Types = []graph.VertexType{
		items, {Type: "user", Frame: graph.Frame{Count: 3, Names: []string{"a", "b", "c"}}},
	}
	buys := graph.Edges{Source: []int32{2, 0, 2}, Target: []int32{1, 0, 1}, Weights: []float32{1, 2, 3}}
	knows := graph.Edges{
		Source: []int32{2, 0}, Target: []int32{1, 2}, FeatureColumns: 1, Features: []float32{5, 6},
	}
	split := &graph.EdgeSplit{Edges: [3][]int32{{2, 1}, {0, 0}, {1, 1}}}
	return &streamed.Graph{
		InMemory: g, Source: "source",
		Relations: []streamed.Relation{
			{Source: "user", Name: "buys", Target: "item", Edges: edges(buys), EdgeSplit: split},
			{Source: "user", Name: "knows", Target: "user", Edges: edges(knows)},
		},
		Types: []streamed.Type{{}, {
			Rows: &streamed.RowSource{Columns: 2, Each: rows, Refuse: func(err error) error { return err }},
			Arrays: []streamed.Array{
				{ArrayShape: graph.ArrayShape{Name: "node_age", Dtype: graph.Int64, Columns: 2}, Each: rows},
			},
		}},
	}
}

// A graph of several types and relations has the same store in a stream as in memory, and the same refusals.
func TestTyped(t *testing.T) {
	whole, err := typed().Read()
	require.NoError(t, err)
	users := whole.Types[1]
	assert.Equal(t, []float32{1, 2, 3, 4, 5, 6}, users.Features.Dense, "users %+v", users)
	assert.Equal(t, []int64{1, 2, 3, 4, 5, 6}, users.Arrays[0].Ints, "users %+v", users)
	if r := whole.Relations[0]; !slices.Equal(r.Sources, []int32{0, 2, 2}) ||
		!slices.Equal(r.Weights, []float32{2, 1, 3}) {
		t.Errorf("relation %+v", r)
	}
	streamedtest.Equal(t, typed(), whole)
	streamedtest.Equal(t, streamed.Of(whole, "source"), whole)
	for want, spoil := range map[string]func(*streamed.Graph){
		"list: edge 0 (2→1) leaves the range of 2 vertices, whose numbers begin at 0": func(g *streamed.Graph) {
			g.Relations[1].Source = "item"
			g.Relations[1].Target = "item"
		},
		"source: vertices/user/names.json: 2 names for 3 vertices": func(g *streamed.Graph) {
			g.InMemory.Types[1].Names = []string{"a", "b"}
		},
		"symmetrize: the graph has 2 vertex types and 2 relations": func(g *streamed.Graph) {
			g.Symmetrize = true
		},
	} {
		spoilt := typed()
		spoil(spoilt)
		_, err := spoilt.Read()
		if !refusal.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want the refusal %q", err, want)
			continue
		}
		streamedtest.Refused(t, func() (*streamed.Graph, error) {
			again := typed()
			spoil(again)
			return again, nil
		}, err)
	}
	g, added := typed(), ""
	g.Add = func(store string) error {
		added = store
		return os.WriteFile(filepath.Join(store, "more"), nil, 0o666)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := g.Write(dir); err != nil || added == "" {
		t.Fatal(added, err)
	}
	_, err = os.Stat(filepath.Join(dir, "more"))
	assert.NoError(t, err)
}
