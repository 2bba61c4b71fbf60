package kernel_test

import (
	"math"

	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/tensor"
)

// types runs a test of a kernel with two operands in storage, which may have different types. If the suite's
// type is Float32, both have it; otherwise it runs for every pair with a BFloat16. The first operand is x,
// converted.
func (s *suite) types(x *tensor.Matrix, run func(x *tensor.Matrix, other tensor.Element)) {
	run(x, s.storage)
	if s.storage == tensor.BFloat16 {
		run(x, tensor.Float32)
		run(s.as(tensor.Float32, x), tensor.BFloat16)
	}
}

func conformMatMul(s *suite) {
	checkOf := func(s *suite, x *tensor.Matrix, out int) {
		for _, transposed := range []bool{false, true} {
			rows, in, w := x.Rows, x.Cols, s.normal(x.Cols, out)
			if transposed {
				w = s.normal(out, in)
			}
			s.types(x, func(x *tensor.Matrix, element tensor.Element) {
				factor := exact(w)
				if x.Element == tensor.BFloat16 && (kernel.MultipliesBFloat16() || kerneltest.OnCard()) {
					factor = exact(s.as(tensor.BFloat16, w))
				}
				if transposed {
					factor = factor.Transpose()
				}
				want, terms := reference.MatMul(exact(x), factor),
					reference.MatMul(magnitudes(exact(x)), magnitudes(factor))
				z := s.blankOf(element, rows, out)
				s.team.MatMul(z, x, w, kernel.Orientation(transposed), kernel.Replace)
				what := case_(rows, in, out, "transposed", transposed, "types", x.Element, element)
				s.sums(what, z, want.Data, terms.Data, in)
				more := s.as(element, s.normal(rows, out))
				want, terms = want.Plus(exact(more)), terms.Plus(magnitudes(exact(more)))
				s.team.MatMul(more, x, w, kernel.Orientation(transposed), kernel.Accumulate)
				s.sums(what+", accumulated", more, want.Data, terms.Data, in)
			})
		}
	}
	check := func(s *suite, rows, in, out int) { checkOf(s, s.stored(rows, in), out) }
	s.each(heights, func(s *suite, rows int) {
		for _, shape := range [][2]int{{1, 1}, {0, 3}, {3, 0}, {1, 5}, {19, 1}, {16, 8}, {33, 17}} {
			check(s, rows, shape[0], shape[1])
		}
	})
	s.each(widths, func(s *suite, width int) {
		check(s, 7, width, 5)
		check(s, 7, 5, width)
	})
	with(s.t, func(s *suite) { check(s, 40, 600, 300) })
	s.each([]int{1, 3, 4, 8}, func(s *suite, from int) { // x begins at different offsets from 16 bytes
		const rows, in = 9, 72
		checkOf(s, s.stored(from+rows*in, 1).RowRange(from, from+rows*in).Reshape(rows, in), 40)
	})
}

func conformMatMulT(s *suite) {
	check := func(s *suite, rows, in, out int) {
		x, g := s.stored(rows, in), s.stored(rows, out)
		want, terms := reference.MatMulTransA(exact(x), exact(g)),
			reference.MatMulTransA(magnitudes(exact(x)), magnitudes(exact(g)))
		s.types(x, func(x *tensor.Matrix, element tensor.Element) {
			g, z := s.as(element, g), s.blank(in, out)
			s.team.MatMulT(z, x, g, kernel.Replace)
			s.sums(case_(rows, in, out), z, want.Data, terms.Data, rows)
			more := s.normal(in, out)
			want, terms := want.Plus(exact(more)), terms.Plus(magnitudes(exact(more)))
			s.team.MatMulT(more, x, g, kernel.Accumulate)
			s.sums(case_(rows, in, out, "accumulated"), more, want.Data, terms.Data, rows)
		})
	}
	// 40000 rows: more tiles than partial sums
	s.each(append([]int{40000}, heights...), func(s *suite, rows int) {
		for _, shape := range [][2]int{{1, 1}, {0, 3}, {3, 0}, {1, 5}, {7, 1}, {5, 8}} {
			check(s, rows, shape[0], shape[1])
		}
	})
	s.each(widths, func(s *suite, width int) {
		check(s, 70, width, 5)
		check(s, 70, 5, width)
	})
	withStorage(s.t, s.storage, func(s *suite) { // blocks of 288 and 512 columns, of 129 rows; panels of every width
		for _, shape := range [][3]int{
			{700, 290, 40},
			{700, 530, 40},
			{300, 41, 515},
			{1100, 29, 77},
			{210, 290, 514},
			{1030, 290, 514}, // several blocks in both directions, each of several sums
			{9000, 16, 33},
			{8800, 530, 5},
			{600, 547, 7},
			{130, 64, 64},
			{2048, 8, 24}, // whole pages; nothing behind them may be read
		} {
			check(s, shape[0], shape[1], shape[2])
		}
	})
	s.each([]int{1, 127, 257, 1301}, func(s *suite, rows int) { // memory behind the rows must not matter
		const in, out = 37, 21
		x, g, z := s.stored(rows+1, in), s.stored(rows+1, out), s.blank(in, out)
		for _, m := range []*tensor.Matrix{x, g} {
			s.team.Fill(m.RowRange(rows, rows+1), float32(math.NaN()))
		}
		x, g = x.RowRange(0, rows), g.RowRange(0, rows)
		s.team.MatMulT(z, x, g, kernel.Replace)
		s.sums(case_(rows, in, out, "of more"), z, reference.MatMulTransA(exact(x), exact(g)).Data,
			reference.MatMulTransA(magnitudes(exact(x)), magnitudes(exact(g))).Data, rows)
	})
}
