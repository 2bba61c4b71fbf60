package partition

import (
	"context"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestChunksOfTheFewestRows: the refusal names the partition with the fewest rows, the first of several, and
// no empty one. For a number below one it quotes that number.
func TestChunksOfTheFewestRows(t *testing.T) {
	shares, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Of: []int32{0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2}})
	require.NoError(t, err)
	equal, err := Split(made(t, 12, 40, kinds["plain"], 4),
		&Assignment{K: 3, Of: []int32{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}})
	require.NoError(t, err)
	_, err = Chunks(context.Background(), equal[1], ChunkOptions{K: 5})
	assert.ErrorContains(t, err, "partition 0 has 4 vertices; give at most 12", "of equal partitions")
	for k, want := range map[int]string{
		5:  "chunks 15: 5 in each partition, and partition 0 has 4 vertices; give at most 12",
		-2: "chunks -6: give at least 3, one in each partition",
	} {
		_, err := Chunks(context.Background(), shares[2], ChunkOptions{K: k})
		assert.Refused(t, err, want)
	}
}

// TestMostPartitions accepts the largest allowed number of partitions.
func TestMostPartitions(t *testing.T) {
	for k, refused := range map[int]bool{0: true, 1: false, MaxPartitions: false, MaxPartitions + 1: true} {
		if err := (&Options{K: k, Method: Random}).Validate(); (err != nil) != refused {
			t.Errorf("%d partitions: %v", k, err)
		}
	}
}
