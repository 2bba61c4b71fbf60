package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// GraphNorm normalises each column over all vertices of the graph (Cai et al. 2021), as PyG's GraphNorm: y =
// γ·(x − α·μ)/√(var + 1e-5) + β, where μ is the mean of x, and var the mean of (x − α·μ)². Training and
// evaluation use the statistics of the rows that they compute, on all workers.
type GraphNorm struct {
	columnNorm
	alpha *Param
}

// NewGraphNorm makes a norm of the given width. Its tensors are called path.weight, path.bias and
// path.mean_scale, as in PyG.
func NewGraphNorm(ps *Params, path string, width int) *GraphNorm {
	return &GraphNorm{
		newColumnNorm(width, ps.Bias(path+".weight", width, Constant(1)),
			ps.Bias(path+".bias", width, Constant(0))),
		ps.Bias(path+".mean_scale", width, Constant(1)),
	}
}

// Forward returns mask(act(y)), where y is the normalised x.
func (n *GraphNorm) Forward(x *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	return n.Biased(x, nil, use, act, mask)
}

// Biased is Forward for x + bias, a row that may be nil. While α is 1, its initial value, y does not depend
// on the bias, and the gradient of the bias is exactly 0. The sum of the gradient of x would be rounding
// errors alone, and Adam would magnify them to a step as long as any other.
func (n *GraphNorm) Biased(x, bias *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	t := x.Tape()
	rows := vertices(x)
	mean, m2 := n.momentsOf(x)
	alpha, scale, added := n.alpha.On(t), values(n.alpha.Value), make([]float64, len(mean))
	inputs := []*autograd.Var{alpha}
	if bias != nil {
		added = values(bias.Value())
		inputs = append(inputs, bias)
	}
	shift, rstd := make([]float64, len(mean)), make([]float64, len(mean))
	left := make([]float64, len(mean)) // the mean of x̂, (1 − α)·μ·rstd
	for c := range mean {
		mean[c] += added[c] // of x + bias
		rest := (1 - scale[c]) * mean[c]
		shift[c], rstd[c] = scale[c]*mean[c]-added[c],
			1/math.Sqrt(m2[c]/float64(rows.Total)+rest*rest+normEpsilon)
		left[c] = rest * rstd[c]
	}
	// The gradient of x − α·μ is d = γ·rstd·(g − x̂·mean(g·x̂)). The gradient of α is −μ·Σ d, the gradient of
	// x is d − α·mean(d), and the gradient of the bias is (1 − α)·Σ d.
	backward := func(sums []float64) {
		sumG, sumGX := sums[:len(mean)], sums[len(mean):]
		gamma, dAlpha, dBias := values(n.gamma.Value), make([]float64, len(mean)),
			make([]float64, len(mean))
		for c, mu := range mean {
			sumD := gamma[c] * rstd[c] * (sumG[c] - left[c]*sumGX[c])
			dAlpha[c], dBias[c] = -mu*sumD, (1-scale[c])*sumD
		}
		addGrad(alpha, dAlpha)
		if bias != nil {
			addGrad(bias, dBias)
		}
		meansOf(rows, sums)
		for c := range mean {
			sumG[c] = scale[c] * (sumG[c] - left[c]*sumGX[c])
		}
	}
	s := n.ofHost(t, shift, rstd, backward)
	s.inputs = inputs
	return n.forward(x, use, act, mask, s)
}

// values returns the values of a row in double precision; in a plan they are zeros.
func values(row *tensor.Matrix) []float64 {
	values := make([]float64, row.Cols)
	for c, v := range row.ReadFloats() {
		values[c] = float64(v)
	}
	return values
}
