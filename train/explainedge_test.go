package train

import (
	"math"
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/worker"
)

// logitsOfEdge are those of an edge that need not be of the graph.
func logitsOfEdge(t *testing.T, j *Job, weights nn.State, edge *graph.Edges) []float32 {
	t.Helper()
	alone := *j
	alone.Edges = edge
	p, err := alone.Predict(t.Context(), weights, Logits)
	require.NoError(t, err)
	return p.Logits
}

// TestExplainEdge: the gradients of the strongest feature of a vertex, and of each of the edge's own, are
// those of predictions beside. A prediction without the strongest edges has the bits of one on a graph
// without them, where the edge itself may be one of these. The ends are of one type, or of two.
func TestExplainEdge(t *testing.T) {
	one, types := tangle(t, 60, 40), severalTypes(t)
	for name, c := range map[string]struct {
		g           *graph.Graph
		relation    int
		kind, words string
	}{
		"sage":    {one, 0, "classes", "model sage"},
		"gine":    {one, 0, "several", "model gine, out-features 5"},
		"gat":     {one, 0, "values", "model gat, heads 2"},
		"several": {types, 1, "classes", "model sage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.g = labelEdges(t, c.g, c.relation, c.kind)
			o := edgeLabelOptions("normalize-features none, epochs 3, decoder-layers 2, split 0, " + c.words)
			weights := mustRun(t, &Job{Graph: c.g, Options: o}).Weights
			r := &c.g.Relations[c.relation]
			edge := r.EdgesOf(3)
			j := &Job{Graph: c.g, Options: o}
			// Alone computes the rows of the ends and no others.
			alone, err := j.Without(nil)
			require.NoError(t, err)
			assert.Equal(t, logitsOfEdge(t, j, weights, edge), logitsOfEdge(t, alone, weights, edge))
			j.Edges = edge
			x, err := j.Explain(t.Context(), weights, worker.Explained{})
			require.NoError(t, err)
			slope := func(f func(step float32) float64) float64 {
				const step = .01
				return (f(step) - f(-step)) / (2 * step)
			}
			score := func(g *graph.Graph, edge *graph.Edges) float64 {
				return float64(logitsOfEdge(t, &Job{Graph: g, Options: o}, weights, edge)[0])
			}
			for kind, f := range x.Features {
				at := 0
				for k, grad := range f.Gradients {
					if math.Abs(float64(grad)) > math.Abs(float64(f.Gradients[at])) {
						at = k
					}
				}
				if f.Columns == 0 || f.Gradients[at] == 0 {
					assert.Equal(t, true, len(c.g.Types) > 1, "a type that does not count")
					continue
				}
				place := int(f.IDs[at/f.Columns])*f.Columns + at%f.Columns
				want := slope(func(step float32) float64 {
					moved := *c.g
					moved.Types = slices.Clone(c.g.Types)
					moved.Types[kind].Features.Dense = slices.Clone(c.g.Types[kind].Features.Dense)
					moved.Types[kind].Features.Dense[place] += step
					return score(&moved, edge)
				})
				assert.Near(t, want, float64(f.Gradients[at]), .02*math.Abs(want)+1e-4)
			}
			assert.Equal(t, r.Features.Columns, len(x.Edge.Gradients))
			for k := range r.Features.Columns {
				deviation := float64(weights["edge_features.deviation"].Float32[k])
				want := slope(func(step float32) float64 {
					moved := *edge
					moved.Features = slices.Clone(edge.Features)
					moved.Features[k] += step
					return score(c.g, &moved)
				})
				want *= deviation
				assert.Near(t, want, float64(x.Edge.Gradients[k]), .02*math.Abs(want)+1e-4)
				mean := float64(weights["edge_features.mean"].Float32[k])
				assert.Near(t, (float64(edge.Features[k])-mean)/deviation, float64(x.Edge.Inputs[k]), 1e-5)
			}
			if len(c.g.Relations) > 1 {
				return
			}
			gone := strongest(x, 3)
			gone = append(gone, appended.Edge{Source: edge.Source[0], Target: edge.Target[0]})
			removed, err := j.Without([][]appended.Edge{gone})
			require.NoError(t, err)
			thin := labelEdges(t, without(t, c.g, gone), 0, c.kind)
			assert.Equal(t, logitsOfEdge(t, &Job{Graph: thin, Options: o}, weights, edge),
				logitsOfEdge(t, removed, weights, edge))
			if slices.Equal(logitsOfEdge(t, removed, weights, edge), logitsOfEdge(t, j, weights, edge)) {
				t.Error("without the edges the logits are the same")
			}
		})
	}
}
