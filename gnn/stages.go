package gnn

import (
	"fmt"
	"math"
	"slices"
)

// MostStages is the largest number of stages that the blocks of a model can be cut into. Each stage needs a
// block that aggregates or, in a model without aggregation, any block.
func MostStages(specs []BlockSpec) int { return layersBefore(specs)[len(specs)] }

// Cut cuts the blocks of a model into stages of consecutive blocks. It minimises the cost of the costliest
// stage on a graph of so many vertices and edges. It returns the first block of each stage, followed by the
// number of blocks. Each stage has a block that aggregates: blocks before the first of these, such as an
// encoder, belong to the first stage, and blocks after the last of them to the last stage. Among equally good
// cuts it takes the one with most blocks in the first stage, then in the second, and so on.
func Cut(specs []BlockSpec, stages, vertices int, edges int64) ([]int, error) {
	if most := MostStages(specs); stages < 1 || stages > most {
		return nil, fmt.Errorf("the blocks of the model can be cut into at most %d stages and not into %d",
			most, stages)
	}
	n := len(specs)
	layers := layersBefore(specs)
	cost := make([]float64, n+1) // the cost of all blocks before each block
	for i, c := range Costs(specs, vertices, edges) {
		cost[i+1] = cost[i] + c
	}
	// costliest[i] is the cost of the costliest stage, if the blocks from i on are cut into so many stages.
	costliest := make([]float64, n+1)
	for i := range costliest {
		costliest[i] = math.Inf(1)
		if layers[i] < layers[n] {
			costliest[i] = cost[n] - cost[i]
		}
	}
	// ends[more][i] is the end of the stage that begins with block i and that more stages follow
	ends := make([][]int, stages)
	for more := 1; more < stages; more++ {
		rest := costliest
		costliest = make([]float64, n+1)
		ends[more] = make([]int, n+1)
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

// Costs returns the cost of each block on a graph. If no cost is known, as in a caller's own model, each is
// 1.
func Costs(specs []BlockSpec, vertices int, edges int64) []float64 {
	costs := make([]float64, len(specs))
	known := slices.ContainsFunc(specs, func(s BlockSpec) bool { return s.Cost != Cost{} })
	for i, s := range specs {
		costs[i] = 1
		if known {
			costs[i] = s.Cost.MultiplyAdds(vertices, edges)
		}
	}
	return costs
}

// layersBefore counts, before each block, the blocks that a stage can be made of: the blocks that aggregate,
// or all blocks in a model without aggregation.
func layersBefore(specs []BlockSpec) []int {
	aggregates := func(s BlockSpec) bool { return s.Cost.Edge > 0 }
	all := !slices.ContainsFunc(specs, aggregates)
	before := make([]int, len(specs)+1)
	for i, s := range specs {
		before[i+1] = before[i]
		if all || aggregates(s) {
			before[i+1]++
		}
	}
	return before
}
