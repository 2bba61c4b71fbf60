package gnn_test

import (
	"cmp"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/paralleltest"
)

// golden is one of PyTorch Geometric's models with its numbers; testdata/golden.py wrote it.
type golden struct {
	t       *testing.T
	meta    map[string]string
	tensors map[string]safetensors.Tensor
}

func (g *golden) floats(name string) []float32 {
	g.t.Helper()
	v, ok := g.tensors[name]
	if !ok {
		g.t.Fatalf("the golden file has no %s", name)
	}
	return v.Float32
}

func (g *golden) number(name string) int {
	n, err := strconv.Atoi(g.meta[name])
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g *golden) fraction(name string) float64 {
	x, err := strconv.ParseFloat(g.meta[name], 64)
	if err != nil {
		g.t.Fatal(err)
	}
	return x
}

// state returns the tensors whose names begin with prefix, without the prefix.
func (g *golden) state(prefix string) map[string]safetensors.Tensor {
	state := map[string]safetensors.Tensor{}
	for name, v := range g.tensors {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			state[rest] = v
		}
	}
	return state
}

// readGolden reads a golden file.
func readGolden(t *testing.T, file string) *golden {
	t.Helper()
	tensors, meta, err := safetensors.ReadFile(file)
	require.NoError(t, err)
	return &golden{t, meta, tensors}
}

// key returns the name of a type's tensor. In a graph of one type the name lacks the type.
func (g *golden) key(name, typ string) string {
	if g.meta["types"] == "" {
		return name
	}
	return name + "." + typ
}

// edges returns the edges of a relation.
func (g *golden) edges(name string) (e graph.Edges) {
	index := g.tensors[name]
	n := index.Shape[1]
	for k := range n {
		e.Source, e.Target = append(e.Source, int32(index.Int64[k])),
			append(e.Target, int32(index.Int64[n+k]))
	}
	return e
}

// graph returns the graph of the file, which has one type of vertices and edges, or several.
func (g *golden) graph() *graph.Graph {
	g.t.Helper()
	if g.meta["types"] == "" {
		e := g.edges("edge_index")
		e.Weights = g.tensors["edge_weight"].Float32
		if attributes, has := g.tensors["edge_attr"]; has {
			e.Features, e.FeatureColumns = attributes.Float32, attributes.Shape[1]
		}
		x := g.tensors["x"]
		made := paralleltest.GraphOf(g.t, x.Shape[0], e)
		made.Types[0].Features = graph.Features{Columns: x.Shape[1], Dense: x.Float32}
		return made
	}
	return g.typedGraph()
}

func (g *golden) spec() gnn.Spec {
	g.t.Helper()
	s := gnn.Spec{
		Model: g.meta["model"], Layers: g.number("layers"), Hidden: g.number("hidden"),
		Heads: g.number("heads"), OutputHeads: g.number("output_heads"), Norm: g.meta["norm"],
		Activation: g.meta["act"], Direction: cmp.Or(g.meta["direction"], "in"),
		Decoupled: g.meta["decoupled"] == "yes", Residual: g.meta["residual"] == "yes",
		BlockForm: g.meta["blocks"], Aggregation: g.meta["aggr"],
		Jump: g.meta["jk"], EdgeFeatures: g.meta["edge_features"] == "yes",
	}
	if s.Decoupled {
		s.Teleport = g.fraction("teleport")
	}
	switch s.Model {
	case "gcnii":
		s.Alpha, s.Theta, s.SharedWeights = g.fraction("alpha"), g.fraction("theta"),
			g.meta["shared_weights"] == "True"
	case "appnp":
		s.Rounds, s.Alpha = g.number("rounds"), g.fraction("alpha")
	case "sgc":
		s.Rounds = g.number("rounds")
	case "rgcn":
		s.Bases, s.NumBlocks, s.BlockForm = g.number("bases"), g.number("blocks"), ""
	}
	return s
}

// model returns the file's model with its weights.
func (g *golden) model(team *kernel.Team, p *sar.Partition) (gnn.Model, *nn.Params) {
	g.t.Helper()
	classes := g.tensors["logits"].Shape[1]
	m, params := built(g.t, team, p, g.spec(), classes)
	require.NoError(g.t, params.Load(g.byType(p.Schema(), g.state("param."))))
	return m, params
}

// built returns a model of all blocks over a partition, and its parameters.
func built(t testing.TB, team *kernel.Team, p *sar.Partition, s gnn.Spec,
	classes int,
) (gnn.Model, *nn.Params) {
	t.Helper()
	blocks, err := s.Blocks(p.Schema(), classes)
	require.NoError(t, err)
	params := nn.NewParams(team, 1)
	return gnn.Build(blocks, 0, len(blocks), over(p, params)), params
}

// over returns the environment of a model over a partition.
func over(p *sar.Partition, params *nn.Params) gnn.Env {
	return gnn.Env{Params: params, Schema: p.Schema(), Rows: p.Types(), Propagators: p.Propagator}
}

// TestBiasesOfDirGNNConv: batch norm would subtract a file's biases, so they move its running mean: half of
// each direction's bias, and the root's bias.
func TestBiasesOfDirGNNConv(t *testing.T) {
	g := readGolden(t, "testdata/sage-2-both.safetensors")
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	s := g.spec()
	s.Norm = "batch"
	_, params := built(t, team, paralleltest.Whole(t, team, g.graph()), s, 3)
	biased := func(params *nn.Params, conv, norm string) {
		state := params.State()
		means := state[norm].Shape
		for k, name := range []string{"conv_in.lin_l.bias", "conv_out.lin_l.bias", "lin.bias"} {
			bias := slices.Repeat([]float32{[]float32{2, 8, 16}[k]}, means[0])
			state[conv+name] = safetensors.Tensor{Shape: means, Float32: bias}
		}
		require.NoError(t, params.Load(state))
		assert.Equal(t, slices.Repeat([]float32{-(1 + 4 + 16)}, means[0]), params.State()[norm].Float32, norm)
	}
	biased(params, "convs.0.", "norms.0.module.running_mean")
	s.Model = "resgcn" // all norms behind the convolution
	_, params = built(t, team, paralleltest.Whole(t, team, g.graph()), s, 3)
	biased(params, "layers.0.conv.", "layers.1.norm.module.running_mean")
}

// TestRootWeightsOfDirGNNConv: PyG's DirGNNConv keeps the root weights of the SAGEConv that it wraps, and
// never uses them. A file may hold them.
func TestRootWeightsOfDirGNNConv(t *testing.T) {
	g := readGolden(t, "testdata/sage-2-both.safetensors")
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	_, params := g.model(team, paralleltest.Whole(t, team, g.graph()))
	state := g.state("param.")
	for _, conv := range []string{"conv_in", "conv_out"} {
		state["convs.0."+conv+".lin_r.weight"] = state["convs.0."+conv+".lin_l.weight"]
	}
	assert.NoError(t, params.Load(state))
	state["convs.0.lin_r.weight"] = state["convs.0.conv_in.lin_l.weight"]
	if err := params.Load(state); err == nil {
		t.Error("a root weight beside the one that is used was taken")
	}
}

// matrix copies values into a matrix in the team's memory.
func matrix(team *kernel.Team, rows int, values []float32) *tensor.Matrix {
	m := team.Memory.New(tensor.Features, rows, len(values)/rows)
	copy(m.Floats(), values)
	return m
}

func int32s(team *kernel.Team, values []int64) *tensor.Matrix {
	m := team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(values))
	for i, v := range values {
		m.Int32s()[i] = int32(v)
	}
	return m
}

// near fails unless got is within 1e-5 of the largest wanted value for each layer (single precision), or
// within 5e-7, the rounding of sums whose terms of about 1 cancel. In a deep model 3e-8 for each layer takes
// the place of 5e-7: on x86 too, a change of the last bits of x moves the gradient of att_src in the 27th of
// 32 layers by up to 7.7e-7 (300 draws).
func (g *golden) near(what string, got, want []float32) {
	g.t.Helper()
	if len(got) != len(want) {
		g.t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	largest, worst := 1e-3, 0.0
	for i := range want {
		largest = math.Max(largest, math.Abs(float64(want[i])))
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= worst) {
			worst = d
		}
	}
	layers := float64(g.number("layers"))
	if !(worst <= max(1e-5*layers*largest, 5e-7, 3e-8*layers)) {
		g.t.Errorf("%s: off by %.3g where the largest value is %.3g", what, worst, largest)
	}
}

// TestGolden compares every model's logits, loss, running statistics and gradients with PyTorch Geometric's,
// on a directed graph with isolated vertices, a hub, self loops and duplicate edges. R-GCN, and models with a
// convolution for each relation, run on graphs of several types of vertices or edges. The features have three
// forms, which lead to three orders of work: as a value with a gradient, as a constant that is the same in
// every epoch, and sparse.
func TestGolden(t *testing.T) {
	for folder, least := range map[string]int{".": 50, "typed": 9, "relations": 14} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.safetensors"))
		if err != nil || len(files) < least {
			t.Fatalf("%d golden files in %s: %v", len(files), folder, err)
		}
		for _, file := range files {
			for _, input := range []string{"gradient", "fixed", "sparse"} {
				name := filepath.Join(folder, strings.TrimSuffix(filepath.Base(file), ".safetensors"))
				t.Run(name+"/"+input, func(t *testing.T) { testGolden(t, file, input) })
			}
		}
	}
}

func testGolden(t *testing.T, file, input string) {
	g := readGolden(t, file)
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, g.graph())
	m, params := g.model(team, p)
	loaded := params.State()
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	tape.Training = g.meta["mode"] != "eval"
	x := g.inputs(tape, p, input)
	live := team.Memory.LiveTensors()
	logits := m.Forward(gnn.StateOf(x...)).Output()
	g.near("logits", logits.Value().Floats(), g.floats("logits"))
	train := g.tensors["train"].Int64
	y, total := nn.Targets{Classes: logits.Cols()}, len(train)
	if g.meta["loss"] == "bce" {
		y.Multi = matrix(team, logits.Rows(), g.floats("labels"))
		total *= y.Classes
	} else {
		y.Class = int32s(team, g.tensors["labels"].Int64)
	}
	loss, grad := nn.LossGradient(logits, y, int32s(team, train), float64(total))
	g.near("loss", []float32{float32(loss())}, g.floats("loss"))
	tape.Backward(autograd.Root{Var: logits, Grad: grad})
	for i, v := range p.Schema().Types {
		if input == "gradient" && v.Columns > 0 {
			d, name := x[i].TakeGrad(), g.key("grad.x", v.Name)
			g.near(name, d.Floats(), g.floats(name))
			d.Release()
		}
	}
	g.sameGradients(p.Schema(), gradientsOf(team, params))
	if tape.Training {
		params.Commit()
	}
	g.sameStatistics(loaded, params.State())
	if extra := team.Memory.LiveTensors() - live; input == "gradient" && extra > 4*4096 {
		t.Errorf("%d bytes are still live after the backward pass", extra)
	}
}

// sameGradients compares the gradients of the parameters. PyTorch's model may have further parameters, on
// which nothing depends.
func (g *golden) sameGradients(schema gnn.Schema, got nn.State) {
	g.t.Helper()
	want := g.state("grad.")
	g.union(schema, got, want)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v, ours := got[name]
		depends := slices.ContainsFunc(want[name].Float32, func(x float32) bool { return x*x > 1e-18 })
		switch {
		case name == "x" || strings.HasPrefix(name, "x."):
		case ours && !depends && strings.HasSuffix(name, "bias") && !strings.HasSuffix(name, "lin_key.bias"):
			g.t.Errorf("PyTorch's loss does not depend on %s, which would step on rounding noise", name)
		case ours:
			g.near("grad."+name, v.Float32, want[name].Float32)
		case depends && g.meta["bias_before_norm"] != "yes": // a bias that batch norm cancels
			g.t.Errorf("PyTorch's loss depends on %s, which this model lacks", name)
		}
		delete(got, name)
	}
	for name := range got {
		g.t.Errorf("PyTorch has no gradient of %s", name)
	}
}

// sameStatistics compares the running statistics of norms after the pass. A running mean lacks the biases
// that the norm cancels, both when it is loaded and after the pass.
func (g *golden) sameStatistics(loaded, got nn.State) {
	g.t.Helper()
	initial := g.state("param.")
	for name, want := range g.state("after.") {
		switch {
		case want.Int64 == nil:
			values := got[name].Float32
			for i := range values {
				values[i] += initial[name].Float32[i] - loaded[name].Float32[i]
			}
			g.near("after."+name, values, want.Float32)
		case got[name].Int64[0] != want.Int64[0]:
			g.t.Errorf("after.%s: %d, want %d", name, got[name].Int64[0], want.Int64[0])
		}
	}
}

// onTape puts features on a tape in one of these forms.
func onTape(tape *autograd.Tape, x *tensor.Matrix, rows *autograd.RowSet, input string) *autograd.Var {
	switch input {
	case "gradient":
		return tape.Input(x, rows)
	case "sparse":
		return tape.SparseConstant(sparse(tape.Team, x), rows)
	}
	return tape.Fixed(x, rows)
}

// gradientsOf returns the gradients of parameters, in the shapes that files hold.
func gradientsOf(team *kernel.Team, params *nn.Params) nn.State {
	swap := func() {
		for _, q := range params.List {
			q.Value, q.Grad = q.Grad, q.Value
		}
	}
	gradients := nn.NewParams(team, 1)
	gradients.List = params.List
	swap()
	defer swap()
	return gradients.State()
}

func sparse(team *kernel.Team, x *tensor.Matrix) *autograd.Sparse {
	indptr, indices, values := []int64{0}, []int64{}, []float32{}
	for v := range x.Rows {
		for c := range x.Cols {
			if f := x.Floats()[v*x.Cols+c]; f != 0 {
				indices, values = append(indices, int64(c)), append(values, f)
			}
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := &kernel.CSR{
		Rows: x.Rows, Cols: x.Cols,
		Indptr:  team.Memory.NewElement(tensor.Features, tensor.Int64, 1, len(indptr)),
		Indices: int32s(team, indices), Values: matrix(team, 1, values),
	}
	copy(a.Indptr.Int64s(), indptr)
	return &autograd.Sparse{Rows: a, Columns: team.Transpose(a, tensor.Features)}
}
