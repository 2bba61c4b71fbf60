package kernel_test

import (
	"math"

	"weft/kernel"
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

func conformColumns(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		for _, add := range []bool{false, true} {
			what := case_("rows", rows, "columns", cols, "added", add)
			z, x := s.normal(rows, cols+5), s.normal(rows, cols+2)
			want := append([]float32(nil), z.Floats()...)
			for i := range rows {
				for c := range cols {
					at, v := i*(cols+5)+3+c, x.Floats()[i*(cols+2)+1+c]
					if add {
						v += want[at]
					}
					want[at] = v
				}
			}
			s.team.Columns(z, 3, x, 1, cols, kernel.Output(add))
			for k, w := range want {
				if z.Floats()[k] != w {
					s.t.Fatalf("%s: number %d is %v, want %v", what, k, z.Floats()[k], w)
				}
			}
		}
	})
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
