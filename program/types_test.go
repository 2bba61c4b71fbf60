package program_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/parallel/sar"
	"weft/partition"
	"weft/program"
	"weft/train/paralleltest"
)

// before has parameters, and the operations before the one that a test is about.
const before = `{"version": 1, "class": "Net", "parameters": [
	{"name": "w", "shape": [3, 4], "trained": true}, {"name": "b", "shape": [4], "trained": true},
	{"name": "m", "shape": [4]}, {"name": "n", "shape": []}], "operations": [
	{"op": "features", "shape": [4]}, {"op": "gather", "in": [0], "end": "source"},
	{"op": "parameter", "name": "w"}, {"op": "parameter", "name": "b"},
	{"op": "edge_features", "shape": [2]}, {"op": "edge_weight"}, {"op": "vertices"},
	{"op": "ones", "rows": "edges", "loops": "one"}, {"op": "reshape", "in": [0], "shape": [2, 2]}, `

// TestWrong: an operation that does not fit is refused by name, with the reason.
func TestWrong(t *testing.T) {
	for _, c := range []struct{ operation, want string }{
		{`"op": "fft", "in": [0]`, "no operation has this name"},
		{`"op": "relu", "in": [0, 1]`, "reads 2 values, and it takes 1"},
		{`"op": "relu", "in": [9]`, "reads value 9, which is none before it"},
		{`"op": "relu", "in": [0], "slope": 1`, "has no attribute slope"},
		{`"op": "features"`, "a shape of [], and rows of features have one size"},
		{`"op": "edge_features", "shape": [2, 2]`, "a shape of [2 2], and rows of features have one size"},
		{`"op": "edge_weight", "shape": [1]`, "has no attribute shape"},
		{`"op": "vertices", "in": [0]`, "reads 1 values, and it takes 0"},
		{`"op": "training", "of": "x"`, "has no attribute of"},
		{`"op": "uniform", "in": [2]`, "draws a number for each element of rows, and this is a tensor without rows"},
		{`"op": "parameter", "name": "v"`, `there is no parameter "v"`},
		{`"op": "constant", "shape": [3], "values": [1, 2]`, "2 values for a shape of [3]"},
		{`"op": "ones"`, "lacks rows: vertices or edges"},
		{`"op": "ones", "rows": "graphs"`, `rows: no "graphs"; it is one of vertices, edges`},
		{
			`"op": "gather", "in": [1], "end": "source"`,
			"reads rows of edges of shape [4], and it takes rows of vertices",
		},
		{`"op": "gather", "in": [0]`, "lacks an end: source or target"},
		{`"op": "gather", "in": [0], "end": "both"`, `end: no "both"; it is one of source, target`},
		{
			`"op": "gather", "in": [0], "end": "source", "loops": "two"`,
			`loops: no "two"; it is one of stored, removed, one, added`,
		},
		{
			`"op": "scatter", "in": [0], "reduce": "sum"`,
			"reads rows of vertices of shape [4], and it takes rows of edges",
		},
		{`"op": "scatter", "in": [1]`, "lacks what it reduces by: sum, mean, max, min or mul"},
		{
			`"op": "scatter", "in": [1], "reduce": "median"`,
			`reduce: no "median"; it is one of sum, mean, max, min, mul`,
		},
		{
			`"op": "scatter", "in": [4], "reduce": "sum", "end": "source"`,
			"aggregates features of edges at the edges' sources, which weft does not; reverse the edges of the graph, and aggregate at their targets",
		},
		{
			`"op": "edge_softmax", "in": [0]`,
			"reads rows of vertices of shape [4], and it takes rows of edges",
		},
		{
			`"op": "edge_softmax", "in": [4], "end": "source"`,
			"aggregates features of edges at the edges' sources, which weft does not; reverse the edges of the graph, and aggregate at their targets",
		},
		{
			`"op": "without_loops", "in": [7]`,
			"reads rows of edges (one loop each) of shape [], and it takes rows of stored edges",
		},
		{
			`"op": "with_loops", "in": [7, 0]`,
			"reads rows of edges (one loop each) of shape [], and it takes rows of edges without added loops",
		},
		{
			`"op": "with_loops", "in": [5, 0]`,
			"the loops have rows of vertices of shape [4], and the edges rows of shape []",
		},
		{
			`"op": "loop_values", "in": [5, 0]`,
			"reads rows of edges of shape [] and rows of vertices of shape [4], and it takes rows of stored edges and of vertices",
		},
		{`"op": "where", "in": [0, 8, 3]`, "shapes [2 2] and [4] do not fit each other"},
		{
			`"op": "add", "in": [0, 1]`,
			"combines rows of vertices of shape [4] and rows of edges of shape [4]",
		},
		{
			`"op": "mul", "in": [5, 7]`,
			"combines rows of edges of shape [] and rows of edges (one loop each) of shape []",
		},
		{
			`"op": "sub", "in": [0, 4]`,
			"combines rows of vertices of shape [4] and rows of edges of shape [2]",
		},
		{`"op": "dropout", "in": [2], "p": 0.5`, "drops elements of rows, and this is a tensor without rows"},
		{`"op": "dropout", "in": [0], "p": 2`, "p: 2 is no probability"},
		{`"op": "gelu", "in": [0], "approximate": "fast"`, `approximate: no "fast"; it is one of none, tanh`},
		{
			`"op": "reshape", "in": [0], "shape": [3]`,
			"rows of vertices of shape [4] cannot have the shape [3]",
		},
		{`"op": "permute", "in": [8], "dims": [0]`, "dims [0] are not those of the shape [2 2]"},
		{
			`"op": "permute", "in": [8], "dims": [0, 0]`,
			"dims [0 0] are not different ones of the shape [2 2]",
		},
		{
			`"op": "expand", "in": [0], "shape": [3]`,
			"rows of vertices of shape [4] cannot be expanded to [3]",
		},
		{
			`"op": "expand", "in": [6], "shape": [-5]`,
			"a tensor of shape [] cannot be expanded to [-5]",
		},
		{
			`"op": "slice", "in": [0], "start": 1, "stop": 9223372036854775807, "step": 9223372036854775807`,
			"takes 1 to 9223372036854775807 by 9223372036854775807 of the shape [4]",
		},
		{`"op": "slice", "in": [0], "dim": 1, "stop": 1`, "dims [1] are not different ones of the shape [4]"},
		{`"op": "slice", "in": [0], "start": 3, "stop": 5`, "takes 3 to 5 by 1 of the shape [4]"},
		{
			`"op": "cat", "in": [0, 1]`,
			"combines rows of vertices of shape [4] and rows of edges of shape [4]",
		},
		{`"op": "cat", "in": [0, 8]`, "shapes [4] and [2 2] do not fit each other"},
		{`"op": "cat", "in": [2, 8], "dim": 1`, "shapes [3 4] and [2 2] do not fit each other"},
		{`"op": "flip", "in": [0], "dims": [1]`, "dims [1] are not different ones of the shape [4]"},
		{`"op": "sum", "in": [0], "dims": [1]`, "dims [1] are not different ones of the shape [4]"},
		{`"op": "softmax", "in": [5]`, "dims [0] are not different ones of the shape []"},
		{`"op": "row_sum", "in": [1]`, "reads rows of edges of shape [4], and it takes rows of vertices"},
		{`"op": "row_max", "in": [3]`, "reads a tensor of shape [4], and it takes rows of vertices or edges"},
		{`"op": "linear", "in": [0, 3]`, "multiplies rows of vertices of shape [4] by a tensor of shape [4]"},
		{`"op": "linear", "in": [0, 2, 3]`, "has a weight of shape [3 4] and adds a tensor of shape [4]"},
		{`"op": "matmul", "in": [0, 3]`, "multiplies rows of vertices of shape [4] by a tensor of shape [4]"},
		{
			`"op": "matmul", "in": [0, 1]`,
			"multiplies rows of vertices of shape [4] by rows of edges of shape [4]",
		},
		{
			`"op": "batch_norm", "in": [8], "eps": 1`,
			"reads rows of vertices of shape [2 2], and it takes rows of vertices or edges of one size",
		},
		{`"op": "batch_norm", "in": [0], "eps": 1, "weight": "w"`, `there is no parameter "w" of shape [4]`},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "batches": "m"`,
			`there is no parameter "m" that is a number`,
		},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "mean": "m"`,
			"has a running mean and a running variance, or neither",
		},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "mean": "b", "variance": "b"`,
			`"b" is trained, and running statistics are not`,
		},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "mean": "m", "variance": "m"`,
			"has running statistics with neither a momentum nor a number of batches",
		},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "mean": "m", "variance": "b", "momentum": 1`,
			`"b" is trained, and running statistics are not`,
		},
		{
			`"op": "batch_norm", "in": [0], "eps": 1, "mean": "b", "variance": "m", "momentum": 1`,
			`"b" is trained, and running statistics are not`,
		},
		{`"op": "batch_norm", "in": [0], "eps": 1, "times": 101`, "times: 101, and statistics move at most 100 times in a step"},
		{`"op": "sum", "in": [0], "first": true`, "has no attribute first"},
		{`"op": "max", "in": [8], "dims": [0, 1], "first": true`, "the first of several dims [0 1]"},
		{`"op": "batch_norm", "in": [0]`, "eps: 0 is not above 0"},
		{`"op": "batch_norm", "in": [0], "eps": 1, "momentum": 2`, "momentum: 2 is not between 0 and 1"},
		{`"op": "layer_norm", "in": [8], "dims": [0]`, "dims [0] are not the last of the shape [2 2]"},
		{`"op": "layer_norm", "in": [0]`, "lacks the dims that it normalises"},
		{`"op": "layer_norm", "in": [0], "dims": [0], "eps": -1`, "eps: -1 is below 0"},
		{`"op": "layer_norm", "in": [], "dims": [0]`, "reads 0 values, and it takes 1 to 3"},
		{`"op": "cat"`, "reads 0 values, and it takes 1 or more"},
		{
			`"op": "layer_norm", "in": [0, 2], "dims": [0]`,
			"normalises rows of vertices of shape [4] with a weight that is a tensor of shape [3 4]",
		},
		{`"op": "expand", "in": [6], "shape": [8192, 4096]`, "a shape of [8192 4096] is too large"},
		{`"op": "expand", "in": [5], "shape": [2048, 1024]`, "a shape of [2048 1024] is too large"},
	} {
		_, err := program.Read(strings.NewReader(before + "{" + c.operation + `}], "output": 9}`))
		name := strings.Split(c.operation, `"`)[3]
		want := fmt.Sprintf("program: operation 9 (%s): %s; trace the model again", name, c.want)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot:  %v\nwant: %s", c.operation, err, want)
		}
	}
}

// ofTypes has relations and operations of a program for several types.
const ofTypes = `{"version": 1, "class": "Net", "relations": [
	{"name": "writes", "source": "author", "target": "paper"}, {"name": "cites", "source": "paper", "target": "paper"}],
	"parameters": [{"name": "w", "shape": [4]}, {"name": "t", "shape": [5, 4], "trained": true},
	{"name": "fixed", "shape": [5, 4]}], "operations": [
	{"op": "features", "shape": [4], "of": "paper"}, {"op": "table", "name": "t", "of": "author"},
	{"op": "gather", "in": [1], "end": "source", "of": "writes"},
	{"op": "gather", "in": [0], "end": "source", "of": "cites"}, {"op": "scatter", "in": [2], "reduce": "sum", "end": "source"}, `

// TestWrongType: an operation that does not fit the vertex types and the relations is refused by name.
func TestWrongType(t *testing.T) {
	for _, c := range []struct{ operation, want string }{
		{
			`"op": "gather", "in": [0], "end": "source", "of": "writes"`,
			`reads rows of vertices of "paper" of shape [4], and the sources of "writes" are of another type`,
		},
		{`"op": "gather", "in": [0], "end": "source"`, `there is no relation ""`},
		{`"op": "edge_weight", "of": "reads"`, `there is no relation "reads"`},
		{
			`"op": "ones", "rows": "edges", "of": "writes", "loops": "one"`,
			`edges of "writes" have no loops: their ends are of two types`,
		},
		{
			`"op": "without_loops", "in": [2]`,
			`reads rows of edges of "writes" of shape [4], and it takes rows of stored edges`,
		},
		{
			`"op": "with_loops", "in": [3, 1]`,
			`the loops have rows of vertices of "author" of shape [4], and the edges rows of shape [4]`,
		},
		{
			`"op": "add", "in": [2, 3]`,
			`combines rows of edges of "writes" of shape [4] and rows of edges of "cites" of shape [4]`,
		},
		{
			`"op": "cat", "in": [0, 4]`,
			`combines rows of vertices of "paper" of shape [4] and rows of vertices of "author" of shape [4]`,
		},
		{`"op": "table", "name": "fixed", "of": "author"`, `the table "fixed" is not trained; give its rows as features`},
		{`"op": "table", "name": "w", "of": "author"`, `there is no parameter "w" that is a table`},
		{`"op": "relu", "in": [0], "of": "paper"`, "has no attribute of"},
	} {
		_, err := program.Read(strings.NewReader(ofTypes + "{" + c.operation + `}], "output": 5}`))
		name := strings.Split(c.operation, `"`)[3]
		want := fmt.Sprintf("program: operation 5 (%s): %s; trace the model again", name, c.want)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\ngot:  %v\nwant: %s", c.operation, err, want)
		}
	}
}

// TestRefused: text that is no program, and a program that is too large, are refused in one line.
func TestRefused(t *testing.T) {
	operations := func(more string, output int) string {
		return fmt.Sprintf("%s%s], \"output\": %d}", strings.TrimSuffix(before, ", "), more, output)
	}
	good := operations("", 0)
	zeros := strings.Repeat("0,", 600_000) + "0"
	constant := `, {"op": "constant", "shape": [600001], "values": [` + zeros + `]}`
	for _, c := range []struct{ text, want string }{
		{
			"{}",
			"a program of version 0, and this weft reads version 1; trace the model again with the Python package of this version",
		},
		{`{"layers": 3}`, `no program: unknown field "layers"; trace the model again`},
		{good + "{}", "no program: text follows its end; trace the model again"},
		{
			`{"version": 2}`,
			"a program of version 2, and this weft reads version 1; trace the model again with the Python package of this version",
		},
		{
			`{"version": 1}`,
			"program: output: there is no value 0, as there are 0 operations; trace the model again",
		},
		{
			operations("", 9),
			"program: output: there is no value 9, as there are 9 operations; trace the model again",
		},
		{
			operations("", 1),
			"program: output: rows of edges of shape [4], and a model's output has a row of numbers for each vertex; trace the model again",
		},
		{
			operations("", 8),
			"program: output: rows of vertices of shape [2 2], and a model's output has a row of numbers for each vertex; trace the model again",
		},
		{strings.Repeat(" ", 64<<20+1), "a program of more than 64 MB; trace a smaller model"},
		{
			operations(strings.Repeat(`, {"op": "vertices"}`, 100_000), 0),
			"program: 100009 operations, and at most 100000 are read; trace the model again",
		},
		{
			operations(constant+constant, 0),
			"program: constants of more than 1000000 numbers; trace the model again",
		},
		{
			strings.Replace(good, "[3, 4]", "[3, 0]", 1),
			`program: parameter "w": impossible shape [3 0]; trace the model again`,
		},
		{
			strings.Replace(good, "[3, 4]", "[65536, 65536]", 1),
			`program: parameter "w": impossible shape [65536 65536]; trace the model again`,
		},
		{
			strings.Replace(good, `"n"`, `"m"`, 1),
			`program: two parameters or none called "m"; trace the model again`,
		},
	} {
		_, err := program.Read(strings.NewReader(c.text))
		if !refusal.Is(err) || err.Error() != c.want {
			t.Errorf("%.200s:\ngot:  %v\nwant: %s", c.text, err, c.want)
		}
	}
}

// TestUnfitTypes: a program of several types is refused for a graph with other types.
func TestUnfitTypes(t *testing.T) {
	p, err := program.Read(strings.NewReader(strings.TrimSuffix(ofTypes, ", ") + `], "output": 0}`))
	require.NoError(t, err)
	for want, change := range map[string]func(s *gnn.Schema){
		"": func(*gnn.Schema) {},
		`reads vertices of type "author", and the graph has none`:                            func(s *gnn.Schema) { s.Types = s.Types[:1] },
		`reads 4 features of vertices of "paper", and the graph has 3`:                       func(s *gnn.Schema) { s.Types[0].Columns = 3 },
		`reads 5 vertices of "author", and the graph has 6`:                                  func(s *gnn.Schema) { s.Types[1].Vertices = 6 },
		`reads the relation "writes" from "author" to "paper", and the graph has none`:       func(s *gnn.Schema) { s.Relations[0].Target = 1 },
		`has outputs for the vertices of type "paper" alone, and others are to be learned; `: func(s *gnn.Schema) { s.Outputs = []int{0, 1} },
	} {
		s := gnn.Schema{
			Types: []gnn.VertexType{
				{Name: "paper", Vertices: 7, Columns: 4}, {Name: "author", Vertices: 5},
			},
			Relations: []gnn.Relation{{Name: "writes", Source: 1}, {Name: "cites"}},
		}
		change(&s)
		if _, err := p.Blocks(s, 4, 1); want == "" && err != nil || want != "" && !refusal.Is(err) ||
			want != "" && !strings.HasPrefix(err.Error(), "the model Net "+want) {
			t.Errorf("got:  %v\nwant: %s", err, want)
		}
	}
}

// TestUnfit: a program is refused for a graph that lacks something that it reads.
func TestUnfit(t *testing.T) {
	p, err := program.Read(strings.NewReader(strings.TrimSuffix(before, ", ") + `], "output": 0}`))
	require.NoError(t, err)
	g := paralleltest.GraphOf(t, 1, graph.Edges{
		Source: []int32{0}, Target: []int32{0}, Features: []float32{1, 2}, FeatureColumns: 2,
	})
	g.Types[0].Features = graph.Features{Columns: 4, Dense: make([]float32, 4)}
	unweighted := sar.SchemaOf(partition.All(g))
	several := gnn.OneType(4, 2)
	several.Types = append(several.Types, several.Types[0])
	for _, c := range []struct {
		schema  gnn.Schema
		outputs int
		want    string
	}{
		{
			several, 4,
			"the model Net is for one type of vertices and of edges, and the graph has more; take a graph of one type, or trace it for this graph",
		},
		{
			gnn.OneType(5, 2), 4,
			"the model Net reads 4 features of vertices, and the graph has 5; trace it for this graph",
		},
		{
			gnn.OneType(4, 3), 4,
			"the model Net reads 2 features of edges, and the graph has 3; trace it for this graph",
		},
		{
			unweighted, 4,
			"the model Net reads the weights of edges, and the graph has none; store weights, or trace the model without",
		},
		{
			gnn.OneType(4, 2), 5,
			"the model Net has 4 outputs, and the graph's labels need 5; change its last layer",
		},
	} {
		_, err := p.Blocks(c.schema, c.outputs, 1)
		if !refusal.Is(err) || err.Error() != c.want {
			t.Errorf("got:  %v\nwant: %s", err, c.want)
		}
	}
}

// TestDocument: docs/program.md lists each operation, how many values it reads, and its attributes.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../docs/program.md")
	require.NoError(t, err)
	listed := map[string]string{}
	rows := regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \| (\d[^|]*) \|([^|]*) \|`)
	for _, row := range rows.FindAllStringSubmatch(strings.ReplaceAll(string(text), "`", ""), -1) {
		for _, name := range strings.Fields(row[1]) {
			listed[name] = strings.TrimSpace(row[2] + row[3])
		}
	}
	assert.Equal(t, program.Described(), listed)
}

// TestLargeStep: a slice by a step beyond its end takes one number.
func TestLargeStep(t *testing.T) {
	p, err := program.Read(strings.NewReader(before +
		`{"op": "slice", "in": [0], "start": 1, "stop": 4, "step": 9223372036854775807}], "output": 9}`))
	require.NoError(t, err)
	assert.Equal(t, 1, p.Outputs())
}
