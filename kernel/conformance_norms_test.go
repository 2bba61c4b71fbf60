package kernel_test

import (
	"math"
	"slices"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// conformMoments: the mean is right within a rounding of the deviations, and these to single precision. In
// one case the mean is a thousand times the deviations; in another the first row of a tile is far from all
// others.
func conformMoments(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		m := kernel.NewMoments(cols)
		for _, first := range []float32{0, 500} {
			x := s.normal(rows, cols)
			for i := range x.Floats() {
				x.Floats()[i] += 1000
				if i < cols {
					x.Floats()[i] += first
				}
			}
			x = s.as(s.storage, x)
			ofX := numbers(x)
			s.team.Moments(m, x)
			if m.Count != rows {
				s.t.Fatalf("%d rows counted as %d", rows, m.Count)
			}
			for c := range cols {
				mean, m2 := 0.0, 0.0
				for i := range rows {
					mean += float64(ofX[i*cols+c]) / float64(rows)
				}
				for i := range rows {
					d := float64(ofX[i*cols+c]) - mean
					m2 += d * d
				}
				deviation := math.Sqrt(m2 / math.Max(1, float64(rows)))
				if math.Abs(m.Mean[c]-mean) > 1e-11*mean+64*u*deviation ||
					math.Abs(m.M2[c]-m2) > 128*u*m2+1e-20 {
					s.t.Fatalf("%d×%d: column %d has mean %v and deviations %v, want %v and %v", rows, cols,
						c, m.Mean[c], m.M2[c], mean, m2)
				}
			}
		}
	})
}

// conformBatchStatistics compares with float64 batch norm's statistics of a pass, the running statistics
// after them, and the means of its backward pass.
func conformBatchStatistics(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		if rows < 2 {
			return
		}
		what := case_("rows", rows, "columns", cols)
		x, added := s.stored(rows, cols), s.normal(1, cols)
		running, batch := s.normal(1, cols), s.team.Memory.NewElement(tensor.Buffers, tensor.Float64, 2, cols)
		before := values(running)
		got := kernel.BatchStatistics{Mean: s.blank(1, cols), Rstd: s.blank(1, cols), Batch: batch}
		s.team.SetBatchStatistics(got, x, added, .25)
		s.team.MoveTowards(running, batch.RowRange(0, 1), .3)
		alone := kernel.BatchStatistics{Mean: s.blank(1, cols), Rstd: s.blank(1, cols)}
		s.team.SetBatchStatistics(alone, x, nil, .25)
		assert.Equal(s.t, got.Mean.Floats(), alone.Mean.Floats())
		assert.Equal(s.t, got.Rstd.Floats(), alone.Rstd.Floats())

		norm := kernel.Normalization{Mean: got.Mean, Rstd: got.Rstd, Gamma: s.normal(1, cols), Beta: s.normal(1, cols)}
		g, dBeta, dGamma := s.stored(rows, cols), s.normal(1, cols), s.normal(1, cols)
		beta, gamma, meanG, meanGX := values(dBeta), values(dGamma), s.blank(1, cols), s.blank(1, cols)
		sums := s.team.NormalizeSums(g, x, norm, kernel.Identity, kernel.Mask{})
		sums.Finish(dBeta, dGamma, meanG, meanGX, 1/float64(rows))
		s.team.NormalizeSums(g, x, norm, kernel.Identity, kernel.Mask{}).
			Finish(nil, nil, s.blank(1, cols), s.blank(1, cols), 1)

		xs, gs, more := exact(x), exact(g), values(added)
		for c := range cols {
			mean, m2 := 0.0, 0.0
			for i := range rows {
				mean += xs.At(i, c) / float64(rows)
			}
			for i := range rows {
				m2 += (xs.At(i, c) - mean) * (xs.At(i, c) - mean)
			}
			rstd := 1 / math.Sqrt(m2/float64(rows)+.25)
			sumG, sumGX, terms := 0.0, 0.0, 0.0
			for i := range rows {
				sumG, sumGX = sumG+gs.At(i, c), sumGX+gs.At(i, c)*(xs.At(i, c)-mean)*rstd
				terms += math.Abs(gs.At(i, c))
			}
			limit := sumError(32) * (terms + 3)
			for name, v := range map[string][3]float64{ // the result, the exact number, and the allowed error
				"mean":     {float64(got.Mean.Floats()[c]), mean, 256 * u},
				"rstd":     {float64(got.Rstd.Floats()[c]), rstd, 256 * u},
				"batch":    {batch.Doubles()[c], mean + more[c], 256 * u},
				"variance": {batch.Doubles()[cols+c], m2 / float64(rows-1), 256 * u * (1 + m2/float64(rows-1))},
				"running":  {float64(running.Floats()[c]), before[c] + .3*(mean+more[c]-before[c]), 256 * u},
				"dβ":       {float64(dBeta.Floats()[c]), beta[c] + sumG, limit + 4*u*math.Abs(sumG)},
				"dγ":       {float64(dGamma.Floats()[c]), gamma[c] + sumGX, 5 * (limit + u*math.Abs(sumGX))},
				"mean g":   {float64(meanG.Floats()[c]), sumG / float64(rows), limit / float64(rows)},
				"mean g·x": {float64(meanGX.Floats()[c]), sumGX / float64(rows), 5 * limit / float64(rows)},
			} {
				if !(math.Abs(v[0]-v[1]) <= v[2]) {
					s.t.Fatalf("%s: %s of column %d is %v, want %v", what, name, c, v[0], v[1])
				}
			}
		}
	})
}

// conformRunningStatistics compares with float64 what evaluation computes from running statistics. Its
// subtraction and its root are each rounded once.
func conformRunningStatistics(s *suite) {
	for _, cols := range widths {
		mean, variance, added := s.normal(1, cols), s.normal(1, cols), s.normal(1, cols)
		for c, v := range variance.Floats() {
			variance.Floats()[c] = v * v
		}
		shift, plain, rstd := s.blank(1, cols), s.blank(1, cols), s.blank(1, cols)
		s.team.SetRunningStatistics(plain, rstd, mean, variance, nil, .25)
		s.team.SetRunningStatistics(shift, s.blank(1, cols), mean, variance, added, .25)
		assert.Equal(s.t, mean.Floats(), plain.Floats())
		for c := range cols {
			want := float32(float64(mean.Floats()[c]) - float64(added.Floats()[c]))
			scale := 1 / math.Sqrt(float64(variance.Floats()[c])+.25)
			if got := shift.Floats()[c]; got != want {
				s.t.Fatalf("%d columns: a shift of %v, want %v", cols, got, want)
			}
			if got := float64(rstd.Floats()[c]); math.Abs(got-scale) > u*scale*(1+1e-9) {
				s.t.Fatalf("%d columns: 1/√(%v + .25) is %v, want %v", cols, variance.Floats()[c], got, scale)
			}
		}
	}
}

// unset returns memory for sums of columns, with old numbers in it.
func (s *suite) unset(cols int) []float64 { return slices.Repeat([]float64{math.NaN()}, cols) }

// finishings runs a test for each activation, with and without dropout.
func (s *suite) finishings(rows int, run func(what string, act kernel.Activation, want reference.Activation,
	mask kernel.Mask),
) {
	for act, want := range activations {
		for _, mask := range []kernel.Mask{{}, kernel.NewMask(5, .6, s.permutation(rows))} {
			run(case_("activation", act, "dropout", mask.Active()), act, want, mask)
		}
	}
}

func conformBatchNorm(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		if rows < 2 {
			return
		}
		what := case_("rows", rows, "columns", cols)
		x, g := s.stored(rows, cols), s.stored(rows, cols)
		m := kernel.NewMoments(cols)
		s.team.Moments(m, x)
		norm := kernel.Normalization{
			Mean: s.blank(1, cols), Rstd: s.blank(1, cols), Gamma: s.normal(1, cols),
			Beta: s.normal(1, cols),
		}
		gamma, rstd := norm.Gamma.Floats(), norm.Rstd.Floats()
		for c := range cols {
			norm.Mean.Floats()[c] = float32(m.Mean[c])
			rstd[c] = float32(1 / math.Sqrt(m.M2[c]/float64(rows)+reference.NormEpsilon))
		}
		y := s.blank(rows, cols)
		s.team.Normalize(y, s.as(tensor.Float32, x), norm, kernel.Identity, kernel.Mask{})
		want, _, _ := reference.BatchNorm(exact(x), values(norm.Gamma), values(norm.Beta),
			make([]float64, cols), make([]float64, cols))
		s.elements(what, y, want.Data, 40)

		s.finishings(rows, func(finishing string, act kernel.Activation, want reference.Activation,
			mask kernel.Mask,
		) {
			what := what + " " + finishing
			keep := exact(s.vertexMask(rows, cols, mask))
			z := s.inPlace(what, x, func(z, x *tensor.Matrix) { s.team.Normalize(z, x, norm, act, mask) })
			s.elements(what, z, reference.Dropout(reference.Activate(want, exact(y)), keep).Data, 16)

			dy := s.copy(g)
			sumG, sumGX := s.unset(cols), s.unset(cols)
			s.team.NormalizeSums(dy, x, norm, act, mask).Read(sumG, sumGX)
			passed := reference.ActivateBackward(want, exact(y), reference.DropoutBackward(keep, exact(g)))
			s.elements(what+", gradient before", dy, passed.Data, 48)
			dx, dgamma, dbeta := reference.BatchNormBackward(exact(x), values(norm.Gamma), passed)
			meanG, meanGX := s.blank(1, cols), s.blank(1, cols)
			for c := range cols {
				// Up to 32 terms are added in single precision. x̂ is at most about 4, and rounded a few
				// times. The terms that cancel in an activation's derivative are as large as the gradient, at
				// most about 8.
				terms := 0.0
				for i := range rows {
					terms += math.Abs(passed.At(i, c))
				}
				if limit := sumError(32) * (terms + 3); math.Abs(sumG[c]-dbeta[c]) > limit ||
					math.Abs(sumGX[c]-dgamma[c]) > 5*limit {
					s.t.Fatalf("%s: column %d sums to %v and %v, want %v and %v", what, c, sumG[c], sumGX[c],
						dbeta[c], dgamma[c])
				}
				meanG.Floats()[c], meanGX.Floats()[c] = float32(sumG[c]/float64(rows)),
					float32(sumGX[c]/float64(rows))
			}
			got := s.inPlace(what+", gradient", dy, func(dx, dy *tensor.Matrix) {
				s.team.NormalizeBackward(dx, dy, x, norm, meanG, meanGX)
			})
			// The terms of the gradient cancel, for two rows altogether. Each is at most a few times γ·rstd.
			// The numbers before were rounded.
			s.within(what+", gradient", got, dx.Data, func(i int) float64 {
				steep := math.Abs(float64(gamma[i%cols] * rstd[i%cols]))
				return 200*u*math.Max(1, steep) + roundoff(s.storage)*steep*math.Abs(passed.Data[i])
			})
		})
	})
}

func conformLayerNorm(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		what := case_("rows", rows, "columns", cols)
		x, g := s.stored(rows, cols), s.stored(rows, cols)
		norm := kernel.Normalization{
			Mean: s.blank(rows, 1), Rstd: s.blank(rows, 1), Gamma: s.normal(1, cols),
			Beta: s.normal(1, cols),
		}
		y := s.blank(rows, cols)
		s.team.LayerNorm(y, s.as(tensor.Float32, x), norm, reference.NormEpsilon,
			kernel.Identity, kernel.Mask{})
		// rstd is as large as 300 where a row is nearly constant, and multiplies the rounding of x − mean.
		steep := func(i int) float64 { return math.Max(1, float64(norm.Rstd.Floats()[i/cols])) }
		want := reference.LayerNorm(exact(x), values(norm.Gamma), values(norm.Beta))
		s.within(what, y, want.Data, func(i int) float64 {
			return 40 * u * steep(i) * math.Max(1, math.Abs(want.Data[i]))
		})
		largest := 1.0
		for i := range want.Data {
			largest = math.Max(largest, steep(i))
		}

		s.finishings(rows, func(finishing string, act kernel.Activation, want reference.Activation,
			mask kernel.Mask,
		) {
			what := what + " " + finishing
			keep := exact(s.vertexMask(rows, cols, mask))
			z := s.inPlace(what, x, func(z, x *tensor.Matrix) {
				s.team.LayerNorm(z, x, norm, reference.NormEpsilon, act, mask)
			})
			s.elements(what, z, reference.Dropout(reference.Activate(want, exact(y)), keep).Data, 16)

			passed := reference.ActivateBackward(want, exact(y), reference.DropoutBackward(keep, exact(g)))
			dx, dgamma, dbeta := reference.LayerNormBackward(exact(x), values(norm.Gamma), passed)
			toGamma, toBeta := s.zeros(1, cols), s.zeros(1, cols)
			got := s.inPlace(what+", gradient", g, func(dx, g *tensor.Matrix) {
				s.team.LayerNormBackward(kernel.NormGradients{X: dx, Gamma: toGamma, Beta: toBeta}, g, x,
					norm, act, mask)
			})
			s.within(what+", gradient", got, dx.Data,
				func(i int) float64 { return 400 * u * steep(i) * math.Max(1, math.Abs(dx.Data[i])) })
			for c := range cols { // in place, they were added once more
				dgamma[c], dbeta[c] = 2*dgamma[c], 2*dbeta[c]
			}
			s.within(what+", gamma", toGamma, dgamma,
				func(int) float64 { return sumError(rows) * float64(rows) * largest * 16 })
			s.within(what+", beta", toBeta, dbeta,
				func(int) float64 { return sumError(1) * float64(rows) * 16 })
		})
	})
}
