package paralleltest_test

import (
	"testing"

	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
)

// TestGraphAxis: "the training curve is the same regardless of the number of machines" (Mostafa 2022, section 3).
func TestGraphAxis(t *testing.T) {
	for _, m := range []mesh.Mesh{{Stages: 1, Partitions: 2, Slices: 1}, {Stages: 1, Partitions: 4, Slices: 1}} {
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			paralleltest.Engines(t, paralleltest.Case{Mesh: m, Tolerance: 2e-5})
		})
	}
}
