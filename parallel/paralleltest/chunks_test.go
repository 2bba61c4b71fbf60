package paralleltest_test

import (
	"fmt"
	"testing"

	"weft/parallel/chunked"
	"weft/parallel/paralleltest"
)

// TestChunks: every kind of aggregation reads the history and returns gradients as defined. Each treatment of
// the chunks has one replica and three, and one of these has the graph with edge weights.
func TestChunks(t *testing.T) {
	for i, o := range []chunked.Options{
		{Count: 1, Period: 2},
		{Count: 2, Period: 1},
		{Count: 5, Period: 2},
		{Count: 3, Period: 2, Stale: chunked.Drop},
		{Count: 3, Period: 2, Stale: chunked.Keep},
	} {
		for k, replicas := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d replicas, %+v", replicas, o), func(t *testing.T) {
				t.Parallel()
				paralleltest.Chunks(t, paralleltest.Small(t, true, (i+k)%2 == 0), replicas, o)
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
