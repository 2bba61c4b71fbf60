package nn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Norm normalises a layer's output.
type Norm interface {
	// Forward returns mask(act(y)), where y is the normalised x. It is one pass, except for GELU.
	Forward(x *autograd.Var, use InputUse, act kernel.Activation, mask kernel.Mask) *autograd.Var
}

// InputUse says what becomes of a norm's input.
type InputUse int

const (
	// InPlace says that the input is not used afterwards. If the tape does not record, the result reuses its
	// memory.
	InPlace InputUse = iota
	// OutOfPlace says that the input is read again, for instance by a residual connection around the norm.
	OutOfPlace
)

// normEpsilon is added to variances before the square root, as in PyTorch and PyG.
const normEpsilon = 1e-5

// LayerNorm normalises each row over its columns (Ba et al. 2016), by default with PyTorch's epsilon of 1e-5.
// It is PyG's LayerNorm with mode="node".
type LayerNorm struct {
	gamma, beta *Param
	epsilon     float64
}

// NewLayerNorm makes a layer norm of the given width. Its tensors are called path.weight and path.bias.
func NewLayerNorm(ps *Params, path string, width int) *LayerNorm {
	return LayerNormOf(ps.Bias(path+".weight", width, Constant(1)), ps.Bias(path+".bias", width, Constant(0)),
		normEpsilon)
}

// LayerNormOf makes a layer norm of existing parameters, γ and β of 1 × columns.
func LayerNormOf(gamma, beta *Param, epsilon float64) *LayerNorm {
	return &LayerNorm{gamma, beta, epsilon}
}

// Forward returns mask(act(y)), where y is the normalised x.
func (l *LayerNorm) Forward(x *autograd.Var, use InputUse, act kernel.Activation,
	mask kernel.Mask,
) *autograd.Var {
	if act == kernel.GELU {
		return autograd.Finish(l.Forward(x, use, kernel.Identity, kernel.Mask{}), nil, act, mask)
	}
	t := x.Tape()
	norm := kernel.Normalization{
		Mean:  t.Memory().New(tensor.Activations, x.Rows(), 1),
		Rstd:  t.Memory().New(tensor.Activations, x.Rows(), 1),
		Gamma: l.gamma.Value, Beta: l.beta.Value,
	}
	gamma, beta := l.gamma.On(t), l.beta.On(t)
	return t.Record(autograd.Op{
		Inputs: []*autograd.Var{x, gamma, beta}, Keeps: []*autograd.Var{x},
		Buffers: []*tensor.Matrix{norm.Mean, norm.Rstd},
		Forward: func() *tensor.Matrix {
			from, z := x.Value(), output(x, use)
			t.Team.LayerNorm(z, from, norm, l.epsilon, act, mask)
			return z
		},
		Backward: func(g *tensor.Matrix) {
			t.Team.LayerNormBackward(kernel.NormGradients{X: g, Gamma: gamma.GradSum(), Beta: beta.GradSum()},
				g, x.Value(), norm, act, mask)
			x.AddGrad(g)
		},
	})
}
