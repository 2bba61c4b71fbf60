package tensor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/parallel/paralleltest"
	"weft/train"
)

// TestForwardHasOneWorkersBits: with equal weights the logits are one worker's to the bit, for any number of
// slices: a sum over in-neighbours is never cut, a head's exponentials are added as among all heads, and a
// row of a product does not depend on the rows beside it.
func TestForwardHasOneWorkersBits(t *testing.T) {
	g := withHub(t, paralleltest.Tangled(t))
	for _, model := range gnn.Names() {
		o := train.Defaults()
		o.Model, o.Layers, o.Hidden, o.Epochs, o.Threads, o.Heads, o.Norm = model, 3, 12, 2, 1, 1, "batch"
		kind, _ := gnn.KindOf(model)
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
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 3, 4, 7} {
		o.Parallel = fmt.Sprintf("tensor=%d", n)
		sliced, err := (&train.Job{Graph: g, Options: o}).Predict(context.Background(), alone.Weights, train.Logits)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(sliced.Logits, alone.Logits) {
			t.Errorf("%s, decoupled %v, %d heads, on %s: other bits than one worker's", o.Model, o.Decoupled, o.Heads, o.Parallel)
		}
	}
}

// withHub is the graph with an edge from each vertex into one of them besides: a sum of many, whose order
// counts.
func withHub(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	e := g.Relations[0].Edges()
	for v := range g.Vertices() {
		e.Source, e.Target = append(e.Source, int32(v)), append(e.Target, 1)
	}
	r, err := graph.NewRelation(g.Vertices(), e)
	if err != nil {
		t.Fatal(err)
	}
	g.Relations[0] = r
	return g
}
