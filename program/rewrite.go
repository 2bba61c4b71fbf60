package program

import "slices"

// rule replaces an operation by a value that equals it and costs less; nil: it does not apply.
type rule struct {
	name  string
	apply func(b *builder, o Operation, in []*value) *value
}

// rules are tried in this order. Rules may replace again the operations that they make. Each rule is listed
// with its equation, and with the condition under which it holds. TestEachRule names a program that shows it.
// The rules of lowering are added when attention has been found, because they replace operations that it is
// found by.
var rules, lowering []rule

func init() {
	rules = []rule{
		// where(training, x, y) = x in training, and y in evaluation: a pass computes one of them. Where x
		// and y have the same type.
		{"chosen", (*builder).chosen},
		// reshape(reshape(x)) = reshape(x), and reshape(x) = expand(x) = x.
		// The second where x has that shape.
		{"sameShape", (*builder).sameShape},
		// 1·x = x, and rows of ones count as 1 beside other rows.
		// In pointwise operations.
		{"dropOnes", (*builder).dropOnes},
		// f(gather x, gather y) = gather f(x, y). Where each row of f depends on that row alone, and all rows
		// of edges come from the same end of the same set of edges.
		{"hoisted", (*builder).hoisted},
		// W·(x ± y) = W·x ± W·y, and W·(x ‖ y) = W₁·x + W₂·y. For rows of edges, if all terms but one are
		// gathered.
		{"distributed", (*builder).distributed},
		// loops(gather x) = gather x along another set of edges. Where the loops also have the rows of x, or
		// are ones beside ones.
		{"loopsOfRows", (*builder).loopsOfRows},
		// Σ_j a_i·b_j·x_j = a_i·Σ_j b_j·x_j, Σ_j W·x_j = W·Σ_j x_j, Π_j x_j = ± exp Σ_j log |x_j|. Over the
		// edges of a vertex i. Maxima of gathered rows become aggregations without a change.
		{"scattered", (*builder).scattered},
		// x·Y = a product of matrices in one of three forms. Where the operands have another form.
		{"multiplied", (*builder).multiplied},
		// min x = −max(−x), and max x = Σ (x = max x)·x / Σ (x = max x).
		// Over all rows.
		{"extremes", (*builder).extremes},
		// layer_norm(x) = (x − mean x)·rstd·γ + β. Except for rows with a trained γ and β, which have a
		// kernel.
		{"normalized", (*builder).normalized},
		// batch_norm(x; γ, β) = batch_norm(x)·γ + β. Where one of γ and β is not trained.
		{"scaledAfter", (*builder).scaledAfter},
		// L(X)·W = L(X·W).
		// Where X are sparse features, and L is linear.
		{"productFirst", (*builder).productFirst},
	}
	lowering = []rule{
		// softmax_j e = exp(e_j − max e) / Σ_k exp(e_k − max e) over the edges of a vertex. Where no sum
		// reads it: a sum would divide afterwards.
		{"lowered", (*builder).lowered},
		// loop_values(w, y) = Σ w over the last loop of a vertex, or y. It is y where a vertex has no loop.
		{"valuesOfLoops", (*builder).valuesOfLoops},
	}
}

// rewritten returns a value that equals an operation's and costs less; nil: the operation stays as it is.
func (b *builder) rewritten(o Operation, in []*value) *value {
	for _, r := range b.rules {
		if v := r.apply(b, o, in); v != nil {
			return v
		}
	}
	return nil
}

// isRowLocal reports whether each row of the result depends only on the same row of the operands.
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
