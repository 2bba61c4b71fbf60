package npz

import (
	"fmt"
	"testing"

	"weft/graph"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// labelled is four vertices with six edges, two of them parallel, of two splits.
func labelled(changed ...entry) []entry {
	all := []entry{
		array("edge_index", "<i8", "(2, 6)", []int64{3, 0, 3, 1, 0, 2, 2, 1, 2, 0, 1, 0}),
		array("num_nodes", "<i8", "()", []int64{4}),
		array("edge_attr", "<f4", "(6, 1)", []float32{10, 11, 12, 13, 14, 15}),
		array("edge_y", "<i8", "(6,)", []int64{0, 1, 2, -1, 1, 0}),
		array("edge_class_names", "<U2", "(4,)", text(2, "a", "b", "c", "d")),
		array("edge_train_mask", "|b1", "(6, 2)", []byte{1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0}),
		array("edge_val_mask", "|b1", "(6,)", []byte{0, 0, 0, 0, 1, 0}),
		array("edge_test_mask", "|b1", "(6, 2)", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}),
	}
	for _, c := range changed {
		all = append(without(all, c.key), c)
	}
	return all
}

// Labels and splits follow their edges into the order of the store, in memory and in a stream, where a rule
// may replace the splits.
func TestEdgeLabels(t *testing.T) {
	g := streamedtest.Same(t, opening(folder(t, labelled()...)))
	r := g.Relations[0]
	want := &graph.Frame{
		Features: graph.Features{Columns: 1, Dense: []float32{13, 15, 11, 14, 10, 12}},
		Labels: graph.Labels{
			Column: "edge_y", Classes: 4, Class: []int64{-1, 0, 1, 1, 0, 2},
			Names: []string{"a", "b", "c", "d"},
		},
		Splits: []graph.Split{
			{Train: []int64{4, 5}, Val: []int64{3}, Test: []int64{1}},
			{Train: []int64{2, 5}, Val: []int64{3}, Test: []int64{1}},
		},
	}
	assert.Equal(t, []int32{1, 2, 0, 0, 3, 3}, r.Sources)
	assert.Equal(t, want, &r.Frame)
	divided, err := streamedtest.Read(Open(write(t, labelled()...), Options{
		DivideEdges: func(l *graph.Frame) error { return l.MakeSplits("random:40/20/40", 1, 0) },
	}))
	require.NoError(t, err)
	assert.Equal(t, 1, len(divided.Relations[0].Splits))
	y := func(y ...int64) entry { return array("edge_y", "<i8", fmt.Sprintf("(%d,)", len(y)), y) }
	for want, entries := range map[string][]entry{
		`array "edge_y": has 5 rows, not 6`:           labelled(y(0, 1, 2, 0, 1)),
		`array "edge_y": label 9 of edge 0: classes `: labelled(y(9, 1, 2, 0, 1, 0)),
		`array "edge_y": no edge has a label`: without(labelled(y(-1, -1, -1, -1, -1, -1)),
			"edge_class_names"),
		`array "edge_class_names": has 2 names`: labelled(
			array("edge_class_names", "<U1", "(2,)", text(1, "a", "b"))),
		`array "edge_val_mask": split 0: edge 3 has no`: labelled(
			array("edge_val_mask", "|b1", "(6,)", []byte{0, 0, 0, 1, 0, 0})),
		`"edge_train_mask": is missing`:         without(labelled(), "edge_train_mask"),
		`there are no labels of edges "edge_y"`: without(labelled(), "edge_y"),
	} {
		refused(t, want, entries...)
	}
}
