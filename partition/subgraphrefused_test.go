package partition

import (
	"strings"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
)

// TestPlacesRefused: a share with another vertex than the order of the partitions gives it is refused.
func TestPlacesRefused(t *testing.T) {
	g := made(t, 3, 6, kinds["bare"], 1)
	shares, err := Split(g, &Assignment{K: 2, Of: []int32{0, 0, 1}})
	require.NoError(t, err)
	for other := range int32(2) {
		shares[1].Edges.IDs = []int32{other}
		_, err = shares[1].Places(0)
		if err == nil || !refusal.Is(err) ||
			!strings.Contains(err.Error(), "vertices of partition 1 are not those") {
			t.Errorf("vertex %d: %v", other, err)
		}
	}
}
