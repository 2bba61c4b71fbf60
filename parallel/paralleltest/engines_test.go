package paralleltest_test

import (
	"fmt"
	"testing"

	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/train/engine"
)

// TestGraphAxis: "the training curve is the same regardless of the number of machines" (Mostafa 2022, section
// 3). It alone tests whole runs on partitions: features, labels and splits by partition, norm statistics and
// metrics summed over partitions, and each worker's plan. One of four partitions is empty.
func TestGraphAxis(t *testing.T) {
	paralleltest.Engines(t, 0,
		paralleltest.Case{Mesh: mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}, Tolerance: 2e-5},
		paralleltest.Case{Mesh: mesh.Mesh{Stages: 1, Partitions: 4, Slices: 1}, Tolerance: 2e-5},
	)
}

// TestGraphAxisPropagators tests each layer, with any prefetch depth, with the halo kept, and with sums in
// tiles. It alone compares every kind of aggregation on partitions with double precision, in both directions:
// outputs and gradients.
func TestGraphAxisPropagators(t *testing.T) {
	for k, settings := range map[int][]sar.Options{
		1: {{}},
		2: {{}},
		4: {{Prefetch: 7}, {KeepHalo: true}, {Tile: 2}}, // and one in sar's TestHolders
	} {
		for _, o := range settings {
			t.Run(fmt.Sprintf("%d %+v", k, o), func(t *testing.T) {
				t.Parallel()
				paralleltest.Propagators(t, mesh.Mesh{Stages: 1, Partitions: k, Slices: 1}, func(c engine.Config) (engine.Axis, error) {
					return sar.New(c.Team, c.Groups, c.Share, c.Order, o)
				})
			})
		}
	}
}
