package optim_test

import (
	"math"
	"testing"

	"weft/nn"
	"weft/optim"
)

// TestClipOfSmallNorms: PyTorch's clip_grad_norm_ scales by max_norm/(norm + 1e-6), which counts where the
// norm is as small.
func TestClipOfSmallNorms(t *testing.T) {
	for _, c := range []struct{ clip, scale float64 }{
		{1e-6, 1e-6 / (5e-6 + 1e-6)}, // PyTorch 1.13: 0.16666667
		{5e-6, 5e-6 / (5e-6 + 1e-6)}, // 0.8333333
		{7e-6, 1},
	} {
		team, ps := newParams(t)
		a, b := ps.Bias("a", 1, nn.Constant(0)), ps.Bias("b", 1, nn.Constant(0))
		a.Grad.Floats()[0], b.Grad.Floats()[0] = 3e-6, 4e-6
		newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: 1e6, Clip: c.clip}, team, ps).Step(1)
		for p, want := range map[*nn.Param]float64{a: -3 * c.scale, b: -4 * c.scale} {
			if got := float64(p.Value.Floats()[0]); math.Abs(got-want) > 1e-5 {
				t.Errorf("clip %v: %s moves to %v, want %v", c.clip, p.Name, got, want)
			}
		}
	}
}

// TestClipOfTheWholeModel: the norm is that of the squares of all of the model's parameters, of which an
// optimizer may hold a part.
func TestClipOfTheWholeModel(t *testing.T) {
	team, ps := newParams(t)
	a := ps.Bias("a", 1, nn.Constant(0))
	a.Grad.Floats()[0] = 3
	squares := func(own []float64) []float64 {
		if len(own) != 1 || own[0] != 9 {
			t.Errorf("own squares are %v, want 9", own)
		}
		return append([]float64{144, 16}, own...) // a norm of 13
	}
	o := newOptimizer(t, optim.Settings{Optimizer: "sgd", LR: 1, Clip: 1}, team, ps)
	o.Squares = squares
	o.Step(1)
	near(t, "a", a.Value.Floats(), []float32{-3. / 13})
}
