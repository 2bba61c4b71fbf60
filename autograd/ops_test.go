package autograd_test

import (
	"math"
	"slices"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// gradients compares the gradient of Σ r ⊙ f(inputs) with respect to each number of each input with central
// differences. The inputs are below 2 and the functions smooth there, so a step of 1/64 leaves a truncation
// error of about 1e-4. The rounding of values of about 1 leaves a thousandth of that.
func (b *bench) gradients(f func(in []*autograd.Var) *autograd.Var, shapes ...[2]int) {
	b.t.Helper()
	inputs, grads := make([]*tensor.Matrix, len(shapes)), make([]*tensor.Matrix, len(shapes))
	for i, s := range shapes {
		inputs[i], grads[i] = b.matrix(s[0], s[1]), b.team.Zeros(tensor.Parameters, s[0], s[1])
	}
	forward := func(tape *autograd.Tape, grads []*tensor.Matrix) *autograd.Var {
		vars := make([]*autograd.Var, len(inputs))
		for i := range vars {
			vars[i] = tape.Parameter(inputs[i], grads[i])
		}
		return tape.Scope(func() *autograd.Var { return f(vars) })
	}
	var r *tensor.Matrix
	loss := func() (sum float64) {
		tape := autograd.NewTape(b.team)
		tape.Training = true
		out := forward(tape, grads)
		defer out.Drop()
		if r == nil {
			r = b.matrix(out.Rows(), out.Cols())
		}
		for i, v := range out.Value().Floats() {
			sum += float64(v) * float64(r.Floats()[i])
		}
		return sum
	}
	loss()
	out := forward(b.tape, grads)
	g := b.team.Memory.New(tensor.Gradients, r.Rows, r.Cols)
	b.team.Copy(g, r)
	b.tape.Backward(autograd.Root{Var: out, Grad: g})
	b.live("the backward pass", 0)
	const h = 1. / 64
	for i, in := range inputs {
		for k, at := range in.Floats() {
			in.Floats()[k] = at + h
			up := loss()
			in.Floats()[k] = at - h
			want := (up - loss()) / (2 * h)
			in.Floats()[k] = at
			if got := float64(grads[i].Floats()[k]); !(math.Abs(got-want) <= 1e-3*(1+math.Abs(want))) {
				b.t.Errorf("input %d, number %d: gradient %.6g, difference %.6g", i, k, got, want)
			}
		}
	}
	b.live("evaluations", 0)
}

func TestGradients(t *testing.T) {
	type (
		v    = *autograd.Var
		vars = []v
	)
	x, y, w, square, bias := [2]int{rows, inner}, [2]int{rows, cols}, [2]int{inner, cols},
		[2]int{inner, inner}, [2]int{1, cols}
	dim := func(shapes ...[2]int) [][2]int { return shapes }
	one := func(f func(a v) v) func(in vars) v { return func(in vars) v { return f(in[0]) } }
	two := func(f func(a, b v) v) func(in vars) v { return func(in vars) v { return f(in[0], in[1]) } }
	three := func(f func(a, b, c v) v) func(in vars) v {
		return func(in vars) v { return f(in[0], in[1], in[2]) }
	}
	mask := kernel.NewMask(3, .4, nil)
	cases := map[string]struct {
		shapes [][2]int
		f      func(in vars) v
	}{
		"linear":     {dim(x, w), two(autograd.Linear)},
		"add linear": {dim(y, x, w), three(autograd.AddLinear)},
		"add linear in place": {dim(y, x, w), three(func(a, b, c v) v {
			return autograd.AddLinear(autograd.Scale(2, a), b, c)
		})},
		"combine": {dim(x, x), two(func(a, b v) v { return autograd.Combine(.3, a, -2, b) })},
		"combine in place": {dim(x, x), two(func(a, b v) v {
			return autograd.Combine(.3, a, -2, autograd.Scale(2, b))
		})},
		"combine with itself": {dim(x), one(func(a v) v { return autograd.Combine(.3, a, -2, a) })},
		"add":                 {dim(x, x), two(autograd.Add)},
		"add to itself":       {dim(x), one(func(a v) v { return autograd.Add(a, a) })},
		"rows":                {dim(x), one(func(a v) v { return autograd.Rows(a, 1, 3, nil) })},
		"basis decomposition": {dim([2]int{3, 2}, [2]int{6, cols}), two(func(a, b v) v {
			return autograd.BasisDecomposition(a, []int{2, 0}, b)
		})},
		"block diagonal":   {dim([2]int{6, cols}), one(func(a v) v { return autograd.BlockDiagonal(a, 3) })},
		"copy":             {dim(x), one(autograd.Copy)},
		"alias":            {dim(x), one(autograd.Alias)},
		"scale":            {dim(x), one(func(a v) v { return autograd.Scale(-3, a) })},
		"multiply":         {dim(x, x), two(autograd.Multiply)},
		"square":           {dim(x), one(func(a v) v { return autograd.Multiply(a, a) })},
		"activate":         {dim(x), one(func(a v) v { return autograd.Activate(a, kernel.Tanh) })},
		"activate by gelu": {dim(x), one(func(a v) v { return autograd.Activate(a, kernel.GELU) })},
		"dropout":          {dim(x), one(func(a v) v { return autograd.Dropout(a, mask) })},
		"dropout in place": {dim(x), one(func(a v) v {
			return autograd.Dropout(autograd.Scale(2, a), mask)
		})},
		"mean of the heads": {dim([2]int{rows, 6}), one(func(a v) v { return autograd.HeadMean(a, 3) })},
		"mean of one head":  {dim(x), one(func(a v) v { return autograd.Scale(1, autograd.HeadMean(a, 1)) })},
		"dot of heads": {dim([2]int{rows, 6}, [2]int{1, 6}), two(func(a, b v) v {
			return autograd.HeadDot(a, b, 3)
		})},
		"scale of heads":  {dim([2]int{rows, 6}, [2]int{rows, 3}), two(autograd.HeadScale)},
		"exponential":     {dim(x), one(func(a v) v { return autograd.Exp(autograd.Scale(.5, a)) })},
		"reciprocal":      {dim(x), one(func(a v) v { return autograd.Reciprocal(autograd.Exp(a)) })},
		"root":            {dim(x), one(func(a v) v { return autograd.Sqrt(autograd.Exp(a), 1e-3) })},
		"root of nothing": {dim(x), one(func(a v) v { return autograd.Sqrt(a, 9) })},
		"columns":         {dim(x), one(func(a v) v { return autograd.Columns(a, 1, 2) })},
		"some columns twice": {dim(x), one(func(a v) v {
			return autograd.Add(autograd.Columns(a, 0, 2), autograd.Columns(a, 1, 2))
		})},
		"pointwise": {dim(x, x), two(func(a, b v) v {
			return pointwise(autograd.Operand{Var: a}, autograd.Operand{Var: b})
		})},
		"pointwise with itself": {dim(x), one(func(a v) v {
			return pointwise(autograd.Operand{Var: a}, autograd.Operand{Var: a})
		})},
		"pointwise with a row": {dim(x, [2]int{1, inner}), two(func(a, b v) v {
			return pointwise(autograd.Operand{Var: a}, autograd.Operand{Var: b})
		})},
		"pointwise of columns": {dim(x, x), two(func(a, b v) v {
			return pointwise(autograd.Operand{Var: a, Columns: []int32{2, 0, 2, 2}},
				autograd.Operand{Var: b, Columns: []int32{1, 1, 0, 1}})
		})},
		"pointwise of columns of a row": {dim(y, [2]int{1, 2}), two(func(a, b v) v {
			return pointwise(autograd.Operand{Var: b, Columns: []int32{1, 1, 0, 1}}, autograd.Operand{Var: a})
		})},
		"pointwise of rows alone": {dim([2]int{1, inner}, [2]int{1, 1}), two(func(a, b v) v {
			return pointwise(autograd.Operand{Var: a}, autograd.Operand{Var: b, Columns: []int32{0, 0, 0}})
		})},
		"mapped columns": {dim(x), one(func(a v) v {
			return autograd.MapColumns(a, kernel.NewColumnMap(inner, .5, []int32{0, 2}, []int32{2}, nil))
		})},
		"softmax": {dim([2]int{rows, 6}), one(func(a v) v {
			return autograd.Groups(a, 2, kernel.GroupSoftmax)
		})},
		"log-softmax": {dim([2]int{rows, 6}), one(func(a v) v {
			return autograd.Groups(a, 2, kernel.GroupLogSoftmax)
		})},
		"log-sum-exp": {dim([2]int{rows, 6}), one(func(a v) v {
			return autograd.Groups(a, 2, kernel.GroupLogSumExp)
		})},
		"maximum": {dim(x), one(func(a v) v { return autograd.Groups(a, 1, kernel.GroupMax) })},
		"product of rows": {dim([2]int{rows, 12}, [2]int{rows, 8}), two(func(a, b v) v {
			return autograd.RowProduct(a, b, kernel.RowProduct{Groups: 2, Rows: 3, Inner: 2, Cols: 2})
		})},
		"sums over rows": {dim(x), one(func(a v) v {
			h := autograd.Rows(autograd.Scale(.2, a), 0, rows, autograd.AllHere(rows))
			return pointwise(autograd.Operand{Var: h}, autograd.Operand{Var: autograd.SumRows(h)})
		})},
		"a product over rows": {dim(x, x), two(func(a, b v) v {
			here := autograd.AllHere(rows)
			a, b = autograd.Rows(autograd.Scale(.2, a), 0, rows, here), autograd.Rows(b, 0, rows, here)
			return autograd.Reshape(autograd.ProductOverRows(a, b), inner, inner)
		})},
		"reshaped": {dim(x, square), two(func(a, b v) v {
			flat := autograd.Reshape(autograd.Scale(2, a), 1, rows*inner)
			return autograd.Linear(autograd.Reshape(flat, rows, inner), b)
		})},
		"a reshaped input": {dim(x), one(func(a v) v { return autograd.Reshape(a, inner, rows) })},
		"joined":           {dim(x, y), two(func(a, b v) v { return autograd.Join(a, b, a) })},
		"stacked":          {dim(x, x), two(func(a, b v) v { return autograd.Stack(a, b, a) })},
		"a residual": {dim(x, square), two(func(a, b v) v {
			return autograd.Add(a, autograd.Linear(a, b))
		})},
		"a residual, reversed": {dim(x, square), two(func(a, b v) v {
			return autograd.Add(autograd.Linear(a, b), a)
		})},
		"a residual of x·w": {dim(x, square), two(func(a, b v) v { return autograd.AddLinear(a, a, b) })},
		"products with aliases": {dim(x, square), two(func(a, b v) v {
			h := autograd.Scale(.5, a)
			return autograd.AddLinear(autograd.Linear(autograd.Alias(h), b), autograd.Alias(h), b)
		})},
		"an alias beside work in place": {dim(x, square), two(func(a, b v) v {
			h := autograd.Scale(.5, a)
			z := autograd.Linear(autograd.Alias(h), b)
			return autograd.Add(z, autograd.Finish(h, nil, kernel.Tanh, mask))
		})},
		"one factor twice": {dim(x, square), two(func(a, b v) v {
			return autograd.Linear(autograd.Linear(a, b), b)
		})},
		"finish, nothing to be done": {dim(x), one(func(a v) v {
			return autograd.Scale(1, autograd.Finish(a, nil, kernel.Identity, kernel.Mask{}))
		})},
		"a diamond": {dim(x, square), two(func(a, b v) v {
			h := autograd.Linear(a, b)
			return autograd.Multiply(autograd.Activate(h, kernel.Tanh),
				autograd.Add(h, autograd.Activate(h, kernel.Sigmoid)))
		})},
		"a diamond of three": {dim(x), one(func(a v) v {
			h := autograd.Scale(.5, a)
			return autograd.Add(autograd.Add(h, autograd.Multiply(h, h)), autograd.Multiply(h, a))
		})},
		"finish of a kept value": {dim(x, [2]int{1, inner}), two(func(a, b v) v {
			h := autograd.Activate(a, kernel.Sigmoid) // it keeps its result, so Finish must not overwrite it
			return autograd.Add(autograd.Multiply(h, a), autograd.Finish(h, b, kernel.Tanh, kernel.Mask{}))
		})},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { newBench(t).gradients(c.f, c.shapes...) })
	}
	for act, name := range map[kernel.Activation]string{
		kernel.Identity: "identity", kernel.ReLU: "relu", kernel.ELU: "elu",
		kernel.LeakyReLU: "leaky relu", kernel.Tanh: "tanh", kernel.Sigmoid: "sigmoid", kernel.GELU: "gelu",
	} {
		for _, m := range []kernel.Mask{{}, mask} {
			t.Run("finish "+name, func(t *testing.T) {
				newBench(t).gradients(one(func(a v) v {
					return autograd.Finish(autograd.Scale(1, a), nil, act, m)
				}), x)
				// x + bias may be too near the kink of these two
				if act != kernel.ReLU && act != kernel.LeakyReLU {
					newBench(t).gradients(two(func(a, b v) v {
						return autograd.Finish(a, b, act, m)
					}), y, bias)
				}
			})
		}
	}
}

// TestBiasAtAKink: the gradient of a bias under ReLU is the sum of the gradients of the active rows.
func TestBiasAtAKink(t *testing.T) {
	b := newBench(t)
	x, bias := b.leaf(rows, cols), b.leaf(1, cols)
	out := autograd.Finish(x, bias, kernel.ReLU, kernel.Mask{})
	want := make([]float32, cols)
	for i, v := range x.Value().Floats() {
		if v+bias.Value().Floats()[i%cols] > 0 {
			want[i%cols]++
		}
	}
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	grad, _ := bias.Grad()
	for c, w := range want {
		if got := grad.Floats()[c]; got != w {
			t.Errorf("column %d: %v, want %v", c, got, w)
		}
	}
}

// TestSparse compares products with sparse rows to products with the same dense matrix, with and without
// dropout. Dropout masks the same elements.
func TestSparse(t *testing.T) {
	for name, mask := range map[string]kernel.Mask{"plain": {}, "dropout": kernel.NewMask(5, .5, nil)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s, dense := b.sparse(40, 9)
			start := b.matrix(40, cols)
			w := b.matrix(9, cols)
			run := func(x *autograd.Var) (out, add, dw *tensor.Matrix) {
				dw = b.team.Zeros(tensor.Parameters, 9, cols)
				leaf := b.tape.Parameter(w, dw)
				z := b.tape.Scope(func() *autograd.Var {
					x := autograd.Dropout(x, mask)
					return autograd.Linear(x, leaf)
				})
				out = b.matrix(40, cols)
				b.team.Copy(out, z.Value())
				b.tape.Backward(autograd.Root{Var: z, Grad: b.ones(z)})
				sum := b.tape.Scope(func() *autograd.Var {
					return autograd.AddLinear(b.tape.Constant(start, nil), autograd.Dropout(x, mask), leaf)
				})
				add = b.matrix(40, cols)
				b.team.Copy(add, sum.Value())
				b.tape.Backward(autograd.Root{Var: sum, Grad: b.ones(sum)})
				b.live("the backward pass", 0)
				return out, add, dw
			}
			x := b.tape.SparseConstant(s, nil)
			if x.Sparse() != s || x.Rows() != 40 || x.Cols() != 9 {
				t.Errorf("a sparse value is %d×%d", x.Rows(), x.Cols())
			}
			out, add, dw := run(x)
			wantOut, wantAdd, wantDw := run(b.tape.Constant(dense, nil))
			for what, pair := range map[string][2]*tensor.Matrix{
				"x·w":     {out, wantOut},
				"z + x·w": {add, wantAdd}, "dw": {dw, wantDw},
			} {
				for i, want := range pair[1].Floats() {
					if got := pair[0].Floats()[i]; !(math.Abs(float64(got-want)) <= 1e-5*math.Max(1,
						math.Abs(float64(want)))) {
						t.Fatalf("%s: number %d is %v, dense %v", what, i, got, want)
					}
				}
			}
			if s.Rows.Values.Floats()[0] == 0 {
				t.Error("dropout wrote into the features")
			}
		})
	}
}

// TestDense: Dense returns the dense copy of sparse rows, and a dense value itself.
func TestDense(t *testing.T) {
	b := newBench(t)
	s, want := b.sparse(20, 7)
	d := autograd.Dense(b.tape.SparseConstant(s, nil))
	for i, w := range want.Floats() {
		if got := d.Value().Floats()[i]; got != w {
			t.Fatalf("number %d is %v, want %v", i, got, w)
		}
	}
	if autograd.Dense(d) != d {
		t.Error("the dense copy of a dense value is another")
	}
}

// TestUnwantedGradients: operations on a constant and a parameter compute only the parameter's gradient.
func TestUnwantedGradients(t *testing.T) {
	type v = *autograd.Var
	for name, f := range map[string]func(c, w, square v) v{
		"linear": func(c, _, square v) v { return autograd.Linear(c, square) },
		"of linear": func(_, w, square v) v {
			return autograd.Linear(w, square.Tape().Fixed(square.Value(), nil))
		},
		"add linear": func(c, _, square v) v { return autograd.AddLinear(c, c, square) },
		"combine":    func(c, w, _ v) v { return autograd.Combine(2, c, 3, w) },
		"combined":   func(c, w, _ v) v { return autograd.Combine(2, w, 3, c) },
		"multiply":   func(c, w, _ v) v { return autograd.Multiply(c, w) },
		"multiplied": func(c, w, _ v) v { return autograd.Multiply(w, c) },
		"finish":     func(_, w, _ v) v { return autograd.Finish(w, nil, kernel.ReLU, kernel.Mask{}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c, w, square := b.tape.Constant(b.matrix(rows, inner), nil), b.leaf(rows, inner),
				b.leaf(inner, inner)
			out := b.tape.Scope(func() *autograd.Var { return f(c, w, square) })
			if !out.RequiresGrad() {
				t.Error("the result wants no gradient")
			}
			b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
			b.live("the backward pass", 0)
		})
	}
}

// pointwise returns tanh(a·b) + a/4.
func pointwise(a, b autograd.Operand) *autograd.Var {
	e := &kernel.Expression{Inputs: 2}
	product := e.Op(kernel.OpTanh, e.Op(kernel.OpMul, 0, 1))
	e.Results = []int{e.Op(kernel.OpAdd, product, e.Op(kernel.OpMul, 0, e.Constant(.25)))}
	return autograd.Pointwise(e, a, b)
}

// TestPointwiseKeeps: an expression keeps only the operands that its gradients depend on.
func TestPointwiseKeeps(t *testing.T) {
	b := newBench(t)
	w := b.leaf(rows, cols)
	out := b.tape.Scope(func() *autograd.Var {
		e := &kernel.Expression{Inputs: 2}
		e.Results = []int{e.Op(kernel.OpSub, e.Op(kernel.OpTanh, 0), 1)}
		return autograd.Pointwise(e, autograd.Operand{Var: autograd.Scale(2, w)},
			autograd.Operand{Var: autograd.Scale(3, w)})
	})
	b.live("the scope's end", 2) // the first operand and the result
	b.tape.Backward(autograd.Root{Var: out, Grad: b.ones(out)})
	b.live("the backward pass", 0)
}

// TestReshaped: a reshaped value is in the same memory, and has the RowSet of x if it has as many rows.
// Neither value overwrites the other.
func TestReshaped(t *testing.T) {
	b := newBench(t)
	set := autograd.AllHere(rows)
	x := autograd.Scale(1, b.tape.Constant(b.matrix(rows, cols), set))
	z, same := autograd.Reshape(x, cols, rows), autograd.Reshape(x, rows, cols)
	if z.Value().Pointer() != x.Value().Pointer() || z.RowSet() != nil || same.RowSet() != set {
		t.Error("another place, or other rows")
	}
	b.live("both", 1)
	before := x.Value().Floats()[0]
	y := autograd.Finish(z, nil, kernel.Sigmoid, kernel.Mask{})
	if x.Value().Floats()[0] != before {
		t.Error("a value that is read elsewhere was overwritten")
	}
	y.Drop()
	z.Drop()
	x.Drop()
	b.live("two dropped", 1)
	same.Drop()
	b.live("the other dropped", 0)
}

// TestSumRows: the sum is over all workers, forward and backward, and has no RowSet.
func TestSumRows(t *testing.T) {
	b := newBench(t)
	peers := &doubled{}
	set := autograd.RowsOf(b.team, nil, rows, 2*rows, peers)
	x := b.tape.Input(b.matrix(rows, cols), set)
	sum := autograd.SumRows(x)
	want := make([]float64, cols)
	for i, v := range x.Value().Floats() {
		want[i%cols] += 2 * float64(v)
	}
	for c, got := range sum.Value().Floats() {
		if math.Abs(float64(got)-want[c]) > 1e-5 {
			t.Errorf("column %d sums to %v, want %v", c, got, want[c])
		}
	}
	if sum.RowSet() != nil || sum.Rows() != 1 {
		t.Error("a sum has rows")
	}
	b.tape.Backward(autograd.Root{Var: sum, Grad: b.ones(sum)})
	for _, g := range x.TakeGrad().Floats() {
		if g != 2 {
			t.Fatalf("a row's gradient is %v, want that of both workers", g)
		}
	}
	if peers.calls != 2 {
		t.Errorf("%d sums over the workers", peers.calls)
	}
	panics(t, "not vertices", func() { autograd.SumRows(b.leaf(rows, cols)) })
}

// doubled are two workers with the same numbers.
type doubled struct{ calls int }

func (d *doubled) Sum(values []float64) {
	d.calls++
	for i := range values {
		values[i] *= 2
	}
}

// Max plays another worker, with zeros.
func (d *doubled) Max(values []float64) {
	d.calls++
	for i := range values {
		values[i] = max(values[i], 0)
	}
}

// TestLargestOfRows: the maxima are over all workers. They have no RowSet and no gradient.
func TestLargestOfRows(t *testing.T) {
	b := newBench(t)
	for _, n := range []int{0, 1, 2, 7} {
		peers := &doubled{}
		m := b.team.Memory.New(tensor.Features, n, 2)
		for i := range n {
			m.WriteFloats()[2*i], m.WriteFloats()[2*i+1] = float32((3*i+1)%7), float32(-1-i)
		}
		x := b.tape.Input(m, autograd.RowsOf(b.team, nil, n, 2*n, peers))
		got := autograd.LargestOfRows(x)
		want := map[int][]float32{0: {0, 0}, 1: {1, 0}, 2: {4, 0}, 7: {6, 0}}[n]
		if !slices.Equal(got.Value().Floats(), want) || got.RowSet() != nil || peers.calls != 1 {
			t.Errorf("%d rows: %v, want %v, of %d workers", n, got.Value().Floats(), want, peers.calls)
		}
	}
	panics(t, "not vertices", func() { autograd.LargestOfRows(b.leaf(rows, cols)) })
}

// TestPlanned: a plan knows the memory of expressions, maps and functions of columns, and of sums over rows.
func TestPlanned(t *testing.T) {
	peak := func(team *kernel.Team) int64 {
		defer team.Memory.Close()
		tape := autograd.NewTrainingTape(team, autograd.Random{})
		x := tape.Input(team.Zeros(tensor.Parameters, 3000, 60), autograd.AllHere(3000))
		out := tape.Scope(func() *autograd.Var {
			first := autograd.MapColumns(x, kernel.Selection(60, make([]int32, 90)))
			h := autograd.Groups(first, 3, kernel.GroupMax)
			sums := autograd.MapColumns(autograd.ProductOverRows(h, h), kernel.Selection(9, make([]int32, 3)))
			sums = autograd.Add(sums, autograd.SumRows(h))
			z := pointwise(autograd.Operand{Var: h}, autograd.Operand{Var: sums})
			operand := autograd.Operand{Var: x, Columns: []int32{3, 1, 4}}
			return autograd.Reshape(autograd.RowProduct(z, pointwise(operand, autograd.Operand{Var: z}),
				kernel.RowProduct{Groups: 3, Rows: 1, Inner: 1, Cols: 1}), 9000, 1)
		})
		tape.Backward(autograd.Root{Var: out, Grad: team.Zeros(tensor.Gradients, 9000, 1)})
		x.TakeGrad().Release()
		return team.Memory.Peak()
	}
	planned, taken := peak(kernel.NewPlan(2, tensor.NewMeter())), peak(kernel.NewTeam(2, tensor.NewMeter()))
	if planned != taken || taken < 3000*60*4*2 {
		t.Errorf("planned %d bytes, took %d", planned, taken)
	}
}

// TestPointwiseOfTypes: an expression reads values in BFloat16, scores and parameters, and each has a
// gradient of its type.
func TestPointwiseOfTypes(t *testing.T) {
	var results [2][]float32
	for k, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		b := newBench(t)
		b.tape.Storage = storage
		set := autograd.AllHere(rows)
		leaves := []*autograd.Var{
			b.tape.ParameterRows(b.matrix(rows, cols), b.team.Zeros(tensor.Parameters, rows, cols), set),
			b.leaf(1, cols),
			b.tape.ParameterRows(b.matrix(rows, 1), b.team.Zeros(tensor.Parameters, rows, 1), set),
		}
		x, score := autograd.Operand{Var: autograd.Stored(leaves[0])},
			autograd.Operand{Var: leaves[2], Columns: make([]int32, cols)}
		out := pointwise(x, autograd.Operand{Var: pointwise(score, autograd.Operand{Var: leaves[1]})})
		if out.Element() != storage {
			t.Errorf("a result of element type %d", out.Element())
		}
		z := autograd.Float32(out)
		results[k] = append(results[k], z.Value().Floats()...)
		b.tape.Backward(autograd.Root{Var: z, Grad: b.ones(z)})
		for _, leaf := range leaves {
			g, _ := leaf.Grad()
			results[k] = append(results[k], g.Floats()...)
		}
	}
	for i, want := range results[0] {
		if got := results[1][i]; !(math.Abs(float64(got-want)) <= .04) || want == 0 {
			t.Errorf("number %d is %v, in Float32 %v", i, got, want)
		}
	}
}
