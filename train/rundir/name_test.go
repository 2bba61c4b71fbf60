package rundir

import (
	"testing"

	"weft/internal/assert"
)

// TestFileNameKeeps: letters, digits and -, _ and . stay in a name, up to the ends of their ranges, and what
// stands beside them in ASCII does not.
func TestFileNameKeeps(t *testing.T) {
	for dataset, want := range map[string]string{
		"azAZ09-_.b":       "azAZ09-_.b",
		"x`{@[:!x":         "x------x",
		"a+b,c=d":          "a-b-c-d",
		".hidden.":         "hidden",
		"/data/papers.npz": "papers.npz",
	} {
		assert.Equal(t, want, fileName(dataset), "%q", dataset)
	}
}
