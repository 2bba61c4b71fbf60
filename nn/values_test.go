package nn_test

import (
	"math"
	"testing"

	"weft/autograd"
	"weft/internal/require"
	"weft/nn"
	"weft/tensor"
)

// TestValueLosses compares the losses of values and their gradients with PyTorch's mse_loss, l1_loss and
// huber_loss (float64). The targets have units, and a missing value does not count.
func TestValueLosses(t *testing.T) {
	team := newTeam(t)
	matrix := func(values ...float32) *tensor.Matrix {
		m := team.Memory.New(tensor.Features, len(values)/2, 2)
		copy(m.Floats(), values)
		return m
	}
	nan := float32(math.NaN())
	params := nn.NewParams(team, 1)
	units := nn.NewUnits(params, 2)
	units.Set([]float64{100, -4}, []float64{8, .5})
	require.NoError(t, params.Load(nn.State{})) // the state of a module, which has no units
	z := matrix(.5, -2, 9, 9, 1.5, .25, -.75, 3)
	// 0, 1, 1, .25, −2.5 and 2.5 in these units; row 1 is not listed
	rows := matrix(100, -3.5, 0, 0, 108, -3.875, 80, -2.75)
	logits := autograd.NewTape(team).Constant(z, nil)
	for name, c := range map[string]struct {
		distance nn.Distance
		loss     float64
		grad     []float64
	}{
		"mse": {
			nn.Squared, 2.1354166666666665,
			[]float64{1. / 6, -1, 0, 0, 1. / 6, 0, 0.5833333333333333, 1. / 6},
		},
		"mae": {
			nn.Absolute, 1.0416666666666667,
			[]float64{1. / 6, -1. / 6, 0, 0, 1. / 6, 0, 1. / 6, 1. / 6},
		},
		"huber": {nn.Huber, 0.6875, []float64{1. / 12, -1. / 6, 0, 0, 1. / 12, 0, 1. / 6, 1. / 12}},
	} {
		y := nn.Values{Rows: rows, Units: units, Distance: c.distance}
		loss, g := y.LossGradient(logits, int32s(team, 0, 2, 3), 6)
		near(t, name, []float32{float32(loss)}, []float64{c.loss})
		near(t, "gradient of "+name, g.Floats(), c.grad)
		if alone := y.Loss(logits, int32s(team, 0, 2, 3), 6); alone != loss {
			t.Errorf("%s without a gradient: %v, with it %v", name, alone, loss)
		}
		rows.Floats()[2], rows.Floats()[3] = nan, nan
		if with := y.Loss(logits, int32s(team, 1, 3, 2, 0), 6); math.Abs(with-loss) > 1e-12 {
			t.Errorf("%s with a row of missing values: %v, without it %v", name, with, loss)
		}
		if none := y.Loss(logits, int32s(team), 0); none != 0 {
			t.Errorf("%s of nothing: %v", name, none)
		}
	}
	units.Predict(z)
	near(t, "predictions", z.Floats(), []float64{104, -5, 172, .5, 112, -3.875, 94, -2.5})
	units.Set([]float64{7, 0}, []float64{0, 1})
	near(t, "a deviation of 0", func() []float32 {
		z := matrix(2, 2)
		units.Predict(z)
		return z.Floats()
	}(), []float64{9, 2})
}
