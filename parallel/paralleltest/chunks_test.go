package paralleltest_test

import (
	"fmt"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/paralleltest"
)

// TestChunks: every kind of aggregation reads the history and returns gradients as defined. Each treatment of
// the chunks has one replica and three, and one of these has the graph with edge weights.
func TestChunks(t *testing.T) {
	for i, c := range []struct {
		chunks int
		axis.Options
	}{
		{1, axis.Options{HistoryPeriod: 2}},
		{2, axis.Options{HistoryPeriod: 1}},
		{5, axis.Options{HistoryPeriod: 2}},
		{3, axis.Options{HistoryPeriod: 2, StaleGradients: axis.Drop}},
		{3, axis.Options{HistoryPeriod: 2, StaleGradients: axis.Keep}},
	} {
		for k, replicas := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d replicas, %+v", replicas, c), func(t *testing.T) {
				t.Parallel()
				paralleltest.Chunks(t, paralleltest.Small(t, true, (i+k)%2 == 0), replicas, c.chunks, c.Options)
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
