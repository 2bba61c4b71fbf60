package kernel_test

import (
	"math"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/tensor"
)

// onTF32 runs a test with a team on a card whose products are 3×TF32, and a team whose products are of
// floats.
func onTF32(t *testing.T, run func(s *suite, tf32, floats *kernel.Team)) {
	t.Helper()
	devicetest.Library(t)
	t.Setenv("WEFT_DEVICE", "cuda")
	memory := tensor.NewMeter()
	tf32, floats := kerneltest.Team(t, 1, memory), kerneltest.Team(t, 1, memory)
	defer memory.Close()
	tf32.TF32 = true
	s := &suite{t, floats, random(), tensor.Float32}
	assert.Empty(t, kernel.FellBack(floats, func() { run(s, tf32, floats) }))
}

// spread returns the root mean square of errors, each divided by the sum of its terms' magnitudes.
func spread(got *tensor.Matrix, want, terms []float64) float64 {
	sum := 0.
	for i, x := range numbers(got) {
		e := (float64(x) - want[i]) / terms[i]
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(want)))
}

// TestTF32: products by 3×TF32, for all widths, straight and transposed, and gradients of weights, keep the
// bound of float32's sums. From sums of 16 terms on, their error is at most twice that of products of floats.
// A single product is off by up to 2^-21.4 of itself, and with floats by 2^-24.
func TestTF32(t *testing.T) {
	onTF32(t, func(s *suite, tf32, floats *kernel.Team) {
		check := func(what string, depth int, want, terms *reference.Matrix,
			multiply func(team *kernel.Team, z *tensor.Matrix, to kernel.Output),
		) {
			t.Helper()
			z, plain := s.blank(want.Rows, want.Cols), s.blank(want.Rows, want.Cols)
			multiply(tf32, z, kernel.Replace)
			multiply(floats, plain, kernel.Replace)
			s.sums(what, z, want.Data, terms.Data, depth)
			by, baseline := spread(z, want.Data, terms.Data), spread(plain, want.Data, terms.Data)
			t.Logf("%s: errors of %.2g of the terms, %.2f × those of floats", what, by, by/baseline)
			if depth >= 16 && by > 2*baseline {
				t.Errorf("%s: errors of %.2g of the terms, and of %.2g by floats", what, by, baseline)
			}
			if depth >= 16 && same(z, plain) {
				t.Errorf("%s: the bits of products of floats", what)
			}
			more := s.normal(want.Rows, want.Cols)
			want, terms = want.Plus(exact(more)), terms.Plus(magnitudes(exact(more)))
			multiply(tf32, more, kernel.Accumulate)
			s.sums(what+", accumulated", more, want.Data, terms.Data, depth)
		}
		for _, depth := range []int{1, 9, 16, 90} {
			for _, cols := range []int{1, 32, 61, 131} {
				const rows = 43
				x, w := s.normal(rows, depth), s.normal(depth, cols)
				want, terms := reference.MatMul(exact(x), exact(w)),
					reference.MatMul(magnitudes(exact(x)), magnitudes(exact(w)))
				for _, orientation := range []kernel.Orientation{kernel.Straight, kernel.Transposed} {
					factor := w
					if orientation == kernel.Transposed {
						factor = s.blank(cols, depth)
						for k := range depth {
							for o := range cols {
								factor.Floats()[o*depth+k] = w.Floats()[k*cols+o]
							}
						}
					}
					check(case_(rows, depth, cols, "transposed", orientation), depth, want, terms,
						func(team *kernel.Team, z *tensor.Matrix, to kernel.Output) {
							team.MatMul(z, x, factor, orientation, to)
						})
				}
				x, g := s.normal(depth, rows), s.normal(depth, cols)
				want, terms = reference.MatMulTransA(exact(x), exact(g)),
					reference.MatMulTransA(magnitudes(exact(x)), magnitudes(exact(g)))
				check(case_("gradient", depth, rows, cols), depth, want, terms,
					func(team *kernel.Team, z *tensor.Matrix, to kernel.Output) { team.MatMulT(z, x, g, to) })
			}
		}
		x, g := s.normal(9000, 3), s.normal(9000, 7) // rows of many lanes and tiles
		check("gradient of many rows", 9000, reference.MatMulTransA(exact(x), exact(g)),
			reference.MatMulTransA(magnitudes(exact(x)), magnitudes(exact(g))),
			func(team *kernel.Team, z *tensor.Matrix, to kernel.Output) { team.MatMulT(z, x, g, to) })
	})
}

// TestTF32Infinite: with 3×TF32, as with floats, infinities and NaN reach their row with the right sign, and
// the largest number times 1 stays finite.
func TestTF32Infinite(t *testing.T) {
	onTF32(t, func(s *suite, tf32, floats *kernel.Team) {
		infinity, nan := float32(math.Inf(1)), float32(math.NaN())
		const depth, cols = 19, 40
		x, w := s.normal(6, depth), s.normal(depth, cols)
		at := func(row, k int, v float32) { x.Floats()[row*depth+k] = v }
		at(0, 3, infinity)
		at(1, 18, -infinity)
		at(2, 7, nan)
		at(3, 4, infinity) // infinity times 0
		copy(w.Floats()[4*cols:], make([]float32, cols))
		at(4, 1, infinity) // infinity less infinity
		at(4, 2, infinity)
		for o := range cols {
			w.Floats()[cols+o], w.Floats()[2*cols+o] = 1, -1
			w.Floats()[5*cols+o] = 1
		}
		clear(x.Floats()[5*depth:])
		at(5, 5, math.MaxFloat32)
		z, plain := s.blank(6, cols), s.blank(6, cols)
		tf32.MatMul(z, x, w, kernel.Straight, kernel.Replace)
		floats.MatMul(plain, x, w, kernel.Straight, kernel.Replace)
		kind := func(v float32) float64 { // the kind of a number that is not finite
			if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
				return float64(v)
			}
			return 0
		}
		for i, v := range z.Floats() {
			got, want := kind(v), kind(plain.Floats()[i])
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("row %d, column %d: %v, and %v by floats", i/cols, i%cols, v, plain.Floats()[i])
			}
		}
		for o, v := range z.Floats()[5*cols:] {
			assert.Near(t, 1, float64(v)/math.MaxFloat32, 0x1p-21, o)
		}
	})
}
