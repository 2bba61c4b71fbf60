package kernel_test

import (
	"math"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/kernel/reference"
	"weft/tensor"
)

// Kernels that run over rows, elements and tiles of rows, and dense products.

// shapes are widths at a few rows, and a few widths at the heights around a tile.
func (s *suite) shapes(run func(s *suite, rows, cols int)) {
	s.each(widths, func(s *suite, cols int) { run(s, 9, cols) })
	s.each(heights, func(s *suite, rows int) {
		for _, cols := range []int{1, 19} {
			run(s, rows, cols)
		}
	})
}

// headDots is ⟨x_ih, y_ih⟩ over the width of each head; y has a row per row of x, or one for all.
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
		wantZ, wantA, of := exact(dz), exact(da), numbers(z)
		termsA := magnitudes(wantA)
		for i := range rows {
			for c := range cols {
				g := float64(dOut.Floats()[i*heads+c/width])
				wantZ.Add(i, c, g*float64(a.Floats()[c]))
				wantA.Add(0, c, g*float64(of[i*cols+c]))
				termsA.Add(0, c, math.Abs(g*float64(of[i*cols+c])))
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
						for i := range sum.Data { // in float32, so that both are on the same side of a kink
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
							// the derivative comes from the output, as it was rounded
							return (16*u + 2*roundoff(s.storage)) * math.Max(1, math.Abs(passed.Data[i]))
						})
				}
			}
		}
	})
	nan := s.as(s.storage, s.of(float32(math.NaN())))
	for act := range activations {
		z := s.inPlace("NaN", nan, func(z, x *tensor.Matrix) { s.team.Finish(z, x, nil, act, kernel.Mask{}) })
		if v := numbers(z)[0]; v == v {
			s.t.Errorf("activation %d of NaN: %v", act, v)
		}
	}
}

func conformGELU(s *suite) {
	// around the piece that is converted
	s.each([]int{0, 1, 1023, 1024, 1025, 70_001}, func(s *suite, n int) {
		x, g := s.normal(1, n), s.stored(1, n)
		for i := range x.Floats() {
			x.Floats()[i] *= float32(1 + i%9) // beyond the last node
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
			x := s.of(all[len(all)-n:]...)
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

// conformMoments wants the mean within a rounding of the deviations, and these to single precision, where the
// mean is a thousand times the deviations and where the first row of a tile is far from all others.
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

// conformBatchStatistics compares batch norm's statistics of a pass, what running ones become by them, and the
// means of its backward pass with float64.
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

		of, gs, more := exact(x), exact(g), values(added)
		for c := range cols {
			mean, m2 := 0.0, 0.0
			for i := range rows {
				mean += of.At(i, c) / float64(rows)
			}
			for i := range rows {
				m2 += (of.At(i, c) - mean) * (of.At(i, c) - mean)
			}
			rstd := 1 / math.Sqrt(m2/float64(rows)+.25)
			sumG, sumGX, terms := 0.0, 0.0, 0.0
			for i := range rows {
				sumG, sumGX = sumG+gs.At(i, c), sumGX+gs.At(i, c)*(of.At(i, c)-mean)*rstd
				terms += math.Abs(gs.At(i, c))
			}
			limit := sumError(32) * (terms + 3)
			for name, v := range map[string][3]float64{ // what is there, what should be, and its error
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

// unset is room for sums of columns, with old numbers in it.
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
				// Up to 32 terms meet in single precision; x̂ is rounded a few times and at most about 4,
				// and what cancels in an activation's derivative is as large as the gradient, at most about
				// 8.
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
			// The terms of the gradient cancel, as a whole where there are two rows; each is at most a few
			// times γ·rstd. What comes before was rounded.
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
			for c := range cols { // in place they were added once more
				dgamma[c], dbeta[c] = 2*dgamma[c], 2*dbeta[c]
			}
			s.within(what+", gamma", toGamma, dgamma,
				func(int) float64 { return sumError(rows) * float64(rows) * largest * 16 })
			s.within(what+", beta", toBeta, dbeta,
				func(int) float64 { return sumError(1) * float64(rows) * 16 })
		})
	})
}

// half lists every second row, in a random order.
func (s *suite) half(rows int) ([]int64, *tensor.Matrix) {
	var list64 []int64
	var list32 []int32
	for _, v := range s.r.Perm(rows) {
		if v%2 == 0 {
			list64, list32 = append(list64, int64(v)), append(list32, int32(v))
		}
	}
	return list64, s.ints(list32)
}

// loss holds a loss and its gradient against the reference's, which are means over n terms; huge logits come
// in some rows.
func (s *suite) loss(what string, logits *tensor.Matrix, rows []int64, n float64, want float64,
	dWant *reference.Matrix,
	run func(grad *tensor.Matrix, scale float64) float64,
) {
	s.t.Helper()
	alone, grad := run(nil, 1), s.blank(logits.Rows, logits.Cols)
	s.team.Fill(grad, 7)
	if sum := run(grad, 1/n); sum != alone {
		s.t.Fatalf("%s: the loss is %v with a gradient and %v without", what, sum, alone)
	}
	if len(rows) == 0 {
		if alone != 0 {
			s.t.Fatalf("%s: no rows have a loss of %v", what, alone)
		}
	} else if !(math.Abs(alone-n*want) <= 1e-6*(n*want+1)) {
		s.t.Fatalf("%s: loss %v, want %v", what, alone, n*want)
	}
	for i, v := range grad.Floats() {
		if row := int64(i / logits.Cols); !slices.Contains(rows, row) {
			if v != 7 {
				s.t.Fatalf("%s: row %d is not listed and was written", what, row)
			}
		} else if d := math.Abs(float64(v) - dWant.Data[i]); !(d <= 2e-6/n) {
			s.t.Fatalf("%s: gradient %d is %v, want %v", what, i, v, dWant.Data[i])
		}
	}
}

// logits are normal, but every fifth row has logits of up to ±10⁴.
func (s *suite) logits(rows, cols int) *tensor.Matrix {
	z := s.normal(rows, cols)
	for i := range z.Floats() {
		if i/cols%5 == 4 {
			z.Floats()[i] = float32(s.r.IntN(3)-1) * 1e4
		}
	}
	return z
}

func conformCrossEntropy(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z := s.logits(rows, cols)
		list64, list32 := s.half(min(rows, 40))
		labels64, labels32 := make([]int64, rows), make([]int32, rows)
		for i := range rows {
			c := s.r.IntN(cols)
			labels64[i], labels32[i] = int64(c), int32(c)
		}
		labels := s.ints(labels32)
		s.loss(case_("rows", rows, "classes", cols), z, list64, math.Max(1, float64(len(list64))),
			reference.CrossEntropy(exact(z), labels64, list64),
			reference.CrossEntropyBackward(exact(z), labels64, list64),
			func(grad *tensor.Matrix, scale float64) float64 {
				return s.team.CrossEntropy(grad, z, list32, labels, scale)
			})
	})
}

func conformBinaryCrossEntropy(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z, targets := s.logits(rows, cols), s.team.Memory.New(tensor.Activations, rows, cols)
		for i := range targets.Floats() {
			targets.Floats()[i] = float32(s.r.IntN(2))
		}
		list64, list32 := s.half(min(rows, 40))
		holds := func(name string, there int) {
			s.loss(case_(name, there, "rows", rows, "classes", cols), z, list64, math.Max(1, float64(there)),
				reference.BCEWithLogits(exact(z), exact(targets), list64),
				reference.BCEWithLogitsBackward(exact(z), exact(targets), list64),
				func(grad *tensor.Matrix, scale float64) float64 {
					return s.team.BinaryCrossEntropy(grad, z, list32, targets, scale)
				})
		}
		holds("all", len(list64)*cols)
		there := 0
		for _, row := range list64 {
			for c := range cols {
				if (int(row)+c)%3 == 1 {
					targets.Floats()[int(row)*cols+c] = float32(math.NaN())
				} else {
					there++
				}
			}
		}
		if there > 0 {
			holds("some", there)
		}
	})
	with(s.t, func(s *suite) { // logits of 0 in one tile: a product of all its factors of 2 is infinite
		const rows, cols = 1024, 300
		list := make([]int32, rows)
		for i := range list {
			list[i] = int32(i)
		}
		z, targets := s.blank(rows, cols), s.blank(rows, cols)
		clear(z.Floats())
		clear(targets.Floats())
		got, want := s.team.BinaryCrossEntropy(nil, z, s.ints(list), targets, 1), rows*cols*math.Ln2
		if !(math.Abs(got-want) <= 1e-6*want) {
			s.t.Errorf("%d rows of %d logits of 0: %v, want %v", rows, cols, got, want)
		}
	})
}

// conformHits: half of the rows have their largest logit at the label. Many logits are equal, and some are NaN.
func conformHits(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z, labels64, labels32 := s.blank(rows, cols), make([]int64, rows), make([]int32, rows)
		for i := range rows {
			row := z.Floats()[i*cols : (i+1)*cols]
			for c := range row {
				row[c] = float32(s.r.IntN(3))
			}
			label := s.r.IntN(cols)
			if i%4 < 2 {
				label = slices.Index(row, slices.Max(row))
			}
			labels64[i], labels32[i] = int64(label), int32(label)
			if i%3 == 2 {
				row[[]int{0, label, s.r.IntN(cols)}[s.r.IntN(3)]] = float32(math.NaN())
			}
		}
		list64, list32 := s.half(rows)
		assert.Equal(s.t, reference.Hits(exact(z), labels64, list64), s.team.Hits(z, list32, s.ints(labels32)),
			case_("rows", rows, "classes", cols))
	})
}

// conformFinite: one element in all is not finite.
func conformFinite(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		for _, x := range []float64{3e38, math.NaN(), math.Inf(1), math.Inf(-1)} {
			before, z := s.stored(2, cols), s.normal(rows, cols)
			for _, at := range []int{0, s.r.IntN(rows*cols + 1), rows*cols - 1} {
				if at < 0 || at >= rows*cols {
					continue
				}
				z.Floats()[at] = float32(x)
				of := s.as(s.storage, z)
				want := case_("rows", rows, "columns", cols, "at", at, "of", x)
				assert.Equal(s.t, reference.Finite(exact(of)), s.team.Finite(before, of), want)
				assert.Equal(s.t, reference.Finite(exact(of)), s.team.Finite(of, before), want)
				z.Floats()[at] = 1
			}
			assert.Equal(s.t, true, s.team.Finite(before, z), "finite")
		}
	})
}

// steps are the lengths of vectors that an optimizer moves.
var steps = []int{0, 1, 3, 16, 17, 1000, 9001}

// clipped is a gradient times the factor of its clipping.
func clipped(g *tensor.Matrix, clip float64) []float64 {
	v := values(g)
	for i := range v {
		v[i] *= clip
	}
	return v
}

// conformAdam makes five steps. The gradients are not small, where Adam's step jumps between −rate and rate.
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

// types runs a test of a kernel with two operands in storage, which may be of different types: for the
// suite's type where that is Float32, else for every pair that has a BFloat16 one. The first operand is x,
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
			s.types(x, func(x *tensor.Matrix, of tensor.Element) {
				factor := exact(w)
				if x.Element == tensor.BFloat16 && (kernel.MultipliesBFloat16() || kerneltest.OnCard()) {
					factor = exact(s.as(tensor.BFloat16, w))
				}
				if transposed {
					factor = factor.Transpose()
				}
				want, terms := reference.MatMul(exact(x), factor),
					reference.MatMul(magnitudes(exact(x)), magnitudes(factor))
				z := s.blankOf(of, rows, out)
				s.team.MatMul(z, x, w, kernel.Orientation(transposed), kernel.Replace)
				what := case_(rows, in, out, "transposed", transposed, "types", x.Element, of)
				s.sums(what, z, want.Data, terms.Data, in)
				more := s.as(of, s.normal(rows, out))
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
	s.each([]int{1, 3, 4, 8}, func(s *suite, from int) { // x begins at any number of 16 bytes
		const rows, in = 9, 72
		checkOf(s, s.stored(from+rows*in, 1).RowRange(from, from+rows*in).Reshape(rows, in), 40)
	})
}

func conformMatMulT(s *suite) {
	check := func(s *suite, rows, in, out int) {
		x, g := s.stored(rows, in), s.stored(rows, out)
		want, terms := reference.MatMulTransA(exact(x), exact(g)),
			reference.MatMulTransA(magnitudes(exact(x)), magnitudes(exact(g)))
		s.types(x, func(x *tensor.Matrix, of tensor.Element) {
			g, z := s.as(of, g), s.blank(in, out)
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
			{1030, 290, 514}, // several blocks both ways, of several sums
			{9000, 16, 33},
			{8800, 530, 5},
			{600, 547, 7},
			{130, 64, 64},
			{2048, 8, 24}, // whole pages, behind which nothing may be read
		} {
			check(s, shape[0], shape[1], shape[2])
		}
	})
	s.each([]int{1, 127, 257, 1301}, func(s *suite, rows int) { // what lies behind the rows has no part in it
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
