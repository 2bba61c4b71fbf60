package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/device/devicetest"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/tensor"
)

// TestSameBitsForAnyThreads runs every kernel on 1, 2 and 8 threads, and over storage in BFloat16 on 1, 3 and
// 7. The matrices are divided into many parts, and end in the middle of a tile.
func TestSameBitsForAnyThreads(t *testing.T) {
	results := func(threads int, storage tensor.Element) map[string][]float64 {
		return everything(t, kernel.NewTeam(threads, tensor.NewMeter()), storage, 7500)
	}
	for storage, several := range map[tensor.Element][]int{tensor.Float32: {2, 8}, tensor.BFloat16: {3, 7}} {
		single := results(1, storage)
		for _, threads := range several {
			for name, got := range results(threads, storage) {
				if !sameBits(got, single[name]) {
					t.Errorf("%s of element type %d: %d threads give other bits than one",
						name, storage, threads)
				}
			}
		}
	}
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b)
	})
}

// TestSameBitsOnACard: a card's kernels have the CPU's bits, except where they add in another order.
func TestSameBitsOnACard(t *testing.T) {
	if kernel.SIMD() == "portable" {
		t.Skip("the portable kernels have no fused multiply-adds")
	}
	devicetest.Library(t)
	const rows = 2100 // three tiles, whose sums are added in order
	names := []string{
		"spmm", "sparse mask", "max", "head mean", "combine", "elements", "rows", "coding",
		"binary cross-entropy", "steps", "sums", "moments", "batch norm",
	}
	if kernel.SIMD() == "avx512" { // in whose order a card adds up these
		names = append(names, "sum of squares", "layer norm")
	}
	for act := range activations {
		names = append(names, case_("finish", act))
	}
	for _, name := range []string{"output", "log-sum-exp", "source", "source score"} {
		names = append(names, case_("softmax", name))
	}
	for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		t.Setenv("WEFT_DEVICE", "")
		want := everything(t, kerneltest.Team(t, 1, tensor.NewMeter()), storage, rows)
		t.Setenv("WEFT_DEVICE", "cuda")
		got := everything(t, kerneltest.Team(t, 1, tensor.NewMeter()), storage, rows)
		for _, name := range names {
			if len(got[name]) == 0 || !sameBits(got[name], want[name]) {
				t.Errorf("%s of element type %d: a card gives other bits", name, storage)
			}
		}
	}
}

// everything returns the result of every kernel on some random matrices, which it releases.
func everything(t *testing.T, team *kernel.Team, storage tensor.Element, rows int) map[string][]float64 {
	const heads, width = 3, 11
	const cols = heads * width
	s := &suite{t, team, rand.New(rand.NewPCG(3, 3)), storage}
	defer team.Memory.Close()
	got := map[string][]float64{}
	keep := func(name string, ms ...*tensor.Matrix) {
		for _, m := range ms {
			got[name] = append(got[name], values(m)...)
		}
	}
	new := func(cols int) *tensor.Matrix { return s.zeros(rows, cols) }
	stored := func(cols int) *tensor.Matrix { return s.as(s.storage, new(cols)) }
	a := s.tangled(rows, rows*4/5)
	x, y, bias, gamma := s.stored(rows, cols), s.stored(rows, cols), s.normal(1, cols), s.normal(1, cols)
	column, row := s.positive(rows, 1), s.normal(1, cols)
	ids := s.permutation(rows)
	mask := kernel.NewMask(11, .4, ids).From(37) // begins in the middle of a batch
	transposed := team.Transpose(a, tensor.Graph)

	z := stored(cols)
	team.SpMM(z, a, x, kernel.Scales{Row: column, Col: column, Self: column}, kernel.Replace)
	team.SpMM(z, transposed, y, kernel.Scales{}, kernel.Accumulate)
	keep("spmm", z)
	weighted := *a
	weighted.Values = s.normal(1, a.Entries())
	keep("sparse mask", team.MaskEntries(&weighted, mask, kernel.Straight),
		team.MaskEntries(&weighted, mask, kernel.Transposed))

	top, arg := stored(cols), s.int32s(rows, cols)
	team.Max(top, arg, a, x, ids, nil, kernel.Replace)
	dx := stored(cols)
	team.MaxBackward(dx, transposed, y, arg, ids, nil)
	keep("max", top, dx)

	for form, k := range map[form]kernel.Attention{
		v1: {SourceScore: s.normal(rows, heads), TargetScore: s.normal(rows, heads)}, v2: {Target: y, A: row},
	} {
		k.Heads, k.Width, k.Slope, k.Source, k.Mask = heads, width, .2, x, kernel.NewMask(5, .3, nil)
		for name, m := range s.attending(k, y, a).over(team) {
			keep(case_(form, name), m)
		}
	}

	each := kernel.Attention{Heads: cols, Width: 1, Source: x, InverseTemperature: row}
	for name, m := range s.attending(each, y, a).over(team) {
		keep(case_("softmax", name), m)
	}

	dots, da := new(heads), s.zeros(1, cols)
	team.HeadDot(dots, x, row)
	team.HeadDotBackward(dx, da, dots, x, row)
	mean, spread := stored(width), stored(cols)
	team.HeadMean(mean, x)
	team.HeadMeanBackward(spread, mean)
	scaled := stored(cols)
	team.HeadScale(scaled, x, dots)
	keep("heads", dots, dx, da, scaled)
	keep("head mean", mean, spread)

	for act := range activations {
		f, g := stored(cols), stored(cols)
		team.Finish(f, x, bias, act, mask)
		team.FinishBackward(g, nil, y, f, act, mask)
		keep(case_("finish", act), f, g)
	}
	sum := s.zeros(1, cols)
	team.ColumnSums(sum, x, y)
	keep("sums", sum)
	got["sum of squares"] = []float64{team.SumSquares(s.as(tensor.Float32, x))}
	c := stored(cols)
	team.Add(c, 2, x, 3, y)
	team.Axpy(c, -1, x)
	team.Multiply(c, c, y)
	keep("combine", c)
	positive := s.as(s.storage, s.positive(rows, cols))
	team.Exp(c, x)
	team.Reciprocal(positive, positive)
	keep("elements", c, positive)
	team.ScatterAdd(c, team.Picked(y, ids), ids)
	team.Columns(c, 5, x, 3, width, kernel.Accumulate)
	keep("rows", c)

	for _, f := range []kernel.Format{kernel.InBFloat16, kernel.InInt8, kernel.InInt4} {
		team.Decode(f, c, s.encoded(f, x, nil, nil, kernel.Draws{Key: 9, IDs: ids}), nil, nil, kernel.Replace)
		keep("coding", c)
	}

	m := kernel.NewMoments(cols)
	team.Moments(m, x)
	norm, n := kernel.Normalization{
		Mean: s.row(make([]float32, cols)...), Rstd: s.positive(1, cols),
		Gamma: gamma, Beta: bias,
	}, stored(cols)
	g := s.copy(y)
	team.Normalize(n, x, norm, kernel.ReLU, mask)
	sumG, sumGX := s.unset(cols), s.unset(cols)
	team.NormalizeSums(g, x, norm, kernel.ELU, mask).Read(sumG, sumGX)
	team.NormalizeBackward(c, g, x, norm, bias, row)
	keep("batch norm", n, g, c)
	got["moments"] = slices.Concat(m.Mean, m.M2, sumG, sumGX)
	dGamma, dBeta := s.zeros(1, cols), s.zeros(1, cols)
	norm.Mean, norm.Rstd = new(1), new(1)
	team.LayerNorm(n, x, norm, 1e-5, kernel.ReLU, mask)
	team.LayerNormBackward(kernel.NormGradients{X: c, Gamma: dGamma, Beta: dBeta}, y, x,
		norm, kernel.ReLU, mask)
	keep("layer norm", n, norm.Mean, norm.Rstd, dGamma, dBeta)
	keep("gradient of layer norm", c)

	labels, listed, targets := make([]int32, rows), make([]int32, 0, rows), new(cols)
	for i := range rows {
		labels[i] = int32(i % cols)
		targets.Floats()[i*cols+i%cols] = 1
		if i%3 != 0 {
			listed = append(listed, int32(i))
		}
	}
	list, grad, logits, step := s.ints(listed), new(cols), s.as(tensor.Float32, x), s.as(tensor.Float32, y)
	got["losses"] = append(got["losses"], team.Read(team.CrossEntropy(grad, logits, list, s.ints(labels), .1))[0])
	keep("losses", grad)
	got["losses"] = append(got["losses"], team.Read(team.BinaryCrossEntropy(grad, logits, list, targets, .1))[0])
	keep("binary cross-entropy", grad)

	w, m1, v1 := s.copy(logits), new(cols), new(cols)
	team.Adam(w, step, m1, v1, kernel.AdamStep{
		Rate: .1, Beta1: .9, Beta2: .999, Epsilon: 1e-8, Decay: .1,
		Clip: .7, Step: 1,
	})
	team.SGD(w, step, m1, kernel.SGDStep{Rate: .1, Momentum: .9, Decay: .1, Clip: 1})
	keep("steps", w, m1, v1)

	weight, square := s.normal(cols, 20), s.normal(cols, cols)
	p, dw := stored(20), s.normal(cols, cols)
	team.MatMul(p, x, weight, kernel.Straight, kernel.Replace)
	team.MatMul(c, y, square, kernel.Transposed, kernel.Accumulate)
	team.MatMulT(dw, x, y, kernel.Accumulate)
	keep("products", p, c, dw)
	return got
}
