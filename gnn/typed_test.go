package gnn_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel/kerneltest"
	"weft/nn"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/paralleltest"
)

// typedGraph returns the graph of a golden file with several types of vertices or edges.
func (g *golden) typedGraph() *graph.Graph {
	g.t.Helper()
	var types []graph.VertexType
	counts := strings.Split(g.meta["counts"], ",")
	for i, name := range strings.Split(g.meta["types"], ",") {
		v := graph.VertexType{Type: name}
		v.Count, _ = strconv.Atoi(counts[i])
		if x, has := g.tensors["x."+name]; has {
			v.Features = graph.Features{Columns: x.Shape[1], Dense: x.Float32}
		}
		types = append(types, v)
	}
	made := &graph.Graph{Types: types}
	for key := range strings.SplitSeq(g.meta["relations"], ",") {
		ends := strings.Split(key, "__")
		count := func(name string) int {
			return types[slices.IndexFunc(types,
				func(t graph.VertexType) bool { return t.Name() == name })].Count
		}
		r, err := graph.NewBipartite(count(ends[0]), count(ends[2]), g.edges("edge_index."+key))
		require.NoError(g.t, err)
		r.Source, r.Name, r.Target = ends[0], ends[1], ends[2]
		made.Relations = append(made.Relations, r)
	}
	return made
}

// run is a range of consecutive values of a tensor.
type run struct{ from, n int }

// runsOf returns the ranges of PyG's tensor for all types, in R-GCN's first layer, that belong to one vertex
// type in weft, and their shape in weft.
func (g *golden) runsOf(schema gnn.Schema, name string, shape []int, typ int) (runs []run, here []int) {
	first, vertices := 0, 0
	for i, v := range schema.Types {
		if i < typ {
			first += v.Vertices
		}
		vertices += v.Vertices
	}
	here, matrices, size := slices.Clone(shape), []int{0}, 1
	for _, n := range shape {
		size *= n
	}
	if strings.HasSuffix(name, ".weight") {
		matrices, size = nil, size/shape[0]
		for k := range shape[0] {
			if g.number("bases") > 0 || schema.Relations[k].Source == typ {
				matrices = append(matrices, k)
			}
		}
		here[0] = len(matrices)
	}
	all := run{0, size}
	if at := len(shape) - 2; at >= 0 && shape[at] == vertices {
		all = run{first * shape[at+1], schema.Types[typ].Vertices * shape[at+1]}
		here[at] = schema.Types[typ].Vertices
	}
	for _, k := range matrices {
		runs = append(runs, run{k*size + all.from, all.n})
	}
	return runs, here
}

// ofAllTypes are the tensors that PyG's R-GCN has once for all types, on the union of the types.
var ofAllTypes = []string{"convs.0.weight", "convs.0.root", "convs.0.bias"}

// byType returns a state with a tensor for each vertex type instead of one for all types.
func (g *golden) byType(schema gnn.Schema, state nn.State) nn.State {
	for _, name := range ofAllTypes {
		all, is := state[name]
		if !is || len(schema.Types) == 1 {
			continue
		}
		delete(state, name)
		for i, v := range schema.Types {
			part := nn.Tensor{}
			var runs []run
			runs, part.Shape = g.runsOf(schema, name, all.Shape, i)
			for _, r := range runs {
				part.Float32 = append(part.Float32, all.Float32[r.from:r.from+r.n]...)
			}
			state[name+"."+v.Name] = part
		}
	}
	return state
}

// union joins the gradients of the vertex types to one tensor for all types, as in want.
func (g *golden) union(schema gnn.Schema, got, want nn.State) {
	for _, name := range ofAllTypes {
		all, is := want[name]
		if !is || len(schema.Types) == 1 {
			continue
		}
		sum := nn.Tensor{Shape: all.Shape, Float32: make([]float32, len(all.Float32))}
		for i, v := range schema.Types {
			part := got[name+"."+v.Name].Float32
			delete(got, name+"."+v.Name)
			runs, _ := g.runsOf(schema, name, all.Shape, i)
			for _, r := range runs {
				for k := range r.n {
					sum.Float32[r.from+k] += part[k]
				}
				part = part[r.n:]
			}
		}
		got[name] = sum
	}
}

// inputs puts the features of all types on a tape.
func (g *golden) inputs(tape *autograd.Tape, p *sar.Partition, input string) (x []*autograd.Var) {
	team := tape.Team
	for i, v := range p.Schema().Types {
		rows := p.Types()[i]
		if v.Columns == 0 {
			x = append(x, tape.Constant(team.Memory.New(tensor.Features, rows.Here, 0), rows))
			continue
		}
		x = append(x, onTape(tape, matrix(team, rows.Here, g.floats(g.key("x", v.Name))), rows, input))
	}
	return x
}

// citations returns a schema of two types. Either may lack features (0 columns).
func citations(paper, author int) gnn.Schema {
	return gnn.Schema{
		Types: []gnn.VertexType{
			{Name: "paper", Vertices: 24, Columns: paper},
			{Name: "author", Vertices: 15, Columns: author},
		},
		Relations: []gnn.Relation{
			{Name: "paper__cites__paper"},
			{Name: "author__writes__paper", Source: 1},
			{Name: "paper__by__author", Target: 1},
		},
	}
}

// TestTypedRefused: settings that a heterogeneous graph does not allow are refused in one line, which says
// what to do.
func TestTypedRefused(t *testing.T) {
	withModel := func(model string) func(s *gnn.Spec) { return func(s *gnn.Spec) { s.Model = model } }
	blocks := func(n, embedding int) func(s *gnn.Spec) {
		return func(s *gnn.Spec) { s.Model, s.NumBlocks, s.NodeEmbedding = "rgcn", n, embedding }
	}
	unchanged, both := func(*gnn.Spec) {}, citations(7, 5)
	wanted := both
	wanted.Outputs = []int{0, 1}
	alone := func(r gnn.Relation) gnn.Schema { // no rows of papers are left after the second layer
		return gnn.Schema{
			Types:     []gnn.VertexType{{Name: "paper", Columns: 3}, {Name: "author", Columns: 3}},
			Relations: []gnn.Relation{r},
		}
	}
	for _, c := range []struct {
		schema gnn.Schema
		change func(s *gnn.Spec)
		want   string
	}{
		{both, func(s *gnn.Spec) {
			s.Decoupled = true
		}, "decoupled: a decoupled model aggregates along one " +
			"relation, and the graph has several types"},
		{
			both, func(s *gnn.Spec) { s.BlockForm = "residual" },
			"blocks residual: residual blocks aggregate along one relation",
		},
		{both, withModel("gcnii"), "model gcnii: it aggregates along one relation"},
		{both, withModel("resgcn"), "model resgcn: it aggregates along one relation"},
		{both, withModel("pna"), "model pna: it aggregates along one relation"},
		{both, func(s *gnn.Spec) { s.Direction = "both" }, "direction both: on a graph with several types"},
		{both, withModel("gcn"), "model gcn: it needs both ends of a relation to be of one type, and " +
			`"author__writes__paper" has two`},
		{both, withModel("gin"), `those of "author__writes__paper" have 5 and 7 columns`},
		{
			citations(7, 7), withModel("gine"),
			`it uses edge features, and the edges of "paper__cites__paper" have none`,
		},
		{
			both, func(s *gnn.Spec) { s.Model, s.Layers = "gin", 1 },
			`those of "author__writes__paper" have 5 and 7 columns`,
		},
		{citations(7, 0), unchanged, `vertices of type "author" have no features; learn some for them with ` +
			"--node-embedding N, or take --model rgcn"},
		{
			both, func(s *gnn.Spec) { s.NodeEmbedding = 4 },
			"node-embedding 4: all vertices that are read have features; leave it out",
		},
		{
			citations(7, 0), func(s *gnn.Spec) { s.Model, s.NodeEmbedding = "mlp", 4 },
			"node-embedding 4: all vertices that are read have features; leave it out",
		},
		{
			wanted, withModel("mlp"),
			`--model mlp: it computes rows of the vertex type "paper" alone, and those of "author" ` +
				"are wanted; take --model sage, gat",
		},
		{
			citations(0, 0), func(s *gnn.Spec) { s.Model, s.InputDropout = "rgcn", .5 },
			"--input-dropout 0.5: the vertices have no features; leave it out, or learn some with " +
				"--node-embedding N",
		},
		{citations(6, 4), blocks(4, 0), `num-blocks 4 does not divide the number of features of "paper", 6`},
		{citations(8, 4), blocks(4, 0), "num-blocks 4 does not divide the number of classes, 6"},
		{
			citations(8, 0), blocks(2, 0),
			`vertices of type "author" have no features whose weights could have blocks`,
		},
		{citations(8, 0), blocks(2, 3), `num-blocks 2 does not divide the number of features of "author", 3`},
		{
			alone(gnn.Relation{Name: "author__writes__paper", Source: 1}), unchanged,
			`nothing would be left of "paper" after 2 layers`,
		},
		{
			alone(gnn.Relation{Name: "paper__by__author", Target: 1}), unchanged,
			`nothing would be left of "paper" after 2 layers`,
		},
	} {
		s := gnn.Spec{
			Model: "sage", Layers: 2, Hidden: 12, Heads: 1, OutputHeads: 1, Norm: "none",
			Activation: "relu", Direction: "in",
		}
		c.change(&s)
		if _, err := s.Blocks(c.schema, 6); !refusal.Is(err) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want a refusal that says %q", err, c.want)
		}
	}
}

// TestTypedReach: a layer has parameters only for relations that the logits depend on. Files may hold those
// of others.
func TestTypedReach(t *testing.T) {
	g := readGolden(t, "testdata/relations/rgcn-types-bare.safetensors")
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, g.graph())
	s := gnn.Spec{
		Model: "sage", Layers: 2, Hidden: 4, Norm: "layer", Activation: "relu", Direction: "in",
		NodeEmbedding: 3, Residual: true, Dropout: .5, InputDropout: .2,
	}
	m, params := built(t, team, p, s, 2)
	var names []string
	for _, q := range params.List {
		names = append(names, fmt.Sprint(q.Name, params.State()[q.Name].Shape))
	}
	want := []string{
		"embed.author.weight[15 3]", "norms.0.paper.weight[4]", "norms.0.paper.bias[4]",
		"norms.0.author.weight[4]", "norms.0.author.bias[4]",
	}
	for _, r := range []struct {
		key            string
		source, target int
	}{{"paper__cites__paper", 7, 7}, {"author__writes__paper", 3, 7}, {"paper__by__author", 7, 3}} {
		want = append(want, fmt.Sprintf("convs.0.%s.lin_l.weight[4 %d]", r.key, r.source),
			fmt.Sprintf("convs.0.%s.lin_l.bias[4]", r.key),
			fmt.Sprintf("convs.0.%s.lin_r.weight[4 %d]", r.key, r.target))
	}
	for _, key := range []string{"paper__cites__paper", "author__writes__paper"} {
		want = append(want, fmt.Sprintf("convs.1.%s.lin_l.weight[2 4]", key),
			fmt.Sprintf("convs.1.%s.lin_l.bias[2]", key), fmt.Sprintf("convs.1.%s.lin_r.weight[2 4]", key))
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("parameters %q, want %q", names, want)
	}
	state := params.State()
	state["convs.1.paper__by__author.lin_l.weight"] = nn.Tensor{Shape: []int{1}, Float32: []float32{1}}
	assert.NoError(t, params.Load(state))
	tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 1, Epoch: 1})
	x := g.inputs(tape, p, "fixed")
	out := m.Forward(gnn.StateOf(x...)).Output()
	if out.Rows() != 24 || out.Cols() != 2 || out.RowSet() != p.Rows() {
		t.Errorf("logits are %d×%d", out.Rows(), out.Cols())
	}
}

// papers returns a graph of one vertex type, with relations of these names.
func papers(t *testing.T, relations ...string) *graph.Graph {
	t.Helper()
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Type: "paper",
			Frame: graph.Frame{
				Count:    3,
				Features: graph.Features{Columns: 4, Dense: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}},
			},
		}},
	}
	for _, name := range relations {
		r, err := graph.NewRelation(3, graph.Edges{Source: []int32{0, 1}, Target: []int32{1, 2}})
		require.NoError(t, err)
		r.Source, r.Name, r.Target = "paper", name, "paper"
		g.Relations = append(g.Relations, r)
	}
	return g
}

// TestTypedNorms: norms have PyG's names. to_hetero makes one for each vertex type, even if there is only one
// type. A model of RGCNConv has one norm for all types.
func TestTypedNorms(t *testing.T) {
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, papers(t, "cites", "extends"))
	for model, want := range map[string][]string{
		"sage": {"norms.0.paper.bias", "norms.0.paper.weight"}, "rgcn": {"norms.0.bias", "norms.0.weight"},
	} {
		s := gnn.Spec{Model: model, Layers: 2, Hidden: 4, Norm: "layer", Activation: "relu", Direction: "in"}
		_, params := built(t, team, p, s, 2)
		var got []string
		for name := range params.State() {
			if strings.HasPrefix(name, "norms.") {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: norms %q, want %q", model, got, want)
		}
	}
}

// TestInputDropout: dropout of almost all input leaves zeros, for one relation and for several. The layers'
// biases are zeros at first.
func TestInputDropout(t *testing.T) {
	for model, relations := range map[string][]string{"gcn": {"cites"}, "rgcn": {"cites", "extends"}} {
		team := kerneltest.Team(t, 1, tensor.NewMeter())
		g := papers(t, relations...)
		p := paralleltest.Whole(t, team, g)
		for _, c := range []struct {
			rate    float64
			nothing bool
		}{{0, false}, {1 - 1e-7, true}} {
			s := gnn.Spec{
				Model: model, Layers: 1, Norm: "none", Activation: "relu", Direction: "in",
				InputDropout: c.rate,
			}
			m, _ := built(t, team, p, s, 2)
			tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 1, Epoch: 1})
			x := onTape(tape, matrix(team, g.Types[0].Count, g.Types[0].Features.Dense), p.Rows(), "fixed")
			logits := m.Forward(gnn.StateOf(x)).Output().Value().Floats()
			if nothing := !slices.ContainsFunc(logits,
				func(z float32) bool { return z != 0 }); nothing != c.nothing {
				t.Errorf("%s with an input dropout of %v: logits %v", model, c.rate, logits)
			}
		}
		team.Memory.Close()
	}
}
