package tp

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/partition"
)

// TestOwnersOfAPartition: the second partition of three has the positions 2 … 5. Its first row is a target of
// its rows 0 and 3 and of rows of both other partitions, and its second of its rows 1 and 2.
func TestOwnersOfAPartition(t *testing.T) {
	in := graph.Relation{Indptr: []int64{0, 4, 6, 6, 6}, Sources: []int32{1, 2, 5, 6, 3, 4}}
	e := &partition.PartEdges{
		P: 1, Types: []partition.PartRows{{Rows: 4, Starts: []int{0, 2, 6, 9}}},
		Relations: []partition.Relation{{In: in}},
	}
	assert.Equal(t, [][]int32{{0, 1}, {2, 3}}, ownersOf(e, 0, 2))
}
