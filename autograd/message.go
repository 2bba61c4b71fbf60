package autograd

import (
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Operations for message functions.

// HeadDot returns z_ih = Σ_c x_ihc · a_hc, for x rows × heads·width and a 1 × heads·width: rows × heads.
func HeadDot(x, a *Var, heads int) *Var {
	t := x.tape
	z := t.element(tensor.Float32, x.Rows(), heads)
	t.Team.HeadDot(z, x.Value(), a.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x, a}, Keeps: []*Var{x, a}, Backward: func(g *tensor.Matrix) {
		t.Team.HeadDotBackward(x.GradSum(), a.GradSum(), g, x.Value(), a.Value())
		g.Release()
	}})
}

// HeadScale returns z_ihc = x_ihc · s_ih, for x rows × heads·width and s rows × heads.
func HeadScale(x, s *Var) *Var {
	s = Float32(s)
	t := x.tape
	z := t.NewLike(x, x.Rows(), x.Cols())
	t.Team.HeadScale(z, x.Value(), s.Value())
	return t.Record(Op{Value: z, Inputs: []*Var{x, s}, Keeps: []*Var{x, s}, Backward: func(g *tensor.Matrix) {
		if s.requiresGrad {
			ds := s.newGrad()
			t.Team.RowDots(ds, g, x.Value())
			s.AddGrad(ds)
		}
		t.Team.HeadScale(g, g, s.Value())
		x.AddGrad(g)
	}})
}

// Exp returns exp(x), element by element.
func Exp(x *Var) *Var {
	team := x.tape.Team
	return fromOutput(x, team.Exp, func(g, z *tensor.Matrix) { team.Multiply(g, g, z) })
}

// Reciprocal returns 1/x, element by element, and 0 where x is 0.
func Reciprocal(x *Var) *Var {
	team := x.tape.Team
	return fromOutput(x, team.Reciprocal, func(g, z *tensor.Matrix) {
		team.Multiply(g, g, z)
		team.Multiply(g, g, z)
		team.Scale(g, -1, g)
	})
}

// Sqrt returns √x, element by element, and 0 without a gradient where x is at most least.
func Sqrt(x *Var, least float32) *Var {
	team := x.tape.Team
	return fromOutput(x, func(z, x *tensor.Matrix) {
		team.Sqrt(z, x, least)
	}, func(g, z *tensor.Matrix) { team.SqrtBackward(g, g, z) })
}

// Mapped returns f(x) in Float32, element by element, through which no gradient flows. f runs on the host, so
// it is for few elements, such as one for each vertex.
func Mapped(x *Var, f func(x float64) float64) *Var {
	t := x.tape
	z := t.element(tensor.Float32, x.Rows(), x.Cols())
	t.Team.Convert(z, x.Value())
	values := z.WriteFloats()
	for i, v := range values {
		values[i] = float32(f(float64(v)))
	}
	return t.Record(Op{Value: z, Rows: x.set})
}

// Ones returns a column of ones for the rows of x.
func Ones(x *Var) *Var {
	z := x.tape.NewLike(x, x.Rows(), 1)
	x.tape.Team.Fill(z, 1)
	return x.tape.Record(Op{Value: z, Rows: x.set})
}

// Filled returns rows × columns numbers (Float32) for the rows of x. fill sets them, in row order; a plan
// does not call it. No gradient flows through them.
func Filled(x *Var, columns int, fill func(values []float32)) *Var {
	z := x.tape.element(tensor.Float32, x.Rows(), columns)
	x.tape.Team.Serial(func() { fill(z.WriteFloats()) })
	return x.tape.Record(Op{Value: z, Rows: x.set})
}

// Detach returns a copy of x through which no gradient flows.
func Detach(x *Var) *Var {
	t := x.tape
	z := t.NewLike(x, x.Rows(), x.Cols())
	t.Team.Copy(z, x.Value())
	return t.Record(Op{Value: z, Rows: x.set})
}

// Columns returns columns from … from+count−1 of x.
func Columns(x *Var, from, count int) *Var {
	t := x.tape
	z := t.NewLike(x, x.Rows(), count)
	t.Team.Columns(z, 0, x.Value(), from, count, kernel.Replace)
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Backward: func(g *tensor.Matrix) {
		t.Team.Columns(x.GradSum(), from, g, 0, count, kernel.Accumulate)
		g.Release()
	}})
}

// Join returns the columns of all xs, side by side.
func Join(xs ...*Var) *Var {
	t, cols := xs[0].tape, 0
	xs = slices.Clone(xs)
	for i, x := range xs {
		xs[i] = convert(x, xs[0].element)
		cols += x.Cols()
	}
	z := t.NewLike(xs[0], xs[0].Rows(), cols)
	at := 0
	for _, x := range xs {
		t.Team.Columns(z, at, x.Value(), 0, x.Cols(), kernel.Replace)
		at += x.Cols()
	}
	return t.Record(Op{Value: z, Inputs: xs, Backward: func(g *tensor.Matrix) {
		at := 0
		for _, x := range xs {
			if x.requiresGrad {
				dx, add := x.Grad()
				t.Team.Columns(dx, 0, g, at, x.Cols(), kernel.Output(add))
			}
			at += x.Cols()
		}
		g.Release()
	}})
}
