package kernel_test

import (
	"math"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

func conformMapColumns(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		x := s.stored(rows+1, cols)
		x = x.RowRange(1, rows+1)
		lists := make([][]int32, cols/2+2) // the last is empty
		for c := range lists[1:] {
			for range s.r.IntN(5) {
				lists[c] = append(lists[c], int32(s.r.IntN(cols)))
			}
		}
		single := make([]int32, 2*cols)
		for c := range single {
			single[c] = int32(s.r.IntN(cols))
		}
		sum := make([]int32, cols)
		for c := range sum {
			sum[c] = int32(c)
		}
		for k, m := range []*kernel.ColumnMap{
			kernel.NewColumnMap(cols, -.5, lists...), kernel.Selection(cols, single),
			kernel.NewColumnMap(cols, 1/float32(cols), sum),
		} {
			for _, m := range []*kernel.ColumnMap{m, m.Transpose()} {
				input := x
				if m.From != cols {
					input = s.stored(rows, m.From)
				}
				s.types(input, func(x *tensor.Matrix, to tensor.Element) {
					z := s.blankOf(to, rows, m.To())
					want, terms := reference.New(rows, m.To()), reference.New(rows, m.To())
					s.team.MapColumns(z, x, m)
					source := exact(x)
					for i := range rows {
						for c := range m.To() {
							for k := m.Begin[c]; k < m.Begin[c+1]; k++ {
								v := float64(m.Weights[k]) * source.At(i, int(m.Columns[k]))
								want.Add(i, c, v)
								terms.Add(i, c, math.Abs(v))
							}
						}
					}
					s.sums(case_("rows", rows, "columns", cols, "map", k), z, want.Data, terms.Data, 1)
				})
			}
		}
	})
	with(s.t, func(s *suite) { // each column is in both lists
		m := kernel.NewColumnMap(4, 2, []int32{3, 1}, nil, []int32{1})
		assert.Equal(s.t, []int32{0, 0, 2, 2, 3}, m.Transpose().Begin)
		assert.Equal(s.t, []int32{0, 2, 0}, m.Transpose().Columns)
		assert.Equal(s.t, true, m.Transpose().Transpose() == m)
	})
}

var groupFunctions = map[string]kernel.GroupFunction{
	"max": kernel.GroupMax, "min": kernel.GroupMin, "first_max": kernel.GroupFirstMax,
	"first_min": kernel.GroupFirstMin, "softmax": kernel.GroupSoftmax,
	"log_softmax": kernel.GroupLogSoftmax, "log_sum_exp": kernel.GroupLogSumExp,
}

// groupwise returns the matrix of a function of the groups of each row of some matrices.
func groupwise(groups int, f func(group ...[]float64) []float64, xs ...*reference.Matrix) *reference.Matrix {
	z := &reference.Matrix{Rows: xs[0].Rows}
	for k := range z.Rows * groups {
		var parts [][]float64
		for _, m := range xs {
			n := m.Cols / groups
			parts = append(parts, m.Data[k*n:(k+1)*n])
		}
		z.Data = append(z.Data, f(parts...)...)
	}
	return z
}

func conformGroups(s *suite) {
	s.heads(func(s *suite, rows, groups, width int) {
		x := s.normal(rows, groups*width)
		for i := range x.Floats() { // some numbers are equal, and some far away
			switch i % 5 {
			case 0:
				x.Floats()[i] = float32(i % 3)
			case 1:
				x.Floats()[i] *= 40
			}
		}
		x = s.as(s.storage, x)
		for name, f := range groupFunctions {
			what := case_("rows", rows, "groups", groups, "width", width, name)
			z := s.unwritten(rows, f.Columns(groups, x.Cols))
			s.team.Groups(z, x, groups, f)
			want := groupwise(groups, func(group ...[]float64) []float64 {
				return reference.GroupFunctions[name](group[0])
			}, exact(x))
			s.elements(what, z, want.Data, 16+math.Sqrt(float64(width)))
			g, dx := s.stored(rows, z.Cols), s.unwritten(rows, x.Cols)
			s.team.GroupsBackward(dx, g, x, z, groups, f)
			back := groupwise(groups, func(group ...[]float64) []float64 {
				return reference.GroupFunctionsBackward[name](group[0], group[1])
			}, exact(x), exact(g))
			// a sum over the group is subtracted, and the output was rounded
			allowed := (32*u*(1+float64(width)) + 8*roundoff(s.storage)*math.Max(1, largest(want.Data))) *
				largest(exact(g).Data)
			s.within(what+", gradient", dx, back.Data, func(int) float64 { return allowed })
			if f.Softmax() {
				over := s.copy(g)
				s.team.GroupsBackward(over, over, nil, z, groups, f)
				if !same(over, dx) {
					s.t.Fatalf("%s: in place gives other numbers", what)
				}
			}
		}
	})
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		f       kernel.GroupFunction
		x, want []float32
	}{
		{kernel.GroupMax, []float32{1, nan, 3}, []float32{nan}},
		{kernel.GroupMin, []float32{nan, -inf, 3}, []float32{nan}},
		{kernel.GroupMax, []float32{-inf, -inf}, []float32{-inf}},
		{kernel.GroupMin, []float32{inf, inf}, []float32{inf}},
		{kernel.GroupLogSumExp, []float32{-inf, -inf}, []float32{-inf}},
		{kernel.GroupLogSumExp, []float32{inf, 0}, []float32{inf}},
		{kernel.GroupSoftmax, []float32{-inf, 0}, []float32{0, 1}},
		{kernel.GroupSoftmax, []float32{1, nan}, []float32{nan, nan}},
		{kernel.GroupLogSoftmax, []float32{-inf, 0}, []float32{-inf, 0}},
	} {
		z := s.blank(1, len(c.want))
		s.team.Groups(z, s.row(c.x...), 1, c.f)
		alike := func(a, b float32) bool { return a == b || a != a && b != b }
		if !slices.EqualFunc(z.Floats(), c.want, alike) {
			s.t.Errorf("function %d of %v is %v, want %v", c.f, c.x, z.Floats(), c.want)
		}
	}
}

func conformRowProduct(s *suite) {
	s.each([]int{0, 1, 9}, func(s *suite, rows int) {
		for _, p := range []kernel.RowProduct{
			{1, 1, 1, 1},
			{2, 3, 4, 5},
			{1, 1, 33, 1},
			{3, 7, 1, 17},
			{1, 4, 20, 35},
			{2, 1, 602, 3},
			{2, 2, 0, 3},
		} {
			z, x, y := s.unwritten(rows, p.Groups*p.Rows*p.Cols), s.stored(rows, p.Groups*p.Rows*p.Inner),
				s.stored(rows, p.Groups*p.Inner*p.Cols)
			g, dx, dy := s.stored(rows, z.Cols), s.unwritten(rows, x.Cols), s.unwritten(rows, y.Cols)
			s.team.RowProduct(z, x, y, p)
			s.team.RowProductBackward(dx, dy, g, x, y, p)
			part := func(m *tensor.Matrix, k, rows, cols int) *reference.Matrix {
				n := rows * cols
				return &reference.Matrix{Rows: rows, Cols: cols, Data: exact(m).Data[k*n : (k+1)*n]}
			}
			var want, terms [3][]float64
			for k := range rows * p.Groups {
				x, y := part(x, k, p.Rows, p.Inner), part(y, k, p.Inner, p.Cols)
				g := part(g, k, p.Rows, p.Cols)
				for n, factors := range [][2]*reference.Matrix{
					{x, y}, {g, y.Transpose()}, {x.Transpose(), g},
				} {
					want[n] = append(want[n], reference.MatMul(factors[0], factors[1]).Data...)
					terms[n] = append(terms[n],
						reference.MatMul(magnitudes(factors[0]), magnitudes(factors[1])).Data...)
				}
			}
			for n, m := range []*tensor.Matrix{z, dx, dy} {
				s.sums(case_("rows", rows, p, n), m, want[n], terms[n], max(p.Rows, p.Inner, p.Cols))
			}
		}
	})
}

func conformSumRows(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		x, sums := s.stored(rows, cols), s.unset(cols)
		s.team.SumRows(sums, x)
		want, terms := make([]float64, cols), make([]float64, cols)
		for i, v := range exact(x).Data {
			want[i%cols] += v
			terms[i%cols] += math.Abs(v)
		}
		for c := range cols {
			if !(math.Abs(sums[c]-want[c]) <= sumError(32)*terms[c]) {
				s.t.Fatalf("%d×%d: column %d sums to %v, want %v", rows, cols, c, sums[c], want[c])
			}
		}
	})
}

// TestPointwiseElsewhere: for an expression, a map and a product, a device copies back what they need, and no
// more.
func TestPointwiseElsewhere(t *testing.T) {
	for _, has := range []bool{false, true} {
		team := kernel.NewTeamElsewhere(has)(2, tensor.NewMeter())
		defer team.Memory.Close()
		s := &suite{t, team, random(), tensor.Float32}
		for name, run := range map[string]func(*suite){
			"operands": (*suite).allOperands, "columns": (*suite).mappedElsewhere,
		} {
			t.Run(case_(name, has), func(t *testing.T) { run(&suite{t, s.team, s.r, s.storage}) })
		}
	}
}

func (s *suite) mappedElsewhere() {
	x, z := s.normal(40, 3), s.blank(40, 2)
	s.team.MapColumns(z, x, kernel.Selection(3, []int32{2, 0}))
	for i := range 40 {
		assert.Equal(s.t, []float32{x.Floats()[i*3+2], x.Floats()[i*3]}, z.Floats()[i*2:i*2+2])
	}
}
