package session

import (
	"path/filepath"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestSameFeatures: the way out names the store that has the features which the weights need.
func TestSameFeatures(t *testing.T) {
	trained, err := filepath.Abs("g") // as a run records it
	require.NoError(t, err)
	for want, r := range map[string]Request{
		"give a store with the 8 features that they were trained on, in the same order": {Graph: "g"},
		"give a store with the 8 features of g, which run was trained on, in the same order": {
			Graph: "wide", Run: "run", Learned: learnedClasses{Store: "g"},
		},
		"the store has changed since run was trained on it: give one with the 8 features of then, in the " +
			"same order, or train again": {Graph: "g", Run: "run", Learned: learnedClasses{Store: trained}},
	} {
		assert.Equal(t, want, r.sameFeatures(8), "%+v", r)
	}
}
