package kernel_test

import (
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestRowOfAProduct asks for more than agreement with the reference: a row of x·w, and of x·wᵀ, has the same
// bits whatever other rows there are, so that a vertex's result does not depend on how the graph is divided.
// Each width is combined with half of the others, alternately in either type.
func TestRowOfAProduct(t *testing.T) {
	ins, outs := []int{1, 3, 17, 64, 257, 600}, []int{1, 2, 16, 47, 128, 300}
	const rows = 18*kernel.ProductRows + 64 // divided into parts of one call, of two calls, and a remainder
	for i, in := range ins {
		for j, out := range outs {
			if (i+j)%2 == 1 {
				continue
			}
			storage := []tensor.Element{tensor.Float32, tensor.BFloat16}[(i+j)/2%2]
			withStorage(t, storage, func(s *suite) {
				x, w, z, sum := s.stored(rows, in), s.normal(in, out), s.unwritten(rows, out),
					s.stored(rows, out)
				start := s.copy(sum)
				for _, transposed := range []bool{false, true} {
					if transposed {
						w = w.Reshape(out, in)
					}
					s.team.MatMul(z, x, w, kernel.Orientation(transposed), kernel.Replace)
					s.team.Copy(sum, start)
					s.team.MatMul(sum, x, w, kernel.Orientation(transposed), kernel.Accumulate)
					for _, few := range []int{
						1, 2, 3, 7, 15, 16, 17, 76, kernel.ProductRows,
						kernel.ProductRows + 1, 2 * kernel.ProductRows, 1025,
					} {
						for _, from := range []int{0, 13, rows - few} {
							if from+few > rows {
								continue
							}
							what := case_(storage, few, "rows from", from, "of", rows, in, out,
								"transposed", transposed)
							part := x.RowRange(from, from+few)
							y := s.unwritten(few, out)
							s.team.MatMul(y, part, w, kernel.Orientation(transposed), kernel.Replace)
							s.equal(what, y, z.RowRange(from, from+few))
							s.team.Copy(y, start.RowRange(from, from+few))
							s.team.MatMul(y, part, w, kernel.Orientation(transposed), kernel.Accumulate)
							s.equal(what+", accumulated", y, sum.RowRange(from, from+few))
							y.Release()
						}
					}
				}
			})
		}
	}
}

// equal fails unless all numbers have the same bits, apart from the sign of a zero.
func (s *suite) equal(what string, got, want *tensor.Matrix) {
	s.t.Helper()
	is, should := numbers(got), numbers(want)
	for i := range should {
		if is[i] != should[i] { // NaN is equal to nothing
			s.t.Fatalf("%s: number %d of %d is %v, want %v", what, i, len(should), is[i], should[i])
		}
	}
}

// TestProductPastCaches: a result that is written past the caches equals the results for some rows alone,
// which are few enough for the caches.
func TestProductPastCaches(t *testing.T) {
	const rows, in, out, few = 65000, 3, 131, 700 // all rows take more than 32 MB
	with(t, func(s *suite) {
		// z does not begin at a cache line
		x, w, z, y := s.normal(rows, in), s.normal(in, out),
			s.blank(rows+1, out).RowRange(1, rows+1), s.blank(few, out)
		s.team.MatMul(z, x, w, kernel.Straight, kernel.Replace)
		for _, from := range []int{0, 1, rows / 2, rows - few} {
			s.team.MatMul(y, x.RowRange(from, from+few), w, kernel.Straight, kernel.Replace)
			s.equal(case_("rows from", from), y, z.RowRange(from, from+few))
		}
	})
}

// TestScratchOfWeights: a plan knows the scratch of a weight's gradient, which grows with the threads.
func TestScratchOfWeights(t *testing.T) {
	const rows, in, out = 20 * 512, 64, 48
	peak := func(team *kernel.Team) int64 {
		defer team.Memory.Close()
		z := team.Memory.New(tensor.Gradients, in, out)
		team.MatMulT(z, team.Zeros(tensor.Activations, rows, in),
			team.Zeros(tensor.Gradients, rows, out), kernel.Replace)
		return team.Memory.Peak()
	}
	before := int64(0)
	for _, threads := range []int{1, 2, 4, 8} {
		planned, taken := peak(kernel.NewPlan(threads, tensor.NewMeter())),
			peak(kernel.NewTeam(threads, tensor.NewMeter()))
		if planned != taken || taken <= before {
			t.Errorf("%d threads: planned %d bytes, took %d, and fewer threads took %d", threads,
				planned, taken, before)
		}
		before = taken
	}
}
