package tp_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/train"
	"weft/train/paralleltest"
)

// TestForwardHasOneWorkersBits: for equal weights the logits have one worker's bits, for any number of
// slices. One worker computes the whole sum over a vertex's in-neighbours. The exponentials of a head are
// added in the same order for any number of heads. A row of a product does not depend on the rows beside it.
// Models with edge features are left out: the product of these has a slice's columns alone, and with AVX2
// oneDNN rounds a column in ways that depend on how many there are.
func TestForwardHasOneWorkersBits(t *testing.T) {
	g := withHub(t, paralleltest.Tangled(t))
	for _, model := range gnn.Names() {
		o := train.Defaults()
		o.Model, o.Layers, o.Hidden, o.Epochs, o.Threads, o.Heads, o.Norm = model, 3, 12, 2, 1, 1, "batch"
		kind, _ := gnn.KindOf(model)
		if kind.EdgeFeatures {
			continue
		}
		if kind.Decoupled != nil {
			decoupled := o
			decoupled.Decoupled = true
			slicesHaveOneWorkersBits(t, g, decoupled)
		}
		if !kind.Uses("heads") {
			slicesHaveOneWorkersBits(t, g, o)
			continue
		}
		for _, heads := range []int{1, 2, 4, 8, 17} {
			o.Heads, o.Hidden = heads, 3*heads
			slicesHaveOneWorkersBits(t, g, o)
		}
	}
}

func slicesHaveOneWorkersBits(t *testing.T, g *graph.Graph, o train.Options) {
	t.Helper()
	alone, err := (&train.Job{Graph: g, Options: o}).Run(context.Background())
	require.NoError(t, err)
	for _, n := range []int{2, 3, 4, 7} {
		o.Parallel = fmt.Sprintf("tensor=%d", n)
		sliced, err := (&train.Job{Graph: g, Options: o}).Predict(context.Background(),
			alone.Weights, train.Logits)
		require.NoError(t, err)
		if !slices.Equal(sliced.Logits, alone.Logits) {
			t.Errorf("%s, decoupled %v, %d heads, on %s: the logits differ from one worker's", o.Model,
				o.Decoupled, o.Heads, o.Parallel)
		}
	}
}

// withHub adds an edge from each vertex to vertex 1: a sum of many numbers, whose order matters.
func withHub(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	e := g.Relations[0].Edges()
	e.Features, e.FeatureColumns = nil, 0
	for v := range g.Vertices() {
		e.Source, e.Target = append(e.Source, int32(v)), append(e.Target, 1)
	}
	r, err := graph.NewRelation(g.Vertices(), e)
	require.NoError(t, err)
	g.Relations[0] = r
	return g
}
