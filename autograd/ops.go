package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// Linear returns x·w, for x rows × in (dense, or constant and sparse) and w in × out.
func Linear(x, w *Var) *Var {
	checkProduct(x, w)
	t := x.tape
	if s := x.sparse; s != nil {
		return t.Record(Op{
			Inputs: []*Var{x, w}, Keeps: []*Var{x}, Reads: true,
			Forward: func() *tensor.Matrix {
				z := t.New(x.Rows(), w.Cols())
				t.Team.SpMM(z, s.Rows, w.Value(), kernel.Scales{}, kernel.Replace)
				return z
			}, Backward: func(g *tensor.Matrix) {
				dw, add := w.Grad()
				t.Team.SpMM(dw, s.Columns, g, kernel.Scales{}, kernel.Output(add))
				g.Release()
			},
		})
	}
	return t.Record(Op{
		Inputs: []*Var{x, w}, Keeps: []*Var{x, w}, Reads: true,
		Forward: func() *tensor.Matrix {
			z := t.New(x.Rows(), w.Cols())
			t.Team.MatMul(z, x.Value(), w.Value(), kernel.Straight, kernel.Replace)
			return z
		}, Backward: func(g *tensor.Matrix) {
			weightGradient(x, w, g)
			x.addLater(g, w)
		},
	})
}

// checkProduct panics with a Mismatch unless there is a product x·w.
func checkProduct(x, w *Var) {
	if x.Cols() != w.Rows() {
		panic(tensor.Mismatched("a product of %d×%d and %d×%d: the second needs %d rows", x.Rows(), x.Cols(),
			w.Rows(), w.Cols(), x.Cols()))
	}
}

// weightGradient adds xᵀ·g to the gradient of w, for a dense product x·w.
func weightGradient(x, w *Var, g *tensor.Matrix) {
	if w.requiresGrad {
		dw, add := w.Grad()
		x.tape.Team.MatMulT(dw, x.Value(), g, kernel.Output(add))
	}
}

// AddLinear returns z + x·w. It may reuse the memory of z, which must not be used afterwards.
func AddLinear(z, x, w *Var) *Var {
	checkProduct(x, w)
	t := x.tape
	if x.sparse != nil {
		return Add(z, Linear(x, w))
	}
	return t.Record(Op{
		Inputs: []*Var{z, x, w}, Keeps: []*Var{x, w}, Reads: true,
		Forward: func() *tensor.Matrix {
			from := z.Value()
			sum, inPlace := z.Take()
			if !inPlace {
				t.Team.Copy(sum, from)
			}
			t.Team.MatMul(sum, x.Value(), w.Value(), kernel.Straight, kernel.Accumulate)
			return sum
		}, Backward: func(g *tensor.Matrix) {
			weightGradient(x, w, g)
			x.addLater(g.Retain(), w)
			z.AddGrad(g)
		},
	})
}

// Combine returns alpha·a + beta·b, for a and b of one shape. It may reuse the memory of b, which must not be
// used afterwards.
func Combine(alpha float32, a *Var, beta float32, b *Var) *Var {
	if a == b {
		return Scale(alpha+beta, a)
	}
	a = convert(a, b.element)
	t := a.tape
	return t.Record(Op{Inputs: []*Var{a, b}, Forward: func() *tensor.Matrix {
		from := b.Value()
		z, _ := b.Take()
		t.Team.Add(z, alpha, a.Value(), beta, from)
		return z
	}, Backward: func(g *tensor.Matrix) {
		if a.requiresGrad {
			da, add := a.Grad()
			if add {
				t.Team.Axpy(da, alpha, g)
			} else {
				t.Team.Scale(da, alpha, g)
			}
		}
		t.Team.Scale(g, beta, g)
		b.AddGrad(g)
	}})
}

// Add returns a + b, for a and b of one shape. It may reuse the memory of b, which must not be used
// afterwards.
func Add(a, b *Var) *Var {
	if a == b {
		return Scale(2, a)
	}
	a = convert(a, b.element)
	t := a.tape
	return t.Record(Op{Inputs: []*Var{a, b}, Reads: true, Forward: func() *tensor.Matrix {
		from := b.Value()
		z, _ := b.Take()
		t.Team.Add(z, 1, a.Value(), 1, from)
		return z
	}, Backward: func(g *tensor.Matrix) {
		a.AddGrad(g.Retain())
		b.AddGrad(g)
	}})
}

// Copy returns a copy of x, for an operation that would reuse the memory of x.
func Copy(x *Var) *Var {
	t := x.tape
	return t.Record(Op{Inputs: []*Var{x}, Reads: true, Forward: func() *tensor.Matrix {
		z := t.NewLike(x, x.Rows(), x.Cols())
		t.Team.Copy(z, x.Value())
		return z
	}, Backward: x.AddGrad})
}

// Stored returns x in the tape's element type. Rows of a learned table, which is Float32, are converted so
// before messages hold them.
func Stored(x *Var) *Var { return convert(x, x.tape.Storage) }

// Float32 returns x in Float32, the element type of scores, losses and metrics.
func Float32(x *Var) *Var { return convert(x, tensor.Float32) }

// convert returns x in an element type, or x itself if it has that type.
func convert(x *Var, e tensor.Element) *Var {
	if x.element == e || x.sparse != nil {
		return x
	}
	t := x.tape
	return t.Record(Op{Inputs: []*Var{x}, Reads: true, Forward: func() *tensor.Matrix {
		z := t.element(e, x.Rows(), x.Cols())
		t.Team.Convert(z, x.Value())
		return z
	}, Backward: func(g *tensor.Matrix) {
		dx := x.newGrad()
		t.Team.Convert(dx, g)
		g.Release()
		x.AddGrad(dx)
	}})
}

// Alias returns x in the same memory. The alias has a place of its own among the recorded operations, and
// adds its gradient to x's there. Products that read x itself defer theirs until all other readers of x have
// run backward. So a gradient that is a sum over blocks is added up in the same order, wherever a pipeline's
// stages are cut.
func Alias(x *Var) *Var {
	return x.tape.Record(Op{
		Inputs: []*Var{x}, Reads: true, Forward: func() *tensor.Matrix {
			return x.Value().Retain()
		}, Backward: x.AddGrad,
	})
}

// Scale returns alpha·a. The caller may change the elements of the result before anything reads it.
func Scale(alpha float32, a *Var) *Var {
	t := a.tape
	z := t.NewLike(a, a.Rows(), a.Cols())
	t.Team.Scale(z, alpha, a.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{a}, Backward: func(g *tensor.Matrix) {
		t.Team.Scale(g, alpha, g)
		a.AddGrad(g)
	}})
}

// Multiply returns a ⊙ b, element by element.
func Multiply(a, b *Var) *Var {
	b = convert(b, a.element)
	t := a.tape
	z := t.NewLike(a, a.Rows(), a.Cols())
	t.Team.Multiply(z, a.Value(), b.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{a, b}, Keeps: []*Var{a, b}, Backward: func(g *tensor.Matrix) {
		if a.requiresGrad {
			da := a.newGrad()
			t.Team.Multiply(da, g, b.Value())
			a.AddGrad(da)
		}
		t.Team.Multiply(g, g, a.Value())
		b.AddGrad(g)
	}})
}

// Finish returns mask(act(x + bias)), computed in one pass, except for GELU. It may reuse the memory of x,
// which must not be used afterwards. bias (1 × cols) may be nil.
func Finish(x, bias *Var, act kernel.Activation, mask kernel.Mask) *Var {
	t := x.tape
	switch {
	case act == kernel.GELU:
		y := Finish(x, bias, kernel.Identity, kernel.Mask{})
		z := Dropout(gelu(y), mask)
		y.Drop()
		return z
	case bias == nil && act == kernel.Identity && !mask.Active():
		return x
	}
	inputs := []*Var{x}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	var z *tensor.Matrix
	return t.Record(Op{Inputs: inputs, KeepsResult: act != kernel.Identity, Forward: func() *tensor.Matrix {
		from := x.Value()
		z, _ = x.Take()
		var b *tensor.Matrix
		if bias != nil {
			b = bias.Value()
		}
		t.Team.Finish(z, from, b, act, mask)
		return z
	}, Backward: func(g *tensor.Matrix) {
		var dBias *tensor.Matrix
		if bias != nil && bias.requiresGrad {
			dBias = bias.GradSum()
		}
		switch {
		case act != kernel.Identity:
			t.Team.FinishBackward(g, dBias, g, z, act, mask)
		case mask.Active(): // the identity does not read its result
			t.Team.FinishBackward(g, dBias, g, g, act, mask)
		case dBias != nil:
			t.Team.ColumnSums(dBias, g, nil)
		}
		x.AddGrad(g)
	}})
}

// Activate returns act(x) and leaves x unchanged.
func Activate(x *Var, act kernel.Activation) *Var {
	if act == kernel.GELU {
		return gelu(x)
	}
	team := x.tape.Team
	return fromOutput(x, func(z, x *tensor.Matrix) { team.Finish(z, x, nil, act, kernel.Mask{}) },
		func(g, z *tensor.Matrix) { team.FinishBackward(g, nil, g, z, act, kernel.Mask{}) })
}

// gelu returns GELU(x) and leaves x unchanged. It keeps x, because the derivative does not follow from the
// output.
func gelu(x *Var) *Var {
	t := x.tape
	return t.Record(Op{Inputs: []*Var{x}, Keeps: []*Var{x}, Forward: func() *tensor.Matrix {
		z := t.NewLike(x, x.Rows(), x.Cols())
		t.Team.GELU(z, x.Value())
		return z
	}, Backward: func(g *tensor.Matrix) {
		t.Team.GELUBackward(g, g, x.Value())
		x.AddGrad(g)
	}})
}

// fromOutput returns an element-wise function of x and leaves x unchanged. forward computes z. backward turns
// dLoss/dz into dLoss/dx in place, from the output z alone.
func fromOutput(x *Var, forward func(z, x *tensor.Matrix), backward func(g, z *tensor.Matrix)) *Var {
	t := x.tape
	var z *tensor.Matrix
	return t.Record(Op{Inputs: []*Var{x}, KeepsResult: true, Forward: func() *tensor.Matrix {
		z = t.NewLike(x, x.Rows(), x.Cols())
		forward(z, x.Value())
		return z
	}, Backward: func(g *tensor.Matrix) {
		backward(g, z)
		x.AddGrad(g)
	}})
}

// Dropout zeroes each element with the mask's probability and scales the others (Srivastava et al. 2014). It
// masks only the stored entries of a sparse x. It may reuse the memory of a dense x, unless x is a constant.
func Dropout(x *Var, mask kernel.Mask) *Var {
	if !mask.Active() {
		return x
	}
	if s := x.sparse; s != nil {
		masked := func(a *kernel.CSR, transposed bool) *kernel.CSR {
			b := *a
			b.Values = x.tape.Team.MaskEntries(a, mask, kernel.Orientation(transposed))
			return &b
		}
		v := x.tape.sparse(&Sparse{masked(s.Rows, false), masked(s.Columns, true)}, x.set)
		v.liveness = held
		x.tape.scope = append(x.tape.scope, v)
		return v
	}
	return Finish(x, nil, kernel.Identity, mask)
}

// Uniform draws a number in [0, 1) for each element of x. It follows from the tape's seed and epoch, the
// path, the row's id and the column. No gradient flows through the numbers.
func Uniform(x *Var, path string) *Var {
	t := x.tape
	z := t.NewLike(x, x.Rows(), x.Cols())
	t.Team.Uniform(z, t.Random.Key(path), x.set.IDs)
	return t.Record(Op{Value: z, Rows: x.set})
}

// Dense returns the dense form of a sparse constant, for operations that need every element. It returns a
// dense x itself.
func Dense(x *Var) *Var {
	s := x.sparse
	if s == nil {
		return x
	}
	t := x.tape
	z := t.New(x.rows, x.cols)
	t.Team.Densify(z, s.Rows)
	return t.Record(Op{Value: z, Rows: x.set})
}

// HeadMean returns the mean over the heads of x (rows × heads·width): rows × width.
func HeadMean(x *Var, heads int) *Var {
	if heads == 1 {
		return x
	}
	t := x.tape
	z := t.NewLike(x, x.Rows(), x.Cols()/heads)
	t.Team.HeadMean(z, x.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Backward: func(g *tensor.Matrix) {
		dx := x.newGrad()
		t.Team.HeadMeanBackward(dx, g)
		g.Release()
		x.AddGrad(dx)
	}})
}
