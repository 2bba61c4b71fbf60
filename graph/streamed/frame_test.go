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

// TestWrittenLabels: what was written tells labels without their rows, of the first relation with some, and
// counts those of all relations.
func TestWrittenLabels(t *testing.T) {
	r := func(column string, classes ...int64) graph.Relation {
		return graph.Relation{Indptr: []int64{0}, Frame: graph.Frame{
			Labels:  graph.Labels{Column: column, Classes: 3, Class: classes},
			SplitBy: &graph.SplitBy{Column: "at", Values: make([]float64, len(classes))},
		}}
	}
	w := streamed.WrittenOf(&graph.Graph{
		Types: []graph.VertexType{{}}, Relations: []graph.Relation{r(""), r("a", 1, -1, 2), r("b", 0)},
	})
	assert.Equal(t, graph.Frame{Labels: graph.Labels{Column: "a", Classes: 3, Class: []int64{}}}, w.Labelled)
	assert.Equal(t, 3, w.LabelledEdges)
}
