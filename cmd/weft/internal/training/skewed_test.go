package training

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/train/setting"
)

// TestFewRows: precision@K is that of all rows with a label where these are fewer than K, in each part by
// itself. Rows without a label do not count.
func TestFewRows(t *testing.T) {
	g := &graph.Graph{Types: []graph.VertexType{{Frame: graph.Frame{
		Labels: graph.Labels{Classes: 2, Class: []int64{0, 1, -1, 1, 0, 0, 1, -1}},
		Splits: []graph.Split{{Train: []int64{0}, Val: []int64{1, 2, 3}, Test: []int64{4, 5, 6, 7}}},
	}}}}
	for metric, want := range map[string]string{
		"precision@2": "", "accuracy": "",
		"precision@3": "--metric precision@3: there are 2 validation vertices, and the precision is that of all of them",
		"precision@4": "--metric precision@4: there are 2 validation and 3 test vertices, and the precision is that of " +
			"all of them",
	} {
		o := setting.Defaults()
		o.Metric = metric
		assert.Equal(t, want, few(g, &o), metric)
	}
}
