package program

import (
	"maps"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
)

// fused is a step of several operations that autograd computes by one. nil: the step is one operation.
type fused interface {
	// parts returns all operations but the last.
	parts() []*value
	// reads returns the values that must be computed before.
	reads() []*value
	// compute computes the result of the last operation.
	compute(p *pass) *autograd.Var
}

// fuse returns the step of several operations whose last is v; nil: there is none. alone says whether only
// one operation reads a value: all operations but the last must be such.
func fuse(v *value, alone func(*value) bool) fused {
	for _, find := range []func(*value, func(*value) bool) fused{
		aggregatedLinear, headDot, scored, overRows, finishOf,
	} {
		if f := find(v, alone); f != nil {
			return f
		}
	}
	if isPointwise(v.op) {
		return newCluster(v, alone)
	}
	return nil
}

// productAlong is an aggregation of rows times a weight, Â(xW) or (Âx)W. first is the operation that the
// other reads.
type productAlong struct{ first, aggregate, linear *value }

func aggregatedLinear(v *value, alone func(*value) bool) fused {
	f := &productAlong{linear: v, aggregate: v}
	switch {
	case len(v.in) == 0:
		return nil
	case v.op == "linear":
		f.aggregate = v.in[0]
	default:
		f.linear = v.in[0]
	}
	f.first = v.in[0]
	if f.aggregate.op != opAggregate || f.linear.op != "linear" || !reduceOf(f.aggregate).Linear() ||
		f.linear.Rows != Vertices || len(f.linear.in) != 2 || len(f.linear.Shape) != 1 || !alone(f.first) {
		return nil
	}
	return f
}

func (f *productAlong) parts() []*value { return []*value{f.first} }

func (f *productAlong) reads() []*value { return []*value{f.first.in[0], f.linear.in[1]} }

func (f *productAlong) compute(p *pass) *autograd.Var {
	x, w := p.factor(f.first.in[0]), p.weight(f.linear.in[1])
	return p.propagators[f.aggregate].AggregateLinear(x, w, reduceOf(f.aggregate))
}

// dot is the dot product of each head's columns with a vector.
type dot struct{ sum, x, vector *value }

func headDot(v *value, alone func(*value) bool) fused {
	if d := dotOf(v); d != nil && alone(d.sum.in[0]) {
		return d
	}
	return nil
}

// dotOf returns v as a dot product of each head's columns with a vector; nil: v is no such product.
func dotOf(v *value) *dot {
	if v.op != "sum" || v.Rows != Vertices || v.in[0].op != "mul" ||
		!slices.Equal(v.o.Dims, []int{len(v.in[0].Shape) - 1}) {
		return nil
	}
	x, a := v.in[0].in[0], v.in[0].in[1]
	if x.Rows == None {
		x, a = a, x
	}
	if x.Rows != Vertices || a.Rows != None || x.size() != v.in[0].size() || a.size() != x.size() {
		return nil
	}
	return &dot{v, x, a}
}

func (f *dot) parts() []*value { return []*value{f.sum.in[0]} }

func (f *dot) reads() []*value { return []*value{f.x, f.vector} }

func (f *dot) compute(p *pass) *autograd.Var {
	return autograd.HeadDot(p.value(f.x), p.value(f.vector), f.sum.size())
}

// productOverRows is the sum over rows of the products of the columns of two values.
type productOverRows struct{ sum, x, y *value }

// overRows returns v as a productOverRows, if a row has more products than either value has columns.
func overRows(v *value, alone func(*value) bool) fused {
	if v.op != "row_sum" || v.in[0].op != "mul" || !alone(v.in[0]) {
		return nil
	}
	x, y := v.in[0].in[0], v.in[0].in[1]
	if x.Rows != Vertices || y.Rows != Vertices || max(x.size(), y.size()) >= v.size() {
		return nil
	}
	return &productOverRows{v, x, y}
}

func (f *productOverRows) parts() []*value { return []*value{f.sum.in[0]} }

func (f *productOverRows) reads() []*value { return []*value{f.x, f.y} }

func (f *productOverRows) compute(p *pass) *autograd.Var {
	all := autograd.ProductOverRows(p.value(f.x), p.value(f.y))
	return autograd.MapColumns(all, p.mapOf(columnKey{"over rows", f.sum.number}, func() *kernel.ColumnMap {
		columns := expanded(f.y.Shape, f.sum.Shape)
		for c, column := range expanded(f.x.Shape, f.sum.Shape) {
			columns[c] += column * int32(f.y.size())
		}
		return kernel.Selection(all.Cols(), columns)
	}))
}

// scores is attention whose scores are dot products of its source's rows with two vectors.
type scores struct {
	attend         *value
	source, target *dot
}

func scored(v *value, alone func(*value) bool) fused {
	if v.op != opAttend || v.attention.form != additive {
		return nil
	}
	f := &scores{v, dotOf(unshaped(v.in[1])), dotOf(unshaped(v.in[2]))}
	for _, d := range []*dot{f.source, f.target} {
		if d == nil || unshaped(d.x) != unshaped(v.in[0]) || !alone(d.sum) || !alone(d.sum.in[0]) {
			return nil
		}
	}
	return f
}

func (f *scores) parts() []*value {
	return []*value{f.source.sum, f.source.sum.in[0], f.target.sum, f.target.sum.in[0]}
}

func (f *scores) reads() []*value {
	return []*value{f.attend.in[0], f.source.vector, f.target.vector}
}

func (f *scores) compute(p *pass) *autograd.Var {
	a := p.attentionOf(f.attend)
	a.Target, a.ASource, a.ATarget = a.Source, p.value(f.source.vector), p.value(f.target.vector)
	return p.propagators[f.attend].Attend(a, gnn.Once)
}

// finish is mask(act(norm(Σ terms + Σ products + Σ biases))).
type finish struct {
	all           []*value // all operations but the last
	in            map[*value]bool
	terms, biases []*value
	products      []product
	norm          *value // nil: none
	act           kernel.Activation
	mask          nn.Dropout
}

// product is x·W, or the product of an aggregation with W.
type product struct {
	linear *value
	along  *productAlong // nil: x·W
}

// activations are the activations that a kernel computes in one pass with bias and dropout.
var activations = map[string]kernel.Activation{
	"relu": kernel.ReLU, "tanh": kernel.Tanh, "sigmoid": kernel.Sigmoid, "elu": kernel.ELU,
}

func finishOf(v *value, alone func(*value) bool) fused {
	if v.Rows == None {
		return nil
	}
	f, x := &finish{in: map[*value]bool{}}, v
	within := func() bool { // moves x to its operand, if the step may include both
		y := x.in[0]
		if !alone(y) || y.op != "add" && y.op != "linear" && !isWholeNorm(y) &&
			(x.op != "dropout" || activations[y.op] == 0) {
			return false
		}
		x = y
		f.add(y)
		return true
	}
	if v.op == "dropout" && within() {
		f.mask = nn.Dropout{Path: v.o.Path, P: v.o.P}
	}
	if act := activations[x.op]; act != 0 && (x.o.Alpha == nil || *x.o.Alpha == 1) && within() {
		f.act = act
	}
	if isNorm(x) {
		f.norm = x
		return f.normed(v, alone)
	}
	if x.op != "add" && x.op != "linear" || !f.collect(x, v, alone) || len(f.biases)+len(f.products) == 0 ||
		len(f.terms)+len(f.products) == 0 {
		return nil
	}
	return f
}

func isNorm(v *value) bool { return v.op == "batch_norm" || v.op == "layer_norm" }

// isWholeNorm reports whether a norm is over all columns, and not over groups of columns.
func isWholeNorm(v *value) bool {
	return v.op == "batch_norm" || v.op == "layer_norm" && v.in[1].size() == v.size()
}

// normed returns the step with a norm. A batch norm takes the terms of a sum into the step, because its
// statistics cancel the biases.
func (f *finish) normed(v *value, alone func(*value) bool) fused {
	x := f.norm.in[0]
	if f.norm.op == "batch_norm" && (x.op == "add" || x.op == "linear") && alone(x) {
		wider := *f
		wider.all, wider.in = slices.Clone(f.all), maps.Clone(f.in)
		wider.add(x)
		if wider.collect(x, v, alone) && len(wider.biases) > 0 && len(wider.terms)+len(wider.products) > 0 {
			return &wider
		}
	}
	f.terms = []*value{x}
	return f
}

// collect notes the terms of the sum v. It returns false if a term had better be computed by a cluster with
// the sum, or has another shape.
func (f *finish) collect(x, v *value, alone func(*value) bool) bool {
	switch {
	case x.size() != v.size():
		return false
	case x.Rows == None:
		f.biases = append(f.biases, x)
		return true
	case x != v && !f.in[x] && (x.op == "add" || x.op == "linear" && !x.readsSparse()) && alone(x):
		f.add(x)
	case x != v && !f.in[x]:
		f.terms = append(f.terms, x)
		return !isPointwise(x.op)
	}
	if x.op == "add" {
		return f.collect(x.in[0], v, alone) && f.collect(x.in[1], v, alone)
	}
	if len(x.Shape) != 1 || len(x.in[0].Shape) != 1 {
		return false
	}
	p := product{linear: x}
	if y := x.in[0]; y.op == opAggregate && reduceOf(y).Linear() && alone(y) {
		p.along = &productAlong{first: y, aggregate: y, linear: x}
		f.add(y)
	}
	f.products = append(f.products, p)
	if len(x.in) == 3 {
		f.biases = append(f.biases, x.in[2])
	}
	return true
}

// add notes an operation of the step.
func (f *finish) add(x *value) { f.all, f.in[x] = append(f.all, x), true }

func (f *finish) parts() []*value { return f.all }

func (f *finish) reads() []*value {
	all := slices.Concat(f.terms, f.biases)
	if f.norm != nil {
		all = append(all, f.norm.in[1:]...)
	}
	for _, x := range f.products {
		if x.along != nil {
			all = append(all, x.along.reads()...)
		} else {
			all = append(all, x.linear.in[:2]...)
		}
	}
	return all
}

func (f *finish) compute(p *pass) *autograd.Var {
	if f.norm == nil {
		z := f.sum(p)
		return autograd.Finish(z, f.bias(p), f.act, f.mask.Mask(z))
	}
	var x *autograd.Var
	use := nn.InPlace
	if len(f.terms) == 1 && len(f.products) == 0 { // a norm makes its own copy if the tape records
		x = p.value(f.terms[0])
		if p.left[p.code.alias(f.terms[0])] > 1 {
			use = nn.OutOfPlace
		}
	} else {
		x = f.sum(p)
	}
	if f.norm.op == "batch_norm" {
		return p.norms[f.norm].Biased(x, f.bias(p), use, f.act, f.mask.Mask(x))
	}
	weight, bias := p.params[f.norm.in[1].o.Name], p.params[f.norm.in[2].o.Name]
	norm := nn.LayerNormOf(weight, bias, f.norm.o.Eps)
	z := norm.Forward(inGroups(x, f.norm.in[1].size()), use, f.act, f.mask.Mask(x))
	return outOfGroups(z, x, x.Cols())
}

// sum returns the sum of the terms and products.
func (f *finish) sum(p *pass) (z *autograd.Var) {
	for _, x := range f.terms {
		if z == nil {
			z = p.own(x)
		} else {
			z = autograd.Add(p.value(x), z)
		}
	}
	for _, x := range f.products {
		switch {
		case x.along != nil && z == nil:
			z = x.along.compute(p)
		case x.along != nil:
			z = autograd.Add(x.along.compute(p), z)
		case z == nil:
			z = autograd.Linear(p.factor(x.linear.in[0]), p.weight(x.linear.in[1]))
		default:
			z = autograd.AddLinear(z, p.factor(x.linear.in[0]), p.weight(x.linear.in[1]))
		}
	}
	return z
}

// bias returns the sum of the biases; nil: there are none.
func (f *finish) bias(p *pass) (sum *autograd.Var) {
	for _, b := range f.biases {
		if sum == nil {
			sum = p.value(b)
			continue
		}
		sum = autograd.Pointwise(ofTwo(kernel.OpAdd), autograd.Operand{Var: sum},
			autograd.Operand{Var: p.value(b)})
	}
	return sum
}
