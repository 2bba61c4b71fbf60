package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The test graph: eight vertices, in-edges of each. 0 is a hub with duplicates and a double self loop, 3 and
// 6 have no in-edge, 6 and 7 have no out-edge, hence 6 is isolated; 5 has a self loop only.
var (
	indptr  = []int64{0, 9, 11, 12, 12, 14, 15, 15, 16}
	indices = []int32{0, 0, 1, 2, 2, 2, 3, 4, 5, 0, 3, 0, 1, 1, 5, 4}
)

const vertices = 8

func random(rng *rand.Rand, rows, cols int) *Matrix {
	return New(rows, cols).Map(func(float64) float64 { return rng.Float64()*2 - 1 })
}

func randomVector(rng *rand.Rand, n int) []float64 { return random(rng, 1, n).Data }

// dot returns Σ a ⊙ b. For a fixed a it is a scalar loss of b, with the gradient a.
func dot(a, b *Matrix) (sum float64) {
	for _, v := range a.Times(b).Data {
		sum += v
	}
	return sum
}

// checkGradient compares the gradient of loss with respect to each of the numbers in param with central
// differences.
func checkGradient(t *testing.T, name string, loss func() float64, param, gradient []float64) {
	t.Helper()
	if len(param) != len(gradient) {
		t.Fatalf("%s: %d parameters but %d gradients", name, len(param), len(gradient))
	}
	const h = 1e-6
	for k, at := range param {
		param[k] = at + h
		up := loss()
		param[k] = at - h
		down := loss()
		param[k] = at
		if want := (up - down) / (2 * h); math.Abs(gradient[k]-want) > 1e-7*(1+math.Abs(want)) {
			t.Errorf("%s[%d]: gradient %.9g, central difference %.9g", name, k, gradient[k], want)
		}
	}
}

func wantClose(t *testing.T, name string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", name, len(got), len(want))
	}
	for k, v := range want {
		if !(math.Abs(got[k]-v) <= 1e-12) {
			t.Errorf("%s[%d]: %.9g, want %.9g", name, k, got[k], v)
		}
	}
}

func TestMatMulGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	x, w, b, r := random(rng, 5, 3), random(rng, 3, 4), randomVector(rng, 4), random(rng, 5, 4)
	loss := func() float64 { return dot(r, AddBias(MatMul(x, w), b)) }
	dx, dw := MatMulBackward(x, w, r)
	checkGradient(t, "x", loss, x.Data, dx.Data)
	checkGradient(t, "w", loss, w.Data, dw.Data)
	checkGradient(t, "b", loss, b, AddBiasBackward(r))
}

func TestSpMMGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	edges := len(indices)
	full := &Aggregation{
		Indptr: indptr, Indices: indices, Weights: randomVector(rng, edges),
		RowScale: randomVector(rng, vertices),
		ColScale: randomVector(rng, vertices), Self: randomVector(rng, vertices),
	}
	for name, a := range map[string]*Aggregation{
		"sum":      {Indptr: indptr, Indices: indices},
		"weighted": {Indptr: indptr, Indices: indices, Weights: full.Weights},
		"scaled":   {Indptr: indptr, Indices: indices, RowScale: full.RowScale, ColScale: full.ColScale},
		"self":     {Indptr: indptr, Indices: indices, Self: full.Self},
		"all":      full,
	} {
		x, r, start := random(rng, vertices, 3), random(rng, vertices, 3), random(rng, vertices, 3)
		loss := func() float64 {
			z := start.Clone()
			SpMM(z, a, x)
			return dot(r, z)
		}
		dx := New(vertices, 3)
		dw := SpMMBackward(dx, a, x, r)
		checkGradient(t, name+" x", loss, x.Data, dx.Data)
		if a.Weights != nil {
			checkGradient(t, name+" weights", loss, a.Weights, dw)
		}
	}
}

// TestSpMMAccumulates: aggregating two halves of the edges, one after the other, into the same z is the
// aggregation of all edges.
func TestSpMMAccumulates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	x := random(rng, vertices, 3)
	whole, halves := New(vertices, 3), New(vertices, 3)
	SpMM(whole, &Aggregation{Indptr: indptr, Indices: indices}, x)
	for parity := range int32(2) {
		part := &Aggregation{Indptr: []int64{0}}
		for i := range vertices {
			for _, j := range indices[indptr[i]:indptr[i+1]] {
				if j%2 == parity {
					part.Indices = append(part.Indices, j)
				}
			}
			part.Indptr = append(part.Indptr, int64(len(part.Indices)))
		}
		SpMM(halves, part, x)
	}
	for k, want := range whole.Data {
		if math.Abs(halves.Data[k]-want) > 1e-12 {
			t.Errorf("entry %d: %g in two halves, %g at once", k, halves.Data[k], want)
		}
	}
}

func TestMax(t *testing.T) {
	x := From32(4, 1, []float32{5, 2, 5, -7})
	z, arg := Max([]int64{0, 3, 3, 4, 6}, []int32{2, 0, 1, 3, 1, 1}, x)
	for i, want := range []struct {
		z   float64
		arg int32
	}{{5, 0}, {0, -1}, {-7, 3}, {2, 1}} {
		if z.At(i, 0) != want.z || arg[i] != want.arg {
			t.Errorf("row %d: %g from %d, want %g from %d", i, z.At(i, 0), arg[i], want.z, want.arg)
		}
	}
}

func TestMaxGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	x, r := random(rng, vertices, 3), random(rng, vertices, 3)
	loss := func() float64 {
		z, _ := Max(indptr, indices, x)
		return dot(r, z)
	}
	_, arg := Max(indptr, indices, x)
	checkGradient(t, "x", loss, x.Data, MaxBackward(vertices, arg, r).Data)
}

// attentions returns all settings of attention with 2 heads: with and without added self edges, masks and
// features of edges.
func attentions(rng *rand.Rand) map[string]*Attention {
	const heads = 2
	mask := func(n int) []float64 {
		m := make([]float64, n)
		for k := range m {
			if rng.IntN(3) > 0 {
				m[k] = 1.5
			}
		}
		return m
	}
	p, s := WithoutLoops(indptr, indices)
	return map[string]*Attention{
		"plain": {Indptr: indptr, Indices: indices, Heads: heads, Slope: 0.2},
		"self":  {Indptr: p, Indices: s, Heads: heads, Slope: 0.2, SelfEdge: true},
		"masked": {
			Indptr: indptr, Indices: indices, Heads: heads, Slope: 0.2,
			Mask: mask(len(indices) * heads),
		},
		"both": {
			Indptr: p, Indices: s, Heads: heads, Slope: 0.2, SelfEdge: true, Mask: mask(len(s) * heads),
			SelfMask: mask(vertices * heads),
		},
		"features": {
			Indptr: p, Indices: s, Heads: heads, Slope: 0.2, SelfEdge: true, Mask: mask(len(s) * heads),
			Features: random(rng, len(s), 3), SelfFeatures: random(rng, vertices, 3),
		},
	}
}

// ofFeatures returns a random weight for the edges' features, with so many columns; nil without features.
func (a *Attention) ofFeatures(rng *rand.Rand, columns int) *Matrix {
	if a.Features == nil {
		return nil
	}
	return random(rng, a.Features.Cols, columns)
}

// data returns a matrix's data, or nil for nil.
func data(m *Matrix) []float64 {
	if m == nil {
		return nil
	}
	return m.Data
}

// TestAttentionGradient compares gradients with central differences. A form is a function that returns its
// output, its inputs, and the gradients of these for the output's gradient r.
func TestAttentionGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for name, a := range attentions(rng) {
		x, y, z, r := random(rng, vertices, 6), random(rng, vertices, 6), random(rng, vertices, 6),
			random(rng, vertices, 6)
		u, v, vector, w := randomVector(rng, 6), randomVector(rng, 6), a.ofFeatures(rng, a.Heads),
			a.ofFeatures(rng, 6)
		source, target := random(rng, vertices, a.Heads), random(rng, vertices, a.Heads)
		for form, f := range map[string]func() (o *Matrix, inputs, gradients [][]float64){
			"GAT": func() (o *Matrix, inputs, gradients [][]float64) {
				o, _ = GAT(a, z, u, v, vector)
				dz, du, dv, dVector := GATBackward(a, z, u, v, vector, r)
				return o, [][]float64{z.Data, u, v, data(vector)}, [][]float64{dz.Data, du, dv, data(dVector)}
			},
			"given scores": func() (o *Matrix, inputs, gradients [][]float64) {
				dz, dSource, dTarget := ScoredBackward(a, z, source, target, r)
				return Scored(a, z, source, target), [][]float64{z.Data, source.Data, target.Data},
					[][]float64{dz.Data, dSource.Data, dTarget.Data}
			},
			"GATv2": func() (o *Matrix, inputs, gradients [][]float64) {
				o, _ = GATv2(a, x, y, u, w)
				dx, dy, du, dw := GATv2Backward(a, x, y, u, w, r)
				return o, [][]float64{x.Data, y.Data, u, data(w)}, [][]float64{dx.Data, dy.Data, du, data(dw)}
			},
			"dot products": func() (o *Matrix, inputs, gradients [][]float64) {
				o, _ = DotProduct(a, x, y, z, w)
				dx, dy, dz, dw := DotProductBackward(a, x, y, z, w, r)
				return o, [][]float64{x.Data, y.Data, z.Data, data(w)},
					[][]float64{dx.Data, dy.Data, dz.Data, data(dw)}
			},
		} {
			loss := func() float64 {
				o, _, _ := f()
				return dot(r, o)
			}
			_, inputs, gradients := f()
			for k, input := range inputs {
				if input != nil {
					checkGradient(t, fmt.Sprint(form, ", ", name, ", input ", k), loss, input, gradients[k])
				}
			}
		}
	}
}

// TestAttentionOfEqualScores: equal scores give the mean of the sources, with lse = log(number of edges) +
// score. A row without edges gives 0 and −∞.
func TestAttentionOfEqualScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	z := random(rng, vertices, 3)
	a := &Attention{Indptr: indptr, Indices: indices, Heads: 1, Slope: 0.2}
	o, lse := GAT(a, z, make([]float64, 3), make([]float64, 3), nil)
	for i := range vertices {
		in := indices[indptr[i]:indptr[i+1]]
		if want := math.Log(float64(len(in))); lse[i] != want && math.Abs(lse[i]-want) > 1e-12 {
			t.Errorf("row %d: lse %g, want %g", i, lse[i], want)
		}
		for c := range 3 {
			want := 0.0
			for _, j := range in {
				want += z.At(int(j), c) / float64(len(in))
			}
			if math.Abs(o.At(i, c)-want) > 1e-12 {
				t.Errorf("row %d: %g, want %g", i, o.At(i, c), want)
			}
		}
	}
}

func TestActivationGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	leaky := Activation{
		Value:      func(x float64) float64 { return LeakyReLU(x, 0.2) },
		Derivative: func(x float64) float64 { return LeakyReLUSlope(x, 0.2) },
	}
	for name, f := range map[string]Activation{
		"identity": Identity, "relu": ReLU, "elu": ELU,
		"gelu": GELU, "leaky": leaky,
	} {
		x, r := random(rng, 5, 4), random(rng, 5, 4)
		loss := func() float64 { return dot(r, Activate(f, x)) }
		checkGradient(t, name, loss, x.Data, ActivateBackward(f, x, r).Data)
	}
	x, r := random(rng, 5, 4), random(rng, 5, 4)
	mask := random(rng, 5, 4).Map(func(u float64) float64 { return 2 * math.Round(math.Abs(u)) })
	checkGradient(t, "dropout", func() float64 {
		return dot(r, Dropout(x, mask))
	}, x.Data, DropoutBackward(mask, r).Data)
}

func TestNormGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	x, r := random(rng, 6, 4), random(rng, 6, 4)
	gamma, beta, mean := randomVector(rng, 4), randomVector(rng, 4), randomVector(rng, 4)
	variance := []float64{0.5, 1, 1.5, 2}

	batch := func() float64 {
		y, _, _ := BatchNorm(x, gamma, beta, mean, variance)
		return dot(r, y)
	}
	dx, dgamma, dbeta := BatchNormBackward(x, gamma, r)
	checkGradient(t, "batch x", batch, x.Data, dx.Data)
	checkGradient(t, "batch γ", batch, gamma, dgamma)
	checkGradient(t, "batch β", batch, beta, dbeta)

	eval := func() float64 { return dot(r, BatchNormEval(x, gamma, beta, mean, variance)) }
	dx, dgamma, dbeta = BatchNormEvalBackward(x, gamma, mean, variance, r)
	checkGradient(t, "eval x", eval, x.Data, dx.Data)
	checkGradient(t, "eval γ", eval, gamma, dgamma)
	checkGradient(t, "eval β", eval, beta, dbeta)

	alpha := []float64{1, 0, .3, -2}
	graph := func() float64 { return dot(r, GraphNorm(x, gamma, beta, alpha)) }
	dx, dgamma, dbeta, dalpha := GraphNormBackward(x, gamma, alpha, r)
	checkGradient(t, "graph x", graph, x.Data, dx.Data)
	checkGradient(t, "graph γ", graph, gamma, dgamma)
	checkGradient(t, "graph β", graph, beta, dbeta)
	checkGradient(t, "graph α", graph, alpha, dalpha)

	checkGradient(t, "pair x", func() float64 {
		return dot(r, PairNorm(x))
	}, x.Data, PairNormBackward(x, r).Data)

	layer := func() float64 { return dot(r, LayerNorm(x, gamma, beta)) }
	dx, dgamma, dbeta = LayerNormBackward(x, gamma, r)
	checkGradient(t, "layer x", layer, x.Data, dx.Data)
	checkGradient(t, "layer γ", layer, gamma, dgamma)
	checkGradient(t, "layer β", layer, beta, dbeta)
}

func TestLossGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	x := random(rng, 6, 4)
	labels, rows := []int64{3, -1, 0, 2, 2, 1}, []int64{0, 3, 5}
	checkGradient(t, "cross-entropy", func() float64 { return CrossEntropy(x, labels, rows) }, x.Data,
		CrossEntropyBackward(x, labels, rows).Data)

	targets := random(rng, 6, 4).Map(func(u float64) float64 { return math.Round(math.Abs(u)) })
	targets.Set(1, 0, math.NaN())
	targets.Set(3, 2, math.NaN())
	checkGradient(t, "binary cross-entropy", func() float64 {
		return BCEWithLogits(x, targets, rows)
	}, x.Data,
		BCEWithLogitsBackward(x, targets, rows).Data)
}

// TestLossOfLargeLogits has logits so large that a plain exponential overflows.
func TestLossOfLargeLogits(t *testing.T) {
	x := From32(2, 2, []float32{1000, -1000, -1000, 1000})
	if got := CrossEntropy(x, []int64{1, 1}, []int64{0, 1}); got != 1000 {
		t.Errorf("cross-entropy %g, want 1000", got)
	}
	if got := BCEWithLogits(x, From32(2, 2, []float32{0, 0, 0, 1}), []int64{0, 1}); got != 250 {
		t.Errorf("binary cross-entropy %g, want 250", got)
	}
}

// TestSelfEdgeIsAStoredLoop: added self edges with their masks have the results of self loops stored at the
// end of each row.
func TestSelfEdgeIsAStoredLoop(t *testing.T) {
	const heads = 2
	rng := rand.New(rand.NewPCG(11, 1))
	added := attentions(rng)["both"]
	stored := &Attention{Indptr: []int64{0}, Heads: heads, Slope: added.Slope}
	for i := range vertices {
		from, to := added.Indptr[i], added.Indptr[i+1]
		stored.Indices = append(append(stored.Indices, added.Indices[from:to]...), int32(i))
		stored.Mask = append(append(stored.Mask, added.Mask[from*heads:to*heads]...),
			added.SelfMask[i*heads:(i+1)*heads]...)
		stored.Indptr = append(stored.Indptr, int64(len(stored.Indices)))
	}
	z, aSrc, aDst := random(rng, vertices, 6), randomVector(rng, 6), randomVector(rng, 6)
	got, gotLSE := GAT(added, z, aSrc, aDst, nil)
	want, wantLSE := GAT(stored, z, aSrc, aDst, nil)
	wantClose(t, "output", got.Data, want.Data)
	wantClose(t, "log-sum-exp", gotLSE, wantLSE)
}
