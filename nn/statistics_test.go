package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// TestBounds: initial values fill the interval of PyTorch's and PyG's initialisers, and none is outside.
func TestBounds(t *testing.T) {
	team := newTeam(t)
	ps := nn.NewParams(team, 3)
	for _, c := range []struct {
		p     *nn.Param
		bound float64
	}{
		{ps.Weight("narrow", 60, 20, nn.Glorot(60, 20)), math.Sqrt(6. / 80)},
		{ps.Weight("wide", 20, 60, nn.Glorot(20, 60)), math.Sqrt(6. / 80)},
		{ps.Weight("linear", 60, 20, nn.FanIn(60)), math.Sqrt(1. / 60)},
		{ps.Attention("attention", 8, 400), math.Sqrt(6. / 58)}, // 8 heads of 50 columns, by PyG's glorot
	} {
		largest := 0.0
		for _, x := range c.p.Value.Floats() {
			if x != x {
				t.Fatalf("%s begins with %v", c.p.Name, x)
			}
			largest = math.Max(largest, math.Abs(float64(x)))
		}
		if !(largest <= c.bound) || !(largest > .97*c.bound) {
			t.Errorf("%s: values up to %v, want a bound of %v", c.p.Name, largest, c.bound)
		}
	}
}

// TestKeepRates: of all elements a share of 1−p is kept, times 1/(1−p), so that their mean stays; neighbours
// along a row and along a column are kept independently.
func TestKeepRates(t *testing.T) {
	const rows, cols = 800, 500
	for _, p := range []float64{.1, .5, .6, .9} {
		team := newTeam(t)
		tape := autograd.NewTrainingTape(team, autograd.Random{Seed: 5, Epoch: 2})
		m := team.Memory.New(tensor.Features, rows, cols)
		team.Fill(m, 1)
		mask := nn.Dropout{Path: "layers.1", P: p}.Mask(tape.Constant(m, autograd.AllHere(rows)))
		team.Finish(m, m, nil, kernel.Identity, mask)
		kept, right, below := 0, 0, 0
		at := func(i, j int) bool { return m.Floats()[i*cols+j] != 0 }
		for i := range rows - 1 {
			for j := range cols - 1 {
				// p is rounded to a multiple of 2⁻¹⁶, and the scale is that of the rounded one
				if x := float64(m.Floats()[i*cols+j]); x != 0 && math.Abs(x*(1-p)-1)*(1-p) > 1./(1<<16) {
					t.Fatalf("an element is %v with p=%v", x, p)
				}
				if !at(i, j) {
					continue
				}
				kept++
				if at(i, j+1) {
					right++
				}
				if at(i+1, j) {
					below++
				}
			}
		}
		n := float64((rows - 1) * (cols - 1))
		for what, c := range map[string]struct{ got, of, share float64 }{
			"kept":              {float64(kept), n, 1 - p},
			"kept with a right": {float64(right), n, (1 - p) * (1 - p)},
			"kept with a below": {float64(below), n, (1 - p) * (1 - p)},
		} {
			if deviation := math.Sqrt(c.of * c.share * (1 - c.share)); math.Abs(
				c.got-c.of*c.share) > 6*deviation {
				t.Errorf("p=%v: %s neighbour are %.5f of all, want %.5f", p, what, c.got/c.of, c.share)
			}
		}
	}
}

// TestRunningStatistics follows batch norm over some epochs in double precision. Each epoch moves the running
// statistics by a tenth towards the batch's mean and unbiased variance. Evaluation normalises by them.
func TestRunningStatistics(t *testing.T) {
	const rows, cols, epochs = 37, 4, 6
	team := newTeam(t)
	ps := nn.NewParams(team, 1)
	norm := nn.NewBatchNorm(ps, "norm", cols)
	mean, variance := make([]float64, cols), slices.Repeat([]float64{1}, cols)
	for epoch := range uint64(epochs) {
		x := normal(team, epoch+1, rows, cols, float64(epoch)/2)
		tape := autograd.NewTrainingTape(team, autograd.Random{})
		out := norm.Forward(tape.Input(x, autograd.AllHere(rows)), nn.LeaveWhole,
			kernel.Identity, kernel.Mask{})
		for c := range cols {
			m, v := 0.0, 0.0
			for i := range rows {
				m += float64(x.Floats()[i*cols+c]) / rows
			}
			for i := range rows {
				d := float64(x.Floats()[i*cols+c]) - m
				v += d * d
			}
			near(t, "output", out.Value().Floats()[c:c+1],
				[]float64{(float64(x.Floats()[c]) - m) / math.Sqrt(v/rows+1e-5)})
			mean[c], variance[c] = .9*mean[c]+.1*m, .9*variance[c]+.1*v/(rows-1)
		}
		tape.Backward(autograd.Root{Var: out, Grad: team.Zeros(tensor.Gradients, rows, cols)})
		ps.Commit()
		near(t, fmt.Sprint("running mean after epoch ", epoch+1), ps.Buffers[0].Values, mean)
		near(t, fmt.Sprint("running variance after epoch ", epoch+1), ps.Buffers[1].Values, variance)
		if n := *ps.Buffers[2].Count; n != int64(epoch)+1 {
			t.Errorf("%d batches after epoch %d", n, epoch+1)
		}
	}
	x := normal(team, 99, rows, cols, 1)
	var want []float64
	for i, v := range x.Floats() {
		want = append(want, (float64(v)-mean[i%cols])/math.Sqrt(variance[i%cols]+1e-5))
	}
	out := norm.Forward(autograd.NewTape(team).Constant(x, autograd.AllHere(rows)), nn.LeaveWhole,
		kernel.Identity, kernel.Mask{})
	near(t, "evaluation", out.Value().Floats(), want)
}

// TestSnapshotOfCounters: each counter has its own number again.
func TestSnapshotOfCounters(t *testing.T) {
	ps := nn.NewParams(newTeam(t), 1)
	a, b, c := ps.Counter("a"), ps.Counter("b"), ps.Counter("c")
	*a.Count, *b.Count, *c.Count = 1, 2, 3
	var s nn.Snapshot
	ps.Save(&s)
	*a.Count, *b.Count, *c.Count = 7, 8, 9
	ps.Restore(&s)
	if *a.Count != 1 || *b.Count != 2 || *c.Count != 3 {
		t.Errorf("%d, %d and %d, want 1, 2 and 3", *a.Count, *b.Count, *c.Count)
	}
}

// TestFirstReason: integers of the wrong shape are refused for their shape, which comes first.
func TestFirstReason(t *testing.T) {
	ps := nn.NewParams(newTeam(t), 1)
	ps.Bias("bias", 2, nn.Constant(0))
	for want, one := range map[string]nn.Tensor{
		"the weights hold bias as [3], this model needs [2]": {Shape: []int{3}, Int64: []int64{1, 2, 3}},
		"as integers": {Shape: []int{2}, Int64: []int64{1, 2}},
	} {
		if err := ps.Load(nn.State{"bias": one}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
