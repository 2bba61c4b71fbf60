package nn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
)

// GraphNorm normalises each column over all vertices of the graph (Cai et al. 2021), as PyG's GraphNorm: y =
// γ·(x − α·μ)/√(var + 1e-5) + β, where μ is the mean of x and var that of (x − α·μ)². Training and evaluation
// use the statistics of the rows that they compute, on all workers.
type GraphNorm struct {
	columnNorm
	alpha *Param
}

// NewGraphNorm makes a norm of the given width. Its tensors are called path.weight, path.bias and
// path.mean_scale, as in PyG.
func NewGraphNorm(ps *Params, path string, width int) *GraphNorm {
	return &GraphNorm{
		newColumnNorm(width, ps.Bias(path+".weight", width, Constant(1)), ps.Bias(path+".bias", width, Constant(0))),
		ps.Bias(path+".mean_scale", width, Constant(1)),
	}
}

// Forward returns mask(act(y)), where y is the normalised x.
func (n *GraphNorm) Forward(x *autograd.Var, use Use, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	t, rows := x.Tape(), vertices(x)
	mean, m2 := n.momentsOf(x)
	alpha, scale := n.alpha.On(t), n.values(t, n.alpha)
	shift, rstd := make([]float64, len(mean)), make([]float64, len(mean))
	left := make([]float64, len(mean)) // the mean of x̂, (1 − α)·μ·rstd
	for c, mu := range mean {
		rest := (1 - scale[c]) * mu
		shift[c], rstd[c] = scale[c]*mu, 1/math.Sqrt(m2[c]/float64(rows.Total)+rest*rest+normEpsilon)
		left[c] = rest * rstd[c]
	}
	// The gradient of x − α·μ is d = γ·rstd·(g − x̂·mean(g·x̂)). That of α is −μ·Σ d, and that of x is d −
	// α·mean(d).
	backward := func(sums []float64) {
		sumG, sumGX := sums[:len(mean)], sums[len(mean):]
		gamma, dAlpha := n.values(t, n.gamma), make([]float64, len(mean))
		for c, mu := range mean {
			dAlpha[c] = -mu * gamma[c] * rstd[c] * (sumG[c] - left[c]*sumGX[c])
		}
		addTo(t, alpha.GradSum(), dAlpha)
		meansOf(rows, sums)
		for c := range mean {
			sumG[c] = scale[c] * (sumG[c] - left[c]*sumGX[c])
		}
	}
	return n.forward(x, use, act, mask, statistics{shift: shift, rstd: rstd, inputs: []*autograd.Var{alpha}, backward: backward})
}

// values returns the values of a parameter in double precision.
func (n *GraphNorm) values(t *autograd.Tape, p *Param) []float64 {
	values := make([]float64, p.Value.Cols)
	if !t.Team.Planning() {
		for c, v := range p.Value.Floats() {
			values[c] = float64(v)
		}
	}
	return values
}
