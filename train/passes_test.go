package train

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// passesOfLayers are passes of jobOfLayers, and values of the parameters.
func passesOfLayers(t *testing.T, parallel string, set func(*Options)) (p *Passes, values nn.State) {
	t.Helper()
	p, err := jobOfLayers(t, parallel, set).Passes(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p, valuesOf(t, p)
}

// jobOfLayers is of three mean aggregations with two linear layers, and dropout between them.
func jobOfLayers(t *testing.T, parallel string, set func(*Options)) *Job {
	t.Helper()
	g := tangle(t, 60, 240)
	columns := g.Types[0].Features.Columns
	o := programOptions(t, map[string][]int{"v": {4, columns}, "w": {3, 4}}, `"operations":[
		{"op":"features","shape":[`+strconv.Itoa(columns)+`]},
		{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"mean"},
		{"op":"parameter","name":"v"},{"op":"linear","in":[2,3]},{"op":"tanh","in":[4]},
		{"op":"dropout","in":[5],"p":0.5,"path":"a"},
		{"op":"gather","in":[6],"end":"source"},{"op":"scatter","in":[7],"reduce":"mean"},
		{"op":"parameter","name":"w"},{"op":"linear","in":[8,9]},
		{"op":"gather","in":[10],"end":"source"},{"op":"scatter","in":[11],"reduce":"mean"}],"output":12`)
	o.Parallel, o.Threads = parallel, 1
	if set != nil {
		set(&o)
	}
	require.NoError(t, o.ForLoop())
	return &Job{Graph: g, Options: o}
}

// valuesOf are values of the parameters.
func valuesOf(t *testing.T, p *Passes) nn.State {
	t.Helper()
	values := nn.State{}
	state, names := p.State()
	assert.Equal(t, []string{"v", "w"}, slices.Sorted(slices.Values(names)), "the parameters")
	for name, param := range state {
		n := 1
		for _, size := range param.Shape {
			n *= size
		}
		values[name] = nn.Tensor{Shape: param.Shape, Float32: make([]float32, n)}
		for k := range n {
			values[name].Float32[k] = float32(math.Sin(float64(3*k+len(name)))) / 2
		}
	}
	return values
}

// call is a pass of given features, and what it returns.
type call struct {
	Passes *Passes
	values nn.State
	number int
	output []float32
	edges  []worker.EdgeValues // for gradients
}

// made is the number of the last pass.
var made int

func (p *call) forward(t *testing.T, features []float32, f worker.Forward) *call {
	t.Helper()
	p.output = make([]float32, p.Passes.Types[0].Vertices*p.Passes.Outputs[0].Columns)
	f.Values = p.values
	if features != nil {
		f.Features = []worker.InputValues{{Values: features, Differentiable: f.Recording}}
	}
	n := p.Passes.Types[0].Vertices
	f.Outputs = [][]worker.ColumnBlock{
		{{Columns: 1, Values: p.output[:n]}, {Columns: 2, Values: p.output[n:]}},
	}
	made++
	f.Pass, p.number = made, made
	require.NoError(t, p.Passes.Forward(f))
	return p
}

// backward are the gradients of Σ output·(1 + k % 3).
func (p *call) backward(t *testing.T, features int, again bool) (grads nn.State, x []float32) {
	t.Helper()
	grad := make([]float32, len(p.output))
	for k := range grad {
		grad[k] = float32(1 + k%3)
	}
	grads, x = nn.State{}, make([]float32, features)
	for name, values := range p.values {
		grads[name] = nn.Tensor{Shape: values.Shape, Float32: make([]float32, len(values.Float32))}
	}
	n := p.Passes.Types[0].Vertices
	require.NoError(t, p.Passes.Backward(worker.Backward{
		Pass: p.number, Gradients: grads, Features: []worker.InputValues{{Values: x}}, Again: again,
		Edges:   p.edges,
		Outputs: [][]worker.ColumnBlock{{{Columns: 1, Values: grad[:n]}, {Columns: 2, Values: grad[n:]}}},
	}))
	return grads, x
}

func (p *call) loss() (sum float64) {
	for k, x := range p.output {
		sum += float64(x) * float64(1+k%3)
	}
	return sum
}

// TestPassesLacking: vertices without features have those that a pass is given, on a mesh whose workers read
// the same parts.
func TestPassesLacking(t *testing.T) {
	const mesh = "graph=2,tensor=2"
	own, values := passesOfLayers(t, mesh, nil)
	features := tangle(t, 60, 240).Types[0].Features
	want := (&call{Passes: own, values: values}).forward(t, nil, worker.Forward{})
	j := jobOfLayers(t, mesh, nil)
	j.Graph.Types[0].Features = graph.Features{}
	p, err := j.Passes(t.Context(), Lacking{Kind: OfVertices, Features: features.Columns})
	require.NoError(t, err)
	defer p.Close()
	got := (&call{Passes: p, values: values}).forward(t, features.Dense, worker.Forward{})
	assert.Equal(t, want.output, got.output)
}

// TestPasses: gradients of parameters and of features are those of differences; a pass keeps the parameters
// that it was computed with, and can be run backward again; the results are the same on every mesh, and no
// pass leaves memory behind.
func TestPasses(t *testing.T) {
	type results struct {
		grads nn.State
		x     []float32
	}
	var want results
	for _, parallel := range meshesOfPasses {
		p, values := passesOfLayers(t, parallel, nil)
		features := make([]float32, p.Types[0].Vertices*p.Types[0].Features)
		for k := range features {
			features[k] = float32(k%11)/8 - .5
		}
		train := worker.Forward{Seeds: []uint64{7}, Training: true, Recording: true}
		first := (&call{Passes: p, values: values}).forward(t, features, train)
		grads, x := first.backward(t, len(features), true)
		sameOf, sameX := first.backward(t, len(features), false)
		assert.Equal(t, grads, sameOf, "%s: the second backward pass", parallel)
		assert.Equal(t, x, sameX, "%s: the second backward pass, of the features", parallel)
		if parallel == "graph=1" {
			want = results{grads, x}
			differs := func(at *float32, grad float32, what string) {
				was, losses := *at, [2]float64{}
				for k, step := range []float32{.01, -.01} {
					*at = was + step
					losses[k] = (&call{Passes: p, values: values}).
						forward(t, features, worker.Forward{Seeds: []uint64{7}, Training: true}).loss()
				}
				*at = was
				assert.Near(t, (losses[0]-losses[1])/.02, float64(grad), 2e-2, what)
			}
			differs(&values["v"].Float32[1], grads["v"].Float32[1], "v")
			differs(&values["w"].Float32[6], grads["w"].Float32[6], "w")
			differs(&features[5], x[5], "features")
		}
		for name, param := range grads {
			for k, got := range param.Float32 {
				expected := float64(want.grads[name].Float32[k])
				assert.Near(t, expected, float64(got), 1e-4, "%s: %s", parallel, name)
			}
		}
		for k, got := range x {
			assert.Near(t, float64(want.x[k]), float64(got), 1e-5, "%s: features", parallel)
		}
		other := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{}) // in evaluation
		before := live(t, p)
		dropped := (&call{Passes: p, values: values}).forward(t, features, train)
		require.NoError(t, p.Drop(dropped.number))
		require.NoError(t, p.Drop(dropped.number)) // it has ended
		assert.Equal(t, before, live(t, p), "%s: bytes after a pass that was dropped", parallel)
		assert.Refused(t, p.Backward(worker.Backward{Pass: dropped.number}), "has no tape")
		again := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{Seeds: []uint64{9}})
		assert.Equal(t, other.output, again.output, "%s: in evaluation nothing is drawn", parallel)
	}
}

var meshesOfPasses = []string{
	"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "pipeline=3", "graph=2,pipeline=2",
	"graph=2,tensor=2,pipeline=2",
}

// TestLivePasses: of several live passes each has the results that it has alone, in whatever order they run
// backward and whatever parameters come between; each returns its memory.
func TestLivePasses(t *testing.T) {
	for _, parallel := range meshesOfPasses {
		for _, recompute := range []string{"none", "blocks"} {
			what := parallel + ", recompute " + recompute
			p, values := passesOfLayers(t, parallel, func(o *Options) {
				o.Recompute = recompute
			})
			changed := nn.State{}
			for name, param := range values {
				changed[name] = nn.Tensor{Shape: param.Shape, Float32: make([]float32, len(param.Float32))}
				for k, x := range param.Float32 {
					changed[name].Float32[k] = 1.5*x - .1
				}
			}
			features := make([]float32, p.Types[0].Vertices*p.Types[0].Features)
			for k := range features {
				features[k] = float32(k%11)/8 - .5
			}
			cases := []struct {
				values   nn.State
				features []float32
				worker.Forward
			}{
				{values, features, worker.Forward{Seeds: []uint64{7}, Training: true, Recording: true}},
				{changed, nil, worker.Forward{Recording: true}},
				{values, features, worker.Forward{Recording: true}},
				{changed, features, worker.Forward{Seeds: []uint64{8}, Training: true, Recording: true}},
			}
			type results struct {
				output []float32
				grads  nn.State
				x      []float32
			}
			var alone [4]results
			for k, c := range cases {
				single := (&call{Passes: p, values: c.values}).forward(t, c.features, c.Forward)
				grads, x := single.backward(t, len(c.features), false)
				alone[k] = results{single.output, grads, x}
			}
			before := live(t, p)
			var together [4]*call
			for k, c := range cases {
				together[k] = (&call{Passes: p, values: c.values}).forward(t, c.features, c.Forward)
			}
			(&call{Passes: p, values: changed}).
				forward(t, nil, worker.Forward{Seeds: []uint64{9}, Training: true})
			for _, k := range []int{1, 3, 0, 2} {
				grads, x := together[k].backward(t, len(cases[k].features), false)
				assert.Equal(t, alone[k], results{together[k].output, grads, x}, "%s: pass %d", what, k)
			}
			assert.Equal(t, before, live(t, p), "%s: bytes after all passes", what)
		}
	}
}

// TestPassesInChunks: where chunks read each other's rows of the pass before, one pass lives at a time.
func TestPassesInChunks(t *testing.T) {
	p, values := passesOfLayers(t, "pipeline=2", func(o *Options) { o.Chunks = 3 })
	train := worker.Forward{Seeds: []uint64{7}, Training: true, Recording: true}
	before := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{})
	live := (&call{Passes: p, values: values}).forward(t, nil, train)
	values["v"].Float32[0]++
	assert.Refused(t, p.Forward(worker.Forward{
		Pass: -1, Values: values, Outputs: [][]worker.ColumnBlock{{}},
	}),
		"--chunks 3: chunks read each other's rows of the pass before, which has not run backward")
	require.NoError(t, p.Drop(live.number))
	changed := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{})
	values["v"].Float32[0]--
	same := (&call{Passes: p, values: values}).forward(t, nil, worker.Forward{})
	assert.Equal(t, before.output, same.output)
	if slices.Equal(changed.output, before.output) {
		t.Error("a pass has the parameters from before one that was refused")
	}
}

// givenFeatures are some of one vertex type, and their gradients.
var givenFeatures = []worker.InputValues{{Values: []float32{}, Differentiable: true}}

// TestPlannedPasses: the memory of a loop is planned to the byte, and so is what a pass sends.
func TestPlannedPasses(t *testing.T) {
	inTurns := func(o *Options) { o.Partitions = 3 }
	for _, c := range []struct {
		parallel string
		set      func(*Options)
	}{
		{"graph=1", nil},
		{"graph=3", nil},
		{"tensor=2", nil},
		{"graph=2,tensor=2", nil},
		{"pipeline=2", nil},
		{"graph=1", inTurns},
		{"graph=1", func(o *Options) { o.Recompute = "blocks" }},
	} {
		job := jobOfLayers(t, c.parallel, c.set)
		for _, loop := range []plan.Loop{
			{Passes: 1}, {Passes: 3}, {Passes: 2, Features: givenFeatures},
		} {
			planned, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &loop})
			require.NoError(t, err)
			p, err := job.Passes(t.Context())
			require.NoError(t, err)
			var features []float32
			if loop.Features != nil {
				features = make([]float32, p.Types[0].Vertices*p.Types[0].Features)
			}
			values := valuesOf(t, p)
			for range 3 {
				var passes []*call
				for range loop.Passes {
					pass := (&call{Passes: p, values: values}).
						forward(t, features, worker.Forward{Training: true, Recording: true})
					passes = append(passes, pass)
				}
				for _, pass := range passes {
					pass.backward(t, len(features), false)
				}
				values["v"].Float32[0]++
			}
			took, err := p.Totals()
			require.NoError(t, err)
			what := fmt.Sprintf("%s, %d partitions, %+v", c.parallel, job.Options.Partitions, loop)
			assert.Equal(t, planned.PeakTensorBytes, took.PeakTensorBytes, "%s: tensors", what)
			assert.Equal(t, planned.GraphBytes, took.GraphBytes, "%s: graph", what)
			sent := worker.SumOf(planned.Sent)
			assert.Equal(t, sent.Halo, took.Communication.Halo, "%s: halo", what)
			assert.Equal(t, sent.Layout, took.Communication.Layout, "%s: layouts", what)
			require.NoError(t, p.Close())
		}
	}
}

// TestLimitedPasses: so many passes live as have room in the memory limit, and one more is refused; a limit
// without room for one is refused before any.
func TestLimitedPasses(t *testing.T) {
	job := jobOfLayers(t, "graph=2", nil)
	room := func(loop plan.Loop) setting.Bytes {
		planned, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &loop})
		require.NoError(t, err)
		_, most := planned.Most()
		return setting.Bytes(most)
	}
	job.Options.Recompute = "none"
	two, withFeatures := room(plan.Loop{Passes: 2}), room(plan.Loop{Passes: 1, Features: givenFeatures})
	job.Options.MemoryLimit = room(plan.Loop{Passes: 1}) - 1
	_, err := job.Passes(t.Context())
	assert.Refused(t, err, "raise the limit to")
	job.Options.MemoryLimit = max(two, withFeatures)
	p, err := job.Passes(t.Context())
	require.NoError(t, err)
	train := worker.Forward{Training: true, Recording: true}
	values := valuesOf(t, p)
	for range 2 {
		first := (&call{Passes: p, values: values}).forward(t, nil, train)
		second := (&call{Passes: p, values: values}).forward(t, nil, train)
		assert.Refused(t, p.Forward(worker.Forward{Pass: -1, Values: values}),
			"while 2 passes live: call backward")
		second.backward(t, 0, false)
		require.NoError(t, p.Drop(first.number))
	}
	features := make([]float32, p.Types[0].Vertices*p.Types[0].Features)
	(&call{Passes: p, values: values}).forward(t, features, train).backward(t, len(features), false)
	require.NoError(t, p.Close())
}

// TestPassesDivideOnce: what a job has divided serves the passes of another program.
func TestPassesDivideOnce(t *testing.T) {
	job := jobOfLayers(t, "graph=2,pipeline=2", func(o *Options) { o.Chunks = 4 })
	var err error
	job.Parts, err = job.MakeParts(t.Context())
	require.NoError(t, err)
	var first *int32
	for range 2 {
		p, err := job.Passes(t.Context())
		require.NoError(t, err)
		require.NoError(t, p.Close())
		if first == nil {
			first = &job.chunks.byVertex[0]
		}
		if first != &job.chunks.byVertex[0] {
			t.Error("the vertices are divided into chunks again")
		}
	}
}

// live is the live bytes of all workers.
func live(t *testing.T, p *Passes) (bytes int64) {
	t.Helper()
	var all atomic.Int64
	require.NoError(t, p.all(func(w *worker.Passes) error {
		all.Add(w.Team.Memory.LiveTensors())
		return nil
	}))
	return all.Load()
}
