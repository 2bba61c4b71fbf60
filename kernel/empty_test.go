package kernel_test

import (
	"slices"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestEmpty calls the kernels that an axis calls on matrices without columns, without rows, and without both:
// a slice may have no columns, and a worker no rows. A matrix without columns still has its edges, also those
// of a hub.
func TestEmpty(t *testing.T) {
	for _, shape := range [][2]int{{40, 0}, {0, 7}, {0, 0}} {
		with(t, func(s *suite) { s.empty(shape[0], shape[1]) })
	}
	with(t, func(s *suite) { // a row long enough to be cut
		a := s.rows(40, [][]int32{make([]int32, 20_000)})
		a.FindSegments()
		s.emptySums(a, 0)
	})
}

func (s *suite) empty(rows, cols int) {
	team, a := s.team, s.rows(0, nil)
	if rows > 0 {
		a = s.tangled(rows, 30)
	}
	s.emptySums(a, cols)
	x, y, z := s.normal(rows, cols), s.normal(rows, cols), s.blank(rows, cols)
	row := s.normal(1, cols)
	team.Add(z, 1, x, 1, y)
	team.Scale(z, 2, x)
	team.Copy(z, x)
	team.Multiply(z, x, y)
	team.Finish(z, x, row, kernel.ReLU, kernel.Mask{})
	team.FinishBackward(z, nil, x, y, kernel.ReLU, kernel.Mask{})
	team.ColumnSums(row, x, y)
	team.Zero(z)
	all := s.ints(s.permutation(rows).Int32s())
	team.Gather(z, x, all)
	team.Scatter(z, x, all)
	team.ScatterAdd(z, x, all)
	for _, to := range []kernel.Output{kernel.Replace, kernel.Accumulate} {
		team.Columns(z, 0, x, 0, cols, to)
		team.PutColumns(z, x, all, 0, to)
		team.PutColumns(z, x, nil, 0, to)
	}
	team.PickColumns(z, x, all, 0)
	team.PickColumns(z, x, nil, 0)
	wide := s.normal(rows, 5)
	before := slices.Clone(wide.Floats())
	none := s.blank(rows, 0)
	for _, from := range []int{0, 5} { // an empty slice, also of a matrix with columns
		team.PutColumns(wide, none, all, from, kernel.Accumulate)
		team.PickColumns(none, wide, all, from)
		team.Columns(wide, from, none, 0, 0, kernel.Replace)
	}
	if !slices.Equal(wide.Floats(), before) {
		s.t.Fatalf("%d rows: no columns were put somewhere", rows)
	}
	s.emptyHeads(rows, cols)
}

// emptyHeads tests heads without columns, whose dot products are 0, and no heads at all.
func (s *suite) emptyHeads(rows, cols int) {
	for _, heads := range []int{0, 1, 3} {
		x, row, out := s.normal(rows, heads*cols), s.normal(1, heads*cols), s.blank(rows, heads)
		s.team.HeadDot(out, x, row)
		for _, v := range out.Floats() {
			if v != 0 {
				s.t.Fatalf("%d heads of no columns: a dot product is %v", heads, v)
			}
		}
		s.team.RowDots(out, x, x)
		s.team.HeadDotBackward(s.copy(x), s.copy(row), out, x, row)
	}
}

// emptySums tests sums and maxima of no columns, or of no rows.
func (s *suite) emptySums(a *kernel.CSR, cols int) {
	team := s.team
	x, z := s.normal(a.Cols, cols), s.blank(a.Rows, cols)
	row, col := s.positive(a.Rows, 1), s.positive(a.Cols, 1)
	transposed := team.Transpose(a, tensor.Graph)
	defer transposed.Release()
	if transposed.Rows != a.Cols || transposed.Cols != a.Rows || transposed.Entries() != a.Entries() {
		s.t.Fatalf("the transpose of %d×%d with %d entries is %d×%d with %d",
			a.Rows, a.Cols, a.Entries(), transposed.Rows, transposed.Cols, transposed.Entries())
	}
	arg := s.int32s(a.Rows, cols)
	for _, to := range []kernel.Output{kernel.Replace, kernel.Accumulate} {
		team.SpMM(z, a, x, kernel.Scales{Row: row, Col: col}, to)
		team.SpMM(x, transposed, z, kernel.Scales{}, to)
		team.Max(z, arg, a, x, nil, nil, to)
	}
	team.MaxBackward(x, transposed, z, arg, nil, nil)
}
