package train

import (
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/worker"
)

// twoTypes is a graph of two vertex types, and a relation from b to a.
func twoTypes(t *testing.T) *graph.Graph {
	t.Helper()
	e := graph.Edges{Source: []int32{0, 1, 3, 3, 2}, Target: []int32{0, 0, 1, 4, 4}}
	r, err := graph.NewBipartite(4, 5, e)
	require.NoError(t, err)
	r.Source, r.Name, r.Target = "b", "y", "a"
	return &graph.Graph{Relations: []graph.Relation{r}, Types: []graph.VertexType{
		{
			Type: "a",
			Frame: graph.Frame{
				Count: 5, Features: graph.Features{Columns: 1, Dense: []float32{1, 2, 3, 4, 5}},
			},
		},
		{Type: "b", Frame: graph.Frame{Count: 4, Features: graph.Features{
			Columns: 2, Dense: []float32{1, 0, 0, 1, 1, 1, 2, -1},
		}}},
	}}
}

// jobOfTypes is of twoTypes. Its outputs are of both: for a the sum of its neighbours' rows times w, for b
// the rows times u.
func jobOfTypes(t *testing.T, parallel string) *Job {
	t.Helper()
	o := programOptions(t, map[string][]int{"u": {1, 2}, "w": {2, 2}}, `
		"relations":[{"name":"b__y__a","source":"b","target":"a"}],"operations":[
		{"op":"features","shape":[2],"of":"b"},{"op":"parameter","name":"w"},{"op":"linear","in":[0,1]},
		{"op":"gather","in":[2],"end":"source","of":"b__y__a"},{"op":"scatter","in":[3],"reduce":"sum"},
		{"op":"parameter","name":"u"},{"op":"linear","in":[0,5]}],"output":4,"others":[6]`)
	o.Parallel, o.Threads = parallel, 1
	require.NoError(t, o.ForLoop())
	return &Job{Graph: twoTypes(t), Options: o}
}

// TestPassesOfTypes: a pass has outputs of several vertex types, each with blocks and gradients of its own,
// which are computed here by hand; training by weft refuses such a program.
func TestPassesOfTypes(t *testing.T) {
	for _, parallel := range []string{"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2"} {
		p, err := jobOfTypes(t, parallel).Passes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []Output{{Type: 0, Columns: 2}, {Type: 1, Columns: 1}}, p.Outputs, parallel)
		values := nn.State{
			"u": {Shape: []int{1, 2}, Float32: []float32{1, 3}},
			"w": {Shape: []int{2, 2}, Float32: []float32{1, 2, 0, -1}},
		}
		outputs := func() (blocks [][]worker.ColumnBlock) {
			return [][]worker.ColumnBlock{
				{{Columns: 2, Values: make([]float32, 10)}}, {{Columns: 1, Values: make([]float32, 4)}},
			}
		}
		before := live(t, p)
		made := outputs()
		require.NoError(t, p.Forward(worker.Forward{
			Pass: 1, Values: values, Outputs: made, Training: true, Recording: true,
			Features: []worker.InputValues{
				{}, {Values: []float32{1, 0, 0, 1, 1, 1, 2, -1}, Differentiable: true},
			},
		}))
		// b's rows times w: (1, 0), (2, −1), (3, −1), (0, 1)
		assert.Equal(t, []float32{3, -1, 0, 1, 0, 0, 0, 0, 3, 0}, made[0][0].Values, parallel)
		assert.Equal(t, []float32{1, 3, 4, -1}, made[1][0].Values, parallel)
		grads := outputs()
		copy(grads[0][0].Values, []float32{1, 0, 0, 1, 0, 0, 0, 0, 2, 0}) // of a
		grads[1][0].Values[2] = 1                                         // of b's third row
		paramGrads := nn.State{
			"u": {Shape: []int{1, 2}, Float32: make([]float32, 2)},
			"w": {Shape: []int{2, 2}, Float32: make([]float32, 4)},
		}
		x := make([]float32, 8)
		require.NoError(t, p.Backward(worker.Backward{
			Pass: 1, Outputs: grads, Gradients: paramGrads, Features: []worker.InputValues{{}, {Values: x}},
		}))
		assert.Equal(t, []float32{1, 1}, paramGrads["u"].Float32, parallel)
		// b's rows of products have the gradients (1, 0), (1, 0), (2, 0), (2, 1)
		assert.Equal(t, []float32{7, 1, 2, -1}, paramGrads["w"].Float32, parallel)
		assert.Equal(t, []float32{1, 2, 1, 2, 3, 7, 2, 3}, x, parallel)
		assert.Equal(t, before, live(t, p), "%s: bytes after the pass", parallel)
		require.NoError(t, p.Close())
	}
	_, err := jobOfTypes(t, "graph=1").Run(t.Context())
	assert.Refused(t, err, "it has outputs of several vertex types")
}
