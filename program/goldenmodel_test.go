package program_test

import (
	"fmt"
	"math"
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
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/parallel/tp"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// A PyTorch model with its values and gradients, in the form that testdata/golden.py writes, and its program
// on a mesh.

// golden is a golden file.
type golden struct {
	program *program.Program
	tensors map[string]safetensors.Tensor
	types   []string // vertex types, the output's first; nil: the only one
	sparse  bool     // the features are constants in compressed rows
	storage tensor.Element
	jumps   float64 // the factor of jumps
	watch   func(c kernel.Call, run func())
}

func readGolden(t *testing.T, file string) golden {
	tensors, meta, err := safetensors.ReadFile(file)
	require.NoError(t, err)
	p, err := program.Read(strings.NewReader(meta["program"]))
	require.NoError(t, err)
	g := golden{program: p, tensors: tensors}
	if p.OutputType() != "" {
		g.types = append(g.types, p.OutputType())
	}
	for _, r := range p.Relations {
		for _, vertexType := range []string{r.Source, r.Target} {
			if !slices.Contains(g.types, vertexType) {
				g.types = append(g.types, vertexType)
			}
		}
	}
	return g
}

// named returns the name of an array that belongs to a vertex type or a relation.
func named(what, name string) string { return strings.TrimSpace(what + " " + name) }

// with returns the tensors whose names have this prefix, by their names without it.
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
	if g.types == nil { // a pipeline has one type
		g.step(t, 2, paralleltest.Grid(1, 1, 1))
	}
	g.step(t, 1, paralleltest.Grid(1, 3, 1))
	g.step(t, 1, paralleltest.Grid(1, 1, 2))
	g.sparse = true
	g.step(t, 1, paralleltest.Grid(1, 1, 1))
	g.step(t, 1, paralleltest.Grid(1, 3, 1))
}

// axisOf returns the axis of a worker.
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

// model returns the program's model in so many stages, and its parameters, on a worker.
func (g golden) model(c engine.Config, part engine.Axis, outputs, stages int) (*nn.Params, gnn.Model) {
	schema := part.Schema()
	for i := range schema.Types {
		schema.Types[i].Sparse = g.sparse
	}
	specs, err := g.program.Blocks(schema, outputs, stages)
	exchange.Must(err)
	params := nn.NewParams(c.Team, 1)
	model := gnn.Build(specs, 0, len(specs), gnn.Env{
		Params: params, Schema: part.Schema(), Rows: part.Types(), Propagators: part.Propagator,
	})
	state := g.with("param.")
	known := params.Names()
	for name := range state { // tensors that no operation reads
		if !slices.Contains(known, name) {
			delete(state, name)
		}
	}
	exchange.Must(params.Load(state))
	return params, model
}

// step compares a step in so many stages, one after the other.
func (g golden) step(t *testing.T, stages int, m mesh.Mesh) {
	t.Helper()
	got := g.compute(t, stages, m)
	if t.Failed() {
		return
	}
	what := fmt.Sprintf("%d stages, %d partitions, %d slices, sparse %v: ", stages, m.Partitions, m.Slices,
		g.sparse)
	near := func(name string, got, want []float32) { near(t, what+name, got, want) }
	if g.storage == tensor.BFloat16 {
		var all [2]distance
		near = func(name string, got, want []float32) {
			d := &all[0]
			if strings.HasPrefix(name, "grad.") {
				d = &all[1]
			}
			d.add(got, want)
		}
		defer func() {
			all[0].within(t, what+"logits and statistics", 1./64)
			all[1].within(t, what+"gradients", g.jumps/32)
		}()
	}
	near("logits", got["logits"], g.tensors["logits"].Float32)
	delete(got, "logits")
	grads := g.with("grad.")
	if g.sparse {
		for _, name := range append(g.types, "") {
			delete(grads, named("x", name))
		}
	}
	for name, ours := range got {
		if parameter, isGrad := strings.CutPrefix(name, "grad."); isGrad {
			theirs := grads[parameter].Float32
			if theirs == nil {
				theirs = make([]float32, len(ours))
			}
			near(name, ours, theirs)
			delete(grads, parameter)
		}
	}
	for name, v := range grads {
		if slices.ContainsFunc(v.Float32, func(v float32) bool { return v != 0 }) {
			t.Errorf("PyTorch's logits depend on %s, which the program lacks", name)
		}
	}
	for name, v := range g.with("after.") {
		if ours, has := got["after."+name]; has {
			near(name, ours, v.Float32)
		}
	}
}

// compute returns the logits, the gradients ("grad.NAME") and the buffers after a step ("after.NAME"). It
// compares counters itself.
func (g golden) compute(t *testing.T, stages int, m mesh.Mesh) map[string][]float32 {
	t.Helper()
	want, all := g.tensors["logits"], g.graph(t)
	logits := make([]float32, len(want.Float32))
	ofRows := map[string][]float32{} // gradients of parameters with a row for each vertex
	for name, v := range g.with("grad.") {
		ofRows[name] = make([]float32, len(v.Float32))
	}
	var gradients, after nn.State
	vertices := 0
	for _, v := range all.Types {
		vertices += v.Count
	}
	paralleltest.Workers{
		Mesh: m, Graph: all, Owners: paralleltest.Dividings(vertices, m.Partitions)["unevenly"],
		Storage: g.storage,
	}.Run(t, func(c engine.Config) {
		c.Team.Watch = g.watch
		part := axisOf(c, m)
		params, model := g.model(c, part, want.Shape[1], stages)
		tape := autograd.NewTrainingTape(c.Team, autograd.Random{})
		memory := c.Team.Memory
		var rows [][]int32
		var features []*autograd.Var
		for i, v := range part.Types() {
			ids := c.Share.Edges.Types[i].IDs
			if places := part.Places(i); places != nil {
				ids = c.Share.Edges.Types[i].Vertices(places)
			}
			if ids == nil { // all of them
				for v := range all.Types[i].Count {
					ids = append(ids, int32(v))
				}
			}
			rows = append(rows, ids)
			x := matrix(memory, g.storage, all.Types[i].Features, ids)
			if g.sparse && x.Cols > 0 {
				features = append(features, tape.SparseConstant(compressed(c.Team, x), v))
			} else {
				features = append(features, tape.Input(x, v))
			}
		}
		live := memory.LiveTensors()
		output := model.Forward(gnn.StateOf(features...)).Output()
		place(logits, output.Value(), rows[0])
		cotangent := featuresOf(g.tensors["cotangent"])
		gradient := matrix(memory, output.Element(), cotangent, rows[0])
		tape.Backward(autograd.Root{Var: output, Grad: gradient})
		for i, v := range features {
			if to := ofRows[named("x", all.Types[i].Type)]; to != nil && !g.sparse {
				place(to, v.TakeGrad(), rows[i])
			}
		}
		for _, q := range params.List {
			if i := slices.Index(part.Types(), q.Rows); i >= 0 {
				place(ofRows[q.Name], q.Grad, rows[i])
			} else {
				exchange.Must(c.Groups.Replicas.SumFloats(comm.Gradient, q.Grad.WriteFloats()))
			}
		}
		params.Commit()
		if c.Groups.Replicas.Rank() == 0 {
			gradients, after = gradientsOf(params), params.State()
		}
		if extra := memory.LiveTensors() - live; extra > 8*4096 {
			t.Errorf("%d bytes are still live after the backward pass", extra)
		}
		for fell := range memory.DeviceUse().OnCPU {
			t.Errorf("the CPU runs %s in place of the card", fell)
		}
	})
	got := map[string][]float32{"logits": logits}
	if t.Failed() {
		return got
	}
	grads := g.with("grad.")
	for _, name := range append(g.types, "") {
		if _, has := grads[named("x", name)]; has && !g.sparse {
			got["grad."+named("x", name)] = ofRows[named("x", name)]
		}
	}
	for name, v := range gradients {
		// put together from each worker's rows
		if joined := ofRows[name]; len(joined) != len(v.Float32) && joined != nil {
			got["grad."+name] = joined
		} else {
			got["grad."+name] = v.Float32
		}
	}
	for name, v := range g.with("after.") {
		if ours, has := after[name]; has {
			assert.Equal(t, v.Int64, ours.Int64, name)
			got["after."+name] = ours.Float32
		}
	}
	return got
}

// gradientsOf returns the gradients of the parameters, in the shapes that files hold.
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

// graph returns the graph of a golden file.
func (g golden) graph(t *testing.T) *graph.Graph {
	if g.types == nil {
		x := featuresOf(g.tensors["x"])
		made := paralleltest.GraphOf(t, len(x.Dense)/x.Columns, g.edges(""))
		made.Types[0].Features = x
		return made
	}
	made, counts := &graph.Graph{}, map[string]int{}
	for _, name := range g.types {
		v := graph.VertexType{
			Type: name, Frame: graph.Frame{Features: featuresOf(g.tensors[named("x", name)])},
		}
		v.Count = len(g.tensors[named("n_id", name)].Int64)
		made.Types, counts[name] = append(made.Types, v), v.Count
	}
	for _, r := range g.program.Relations {
		relation, err := graph.NewBipartite(counts[r.Source], counts[r.Target], g.edges(r.Name))
		require.NoError(t, err)
		relation.Source, relation.Target = r.Source, r.Target
		relation.Name = strings.TrimSuffix(strings.TrimPrefix(r.Name, r.Source+"__"), "__"+r.Target)
		made.Relations = append(made.Relations, relation)
	}
	return made
}

// edges returns the edges of a relation.
func (g golden) edges(relation string) graph.Edges {
	index, e := g.tensors[named("edge_index", relation)], graph.Edges{}
	e.Weights = g.tensors[named("edge_weight", relation)].Float32
	n := index.Shape[1]
	for k := range n {
		e.Source = append(e.Source, int32(index.Int64[k]))
		e.Target = append(e.Target, int32(index.Int64[n+k]))
	}
	if attributes, has := g.tensors[named("edge_attr", relation)]; has {
		e.Features, e.FeatureColumns = attributes.Float32, attributes.Shape[1]
	}
	return e
}

func featuresOf(v safetensors.Tensor) graph.Features {
	if v.Shape == nil {
		return graph.Features{}
	}
	return graph.Features{Columns: v.Shape[1], Dense: v.Float32}
}

// matrix returns the rows of some vertices.
func matrix(memory *tensor.Meter, e tensor.Element, v graph.Features, vertices []int32) *tensor.Matrix {
	n := v.Columns
	m := memory.NewElement(tensor.Features, e, len(vertices), n)
	for i, at := range vertices {
		from := v.Dense[int(at)*n:][:n]
		if e == tensor.Float32 {
			copy(m.WriteFloats()[i*n:], from)
			continue
		}
		for c, x := range from {
			m.WriteBFloat16s()[i*n+c] = tensor.RoundBFloat16(x)
		}
	}
	return m
}

// compressed returns a matrix in compressed rows.
func compressed(team *kernel.Team, m *tensor.Matrix) *autograd.Sparse {
	var indices []int32
	var values []float32
	indptr := []int64{0}
	for at, x := range m.Floats() {
		if x != 0 {
			indices, values = append(indices, int32(at%m.Cols)), append(values, x)
		}
		if at%m.Cols == m.Cols-1 {
			indptr = append(indptr, int64(len(values)))
		}
	}
	memory := team.Memory
	a := &kernel.CSR{
		Rows: m.Rows, Cols: m.Cols, Indptr: memory.NewElement(tensor.Features, tensor.Int64, 1, len(indptr)),
		Indices: memory.NewElement(tensor.Features, tensor.Int32, 1, len(indices)),
		Values:  memory.New(tensor.Features, 1, len(values)),
	}
	copy(a.Indptr.WriteInt64s(), indptr)
	copy(a.Indices.WriteInt32s(), indices)
	copy(a.Values.WriteFloats(), values)
	return &autograd.Sparse{Rows: a, Columns: team.Transpose(a, tensor.Features)}
}

// place copies rows to the places of their vertices.
func place(to []float32, rows *tensor.Matrix, vertices []int32) {
	n := rows.Cols
	var all []float32
	if rows.Element == tensor.Float32 {
		all = rows.ReadFloats()
	} else {
		for _, x := range rows.ReadBFloat16s() {
			all = append(all, tensor.FromBFloat16(x))
		}
	}
	for i, at := range vertices {
		copy(to[int(at)*n:], all[i*n:][:n])
	}
}

// distance has two sums of squares: of the differences from the wanted numbers, and of the wanted numbers.
type distance struct{ off, all float64 }

func (d *distance) add(got, want []float32) {
	for i := range want {
		off := float64(got[i]) - float64(want[i])
		d.off += off * off
		d.all += float64(want[i]) * float64(want[i])
	}
}

// within fails unless the differences' norm is at most part times the wanted numbers' norm.
func (d *distance) within(t *testing.T, what string, part float64) {
	t.Helper()
	if is := math.Sqrt(d.off / d.all); !(is <= part) {
		t.Errorf("%s: off by %.3g of their norm, and may be by %.3g", what, is, part)
	}
}

// near fails unless got is within 1e-5 of the largest wanted value, or within the rounding of float32 sums
// whose terms of about 1 cancel, 1e-6.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	worst, largest := away(t, what, got, want)
	if !(worst <= max(1e-5*largest, 1e-6, leftInFloat32(want))) {
		t.Errorf("%s: off by %.3g where the largest value is %.3g", what, worst, largest)
	}
}

// leftInFloat32 is for wanted values that are only roundings: their terms cancel, and float64 leaves 2⁻⁵³ of
// the terms. It returns what float32 then leaves, 2⁻²⁴ of the terms. It is 0 if the values are more than
// float64's roundings of terms of up to 1000.
func leftInFloat32(want []float32) float64 {
	left := 0.
	for _, v := range want {
		left = max(left, math.Abs(float64(v)))
	}
	if left > 1000*0x1p-53 {
		return 0
	}
	return left * 0x1p29
}

// away returns the largest difference of got from want, and the largest wanted value.
func away(t *testing.T, what string, got, want []float32) (worst, largest float64) {
	t.Helper()
	largest = 1e-3
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return math.NaN(), largest
	}
	for i := range want {
		largest = math.Max(largest, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i]))) // worst stays NaN
	}
	return worst, largest
}
