package program_test

import (
	"strings"
	"testing"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/program"
)

// TestCostOfProducts: a number of a product of n × k and k × m numbers of a row is k multiply-adds.
func TestCostOfProducts(t *testing.T) {
	for last, want := range map[string]int{
		`{"op": "matmul", "in": [1, 2]}, {"op": "reshape", "in": [3], "shape": [4]}`: 4 * 3,
		`{"op": "matmul", "in": [2, 1]}, {"op": "reshape", "in": [3], "shape": [9]}`: 9 * 2,
	} {
		p, err := program.Read(strings.NewReader(`{"version": 1, "class": "Products", "operations": [
			{"op": "features", "shape": [6]}, {"op": "reshape", "in": [0], "shape": [2, 3]},
			{"op": "reshape", "in": [0], "shape": [3, 2]}, ` + last + `], "output": 4}`))
		require.NoError(t, err)
		specs, err := p.Blocks(gnn.OneType(6, 0), 0, 1)
		require.NoError(t, err)
		assert.Equal(t, want, specs[0].Cost.Vertex, last)
	}
}
