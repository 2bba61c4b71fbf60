package pyg

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/streamed/streamedtest"
	"weft/internal/require"
)

// TestEdgeSplits: the lists of a split of edges are those that golden.py has of PyG's RandomLinkSplit, and
// those of an edge type of a HeteroData. Where edges have an edge_type a list does not say whose it is.
func TestEdgeSplits(t *testing.T) {
	text, err := os.ReadFile("testdata/links.json")
	require.NoError(t, err)
	var want map[string][]int32
	require.NoError(t, json.Unmarshal(text, &want))
	g, err := Read("testdata/links.pt", Options{})
	require.NoError(t, err)
	s := g.Relations[0].EdgeSplit
	for name, got := range map[string][]int32{
		"train_edges": s.Edges[0], "val_edges": s.Edges[1], "test_edges": s.Edges[2],
		"val_negatives": s.Negative[1], "test_negatives": s.Negative[2],
	} {
		if len(got) == 0 || !slices.Equal(got, want[name]) {
			t.Errorf("%s: %v, want %v", name, got, want[name])
		}
	}
	if s.Negatives != graph.SharedNegatives ||
		slices.ContainsFunc(g.Notes, func(note string) bool { return strings.HasPrefix(note, "left out") }) {
		t.Errorf("%q, %q", s.Negatives, g.Notes)
	}
	g, err = Read("testdata/links-hetero.pt", Options{})
	require.NoError(t, err)
	if s := g.Relations[0].EdgeSplit; s.Negatives != graph.TargetNegatives ||
		!slices.Equal(s.Edges[0], []int32{0, 3, 1, 2}) || !slices.Equal(s.Negative[2], []int32{0, 2, 3}) {
		t.Errorf("%+v", s)
	}
	path := "testdata/refused-links.pt"
	streamedtest.WantRefused(t, opening(path, Options{}), path, "does not say which edge_type each edge has")
}
