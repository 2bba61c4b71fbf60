package program_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/parallel/paralleltest"
	"weft/program"
	"weft/tensor"
)

// TestGolden compares the logits, gradients and running statistics of programs with those of the modules of
// PyTorch that they were traced from, on a directed graph with isolated vertices, self loops and parallel
// edges, as one block and as several.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	if len(files) < 14 {
		t.Fatalf("%d golden files", len(files))
	}
	for _, file := range files {
		for _, stages := range []int{1, 2} {
			name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
			t.Run(name, func(t *testing.T) { testGolden(t, file, stages) })
		}
	}
}

func testGolden(t *testing.T, file string, stages int) {
	tensors, meta, err := safetensors.ReadFile(file)
	require.NoError(t, err)
	with := func(prefix string) nn.State {
		state := nn.State{}
		for name, v := range tensors {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				state[rest] = v
			}
		}
		return state
	}
	p, err := program.Read(strings.NewReader(meta["program"]))
	require.NoError(t, err)
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	defer team.Memory.Close()
	x := tensors["x"]
	part := paralleltest.Whole(t, team, graphOf(t, tensors))
	classes := tensors["logits"].Shape[1]
	specs, err := p.Blocks(part.Schema(), classes, stages)
	require.NoError(t, err)
	params := nn.NewParams(team, 1)
	model := gnn.Build(specs, 0, len(specs), gnn.Env{
		Params: params, Schema: part.Schema(), Rows: part.Types(), Propagators: part.Propagator,
	})
	state := with("param.")
	known := params.Names()
	for name := range state { // those that no operation reads
		if !slices.Contains(known, name) {
			delete(state, name)
		}
	}
	require.NoError(t, params.Load(state))
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	features := tape.Input(matrix(team.Memory, x), part.Types()[0])
	live := team.Memory.LiveTensors()
	logits := model.Forward(gnn.StateOf(features)).Output()
	near(t, "logits", logits.Value().ReadFloats(), tensors["logits"].Float32)
	tape.Backward(autograd.Root{Var: logits, Grad: matrix(team.Memory, tensors["cotangent"])})
	grads := with("grad.")
	near(t, "grad.x", features.TakeGrad().ReadFloats(), grads["x"].Float32)
	for name, g := range gradientsOf(params) {
		near(t, "grad."+name, g.Float32, grads[name].Float32)
		delete(grads, name)
	}
	delete(grads, "x")
	for name, g := range grads {
		if slices.ContainsFunc(g.Float32, func(v float32) bool { return v != 0 }) {
			t.Errorf("PyTorch's logits depend on %s, which the program lacks", name)
		}
	}
	params.Commit()
	after := params.State()
	for name, v := range with("after.") {
		if ours, has := after[name]; has {
			assert.Equal(t, v.Int64, ours.Int64, name)
			near(t, name, ours.Float32, v.Float32)
		}
	}
	if extra := team.Memory.LiveTensors() - live; extra > 8*4096 {
		t.Errorf("%d bytes are still live after the backward pass", extra)
	}
}

// gradientsOf returns the gradients of the parameters, as files hold them.
func gradientsOf(params *nn.Params) nn.State {
	swap := func() {
		for _, q := range params.List {
			q.Value, q.Grad = q.Grad, q.Value
		}
	}
	swap()
	defer swap()
	gradients := params.State()
	for _, b := range params.Buffers {
		delete(gradients, b.Name)
	}
	return gradients
}

// graphOf is the graph of a golden file.
func graphOf(t *testing.T, tensors map[string]safetensors.Tensor) *graph.Graph {
	index := tensors["edge_index"]
	n := index.Shape[1]
	e := graph.Edges{Weights: tensors["edge_weight"].Float32}
	for k := range n {
		e.Source = append(e.Source, int32(index.Int64[k]))
		e.Target = append(e.Target, int32(index.Int64[n+k]))
	}
	if of, has := tensors["edge_attr"]; has {
		e.Features, e.FeatureColumns = of.Float32, of.Shape[1]
	}
	x := tensors["x"]
	g := paralleltest.GraphOf(t, x.Shape[0], e)
	g.Types[0].Features = graph.Features{Columns: x.Shape[1], Dense: x.Float32}
	return g
}

func matrix(memory *tensor.Meter, v safetensors.Tensor) *tensor.Matrix {
	m := memory.New(tensor.Features, v.Shape[0], v.Shape[1])
	copy(m.WriteFloats(), v.Float32)
	return m
}

// near fails unless got is within 1e-5 of the largest wanted value.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	largest, worst := 1e-3, 0.
	for i := range want {
		largest = math.Max(largest, math.Abs(float64(want[i])))
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= worst) {
			worst = d
		}
	}
	if !(worst <= max(1e-5*largest, 5e-7)) { // the rounding of sums whose terms of about 1 cancel
		t.Errorf("%s: off by %.3g where the largest value is %.3g", what, worst, largest)
	}
}
