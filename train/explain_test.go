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
	"weft/parallel/edges"
	"weft/train/worker"
)

// logitsOf are those of a vertex, predicted alone.
func logitsOf(t *testing.T, j *Job, weights nn.State, v int32) []float32 {
	t.Helper()
	alone := *j
	alone.Vertices = []int32{v}
	p, err := alone.Predict(t.Context(), weights, Logits)
	require.NoError(t, err)
	return p.Logits
}

// without is a graph of one relation without some edges.
func without(t *testing.T, g *graph.Graph, gone []appended.Edge) *graph.Graph {
	t.Helper()
	e := g.Relations[0].Edges()
	keep := graph.Edges{FeatureColumns: e.FeatureColumns}
	before := map[[2]int32]int{}
	for k := range e.Source {
		ends := [2]int32{e.Source[k], e.Target[k]}
		number := before[ends]
		before[ends]++
		if slices.Contains(gone, appended.Edge{Source: ends[0], Target: ends[1], Before: number}) {
			continue
		}
		keep.Source, keep.Target = append(keep.Source, ends[0]), append(keep.Target, ends[1])
		if e.Weights != nil {
			keep.Weights = append(keep.Weights, e.Weights[k])
		}
		keep.Features = append(keep.Features, e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]...)
	}
	r, err := graph.NewRelation(g.Types[0].Count, keep)
	require.NoError(t, err)
	thin := *g.Copy()
	thin.Relations = []graph.Relation{r}
	return &thin
}

// strongest are the edges with the largest gradients.
func strongest(x *worker.Explanation, n int) (all []appended.Edge) {
	sorted := slices.Clone(x.Edges)
	slices.SortStableFunc(sorted, func(a, b edges.MaskGradient) int {
		return int(math.Copysign(1, math.Abs(float64(b.Gradient))-math.Abs(float64(a.Gradient))))
	})
	for _, e := range sorted[:min(n, len(sorted))] {
		all = append(all, appended.Edge{Source: e.Source, Target: e.Target, Before: e.Before})
	}
	return all
}

// TestExplainEachNetwork: the gradient of the strongest feature is that of two predictions beside, and a
// prediction without the strongest edges has the bits of one on a graph without them.
func TestExplainEachNetwork(t *testing.T) {
	g := tangle(t, 300, 200)
	for name, o := range networks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.NormalizeFeatures = "none"
			if o.OverAll() != "" {
				o.Norm = "layer"
			}
			weights := run(t, g, o).Weights
			j := &Job{Graph: g, Options: o}
			const v, class = 1, 2
			_, err := j.Explain(t.Context(), weights, worker.Explained{})
			assert.Refused(t, err, "0 rows are asked for, and one is explained")
			j.Vertices = []int32{v}
			x, err := j.Explain(t.Context(), weights, worker.Explained{Output: class})
			require.NoError(t, err)
			f := x.Features[0]
			at := 0
			for k, grad := range f.Gradients {
				if math.Abs(float64(grad)) > math.Abs(float64(f.Gradients[at])) {
					at = k
				}
			}
			place := int(f.IDs[at/f.Columns])*f.Columns + at%f.Columns
			assert.Equal(t, g.Types[0].Features.Dense[place], f.Inputs[at])
			logit := func(step float32) float64 {
				moved := *g.Copy()
				moved.Types = slices.Clone(g.Types)
				moved.Types[0].Features.Dense = slices.Clone(g.Types[0].Features.Dense)
				moved.Types[0].Features.Dense[place] += step
				return float64(logitsOf(t, &Job{Graph: &moved, Options: o}, weights, v)[class])
			}
			const step = .01
			slope := (logit(step) - logit(-step)) / (2 * step)
			if got := float64(f.Gradients[at]); math.Abs(got-slope) > .02*math.Abs(slope) {
				t.Errorf("the gradient is %v, and two predictions give %v", got, slope)
			}
			if o.Model == "mlp" {
				assert.Equal(t, 0, len(x.Edges))
				return
			}
			gone := strongest(x, 3)
			removed, err := j.Without([][]appended.Edge{gone})
			require.NoError(t, err)
			p, err := removed.Predict(t.Context(), weights, Logits)
			require.NoError(t, err)
			assert.Equal(t, logitsOf(t, &Job{Graph: without(t, g, gone), Options: o}, weights, v), p.Logits)
			// Parallel edges may have the maximum that an edge had
			if name != "sage-max" && slices.Equal(p.Logits, logitsOf(t, j, weights, v)) {
				t.Error("without the edges the logits are the same")
			}
		})
	}
}
