package kernel_test

import (
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// The suite's tests of the steps of optimizers.

// steps are the lengths of the vectors that an optimizer updates.
var steps = []int{0, 1, 3, 16, 17, 1000, 9001}

// clipped returns a gradient times the factor of its clipping.
func clipped(g *tensor.Matrix, clip float64) []float64 {
	v := values(g)
	for i := range v {
		v[i] *= clip
	}
	return v
}

// conformAdam makes five steps. The gradients are not small: for small ones Adam's step jumps between −rate
// and rate.
func conformAdam(s *suite) {
	s.each(steps, func(s *suite, n int) {
		for _, k := range []kernel.AdamStep{
			{Clip: 1},
			{Clip: .3, Decoupled: true},
			{Clip: .3, Decay: .1},
			{Clip: 1, Decay: .1, Decoupled: true},
		} {
			k.Rate, k.Beta1, k.Beta2, k.Epsilon = .01, .9, .999, 1e-8
			settings := reference.AdamSettings{
				Rate: k.Rate, Beta1: k.Beta1, Beta2: k.Beta2, Epsilon: k.Epsilon, WeightDecay: k.Decay,
			}
			step := reference.Adam
			if k.Decoupled {
				step = reference.AdamW
			}
			w, m, v := s.normal(1, n), s.zeros(1, n), s.zeros(1, n)
			p, mean, square := values(w), make([]float64, n), make([]float64, n)
			for k.Step = 1; k.Step <= 5; k.Step++ {
				g := s.positive(1, n)
				s.team.Adam(w, g, m, v, k)
				step(p, clipped(g, k.Clip), mean, square, k.Step, settings)
				what := case_(n, k)
				s.elements(what, w, p, 20)
				s.elements(what+", m", m, mean, 20)
				s.elements(what+", v", v, square, 20)
			}
		}
	})
}

func conformSGD(s *suite) {
	s.each(steps, func(s *suite, n int) {
		for _, k := range []kernel.SGDStep{
			{Clip: 1}, {Clip: .3, Momentum: .9}, {Clip: .3, Decay: .1}, {Clip: 1, Momentum: .9, Decay: .1},
		} {
			k.Rate = .1
			w, buffer := s.normal(1, n), make([]float64, n)
			p := values(w)
			var b *tensor.Matrix
			if k.Momentum != 0 {
				b = s.blank(1, n) // the first step must not read it
			}
			for step := range 5 {
				k.First = step == 0
				g := s.normal(1, n)
				s.team.SGD(w, g, b, k)
				reference.SGD(p, clipped(g, k.Clip), buffer, k.Rate, k.Momentum, k.Decay)
				s.elements(case_(n, k, "step", step), w, p, 40)
			}
		}
	})
}
