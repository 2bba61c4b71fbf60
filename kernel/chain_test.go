package kernel_test

import (
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/tensor"
)

// TestChains: kernels that go over a tile together give the bits of one after the other over all rows, for
// heights around a tile, and pass over the matrices once.
func TestChains(t *testing.T) {
	for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		for _, rows := range []int{0, 1, 1023, 1024, 1025, 5000} {
			withStorage(t, storage, func(s *suite) { chains(s, rows) })
		}
	}
}

func chains(s *suite, rows int) {
	const cols = 33
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
				s.t.Errorf("%s, %d rows of element type %d: result %d has other bits", what, rows, s.storage, k)
			}
		}
	}
	z, y, bias := s.stored(rows, cols), s.stored(rows, cols), s.normal(1, cols)
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
}
