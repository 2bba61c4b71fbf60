package paralleltest

import (
	"testing"

	"weft/parallel/mesh"
	"weft/train/worker"
)

// TestStages tests properties 1 and 2 of GNNPipe (pipelined_test.go): "K=1 ⇒ exact: loss and all gradients
// equal single-machine full-graph training. Any S. With dropout: if masks are keyed by (epoch, op, vertex)",
// and "K=W (one chunk per way), any S ⇒ exact". A way is a replica. A model in stages, with one chunk for
// each replica, computes what one worker does, up to rounding: no aggregation is cached. So do slices of such
// chunks. This test alone covers every model and form in stages, and the plan of their memory.
// pipelined_test.go and pipeline_test.go test more chunks, for the models that have a definition.
func TestStages(t *testing.T) {
	var cases []Case
	for _, m := range []mesh.Mesh{Grid(2, 1, 1), Grid(3, 1, 1), Grid(2, 2, 1), Grid(2, 1, 3), Grid(2, 2, 2)} {
		cases = append(cases, Case{
			Mesh: m, Tolerance: 2e-5,
			// 2·(S−1)·V·H elements: one message forward and one backward for each slice of each partition
			Stage: func(model string, vertices, hidden int) worker.Traffic {
				state := 2 * (m.Stages - 1)
				if model == "gcnii" { // h0 is sent with h
					state *= 2
				}
				return worker.Traffic{
					Bytes:    4 * int64(state*vertices*hidden),
					Messages: int64(state * m.Partitions * m.Slices),
				}
			},
		})
	}
	Engines(t, 2, cases...)
}
