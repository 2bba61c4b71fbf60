package training

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
)

// TestLaterDates: of ten edges on ten days each has a label, or the first five have: the days from which on
// three and four fifths of these lie before. Edges without a label do not count.
func TestLaterDates(t *testing.T) {
	const first = 19_723 // 2024-01-01
	r := &graph.Relation{EdgeColumns: 1, Sources: make([]int32, 10), EdgeLabels: &graph.EdgeLabels{}}
	for k := range r.Sources {
		r.EdgeFeatures = append(r.EdgeFeatures, float32(k))
	}
	for labelled, want := range map[int]string{
		10: "2024-01-07,2024-01-09", 5: "2024-01-04,2024-01-05", 1: "START,END", 0: "START,END",
	} {
		r.EdgeLabels.Class = make([]int64, 10)
		for k := labelled; k < 10; k++ {
			r.EdgeLabels.Class[k] = -1
		}
		assert.Equal(t, want, laterDates(r, 0, first), "%d labels", labelled)
	}
}
