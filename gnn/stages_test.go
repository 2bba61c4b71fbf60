package gnn_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/gnn"
	"weft/internal/require"
)

// blocksOf returns blocks with these costs for each vertex. A block with a cost below zero does not
// aggregate.
func blocksOf(costs ...int) (specs []gnn.BlockSpec) {
	for _, c := range costs {
		s := gnn.BlockSpec{Cost: gnn.Cost{Vertex: max(c, -c)}}
		if c > 0 {
			s.Cost = gnn.Cost{Vertex: c - 1, Edge: 1}
		}
		specs = append(specs, s)
	}
	return specs
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		costs  []int
		stages int
		want   []int
	}{
		{[]int{5, 5, 5, 5}, 1, []int{0, 4}},
		{[]int{5, 5, 5, 5}, 4, []int{0, 1, 2, 3, 4}},
		{[]int{5, 5, 5, 5, 5, 5, 5, 5, 5}, 4, []int{0, 3, 5, 7, 9}},
		{[]int{-1, 5, 5, 5, 5, -1}, 2, []int{0, 3, 6}},
		{[]int{-90, 5, 5, 5, 5, -1}, 2, []int{0, 2, 6}},  // the encoder is no stage of its own
		{[]int{-90, 5, 5, 5, 5, -90}, 2, []int{0, 3, 6}}, // nor is the decoder
		{[]int{9, 2, 2, 2, 2}, 3, []int{0, 1, 3, 5}},
		{[]int{-3, -4, -5}, 3, []int{0, 1, 2, 3}}, // none aggregates
	} {
		got, err := gnn.Cut(blocksOf(c.costs...), c.stages, 1, 1)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d into %d: %v, %v, want %v", c.costs, c.stages, got, err, c.want)
		}
	}
	if cuts, err := gnn.Cut(make([]gnn.BlockSpec, 7), 3, 10, 20); err != nil ||
		!slices.Equal(cuts, []int{0, 3, 5, 7}) {
		t.Errorf("blocks of unknown costs: %v, %v", cuts, err)
	}
	for _, stages := range []int{0, 3} {
		if cuts, err := gnn.Cut(blocksOf(-1, 5, 5, -1), stages, 1, 1); err == nil {
			t.Errorf("%d stages of two layers: %v", stages, cuts)
		}
	}
}

// TestCutIsBest: no other cut has a cheaper costliest stage.
func TestCutIsBest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		costs := make([]int, 2+r.IntN(7))
		for i := range costs {
			costs[i] = 1 + r.IntN(9)
			if r.IntN(4) == 0 {
				costs[i] *= -1
			}
		}
		specs := blocksOf(costs...)
		stages := 1 + r.IntN(gnn.MostStages(specs))
		cuts, err := gnn.Cut(specs, stages, 1, 1)
		if err != nil || len(cuts) != stages+1 ||
			costliest(specs, cuts) != leastCostly(specs, []int{0}, stages) {
			t.Errorf("%d into %d: %v costs %v, %v, the best %v", costs, stages, cuts, costliest(specs, cuts),
				err, leastCostly(specs, []int{0}, stages))
		}
	}
}

// leastCostly tries all cuts that continue the first ones.
func leastCostly(specs []gnn.BlockSpec, cuts []int, more int) float64 {
	if more == 1 {
		return costliest(specs, append(slices.Clone(cuts), len(specs)))
	}
	best := math.Inf(1)
	for at := cuts[len(cuts)-1] + 1; at < len(specs); at++ {
		best = min(best, leastCostly(specs, append(slices.Clone(cuts), at), more-1))
	}
	return best
}

// costliest returns the cost of the costliest stage; it is infinite if a stage does not aggregate though the
// model does.
func costliest(specs []gnn.BlockSpec, cuts []int) (most float64) {
	aggregates := func(b gnn.BlockSpec) bool { return b.Cost.Edge > 0 }
	for i, from := range cuts[:len(cuts)-1] {
		stage, sum := specs[from:cuts[i+1]], 0.0
		for _, b := range stage {
			sum += b.Cost.MultiplyAdds(1, 1)
		}
		if most = max(most, sum); slices.ContainsFunc(specs, aggregates) &&
			!slices.ContainsFunc(stage, aggregates) {
			return math.Inf(1)
		}
	}
	return most
}

// TestMostStages counts the layers that aggregate of every model and form.
func TestMostStages(t *testing.T) {
	for _, s := range forms() {
		blocks, err := s.Blocks(gnn.OneType(15, edgeColumns), 7)
		require.NoError(t, err)
		want := s.Layers
		switch {
		case s.Decoupled && s.Model == "rgcn":
			want = 2 // the round with weights, and the others
		case s.Decoupled, s.Model == "appnp", s.Model == "sgc":
			want = 1
		}
		if got := gnn.MostStages(blocks); got != want {
			t.Errorf("%s, decoupled %v, %s: %d stages, want %d", s.Model, s.Decoupled, s.BlockForm, got, want)
		}
	}
}
