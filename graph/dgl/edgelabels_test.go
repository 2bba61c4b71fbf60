package dgl

import (
	"testing"

	"weft/graph"
	"weft/graph/dgl/dgltest"
	"weft/graph/graphtest"
	"weft/internal/assert"
)

// TestEdgeLabels: labels of edges come with their masks, in the order of the store, and their edges pass
// messages. Floats are values, unless these are 0 and 1.
func TestEdgeLabels(t *testing.T) {
	masks := map[string][]uint8{
		"train_mask": {1, 1, 0, 0, 0, 1, 0, 1}, "val_mask": {0, 0, 1, 0, 0, 0, 0, 0},
		"test_mask": {0, 0, 0, 1, 1, 0, 0, 0},
	}
	// Edge k goes from user k%3 to item k%4, so that the store has the edges 0, 4, 1, 5, 6, 2, 3, 7.
	labelled := func(label dgltest.Tensor) *graph.Relation {
		input := follows(masks)
		input.Relations[0].Tensors["label"] = label
		g, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, input)), only)
		r := &g.Relations[0]
		assert.Equal(t, []int32{0, 1, 1, 2, 0, 2, 0, 1}, r.Sources)
		assert.Equal(t, "label", r.Labels.Column)
		assert.Equal(t, true, r.EdgeSplit == nil)
		assert.Equal(t, []float32{0, 0, 4, -4, 1, -1}, r.Features.Dense[:6])
		return r
	}
	r := labelled(dgltest.Of([]int64{0, 1, 2, 0, 1, 2, -1, 1}))
	assert.Equal(t, []int64{0, 1, 1, 2, -1, 2, 0, 1}, r.Labels.Class)
	assert.Equal(t, []graph.Split{{Train: []int64{0, 2, 3, 7}, Val: []int64{5}, Test: []int64{1, 6}}},
		r.Splits)
	r = labelled(dgltest.Of([]float32{1, 5, 3, 2, 4, 5, 1, 2}))
	assert.Equal(t, []float32{1, 4, 5, 5, 1, 3, 2, 2}, r.Labels.Values)
	r = labelled(dgltest.Of([]float32{1, 0, 0, 1, 0, 1, 1, 0}))
	assert.Equal(t, []int64{1, 0, 0, 1, 1, 0, 1, 0}, r.Labels.Class)

	// Masks of edges are a split of links where that is asked for.
	input := follows(masks)
	input.Relations[0].Tensors["label"] = dgltest.Of([]int64{0, 1, 2, 0, 1, 2, -1, 1})
	o := only
	o.EdgeSplit = Masks
	g, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, input)), o)
	assert.Equal(t, true, !g.Relations[0].HasLabels() && g.Relations[0].EdgeSplit != nil)
}
