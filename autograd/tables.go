package autograd

import (
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Operations on parameters that stack several matrices: the embedding tables of a vertex type, or the weights
// of relations.

// Rows returns a copy of rows lo…hi−1 of x. set describes these rows; nil: they inherit the RowSet of x.
func Rows(x *Var, lo, hi int, set *RowSet) *Var {
	t := x.tape
	z := t.NewLike(x, hi-lo, x.Cols())
	t.Team.Copy(z, x.Value().RowRange(lo, hi))
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Rows: set, Reads: true, Backward: func(g *tensor.Matrix) {
		t.Team.Axpy(x.GradSum().RowRange(lo, hi), 1, g)
		g.Release()
	}})
}

// Stack returns the rows of all xs, below each other. They are not the rows of one vertex type, so nothing
// sums over them on all workers.
func Stack(xs ...*Var) *Var {
	t, rows := xs[0].tape, 0
	xs = slices.Clone(xs)
	for i, x := range xs {
		xs[i] = convert(x, xs[0].element)
		rows += x.Rows()
	}
	z := t.NewLike(xs[0], rows, xs[0].Cols())
	each := func(matrix *tensor.Matrix, use func(x *Var, part *tensor.Matrix)) {
		at := 0
		for _, x := range xs {
			use(x, matrix.RowRange(at, at+x.Rows()))
			at += x.Rows()
		}
	}
	each(z, func(x *Var, part *tensor.Matrix) { t.Team.Copy(part, x.Value()) })
	return t.Record(Op{
		Value: z, Inputs: xs, Rows: &RowSet{Here: rows, Total: NotVertices}, Reads: true,
		Backward: func(g *tensor.Matrix) {
			each(g, func(x *Var, part *tensor.Matrix) {
				if x.requiresGrad {
					dx, add := x.Grad()
					t.Team.Columns(dx, 0, part, 0, x.Cols(), kernel.Output(add))
				}
			})
			g.Release()
		},
	})
}

// BasisDecomposition returns weighted sums of the bases, which are the matrices stacked in x: z_k = Σ_b
// c_kb·x_b for the listed rows k of c, stacked. x holds c.Cols() bases of equal size.
func BasisDecomposition(c *Var, rows []int, x *Var) *Var {
	t := c.tape
	n := x.Rows() / c.Cols()
	some := t.Memory().New(tensor.Activations, len(rows), c.Cols())
	for i, k := range rows {
		copy(some.RowRange(i, i+1).WriteFloats(), c.Value().RowRange(k, k+1).ReadFloats())
	}
	z := t.NewLike(x, len(rows)*n, x.Cols())
	m := &basisSums{t: t, weights: some, x: x.Value().Reshape(c.Cols(), n*x.Cols())}
	m.forward(z.Reshape(len(rows), n*x.Cols()))
	return t.Record(Op{
		Value: z, Inputs: []*Var{c, x}, Keeps: []*Var{x}, Buffers: []*tensor.Matrix{some},
		Reads: true, Backward: func(g *tensor.Matrix) {
			dSome := t.Team.Zeros(tensor.Buffers, len(rows), c.Cols())
			m.backward(dSome, x.GradSum().Reshape(c.Cols(), n*x.Cols()), g.Reshape(len(rows), n*x.Cols()))
			dc := c.GradSum()
			for i, k := range rows {
				t.Team.Axpy(dc.RowRange(k, k+1), 1, dSome.RowRange(i, i+1))
			}
			dSome.Release()
			g.Release()
		},
	})
}

// basisSums computes z = weights·x, for x of few and very long rows. Matrix products are fast for many short
// rows, so it transposes some columns at a time.
type basisSums struct {
	t       *Tape
	weights *tensor.Matrix // sums × terms
	x       *tensor.Matrix // terms × columns
}

// basisColumns is how many columns are transposed at a time.
const basisColumns = 1 << 15

// each calls f for some columns at a time, with buffers for these as rows: columns × sums, and columns ×
// terms.
func (m *basisSums) each(f func(lo int, sums, terms *tensor.Matrix)) {
	mem := m.t.Memory()
	most := min(basisColumns, m.x.Cols)
	sums, terms := mem.New(tensor.Buffers, most, m.weights.Rows),
		mem.New(tensor.Buffers, most, m.weights.Cols)
	for lo := 0; lo < m.x.Cols; lo += basisColumns {
		n := min(basisColumns, m.x.Cols-lo)
		f(lo, sums.RowRange(0, n), terms.RowRange(0, n))
	}
	sums.Release()
	terms.Release()
}

func (m *basisSums) forward(z *tensor.Matrix) {
	team := m.t.Team
	m.each(func(lo int, sums, terms *tensor.Matrix) {
		columnsToRows(team, terms, m.x, lo)
		team.MatMul(sums, terms, m.weights, kernel.Transposed, kernel.Replace)
		rowsToColumns(team, z, sums, lo, kernel.Replace)
	})
}

// backward adds to the gradients of the weights and of x. g is the gradient of z.
func (m *basisSums) backward(dWeights, dx, g *tensor.Matrix) {
	team := m.t.Team
	m.each(func(lo int, sums, terms *tensor.Matrix) {
		columnsToRows(team, sums, g, lo)
		columnsToRows(team, terms, m.x, lo)
		team.MatMulT(dWeights, sums, terms, kernel.Accumulate)
		team.MatMul(terms, sums, m.weights, kernel.Straight, kernel.Replace)
		rowsToColumns(team, dx, terms, lo, kernel.Accumulate)
	})
}

// transposeTile is how many columns a thread transposes at a time. These columns and the resulting rows fit
// in its caches.
const transposeTile = 256

// columnsToRows copies column lo+i of x to row i of z.
func columnsToRows(team *kernel.Team, z, x *tensor.Matrix, lo int) {
	to, from := z.WriteFloats(), x.ReadFloats()
	team.Parallel((z.Rows+transposeTile-1)/transposeTile, func(k int) {
		first, end := k*transposeTile, min((k+1)*transposeTile, z.Rows)
		rows := to[first*z.Cols : end*z.Cols]
		for c := range z.Cols {
			for i, v := range from[c*x.Cols+lo+first : c*x.Cols+lo+end] {
				rows[i*z.Cols+c] = v
			}
		}
	})
}

// rowsToColumns copies or adds row i of x to column lo+i of z.
func rowsToColumns(team *kernel.Team, z, x *tensor.Matrix, lo int, how kernel.Output) {
	to, from := z.WriteFloats(), x.ReadFloats()
	team.Parallel((x.Rows+transposeTile-1)/transposeTile, func(k int) {
		first, end := k*transposeTile, min((k+1)*transposeTile, x.Rows)
		rows := from[first*x.Cols : end*x.Cols]
		for c := range x.Cols {
			column := to[c*z.Cols+lo+first : c*z.Cols+lo+end]
			if how == kernel.Replace {
				clear(column)
			}
			for i := range column {
				column[i] += rows[i*x.Cols+c]
			}
		}
	})
}

// BlockDiagonal returns the block-diagonal matrix of equally large blocks, which are stacked in x: in × out
// for x in × out/blocks.
func BlockDiagonal(x *Var, blocks int) *Var {
	t := x.tape
	height, width := x.Rows()/blocks, x.Cols()
	z := t.NewLike(x, x.Rows(), blocks*width)
	t.Team.Zero(z)
	each := func(f func(b int, block func(*tensor.Matrix) *tensor.Matrix)) {
		for b := range blocks {
			f(b, func(m *tensor.Matrix) *tensor.Matrix { return m.RowRange(b*height, (b+1)*height) })
		}
	}
	each(func(b int, block func(*tensor.Matrix) *tensor.Matrix) {
		t.Team.Columns(block(z), b*width, block(x.Value()), 0, width, kernel.Replace)
	})
	return t.Record(Op{Value: z, Inputs: []*Var{x}, Reads: true, Backward: func(g *tensor.Matrix) {
		dx := x.GradSum()
		each(func(b int, block func(*tensor.Matrix) *tensor.Matrix) {
			t.Team.Columns(block(dx), 0, block(g), b*width, width, kernel.Accumulate)
		})
		g.Release()
	}})
}
