package kernel_test

import (
	"math"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// The suite's tests of kernels that message functions are made of.

func conformRows(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		list := s.permutation(rows + 3).Int32s()[:rows] // a list of rows: each at most once
		picked := s.ints(list)
		x, z := s.stored(rows+3, cols), s.unwritten(rows, cols)
		s.team.Gather(z, x, picked)
		for i, row := range list {
			if !same(z.RowRange(i, i+1), x.RowRange(int(row), int(row)+1)) {
				s.t.Fatalf("%s: row %d of the gathered is not row %d", what, i, row)
			}
		}
		back := s.unwritten(rows+3, cols)
		s.team.Copy(back, x)
		moved := s.stored(rows, cols)
		s.team.Scatter(back, moved, picked)
		s.team.Gather(z, back, picked)
		if !same(z, moved) {
			s.t.Fatalf("%s: a row is not where it was put", what)
		}
		s.team.Gather(z, x, picked)
		for _, to := range []*tensor.Matrix{s.as(tensor.Float32, s.copy(x)), x} {
			want, source := exact(to), exact(z)
			for i, row := range list {
				for c := range cols {
					want.Add(int(row), c, source.At(i, c))
				}
			}
			s.team.ScatterAdd(to, z, picked)
			s.rounded(what+", added", to, want)
		}
	})
}

// conformColumns copies and adds columns between matrices, in all rows and in listed ones.
func conformColumns(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		for _, to := range []kernel.Output{kernel.Replace, kernel.Accumulate} {
			what := case_("rows", rows, "columns", cols, "added", to)
			x := s.stored(rows, cols+2)
			for _, z := range []*tensor.Matrix{s.stored(rows, cols+5), s.normal(rows, cols+5)} {
				if z.Element != x.Element && to == kernel.Replace {
					continue
				}
				want := exact(z)
				reference.PutColumns(want, reference.PickColumns(exact(x), nil, 1, cols), nil, 3,
					to == kernel.Accumulate)
				s.team.Columns(z, 3, x, 1, cols, to)
				s.rounded(what, z, want)
			}
			for _, list := range []*tensor.Matrix{nil, s.ints(s.permutation(rows + 3).Int32s()[:rows])} {
				s.someColumns(case_(what, "listed", list != nil), rows, cols, list, to)
			}
		}
	})
}

// someColumns picks columns of the listed rows of a matrix, and puts columns there. Packed rows beyond the
// list must be left alone.
func (s *suite) someColumns(what string, rows, cols int, list *tensor.Matrix, to kernel.Output) {
	whole, packed := s.stored(rows, cols+5), s.stored(rows, cols)
	var listed []int32
	if list != nil {
		whole, packed, listed = s.stored(rows+3, cols+5), s.stored(rows+1, cols), list.Int32s()
	}
	picked := reference.PickColumns(exact(whole), listed, 2, cols)
	want := exact(packed)
	copy(want.Data, picked.Data)
	put := exact(whole)
	s.team.PickColumns(packed, whole, list, 2)
	s.rounded(what+", picked", packed, want)
	input := s.stored(packed.Rows, cols)
	reference.PutColumns(put, exact(input), listed, 2, to == kernel.Accumulate)
	s.team.PutColumns(whole, input, list, 2, to)
	s.rounded(what+", put", whole, put)
}

// rounded fails unless the numbers are the exact ones, rounded to single precision and then to the matrix's
// type.
func (s *suite) rounded(what string, got *tensor.Matrix, want *reference.Matrix) {
	s.t.Helper()
	actual := numbers(got)
	for k, w := range want.Data {
		v := float32(w)
		if got.Element == tensor.BFloat16 {
			v = tensor.FromBFloat16(tensor.RoundBFloat16(v))
		}
		if actual[k] != v {
			s.t.Fatalf("%s: number %d is %v, want %v", what, k, actual[k], v)
		}
	}
}

func conformHeadScale(s *suite) {
	s.heads(func(s *suite, rows, heads, width int) {
		x, factors, z := s.stored(rows, heads*width), s.normal(rows, heads), s.unwritten(rows, heads*width)
		s.team.HeadScale(z, x, factors)
		want := exact(x)
		for k := range want.Data {
			want.Data[k] *= float64(factors.Floats()[k/width])
		}
		s.rounded(case_("rows", rows, "heads", heads, "width", width), z, want)
	})
}

func conformElements(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		x, z := s.normal(rows, cols), s.unwritten(rows, cols)
		if x.Len() > 0 {
			x.Floats()[0] = 0
		}
		x = s.as(s.storage, x)
		want, inverse, ofX := make([]float64, x.Len()), make([]float64, x.Len()), numbers(x)
		for k, v := range ofX {
			want[k] = math.Exp(float64(v))
			if v != 0 {
				inverse[k] = float64(1 / v)
			}
		}
		s.team.Exp(z, x)
		s.elements(what+", exponential", z, want, 8)
		s.team.Reciprocal(z, x)
		s.elements(what+", reciprocal", z, inverse, 1)
		const least = .25
		for k, v := range ofX {
			if want[k] = 0; v > least {
				want[k] = math.Sqrt(float64(v))
			}
		}
		s.team.Sqrt(z, x, least)
		s.elements(what+", root", z, want, 1)
		for k, v := range numbers(z) {
			if want[k] = 0; v != 0 {
				want[k] = float64(ofX[k]) / (2 * float64(v))
			}
		}
		s.team.SqrtBackward(z, x, z)
		s.elements(what+", gradient of the root", z, want, 2)
	})
}
