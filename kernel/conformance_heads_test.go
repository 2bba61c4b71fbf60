package kernel_test

import (
	"math"

	"weft/kernel/reference"
)

// The suite's tests of kernels over the heads of a row.

// headDots returns ⟨x_ih, y_ih⟩ over the width of each head. y has a row for each row of x, or one for all.
func headDots(x, y *reference.Matrix, heads int) *reference.Matrix {
	out := reference.New(x.Rows, heads)
	width := x.Cols / heads
	for i := range x.Rows {
		for c := range x.Cols {
			out.Add(i, c/width, x.At(i, c)*y.At(i%y.Rows, c))
		}
	}
	return out
}

// heads runs a test for shapes of a few heads.
func (s *suite) heads(run func(s *suite, rows, heads, width int)) {
	s.shapes(func(s *suite, rows, width int) {
		for _, heads := range []int{1, 3} {
			run(s, rows, heads, width)
		}
	})
}

func conformHeadDot(s *suite) {
	s.heads(func(s *suite, rows, heads, width int) {
		what, cols := case_("rows", rows, "heads", heads, "width", width), heads*width
		z, a, out := s.stored(rows, cols), s.normal(1, cols), s.blank(rows, heads)
		s.team.HeadDot(out, z, a)
		s.sums(what, out, headDots(exact(z), exact(a), heads).Data,
			headDots(magnitudes(exact(z)), magnitudes(exact(a)), heads).Data, width)

		dOut, dz, da := s.normal(rows, heads), s.stored(rows, cols), s.normal(1, cols)
		wantZ, wantA, input := exact(dz), exact(da), numbers(z)
		termsA := magnitudes(wantA)
		for i := range rows {
			for c := range cols {
				g := float64(dOut.Floats()[i*heads+c/width])
				wantZ.Add(i, c, g*float64(a.Floats()[c]))
				wantA.Add(0, c, g*float64(input[i*cols+c]))
				termsA.Add(0, c, math.Abs(g*float64(input[i*cols+c])))
			}
		}
		s.team.HeadDotBackward(dz, da, dOut, z, a)
		s.elements(what+", dz", dz, wantZ.Data, 8)
		s.sums(what+", da", da, wantA.Data, termsA.Data, 1)
	})
}

func conformRowDots(s *suite) {
	s.heads(func(s *suite, rows, heads, width int) {
		x, y, out := s.stored(rows, heads*width), s.stored(rows, heads*width), s.blank(rows, heads)
		s.team.RowDots(out, x, y)
		if rows == 0 {
			return
		}
		s.sums(case_("rows", rows, "heads", heads, "width", width), out,
			headDots(exact(x), exact(y), heads).Data,
			headDots(magnitudes(exact(x)), magnitudes(exact(y)), heads).Data, width)
	})
}

func conformHeadMean(s *suite) {
	s.heads(func(s *suite, rows, heads, width int) {
		what := case_("rows", rows, "heads", heads, "width", width)
		z, g := s.stored(rows, heads*width), s.stored(rows, width)
		mean, dz := s.unwritten(rows, width), s.unwritten(rows, heads*width)
		ofZ, ofG := numbers(z), numbers(g)
		s.team.HeadMean(mean, z)
		s.team.HeadMeanBackward(dz, g)
		want, spread := reference.New(rows, width), reference.New(rows, heads*width)
		for i := range rows {
			for c := range heads * width {
				want.Add(i, c%width, float64(ofZ[i*heads*width+c])/float64(heads))
				spread.Set(i, c, float64(ofG[i*width+c%width])/float64(heads))
			}
		}
		s.elements(what, mean, want.Data, 8)
		s.elements(what+", gradient", dz, spread.Data, 2)
	})
}
