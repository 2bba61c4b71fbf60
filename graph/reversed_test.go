package graph

import (
	"slices"
	"testing"

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
	if want := []int64{0, 1, 2, 3, 5, 7}; !slices.Equal(back.Indptr, want) {
		t.Errorf("rows begin at %v, want %v", back.Indptr, want)
	}
	if want := []int32{1, 3, 3, 0, 1, 1, 4}; !slices.Equal(back.Sources, want) {
		t.Errorf("out-neighbours %v, want %v", back.Sources, want)
	}
	if want := []float32{1, 4, 7, 3, 2, 6, 5}; !slices.Equal(back.Weights, want) {
		t.Errorf("weights %v, want %v", back.Weights, want)
	}
	again := back.Reversed(5)
	if !slices.Equal(again.Indptr, r.Indptr) || !slices.Equal(again.Sources, r.Sources) ||
		!slices.Equal(again.Weights, r.Weights) {
		t.Errorf("twice: %v, want %v", again, r)
	}
	if plain := (&Relation{Indptr: r.Indptr, Sources: r.Sources}).Reversed(5); plain.Weights != nil {
		t.Errorf("a relation without weights has %v", plain.Weights)
	}
}
