package program

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// rewritten returns a value that equals an operation's and costs less; nil: the operation stays as it is.
func (b *builder) rewritten(o Operation, in []*value) *value {
	for _, rule := range []func(*builder, Operation, []*value) *value{
		(*builder).chosen, (*builder).sameShape, (*builder).withoutOnes, (*builder).hoisted,
		(*builder).distributed, (*builder).loopsOfRows, (*builder).scattered, (*builder).multiplied,
		(*builder).extremes, (*builder).lowered, (*builder).normalized, (*builder).scaledAfter,
		(*builder).valuesOfLoops, (*builder).productFirst,
	} {
		if v := rule(b, o, in); v != nil {
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

// chosen has each pass compute the value alone that it takes by its mode.
func (b *builder) chosen(o Operation, in []*value) *value {
	if o.Op != "where" || in[0].op != "training" || !in[1].equals(in[2].Type) {
		return nil
	}
	o.Op = opChoose
	return b.make(o, in[1:]...)
}

// sameShape leaves out changes of the shape that change nothing, and joins two of them.
func (b *builder) sameShape(o Operation, in []*value) *value {
	switch {
	case (o.Op == "reshape" || o.Op == "expand") && slices.Equal(o.Shape, in[0].Shape):
		return in[0]
	case o.Op == "reshape" && in[0].op == "reshape":
		return b.make(o, in[0].in[0])
	}
	return nil
}

// withoutOnes leaves out factors of 1, and rows of ones beside others of the same edges.
func (b *builder) withoutOnes(o Operation, in []*value) *value {
	if !isPointwise(o.Op) {
		return nil
	}
	for i, x := range in {
		if x.op == "ones" && slices.ContainsFunc(in,
			func(y *value) bool { return y.Rows == x.Rows && y.op != "ones" }) {
			in = slices.Clone(in)
			in[i] = b.constant(1)
			return b.make(o, in...)
		}
	}
	if o.Op == "mul" {
		for i, x := range in {
			y := in[1-i]
			if x.op == "constant" && x.isOne() && len(x.Shape) == 0 {
				return y
			}
		}
	}
	return nil
}

// hoisted gathers the result of an operation on rows of vertices in place of its operands: a graph has fewer
// vertices than edges.
func (b *builder) hoisted(o Operation, in []*value) *value {
	if !isRowLocal(o.Op) {
		return nil
	}
	var from *value
	rows := slices.Clone(in)
	for i, x := range in {
		if x.Rows != Edges {
			continue
		}
		if x.op != "gather" || from != nil && (x.o.End != from.o.End || x.o.loops() != from.o.loops()) {
			return nil
		}
		from, rows[i] = x, x.in[0]
	}
	if from == nil {
		return nil
	}
	if k := singular(o.Op); k >= 0 && in[k].Rows == Edges {
		rows[k] = b.regular(rows[k], from)
	}
	return b.make(from.o, b.make(o, rows...))
}

// singular is the operand that may be so that the derivatives are infinite; -1: there is none.
func singular(op string) int {
	switch op {
	case "div", "fmod":
		return 1
	case "pow", "reciprocal", "rsqrt", "sqrt", "exp", "expm1", "log", "log1p":
		return 0
	}
	return -1
}

// regular is an operand that edges gather, with 1 for vertices that no edge reads, of which the gradient is
// to stay 0.
func (b *builder) regular(x, gather *value) *value {
	if !x.graded || gather.Loops == one || gather.Loops == added {
		return x
	}
	o := gather.o.op("scatter")
	o.End = gather.o.End
	return b.make(o.op("where"), b.hasEdges(gather.Type, o), x, b.constant(1))
}

// distributed is a product with rows of edges as the sum of products with the rows that they are made of, if
// all of these but one are gathered: a graph has fewer vertices than edges.
func (b *builder) distributed(o Operation, in []*value) *value {
	if o.Op != "linear" || in[0].Rows != Edges || len(in[0].Shape) != 1 || in[1].ofRows {
		return nil
	}
	terms := b.terms(o, term{in[0], in[1], 1})
	if len(terms) < 2 {
		return nil
	}
	terms = b.merged(o, terms)
	others := 0
	for _, t := range terms {
		if t.x.op != "gather" {
			others++
		}
	}
	if others > 1 {
		return nil
	}
	var z *value
	bias := in[2:]
	for i := 0; i < len(terms); {
		end := terms[i].end()
		var of *value // what is gathered from one end
		for ; i < len(terms) && terms[i].end() == end; i++ {
			of = b.plus(o, of, b.make(o.op("linear"), terms[i].x, terms[i].weight), terms[i].sign)
		}
		if len(bias) > 0 && end != "" {
			of, bias = b.plus(o, of, bias[0], 1), nil
		}
		z = b.plus(o, z, of, 1)
	}
	if len(bias) > 0 {
		z = b.plus(o, z, bias[0], 1)
	}
	return z
}

// term is ±x·wᵀ.
type term struct {
	x, weight *value
	sign      int
}

// end is the end that a term is gathered from; "": none.
func (t term) end() string {
	if t.x.op == "gather" {
		return t.x.o.End
	}
	return ""
}

// plus is z ± x; z may be nil.
func (b *builder) plus(o Operation, z, x *value, sign int) *value {
	switch {
	case z == nil && sign < 0:
		return b.make(o.op("neg"), x)
	case z == nil:
		return x
	case sign < 0:
		return b.make(o.op("sub"), z, x)
	}
	return b.make(o.op("add"), z, x)
}

// merged are terms of different rows: of the same rows the weights are added.
func (b *builder) merged(o Operation, terms []term) (all []term) {
	at := map[*value]int{}
	for _, t := range terms {
		same, found := at[t.x]
		if !found {
			at[t.x] = len(all)
			all = append(all, t)
			continue
		}
		s := &all[same]
		s.weight = b.plus(o, s.weight, t.weight, s.sign*t.sign)
	}
	return all
}

// terms are those of a product, in the order of the ends that they are gathered from, so that rows of one end
// are added before they are gathered.
func (b *builder) terms(o Operation, of term) []term {
	left := mostFactors
	terms := b.expanded(o, of, &left)
	slices.SortStableFunc(terms, func(s, t term) int { return strings.Compare(s.end(), t.end()) })
	return terms
}

// expanded are the terms of a product, at most one of which is not gathered. left is how many values may
// still be taken apart.
func (b *builder) expanded(o Operation, of term, left *int) (terms []term) {
	parts := b.termsOf(o, of)
	if *left -= len(parts); *left < 0 {
		return []term{of}
	}
	var others []term
	for _, t := range parts {
		own := b.expanded(o, t, left)
		if slices.ContainsFunc(own, func(t term) bool { return t.end() == "" }) {
			others = append(others, t)
			continue
		}
		terms = append(terms, own...)
	}
	switch {
	case len(others) == 1:
		return append(terms, b.expanded(o, others[0], left)...)
	case len(others) > 1 && of.x.op == "cat" && len(terms) > 0:
		return append(terms, b.sideBySide(o, others))
	case len(others) > 1 || len(parts) == 0:
		return []term{of}
	}
	return terms
}

// sideBySide is the sum of terms as one product.
func (b *builder) sideBySide(o Operation, terms []term) term {
	var xs, weights []*value
	for _, t := range terms {
		xs, weights = append(xs, t.x), append(weights, t.weight)
	}
	rows, columns := o.op("cat"), o.op("cat")
	columns.Dim = 1
	return term{b.make(rows, xs...), b.make(columns, weights...), terms[0].sign}
}

// termsOf are those of a product with what an operation adds, or has side by side; nil: it does neither.
func (b *builder) termsOf(o Operation, t term) (terms []term) {
	x := t.x
	if x.Rows != Edges {
		return nil
	}
	switch x.op {
	case "neg":
		return []term{{x.in[0], t.weight, -t.sign}}
	case "add", "sub":
		second := t.sign
		if x.op == "sub" {
			second = -second
		}
		if slices.Equal(x.in[0].Shape, x.Shape) && slices.Equal(x.in[1].Shape, x.Shape) {
			return []term{{x.in[0], t.weight, t.sign}, {x.in[1], t.weight, second}}
		}
	case "cat":
		if slices.ContainsFunc(x.in, func(y *value) bool { return y.Rows != Edges }) {
			return nil
		}
		at := 0
		for _, y := range x.in {
			part := o.op("slice")
			part.Dim, part.Start, part.Stop = 1, at, at+y.Shape[0]
			at = part.Stop
			terms = append(terms, term{y, b.make(part, t.weight), t.sign})
		}
	}
	return terms
}

// loopsOfRows has gathers read the set of edges that they are wanted for.
func (b *builder) loopsOfRows(o Operation, in []*value) *value {
	if o.Op != "without_loops" && o.Op != "with_loops" {
		return nil
	}
	x := in[0]
	again := x.o
	again.Loops = removed
	if o.Op == "with_loops" {
		again.Loops = withLoops[x.Loops]
	}
	switch {
	case x.op == "ones" && (o.Op == "without_loops" || in[1].isOne()):
		return b.make(again)
	case x.op == "gather" && (o.Op == "without_loops" || in[1] == x.in[0]):
		return b.make(again, x.in...)
	}
	return nil
}

// scattered takes out of an aggregation what does not depend on the other end of an edge, and finds those
// that are linear, maxima and attention.
func (b *builder) scattered(o Operation, in []*value) *value {
	if o.Op != "scatter" {
		return nil
	}
	x := in[0]
	switch o.Reduce {
	case "max", "min":
		switch {
		case x.op == "gather" && x.o.End != o.End:
			return b.aggregate(o, x)
		case x.op == "gather": // the vertex's own row, if it has an edge
			return b.make(o.op("mul"), x.in[0], b.make(o, b.ones(x.Type)))
		case x.op == "ones":
			return b.aggregate(o, b.gathered(x.Type, o))
		}
	case "mul":
		return b.productOf(o, x)
	case "sum", "mean":
		if v := b.attends(o, x); v != nil {
			return v
		}
		o.Masked = o.Masked || !o.Divisor && (x.graded || x.featured)
		return b.inShape(b.factored(o, x), x.Shape)
	}
	return nil
}

// productOf is the product of rows of edges: the exponential of the sum of their logarithms, with the sign of
// so many negative ones. Of a row with one 0, the gradient at this 0 is the product of the others.
func (b *builder) productOf(o Operation, x *value) *value {
	o.Reduce = "sum"
	of := func(name string, xs ...*value) *value { return b.make(o.op(name), xs...) }
	is0, no0, no1 := of("eq", x, b.constant(0)), b.constant(0), b.constant(1)
	logarithms := b.make(o, of("log", of("where", is0, no1, of("abs", x))))
	pairs := of("mul", b.make(o, of("lt", x, no0)), b.constant(.5)) // of negative ones, or half a pair more
	sign := of("where", of("eq", pairs, of("floor", pairs)), no1, b.constant(-1))
	others := of("mul", of("exp", logarithms), sign)
	zeros := b.make(o, is0)
	withOne := of("where", of("eq", zeros, no1), of("mul", others, b.make(o, of("where", is0, x, no0))), no0)
	return of("where", of("eq", zeros, no0), others, withOne)
}

// inShape is a value in another shape of as many elements.
func (b *builder) inShape(v *value, shape []int) *value {
	return b.make(Operation{Op: "reshape", Shape: shape, Path: v.o.Path}, v)
}

// ones are rows of ones for the edges of a set.
func (b *builder) ones(edges Type) *value {
	return b.plain(Operation{Op: "ones", Rows: "edges", Of: edges.Of, Loops: edges.Loops})
}

// gathered are ones for the edges of a set, from the end that an aggregation reads.
func (b *builder) gathered(edges Type, o Operation) *value {
	end := otherEnd(o.End)
	return b.plain(Operation{Op: "gather", End: end, Of: edges.Of, Loops: edges.Loops},
		b.plain(Operation{Op: "ones", Rows: "vertices", Of: b.program.relation(edges.Of).end(end)}))
}

func otherEnd(end string) string {
	if end == "source" {
		return "target"
	}
	return "source"
}

// aggregate is the aggregation of the rows of vertices that x gathers; weighted: each counts as much as its
// edge's weight.
func (b *builder) aggregate(o Operation, x *value) *value {
	o.Op, o.Of, o.Loops = opAggregate, x.Of, x.Loops
	return b.plain(o, x.in[0])
}

// mostFactors bounds the factors, and the terms, that a value is taken apart into. One that is multiplied by
// itself, time after time, has more than can be listed.
const mostFactors = 64

// factors are those of a product of rows of edges.
func (b *builder) factors(x *value) []*value {
	factors := []*value{x}
	for i := 0; i < len(factors); {
		if of := b.factorsOf(factors[i]); of != nil && len(factors) < mostFactors {
			factors = slices.Replace(factors, i, i+1, of...)
		} else {
			i++
		}
	}
	return factors
}

// factorsOf are those that an operation multiplies; nil: it is no product.
func (b *builder) factorsOf(x *value) []*value {
	if x.Rows != Edges {
		return nil
	}
	switch x.op {
	case "mul":
		return x.in
	case "div":
		if y := x.in[1]; y.Rows == None || y.op == "gather" {
			return []*value{x.in[0], b.make(x.o.op("reciprocal"), y)}
		}
	case "neg":
		return []*value{x.in[0], b.constant(-1)}
	case "reshape":
		return b.reshaped(x)
	}
	return nil
}

// reshaped are the factors of a product in another shape; nil: it is no product, or one that is broadcast.
func (b *builder) reshaped(x *value) (factors []*value) {
	for _, f := range b.factorsOf(x.in[0]) {
		switch {
		case slices.Equal(f.Shape, x.in[0].Shape):
			factors = append(factors, b.make(x.o, f))
		case f.size() == 1:
			factors = append(factors, b.inShape(f, []int{}))
		default:
			return nil
		}
	}
	return factors
}

// factored is a sum or mean of rows of edges. Factors that are the same for all edges of a vertex come after
// it.
func (b *builder) factored(o Operation, x *value) *value {
	var gathers, others, after []*value
	for factors := b.factors(x); len(factors) > 0; {
		f := factors[0]
		factors = factors[1:]
		switch {
		case f.Rows == None:
			after = append(after, f)
		case f.op == "gather" && f.o.End == o.End:
			after = append(after, b.finite(f.in[0], x.Type, o))
		case f.op == "gather":
			gathers = append(gathers, f)
		default:
			if p, inverse := b.unnormalized(f, o); p != nil {
				factors, after = append(factors, b.factors(p)...), append(after, inverse)
				continue
			}
			if withoutReshape(f).op != "ones" {
				others = append(others, f)
			}
		}
	}
	if z := b.symmetric(o, gathers, others, after); z != nil {
		return z
	}
	inside := append(gathers, others...)
	if len(inside) == 0 {
		inside = append(inside, b.gathered(x.Type, o))
	}
	return b.product(o, append([]*value{b.summed(o, b.product(o, inside...))}, after...)...)
}

// summed is a sum or mean of products that depend on the other end, or on the edge.
func (b *builder) summed(o Operation, x *value) *value {
	switch {
	case x.op == "gather":
		return b.aggregate(o, x)
	case x.op == "linear" && len(x.Shape) == 1 && !x.in[1].ofRows: // Σ (x·W + b) = (Σ x)·W + (Σ 1)·b
		z := b.make(x.o, b.make(o, x.in[0]), x.in[1])
		if len(x.in) == 3 {
			z = b.make(o.op("add"), z, b.make(o.op("mul"), b.make(o, b.ones(x.Type)), x.in[2]))
		}
		return z
	case isWeight(x):
		o.Weighted = true
		return b.aggregate(o, b.gathered(x.Type, o))
	case x.op == "mul" && x.in[0].op == "gather" && x.in[0].o.End != o.End && isWeight(x.in[1]):
		o.Weighted = true
		return b.aggregate(o, x.in[0])
	}
	return b.plain(o, x)
}

// isWeight reports whether rows of edges are their weights, and 1 for added loops. An aggregation has no
// gradients of weights, so that those that are differentiable are none.
func isWeight(x *value) bool {
	switch x.op {
	case "edge_weight":
		return !x.o.Differentiable
	case "reshape":
		return x.size() == 1 && isWeight(x.in[0])
	case "without_loops":
		return isWeight(x.in[0])
	case "with_loops":
		return isWeight(x.in[0]) && x.in[1].isOne()
	}
	return false
}

// symmetric is GCN's aggregation (Kipf & Welling 2017): of products with 1/√(d_i·d_j), and with the edges'
// weights, where d is the sum of the edges' weights into a vertex; nil: it is another.
func (b *builder) symmetric(o Operation, gathers, others, after []*value) *value {
	var weight *value
	if len(others) == 1 {
		weight = withoutReshape(others[0])
	}
	if o.Reduce != "sum" || len(others) > 1 || weight != nil && !isWeight(weight) && !isMerged(weight) {
		return nil
	}
	for s, from := range gathers {
		root := withoutReshape(from.in[0])
		loops := from.o.loops()
		if loops != one && loops != stored || !isInverseRoot(root, o.End, from.Type, weight) {
			continue
		}
		t := slices.IndexFunc(after, func(f *value) bool { return withoutReshape(f) == root })
		if t < 0 {
			continue
		}
		rest := slices.Delete(slices.Clone(gathers), s, s+1)
		if len(rest) == 0 {
			rest = append(rest, b.gathered(from.Type, o))
		}
		o.Reduce, o.Weighted = "symmetric", weight != nil
		if weight != nil && isMerged(weight) {
			o.Reduce = "merged"
		}
		z := b.aggregate(o, b.product(o, rest...))
		return b.product(o, append([]*value{z}, slices.Delete(slices.Clone(after), t, t+1)...)...)
	}
	return nil
}

func withoutReshape(v *value) *value {
	for v.op == "reshape" && v.size() == 1 {
		v = v.in[0]
	}
	return v
}

// isInverseRoot reports whether v is 1/√d of the vertices' degrees along a set of edges, and 0 for a degree
// of 0.
func isInverseRoot(v *value, end string, edges Type, weight *value) bool {
	if v.op == "where" && v.in[0].op == "eq" {
		zero, is := v.in[1].isConstant()
		infinite, isToo := v.in[0].in[1].isConstant()
		if !is || !isToo || zero != 0 || !math.IsInf(infinite, 1) || v.in[0].in[0] != v.in[2] {
			return false
		}
		v = v.in[2]
	} else if edges.Loops != one {
		return false
	}
	switch v.op {
	case "rsqrt":
	case "pow":
		if power, is := v.in[1].isConstant(); !is || power != -.5 {
			return false
		}
	default:
		return false
	}
	d := withoutReshape(v.in[0])
	if weight != nil && isMerged(weight) {
		return d.op == "scatter" && d.o.Reduce == "sum" && d.o.End == end && d.in[0] == weight
	}
	return d.op == opAggregate && d.o.Reduce == "sum" && d.o.End == end && d.o.Of == edges.Of &&
		d.o.loops() == edges.Loops && d.o.Weighted == (weight != nil) && d.in[0].op == "ones"
}

// isMerged reports whether rows of edges are their weights, where each vertex has one loop, with the weight
// of the one that is stored, or 1 without any.
func isMerged(x *value) bool {
	if x.op != "with_loops" || x.in[0].op != "without_loops" || !isWeight(x.in[0].in[0]) {
		return false
	}
	y := x.in[1]
	return y.op == "loop_values" && isWeight(y.in[0]) && y.in[1].isOne()
}

// valuesOfLoops makes the values of vertices' last stored loops, or others where there are none. As in
// PyTorch, each stored loop of a vertex has the gradient of the last.
func (b *builder) valuesOfLoops(o Operation, in []*value) *value {
	if o.Op != "loop_values" || !b.lowers {
		return nil
	}
	loops := func(set string, x *value) *value {
		sum := o.op("scatter")
		sum.Reduce, sum.End, sum.Loops = "sum", "target", set
		return b.plain(sum, x)
	}
	last, any := loops(lastLoops, in[0]), loops(lastLoops, b.ones(in[0].Type))
	if in[0].graded {
		each := loops(onlyLoops, in[0])
		nothing := b.make(o.op("sub"), each, b.make(o.op("detach"), each)) // but for its gradient
		last = b.make(o.op("add"), b.make(o.op("detach"), last), nothing)
	}
	return b.make(o.op("where"), b.make(o.op("gt"), any, b.constant(0)), last, in[1])
}

// finite is a factor of vertices' sums of edges, with 0 where it may be infinite and a vertex has no edge.
func (b *builder) finite(f *value, edges Type, o Operation) *value {
	if edges.Loops == one || edges.Loops == added || !f.infinite {
		return f
	}
	return b.make(o.op("where"), b.hasEdges(edges, o), f, b.constant(0))
}

// hasEdges is 1 for vertices at which an aggregation has edges, and 0 for others.
func (b *builder) hasEdges(edges Type, o Operation) *value {
	o.Reduce, o.End, o.Masked = "sum", cmp.Or(o.End, "target"), false
	return b.make(o.op("gt"), b.aggregate(o, b.gathered(edges, o)), b.constant(0))
}

// isOfRows reports whether a value of known operands is a tensor that depends on sums over all vertices.
func isOfRows(v *value) bool {
	switch v.op {
	case "row_sum", "row_mean", opLargest:
		return true
	}
	return v.Rows == None && slices.ContainsFunc(v.in, func(x *value) bool { return x.ofRows })
}

// mayBeInfinite reports whether finite rows of vertices can give infinite ones, for a value of known
// operands.
func mayBeInfinite(v *value) bool {
	switch v.op {
	case "div", "fmod", "reciprocal", "rsqrt", "pow", "exp", "expm1", "log", "log1p", "logsigmoid":
		return true
	case "where":
		if c := v.in[0]; c.op == "eq" {
			if x, is := c.in[1].isConstant(); is && math.IsInf(x, 1) {
				return false
			}
		}
	}
	return isRowLocal(v.op) && slices.ContainsFunc(v.in, func(x *value) bool { return x.infinite })
}

// unnormalized returns p and 1/d for a factor p/d that is a softmax over the edges of a vertex, after
// operations that keep its elements; nil: it is none.
func (b *builder) unnormalized(f *value, o Operation) (p, inverse *value) {
	switch f.op {
	case "edge_softmax":
		if f.o.End != o.End {
			return nil, nil
		}
		p, sum := b.softmax(f)
		return p, b.make(o.op("reciprocal"), sum)
	case "reshape", "permute", "expand", "dropout":
		p, inverse = b.unnormalized(f.in[0], o)
		if p == nil {
			return nil, nil
		}
		if f.op != "dropout" {
			inverse = b.make(f.o, inverse)
		}
		return b.make(f.o, p), inverse
	}
	return nil, nil
}

// softmax returns exp(e − max e) of the edges, and its sum over those of a vertex, of a softmax over them.
// It is 1 where all edges of a vertex have the same e: the vertex may have none, and so neither a maximum.
func (b *builder) softmax(f *value) (p, sum *value) {
	e := f.in[0]
	scatter := f.o.op("scatter")
	gather := f.o.op("gather")
	scatter.Divisor = true
	scatter.End, gather.End, gather.Of, gather.Loops = f.o.End, f.o.End, e.Of, e.Loops
	if e.op == "gather" && e.o.End == f.o.End {
		expand := f.o.op("expand")
		expand.Shape = e.Shape
		p = b.make(expand, b.ones(e.Type))
	} else {
		scatter.Reduce = "max"
		largest := b.make(f.o.op("detach"), b.make(scatter, e))
		p = b.make(f.o.op("exp"), b.make(f.o.op("sub"), e, b.make(gather, largest)))
	}
	scatter.Reduce = "sum"
	return p, b.make(f.o.op("add"), b.make(scatter, p), b.constant(1e-16))
}

// lowered makes a softmax over edges that no sum reads from its parts.
func (b *builder) lowered(o Operation, in []*value) *value {
	if o.Op != "edge_softmax" || !b.lowers {
		return nil
	}
	f := &value{op: o.Op, o: o, Type: in[0].Type, in: in}
	p, sum := b.softmax(f)
	gather := o.op("gather")
	gather.End, gather.Of, gather.Loops = o.End, in[0].Of, in[0].Loops
	return b.make(o.op("div"), p, b.make(gather, sum))
}

// normalized makes a layer norm from its parts, but for rows with a weight and a bias for each column, which
// a kernel normalises.
func (b *builder) normalized(o Operation, in []*value) *value {
	trained := func(v *value) bool { return v.op == "parameter" && b.trained(v.o.Name) }
	if o.Op != "layer_norm" || in[0].Rows != None && len(in) == 3 && trained(in[1]) && trained(in[2]) {
		return nil
	}
	mean := o.op("mean")
	mean.Dims, mean.Keep = o.Dims, true
	d := b.make(o.op("sub"), in[0], b.make(mean, in[0]))
	variance := b.make(mean, b.make(o.op("square"), d))
	rstd := b.make(o.op("rsqrt"), b.make(o.op("add"), variance, b.constant(o.Eps)))
	z := b.product(o, append([]*value{d, rstd}, in[1:min(2, len(in))]...)...)
	if len(in) == 3 {
		z = b.make(o.op("add"), z, in[2])
	}
	return z
}

// scaledAfter takes a weight and a bias out of a batch norm whose kernel would train both.
func (b *builder) scaledAfter(o Operation, in []*value) *value {
	weight, bias := o.Weight, o.Bias
	if o.Op != "batch_norm" || weight == "" && bias == "" || b.trained(weight) && b.trained(bias) {
		return nil
	}
	o.Weight, o.Bias = "", ""
	z := b.make(o, in...)
	parameter := o.op("parameter")
	if parameter.Name = weight; weight != "" {
		z = b.make(o.op("mul"), z, b.make(parameter))
	}
	if parameter.Name = bias; bias != "" {
		z = b.make(o.op("add"), z, b.make(parameter))
	}
	return z
}

// trained reports whether there is a parameter of that name that is trained.
func (b *builder) trained(name string) bool {
	q := b.program.Parameter(name)
	return q != nil && q.Trained
}

// multiplied makes products of matrices in one of three forms: by one matrix, [.., a, k]·[k, m]; of a tensor
// that is a matrix for each of several rows, [.., g, 1, k]·[g, k, m]; and of two matrices in each row of the
// graph, [g, a, k]·[g, k, m].
func (b *builder) multiplied(o Operation, in []*value) *value {
	if o.Op != "matmul" {
		return nil
	}
	x, y := in[0], in[1]
	lead, k, cols := y.Shape[:len(y.Shape)-2], y.Shape[len(y.Shape)-2], y.Shape[len(y.Shape)-1]
	rows, own := 1, x.Shape[:max(0, len(x.Shape)-2)]
	if n := len(x.Shape); n > 1 {
		rows = x.Shape[n-2]
	}
	if y.Rows == None && (size(lead) == 1 || rows == 1 && len(own) >= len(lead) &&
		slices.Equal(own[len(own)-len(lead):], lead)) {
		return nil
	}
	shaped := func(op string, v *value, shape ...int) *value {
		to := o.op(op)
		to.Shape = shape
		return b.make(to, v)
	}
	permuted := func(v *value, dims ...int) *value {
		to := o.op("permute")
		to.Dims = dims
		return b.make(to, v)
	}
	batch, err := broadcast(own, lead)
	t, errOf := b.typeOf(&o, []Type{x.Type, y.Type})
	if err != nil || errOf != nil {
		panic("program: a product that was not checked")
	}
	groups := size(batch)
	if y.Rows == None && size(own) == 1 { // the matrices side by side
		w := shaped("reshape", permuted(shaped("reshape", y, groups, k, cols), 0, 2, 1), groups*cols, k)
		z := b.make(o.op("linear"), shaped("reshape", x, rows, k), w)
		return shaped("reshape", permuted(shaped("reshape", z, rows, groups, cols), 1, 0, 2), t.Shape...)
	}
	each := func(v *value, own []int, height, width int) *value {
		v = shaped("reshape", v, append(slices.Clone(own), height, width)...)
		v = shaped("expand", v, append(slices.Clone(batch), height, width)...)
		return shaped("reshape", v, groups, height, width)
	}
	x, y = each(x, own, rows, k), each(y, lead, k, cols)
	if y.Rows == None && rows > 1 {
		z := b.make(o, shaped("reshape", permuted(x, 1, 0, 2), rows, groups, 1, k), y)
		return shaped("reshape", permuted(shaped("reshape", z, rows, groups, cols), 1, 0, 2), t.Shape...)
	}
	if x == in[0] && y == in[1] {
		return nil
	}
	return shaped("reshape", b.make(o, x, y), t.Shape...)
}

// extremes makes the largest and smallest of all rows. Like PyTorch's, their gradient is shared by the rows
// that are equally large.
func (b *builder) extremes(o Operation, in []*value) *value {
	switch o.Op {
	case "row_min":
		return b.make(o.op("neg"), b.make(o.op("row_max"), b.make(o.op("neg"), in[0])))
	case "row_max":
	default:
		return nil
	}
	x := in[0]
	if x.Rows == Edges { // of each vertex's edges first
		most := o.op("scatter")
		most.Reduce = "max"
		none := b.constant(math.Inf(-1))
		return b.make(o, b.make(o.op("where"), b.hasEdges(x.Type, most), b.make(most, x), none))
	}
	largest := b.make(o.op("eq"), x, b.plain(o.op(opLargest), x))
	sum := o.op("row_sum")
	equal := b.make(sum, b.make(o.op("where"), largest, x, b.constant(0)))
	return b.make(o.op("div"), equal, b.make(sum, largest))
}
