package graph

import (
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestReversed: every edge leads the other way, with its weight, and twice is the relation itself.
func TestReversed(t *testing.T) {
	r, err := NewRelation(5, Edges{
		Source: []int32{0, 3, 3, 1, 4, 4, 2}, Target: []int32{1, 1, 0, 3, 4, 1, 3},
		Weights: []float32{1, 2, 3, 4, 5, 6, 7},
	})
	require.NoError(t, err)
	back := r.Reversed(5)
	assert.Equal(t, []int64{0, 1, 2, 3, 5, 7}, back.Indptr, "rows begin at")
	assert.Equal(t, []int32{1, 3, 3, 0, 1, 1, 4}, back.Sources, "out-neighbours")
	assert.Equal(t, []float32{1, 4, 7, 3, 2, 6, 5}, back.Weights, "weights")
	again := back.Reversed(5)
	assert.Equal(t, r.Indptr, again.Indptr, "twice: %v, want %v", again, r)
	assert.Equal(t, r.Sources, again.Sources, "twice: %v, want %v", again, r)
	assert.Equal(t, r.Weights, again.Weights, "twice: %v, want %v", again, r)
	if plain := (&Relation{Indptr: r.Indptr, Sources: r.Sources}).Reversed(5); plain.Weights != nil {
		t.Errorf("a relation without weights has %v", plain.Weights)
	}
}
