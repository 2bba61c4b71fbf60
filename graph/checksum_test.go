package graph

import (
	"testing"

	"weft/internal/assert"
)

// TestChecksum: graphs that differ in an element of one array, or in where one array ends and the next
// begins, have different checksums, and equal graphs the same. What no training reads does not count.
func TestChecksum(t *testing.T) {
	made := func() *Graph {
		cites := must(NewRelation(3, Edges{
			Source: []int32{0, 1, 2}, Target: []int32{1, 2, 2}, Weights: []float32{1, 2, 3},
			Features: []float32{4, 5, 6}, FeatureColumns: 1,
		}))
		cites.Source, cites.Name, cites.Target = "paper", "cites", "paper"
		cites.EdgeSplit = &EdgeSplit{
			Edges: [3][]int32{{0, 1}, {1, 2}, {2, 2}}, Negative: [3][]int32{nil, {0, 2}, {1, 1}},
		}
		writes := must(NewBipartite(2, 3, Edges{Source: []int32{0, 1}, Target: []int32{0, 2}}))
		writes.Source, writes.Name, writes.Target = "author", "writes", "paper"
		return &Graph{
			Type: "paper", Count: 3, GraphOf: []int32{0, 0, 0}, Graphs: 1,
			Relations: []Relation{cites, writes}, Features: Features{Columns: 1, Dense: []float32{1, 2, 3}},
			Labels: Labels{Classes: 2, Class: []int64{0, 1, 1}},
			Splits: []Split{{Train: []int64{0, 1}, Test: []int64{2}}},
			Others: []VertexType{
				{Type: "author", Count: 2, Features: Features{
					Columns: 3, Indptr: []int64{0, 1, 2}, Indices: []int32{2, 0}, Data: []float32{7, 8},
				}},
			},
		}
	}
	want := must(made().Checksum())
	for name, c := range map[string]struct {
		change func(g *Graph)
		counts bool
	}{
		"nothing":                     {func(*Graph) {}, false},
		"an edge's source":            {func(g *Graph) { g.Relations[0].Sources[0]++ }, true},
		"an edge's target":            {func(g *Graph) { g.Relations[0].Indptr[1]++ }, true},
		"a weight":                    {func(g *Graph) { g.Relations[0].Weights[1] = 5 }, true},
		"a feature of an edge":        {func(g *Graph) { g.Relations[0].EdgeFeatures[2] = 5 }, true},
		"an edge of another relation": {func(g *Graph) { g.Relations[1].Sources[1] = 0 }, true},
		"a relation's name":           {func(g *Graph) { g.Relations[1].Name = "wrote" }, true},
		"a relation's source":         {func(g *Graph) { g.Relations[1].Source = "paper" }, true},
		"a relation's target":         {func(g *Graph) { g.Relations[1].Target = "author" }, true},
		"the order of relations": {func(g *Graph) {
			g.Relations[0], g.Relations[1] = g.Relations[1], g.Relations[0]
		}, true},
		"a training edge":            {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[0][0] = 1 }, true},
		"a validation edge":          {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[1][1] = 1 }, true},
		"a test edge":                {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[2][0] = 0 }, true},
		"a negative validation edge": {func(g *Graph) { g.Relations[0].EdgeSplit.Negative[1][0] = 1 }, true},
		"a negative test edge":       {func(g *Graph) { g.Relations[0].EdgeSplit.Negative[2][1] = 0 }, true},
		"no split of edges":          {func(g *Graph) { g.Relations[0].EdgeSplit = nil }, true},
		"a feature":                  {func(g *Graph) { g.Features.Dense[2] = 0 }, true},
		"a sparse feature":           {func(g *Graph) { g.Others[0].Features.Data[0] = 9 }, true},
		"a sparse feature's column":  {func(g *Graph) { g.Others[0].Features.Indices[1] = 1 }, true},
		"a sparse feature's row":     {func(g *Graph) { g.Others[0].Features.Indptr[1] = 2 }, true},
		"a class":                    {func(g *Graph) { g.Labels.Class[0] = 1 }, true},
		"a label of several":         {func(g *Graph) { g.Labels.Multi = []float32{1} }, true},
		"a value":                    {func(g *Graph) { g.Labels.Values = []float32{1} }, true},
		"a split, whose ends move": {func(g *Graph) {
			g.Splits[0] = Split{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}
		}, true},
		"another split":         {func(g *Graph) { g.Splits = append(g.Splits, Split{}) }, true},
		"the graph of a vertex": {func(g *Graph) { g.GraphOf[2] = 1 }, true},
		"no graphs":             {func(g *Graph) { g.GraphOf = nil }, true},
		"names of vertices and classes": {func(g *Graph) {
			g.Names, g.Labels.Names = []string{"a", "b", "c"}, []string{"x", "y"}
		}, false},
		"notes": {func(g *Graph) { g.Notes, g.Provenance = []string{"note"}, "elsewhere" }, false},
	} {
		g := made()
		c.change(g)
		if changed := must(g.Checksum()) != want; changed != c.counts {
			t.Errorf("another one of %s: another checksum %v, want %v", name, changed, c.counts)
		}
	}
	// Sums of graphs without edge features stay, as checkpoints have them
	plain := three()
	plain.GraphOf = nil
	assert.Equal(t, "38 49308d89 14 af457e6f 0 af457e6f 0 af457e6f 0 af457e6f 0 "+
		"af457e6f 0 af457e6f 30 ce6ae2ef 0 ce6ae2ef 0 ce6ae2ef ", must(plain.Checksum()))
}
