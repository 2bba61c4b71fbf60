package paralleltest

import (
	"fmt"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/sar"
	"weft/train/engine"
)

// TestGraphAxis: "the training curve is the same regardless of the number of machines" (Mostafa 2022, section
// 3). It alone tests whole runs on partitions: features, labels and splits by partition, norm statistics and
// metrics summed over partitions, and each worker's plan. One of four partitions is empty.
func TestGraphAxis(t *testing.T) {
	Engines(t, 0,
		Case{Mesh: Grid(1, 2, 1), Tolerance: 2e-5},
		Case{Mesh: Grid(1, 4, 1), Tolerance: 2e-5},
	)
}

// tiled are settings, with sums in tiles of so many columns.
type tiled struct {
	axis.Options
	tile int
}

// TestGraphAxisPropagators tests each layer, with any prefetch depth, with the halo kept, with sums in tiles,
// and with partial sums. It alone compares every kind of aggregation on partitions with double precision, in
// both directions: outputs and gradients.
func TestGraphAxisPropagators(t *testing.T) {
	for k, settings := range map[int][]tiled{
		1: {{}},
		2: {{}},
		3: {{Options: axis.Options{Halo: edges.HaloAuto, KeepHalo: true}}},
		4: {
			{Options: axis.Options{Prefetch: 7}},
			{tile: 2},
			{axis.Options{Halo: edges.HaloCover, Prefetch: 1}, 2},
		}, // and one in sar's TestHolders
	} {
		for _, o := range settings {
			t.Run(fmt.Sprintf("%d %+v", k, o), func(t *testing.T) {
				t.Parallel()
				m, newAxis := Grid(1, k, 1),
					func(c engine.Config) (engine.Axis, error) {
						c.Tile = o.tile
						return sar.New(c.Env, o.Options)
					}
				if o.Halo == edges.HaloRows {
					Propagators(t, m, newAxis)
				} else {
					PartialSums(t, m, newAxis)
				}
			})
		}
	}
}
