package nn_test

import (
	"math"
	"slices"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/nn"
	"weft/tensor"
)

func int32s(team *kernel.Team, values ...int32) *tensor.Matrix {
	m := team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(values))
	copy(m.Int32s(), values)
	return m
}

// holdLoss compares a loss of listed rows, with its gradient and without, with the exact values.
func holdLoss(t *testing.T, what string, logits *autograd.Var, y nn.Targets, rows *tensor.Matrix,
	total, want float64, grad []float64,
) {
	t.Helper()
	value, g := nn.LossGradient(logits, y, rows, total)
	loss := value()
	near(t, what, []float32{float32(loss)}, []float64{want})
	near(t, what+": gradient", g.Floats(), grad)
	if alone := nn.Loss(logits, y, rows, total); alone != loss {
		t.Errorf("%s: without a gradient %v, with it %v", what, alone, loss)
	}
}

// TestLoss compares both losses and their gradients with the reference, for several labels also if some are
// missing. It does so for one worker, and for two workers that list a part each: the parts add up to the
// mean.
func TestLoss(t *testing.T) {
	team := newTeam(t)
	const rows, classes = 9, 4
	z := normal(team, 1, rows, classes, 0)
	y := nn.Targets{Classes: classes, Class: int32s(team, 0, 1, 2, 3, -1, 1, 2, 3, 0)}
	multi := nn.Targets{Classes: classes, Multi: team.Zeros(tensor.Features, rows, classes)}
	for i := range multi.Multi.Floats() {
		multi.Multi.Floats()[i] = float32(i % 3 % 2)
	}
	some, there := nn.Targets{Classes: classes, Multi: copyOf(team, multi.Multi)}, 0
	labels, listed := []int64{0, 1, 2, 3, -1, 1, 2, 3, 0}, []int64{8, 1, 0, 5, 7}
	for _, row := range listed {
		for c := range classes {
			if at := int(row)*classes + c; (at+c)%3 == 0 {
				some.Multi.Floats()[at] = float32(math.NaN())
			} else {
				there++
			}
		}
	}
	ofMulti := func(y nn.Targets) (float64, []float64) {
		return reference.BCEWithLogits(exact(z), exact(y.Multi), listed),
			reference.BCEWithLogitsBackward(exact(z), exact(y.Multi), listed).Data
	}
	for name, c := range map[string]struct {
		y     nn.Targets
		total int
	}{
		"one label":    {y, len(listed)},
		"several":      {multi, len(listed) * classes},
		"some missing": {some, there},
	} {
		want, grad := reference.CrossEntropy(exact(z), labels, listed),
			reference.CrossEntropyBackward(exact(z), labels, listed).Data
		if c.y.Multi != nil {
			want, grad = ofMulti(c.y)
		}
		logits, total := autograd.NewTape(team).Constant(z, nil), float64(c.total)
		holdLoss(t, name, logits, c.y, int32s(team, 8, 1, 0, 5, 7), total, want, grad)

		first, g1 := nn.LossGradient(logits, c.y, int32s(team, 8, 1), total)
		second, g2 := nn.LossGradient(logits, c.y, int32s(team, 0, 5, 7), total)
		team.Axpy(g1, 1, g2)
		near(t, name+": shares of the loss", []float32{float32(first() + second())}, []float64{want})
		near(t, name+": shares of the gradient", g1.Floats(), grad)

		if none, g := nn.LossGradient(logits, c.y, int32s(team), 0); none() != 0 ||
			slices.ContainsFunc(g.Floats(), func(v float32) bool { return v != 0 }) {
			t.Errorf("%s, no rows: a loss, or a gradient", name)
		}
	}
}

// TestLabelSmoothing compares the loss of CrossEntropyLoss(label_smoothing=0.1) with its definition in
// float64: with targets q, the mean over rows of −Σ_c q_c·log softmax(z)_c, with the gradient softmax(z) − q
// over the rows.
func TestLabelSmoothing(t *testing.T) {
	team := newTeam(t)
	const rows, classes, ε = 9, 4, 0.1
	z := normal(team, 1, rows, classes, 0)
	class := []int32{0, 1, 2, 3, -1, 1, 2, 3, 0}
	listed := []int32{8, 1, 0, 5, 7}
	want, grad := 0., make([]float64, rows*classes)
	for _, row := range listed {
		v, sum := exact(z).Data[int(row)*classes:][:classes], 0.
		for _, x := range v {
			sum += math.Exp(x)
		}
		for k, x := range v {
			q := ε / classes
			if int32(k) == class[row] {
				q += 1 - ε
			}
			want -= q * (x - math.Log(sum)) / float64(len(listed))
			grad[int(row)*classes+k] = (math.Exp(x)/sum - q) / float64(len(listed))
		}
	}
	logits := autograd.NewTape(team).Constant(z, nil)
	y := nn.Targets{Classes: classes, Class: int32s(team, class...), Smoothing: ε}
	holdLoss(t, "smoothed", logits, y, int32s(team, listed...), float64(len(listed)), want, grad)
}

// TestDropoutMask: evaluation drops nothing. In training the mask depends on seed, epoch and module path.
func TestDropoutMask(t *testing.T) {
	team := newTeam(t)
	d := nn.Dropout{Path: "layers.0", P: .5}
	rows := autograd.AllHere(20)
	draw := func(d nn.Dropout, r autograd.Random, training bool) []float32 {
		tape := autograd.NewTrainingTape(team, r)
		tape.Training = training
		m := team.Memory.New(tensor.Features, 20, 30)
		team.Fill(m, 1)
		team.Finish(m, m, nil, kernel.Identity, d.Mask(tape.Constant(m, rows)))
		return m.Floats()
	}
	ones := slices.Repeat([]float32{1}, 600)
	r := autograd.Random{Seed: 3, Epoch: 4}
	if !slices.Equal(draw(d, r, false), ones) ||
		!slices.Equal(draw(nn.Dropout{Path: "layers.0"}, r, true), ones) {
		t.Error("something was dropped in evaluation, or with probability 0")
	}
	for _, p := range []float64{.1, .9} {
		kept := 0.
		for _, v := range draw(nn.Dropout{Path: "layers.0", P: p}, r, true) {
			if v != 0 {
				kept++
			}
		}
		if deviation := math.Sqrt(600 * p * (1 - p)); math.Abs(kept-600*(1-p)) > 5*deviation {
			t.Errorf("p=%v: %v of 600 are kept", p, kept)
		}
	}
	mask := draw(d, r, true)
	if slices.Equal(mask, ones) || !slices.Equal(mask, draw(d, r, true)) {
		t.Error("nothing was dropped, or each time something else")
	}
	for name, other := range map[string][]float32{
		"seed":  draw(d, autograd.Random{Seed: 4, Epoch: 4}, true),
		"epoch": draw(d, autograd.Random{Seed: 3, Epoch: 5}, true),
		"path":  draw(nn.Dropout{Path: "layers.1", P: .5}, r, true),
	} {
		if slices.Equal(mask, other) {
			t.Errorf("another %s has the same mask", name)
		}
	}
	rows.IDs = int32s(team, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
	backwards := draw(d, r, true)
	for v := range 20 {
		if !slices.Equal(backwards[v*30:(v+1)*30], mask[(19-v)*30:(20-v)*30]) {
			t.Errorf("row %d, vertex %d, has another mask", v, 19-v)
		}
	}
}

func TestRowsOfOneWorker(t *testing.T) {
	v := []float64{1, math.Pi}
	autograd.AllHere(1).Sum(v)
	if v[0] != 1 || v[1] != math.Pi {
		t.Errorf("a sum over one worker changed the values to %v", v)
	}
}
