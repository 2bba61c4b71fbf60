package program_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
)

// TestGolden compares the logits, gradients and running statistics of programs with those of the modules of
// PyTorch that they were traced from, on a directed graph with isolated vertices, self loops and parallel
// edges, as one block, as several, on partitions of the graph, and on slices of the columns.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.safetensors")
	require.NoError(t, err)
	if len(files) < 14 {
		t.Fatalf("%d golden files", len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
		t.Run(name, func(t *testing.T) {
			readGolden(t, file).test(t)
		})
	}
}

// TestChains is TestGolden for random modules that testdata/chains.py has written: the first 20, or those in
// the folder that WEFT_CHAINS names, as `make programs` does.
func TestChains(t *testing.T) {
	folder := cmp.Or(os.Getenv("WEFT_CHAINS"), "testdata/chains")
	files, err := filepath.Glob(filepath.Join(folder, "*.safetensors"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Fatalf("no programs in %s", folder)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			readGolden(t, file).test(t)
		})
	}
}

// golden is a golden file.
type golden struct {
	program *program.Program
	tensors map[string]safetensors.Tensor
}

func readGolden(t *testing.T, file string) golden {
	tensors, meta, err := safetensors.ReadFile(file)
	require.NoError(t, err)
	p, err := program.Read(strings.NewReader(meta["program"]))
	require.NoError(t, err)
	return golden{p, tensors}
}

// with are the tensors of which the names begin so, by the rest of their names.
func (g golden) with(prefix string) nn.State {
	state := nn.State{}
	for name, v := range g.tensors {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			state[rest] = v
		}
	}
	return state
}

// test compares a step of training on one worker, in one stage and in two, and on meshes.
func (g golden) test(t *testing.T) {
	t.Helper()
	g.step(t, 1, paralleltest.Grid(1, 1, 1))
	g.step(t, 2, paralleltest.Grid(1, 1, 1))
	g.step(t, 1, paralleltest.Grid(1, 3, 1))
	g.step(t, 1, paralleltest.Grid(1, 1, 2))
}

// axisOf is the axis of a worker.
func axisOf(c engine.Config, m mesh.Mesh) engine.Axis {
	if m.Slices > 1 {
		slice, err := tp.New(c.Env, axis.Options{})
		exchange.Must(err)
		return slice
	}
	part, err := sar.New(c.Env, axis.Options{})
	exchange.Must(err)
	return part
}

// step compares a step in so many stages, one after the other.
func (g golden) step(t *testing.T, stages int, m mesh.Mesh) {
	t.Helper()
	x, want := g.tensors["x"], g.tensors["logits"]
	logits, dx := make([]float32, len(want.Float32)), make([]float32, len(x.Float32))
	var gradients, after nn.State
	paralleltest.Workers{
		Mesh: m, Graph: graphOf(t, g.tensors), Of: paralleltest.Dividings(x.Shape[0], m.Partitions)["unevenly"],
	}.Run(t, func(c engine.Config) {
		part := axisOf(c, m)
		specs, err := g.program.Blocks(part.Schema(), want.Shape[1], stages)
		exchange.Must(err)
		params := nn.NewParams(c.Team, 1)
		model := gnn.Build(specs, 0, len(specs), gnn.Env{
			Params: params, Schema: part.Schema(), Rows: part.Types(), Propagators: part.Propagator,
		})
		state := g.with("param.")
		known := params.Names()
		for name := range state { // those that no operation reads
			if !slices.Contains(known, name) {
				delete(state, name)
			}
		}
		exchange.Must(params.Load(state))
		tape := autograd.NewTrainingTape(c.Team, autograd.Random{})
		memory := c.Team.Memory
		rows := part.Vertices()
		if rows == nil { // all of them
			for v := range x.Shape[0] {
				rows = append(rows, int32(v))
			}
		}
		features := tape.Input(matrix(memory, x, rows), part.Rows())
		live := memory.LiveTensors()
		output := model.Forward(gnn.StateOf(features)).Output()
		place(logits, output.Value(), rows)
		tape.Backward(autograd.Root{Var: output, Grad: matrix(memory, g.tensors["cotangent"], rows)})
		place(dx, features.TakeGrad(), rows)
		for _, q := range params.List {
			exchange.Must(c.Groups.Replicas.SumFloats(comm.Gradient, q.Grad.WriteFloats()))
		}
		params.Commit()
		if c.Groups.Replicas.Rank() == 0 {
			gradients, after = gradientsOf(params), params.State()
		}
		if extra := memory.LiveTensors() - live; extra > 8*4096 {
			t.Errorf("%d bytes are still live after the backward pass", extra)
		}
	})
	if t.Failed() {
		return
	}
	what := fmt.Sprintf("%d stages, %d partitions, %d slices: ", stages, m.Partitions, m.Slices)
	near(t, what+"logits", logits, want.Float32)
	grads := g.with("grad.")
	near(t, what+"grad.x", dx, grads["x"].Float32)
	for name, v := range gradients {
		theirs := grads[name].Float32
		if theirs == nil {
			theirs = make([]float32, len(v.Float32))
		}
		near(t, what+"grad."+name, v.Float32, theirs)
		delete(grads, name)
	}
	delete(grads, "x")
	for name, v := range grads {
		if slices.ContainsFunc(v.Float32, func(v float32) bool { return v != 0 }) {
			t.Errorf("PyTorch's logits depend on %s, which the program lacks", name)
		}
	}
	for name, v := range g.with("after.") {
		if ours, has := after[name]; has {
			assert.Equal(t, v.Int64, ours.Int64, name)
			near(t, what+name, ours.Float32, v.Float32)
		}
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

// matrix is the rows of some vertices.
func matrix(memory *tensor.Meter, v safetensors.Tensor, vertices []int32) *tensor.Matrix {
	n := v.Shape[1]
	m := memory.New(tensor.Features, len(vertices), n)
	to := m.WriteFloats()
	for i, at := range vertices {
		copy(to[i*n:][:n], v.Float32[int(at)*n:])
	}
	return m
}

// place copies rows to the places of their vertices.
func place(to []float32, rows *tensor.Matrix, vertices []int32) {
	n, all := rows.Cols, rows.ReadFloats()
	for i, at := range vertices {
		copy(to[int(at)*n:], all[i*n:][:n])
	}
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
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i]))) // NaN stays
	}
	if !(worst <= max(1e-5*largest, 1e-6)) { // the rounding of sums whose terms of about 1 cancel
		t.Errorf("%s: off by %.3g where the largest value is %.3g", what, worst, largest)
	}
}
