package autograd

import (
	"weft/kernel"
	"weft/tensor"
)

// Linear is x·w, for x rows × in (dense, or constant and sparse) and w in × out.
func Linear(x, w *Var) *Var {
	t := x.tape
	z := t.New(x.Rows(), w.Cols())
	if s := x.sparse; s != nil {
		t.Team.SpMM(z, s.Rows, w.Value(), kernel.Scales{}, kernel.Replace)
		return t.Record(Op{Value: z, Inputs: []*Var{x, w}, Keeps: []*Var{x}, Reads: true, Backward: func(g *tensor.Matrix) {
			dw, add := w.Grad()
			t.Team.SpMM(dw, s.Columns, g, kernel.Scales{}, kernel.Output(add))
			g.Release()
		}})
	}
	t.Team.MatMul(z, x.Value(), w.Value(), kernel.Straight, kernel.Replace)
	return t.Record(Op{Value: z, Inputs: []*Var{x, w}, Keeps: []*Var{x, w}, Reads: true, Backward: func(g *tensor.Matrix) {
		weightGradient(x, w, g)
		x.owe(g, w)
	}})
}

// weightGradient adds xᵀ·g to the gradient of w, for a dense product x·w.
func weightGradient(x, w *Var, g *tensor.Matrix) {
	if w.wants {
		dw, add := w.Grad()
		x.tape.Team.MatMulT(dw, x.Value(), g, kernel.Output(add))
	}
}

// AddLinear is z + x·w. z is given away.
func AddLinear(z, x, w *Var) *Var {
	t := x.tape
	if x.sparse != nil {
		return Add(z, Linear(x, w))
	}
	from := z.Value()
	sum, inPlace := z.Take()
	if !inPlace {
		t.Team.Copy(sum, from)
	}
	t.Team.MatMul(sum, x.Value(), w.Value(), kernel.Straight, kernel.Accumulate)
	return t.Record(Op{Value: sum, Inputs: []*Var{z, x, w}, Keeps: []*Var{x, w}, Reads: true, Backward: func(g *tensor.Matrix) {
		weightGradient(x, w, g)
		x.owe(g.Share(), w)
		z.AddGrad(g)
	}})
}

// Combine is alpha·a + beta·b, for a and b of one shape. b is given away, a is left alone.
func Combine(alpha float32, a *Var, beta float32, b *Var) *Var {
	if a == b {
		return Scale(alpha+beta, a)
	}
	t := a.tape
	from := b.Value()
	z, _ := b.Take()
	t.Team.Add(z, alpha, a.Value(), beta, from)
	return t.Record(Op{Value: z, Inputs: []*Var{a, b}, Backward: func(g *tensor.Matrix) {
		if a.wants {
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

// Add is a + b, for a and b of one shape. b is given away, a is left alone.
func Add(a, b *Var) *Var {
	if a == b {
		return Scale(2, a)
	}
	t := a.tape
	from := b.Value()
	z, _ := b.Take()
	t.Team.Add(z, 1, a.Value(), 1, from)
	return t.Record(Op{Value: z, Inputs: []*Var{a, b}, Reads: true, Backward: func(g *tensor.Matrix) {
		a.AddGrad(g.Share())
		b.AddGrad(g)
	}})
}

// Copy is a copy of x, for operations that would take x away.
func Copy(x *Var) *Var {
	t := x.tape
	z := t.New(x.Rows(), x.Cols())
	t.Team.Copy(z, x.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Reads: true, Backward: x.AddGrad})
}

// Alias is x itself, in the same memory. Its gradient is added to x's at its place among the operations.
// Products with x itself put theirs off until x was read for the last time. So a gradient that is summed over
// blocks has one order, wherever the blocks are cut.
func Alias(x *Var) *Var {
	return x.tape.Record(Op{Value: x.Value().Share(), Inputs: []*Var{x}, Reads: true, Backward: x.AddGrad})
}

// Scale is alpha·a.
func Scale(alpha float32, a *Var) *Var {
	t := a.tape
	z := t.New(a.Rows(), a.Cols())
	t.Team.Scale(z, alpha, a.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{a}, Backward: func(g *tensor.Matrix) {
		t.Team.Scale(g, alpha, g)
		a.AddGrad(g)
	}})
}

// Multiply is a ⊙ b, element by element.
func Multiply(a, b *Var) *Var {
	t := a.tape
	z := t.New(a.Rows(), a.Cols())
	t.Team.Multiply(z, a.Value(), b.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{a, b}, Keeps: []*Var{a, b}, Backward: func(g *tensor.Matrix) {
		if a.wants {
			da := t.Memory().New(tensor.Gradients, g.Rows, g.Cols)
			t.Team.Multiply(da, g, b.Value())
			a.AddGrad(da)
		}
		t.Team.Multiply(g, g, a.Value())
		b.AddGrad(g)
	}})
}

// Finish is mask(act(x + bias)) in one pass and, where possible, in x's memory: x is given away. bias (1 ×
// cols) may be nil.
func Finish(x, bias *Var, act kernel.Activation, mask kernel.Mask) *Var {
	t := x.tape
	if bias == nil && act == kernel.Identity && !mask.Active() {
		return x
	}
	from := x.Value()
	z, _ := x.Take()
	inputs := []*Var{x}
	var b *tensor.Matrix
	if bias != nil {
		b, inputs = bias.Value(), append(inputs, bias)
	}
	t.Team.Finish(z, from, b, act, mask)
	return t.Record(Op{Value: z, Inputs: inputs, KeepsResult: act != kernel.Identity, Backward: func(g *tensor.Matrix) {
		if act != kernel.Identity || mask.Active() {
			result := g // not read by the identity
			if act != kernel.Identity {
				result = z
			}
			t.Team.FinishBackward(g, g, result, act, mask)
		}
		if bias != nil && bias.wants {
			t.Team.ColumnSums(bias.GradSum(), g, nil)
		}
		x.AddGrad(g)
	}})
}

// Activate is act(x). x is left alone.
func Activate(x *Var, act kernel.Activation) *Var {
	team := x.tape.Team
	return fromOutput(x, func(z, x *tensor.Matrix) { team.Finish(z, x, nil, act, kernel.Mask{}) },
		func(g, z *tensor.Matrix) { team.FinishBackward(g, g, z, act, kernel.Mask{}) })
}

// fromOutput is an element-wise function of x, which is left alone: forward makes z, and backward turns
// dLoss/dz into dLoss/dx in place, from the output alone.
func fromOutput(x *Var, forward func(z, x *tensor.Matrix), backward func(g, z *tensor.Matrix)) *Var {
	t := x.tape
	z := t.New(x.Rows(), x.Cols())
	forward(z, x.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x}, KeepsResult: true, Backward: func(g *tensor.Matrix) {
		backward(g, z)
		x.AddGrad(g)
	}})
}

// Dropout zeroes each element with the mask's probability and scales the others (Srivastava et al. 2014); of
// a sparse value only the stored entries are drawn. A dense x is given away unless it is a constant.
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
		v.held = true
		x.tape.scope = append(x.tape.scope, v)
		return v
	}
	return Finish(x, nil, kernel.Identity, mask)
}

// Dense is the dense form of a sparse constant, for operations that need every element; a dense x is itself.
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

// HeadMean averages the heads of x (rows × heads·width): rows × width.
func HeadMean(x *Var, heads int) *Var {
	if heads == 1 {
		return x
	}
	t := x.tape
	z := t.New(x.Rows(), x.Cols()/heads)
	t.Team.HeadMean(z, x.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Backward: func(g *tensor.Matrix) {
		dx := t.Memory().New(tensor.Gradients, g.Rows, g.Cols*heads)
		t.Team.HeadMeanBackward(dx, g)
		g.Release()
		x.AddGrad(dx)
	}})
}
