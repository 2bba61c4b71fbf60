package graph

import (
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestEdgesOf: edges by their numbers in the store, in the order of the list, with weights and features if
// the relation has some.
func TestEdgesOf(t *testing.T) {
	r, err := NewRelation(3, Edges{
		Source: []int32{2, 0, 1}, Target: []int32{1, 1, 0}, Weights: []float32{5, 6, 7},
		Features: []float32{1, 2, 3, 4, 8, 9}, FeatureColumns: 2,
	})
	require.NoError(t, err)
	assert.Equal(t, &Edges{
		Source: []int32{2, 1, 2}, Target: []int32{1, 0, 1}, Weights: []float32{5, 7, 5},
		Features: []float32{1, 2, 8, 9, 1, 2}, FeatureColumns: 2,
	}, r.EdgesOf(2, 0, 2))
	r, err = NewRelation(3, Edges{Source: []int32{2, 0}, Target: []int32{1, 1}})
	require.NoError(t, err)
	assert.Equal(t, &Edges{Source: []int32{0}, Target: []int32{1}}, r.EdgesOf(0))
}
