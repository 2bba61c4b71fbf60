package train

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/train/worker"
)

// passesOfEdges are passes of two layers: messages that read edges' weights and features, and weighted sums.
func passesOfEdges(t *testing.T, g *graph.Graph, parallel string) (p *Passes, values nn.State) {
	t.Helper()
	return passesOfJob(t, &Job{Graph: g}, parallel)
}

func passesOfJob(t *testing.T, j *Job, parallel string) (p *Passes, values nn.State) {
	t.Helper()
	shapes := map[string][]int{"v": {4, 13}, "u": {4, 3}, "w": {3, 4}}
	o := programOptions(t, shapes, `"operations":[
		{"op":"features","shape":[13]},{"op":"parameter","name":"v"},{"op":"linear","in":[0,1]},
		{"op":"gather","in":[2],"end":"source"},{"op":"edge_weight","differentiable":true},
		{"op":"mul","in":[3,4]},
		{"op":"edge_features","shape":[3],"differentiable":true},{"op":"parameter","name":"u"},
		{"op":"linear","in":[6,7]},{"op":"add","in":[5,8]},{"op":"tanh","in":[9]},
		{"op":"scatter","in":[10],"reduce":"mean"},
		{"op":"gather","in":[11],"end":"source"},{"op":"mul","in":[12,4]},{"op":"scatter","in":[13],"reduce":"sum"},
		{"op":"parameter","name":"w"},{"op":"linear","in":[14,15]}],"output":16`)
	o.Parallel, o.Threads = parallel, 1
	require.NoError(t, o.ForLoop())
	j.Options = o
	p, err := j.Passes(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	values = nn.State{}
	for name, shape := range shapes {
		value := nn.Tensor{Shape: shape, Float32: make([]float32, shape[0]*shape[1])}
		for k := range value.Float32 {
			value.Float32[k] = float32(math.Sin(float64(3*k+len(name)))) / 2
		}
		values[name] = value
	}
	return p, values
}

// TestPassesOfKeptEdges: a pass with some of the edges, and the graph's own weights and features of them, is
// that on a graph of these edges, self loops among them.
func TestPassesOfKeptEdges(t *testing.T) {
	g := tangle(t, 60, 40)
	r := &g.Relations[0]
	only := worker.EdgeValues{Relation: r, Kept: make([]float32, len(r.Sources))}
	some, from := graph.Edges{FeatureColumns: 3}, r.Edges()
	loops := map[bool]bool{} // by whether one is kept
	for k := range only.Kept {
		loop := from.Source[k] == from.Target[k]
		kept := k%2 > 0 || !loop && k%4 > 0
		loops[kept] = loops[kept] || loop
		if !kept {
			continue
		}
		only.Kept[k] = 1
		some.Source, some.Target = append(some.Source, from.Source[k]), append(some.Target, from.Target[k])
		some.Weights = append(some.Weights, from.Weights[k])
		some.Features = append(some.Features, from.Features[3*k:3*k+3]...)
	}
	assert.Equal(t, map[bool]bool{false: true, true: true}, loops, "loops are left out, and kept")
	want := outputWith(t, g, some)
	for _, parallel := range []string{"graph=1", "graph=3"} {
		p, values := passesOfEdges(t, g, parallel)
		some := worker.Forward{Edges: []worker.EdgeValues{only}}
		got := (&call{Passes: p, values: values}).forward(t, nil, some).output
		for k, x := range got {
			assert.Near(t, float64(want[k]), float64(x), 1e-5, parallel)
		}
	}
}

// outputWith is the output of a pass on a graph whose first relation has these edges.
func outputWith(t *testing.T, g *graph.Graph, some graph.Edges) []float32 {
	t.Helper()
	less := *g.Copy()
	less.Relations = slices.Clone(g.Relations)
	var err error
	less.Relations[0], err = graph.NewRelation(60, some)
	require.NoError(t, err)
	p, values := passesOfEdges(t, &less, "graph=1")
	return (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{}).output
}

// TestPassesOfEdges: a pass with some of the edges, and other weights and features of them, is that on a
// graph of these edges; gradients are those of differences, 0 for edges that the pass does not have, and the
// same on every mesh; no pass leaves memory behind.
func TestPassesOfEdges(t *testing.T) {
	g := tangle(t, 60, 40)
	r := &g.Relations[0]
	n := len(r.Sources)
	input := worker.EdgeValues{Relation: r, Kept: make([]float32, n)}
	input.Weights = worker.InputValues{Values: make([]float32, n), Differentiable: true}
	input.Features = worker.InputValues{Values: make([]float32, 3*n), Differentiable: true}
	some, from := graph.Edges{FeatureColumns: 3}, r.Edges()
	for k := range n {
		input.Weights.Values[k] = float32(math.Cos(float64(5 * k)))
		for c := range 3 {
			input.Features.Values[3*k+c] = float32(math.Sin(float64(7*k + c)))
		}
		if k%3 == 0 {
			continue
		}
		input.Kept[k] = 1
		some.Source, some.Target = append(some.Source, from.Source[k]), append(some.Target, from.Target[k])
		some.Weights = append(some.Weights, input.Weights.Values[k])
		some.Features = append(some.Features, input.Features.Values[3*k:3*k+3]...)
	}
	want := outputWith(t, g, some)

	var weights, features []float32
	for _, parallel := range []string{"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2"} {
		p, values := passesOfEdges(t, g, parallel)
		before := live(t, p)
		with := worker.Forward{Recording: true, Edges: []worker.EdgeValues{input}}
		first := (&call{Passes: p, values: values}).forward(t, nil, with)
		for k, x := range first.output {
			assert.Near(t, float64(want[k]), float64(x), 1e-5, parallel)
		}
		to := worker.EdgeValues{Relation: r}
		to.Weights.Values = slices.Repeat([]float32{9}, n)
		to.Features.Values = slices.Repeat([]float32{9}, 3*n)
		first.edges = []worker.EdgeValues{to}
		first.backward(t, 0, true)
		twice := slices.Clone(to.Weights.Values)
		first.backward(t, 0, false)
		assert.Equal(t, twice, to.Weights.Values, "%s: the second backward pass", parallel)
		if parallel == "graph=1" {
			weights, features = to.Weights.Values, to.Features.Values
			with.Recording = false
			differs := func(at *float32, grad float32, what string, number int) {
				was, losses := *at, [2]float64{}
				for k, step := range []float32{.01, -.01} {
					*at = was + step
					losses[k] = (&call{Passes: p, values: values}).forward(t, nil, with).loss()
				}
				*at = was
				assert.Near(t, (losses[0]-losses[1])/.02, float64(grad), 2e-2, "%s %d", what, number)
			}
			for k := 0; k < n; k += 5 {
				differs(&input.Weights.Values[k], weights[k], "weight", k)
				differs(&input.Features.Values[3*k+1], features[3*k+1], "feature", k)
			}
		}
		for k, x := range to.Weights.Values {
			assert.Near(t, float64(weights[k]), float64(x), 1e-4, "%s: weight %d", parallel, k)
		}
		for k, x := range to.Features.Values {
			assert.Near(t, float64(features[k]), float64(x), 1e-4, "%s: feature %d", parallel, k)
		}
		dropped := (&call{Passes: p, values: values}).forward(t, nil,
			worker.Forward{Recording: true, Edges: []worker.EdgeValues{input}})
		require.NoError(t, p.Drop(dropped.number))
		assert.Equal(t, before, live(t, p), "%s: bytes after all passes", parallel)
	}
}

// TestRowsOfPasses: the rows that are asked for are those of all; an inference of few rows goes along few
// edges.
func TestRowsOfPasses(t *testing.T) {
	g := tangle(t, 400, 40)
	for _, parallel := range []string{"graph=1", "graph=3", "tensor=2"} {
		var entries atomic.Int64
		p, values := passesOfJob(t, &Job{Graph: g, Watch: func(c kernel.Call, run func()) {
			entries.Add(int64(c.Entries))
			run()
		}}, parallel)
		whole := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{}).output
		all := entries.Swap(0)
		rows := []int32{2, 91, 333}
		output := make([]float32, 3*len(rows))
		ask := worker.Forward{Values: values, Rows: [][]int32{rows}}
		ask.Outputs = [][]worker.ColumnBlock{{{Columns: 3, Values: output}}}
		require.NoError(t, p.Forward(ask))
		n := p.Types[0].Vertices
		for k, v := range rows {
			want := []float32{whole[v], whole[n+2*int(v)], whole[n+2*int(v)+1]}
			for c := range want {
				assert.Near(t, float64(want[c]), float64(output[3*k+c]), 1e-5, "%s: vertex %d", parallel, v)
			}
		}
		few := entries.Load()
		if saves := parallel != "tensor=2"; saves != (few < all/3) {
			t.Errorf("%s: %d entries of sparse products, and %d of all rows", parallel, few, all)
		}
	}
}
