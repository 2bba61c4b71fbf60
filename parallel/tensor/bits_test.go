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
// slices: a sum over in-neighbours is never cut, and a row of a product does not depend on the rows beside
// it. Attention has one head here: with several the kernel adds a row's exponentials in an order that follows
// from how many heads it is given, and a slice gives it fewer.
func TestForwardHasOneWorkersBits(t *testing.T) {
	g := withHub(t, paralleltest.Tangled(t))
	for _, model := range gnn.Names() {
		o := train.Defaults()
		o.Model, o.Layers, o.Hidden, o.Epochs, o.Threads, o.Heads, o.Norm = model, 3, 12, 2, 1, 1, "batch"
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
				t.Errorf("%s on %s: other bits than one worker's", model, o.Parallel)
			}
		}
	}
}

// withHub is the graph with an edge from each vertex into one of them besides: a sum of many, whose order
// counts.
func withHub(t *testing.T, g *graph.Graph) *graph.Graph {
	t.Helper()
	e := g.Relation.Edges()
	for v := range g.Vertices() {
		e.Source, e.Target = append(e.Source, int32(v)), append(e.Target, 1)
	}
	r, err := graph.NewRelation(g.Vertices(), e)
	if err != nil {
		t.Fatal(err)
	}
	g.Relation = r
	return g
}
