package program

import (
	"math"
	"slices"
)

// The rules that replace an operation without a kernel by operations that have kernels.

// normalized makes a layer norm from its parts. It leaves rows with a trained weight and bias for each column
// to the kernel.
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

// scaledAfter moves weight and bias behind a batch norm, unless both are trained: the kernel would train
// both.
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

// trained reports whether the name belongs to a trained parameter.
func (b *builder) trained(name string) bool {
	q := b.program.Parameter(name)
	return q != nil && q.Trained
}

// multiplied brings a product of matrices into one of three forms. [.., a, k]·[k, m] has one matrix. [.., g,
// 1, k]·[g, k, m] has a tensor with a matrix for each of several rows. [g, a, k]·[g, k, m] has two matrices
// in each row of the graph.
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
	if y.Rows == None && size(own) == 1 { // one product with the matrices side by side
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

// extremes makes the maximum and the minimum over all rows. As in PyTorch, equal rows share the gradient.
func (b *builder) extremes(o Operation, in []*value) *value {
	switch o.Op {
	case "row_min":
		return b.make(o.op("neg"), b.make(o.op("row_max"), b.make(o.op("neg"), in[0])))
	case "row_max":
	default:
		return nil
	}
	x := in[0]
	if x.Rows == Edges { // first over each vertex's edges
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
