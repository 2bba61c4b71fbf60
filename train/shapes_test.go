package train

import (
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/require"
)

// TestEdgeShapes: graphs at the edge of what a graph is train on one worker as on two, one of which may have
// no vertex, no edge or no label. To GCN and GAT, which add self loops, a graph of these alone has no edges.
func TestEdgeShapes(t *testing.T) {
	star := graph.Edges{Source: []int32{1, 2, 3, 4}, Target: []int32{0, 0, 0, 0}}
	shapes := []struct {
		name     string
		vertices int
		edges    graph.Edges
		train    []int64
	}{
		{"one vertex", 1, graph.Edges{}, []int64{0}},
		{"no edges", 5, graph.Edges{}, []int64{0, 1, 4}},
		{
			"self loops alone", 5,
			graph.Edges{Source: []int32{0, 1, 2, 3, 4}, Target: []int32{0, 1, 2, 3, 4}},
			[]int64{0, 1, 4},
		},
		{
			"parallel edges", 5,
			graph.Edges{Source: []int32{1, 1, 1}, Target: []int32{3, 3, 3}},
			[]int64{0, 1, 4},
		},
		{"a hub", 5, star, []int64{0, 1, 4}},
		{"a source", 5, graph.Edges{Source: star.Target, Target: star.Source}, []int64{0, 1, 4}},
		{"an edge into the last vertex", 5, graph.Edges{Source: []int32{0}, Target: []int32{4}}, []int64{4}},
		{
			"one that trains, without edges", 5,
			graph.Edges{Source: []int32{0}, Target: []int32{4}},
			[]int64{2},
		},
		{"all on one worker", 5, star, []int64{0}},
	}
	for _, model := range []string{"gcn", "sage", "gat", "gin"} {
		losses := map[string][]float64{}
		for _, s := range shapes {
			relation, err := graph.NewRelation(s.vertices, s.edges)
			require.NoError(t, err)
			g := &graph.Graph{
				Types: []graph.VertexType{{
					Frame: graph.Frame{
						Count: len(relation.Indptr) - 1, Features: graph.Features{Columns: 3},
						Labels: graph.Labels{Classes: 2}, Splits: []graph.Split{{Train: s.train}},
					},
				}},
				Relations: []graph.Relation{relation},
			}
			for v := range s.vertices {
				g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, float32(v), 1, float32(-v%3))
				g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, int64(v%2))
			}
			require.NoError(t, g.Check())
			o := Defaults()
			o.Model, o.Layers, o.Hidden, o.Norm, o.Dropout, o.Epochs, o.Threads, o.Optimizer, o.LR = model, 2,
				4, "none", 0, 3, 1, "sgd", .01
			if model == "gat" {
				o.Heads = 2
			}
			one := run(t, g, o).Losses
			losses[s.name] = one
			owners := slices.Repeat([]int32{1}, s.vertices) // the first worker has one vertex, or none
			if s.name != "one vertex" {
				owners[0] = 0
			}
			two := mustRun(t, divided(t, g, o, 2, owners)).Losses
			for i := range one {
				if !(math.Abs(one[i]-two[i]) <= 1e-5*math.Abs(one[i])) || one[i] == 0 {
					t.Errorf("%s, %s: losses %v on one worker, %v on two", model, s.name, one, two)
					break
				}
			}
		}
		if without, loops := losses["no edges"], losses["self loops alone"]; slices.Equal(without,
			loops) != (model == "gcn" || model == "gat") {
			t.Errorf("%s: losses %v without edges, %v with self loops", model, without, loops)
		}
		if a, b := losses["a hub"], losses["a source"]; slices.Equal(a, b) {
			t.Errorf("%s: edges the other way round give the same losses, %v", model, a)
		}
	}
}
