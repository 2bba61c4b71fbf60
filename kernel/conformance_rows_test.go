package kernel_test

import (
	"math"

	"weft/internal/assert"
	"weft/kernel/reference"
	"weft/tensor"
)

// The suite's tests of kernels that run over rows, elements and tiles of rows, and of dense products.

// shapes are widths at a few rows, and a few widths at the heights around a tile.
func (s *suite) shapes(run func(s *suite, rows, cols int)) {
	s.each(widths, func(s *suite, cols int) { run(s, 9, cols) })
	s.each(heights, func(s *suite, rows int) {
		for _, cols := range []int{1, 19} {
			run(s, rows, cols)
		}
	})
}

func conformColumnSums(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		x, y := s.stored(rows, cols), s.stored(rows, cols)
		ofX, ofY := numbers(x), numbers(y)
		for _, with := range []*tensor.Matrix{nil, y} {
			sum := s.normal(1, cols)
			want, terms := values(sum), magnitudesOf(values(sum))
			for i := range rows {
				for c := range cols {
					v := float64(ofX[i*cols+c])
					if with != nil {
						v *= float64(ofY[i*cols+c])
					}
					want[c] += v
					terms[c] += math.Abs(v)
				}
			}
			s.team.ColumnSums(sum, x, with)
			s.sums(case_("rows", rows, "columns", cols, "product", with != nil), sum, want, terms, 1)
		}
	})
}

func conformSumSquares(s *suite) {
	for _, n := range []int{0, 1, 2, 1023, 1024, 1025, 5000} {
		x := s.normal(1, n)
		want := 0.0
		for _, v := range x.Floats() {
			want += float64(v) * float64(v)
		}
		if got := s.team.SumSquares(x); math.Abs(got-want) > 1e-13*want {
			s.t.Errorf("%d numbers: %v, want %v", n, got, want)
		}
	}
}

// conformFinite: one of all elements is not finite.
func conformFinite(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		for _, x := range []float64{3e38, math.NaN(), math.Inf(1), math.Inf(-1)} {
			before, z := s.stored(2, cols), s.normal(rows, cols)
			for _, at := range []int{0, s.r.IntN(rows*cols + 1), rows*cols - 1} {
				if at < 0 || at >= rows*cols {
					continue
				}
				z.Floats()[at] = float32(x)
				input := s.as(s.storage, z)
				want := case_("rows", rows, "columns", cols, "at", at, "of", x)
				read := s.team.Read(s.team.NotFinite(before, input), s.team.NotFinite(before),
					s.team.NotFinite(input, before))
				finite := reference.Finite(exact(input))
				assert.Equal(s.t, []bool{finite, true, finite},
					[]bool{read[0] == 0, read[1] == 0, read[2] == 0}, want)
				z.Floats()[at] = 1
			}
			assert.Equal(s.t, 0, s.team.Read(s.team.NotFinite(before, z))[0], "not finite")
		}
	})
}
