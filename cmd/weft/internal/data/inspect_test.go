package data

import (
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
)

// TestInspectPrints: vertices without edges are counted, and of many splits the first five are listed.
func TestInspectPrints(t *testing.T) {
	var out strings.Builder
	s := &inspected{Summary: graph.Summary{Vertices: 1200, Isolated: 3}}
	for k := range 7 {
		s.Splits = append(s.Splits, graph.SplitSizes{Train: k, Val: 1, Test: 2})
	}
	s.Print(&out)
	for _, line := range []string{
		"vertices    1,200, 3 isolated\n", "split 4     4 train, 1 validate, 2 test\n            and 2 more\n",
	} {
		assert.Contains(t, out.String(), line)
	}
}
