package nn_test

import (
	"math"
	"testing"

	"weft/autograd"
	"weft/nn"
	"weft/tensor"
)

// TestWeightedLosses compares losses and their gradients with PyTorch in float64: cross_entropy(weight,
// label_smoothing), and the focal loss with γ = 2 by PyTorch's autograd from its equation.
func TestWeightedLosses(t *testing.T) {
	team := newTeam(t)
	z := team.Memory.New(tensor.Features, 5, 3)
	copy(z.Floats(), []float32{.5, -2, .25, 9, 9, 9, 1.5, .25, -1, -.75, 3, .5, 0, .5, 2})
	logits := autograd.NewTape(team).Constant(z, nil)
	weights := []float64{1, 2.5, .5}
	y := nn.Targets{Classes: 3, Class: int32s(team, 0, -1, 2, 1, 2)}
	for _, c := range []struct {
		name                string
		weights             []float64
		smoothing, focusing float64 // focusing is γ of the focal loss; 0: another loss
		total               float64
		loss                float64
		grad                []float64
	}{
		{"weights", weights, 0, 0, 4.5, 0.5404661177327986, []float64{
			-0.1028047789765796, 0.009802380664488086, 0.09300239831209152, 0, 0, 0, 0.08118656991140985,
			0.0232603417202441, -0.10444691163165397,
			0.011817458331831182, -0.053064440795436894, 0.04124698246360572, 0.011069294229146476,
			0.01825018084723198, -0.029319475076378453,
		}},
		{"weights, smoothing", weights, .1, 0, 4.5, 0.6854292787898002, []float64{
			-0.08400938272024337, -0.008389391831880828, 0.09239877455212421, 0, 0, 0, 0.08731025748923744,
			0.00861854682176627, -0.09592880431100372,
			0.0038585695356049827, -0.03947698911387209, 0.03561841957826707, 0.005506769193263485,
			0.0027733591365854634, -0.008280128329848934,
		}},
		{"focal", nil, 0, 2, 4, 0.6603846422300323, []float64{
			-0.0604657350560713, 0.005765375482327727, 0.05470035957374359, 0, 0, 0, 0.21937293859461296,
			0.06285139920867254, -0.2822243378032855,
			0.00014076015787562642, -0.0006320613836080361, 0.0004913012257324097, 0.004698409693042732,
			0.007746367999383212, -0.01244477769242594,
		}},
		{"focal, weights", weights, 0, 2, 4.5, 0.3086798878885799, []float64{
			-0.05374732004984115, 0.005124778206513533, 0.04862254184332762, 0, 0, 0, 0.09749908381982797,
			0.02793395520385446, -0.1254330390236824,
			0.0003128003508347253, -0.0014045808524623025, 0.0010917805016275768, 0.00208818208579677,
			0.0034428302219480936, -0.005531012307744863,
		}},
	} {
		y.Weights, y.Smoothing, y.Loss = c.weights, c.smoothing, nil
		if c.focusing > 0 {
			y.Loss = nn.Focal(c.focusing)
		}
		holdLoss(t, c.name, logits, y, int32s(team, 2, 0, 4, 3), c.total, c.loss, c.grad)
	}
	// A vertex that is sure has no loss and no gradient, also with γ below 1.
	z.Floats()[0] = 2000
	y.Weights, y.Loss = nil, nn.Focal(.5)
	value, g := nn.LossGradient(logits, y, int32s(team, 0), 1)
	if loss := value(); loss != 0 || g.Floats()[0] != 0 ||
		math.IsNaN(float64(g.Floats()[1])) {
		t.Errorf("a loss of %v with the gradient %v", loss, g.Floats()[:3])
	}
	// Logits far from 0 have the same differences, so the loss is the same.
	for _, far := range []float32{-1e4, 1e4} {
		for i, x := range []float32{0, -2, -1} {
			z.Floats()[i] = far + x
		}
		y.Weights, y.Smoothing, y.Loss = weights, 0, nil
		sum, grad := 1+math.Exp(-2)+math.Exp(-1), make([]float64, z.Len())
		copy(grad, []float64{1/sum - 1, math.Exp(-2) / sum, math.Exp(-1) / sum})
		holdLoss(t, "far from 0", logits, y, int32s(team, 0), 1, math.Log(sum), grad)
	}
}
