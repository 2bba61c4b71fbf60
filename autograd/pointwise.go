package autograd

import (
	"math"
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Operand is an input of an expression. An input without a RowSet, such as a parameter, has one row, which
// counts for all rows. Column c of the result reads column Columns[c] of the Var; nil: column c.
type Operand struct {
	*Var
	Columns []int32
}

// Pointwise computes an expression of one result from its operands, element by element. The result has the
// rows of the operands that have rows, or one row if none has. Only operands that gradients depend on are
// kept for the backward pass.
func Pointwise(e *kernel.Expression, in ...Operand) *Var {
	t := in[0].tape
	p := &pointwise{t: t, e: e, in: in, rows: 1, cols: in[0].cols, result: tensor.Float32}
	if c := in[0].Columns; c != nil {
		p.cols = len(c)
	}
	op := Op{Reads: true, Forward: p.forward, Backward: p.backward}
	p.wanted = make([]bool, len(in))
	withRows := slices.ContainsFunc(in, func(o Operand) bool { return o.set != nil })
	if withRows {
		p.result = t.Storage
	}
	for k, o := range in {
		if o.set != nil || !withRows && o.rows != 1 {
			p.rows = o.rows
		}
		op.Inputs = append(op.Inputs, o.Var)
		p.wanted[k] = o.requiresGrad
	}
	adjoint := e.Adjoint(p.wanted)
	for k, o := range in {
		if adjoint.Reads(k) {
			op.Keeps = append(op.Keeps, o.Var)
		}
		op.Reads = op.Reads && !p.over(o)
	}
	return t.Record(op)
}

// pointwise is an expression and its operands.
type pointwise struct {
	t          *Tape
	e          *kernel.Expression
	in         []Operand
	rows, cols int
	result     tensor.Element
	wanted     []bool
}

// alike reports whether an operand is read element by element, because it has the result's shape.
func (p *pointwise) alike(o Operand) bool { return o.Columns == nil && o.rows == p.rows }

// over reports whether the operand's gradient can take the place of the result's.
func (p *pointwise) over(o Operand) bool {
	return o.requiresGrad && p.alike(o) && o.element == p.result
}

// operands returns the inputs that an expression reads, and the lists of columns, which the caller releases.
func (p *pointwise) operands(e *kernel.Expression) (x []kernel.Operand, lists []*tensor.Matrix) {
	x = make([]kernel.Operand, len(p.in))
	for k, o := range p.in {
		if !e.Reads(k) {
			continue
		}
		x[k].X = o.Value()
		if o.Columns != nil {
			x[k].Columns = kernel.List(p.t.Team, tensor.Buffers, o.Columns)
			lists = append(lists, x[k].Columns)
		}
	}
	return x, lists
}

func (p *pointwise) forward() *tensor.Matrix {
	z := p.t.element(p.result, p.rows, p.cols)
	x, lists := p.operands(p.e)
	p.t.Team.Pointwise([]*tensor.Matrix{z}, p.e, x)
	release(lists)
	return z
}

// backward computes all gradients in one pass. An operand that has one row, or a column that the result reads
// several times, gets the sum of the gradients at the result's elements.
func (p *pointwise) backward(g *tensor.Matrix) {
	team, adjoint := p.t.Team, p.e.Adjoint(p.wanted)
	x, lists := p.operands(adjoint)
	x = append(x, kernel.Operand{X: g})
	var z []*tensor.Matrix
	taken := false
	for _, o := range p.in {
		switch {
		case !o.requiresGrad:
		case p.over(o) && !taken:
			z, taken = append(z, g), true
		case p.alike(o):
			z = append(z, o.newGrad())
		default:
			z = append(z, p.t.Memory().New(tensor.Buffers, p.rows, p.cols))
		}
	}
	team.Pointwise(z, adjoint, x)
	release(lists)
	if !taken {
		g.Release()
	}
	for _, o := range p.in {
		if !o.requiresGrad {
			continue
		}
		dx := z[0]
		z = z[1:]
		if !p.alike(o) {
			dx = p.sums(o, dx)
		}
		o.AddGrad(dx)
	}
}

// sums adds up each, an operand's gradient at each of the result's elements, to the operand's shape. It owns
// each.
func (p *pointwise) sums(o Operand, each *tensor.Matrix) *tensor.Matrix {
	team := p.t.Team
	if o.rows != p.rows {
		sum := team.Zeros(tensor.Buffers, 1, p.cols)
		team.ColumnSums(sum, each, nil)
		each.Release()
		each = sum
	}
	dx := o.newGrad()
	if o.Columns != nil {
		team.MapColumns(dx, each, kernel.Selection(o.cols, o.Columns).Transpose())
	} else {
		team.Convert(dx, each)
	}
	each.Release()
	return dx
}

func release(matrices []*tensor.Matrix) {
	for _, m := range matrices {
		m.Release()
	}
}

// MapColumns applies a map of columns to each row of x.
func MapColumns(x *Var, m *kernel.ColumnMap) *Var {
	t := x.tape
	return t.Record(Op{Inputs: []*Var{x}, Reads: true, Forward: func() *tensor.Matrix {
		z := t.NewLike(x, x.rows, m.To())
		t.Team.MapColumns(z, x.Value(), m)
		return z
	}, Backward: func(g *tensor.Matrix) {
		dx := x.newGrad()
		t.Team.MapColumns(dx, g, m.Transpose())
		g.Release()
		x.AddGrad(dx)
	}})
}

// Groups divides the columns of x into groups of equal width, and returns f of each group of each row.
func Groups(x *Var, groups int, f kernel.GroupFunction) *Var {
	t := x.tape
	op := Op{Inputs: []*Var{x}, KeepsResult: true}
	if !f.Softmax() {
		op.Keeps, op.Reads = []*Var{x}, true
	}
	var z *tensor.Matrix
	op.Forward = func() *tensor.Matrix {
		z = t.NewLike(x, x.rows, f.Columns(groups, x.cols))
		t.Team.Groups(z, x.Value(), groups, f)
		return z
	}
	op.Backward = func(g *tensor.Matrix) {
		if f.Softmax() {
			t.Team.GroupsBackward(g, g, nil, z, groups, f)
			x.AddGrad(g)
			return
		}
		dx := x.newGrad()
		t.Team.GroupsBackward(dx, g, x.Value(), z, groups, f)
		g.Release()
		x.AddGrad(dx)
	}
	return t.Record(op)
}

// RowProduct returns the products of the matrices that the rows of x and y hold.
func RowProduct(x, y *Var, p kernel.RowProduct) *Var {
	y = convert(y, x.element)
	t := x.tape
	return t.Record(Op{
		Inputs: []*Var{x, y}, Keeps: []*Var{x, y}, Reads: true, Forward: func() *tensor.Matrix {
			z := t.NewLike(x, x.rows, p.Groups*p.Rows*p.Cols)
			t.Team.RowProduct(z, x.Value(), y.Value(), p)
			return z
		}, Backward: func(g *tensor.Matrix) {
			var dx, dy *tensor.Matrix
			if x.requiresGrad {
				dx = x.newGrad()
			}
			if y.requiresGrad {
				dy = y.newGrad()
			}
			t.Team.RowProductBackward(dx, dy, g, x.Value(), y.Value(), p)
			g.Release()
			x.AddGrad(dx)
			y.AddGrad(dy)
		},
	})
}

// Reshape returns x in the same memory with other numbers of rows and columns. The result has the RowSet of x
// if it has as many rows.
func Reshape(x *Var, rows, cols int) *Var {
	set := x.set
	if rows != x.rows {
		set = nil
	}
	return reshape(x, rows, cols, set)
}

// ReshapeLike returns x in the same memory with the rows of y, and so many columns.
func ReshapeLike(x, y *Var, cols int) *Var { return reshape(x, y.rows, cols, y.set) }

func reshape(x *Var, rows, cols int, set *RowSet) *Var {
	v := x.tape.Record(Op{
		Inputs: []*Var{x}, Reads: true, Forward: func() *tensor.Matrix {
			return x.Value().Retain().Hold(rows, cols)
		}, Backward: func(g *tensor.Matrix) { x.AddGrad(g.Hold(x.rows, x.cols)) },
	})
	v.set = set
	return v
}

// SumRows returns the sum over the rows on all workers, 1 × cols and Float32. Like a parameter, the sum has
// no RowSet: each worker's gradient is a part of the whole. The backward pass adds up the parts, and gives
// the sum to all rows.
func SumRows(x *Var) *Var {
	t, rows := x.tape, vertices(x)
	sums := make([]float64, x.cols)
	t.Team.SumRows(sums, x.Value())
	v := t.Record(Op{Value: t.sumOf(rows, sums), Inputs: []*Var{x}, Backward: func(g *tensor.Matrix) {
		all := t.overWorkers(rows, g)
		dx := x.newGrad()
		spread := &kernel.Expression{Inputs: 1, Results: []int{0}}
		t.Team.Pointwise([]*tensor.Matrix{dx}, spread, []kernel.Operand{{X: all}})
		all.Release()
		x.AddGrad(dx)
	}})
	v.set = nil
	return v
}

// ProductOverRows returns xᵀ·y, summed over the rows on all workers, as one row of x.Cols()·y.Cols() elements
// in Float32. It takes no memory of that size for each row. Like the result of SumRows, it has no RowSet.
func ProductOverRows(x, y *Var) *Var {
	t, rows := x.tape, vertices(x)
	z := t.element(tensor.Float32, x.cols, y.cols)
	t.Team.MatMulT(z, x.Value(), y.Value(), kernel.Replace)
	in := []*Var{x, y}
	v := t.Record(Op{Value: t.overWorkers(rows, z), Inputs: in, Keeps: in, Backward: func(g *tensor.Matrix) {
		all := t.overWorkers(rows, g).Hold(x.cols, y.cols)
		defer all.Release()
		add := func(operand, by *Var, read kernel.Orientation) {
			if operand.requiresGrad {
				d := operand.newGrad()
				t.Team.MatMul(d, by.Value(), all, read, kernel.Replace)
				operand.AddGrad(d)
			}
		}
		add(x, y, kernel.Transposed)
		add(y, x, kernel.Straight)
	}})
	v.set = nil
	return v
}

// LargestOfRows returns the largest element of each column over the rows on all workers, 1 × cols and
// Float32, without a gradient.
func LargestOfRows(x *Var) *Var {
	t, rows := x.tape, vertices(x)
	largest := make([]float64, x.cols)
	for c := range largest {
		largest[c] = math.Inf(-1)
	}
	if x.rows > 0 {
		e := &kernel.Expression{Inputs: 2}
		e.Results = []int{e.Op(kernel.OpMaximum, 0, 1)}
		m := x.Value().Retain()
		for m.Rows > 1 || m.Element != tensor.Float32 { // the larger of both halves, which may overlap
			half := (m.Rows + 1) / 2
			z := t.element(tensor.Float32, half, x.cols)
			t.Team.Pointwise([]*tensor.Matrix{z}, e, []kernel.Operand{
				{X: m.RowRange(0, half)}, {X: m.RowRange(m.Rows-half, m.Rows)},
			})
			m.Release()
			m = z
		}
		for c, v := range m.ReadFloats() {
			largest[c] = float64(v)
		}
		m.Release()
	}
	rows.Max(largest)
	return t.Record(Op{Value: t.row(largest)})
}

// vertices returns the RowSet of x. It panics if the rows are not vertices.
func vertices(x *Var) *RowSet {
	if x.set == nil || x.set.Total == NotVertices {
		panic("autograd: over all vertices, of rows that are not vertices")
	}
	return x.set
}

// sumOf adds up the numbers of all workers that hold some of the rows. It returns the sums, 1 × n in Float32.
func (t *Tape) sumOf(rows *RowSet, numbers []float64) *tensor.Matrix {
	rows.Sum(numbers)
	return t.row(numbers)
}

// overWorkers is sumOf for the elements of m, which it releases.
func (t *Tape) overWorkers(rows *RowSet, m *tensor.Matrix) *tensor.Matrix {
	numbers := make([]float64, m.Len())
	for i, x := range m.ReadFloats() {
		numbers[i] = float64(x)
	}
	m.Release()
	return t.sumOf(rows, numbers)
}

// row returns the numbers as a 1 × n matrix in Float32.
func (t *Tape) row(numbers []float64) *tensor.Matrix {
	z := t.element(tensor.Float32, 1, len(numbers))
	for c := range z.WriteFloats() {
		z.Floats()[c] = float32(numbers[c])
	}
	return z
}
