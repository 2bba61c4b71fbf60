package training

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/setting"
)

// TestWayOutIsSoon: how many partitions a refusal for memory plans follows from the layers, of which a model
// that is one convolution has one. Whether it plans any follows from the edges of both graphs.
func TestWayOutIsSoon(t *testing.T) {
	for model, most := range map[string]int{"sage": 12, "sgc": 48} {
		o := setting.Defaults()
		o.Model, o.Layers = model, 4
		r, err := o.Resolve()
		require.NoError(t, err)
		assert.Equal(t, most, mostTurns(r), model)
	}
	withEdges := func(edges int64) *graph.Graph { return graph.Of(graph.Relation{Indptr: []int64{0, edges}}) }
	assert.Equal(t, 8, edgesOf(&train.Job{Graph: withEdges(5), Validate: &train.Job{Graph: withEdges(3)}}))
	assert.Equal(t, 5, edgesOf(&train.Job{Graph: withEdges(5)}))
}
