package paralleltest

import (
	"fmt"
	"testing"

	"weft/parallel/edges"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/train/engine"
)

// TestGraphAxis: "the training curve is the same regardless of the number of machines" (Mostafa 2022, section
// 3). It alone tests whole runs on partitions: features, labels and splits by partition, norm statistics and
// metrics summed over partitions, and each worker's plan. One of four partitions is empty.
func TestGraphAxis(t *testing.T) {
	Engines(t, 0,
		Case{Mesh: mesh.Mesh{Stages: 1, Partitions: 2, Slices: 1}, Tolerance: 2e-5},
		Case{Mesh: mesh.Mesh{Stages: 1, Partitions: 4, Slices: 1}, Tolerance: 2e-5},
	)
}

// TestGraphAxisPropagators tests each layer, with any prefetch depth, with the halo kept, with sums in tiles,
// and with partial sums. It alone compares every kind of aggregation on partitions with double precision, in
// both directions: outputs and gradients.
func TestGraphAxisPropagators(t *testing.T) {
	for k, settings := range map[int][]sar.Options{
		1: {{}},
		2: {{}, {Halo: edges.HaloCover}},
		3: {{Halo: edges.HaloAuto, KeepHalo: true}},
		4: {{Prefetch: 7}, {KeepHalo: true}, {Tile: 2}, {Halo: edges.HaloCover, Tile: 2, Prefetch: 1}}, // and one in sar's TestHolders
	} {
		for _, o := range settings {
			t.Run(fmt.Sprintf("%d %+v", k, o), func(t *testing.T) {
				t.Parallel()
				m, axis := mesh.Mesh{Stages: 1, Partitions: k, Slices: 1}, func(c engine.Config) (engine.Axis, error) {
					return sar.New(c.Team, c.Groups, c.Share, c.Order, o)
				}
				if o.Halo == edges.HaloRows {
					Propagators(t, m, axis)
				} else {
					PartialSums(t, m, axis)
				}
			})
		}
	}
}
