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

// TestLoss compares both losses and their gradients with the reference, for one worker, and for two workers
// that list a part each: the parts add up to the mean.
func TestLoss(t *testing.T) {
	team := newTeam(t)
	const rows, classes = 9, 4
	z := normal(team, 1, rows, classes, 0)
	y := nn.Targets{Classes: classes, Class: int32s(team, 0, 1, 2, 3, -1, 1, 2, 3, 0)}
	multi := nn.Targets{Classes: classes, Multi: team.Zeros(tensor.Features, rows, classes)}
	for i := range multi.Multi.Floats() {
		multi.Multi.Floats()[i] = float32(i % 3 % 2)
	}
	labels := []int64{0, 1, 2, 3, -1, 1, 2, 3, 0}
	listed := []int64{8, 1, 0, 5, 7}
	for _, c := range []struct {
		y     nn.Targets
		total float64
		loss  float64
		grad  *reference.Matrix
	}{
		{
			y, float64(len(listed)), reference.CrossEntropy(exact(z), labels, listed),
			reference.CrossEntropyBackward(exact(z), labels, listed),
		},
		{
			multi, float64(len(listed) * classes),
			reference.BCEWithLogits(exact(z), exact(multi.Multi), listed),
			reference.BCEWithLogitsBackward(exact(z), exact(multi.Multi), listed),
		},
	} {
		logits := autograd.NewTape(team).Constant(z, nil)
		loss, g := nn.LossGradient(logits, c.y, int32s(team, 8, 1, 0, 5, 7), c.total)
		near(t, "loss", []float32{float32(loss)}, []float64{c.loss})
		near(t, "gradient", g.Floats(), c.grad.Data)

		first, g1 := nn.LossGradient(logits, c.y, int32s(team, 8, 1), c.total)
		second, g2 := nn.LossGradient(logits, c.y, int32s(team, 0, 5, 7), c.total)
		team.Axpy(g1, 1, g2)
		near(t, "shares of the loss", []float32{float32(first + second)}, []float64{c.loss})
		near(t, "shares of the gradient", g1.Floats(), c.grad.Data)

		if alone := nn.Loss(logits, c.y, int32s(team, 8, 1, 0, 5, 7), c.total); alone != loss {
			t.Errorf("without a gradient: %v, with it %v", alone, loss)
		}
		if none, g := nn.LossGradient(logits, c.y, int32s(team), 0); none != 0 ||
			slices.ContainsFunc(g.Floats(), func(v float32) bool { return v != 0 }) {
			t.Errorf("no rows: a loss of %v", none)
		}
	}
}

// TestLabelSmoothing holds CrossEntropyLoss(label_smoothing=0.1) against its definition in float64: with
// targets q, the mean over rows of −Σ_c q_c·log softmax(z)_c, with the gradient softmax(z) − q over the rows.
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
	loss, g := nn.LossGradient(logits, y, int32s(team, listed...), float64(len(listed)))
	near(t, "loss", []float32{float32(loss)}, []float64{want})
	near(t, "gradient", g.Floats(), grad)
	if alone := nn.Loss(logits, y, int32s(team, listed...), float64(len(listed))); alone != loss {
		t.Errorf("without a gradient: %v, with it %v", alone, loss)
	}
}

// TestMissingLabels: the loss is the mean over the labels that are not missing.
func TestMissingLabels(t *testing.T) {
	team := newTeam(t)
	const rows, classes = 9, 4
	z := normal(team, 1, rows, classes, 0)
	y := nn.Targets{Classes: classes, Multi: team.Zeros(tensor.Features, rows, classes)}
	listed, there := int32s(team, 8, 1, 0, 5), 0
	for i := range y.Multi.Floats() {
		y.Multi.Floats()[i] = float32(i % 3 % 2)
	}
	sum, grad := 0.0, make([]float64, rows*classes)
	for _, row := range listed.Int32s() {
		for c := range classes {
			at := int(row)*classes + c
			if (at+c)%3 == 0 {
				y.Multi.Floats()[at] = float32(math.NaN())
				continue
			}
			there++
			p := 1 / (1 + math.Exp(-float64(z.Floats()[at])))
			if y.Multi.Floats()[at] == 1 {
				sum, grad[at] = sum-math.Log(p), p-1
			} else {
				sum, grad[at] = sum-math.Log(1-p), p
			}
		}
	}
	for i := range grad {
		grad[i] /= float64(there)
	}
	loss, g := nn.LossGradient(autograd.NewTape(team).Constant(z, nil), y, listed, float64(there))
	near(t, "loss", []float32{float32(loss)}, []float64{sum / float64(there)})
	near(t, "gradient", g.Floats(), grad)
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
