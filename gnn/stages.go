package gnn

import (
	"fmt"
	"math"
)

// MostStages is how many stages the blocks of a model can be cut into: each has one that aggregates or, of a
// model without any, a block.
func MostStages(specs []BlockSpec) int {
	_, counted := weighed(specs, 0, 0)
	return counted[len(specs)]
}

// Cut cuts the blocks of a model into stages of consecutive blocks, so that the costliest stage costs as
// little as it can on a graph of so many vertices and edges. It returns the first block of each stage, and
// the number of blocks behind these. Each stage has a block that aggregates: what comes before the first
// such block, as an encoder, goes with the first stage, and what follows the last with the last. Of cuts that
// are as good it takes the one with most blocks in the first stage, then in the second, and so on.
func Cut(specs []BlockSpec, stages, vertices int, edges int64) ([]int, error) {
	if most := MostStages(specs); stages < 1 || stages > most {
		return nil, fmt.Errorf("the blocks of the model can be cut into at most %d stages and not into %d", most, stages)
	}
	n := len(specs)
	cost, counted := weighed(specs, vertices, edges)
	// The costliest of the stages that the blocks from i on are cut into, so many
	costliest := make([]float64, n+1)
	for i := range costliest {
		costliest[i] = math.Inf(1)
		if counted[i] < counted[n] {
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
				if both := max(cost[j]-cost[i], rest[j]); counted[i] < counted[j] && both <= costliest[i] {
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

// weighed are, for the blocks before each, their cost on a graph, and how many of them a stage may be made
// around. Blocks of a model whose costs are not known count alike.
func weighed(specs []BlockSpec, vertices int, edges int64) (cost []float64, counted []int) {
	known, aggregates := false, false
	for _, s := range specs {
		known, aggregates = known || s.Cost != Cost{}, aggregates || s.Cost.Edge > 0
	}
	cost, counted = make([]float64, len(specs)+1), make([]int, len(specs)+1)
	for i, s := range specs {
		cost[i+1], counted[i+1] = cost[i]+1, counted[i]+1
		if known {
			cost[i+1] = cost[i] + s.Cost.Of(vertices, edges)
		}
		if aggregates && s.Cost.Edge == 0 {
			counted[i+1] = counted[i]
		}
	}
	return cost, counted
}
