package streamed_test

import (
	"testing"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/assert"
)

// TestTellLabelsApart: labels of edges of one name in several relations are named after these, too, and after
// the types that they join where relations of one name have some.
func TestTellLabelsApart(t *testing.T) {
	g := &streamed.Graph{Relations: []streamed.Relation{{Name: "none"}}}
	for _, c := range [][3]string{
		{"rates", "movie", "label"},
		{"rates", "book", "label"},
		{"likes", "book", "label"},
		{"buys", "book", "price"},
		{"rates", "user", "stars"},
	} {
		g.Relations = append(g.Relations, streamed.Relation{
			Source: "user", Name: c[0], Target: c[1],
			Frame: &streamed.Frame{Frame: graph.Frame{Labels: graph.Labels{Column: c[2]}}},
		})
	}
	g.TellLabelsApart()
	for i, want := range []string{
		"user__rates__movie:label", "user__rates__book:label", "likes:label", "price", "stars",
	} {
		assert.Equal(t, want, g.Relations[1+i].Frame.Labels.Column)
	}
}
