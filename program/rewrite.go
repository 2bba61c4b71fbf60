package program

import "slices"

// rule replaces an operation by a value that equals it and costs less; nil: it does not apply.
type rule struct {
	name  string
	apply func(b *builder, o Operation, in []*value) *value
}

// rules are tried in this order. They make values of operations that rules may replace again. Each has its
// equation, and where that holds; TestEachRule names a program that shows it.
var rules []rule

func init() {
	rules = []rule{
		// where(training, x, y) = x in training and y in evaluation, of which a pass computes one; for x and y
		// of one type
		{"chosen", (*builder).chosen},
		// reshape(reshape(x)) = reshape(x), and reshape(x) = expand(x) = x in the shape that x has
		{"sameShape", (*builder).sameShape},
		// 1·x = x, and 1 ∘ x = x with rows of ones; for pointwise operations
		{"withoutOnes", (*builder).withoutOnes},
		// f(gather x, gather y) = gather f(x, y), with f of each row alone; for rows of one end, and one set of
		// edges
		{"hoisted", (*builder).hoisted},
		// W·(x ± y) = W·x ± W·y, and W·(x ‖ y) = W₁·x + W₂·y; for rows of edges of which one term at most is not
		// gathered
		{"distributed", (*builder).distributed},
		// loops(gather x) = gather x along the other set of edges; for rows that loops have from x, too
		{"loopsOfRows", (*builder).loopsOfRows},
		// Σ_j a_i·b_j·x_j = a_i·Σ_j b_j·x_j, Σ_j W·x_j = W·Σ_j x_j, and Π_j x_j = ± exp Σ_j log |x_j|; for what
		// an aggregation sums, or takes the maximum of
		{"scattered", (*builder).scattered},
		// x·Y in one of three forms of matrices; for operands in other shapes
		{"multiplied", (*builder).multiplied},
		// min x = −max(−x), and max x = Σ (x = max x)·x / Σ (x = max x); over all rows
		{"extremes", (*builder).extremes},
		// softmax_j e = exp(e_j − max e) / Σ_k exp(e_k − max e) over the edges of a vertex; where no sum reads it
		{"lowered", (*builder).lowered},
		// layer_norm(x) = (x − mean x)·rstd·γ + β; but for rows with a trained γ and β for each column
		{"normalized", (*builder).normalized},
		// batch_norm(x; γ, β) = batch_norm(x)·γ + β; where one of both is not trained
		{"scaledAfter", (*builder).scaledAfter},
		// loop_values(w, y) = Σ w over the last loop of a vertex, and y where it has none; once attention is found
		{"valuesOfLoops", (*builder).valuesOfLoops},
		// L(X)·W = L(X·W); for sparse features X, and linear maps L
		{"productFirst", (*builder).productFirst},
	}
}

// rewritten returns a value that equals an operation's and costs less; nil: the operation stays as it is.
func (b *builder) rewritten(o Operation, in []*value) *value {
	for _, r := range rules {
		if v := r.apply(b, o, in); v != nil {
			return v
		}
	}
	return nil
}

// isRowLocal reports whether each row of the result depends on that row of the operands alone.
func isRowLocal(op string) bool {
	switch op {
	case "features", "edge_features", "edge_weight", "table", "ones", "gather", "scatter", "edge_softmax",
		"without_loops", "with_loops", "loop_values", "dropout", "row_sum", "row_mean", "batch_norm",
		"row_max", "row_min", "uniform", opAggregate, opAttend, opLargest, opLogits, opLabels:
		return false
	}
	return true
}

// isPointwise reports whether the operation broadcasts its operands and combines them element by element.
func isPointwise(op string) bool {
	_, known := unary[op]
	return known || op == "where" || slices.Contains(binary, op)
}
