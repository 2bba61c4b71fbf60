package partition

import (
	"strings"
	"testing"

	"weft/internal/refusal"
)

// TestVertexInTwoPartitions: shares of which two list one vertex, the first or another, are refused.
func TestVertexInTwoPartitions(t *testing.T) {
	g := made(t, 3, 6, kinds["bare"], 1)
	for twice := range int32(2) {
		shares, err := Split(g, &Assignment{K: 2, Of: []int32{0, 0, 1}})
		if err != nil {
			t.Fatal(err)
		}
		shares[1].Edges.IDs = []int32{twice}
		kept := Keep(2, func(p int) (*Share, error) { return shares[p], nil }, func(*Share) rule { return func(_, _, _ int32) bool { return true } })
		_, err = kept.Places(shares[0])
		if err == nil || !refusal.Is(err) || !strings.Contains(err.Error(), "belongs to two partitions") {
			t.Errorf("vertex %d in two partitions: %v", twice, err)
		}
	}
}
