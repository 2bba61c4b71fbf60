package paralleltest_test

import (
	"fmt"
	"testing"

	"weft/parallel/chunked"
	"weft/parallel/paralleltest"
)

// TestChunks: every kind of aggregation reads the history and returns gradients as defined.
func TestChunks(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for _, o := range []chunked.Options{
			{Count: 1, Period: 2},
			{Count: 2, Period: 1},
			{Count: 5, Period: 2},
			{Count: 3, Period: 2, Stale: chunked.Drop},
			{Count: 3, Period: 2, Stale: chunked.Keep},
		} {
			t.Run(fmt.Sprintf("%d replicas, %+v", replicas, o), func(t *testing.T) {
				t.Parallel()
				paralleltest.Chunks(t, replicas, o)
			})
		}
	}
}

// TestChunkRounds: each round of a layer has a history of its own.
func TestChunkRounds(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		paralleltest.ChunkRounds(t, replicas, 3)
	}
}
