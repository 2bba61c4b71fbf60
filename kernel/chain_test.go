package kernel_test

import (
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/tensor"
)

// TestChains: kernels that run tile by tile give the same bits as one after the other over all rows, for
// heights around a tile, and pass over the matrices once.
func TestChains(t *testing.T) {
	for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		for _, rows := range []int{0, 1, 1023, 1024, 1025, 5000} {
			withStorage(t, storage, func(s *suite) { chains(s, rows) })
		}
	}
}

func chains(s *suite, rows int) {
	const heads, width = 3, 11
	const cols, float = heads * width, 4
	streamed := 0
	s.team.Watch = func(c kernel.Call, run func()) {
		streamed += c.Bytes.Streamed
		run()
	}
	same := func(what string, passes int, apart, together func() []*tensor.Matrix) {
		s.t.Helper()
		want := apart()
		streamed = 0
		got := together()
		assert.Equal(s.t, passes, streamed, "%s, %d rows: bytes", what, rows)
		for k := range want {
			if !slices.Equal(values(want[k]), values(got[k])) {
				s.t.Errorf("%s, %d rows of element type %d: result %d has other bits", what, rows,
					s.storage, k)
			}
		}
	}
	z, y, a, b, bias := s.stored(rows, cols), s.stored(rows, cols), s.normal(1, cols), s.normal(1, cols),
		s.normal(1, cols)
	row := rows * cols * z.Element.Size()
	mask := kernel.NewMask(11, .4, nil)
	for act := range activations {
		same(case_("finish backward", act), 3*row, func() []*tensor.Matrix {
			dx, sum := s.unwritten(rows, cols), s.copy(bias)
			s.team.FinishBackward(dx, nil, y, z, act, mask)
			s.team.ColumnSums(sum, dx, nil)
			return []*tensor.Matrix{dx, sum}
		}, func() []*tensor.Matrix {
			dx, sum := s.copy(y), s.copy(bias)
			streamed = 0
			if act == kernel.Identity {
				streamed = row // it reads no z
			}
			s.team.FinishBackward(dx, sum, dx, z, act, mask)
			return []*tensor.Matrix{dx, sum}
		})
	}
	scores := func() []*tensor.Matrix { return []*tensor.Matrix{s.blank(rows, heads), s.blank(rows, heads)} }
	same("head dots", row+2*rows*heads*float, func() []*tensor.Matrix {
		dots := scores()
		s.team.HeadDot(dots[0], z, a)
		s.team.HeadDot(dots[1], z, b)
		return dots
	}, func() []*tensor.Matrix {
		dots := scores()
		streamed = 0
		s.team.HeadDots(z, kernel.HeadVector{A: a, Score: dots[0]}, kernel.HeadVector{A: b, Score: dots[1]})
		return dots
	})
	da, db := s.normal(rows, heads), s.normal(rows, heads)
	same("head dots backward", 3*row+2*rows*heads*float, func() []*tensor.Matrix {
		dz, sumA, sumB := s.copy(y), s.copy(bias), s.copy(bias)
		s.team.HeadDotBackward(dz, sumA, da, z, a)
		s.team.HeadDotBackward(dz, sumB, db, z, b)
		return []*tensor.Matrix{dz, sumA, sumB}
	}, func() []*tensor.Matrix {
		dz, sumA, sumB := s.copy(y), s.copy(bias), s.copy(bias)
		streamed = 0
		s.team.HeadDotsBackward(dz, z, kernel.HeadGradient{A: a, DA: sumA, DScore: da},
			kernel.HeadGradient{A: b, DA: sumB, DScore: db})
		return []*tensor.Matrix{dz, sumA, sumB}
	})
}
