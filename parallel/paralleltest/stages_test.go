package paralleltest_test

import (
	"testing"

	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/train"
)

// TestStages: a model that is cut between its blocks, with one chunk a way, computes what one worker does.
// (Only roundings differ: nothing is aggregated once for all epochs.)
func TestStages(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		m := mesh.Mesh{Stages: 2, Partitions: partitions, Slices: 1}
		t.Run(paralleltest.Name(m), func(t *testing.T) {
			paralleltest.Engines(t, paralleltest.Case{
				Mesh: m, Tolerance: 2e-5,
				// 2·(S−1)·V·H elements (GNNPipe), as one message each way for each partition
				Stage: func(model string, vertices, hidden int) train.Traffic {
					state := 1
					if model == "gcnii" { // h0 travels with h
						state = 2
					}
					return train.Traffic{Bytes: 2 * 4 * int64(state*vertices*hidden), Messages: 2 * int64(state*partitions)}
				},
			})
		})
	}
}
