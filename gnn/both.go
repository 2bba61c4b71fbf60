package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Both aggregates in both edge directions, each with its own weights (Rossi et al. 2023; PyG's DirGNNConv
// with α = ½): z = ½·conv_in(x) + ½·conv_out(x) + W·x + b.
type Both struct {
	in, out Convolution
	root    *Linear
}

// NewBoth makes the two convolutions for a relation, each by a call of conv.
func NewBoth(m Module, props Propagators, relation string, conv func(Module) Convolution) *Both {
	half := func(path string, along Along) Convolution {
		h := m
		h.Path, h.Propagator, h.Plain, h.halved = m.Path+path, props(m.Path+path, along), true, true
		return conv(h)
	}
	c := &Both{
		in:  half(".conv_in", Along{Relation: relation}),
		out: half(".conv_out", Along{Relation: relation, Reversed: true}),
	}
	root := m
	root.Path += ".lin"
	c.root = NewLinear(root)
	return c
}

// Forward computes the layer.
func (c *Both) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t := x.Tape()
	half := func(conv Convolution) *autograd.Var {
		z, b := conv.Forward(x)
		return autograd.Finish(z, b.On(t), kernel.Identity, kernel.Mask{})
	}
	z := autograd.Combine(0.5, half(c.in), 0.5, half(c.out))
	return autograd.AddLinear(z, x, c.root.w.On(t)), c.root.b
}
