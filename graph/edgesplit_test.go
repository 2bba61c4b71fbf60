package graph

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// divided is a graph of two types whose relation from a to b has a split.
func divided(t *testing.T, s *EdgeSplit) *Graph {
	t.Helper()
	g := &Graph{Types: []VertexType{{Type: "b", Frame: Frame{Count: 3}}, {Type: "a", Frame: Frame{Count: 5}}}}
	r, err := NewBipartite(5, 3, Edges{Source: []int32{4, 0}, Target: []int32{2, 1}})
	require.NoError(t, err)
	r.Source, r.Name, r.Target, r.EdgeSplit = "a", "x", "b", s
	g.Relations = []Relation{r}
	return g
}

// TestEdgeSplitStored: a split of edges is stored and read again, in each form of negative edges.
func TestEdgeSplitStored(t *testing.T) {
	edges := [3][]int32{{4, 2, 0, 1, 4, 2}, {3, 0, 3, 0}, {}}
	for _, s := range []*EdgeSplit{
		{Edges: edges},
		{Edges: edges, Negatives: SharedNegatives, Negative: [3][]int32{nil, {1, 2}, {}}},
		{Edges: edges, Negatives: TargetNegatives, Negative: [3][]int32{nil, {1, 2, 0, 0, 2, 1}, {}}},
	} {
		g, dir := divided(t, s), filepath.Join(t.TempDir(), "store")
		require.NoError(t, g.Write(dir))
		stored, err := Open(dir)
		require.NoError(t, err)
		alone, err := OpenRelations(dir)
		require.NoError(t, err)
		for _, got := range []*Graph{stored, alone} {
			split := got.Relations[0].EdgeSplit
			assert.Equal(t, s.Negatives, split.Negatives)
			for part := range s.Edges {
				assert.Equal(t, s.Edges[part], split.Edges[part], "%+v, want %+v", split, s)
				assert.Equal(t, s.Negative[part], split.Negative[part], "%+v, want %+v", split, s)
			}
		}
		assert.NoError(t, stored.CheckStored(dir))
		summary, err := stored.Summarize(nil)
		if err != nil || len(summary.EdgeSplits) != 1 || summary.EdgeSplits[0].Train != 3 ||
			summary.EdgeSplits[0].ValNegatives != s.Given(1) {
			t.Errorf("%+v, %v", summary.EdgeSplits, err)
		}
		files, err := Files(dir)
		require.NoError(t, err)
		for _, name := range files {
			_, err := os.Stat(filepath.Join(dir, name))
			assert.NoError(t, err)
		}
		want := 3
		if s.Negatives != NoNegatives {
			want = 5
		}
		n := 0
		for _, name := range files {
			if base := filepath.Base(name); slices.Contains(splitEdgeFiles[:], base) ||
				slices.Contains(splitNegativeFile[1:], base) {
				n++
			}
		}
		assert.Equal(t, want, n, "files of the split in %v", files)
		// A changed id is found at the next opening.
		file := filepath.Join(dir, "edges", "a__x__b", "val_edges.npy")
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		data[len(data)-1] = 1
		require.NoError(t, os.WriteFile(file, data, 0o666))
		for _, open := range []func(string) (*Graph, error){Open, OpenRelations} {
			_, err := open(dir)
			assert.RefusedFor(t, err, file+": edge 1 has an end ", "", "want a refusal of %s", file)
		}
		for _, g := range []*Graph{stored, alone} {
			assert.NoError(t, g.Close())
		}
	}
}

// TestEdgeSplitRefused: what is no split is refused by the array.
func TestEdgeSplitRefused(t *testing.T) {
	edges := [3][]int32{{4, 2}, {3, 0}, {0, 0}}
	for want, s := range map[string]*EdgeSplit{
		"train_edges: edge 0 has an end 5, which is outside the range of 5": {Edges: [3][]int32{{5, 0}}},
		"test_edges: edge 1 has an end 3, which is outside the range of 3": {Edges: [3][]int32{
			2: {0, 0, 0, 3},
		}},
		"val_edges: 3 ids": {Edges: [3][]int32{1: {0, 0, 0}}},
		"val_negatives: no negative edges for 1 edges": {Edges: edges, Negatives: SharedNegatives},
		"test_negatives: edge 0 has an end -1": {
			Edges: edges, Negatives: SharedNegatives, Negative: [3][]int32{1: {0, 0}, 2: {0, -1}},
		},
		"val_negatives: edge 0 has the negative target 3, which is outside the range of 3": {
			Edges: edges, Negatives: TargetNegatives, Negative: [3][]int32{1: {0, 3}, 2: {0}},
		},
		`with [0 0 0] negative edges, "other", is not possible`: {Edges: edges, Negatives: "other"},
	} {
		assert.Refused(t, divided(t, s).Check(), want)
	}
	g := divided(t, &EdgeSplit{
		Edges: edges, Negatives: TargetNegatives, Negative: [3][]int32{1: {0}, 2: {0}},
	})
	g.Relations = append(g.Relations, g.Relations[0])
	g.Relations[1].Name = "y"
	g.Relations[1].EdgeSplit = &EdgeSplit{
		Edges: edges, Negatives: TargetNegatives, Negative: [3][]int32{1: {0, 1}, 2: {0}},
	}
	assert.Refused(t, g.Check(),
		"a__y__b/val_edges: the relations give their edges different negative edges")
}

// TestEdgeSplitRelabelled: the ids of a split follow those of the vertices, and a vertex with such edges
// stays.
func TestEdgeSplitRelabelled(t *testing.T) {
	r, err := NewRelation(4, Edges{Source: []int32{0}, Target: []int32{1}})
	require.NoError(t, err)
	r.EdgeSplit = &EdgeSplit{
		Edges: [3][]int32{{0, 1}, {2, 1}, {}}, Negatives: SharedNegatives,
		Negative: [3][]int32{1: {1, 2}, 2: {}},
	}
	g := Of(r)
	some, err := g.Induced([]bool{true, true, true, false})
	require.NoError(t, err)
	want := &EdgeSplit{
		Edges: [3][]int32{{0, 1}, {2, 1}, {}}, Negatives: SharedNegatives,
		Negative: [3][]int32{{}, {1, 2}, {}},
	}
	assert.Equal(t, want, some.Relations[0].EdgeSplit)
	both, err := g.Symmetrize()
	if err != nil || both.Relations[0].EdgeSplit != r.EdgeSplit {
		t.Errorf("%+v, %v", both.Relations[0].EdgeSplit, err)
	}
	_, err = g.Induced([]bool{true, true, false, true})
	assert.Refused(t, err, "vertex 2 would go")
}

// TestLeaked: held-out edges that are edges of the graph are counted, in its direction, as often as listed.
func TestLeaked(t *testing.T) {
	for _, test := range []struct {
		edges [3][]int32
		want  int
	}{
		{[3][]int32{{4, 2, 0, 1}, {3, 0}, {1, 2, 2, 1}}, 0},
		{[3][]int32{{}, {4, 2, 3, 0, 4, 2}, {0, 1}}, 3},
	} {
		assert.Equal(t, test.want, divided(t, &EdgeSplit{Edges: test.edges}).Relations[0].Leaked(),
			test.edges)
	}
	assert.Equal(t, 0, divided(t, nil).Relations[0].Leaked(), "without a split")
}
