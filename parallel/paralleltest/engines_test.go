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
// 3).
func TestGraphAxis(t *testing.T) {
	for _, m := range []mesh.Mesh{{Stages: 1, Partitions: 2, Slices: 1}, {Stages: 1, Partitions: 4, Slices: 1}} {
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			paralleltest.Engines(t, paralleltest.Case{Mesh: m, Tolerance: 2e-5})
		})
	}
}

// TestGraphAxisPropagators is the same of each layer, with any prefetch depth and with the halo kept.
func TestGraphAxisPropagators(t *testing.T) {
	for k, settings := range map[int][]sar.Options{
		1: {{}},
		2: {{Prefetch: 1}},
		4: {{}, {Prefetch: 7}, {KeepHalo: true}},
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
