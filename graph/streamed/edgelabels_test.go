package streamed_test

import (
	"testing"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/assert"
)

// TestTellLabelsApart: labels of edges of one name in several relations are named after these, too.
func TestTellLabelsApart(t *testing.T) {
	g := &streamed.Graph{Relations: []streamed.Relation{{Name: "none"}}}
	for _, of := range [][2]string{{"rates", "label"}, {"likes", "label"}, {"buys", "price"}} {
		g.Relations = append(g.Relations, streamed.Relation{
			Name: of[0], EdgeLabels: &streamed.EdgeLabels{Of: graph.EdgeLabels{Column: of[1]}},
		})
	}
	g.TellLabelsApart()
	for i, want := range []string{"rates:label", "likes:label", "price"} {
		assert.Equal(t, want, g.Relations[1+i].EdgeLabels.Of.Column)
	}
}
