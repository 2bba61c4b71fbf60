package program_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/program"
)

// leaves are the values that the programs of TestRules read: rows of vertices (0) as the source (1) and as
// the target (2) of each edge, a weight (3), a vector (4), and the edges' weights as numbers (5) and as rows
// (6).
const leaves = `{"version": 1, "class": "Net", "parameters": [
	{"name": "w", "shape": [4, 4], "trained": true}, {"name": "b", "shape": [4], "trained": true},
	{"name": "c", "shape": [2], "trained": true}],
	"operations": [{"op": "features", "shape": [4]}, {"op": "gather", "in": [0], "end": "source"},
	{"op": "gather", "in": [0], "end": "target"}, {"op": "parameter", "name": "w"},
	{"op": "parameter", "name": "b"}, {"op": "edge_weight"}, {"op": "reshape", "in": [5], "shape": [1]}, `

// rewrite is a program, and the steps that rules make of it.
type rewrite struct {
	name       string
	operations []string // the operations from number 7 on
	want       string
}

// program returns the program whose output is the last operation.
func (r *rewrite) program(t *testing.T) *program.Program {
	t.Helper()
	p, err := program.Read(strings.NewReader(fmt.Sprintf(`%s{%s}], "output": %d}`, leaves,
		strings.Join(r.operations, "}, {"), 6+len(r.operations))))
	require.NoError(t, err)
	return p
}

// rewrites are programs for graphs with dense features.
var rewrites = []rewrite{
	{"reshapes that undo each other", []string{
		`"op": "reshape", "in": [0], "shape": [2, 2]`, `"op": "reshape", "in": [7], "shape": [4]`,
		`"op": "linear", "in": [8, 3]`, `"op": "linear", "in": [0, 3]`, `"op": "matmul", "in": [9, 3]`,
		`"op": "matmul", "in": [10, 3]`, `"op": "add", "in": [11, 12]`,
	}, "linear; matmul; pointwise add"},
	{"a norm of a sum, whose bias it cancels", []string{
		`"op": "linear", "in": [0, 3, 4]`, `"op": "add", "in": [7, 0]`, `"op": "batch_norm", "in": [8], "eps": 1`,
		`"op": "relu", "in": [9]`, `"op": "dropout", "in": [10], "p": 0.5`,
	}, "dropout(relu(batch_norm(features + linear + bias)))"},
	{"a norm of what is read again", []string{
		`"op": "linear", "in": [0, 3, 4]`, `"op": "batch_norm", "in": [7], "eps": 1`,
		`"op": "tanh", "in": [8]`,
		`"op": "linear", "in": [9, 3]`, `"op": "add", "in": [10, 7]`,
	}, "linear + bias; tanh(batch_norm(linear)); linear + linear"},
	{"a norm of rows", []string{
		`"op": "linear", "in": [0, 3, 4]`, `"op": "layer_norm", "in": [7, 4, 4], "dims": [0], "eps": 1`,
		`"op": "relu", "in": [8]`,
	}, "linear + bias; relu(layer_norm(linear))"},
	{"a norm of groups, which no step has", []string{
		`"op": "parameter", "name": "c"`, `"op": "reshape", "in": [0], "shape": [2, 2]`,
		`"op": "layer_norm", "in": [8, 7, 7], "dims": [1], "eps": 1`, `"op": "relu", "in": [9]`,
		`"op": "dropout", "in": [10], "p": 0.5, "path": "a"`, `"op": "reshape", "in": [11], "shape": [4]`,
	}, "layer_norm(reshape); pointwise relu; dropout"},
	{"a factor of 1", []string{
		`"op": "constant", "shape": [], "values": [1]`, `"op": "mul", "in": [0, 7]`,
		`"op": "linear", "in": [8, 3]`,
	}, "linear"},
	{"rows of ones", []string{
		`"op": "ones", "rows": "edges"`, `"op": "reshape", "in": [7], "shape": [1]`,
		`"op": "mul", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate sum"},
	{"a function of the source", []string{
		`"op": "relu", "in": [1]`, `"op": "linear", "in": [7, 3]`,
		`"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "pointwise relu; aggregate sum of linear"},
	{"a product with a difference beside one of its terms", []string{
		`"op": "sub", "in": [1, 2]`, `"op": "cat", "in": [7, 2]`, `"op": "cat", "in": [3, 3], "dim": 1`,
		`"op": "linear", "in": [8, 9]`, `"op": "scatter", "in": [10], "reduce": "sum"`,
	}, "cat; slice; slice; pointwise sub; linear; linear; pointwise neg; messages sum, columnwise " +
		"(pointwise add)"},
	{"a function of both ends", []string{
		`"op": "sub", "in": [1, 2]`, `"op": "tanh", "in": [7]`, `"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "messages sum, columnwise (pointwise sub tanh)"},
	{"a product with the same rows twice", []string{
		`"op": "sub", "in": [2, 1]`, `"op": "add", "in": [7, 2]`, `"op": "linear", "in": [8, 3, 4]`,
		`"op": "scatter", "in": [9], "reduce": "max"`,
	}, "pointwise add; linear; pointwise add neg; linear; messages max, columnwise (pointwise add)"},
	{"a product with the same rows of edges twice", []string{
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [7, 4]`, `"op": "add", "in": [8, 8]`,
		`"op": "linear", "in": [9, 3, 4]`, `"op": "scatter", "in": [10], "reduce": "max"`,
	}, "messages max (pointwise exp; pointwise mul; pointwise add; linear + bias)"},
	{"rows of edges that two layers read", []string{
		`"op": "mul", "in": [1, 2]`, `"op": "linear", "in": [7, 3]`, `"op": "tanh", "in": [8]`,
		`"op": "scatter", "in": [9], "reduce": "max"`, `"op": "gather", "in": [10], "end": "source"`,
		`"op": "mul", "in": [9, 11]`, `"op": "scatter", "in": [12], "reduce": "sum"`,
	}, "apply_edges (pointwise mul; tanh(linear)); messages max (); messages sum (pointwise mul)"},
	{"a factor of the target", []string{
		`"op": "mul", "in": [1, 2]`, `"op": "neg", "in": [7]`, `"op": "scatter", "in": [8], "reduce": "mean"`,
	}, "aggregate mean; pointwise mul mul"},
	{"a factor that is infinite without edges", []string{
		`"op": "reciprocal", "in": [0]`, `"op": "gather", "in": [7], "end": "target"`,
		`"op": "mul", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate sum; pointwise gt; aggregate sum; pointwise mul reciprocal where"},
	{"a factor of the source that is infinite where no edge reads it", []string{
		`"op": "reciprocal", "in": [0]`, `"op": "gather", "in": [7], "end": "source"`,
		`"op": "mul", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate sum, reversed; pointwise gt; pointwise mul reciprocal where; aggregate sum"},
	{"functions of a factor that is infinite where no edge reads it: it is replaced once", []string{
		`"op": "log", "in": [0]`, `"op": "gather", "in": [7], "end": "source"`,
		`"op": "mul", "in": [1, 8]`, `"op": "tanh", "in": [9]`, `"op": "linear", "in": [10, 3]`,
		`"op": "scatter", "in": [11], "reduce": "sum"`,
	}, "aggregate sum, reversed; pointwise gt; pointwise log mul tanh where; aggregate sum of linear"},
	{"the inverse of 0 where no edge reads it", []string{
		`"op": "ones", "rows": "edges"`, `"op": "scatter", "in": [7], "reduce": "sum", "end": "source"`,
		`"op": "constant", "shape": [], "values": [0]`, `"op": "gt", "in": [8, 9]`,
		`"op": "where", "in": [10, 0, 9]`, `"op": "reciprocal", "in": [11]`,
		`"op": "gather", "in": [12], "end": "source"`, `"op": "mul", "in": [1, 13]`,
		`"op": "scatter", "in": [14], "reduce": "sum"`,
	}, "aggregate sum, reversed; pointwise gt; pointwise mul reciprocal where where; aggregate sum"},
	{"a divisor without a gradient", []string{
		`"op": "detach", "in": [0]`, `"op": "gather", "in": [7], "end": "source"`,
		`"op": "div", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate sum, reversed; pointwise gt; pointwise detach div where; aggregate sum"},
	{"the remainder by a divisor without a gradient", []string{
		`"op": "detach", "in": [0]`, `"op": "gather", "in": [7], "end": "source"`,
		`"op": "fmod", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate sum, reversed; pointwise gt; pointwise detach fmod where; aggregate sum"},
	{"an infinite factor of what has no gradient", []string{
		`"op": "detach", "in": [0]`, `"op": "reciprocal", "in": [7]`,
		`"op": "gather", "in": [8], "end": "source"`, `"op": "mul", "in": [9, 9]`,
		`"op": "scatter", "in": [10], "reduce": "sum"`,
	}, "pointwise detach reciprocal; pointwise mul; aggregate sum"},
	{"factors of degrees that are finite: of 0 where infinite, and of 1 or more", []string{
		`"op": "ones", "rows": "edges"`, `"op": "scatter", "in": [7], "reduce": "sum"`,
		`"op": "constant", "shape": [], "values": [-0.5]`, `"op": "pow", "in": [8, 9]`,
		`"op": "constant", "shape": [], "values": ["inf"]`, `"op": "eq", "in": [10, 11]`,
		`"op": "constant", "shape": [], "values": [0]`, `"op": "where", "in": [12, 13, 10]`,
		`"op": "clamp", "in": [8], "min": 1`, `"op": "pow", "in": [15, 9]`, `"op": "mul", "in": [14, 16]`,
		`"op": "reshape", "in": [17], "shape": [1]`, `"op": "gather", "in": [18], "end": "source"`,
		`"op": "mul", "in": [1, 19]`, `"op": "scatter", "in": [20], "reduce": "sum"`,
	}, "aggregate sum; pointwise pow; pointwise clamp eq mul pow where; pointwise mul; aggregate sum"},
	{"rows that are divided by their length", []string{
		`"op": "square", "in": [0]`, `"op": "sum", "in": [7], "dims": [0], "keep": true`, `"op": "sqrt", "in": [8]`,
		`"op": "clamp", "in": [9], "min": 1e-12`, `"op": "div", "in": [0, 10]`,
		`"op": "gather", "in": [11], "end": "source"`, `"op": "linear", "in": [12, 3]`,
		`"op": "scatter", "in": [13], "reduce": "sum"`,
	}, "pointwise square; sum; pointwise clamp sqrt; pointwise div; aggregate sum of linear"},
	{"the largest of own rows that are infinite without edges", []string{
		`"op": "reciprocal", "in": [0]`, `"op": "gather", "in": [7], "end": "target"`,
		`"op": "scatter", "in": [8], "reduce": "max"`,
	}, "aggregate sum; pointwise gt; aggregate max; pointwise mul reciprocal where"},
	{"a factor of parameters", []string{
		`"op": "mul", "in": [6, 4]`, `"op": "scatter", "in": [7], "reduce": "sum"`,
	}, "aggregate sum, weighted; pointwise mul"},
	{"a divisor of the target", []string{
		`"op": "div", "in": [1, 2]`, `"op": "scatter", "in": [7], "reduce": "sum"`,
	}, "aggregate sum; pointwise gt; aggregate sum; pointwise mul reciprocal where where"},
	{"a divisor of parameters", []string{
		`"op": "div", "in": [1, 4]`, `"op": "scatter", "in": [7], "reduce": "sum"`,
	}, "pointwise div; aggregate sum"},
	{"a divisor of parameters, of rows of edges", []string{
		`"op": "mul", "in": [1, 6]`, `"op": "div", "in": [7, 4]`, `"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "pointwise reciprocal; aggregate sum, weighted; pointwise mul"},
	{"weights that have a gradient", []string{
		`"op": "edge_weight", "differentiable": true`, `"op": "reshape", "in": [7], "shape": [1]`,
		`"op": "mul", "in": [8, 1]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "messages sum (pointwise mul)"},
	{"a factor that is broadcast, in another shape", []string{
		`"op": "parameter", "name": "c"`, `"op": "reshape", "in": [7], "shape": [2, 1]`,
		`"op": "exp", "in": [6]`, `"op": "reshape", "in": [9], "shape": [1, 1]`, `"op": "mul", "in": [10, 8]`,
		`"op": "reshape", "in": [1], "shape": [2, 2]`, `"op": "mul", "in": [12, 11]`,
		`"op": "reshape", "in": [13], "shape": [4]`, `"op": "scatter", "in": [14], "reduce": "sum"`,
	}, "messages sum (pointwise exp; pointwise mul; pointwise mul)"},
	{"a sum of products of several rows for each edge", []string{
		`"op": "sub", "in": [1, 2]`, `"op": "tanh", "in": [7]`, `"op": "reshape", "in": [8], "shape": [1, 4]`,
		`"op": "linear", "in": [9, 3]`, `"op": "scatter", "in": [10], "reduce": "sum"`,
		`"op": "reshape", "in": [11], "shape": [4]`,
	}, "messages sum (pointwise sub tanh; linear)"},
	{"a product with a sum of several rows for each edge", []string{
		`"op": "reshape", "in": [1], "shape": [1, 4]`, `"op": "reshape", "in": [2], "shape": [1, 4]`,
		`"op": "add", "in": [7, 8]`, `"op": "linear", "in": [9, 3]`, `"op": "scatter", "in": [10], "reduce": "max"`,
		`"op": "reshape", "in": [11], "shape": [4]`,
	}, "messages max (pointwise add; linear)"},
	{"a product with rows of edges beside a parameter", []string{
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [7, 4]`, `"op": "cat", "in": [8, 1, 4]`,
		`"op": "cat", "in": [3, 3, 3], "dim": 1`, `"op": "linear", "in": [9, 10]`,
		`"op": "scatter", "in": [11], "reduce": "max"`,
	}, "messages max (pointwise exp; pointwise mul; cat; cat; linear)"},
	{"a divisor of the edge", []string{
		`"op": "exp", "in": [6]`, `"op": "div", "in": [1, 7]`, `"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "messages sum (pointwise exp; pointwise div)"},
	{"a factor of the target that is infinite, where each has a loop", []string{
		`"op": "reciprocal", "in": [0]`, `"op": "gather", "in": [7], "end": "target", "loops": "added"`,
		`"op": "gather", "in": [0], "end": "source", "loops": "added"`, `"op": "mul", "in": [8, 9]`,
		`"op": "scatter", "in": [10], "reduce": "sum"`,
	}, "aggregate sum, loops added; pointwise mul reciprocal"},
	{"a product with rows of edges and of the source, whose bias the source's has", []string{
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [7, 4]`, `"op": "add", "in": [8, 1]`,
		`"op": "linear", "in": [9, 3, 4]`, `"op": "scatter", "in": [10], "reduce": "max"`,
	}, "linear + bias; messages max (pointwise exp; pointwise mul; gather + linear)"},
	{"a product with two rows of edges and one of the source", []string{
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [7, 4]`, `"op": "tanh", "in": [8]`,
		`"op": "add", "in": [8, 9]`, `"op": "add", "in": [10, 1]`, `"op": "linear", "in": [11, 3]`,
		`"op": "scatter", "in": [12], "reduce": "max"`,
	}, "linear; messages max (pointwise exp; pointwise mul; pointwise add tanh; gather + linear)"},
	{"a product with two rows of edges side by side", []string{
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [7, 4]`, `"op": "tanh", "in": [8]`,
		`"op": "cat", "in": [8, 9]`, `"op": "cat", "in": [3, 3], "dim": 1`, `"op": "linear", "in": [10, 11]`,
		`"op": "scatter", "in": [12], "reduce": "max"`,
	}, "messages max (pointwise exp; pointwise mul; pointwise tanh; cat; cat; linear)"},
	{"a product with a sum whose second term has one column", []string{
		`"op": "add", "in": [1, 6]`, `"op": "linear", "in": [7, 3]`, `"op": "scatter", "in": [8], "reduce": "max"`,
	}, "messages max (pointwise add; linear)"},
	{"a product with a sum whose first term has one column", []string{
		`"op": "add", "in": [6, 1]`, `"op": "linear", "in": [7, 3]`, `"op": "scatter", "in": [8], "reduce": "max"`,
	}, "messages max (pointwise add; linear)"},
	{"weights", []string{
		`"op": "mul", "in": [6, 1]`, `"op": "scatter", "in": [7], "reduce": "mean"`,
	}, "aggregate mean, weighted"},
	{"weights of added loops", []string{
		`"op": "constant", "shape": [], "values": [1]`, `"op": "with_loops", "in": [5, 7]`,
		`"op": "reshape", "in": [8], "shape": [1]`,
		`"op": "gather", "in": [0], "end": "source", "loops": "added"`, `"op": "mul", "in": [9, 10]`,
		`"op": "scatter", "in": [11], "reduce": "sum"`,
	}, "aggregate sum, weighted, loops added"},
	{"loops", []string{
		`"op": "without_loops", "in": [1]`, `"op": "with_loops", "in": [7, 0]`,
		`"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "aggregate sum, loops one"},
	{"loops of ones", []string{
		`"op": "ones", "rows": "edges"`, `"op": "without_loops", "in": [7]`,
		`"op": "scatter", "in": [8], "reduce": "sum"`, `"op": "reshape", "in": [9], "shape": [1]`,
	}, "aggregate sum, loops removed"},
	{"loops of other values", []string{
		`"op": "with_loops", "in": [1, 4]`, `"op": "scatter", "in": [7], "reduce": "sum"`,
	}, "messages sum, loops added ()"},
	{"the largest", []string{
		`"op": "scatter", "in": [1], "reduce": "max"`,
	}, "aggregate max"},
	{"the smallest, reversed", []string{
		`"op": "scatter", "in": [2], "reduce": "min", "end": "source"`,
	}, "aggregate min, reversed"},
	{"the largest of own rows", []string{
		`"op": "scatter", "in": [2], "reduce": "max"`,
	}, "aggregate max; pointwise mul"},
	{"a softmax that no sum reads", []string{
		`"op": "edge_softmax", "in": [1]`, `"op": "scatter", "in": [7], "reduce": "max"`,
	}, "aggregate max; pointwise detach; messages sum, columnwise (pointwise exp sub); " +
		"pointwise add; messages max (pointwise div exp sub)"},
	{"a softmax of the sources' edges", []string{
		`"op": "edge_softmax", "in": [2], "end": "source"`, `"op": "mul", "in": [7, 2]`,
		`"op": "scatter", "in": [8], "reduce": "sum", "end": "source"`,
	}, "aggregate max, reversed; pointwise detach; messages sum, columnwise, reversed " +
		"(pointwise exp sub); messages sum, columnwise, reversed (pointwise exp mul sub); " +
		"pointwise add mul reciprocal"},
	{"values of loops", []string{
		`"op": "ones", "rows": "vertices"`, `"op": "loop_values", "in": [5, 7]`,
		`"op": "reshape", "in": [8], "shape": [1]`,
	}, "messages sum, loops last (); messages sum, loops last (); pointwise gt where"},
	{"attention with one dropout", []string{
		`"op": "reshape", "in": [0], "shape": [1, 4]`, `"op": "reshape", "in": [4], "shape": [1, 4]`,
		`"op": "mul", "in": [7, 8]`, `"op": "sum", "in": [9], "dims": [1], "keep": true`,
		`"op": "gather", "in": [10], "end": "source"`, `"op": "gather", "in": [10], "end": "target"`,
		`"op": "add", "in": [11, 12]`, `"op": "leaky_relu", "in": [13]`, `"op": "edge_softmax", "in": [14]`,
		`"op": "dropout", "in": [15], "p": 0.5, "path": "a"`, `"op": "gather", "in": [7], "end": "source"`,
		`"op": "mul", "in": [17, 16]`, `"op": "scatter", "in": [18], "reduce": "sum"`,
		`"op": "reshape", "in": [19], "shape": [4]`,
	}, "dot of heads; attention of sums"},
	{"attention with two dropouts, which a kernel does not have", []string{
		`"op": "reshape", "in": [0], "shape": [1, 4]`, `"op": "reshape", "in": [4], "shape": [1, 4]`,
		`"op": "mul", "in": [7, 8]`, `"op": "sum", "in": [9], "dims": [1], "keep": true`,
		`"op": "gather", "in": [10], "end": "source"`, `"op": "gather", "in": [10], "end": "target"`,
		`"op": "add", "in": [11, 12]`, `"op": "leaky_relu", "in": [13]`, `"op": "edge_softmax", "in": [14]`,
		`"op": "dropout", "in": [15], "p": 0.5, "path": "a"`, `"op": "dropout", "in": [16], "p": 0.2, "path": "b"`,
		`"op": "gather", "in": [7], "end": "source"`, `"op": "mul", "in": [18, 17]`,
		`"op": "scatter", "in": [19], "reduce": "sum"`, `"op": "reshape", "in": [20], "shape": [4]`,
	}, "dot of heads; messages max, columnwise (pointwise add leaky_relu); pointwise detach; " +
		"messages sum (pointwise add exp leaky_relu sub); pointwise add reciprocal; messages sum " +
		"(pointwise add exp leaky_relu sub; dropout; dropout; pointwise mul); pointwise mul"},
	{"attention times what is infinite without edges", []string{
		`"op": "reshape", "in": [0], "shape": [1, 4]`, `"op": "reshape", "in": [4], "shape": [1, 4]`,
		`"op": "mul", "in": [7, 8]`, `"op": "sum", "in": [9], "dims": [1], "keep": true`,
		`"op": "gather", "in": [10], "end": "source"`, `"op": "gather", "in": [10], "end": "target"`,
		`"op": "add", "in": [11, 12]`, `"op": "leaky_relu", "in": [13]`, `"op": "edge_softmax", "in": [14]`,
		`"op": "reciprocal", "in": [7]`, `"op": "gather", "in": [16], "end": "target"`,
		`"op": "gather", "in": [7], "end": "source"`, `"op": "mul", "in": [18, 15]`, `"op": "mul", "in": [19, 17]`,
		`"op": "scatter", "in": [20], "reduce": "sum"`, `"op": "reshape", "in": [21], "shape": [4]`,
	}, "dot of heads; aggregate sum; pointwise gt; attention of sums; pointwise mul reciprocal " +
		"where"},
	{"attention of combined rows, whose scores are scaled", []string{
		`"op": "linear", "in": [0, 3]`, `"op": "reshape", "in": [7], "shape": [1, 4]`,
		`"op": "reshape", "in": [0], "shape": [1, 4]`, `"op": "gather", "in": [9], "end": "source"`,
		`"op": "gather", "in": [8], "end": "target"`, `"op": "add", "in": [10, 11]`, `"op": "leaky_relu", "in": [12]`,
		`"op": "reshape", "in": [4], "shape": [1, 4]`, `"op": "mul", "in": [13, 14]`,
		`"op": "sum", "in": [15], "dims": [1], "keep": true`, `"op": "constant", "shape": [], "values": [0.5]`,
		`"op": "mul", "in": [16, 17]`, `"op": "edge_softmax", "in": [18]`, `"op": "mul", "in": [10, 19]`,
		`"op": "scatter", "in": [20], "reduce": "sum"`, `"op": "reshape", "in": [21], "shape": [4]`,
	}, "linear; messages max (pointwise add leaky_relu mul; sum; pointwise mul); pointwise detach; messages sum " +
		"(pointwise add leaky_relu mul; sum; pointwise exp mul sub); pointwise add reciprocal; messages sum " +
		"(pointwise add leaky_relu mul; sum; pointwise exp mul sub; pointwise mul); pointwise mul"},
	{"softmax aggregation", []string{
		`"op": "edge_softmax", "in": [1]`, `"op": "mul", "in": [1, 7]`,
		`"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "expand; attention of each column"},
	{"softmax aggregation of a function of the source, with numbers for each column", []string{
		`"op": "relu", "in": [1]`, `"op": "mul", "in": [4, 7]`,
		`"op": "constant", "shape": [], "values": [0.5]`, `"op": "div", "in": [8, 9]`,
		`"op": "neg", "in": [10]`, `"op": "edge_softmax", "in": [11]`, `"op": "mul", "in": [12, 7]`,
		`"op": "mul", "in": [13, 2]`, `"op": "scatter", "in": [14], "reduce": "sum"`,
	}, "pointwise relu; expand; pointwise reciprocal; expand; pointwise mul mul; attention of each column; " +
		"pointwise mul"},
	{"softmax aggregation of rows of two dimensions, with a number for each of the first", []string{
		`"op": "parameter", "name": "c"`, `"op": "reshape", "in": [7], "shape": [2, 1]`,
		`"op": "reshape", "in": [1], "shape": [2, 2]`, `"op": "div", "in": [9, 8]`,
		`"op": "edge_softmax", "in": [10]`, `"op": "reshape", "in": [11], "shape": [4]`,
		`"op": "mul", "in": [1, 12]`, `"op": "scatter", "in": [13], "reduce": "sum"`,
	}, "pointwise reciprocal; expand; attention of each column"},
	{"softmax aggregation of a number, along loops", []string{
		`"op": "sum", "in": [0]`, `"op": "gather", "in": [7], "end": "source", "loops": "one"`,
		`"op": "edge_softmax", "in": [8]`, `"op": "mul", "in": [8, 9]`,
		`"op": "scatter", "in": [10], "reduce": "sum"`, `"op": "reshape", "in": [11], "shape": [1]`,
	}, "sum; expand; attention of each column, loops one"},
	{"a softmax of a function of the source, which is no softmax aggregation", []string{
		`"op": "tanh", "in": [1]`, `"op": "edge_softmax", "in": [7]`, `"op": "mul", "in": [1, 8]`,
		`"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "pointwise tanh; aggregate max; pointwise detach; messages sum, columnwise (pointwise exp sub); " +
		"messages sum (pointwise exp mul sub); pointwise add mul reciprocal"},
	{"a softmax of the target's row, which is no softmax aggregation", []string{
		`"op": "edge_softmax", "in": [2]`, `"op": "mul", "in": [1, 7]`,
		`"op": "scatter", "in": [8], "reduce": "sum"`,
	}, "messages sum (expand); messages sum (expand; pointwise mul); pointwise add mul reciprocal"},
	{"softmaxes of one column, which are no softmax aggregation", []string{
		`"op": "slice", "in": [1], "stop": 1`, `"op": "mul", "in": [7, 4]`, `"op": "edge_softmax", "in": [8]`,
		`"op": "mul", "in": [7, 9]`, `"op": "scatter", "in": [10], "reduce": "sum"`,
	}, "slice; pointwise mul; aggregate max; pointwise detach; messages sum, columnwise (pointwise exp " +
		"sub); messages sum (pointwise exp mul sub); pointwise add mul reciprocal"},
	{"softmax aggregation whose softmax has no gradient", []string{
		`"op": "detach", "in": [1]`, `"op": "edge_softmax", "in": [7]`, `"op": "mul", "in": [1, 8]`,
		`"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "pointwise detach; aggregate max; pointwise detach; messages sum, columnwise (pointwise exp sub); " +
		"messages sum (pointwise exp mul sub); pointwise add mul reciprocal"},
	{"softmax aggregation of which coefficients are dropped", []string{
		`"op": "edge_softmax", "in": [1]`, `"op": "dropout", "in": [7], "p": 0.5, "path": "a"`,
		`"op": "mul", "in": [1, 8]`, `"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate max; pointwise detach; messages sum, columnwise (pointwise exp sub); messages sum " +
		"(pointwise exp sub; dropout; pointwise mul); pointwise add mul reciprocal"},
	{"softmax aggregation times weights", []string{
		`"op": "edge_softmax", "in": [1]`, `"op": "mul", "in": [1, 7]`, `"op": "mul", "in": [8, 6]`,
		`"op": "scatter", "in": [9], "reduce": "sum"`,
	}, "aggregate max; pointwise detach; messages sum, columnwise (pointwise exp sub); messages sum " +
		"(pointwise exp mul mul sub); pointwise add mul reciprocal"},
	{"the other end's degree", []string{
		`"op": "gather", "in": [0], "end": "source", "loops": "one"`,
		`"op": "ones", "rows": "edges", "loops": "one"`, `"op": "scatter", "in": [8], "reduce": "sum", "end": "source"`,
		`"op": "rsqrt", "in": [9]`, `"op": "gather", "in": [10], "end": "source", "loops": "one"`,
		`"op": "gather", "in": [10], "end": "target", "loops": "one"`, `"op": "mul", "in": [11, 12]`,
		`"op": "reshape", "in": [13], "shape": [1]`, `"op": "mul", "in": [7, 14]`,
		`"op": "scatter", "in": [15], "reduce": "sum"`,
	}, "aggregate sum, loops one, reversed; pointwise rsqrt; pointwise mul; aggregate sum, " +
		"loops one; pointwise mul"},
	{"one step of a layer's end", []string{
		`"op": "scatter", "in": [1], "reduce": "mean"`, `"op": "linear", "in": [7, 3, 4]`,
		`"op": "linear", "in": [0, 3]`, `"op": "add", "in": [8, 9]`, `"op": "tanh", "in": [10]`,
		`"op": "dropout", "in": [11], "p": 0.5`,
	}, "dropout(tanh(aggregate mean of linear + linear + bias))"},
	{"products with a vector", []string{
		`"op": "reshape", "in": [0], "shape": [2, 2]`, `"op": "reshape", "in": [4], "shape": [2, 2]`,
		`"op": "mul", "in": [7, 8]`, `"op": "sum", "in": [9], "dims": [1]`,
	}, "dot of heads"},
	{"a value of a mode", []string{
		`"op": "training"`, `"op": "sin", "in": [0]`, `"op": "where", "in": [7, 8, 0]`,
	}, "pointwise sin; choose"},
	{"a product with several matrices", []string{
		`"op": "reshape", "in": [3], "shape": [2, 4, 2]`, `"op": "matmul", "in": [0, 7]`,
		`"op": "reshape", "in": [8], "shape": [4]`,
	}, "permute; linear; permute"},
	{"the smallest of all rows", []string{
		`"op": "row_min", "in": [0]`, `"op": "sub", "in": [0, 7]`,
	}, "pointwise neg; largest; pointwise eq; pointwise where; row_sum; row_sum; pointwise div neg; " +
		"pointwise sub"},
	{"a norm of rows without a weight", []string{
		`"op": "layer_norm", "in": [0], "dims": [0], "eps": 1`,
	}, "mean; pointwise sub; pointwise square; mean; pointwise add rsqrt; pointwise mul"},
	{"a norm with a weight alone", []string{
		`"op": "batch_norm", "in": [0], "weight": "b", "eps": 1`,
	}, "batch_norm(features); pointwise mul"},
	{"a value that is read twice", []string{
		`"op": "exp", "in": [0]`, `"op": "sin", "in": [7]`, `"op": "mul", "in": [8, 7]`,
	}, "pointwise exp; pointwise mul sin"},
}

// TestRules: each program has the steps that cost least.
func TestRules(t *testing.T) {
	for _, c := range rewrites {
		assert.Equal(t, c.want, c.program(t).Steps(), c.name)
	}
}

// goldens name a program of rewrites for each rule, and one of sparseRewrites.
var goldens = map[string]string{
	"chosen":        "a value of a mode",
	"sameShape":     "reshapes that undo each other",
	"dropOnes":      "a factor of 1",
	"hoisted":       "a function of the source",
	"distributed":   "a product with the same rows twice",
	"loopsOfRows":   "loops",
	"scattered":     "a factor of the target",
	"multiplied":    "a product with several matrices",
	"extremes":      "the smallest of all rows",
	"lowered":       "a softmax that no sum reads",
	"normalized":    "a norm of rows without a weight",
	"scaledAfter":   "a norm with a weight alone",
	"valuesOfLoops": "values of loops",
	"productFirst":  "GraphSAGE",
}

// TestEachRule: without a rule its program has other steps.
func TestEachRule(t *testing.T) {
	for _, rule := range program.Rules() {
		seen := false
		for _, c := range slices.Concat(rewrites, sparseRewrites) {
			if c.name != goldens[rule] {
				continue
			}
			seen = true
			program.Without(rule, func() {
				p := c.program(t)
				assert.Equal(t, false, p.Steps() == c.want || p.SparseSteps() == c.want,
					"without "+rule+" the steps are others")
			})
		}
		assert.Equal(t, true, seen, rule+" has a program")
	}
}

// TestModels: the layers of PyG become the aggregations that the named models have.
func TestModels(t *testing.T) {
	for name, want := range map[string]string{
		"gcn": "aggregate symmetric, loops one of linear; relu(aggregate + bias); aggregate " +
			"symmetric, loops one of linear; aggregate + bias",
		"gcn-weighted": "aggregate merged, weighted, loops one of linear; relu(aggregate + bias); aggregate " +
			"sum, weighted of linear + linear + bias",
		"sage": "relu(aggregate mean of linear + linear + bias); aggregate max; linear + linear + bias",
		"gat": "linear; attention of sums, loops one with its scores; elu(reshape + bias); linear; " +
			"attention of sums, loops one with its scores; mean; mean + bias",
		"gatv2": "linear + bias; linear + bias; attention of combined rows, loops one; relu(reshape + " +
			"bias); linear + bias; linear + bias; attention of combined rows, loops one; reshape + " +
			"bias",
		"transformer": "linear + bias; linear + bias; linear + bias; pointwise mul; attention of products; " +
			"relu(reshape + linear + bias); linear + bias; linear + bias; linear + bias; pointwise " +
			"mul; attention of products; mean; mean + linear + bias",
		"gen": "linear; pointwise add relu; expand; attention of each column; attend + linear; linear; " +
			"relu(batch_norm(linear)); relu(linear); aggregate sum; pointwise add; pointwise add mul; " +
			"linear + bias",
		"gen-edges": "linear; apply_edges (linear; pointwise add add relu); messages max (); pointwise detach; " +
			"messages sum (pointwise exp sub); messages sum (pointwise exp mul sub); linear; pointwise add " +
			"add mul reciprocal; linear; relu(batch_norm(linear)); relu(linear); linear; apply_edges " +
			"(linear; pointwise add add relu); messages max (pointwise mul); pointwise detach; messages " +
			"sum (pointwise exp mul sub); messages sum (pointwise exp mul mul sub); linear; pointwise add " +
			"add mul reciprocal; linear; relu(batch_norm(linear)); linear",
		"softmaxes": "linear; pointwise add relu; expand; attention of each column; attend + linear; linear; " +
			"relu(layer_norm(linear)); linear; slice; attention of each column; pointwise reciprocal; expand; " +
			"attention of each column; pointwise mul; pointwise reciprocal; pointwise mul; attention of each " +
			"column; expand; attention of each column, loops one; cat; linear + bias",
		"edge": "slice; slice; pointwise sub; linear + bias; linear; messages max (pointwise add relu; " +
			"linear + bias); pointwise relu; slice; slice; pointwise sub; linear + bias; linear; messages " +
			"mean, columnwise (pointwise add)",
		"whole": "tanh(aggregate mean of linear + linear + bias); linear + bias; slice; slice; slice; softmax; " +
			"permute; permute; product over rows; permute; pointwise div; pointwise sigmoid; permute; permute; " +
			"permute; permute; matmul; permute; pointwise add; product over rows; pointwise div; matmul; " +
			"linear + bias",
		"gated": "linear + bias; linear + bias; linear + bias; messages sum (pointwise add mul " +
			"sigmoid); relu(scatter + linear + bias); linear; slice; slice; linear; linear + bias; " +
			"slice; slice; linear; messages mean (pointwise add mul relu); pointwise add add mul " +
			"relu",
	} {
		_, meta, err := safetensors.ReadFile("testdata/" + name + ".safetensors")
		require.NoError(t, err)
		assert.Equal(t, want, steps(t, meta["program"]), name)
	}
}

// TestStages: the places where blocks may be cut, and the number of aggregations of each block. In a pipeline
// the readers of a parameter all come in one block, the last.
func TestStages(t *testing.T) {
	operations := strings.Join([]string{
		`"op": "scatter", "in": [1], "reduce": "max"`, `"op": "linear", "in": [7, 3, 4]`,
		`"op": "gather", "in": [8], "end": "source"`, `"op": "add", "in": [9, 2]`, `"op": "mul", "in": [10, 6]`,
		`"op": "add", "in": [11, 4]`, `"op": "tanh", "in": [12]`, `"op": "scatter", "in": [13], "reduce": "max"`,
		`"op": "linear", "in": [14, 3]`,
	}, "}, {")
	for output, want := range map[int][2][]int{ // rounds of the blocks in one stage, and in a pipeline
		8: {{1}, {1}}, 14: {{1, 1}, {1, 1}}, 15: {{1, 1}, {1, 1}}, // the product 8 comes after the cut
	} {
		text := leaves + "{" + operations + fmt.Sprintf(`}], "output": %d}`, output)
		p, err := program.Read(strings.NewReader(text))
		require.NoError(t, err)
		for stages, want := range want {
			specs, err := p.Blocks(gnn.OneType(4, 0), 4, stages+1)
			require.NoError(t, err)
			var rounds []int
			for _, s := range specs {
				rounds = append(rounds, s.Rounds)
			}
			assert.Equal(t, want, rounds, fmt.Sprint(output))
		}
	}
}

// steps returns the steps of a program.
func steps(t *testing.T, text string) string {
	t.Helper()
	p, err := program.Read(strings.NewReader(text))
	require.NoError(t, err)
	return p.Steps()
}
