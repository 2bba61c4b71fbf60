package pyg

import (
	"testing"

	"weft/graph"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestEdgeLabels: a label for each edge, with the masks of edges, follows its edge into the order of targets
// and sources. Labels of other pairs are left out.
func TestEdgeLabels(t *testing.T) {
	edges := row("edge_index", "LongStorage", []int64{0, 2, 1, 3, 1, 1, 0, 0}, 2, 4) // by e2, e3, e0, e1
	x := row("x", "FloatStorage", []float32{1, 2, 3, 4}, 4, 1)
	label := func(name string) tensorOf { return row(name, "LongStorage", []int64{0, 1, 1, -1}, 4) }
	mask := func(name string, flags ...int64) tensorOf { return row(name, "LongStorage", flags, 4) }
	for _, name := range []string{"edge_label", "edge_y"} {
		path := saved(t, edges, x, label(name), mask("train_mask", 1, 1, 0, 0), mask("val_mask", 0, 0, 1, 0),
			mask("test_mask", 0, 0, 0, 0))
		g, err := streamedtest.Read(Open(path, Options{}))
		require.NoError(t, err)
		frame := &g.Relations[0].Frame
		assert.Equal(t, name, frame.Labels.Column)
		assert.Equal(t, []int64{1, -1, 0, 1}, frame.Labels.Class)
		assert.Equal(t, []graph.Split{{Train: []int64{2, 3}, Val: []int64{0}, Test: []int64{}}}, frame.Splits)
		assert.Equal(t, 0, len(g.Types[0].Splits))
	}

	// Masks are those of vertices where these have labels.
	y := row("y", "LongStorage", []int64{0, 1, 1, 0}, 4)
	g, err := streamedtest.Read(Open(saved(t, edges, y, label("edge_y"), mask("train_mask", 1, 1, 0, 0),
		mask("val_mask", 0, 0, 1, 0), mask("test_mask", 0, 0, 0, 1)), Options{}))
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 1}, g.Types[0].Splits[0].Train)
	assert.Equal(t, 0, len(g.Relations[0].Splits))

	values := row("edge_y", "FloatStorage", []float32{.5, 1.5, -2, 4}, 4)
	g, err = streamedtest.Read(Open(saved(t, edges, x, values), Options{}))
	require.NoError(t, err)
	assert.Equal(t, []float32{-2, 4, .5, 1.5}, g.Relations[0].Labels.Values)

	// Floats are values, though all are whole, unless these are 0 and 1.
	for _, c := range []struct{ floats, values []float32 }{
		{[]float32{3, 5, 1, 4}, []float32{1, 4, 3, 5}}, {[]float32{0, 1, 1, 0}, nil},
	} {
		floats := row("edge_label", "FloatStorage", c.floats, 4)
		g, err = streamedtest.Read(Open(saved(t, edges, x, floats), Options{}))
		require.NoError(t, err)
		frame := &g.Relations[0].Frame
		assert.Equal(t, c.values, frame.Labels.Values)
		assert.Equal(t, c.values == nil, frame.Labels.Classes == 2)
	}

	pairs := row("edge_label_index", "LongStorage", []int64{0, 2, 1, 3, 1, 1, 0, 0}, 2, 4)
	g, err = streamedtest.Read(Open(saved(t, edges, x, label("edge_label"), pairs), Options{}))
	require.NoError(t, err)
	if g.Relations[0].HasLabels() {
		t.Error("labels of other pairs are read as those of edges")
	}
	assert.Equal(t, `left out: "edge_label", "edge_label_index"`, g.Notes[len(g.Notes)-1])
	// An edge_type divides the edges into relations, or one, whose labels a list of all edges does not give.
	for relations, types := range map[int][]int64{1: {5, 5, 5, 5}, 2: {0, 1, 0, 1}} {
		path := saved(t, edges, x, label("edge_label"), mask("edge_type", types...))
		g, err = streamedtest.Read(Open(path, Options{}))
		require.NoError(t, err)
		require.Len(t, g.Relations, relations)
		for _, r := range g.Relations {
			assert.Equal(t, true, !r.HasLabels(), "labels of "+r.Name)
		}
		assert.Equal(t, `left out: "edge_label"`, g.Notes[len(g.Notes)-1])
	}

	_, err = streamedtest.Read(Open(saved(t, edges, x, label("edge_y"), mask("train_mask", 0, 0, 0, 1),
		mask("val_mask", 0, 0, 1, 0), mask("test_mask", 0, 0, 0, 1)), Options{}))
	assert.Refused(t, err, "edge")
}
