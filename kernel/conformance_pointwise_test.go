package kernel_test

import (
	"math"
	"slices"
	"testing"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// The suite's tests of kernels that compute each element by itself.

var activations = map[kernel.Activation]reference.Activation{
	kernel.Identity: reference.Identity,
	kernel.ReLU:     reference.ReLU,
	kernel.ELU:      reference.ELU,
	kernel.LeakyReLU: {
		Value:      func(x float64) float64 { return reference.LeakyReLU(x, .01) },
		Derivative: func(x float64) float64 { return reference.LeakyReLUSlope(x, .01) },
	},
	kernel.Tanh: {Value: math.Tanh, Derivative: func(x float64) float64 {
		return 1 - math.Tanh(x)*math.Tanh(x)
	}},
	kernel.Sigmoid: {Value: reference.Sigmoid, Derivative: func(x float64) float64 {
		return reference.Sigmoid(x) * (1 - reference.Sigmoid(x))
	}},
}

func conformFinish(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		x, bias, g := s.normal(rows, cols), s.normal(1, cols), s.stored(rows, cols)
		for i := range x.Floats() { // x + bias at and around the kinks, and beyond them
			switch i % 7 {
			case 0:
				x.Floats()[i] = -bias.Floats()[i%cols]
			case 1:
				x.Floats()[i] *= 30
			}
		}
		x = s.as(s.storage, x)
		ofX := numbers(x)
		ids := s.permutation(rows)
		for act, want := range activations {
			for _, mask := range []kernel.Mask{{}, kernel.NewMask(5, .3, nil), kernel.NewMask(5, .6, ids)} {
				for _, b := range []*tensor.Matrix{nil, bias} {
					what := case_("rows", rows, "columns", cols, "activation", act, "mask",
						mask, "bias", b != nil)
					sum := exact(x)
					if b != nil {
						// added in float32, so that both are on the same side of a kink
						for i := range sum.Data {
							sum.Data[i] = float64(ofX[i] + b.Floats()[i%cols])
						}
					}
					keep := exact(s.vertexMask(rows, cols, mask))
					z := s.inPlace(what, x, func(z, x *tensor.Matrix) { s.team.Finish(z, x, b, act, mask) })
					s.elements(what, z, reference.Dropout(reference.Activate(want, sum), keep).Data, 16)
					dx := s.inPlace(what+", gradient", g, func(dx, g *tensor.Matrix) {
						s.team.FinishBackward(dx, nil, g, z, act, mask)
					})
					passed := reference.DropoutBackward(keep, exact(g))
					s.within(what+", gradient", dx, reference.ActivateBackward(want, sum, passed).Data,
						func(i int) float64 {
							// the derivative follows from the output, which was rounded
							return (16*u + 2*roundoff(s.storage)) * math.Max(1, math.Abs(passed.Data[i]))
						})
				}
			}
		}
	})
	nan := s.as(s.storage, s.row(float32(math.NaN())))
	for act := range activations {
		z := s.inPlace("NaN", nan, func(z, x *tensor.Matrix) { s.team.Finish(z, x, nil, act, kernel.Mask{}) })
		if v := numbers(z)[0]; v == v {
			s.t.Errorf("activation %d of NaN: %v", act, v)
		}
	}
}

func conformGELU(s *suite) {
	// sizes around the piece that is converted at a time
	s.each([]int{0, 1, 1023, 1024, 1025, 70_001}, func(s *suite, n int) {
		x, g := s.normal(1, n), s.stored(1, n)
		for i := range x.Floats() {
			x.Floats()[i] *= float32(1 + i%9) // some beyond the last node of the spline
		}
		x = s.as(s.storage, x)
		z := s.inPlace(case_(n), x, s.team.GELU)
		s.elements(case_(n), z, reference.Activate(reference.GELU, exact(x)).Data, 2)
		dx := s.inPlace(case_(n, "gradient"), g, func(dx, g *tensor.Matrix) { s.team.GELUBackward(dx, g, x) })
		s.elements(case_(n, "gradient"), dx,
			reference.ActivateBackward(reference.GELU, exact(x), exact(g)).Data, 6)
	})
}

func conformCombine(s *suite) {
	s.each([]int{0, 1, 2, 3, 15, 16, 17, 255, 1000, 70001}, func(s *suite, n int) {
		x, y := s.stored(1, n), s.stored(1, n)
		ofX, ofY := numbers(x), numbers(y)
		check := func(what string, run func(z *tensor.Matrix), want func(x, y float64) float64) {
			w := make([]float64, n)
			for i := range w {
				w[i] = want(float64(ofX[i]), float64(ofY[i]))
			}
			z := s.unwritten(1, n)
			run(z)
			s.elements(case_(what, n), z, w, 6)
		}
		check("add", func(z *tensor.Matrix) {
			s.team.Add(z, 3, x, -.5, y)
		}, func(x, y float64) float64 { return 3*x - .5*y })
		check("scale", func(z *tensor.Matrix) {
			s.team.Scale(z, -2, x)
		}, func(x, _ float64) float64 { return -2 * x })
		check("copy", func(z *tensor.Matrix) { s.team.Copy(z, x) }, func(x, _ float64) float64 { return x })
		check("multiply", func(z *tensor.Matrix) {
			s.team.Multiply(z, x, y)
		}, func(x, y float64) float64 { return x * y })
		check("axpy", func(z *tensor.Matrix) {
			s.team.Copy(z, x)
			s.team.Axpy(z, .25, y)
		}, func(x, y float64) float64 { return x + .25*y })
		check("add in place", func(z *tensor.Matrix) {
			s.team.Copy(z, y)
			s.team.Add(z, 2, x, 1, z)
		}, func(x, y float64) float64 { return 2*x + y })
		check("multiply in place", func(z *tensor.Matrix) {
			s.team.Copy(z, x)
			s.team.Multiply(z, z, z)
		}, func(x, _ float64) float64 { return x * x })
	})
}

// TestConvert rounds numbers of all signs and exponents that lie between, at and beside two bfloat16s, as
// package tensor does.
func TestConvert(t *testing.T) {
	with(t, func(s *suite) {
		var all []float32
		for high := range uint32(1 << 16) {
			for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001} {
				all = append(all, math.Float32frombits(high<<16|low))
			}
		}
		for _, n := range []int{0, 1, 2, 3, 5, 7, 9, 15, 17, 1000, len(all)} {
			x := s.row(all[len(all)-n:]...)
			z, y := s.blankOf(tensor.BFloat16, 1, n), s.blank(1, n)
			s.team.Convert(z, x)
			if !same(z, s.as(tensor.BFloat16, x)) {
				t.Fatalf("%d numbers are rounded otherwise", n)
			}
			s.team.Convert(y, z)
			if !same(y, s.as(tensor.Float32, z)) {
				t.Fatalf("%d numbers come back otherwise", n)
			}
			for _, m := range []*tensor.Matrix{x, z} {
				again := s.blankOf(m.Element, 1, n)
				s.team.Convert(again, m)
				if !same(again, m) {
					t.Fatalf("%d numbers of element type %d are not copied", n, m.Element)
				}
			}
		}
	})
}

func conformFill(s *suite) {
	for _, n := range []int{0, 1, 5, 70001} {
		zeros := s.unwritten(1, n)
		s.team.Zero(zeros)
		s.within("zero", zeros, make([]float64, n), func(int) float64 { return 0 })
		for _, element := range []tensor.Element{tensor.Float64, tensor.Int32, tensor.Int64} {
			m := s.team.Memory.NewElement(tensor.Buffers, element, 1, n)
			s.team.Zero(m)
		}
		minus := s.int32s(1, n)
		s.team.Fill(minus, -1)
		if i := slices.IndexFunc(minus.Int32s(), func(v int32) bool { return v != -1 }); i >= 0 {
			s.t.Errorf("element %d was not filled", i)
		}
	}
}
