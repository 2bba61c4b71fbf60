package kernel_test

import (
	"math"
	"testing"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// TestExp holds the exponential to 4 units in the last place over [−87, 88]. Below 0 the test sees it in
// double precision, through the binary cross-entropy ln(1 + e^−x) of a right answer. Above 0 it sees it
// through the sigmoid 1/(1 + e^x) of −x, which rounds twice more.
func TestExp(t *testing.T) {
	with(t, func(s *suite) {
		const n = 20000
		x, label, row, worst := s.blank(1, 1), s.row(1), s.ints([]int32{0}), 0.0
		for i := range n {
			v := float32(87 * float64(i) / n)
			x.Floats()[0] = v
			got := math.Expm1(s.team.Read(s.team.BinaryCrossEntropy(nil, x, row, label, 1))[0])
			want := math.Exp(-float64(v))
			worst = math.Max(worst, math.Abs(got-want)/ulp(want))
		}
		t.Logf("below 0: %.2f units", worst)
		if !(worst <= 4) {
			t.Errorf("e^x is up to %.1f units in the last place off for x in [−87, 0]", worst)
		}
		many, sigmoid := s.blank(1, n), s.blank(1, n)
		for i := range n {
			many.Floats()[i] = -float32(17 + (88-17)*float64(i)/n)
		}
		worst = 0
		s.team.Finish(sigmoid, many, nil, kernel.Sigmoid, kernel.Mask{})
		for i, got := range sigmoid.Floats() {
			// below, float32 loses digits
			if want := reference.Sigmoid(float64(many.Floats()[i])); want > 1.2e-38 {
				worst = math.Max(worst, math.Abs(float64(got)-want)/ulp(want))
			}
		}
		t.Logf("above 0: %.2f units", worst)
		if !(worst <= 5) {
			t.Errorf("1/(1 + e^x) is up to %.1f units in the last place off for x in [17, 88]", worst)
		}
	})
}

// TestGELU holds Φ to 1e-7, before the rounding of x·Φ(x), and GELU's derivative to 2e-7 on [−12, 12]. It
// also looks at the ends.
func TestGELU(t *testing.T) {
	with(t, func(s *suite) {
		const n = 100_000
		x, ones, z, slope := s.blank(1, n), s.blank(1, n), s.blank(1, n), s.blank(1, n)
		s.team.Fill(ones, 1)
		for i := range n {
			x.Floats()[i] = 24*float32(i)/n - 12
		}
		s.team.GELU(z, x)
		s.team.GELUBackward(slope, ones, x)
		worst, steepest := 0.0, 0.0
		for i, v := range x.Floats() {
			if v := float64(v); v != 0 {
				want := v * (1 + math.Erf(v/math.Sqrt2)) / 2
				worst = math.Max(worst, (math.Abs(float64(z.Floats()[i])-want)-ulp(want)/2)/math.Abs(v))
				steepest = math.Max(steepest,
					math.Abs(float64(slope.Floats()[i])-reference.GELU.Derivative(v)))
			}
		}
		t.Logf("Φ: %.1e, derivative: %.1e", worst, steepest)
		if !(worst <= 1e-7 && steepest <= 2e-7) {
			t.Errorf("Φ is up to %.1e off, and the derivative %.1e", worst, steepest)
		}
		inf := float32(math.Inf(1))
		ends := s.row(inf, -inf, -3e38, 3e38, float32(math.NaN()))
		slope = s.blank(1, ends.Len())
		s.team.GELUBackward(slope, s.ones(1, ends.Len()), ends)
		if e := slope.Floats(); e[0] != 1 || e[1] != 0 || e[2] != 0 || e[3] != 1 || e[4] == e[4] {
			t.Errorf("the derivative at the ends: %v", e)
		}
		s.team.GELU(ends, ends)
		if e := ends.Floats(); e[0] != inf || e[1] == e[1] || e[2] != 0 || e[3] != 3e38 || e[4] == e[4] {
			t.Errorf("at the ends: %v", e)
		}
	})
}

// ulp returns the distance of neighbouring float32 numbers at x.
func ulp(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, e-24)
}

// TestWeightGradientRoundsOnce: if one row of each tile of 1024 counts, the sum over the tiles is the sum in
// double precision, rounded once.
func TestWeightGradientRoundsOnce(t *testing.T) {
	with(t, func(s *suite) {
		const tile, tiles, in, out = 1024, 150, 3, 37
		x, g := s.team.Zeros(tensor.Activations, tile*tiles-100, in), s.normal(tile*tiles-100, out)
		want, z := make([]float64, in*out), s.normal(in, out)
		for i, v := range z.Floats() {
			want[i] = float64(v)
		}
		for k := range tiles {
			row := k*tile + s.r.IntN(tile-100)
			for i := range in {
				sign := float32(2*s.r.IntN(2) - 1) // so that a product is not rounded
				x.Floats()[row*in+i] = sign
				for c := range out {
					want[i*out+c] += float64(sign * g.Floats()[row*out+c])
				}
			}
		}
		s.team.MatMulT(z, x, g, kernel.Accumulate)
		for i, got := range z.Floats() {
			if got != float32(want[i]) {
				t.Errorf("element %d is %v, want %v", i, got, float32(want[i]))
			}
		}
	})
}

// TestNaNStays: no kernel turns a NaN into a number, which would hide that something went wrong.
func TestNaNStays(t *testing.T) {
	nan := float32(math.NaN())
	with(t, func(s *suite) {
		isNaN := func(what string, m *tensor.Matrix, at int) {
			t.Helper()
			if v := m.Floats()[at]; v == v {
				t.Errorf("%s: NaN became %v", what, v)
			}
		}
		for _, cols := range []int{1, 3, 8, 16, 21} {
			for act := range activations {
				for at := range cols {
					for _, mask := range []kernel.Mask{{}, kernel.NewMask(3, .5, nil)} {
						x, z := s.normal(1, cols), s.blank(1, cols)
						x.Floats()[at] = nan
						s.team.Finish(z, x, nil, act, mask)
						isNaN(case_("finish", act, mask.Active()), z, at)
						for c, v := range z.Floats() {
							if c != at && v != v {
								t.Errorf("activation %d: NaN spread from column %d to %d", act, at, c)
							}
						}
						bias := s.normal(1, cols)
						bias.Floats()[at] = nan
						s.team.Finish(z, s.normal(1, cols), bias, act, mask)
						isNaN(case_("bias", act), z, at)
						g := s.normal(1, cols)
						g.Floats()[at] = nan
						s.team.FinishBackward(z, nil, g, s.normal(1, cols), act, mask)
						isNaN(case_("gradient", act), z, at)
					}
				}
			}
		}

		for at := range 21 { // in norms, a NaN stays in its column, or in its row
			row := func() *tensor.Matrix { return s.positive(1, 21) }
			norm := kernel.Normalization{Mean: row(), Rstd: row(), Gamma: row(), Beta: row()}
			x, z := s.normal(40, 21), s.blank(40, 21)
			x.Floats()[3*21+at] = nan
			m, sum := kernel.NewMoments(21), s.unset(21)
			if s.team.Moments(m, x); !math.IsNaN(m.Mean[at]) || !math.IsNaN(m.M2[at]) ||
				math.IsNaN(m.Mean[(at+1)%21]) {
				t.Errorf("the moments of NaN are %v and %v", m.Mean[at], m.M2[at])
			}
			s.team.Normalize(z, x, norm, kernel.ReLU, kernel.NewMask(3, .5, nil))
			isNaN("normalize", z, 3*21+at)
			g := s.normal(40, 21)
			g.Floats()[5*21+at] = nan
			made := s.team.NormalizeSums(g, s.normal(40, 21), norm, kernel.ReLU, kernel.NewMask(3, .5, nil))
			if made.Read(sum, s.unset(21)); !math.IsNaN(sum[at]) {
				t.Errorf("the sum of NaN is %v", sum[at])
			}
			isNaN("normalize backward", g, 5*21+at)
			norm.Mean, norm.Rstd = s.blank(40, 1), s.blank(40, 1)
			s.team.LayerNorm(z, x, norm, 1e-5, kernel.ReLU, kernel.NewMask(3, .5, nil))
			isNaN("layer norm", z, 3*21)
			isNaN("layer norm", z, 3*21+20)
			sums := s.zeros(1, 21)
			s.team.ColumnSums(sums, x, nil)
			isNaN("column sums", sums, at)
		}

		a := s.rows(3, [][]int32{{0, 1}, {1, 2}, {2}})
		x, z := s.normal(3, 5), s.blank(3, 5)
		x.Floats()[1*5+2] = nan
		s.team.SpMM(z, a, x, kernel.Scales{}, kernel.Replace)
		isNaN("spmm", z, 2)
		isNaN("spmm", z, 5+2)

		score := s.normal(3, 1)
		score.Floats()[1] = nan
		state := s.team.AttentionStart(3, 1, 5, tensor.Float32)
		s.team.Attend(state, kernel.Attention{
			Heads: 1, Width: 5, Slope: .2, Source: s.normal(3, 5),
			SourceScore: score, TargetScore: s.normal(3, 1),
		}, a, nil, kernel.Last)
		out := state.Out
		isNaN("attention", out, 0)
		isNaN("attention", out, 5)

		logits, row := s.normal(1, 5), s.ints([]int32{0})
		logits.Floats()[3] = nan
		if l := s.team.Read(s.team.CrossEntropy(nil, logits, row, s.ints([]int32{1}), 1))[0]; !math.IsNaN(l) {
			t.Errorf("the cross-entropy of NaN is %v", l)
		}
		if l := s.team.Read(s.team.BinaryCrossEntropy(nil, logits, row, s.zeros(1, 5),
			1))[0]; !math.IsNaN(l) {
			t.Errorf("the binary cross-entropy of NaN is %v", l)
		}
		if v := s.team.SumSquares(logits); !math.IsNaN(v) {
			t.Errorf("the sum of squares of NaN is %v", v)
		}
		top, arg := s.blank(3, 5), s.int32s(3, 5)
		s.team.Max(top, arg, a, x, nil, nil, kernel.Replace)
		isNaN("max, NaN last", top, 2)
		isNaN("max, NaN first", top, 5+2)
	})
}

// TestInfinity: activations have their limits at the ends.
func TestInfinity(t *testing.T) {
	with(t, func(s *suite) {
		inf := math.Inf(1)
		x, z := s.row(float32(inf), float32(-inf), 3e38, -3e38), s.blank(1, 4)
		for act, want := range map[kernel.Activation][]float64{
			kernel.Identity: {inf, -inf, 3e38, -3e38}, kernel.ReLU: {inf, 0, 3e38, 0},
			kernel.ELU:       {inf, -1, 3e38, -1},
			kernel.LeakyReLU: {inf, -inf, 3e38, -3e36}, kernel.Tanh: {1, -1, 1, -1},
			kernel.Sigmoid: {1, 0, 1, 0},
		} {
			s.team.Finish(z, x, nil, act, kernel.Mask{})
			for i, w := range want {
				if got := float64(z.Floats()[i]); got != w &&
					!(math.Abs(got-w) <= 1e-6*math.Min(1e38, math.Abs(w))+1e-37) {
					t.Errorf("activation %d of %v is %v, want %v", act, x.Floats()[i], got, w)
				}
			}
		}
	})
}
