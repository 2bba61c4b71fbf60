package kernel_test

import (
	"math"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// Kernels that message functions are made of.

func conformRows(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		list := s.permutation(rows + 3).Int32s()[:rows] // of rows + 3: each at most once
		picked := s.ints(list)
		x, z := s.normal(rows+3, cols), s.blank(rows, cols)
		s.team.Gather(z, x, picked)
		for i, row := range list {
			for c := range cols {
				if z.Floats()[i*cols+c] != x.Floats()[int(row)*cols+c] {
					s.t.Fatalf("%s: row %d of the gathered is not row %d", what, i, row)
				}
			}
		}
		back := s.blank(rows+3, cols)
		s.team.Copy(back, x)
		moved := s.normal(rows, cols)
		s.team.Scatter(back, moved, picked)
		s.team.Gather(z, back, picked)
		for k, v := range moved.Floats() {
			if z.Floats()[k] != v {
				s.t.Fatalf("%s: number %d is not where it was put", what, k)
			}
		}
		s.team.Gather(z, x, picked)
		want := append([]float32(nil), x.Floats()...)
		for i, row := range list {
			for c := range cols {
				want[int(row)*cols+c] += z.Floats()[i*cols+c]
			}
		}
		s.team.ScatterAdd(x, z, picked)
		for k, w := range want {
			if x.Floats()[k] != w {
				s.t.Fatalf("%s: number %d is %v after the addition, want %v", what, k, x.Floats()[k], w)
			}
		}
	})
}

// conformColumns copies and adds columns between matrices, all rows and listed ones.
func conformColumns(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		for _, to := range []kernel.Output{kernel.Replace, kernel.Accumulate} {
			what := case_("rows", rows, "columns", cols, "added", to)
			z, x := s.normal(rows, cols+5), s.normal(rows, cols+2)
			want := exact(z)
			reference.PutColumns(want, reference.PickColumns(exact(x), nil, 1, cols), nil, 3, to == kernel.Accumulate)
			s.team.Columns(z, 3, x, 1, cols, to)
			s.rounded(what, z, want)
			for _, list := range []*tensor.Matrix{nil, s.ints(s.permutation(rows + 3).Int32s()[:rows])} {
				s.someColumns(case_(what, "listed", list != nil), rows, cols, list, to)
			}
		}
	})
}

// someColumns picks columns of the listed rows of a matrix, and puts others there. Packed rows beyond the
// list are left alone.
func (s *suite) someColumns(what string, rows, cols int, list *tensor.Matrix, to kernel.Output) {
	whole, packed := s.normal(rows, cols+5), s.normal(rows, cols)
	var listed []int32
	if list != nil {
		whole, packed, listed = s.normal(rows+3, cols+5), s.normal(rows+1, cols), list.Int32s()
	}
	picked := reference.PickColumns(exact(whole), listed, 2, cols)
	want := exact(packed)
	copy(want.Data, picked.Data)
	put := exact(whole)
	s.team.PickColumns(packed, whole, list, 2)
	s.rounded(what+", picked", packed, want)
	given := s.normal(packed.Rows, cols)
	reference.PutColumns(put, exact(given), listed, 2, to == kernel.Accumulate)
	s.team.PutColumns(whole, given, list, 2, to)
	s.rounded(what+", put", whole, put)
}

// rounded fails unless the numbers are the exact ones, rounded to single precision.
func (s *suite) rounded(what string, got *tensor.Matrix, want *reference.Matrix) {
	s.t.Helper()
	for k, w := range want.Data {
		if got.Floats()[k] != float32(w) {
			s.t.Fatalf("%s: number %d is %v, want %v", what, k, got.Floats()[k], float32(w))
		}
	}
}

func conformHeadScale(s *suite) {
	s.heads(func(s *suite, rows, heads, width int) {
		x, factors, z := s.normal(rows, heads*width), s.normal(rows, heads), s.blank(rows, heads*width)
		s.team.HeadScale(z, x, factors)
		for k, v := range x.Floats() {
			if want := v * factors.Floats()[k/width]; z.Floats()[k] != want {
				s.t.Fatalf("%s: number %d is %v, want %v", case_("rows", rows, "heads", heads, "width", width), k, z.Floats()[k], want)
			}
		}
	})
}

func conformElements(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		x, z := s.normal(rows, cols), s.blank(rows, cols)
		if x.Len() > 0 {
			x.Floats()[0] = 0
		}
		want, inverse := make([]float64, x.Len()), make([]float64, x.Len())
		for k, v := range x.Floats() {
			want[k] = math.Exp(float64(v))
			if v != 0 {
				inverse[k] = float64(1 / v)
			}
		}
		s.team.Exp(z, x)
		s.elements(what+", exponential", z.Floats(), want, 8)
		s.team.Reciprocal(z, x)
		s.elements(what+", reciprocal", z.Floats(), inverse, 1)
	})
}
