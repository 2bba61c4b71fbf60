package gnn_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// graph is the golden file's, with several types of vertices or edges.
func (g *golden) graph() *graph.Graph {
	g.t.Helper()
	var types []graph.VertexType
	for text := range strings.SplitSeq(g.meta["types"], ",") {
		part := strings.Split(text, ":")
		v := graph.VertexType{Type: part[0]}
		v.Count, _ = strconv.Atoi(part[1])
		v.Features.Columns, _ = strconv.Atoi(part[2])
		if v.Features.Columns > 0 {
			v.Features.Dense = g.floats("x." + v.Type)
		}
		types = append(types, v)
	}
	made := &graph.Graph{Type: types[0].Type, Count: types[0].Count, Features: types[0].Features, Others: types[1:]}
	for key := range strings.SplitSeq(g.meta["relations"], ",") {
		ends := strings.Split(key, "__")
		target := slices.IndexFunc(types, func(t graph.VertexType) bool { return t.Type == ends[2] })
		index := g.tensors["edge."+key]
		n := index.Shape[1]
		var e graph.Edges
		for k := range n {
			e.Source, e.Target = append(e.Source, int32(index.Int64[k])), append(e.Target, int32(index.Int64[n+k]))
		}
		r := g.relationOf(types[target].Count, e)
		r.Source, r.Name, r.Target = ends[0], ends[1], ends[2]
		made.Relations = append(made.Relations, r)
	}
	return made
}

// relationOf lists edges by their targets, of which there are so many; sources may be more.
func (g *golden) relationOf(targets int, e graph.Edges) graph.Relation {
	r := graph.Relation{Indptr: make([]int64, targets+1)}
	for v := range targets {
		var in []int32
		for k, target := range e.Target {
			if int(target) == v {
				in = append(in, e.Source[k])
			}
		}
		slices.Sort(in)
		r.Sources = append(r.Sources, in...)
		r.Indptr[v+1] = int64(len(r.Sources))
	}
	return r
}

// TestTypedGolden holds R-GCN and a model for each relation against PyTorch Geometric's: logits, loss and
// every gradient. Features come three ways, as in TestGolden.
func TestTypedGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/typed/*.safetensors")
	if err != nil || len(files) < 18 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		for _, input := range []string{"gradient", "fixed", "sparse"} {
			name := strings.TrimSuffix(filepath.Base(file), ".safetensors")
			t.Run(name+"/"+input, func(t *testing.T) { testTypedGolden(t, file, input) })
		}
	}
}

func testTypedGolden(t *testing.T, file, input string) {
	tensors, meta, err := safetensors.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{t, meta, tensors}
	team := kernel.NewTeam(2, tensor.NewMeter())
	defer team.Memory.Close()
	of := g.graph()
	p, err := sar.New(team, mesh.One.Join(comm.Alone()), partition.All(of), order.Options{}, sar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := gnn.Spec{
		Model: meta["model"], Layers: 2, Hidden: g.number("hidden"), Heads: g.number("heads"), OutputHeads: g.number("heads"), Norm: meta["norm"],
		Activation: meta["act"], Direction: "in", Bases: g.number("bases"), DiagonalBlocks: g.number("diagonal"),
	}
	classes := tensors["logits"].Shape[1]
	blocks, err := s.Blocks(p.Schema(), classes)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(team, 1)
	m := gnn.Build(blocks, 0, len(blocks), gnn.Env{Params: params, Schema: p.Schema(), Rows: p.Types(), Propagators: p.Propagator})
	state := g.state("param.")
	if err := params.Load(state); err != nil {
		t.Fatal(err)
	}
	if got, n := s.Widths(params.State()); n != classes || got != 0 && got != of.Features.Columns {
		t.Errorf("the weights are said to be for %d features and %d classes", got, n)
	}
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	x := g.inputs(tape, p, input)
	live := team.Memory.LiveTensors()
	logits := m.Forward(gnn.State{H: x[0], Others: x[1:]}).Output()
	g.near("logits", logits.Value().Floats(), g.floats("logits"))
	train := tensors["train"].Int64
	loss, grad := nn.LossGradient(logits, nn.Targets{Classes: classes, Class: int32s(team, tensors["labels"].Int64)}, int32s(team, train), len(train))
	g.near("loss", []float32{float32(loss)}, g.floats("loss"))
	tape.Backward(autograd.Root{Var: logits, Grad: grad})
	for i, v := range p.Schema().Types {
		if input == "gradient" && v.Columns > 0 {
			d := x[i].TakeGrad()
			g.near("grad.x."+v.Name, d.Floats(), g.floats("grad.x."+v.Name))
			d.Release()
		}
	}
	if extra := team.Memory.LiveTensors() - live; input == "gradient" && extra > 4*4096 {
		t.Errorf("%d bytes are still live after the backward pass", extra)
	}
	for _, q := range params.List {
		q.Value, q.Grad = q.Grad, q.Value
	}
	got := params.State()
	for _, q := range params.List {
		g.near("grad."+q.Name, got[q.Name].Float32, g.floats("grad."+q.Name))
	}
	read := map[string]bool{}
	for name := range g.state("grad.") {
		if _, ours := got[name]; !ours && !strings.HasPrefix(name, "x.") && meta["norm"] != "batch" {
			read[name] = true
		}
	}
	if len(read) > 0 {
		t.Errorf("PyTorch's loss depends on %q, which this model lacks", slices.Sorted(maps.Keys(read)))
	}
}

// inputs are the features of all types on a tape.
func (g *golden) inputs(tape *autograd.Tape, p *sar.Partition, input string) (x []*autograd.Var) {
	team := tape.Team
	for i, v := range p.Schema().Types {
		rows := p.Types()[i]
		if v.Columns == 0 {
			x = append(x, tape.Constant(team.Memory.New(tensor.Features, rows.Here, 0), rows))
			continue
		}
		m := matrix(team, rows.Here, g.floats("x."+v.Name))
		switch input {
		case "gradient":
			x = append(x, tape.Input(m, rows))
		case "fixed":
			x = append(x, tape.Fixed(m, rows))
		case "sparse":
			x = append(x, tape.SparseConstant(sparse(team, m), rows))
		}
	}
	return x
}

// citations is a schema of two types, of which one may lack features.
func citations(paper, author int) gnn.Schema {
	return gnn.Schema{
		Types: []gnn.VertexType{{Name: "paper", Vertices: 24, Columns: paper}, {Name: "author", Vertices: 15, Columns: author}},
		Relations: []gnn.Relation{
			{Name: "paper__cites__paper"}, {Name: "author__writes__paper", Source: 1}, {Name: "paper__by__author", Target: 1},
		},
	}
}

// TestTypedRefused: what a model cannot be for a graph with several types is refused, in one line with a way
// out.
func TestTypedRefused(t *testing.T) {
	for _, c := range []struct {
		schema gnn.Schema
		change func(s *gnn.Spec)
		want   string
	}{
		{citations(7, 5), func(s *gnn.Spec) { s.Decoupled = true }, "decoupled: a decoupled model aggregates along one relation, and the graph has several types"},
		{citations(7, 5), func(s *gnn.Spec) { s.BlockForm = "residual" }, "blocks residual: residual blocks aggregate along one relation"},
		{citations(7, 5), func(s *gnn.Spec) { s.Model = "gcnii" }, "model gcnii: it aggregates along one relation"},
		{citations(7, 5), func(s *gnn.Spec) { s.Model = "resgcn" }, "model resgcn: it aggregates along one relation"},
		{citations(7, 5), func(s *gnn.Spec) { s.Direction = "both" }, "direction both: on a graph with several types"},
		{citations(7, 5), func(s *gnn.Spec) { s.Model = "gcn" }, `model gcn: it needs both ends of a relation to be of one type, and "author__writes__paper" has two`},
		{citations(7, 5), func(s *gnn.Spec) { s.Model = "gin" }, `those of "author__writes__paper" have 5 and 7 columns`},
		{citations(7, 0), func(*gnn.Spec) {}, `vertices of type "author" have no features; learn some for them with embed N, or take model rgcn`},
		{citations(7, 5), func(s *gnn.Spec) { s.Embed = 4 }, "embed 4: all vertices have features; leave it out"},
		{citations(6, 4), func(s *gnn.Spec) { s.Model, s.DiagonalBlocks = "rgcn", 4 }, `blocks 4 does not divide the number of features of "paper", 6`},
		{citations(8, 4), func(s *gnn.Spec) { s.Model, s.DiagonalBlocks = "rgcn", 4 }, "blocks 4 does not divide the number of classes, 6"},
		{citations(8, 0), func(s *gnn.Spec) { s.Model, s.DiagonalBlocks = "rgcn", 2 }, `vertices of type "author" have no features whose weights could have blocks`},
		{gnn.Schema{
			Types:     []gnn.VertexType{{Name: "paper", Columns: 3}, {Name: "author", Columns: 3}},
			Relations: []gnn.Relation{{Name: "paper__by__author", Target: 1}},
		}, func(*gnn.Spec) {}, `nothing would be left of "paper" after 2 layers`},
	} {
		s := gnn.Spec{Model: "sage", Layers: 2, Hidden: 12, Heads: 1, OutputHeads: 1, Norm: "none", Activation: "relu", Direction: "in"}
		c.change(&s)
		if _, err := s.Blocks(c.schema, 6); !refusal.Is(err) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want a refusal that says %q", err, c.want)
		}
	}
}

// TestTypedReach: a layer has the parameters of the relations that the logits depend on, and no others. Files
// may hold the others.
func TestTypedReach(t *testing.T) {
	g := &golden{t, map[string]string{"types": "paper:24:7,author:15:0", "relations": "paper__cites__paper,author__writes__paper,paper__by__author"}, nil}
	tensors, _, err := safetensors.ReadFile("testdata/typed/rgcn-types-bare.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	g.tensors = tensors
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	p, err := sar.New(team, mesh.One.Join(comm.Alone()), partition.All(g.graph()), order.Options{}, sar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := gnn.Spec{Model: "sage", Layers: 2, Hidden: 4, Norm: "layer", Activation: "relu", Direction: "in", Embed: 3, Residual: true, Dropout: .5, InputDropout: .2}
	blocks, err := s.Blocks(p.Schema(), 2)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(team, 1)
	m := gnn.Build(blocks, 0, len(blocks), gnn.Env{Params: params, Schema: p.Schema(), Rows: p.Types(), Propagators: p.Propagator})
	var names []string
	for _, q := range params.List {
		names = append(names, fmt.Sprint(q.Name, params.State()[q.Name].Shape))
	}
	want := []string{"embed.author.weight[15 3]", "norms.0.paper.weight[4]", "norms.0.paper.bias[4]", "norms.0.author.weight[4]", "norms.0.author.bias[4]"}
	for _, r := range []struct {
		key            string
		source, target int
	}{{"paper__cites__paper", 7, 7}, {"author__writes__paper", 3, 7}, {"paper__by__author", 7, 3}} {
		want = append(want, fmt.Sprintf("convs.0.%s.lin_l.weight[4 %d]", r.key, r.source), fmt.Sprintf("convs.0.%s.lin_l.bias[4]", r.key),
			fmt.Sprintf("convs.0.%s.lin_r.weight[4 %d]", r.key, r.target))
	}
	for _, key := range []string{"paper__cites__paper", "author__writes__paper"} {
		want = append(want, fmt.Sprintf("convs.1.%s.lin_l.weight[2 4]", key), fmt.Sprintf("convs.1.%s.lin_l.bias[2]", key), fmt.Sprintf("convs.1.%s.lin_r.weight[2 4]", key))
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("parameters %q, want %q", names, want)
	}
	state := params.State()
	state["convs.1.paper__by__author.lin_l.weight"] = nn.Tensor{Shape: []int{1}, Float32: []float32{1}}
	if err := params.Load(state); err != nil {
		t.Error(err)
	}
	tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 1, Epoch: 1})
	x := g.inputs(tape, p, "fixed")
	out := m.Forward(gnn.State{H: x[0], Others: x[1:]}).Output()
	if out.Rows() != 24 || out.Cols() != 2 || out.RowSet() != p.Rows() {
		t.Errorf("logits are %d×%d", out.Rows(), out.Cols())
	}
}
