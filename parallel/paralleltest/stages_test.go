package paralleltest_test

import (
	"testing"

	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/train/worker"
)

// TestStages, 1 and 2 of GNNPipe's properties (pipelined_test.go): "K=1 ⇒ exact: loss and all gradients equal
// single-machine full-graph training. Any S. With dropout: if masks are keyed by (epoch, op, vertex)", and
// "K=W (one chunk per way), any S ⇒ exact". A model that is cut between its blocks, with one chunk a replica,
// computes what one worker does. Only roundings differ: nothing is aggregated once for all epochs. It alone
// pins every model and form in stages, and the plan of their memory; the tests of pipelined_test.go and
// pipeline_test.go have more chunks, of the models that have a definition.
func TestStages(t *testing.T) {
	var cases []paralleltest.Case
	for _, m := range []mesh.Mesh{{Stages: 2, Partitions: 1, Slices: 1}, {Stages: 3, Partitions: 1, Slices: 1}, {Stages: 2, Partitions: 2, Slices: 1}} {
		cases = append(cases, paralleltest.Case{
			Mesh: m, Tolerance: 2e-5,
			// 2·(S−1)·V·H elements, as one message each way for each partition
			Stage: func(model string, vertices, hidden int) worker.Traffic {
				state := 2 * (m.Stages - 1)
				if model == "gcnii" { // h0 travels with h
					state *= 2
				}
				return worker.Traffic{Bytes: 4 * int64(state*vertices*hidden), Messages: int64(state * m.Partitions)}
			},
		})
	}
	paralleltest.Engines(t, cases...)
}
