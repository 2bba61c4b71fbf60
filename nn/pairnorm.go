package nn

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/kernel"
)

// PairNorm centres each column and divides all elements by one number, so that the mean square length of a
// row is 1 (Zhao & Akoglu 2020, equations 10 and 11), as PyG's PairNorm with its defaults: y = (x − μ)/√(1e-5
// + Σ_i |x_i − μ|²/n) over all n vertices. It has no parameters. Training and evaluation use the statistics
// of the rows that they compute, on all workers.
type PairNorm struct{ columnNorm }

// NewPairNorm makes a norm of the given width.
func NewPairNorm(width int) *PairNorm { return &PairNorm{newColumnNorm(width, nil, nil)} }

// Forward returns mask(act(y)), where y is the normalised x.
func (n *PairNorm) Forward(x *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	rows := vertices(x)
	mean, m2 := n.momentsOf(x)
	rstd := 1 / math.Sqrt(total(m2)/float64(rows.Total)+normEpsilon)
	same := slices.Repeat([]float64{rstd}, len(mean))
	return n.forward(x, use, act, mask, n.ofHost(x.Tape(), mean, same, func(sums []float64) {
		meansOf(rows, sums)
		sumGX := sums[len(mean):]
		copy(sumGX, slices.Repeat([]float64{total(sumGX)}, len(mean)))
	}))
}

func total(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}
