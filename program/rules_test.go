package program_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
)

// symmetricPrograms are forms of GCN's aggregation. The number of an operation is its place here and 7.
var symmetricPrograms = map[string][]string{
	"loops": {
		`"op": "ones", "rows": "edges", "loops": "one"`, `"op": "scatter", "in": [7], "reduce": "sum"`,
		`"op": "rsqrt", "in": [8]`, `"op": "gather", "in": [9], "end": "source", "loops": "one"`,
		`"op": "gather", "in": [9], "end": "target", "loops": "one"`, `"op": "mul", "in": [10, 11]`,
		`"op": "reshape", "in": [12], "shape": [1]`, `"op": "gather", "in": [0], "end": "source", "loops": "one"`,
		`"op": "mul", "in": [14, 13]`, `"op": "scatter", "in": [15], "reduce": "sum"`,
	},
	"stored": {
		`"op": "ones", "rows": "edges"`, `"op": "scatter", "in": [7], "reduce": "sum"`,
		`"op": "constant", "shape": [], "values": [-0.5]`, `"op": "pow", "in": [8, 9]`,
		`"op": "constant", "shape": [], "values": ["inf"]`, `"op": "eq", "in": [10, 11]`,
		`"op": "constant", "shape": [], "values": [0]`, `"op": "where", "in": [12, 13, 10]`,
		`"op": "gather", "in": [14], "end": "source"`, `"op": "gather", "in": [14], "end": "target"`,
		`"op": "mul", "in": [15, 16]`, `"op": "reshape", "in": [17], "shape": [1]`, `"op": "mul", "in": [1, 18]`,
		`"op": "exp", "in": [6]`, `"op": "sum", "in": [0]`, `"op": "scatter", "in": [19], "reduce": "sum"`,
	},
	"weighted": {
		`"op": "neg", "in": [6]`, `"op": "scatter", "in": [5], "reduce": "sum"`,
		`"op": "constant", "shape": [], "values": [-0.5]`, `"op": "pow", "in": [8, 9]`,
		`"op": "constant", "shape": [], "values": ["inf"]`, `"op": "eq", "in": [10, 11]`,
		`"op": "constant", "shape": [], "values": [0]`, `"op": "where", "in": [12, 13, 10]`,
		`"op": "gather", "in": [14], "end": "source"`, `"op": "gather", "in": [14], "end": "target"`,
		`"op": "mul", "in": [15, 16]`, `"op": "reshape", "in": [17], "shape": [1]`, `"op": "mul", "in": [1, 18]`,
		`"op": "exp", "in": [6]`, `"op": "mul", "in": [19, 6]`, `"op": "scatter", "in": [21], "reduce": "sum"`,
	},
	"merged": {
		`"op": "ones", "rows": "vertices"`, `"op": "exp", "in": [5]`, `"op": "loop_values", "in": [5, 7]`,
		`"op": "without_loops", "in": [5]`, `"op": "with_loops", "in": [10, 9]`, `"op": "exp", "in": [11]`,
		`"op": "scatter", "in": [11], "reduce": "sum"`, `"op": "rsqrt", "in": [13]`,
		`"op": "gather", "in": [14], "end": "source", "loops": "one"`,
		`"op": "gather", "in": [14], "end": "target", "loops": "one"`, `"op": "mul", "in": [15, 16]`,
		`"op": "mul", "in": [17, 11]`, `"op": "reshape", "in": [18], "shape": [1]`,
		`"op": "gather", "in": [0], "end": "source", "loops": "one"`, `"op": "mul", "in": [20, 19]`,
		`"op": "scatter", "in": [21], "reduce": "sum"`,
	},
}

// along are changes of the form "stored", by which all edges have such loops.
func along(loops string, changes map[int]string) map[int]string {
	attr := `, "loops": "` + loops + `"`
	all := map[int]string{
		7: `"op": "ones", "rows": "edges"` + attr, 15: `"op": "gather", "in": [14], "end": "source"` + attr,
		16: `"op": "gather", "in": [14], "end": "target"` + attr,
		18: `"op": "gather", "in": [0], "end": "source"` + attr, 19: `"op": "mul", "in": [18, 17]`,
	}
	maps.Copy(all, changes)
	return all
}

// TestSymmetric: sums are GCN's aggregation where they have its degrees and weights, and other sums with any
// one change.
func TestSymmetric(t *testing.T) {
	names := map[string]string{
		"loops": "aggregate symmetric, loops one", "stored": "aggregate symmetric",
		"weighted": "aggregate symmetric, weighted", "merged": "aggregate merged, weighted, loops one",
	}
	is := func(form string, operations []string) bool {
		steps := (&rewrite{operations: operations}).program(t).Steps()
		if strings.Contains(steps, names[form]) {
			return true
		}
		other := !strings.Contains(steps, "symmetric") && !strings.Contains(steps, "merged")
		assert.Equal(t, true, other, steps)
		return false
	}
	for form, operations := range symmetricPrograms {
		assert.Equal(t, true, is(form, operations), form)
	}
	loops := slices.Clone(symmetricPrograms["stored"])
	for number, operation := range along("one", nil) {
		loops[number-7] = operation
	}
	assert.Equal(t, true, is("loops", loops), "a rule along loops")
	for _, c := range []struct {
		form, name string
		changes    map[int]string
	}{
		{"loops", "a mean", map[int]string{16: `"op": "scatter", "in": [15], "reduce": "mean"`}},
		{"loops", "a mean of ones", map[int]string{8: `"op": "scatter", "in": [7], "reduce": "mean"`}},
		{"loops", "a function of no root", map[int]string{9: `"op": "reciprocal", "in": [8]`}},
		{"loops", "degrees of sources", map[int]string{
			8: `"op": "scatter", "in": [7], "reduce": "sum", "end": "source"`,
		}},
		{"stored", "a rule of 1", map[int]string{13: `"op": "constant", "shape": [], "values": [1]`}},
		{"stored", "a rule of 5", map[int]string{11: `"op": "constant", "shape": [], "values": [5]`}},
		{"stored", "another power", map[int]string{9: `"op": "constant", "shape": [], "values": [-1]`}},
		{"stored", "a rule of the degree", map[int]string{12: `"op": "eq", "in": [8, 11]`}},
		{"stored", "degrees with loops", map[int]string{7: `"op": "ones", "rows": "edges", "loops": "one"`}},
		{"stored", "weighted degrees", map[int]string{8: `"op": "scatter", "in": [5], "reduce": "sum"`}},
		{"stored", "sums of the neighbours' features", map[int]string{
			7: `"op": "sum", "in": [1]`,
		}},
		{"stored", "functions of weights", map[int]string{
			21: `"op": "mul", "in": [19, 20]`, 22: `"op": "scatter", "in": [21], "reduce": "sum"`,
		}},
		{"stored", "a weight", map[int]string{
			21: `"op": "mul", "in": [19, 6]`, 22: `"op": "scatter", "in": [21], "reduce": "sum"`,
		}},
		{"weighted", "functions of the weights", map[int]string{21: `"op": "mul", "in": [19, 20]`}},
		{"weighted", "no weights but in the degrees", map[int]string{
			22: `"op": "scatter", "in": [19], "reduce": "sum"`,
		}},
		{"weighted", "two factors of edges", map[int]string{
			7: `"op": "ones", "rows": "edges"`, 8: `"op": "scatter", "in": [7], "reduce": "sum"`,
			18: `"op": "exp", "in": [6]`, 19: `"op": "mul", "in": [18, 6]`, 20: `"op": "mul", "in": [1, 17]`,
			21: `"op": "mul", "in": [19, 20]`,
		}},
		{"merged", "a mean of weights", map[int]string{13: `"op": "scatter", "in": [11], "reduce": "mean"`}},
		{"merged", "degrees of sources", map[int]string{
			13: `"op": "scatter", "in": [11], "reduce": "sum", "end": "source"`,
		}},
		{"merged", "degrees of other weights", map[int]string{13: `"op": "scatter", "in": [12], "reduce": "sum"`}},
		{"merged", "functions of weights", map[int]string{10: `"op": "without_loops", "in": [8]`}},
		{"merged", "functions of the loops' weights", map[int]string{9: `"op": "loop_values", "in": [8, 7]`}},
		{"merged", "loops of 2", map[int]string{7: `"op": "constant", "shape": [], "values": [2]`}},
		{"stored", "added loops", along("added", nil)},
		{"stored", "loops and a rule of 5", along("one", map[int]string{
			11: `"op": "constant", "shape": [], "values": [5]`,
		})},
	} {
		operations := slices.Clone(symmetricPrograms[c.form])
		for number, operation := range c.changes {
			operations[number-7] = operation
		}
		assert.Equal(t, false, is(c.form, operations), c.form+", with "+c.name)
	}
}
