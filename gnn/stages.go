package gnn

import (
	"fmt"
	"math"
	"slices"
)

// MostStages is how many stages the blocks of a model can be cut into: each has one that aggregates or, of a
// model without any, a block.
func MostStages(specs []BlockSpec) int { return layersBefore(specs)[len(specs)] }

// Cut cuts the blocks of a model into stages of consecutive blocks, so that the costliest stage costs as
// little as it can on a graph of so many vertices and edges. It returns the first block of each stage, and
// the number of blocks behind these. Each stage has a block that aggregates: what comes before the first
// such block, as an encoder, goes with the first stage, and what follows the last with the last. Of cuts that
// are as good it takes the one with most blocks in the first stage, then in the second, and so on.
func Cut(specs []BlockSpec, stages, vertices int, edges int64) ([]int, error) {
	if most := MostStages(specs); stages < 1 || stages > most {
		return nil, fmt.Errorf("the blocks of the model can be cut into at most %d stages and not into %d", most, stages)
	}
	n, layers := len(specs), layersBefore(specs)
	cost := make([]float64, n+1) // of the blocks before each
	for i, c := range Costs(specs, vertices, edges) {
		cost[i+1] = cost[i] + c
	}
	// The costliest of the stages that the blocks from i on are cut into, so many
	costliest := make([]float64, n+1)
	for i := range costliest {
		costliest[i] = math.Inf(1)
		if layers[i] < layers[n] {
			costliest[i] = cost[n] - cost[i]
		}
	}
	ends := make([][]int, stages) // by how many stages follow: where the stage that begins with block i ends
	for more := 1; more < stages; more++ {
		rest := costliest
		costliest, ends[more] = make([]float64, n+1), make([]int, n+1)
		for i := range costliest {
			costliest[i] = math.Inf(1)
			for j := i + 1; j < n && cost[j]-cost[i] <= costliest[i]; j++ {
				if both := max(cost[j]-cost[i], rest[j]); layers[i] < layers[j] && both <= costliest[i] {
					costliest[i], ends[more][i] = both, j
				}
			}
		}
	}
	cuts := []int{0}
	for more := stages - 1; more > 0; more-- {
		cuts = append(cuts, ends[more][cuts[len(cuts)-1]])
	}
	return append(cuts, n), nil
}

// Costs are those of each block on a graph; where none is known, as of a model of the caller's own, 1 each.
func Costs(specs []BlockSpec, vertices int, edges int64) []float64 {
	costs := make([]float64, len(specs))
	known := slices.ContainsFunc(specs, func(s BlockSpec) bool { return s.Cost != Cost{} })
	for i, s := range specs {
		costs[i] = 1
		if known {
			costs[i] = s.Cost.Of(vertices, edges)
		}
	}
	return costs
}

// layersBefore counts, before each block, those that a stage can be made of: the ones that aggregate, or of a
// model without any all.
func layersBefore(specs []BlockSpec) []int {
	aggregates := func(s BlockSpec) bool { return s.Cost.Edge > 0 }
	all, before := !slices.ContainsFunc(specs, aggregates), make([]int, len(specs)+1)
	for i, s := range specs {
		before[i+1] = before[i]
		if all || aggregates(s) {
			before[i+1]++
		}
	}
	return before
}
