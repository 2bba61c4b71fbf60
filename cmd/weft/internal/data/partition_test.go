package data

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
)

// TestInsteadOfMetis: where METIS divides a graph only if it is asked for, people learn why and how to ask.
func TestInsteadOfMetis(t *testing.T) {
	withEdges := func(edges int64) *graph.Graph {
		return graph.Of(graph.Relation{Indptr: []int64{0, edges}})
	}
	assert.Equal(t, "", InsteadOfMetis(withEdges(500_000), "--method"))
	assert.Equal(t, " (it may take minutes; --partition stream takes seconds)",
		InsteadOfMetis(withEdges(2_000_000), "--partition"))
	assert.Equal(t, " (METIS may take minutes for 25,000,000 edges; --method metis asks for it)",
		InsteadOfMetis(withEdges(25_000_000), "--method"))
}
