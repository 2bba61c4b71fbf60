package partition

import (
	"encoding/json"
	"fmt"
	"testing"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestManyRelations: the halos of 8,000 relations are stored and read again. More partitions than can be read
// again are refused before they are made.
func TestManyRelations(t *testing.T) {
	const relations = 8000
	r := &record{Format: formatVersion}
	r.K = 2
	for range relations {
		r.Relations = append(r.Relations, Halo{square[int](2), square[int](2)})
	}
	r.Vertices, r.Edges, r.TrainVertices = make([]int, 2), make([]int64, 2), make([]int, 2)
	r.HaloRows, r.HaloRowsOut, r.Cut = square[int](2), square[int](2), square[int64](2)
	for i := range 4 * relations {
		r.Store = append(r.Store, graph.FileRecord{Name: fmt.Sprint(i)})
	}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	if _, err := parseRecord(text); err != nil {
		t.Error(err)
	}
	g := made(t, 300, 3, kinds["bare"], 1)
	one := g.Relations[0]
	g.Type, g.Count, g.Relations = "a", g.Vertices(), nil
	for i := range 120 {
		r := one
		r.Source, r.Name, r.Target = "a", fmt.Sprint("r", i), "a"
		g.Relations = append(g.Relations, r)
	}
	if _, err := Assign(t.Context(), g, Options{K: 93, Method: Random}); err != nil {
		t.Error(err)
	}
	_, err = Assign(t.Context(), g, Options{K: 94, Method: Random})
	if want := "94 partitions: a graph of 120 relations is divided into 93 at most"; !refusal.Is(err) ||
		err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
