package program_test

import (
	"testing"

	"weft/internal/assert"
)

// mean is the aggregation of the features' rows.
const mean = `"op": "scatter", "in": [1], "reduce": "mean"`

// sparseRewrites are programs on a graph whose features are sparse.
var sparseRewrites = []rewrite{
	{"GraphSAGE", []string{
		mean, `"op": "linear", "in": [7, 3, 4]`, `"op": "linear", "in": [0, 3]`, `"op": "add", "in": [8, 9]`,
	}, "linear; aggregate mean; aggregate + linear + bias"},
	{"GIN", []string{
		mean, `"op": "constant", "values": [1.5]`, `"op": "mul", "in": [0, 8]`, `"op": "add", "in": [7, 9]`,
		`"op": "linear", "in": [10, 3, 4]`, `"op": "relu", "in": [11]`,
	}, "linear; aggregate mean; pointwise add add mul relu"},
	{"two hops", []string{
		mean, `"op": "gather", "in": [7], "end": "source"`, `"op": "scatter", "in": [8], "reduce": "sum"`,
		`"op": "linear", "in": [9, 3]`,
	}, "aggregate mean of linear; aggregate sum"},
	{"dropout, scaled by a number of each vertex", []string{
		`"op": "dropout", "in": [0], "p": 0.5, "path": "a"`, `"op": "scatter", "in": [5], "reduce": "sum"`,
		`"op": "reshape", "in": [8], "shape": [1]`, `"op": "div", "in": [7, 9]`, `"op": "neg", "in": [10]`,
		`"op": "matmul", "in": [11, 3]`,
	}, "dropout; aggregate sum, weighted; matmul; pointwise div neg"},
	{"divided by a row, of which each column has its own divisor", []string{
		mean, `"op": "exp", "in": [0]`, `"op": "div", "in": [7, 8]`, `"op": "linear", "in": [9, 3]`,
	}, "aggregate mean; pointwise div exp; linear"},
	{"side by side", []string{
		mean, `"op": "cat", "in": [0, 7]`, `"op": "cat", "in": [3, 3], "dim": 1`,
		`"op": "linear", "in": [8, 9]`,
	}, "cat; slice; linear; slice; aggregate mean of linear; pointwise add"},
	{"a layer reads them again", []string{
		mean, `"op": "linear", "in": [7, 3]`, `"op": "gather", "in": [8], "end": "source"`,
		`"op": "scatter", "in": [9], "reduce": "sum"`, `"op": "linear", "in": [10, 3]`,
		`"op": "linear", "in": [0, 3, 4]`, `"op": "add", "in": [11, 12]`,
	}, "linear; aggregate mean; linear + aggregate sum of linear + bias"},
	{"what is not linear", []string{
		`"op": "scatter", "in": [1], "reduce": "max"`, `"op": "linear", "in": [7, 3]`,
		`"op": "relu", "in": [0]`, `"op": "linear", "in": [9, 3]`, `"op": "add", "in": [8, 10]`,
	}, "aggregate max; pointwise relu; linear + linear"},
}

// TestStaysSparse: products with weights come before linear maps of sparse features, so that the map is one
// of the products. TestGolden and TestChains compare the values and gradients.
func TestStaysSparse(t *testing.T) {
	for _, c := range sparseRewrites {
		assert.Equal(t, c.want, c.program(t).SparseSteps(), c.name)
	}
}
