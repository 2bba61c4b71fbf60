package sar_test

import (
	"slices"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/paralleltest"
	"weft/tensor"
)

// TestAggregateOnce asks one site for two aggregations of features that stay the same over the epochs: each
// is kept apart, and has the value that it has for an input that changes.
func TestAggregateOnce(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	r, err := graph.NewRelation(4, graph.Edges{Source: []int32{0, 1, 2, 2, 3}, Target: []int32{1, 1, 1, 0, 3}})
	if err != nil {
		t.Fatal(err)
	}
	w := paralleltest.Whole(t, team, &r)
	x, identity := team.Memory.New(tensor.Features, 4, 2), team.Zeros(tensor.Parameters, 2, 2)
	copy(x.Floats(), []float32{1, 2, 3, 4, 5, 6, 7, 8})
	identity.Floats()[0], identity.Floats()[3] = 1, 1
	fixed, changing := w.Propagator("a", stored), w.Propagator("b", stored)
	for range 2 {
		for _, op := range []gnn.Reduce{gnn.Sum, gnn.Mean, gnn.Symmetric} {
			tape := autograd.NewTape(team)
			unit := tape.Constant(identity, nil)
			got := fixed.AggregateLinear(tape.Fixed(x, w.Rows()), unit, op).Value().Floats()
			want := changing.AggregateLinear(tape.Constant(x, w.Rows()), unit, op).Value().Floats()
			if !slices.Equal(got, want) {
				t.Errorf("%v: %v, want %v", op, got, want)
			}
		}
	}
}
