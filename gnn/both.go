package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Both aggregates along the edges and against them, each with its own weights (Rossi et al. 2023; PyG's DirGNNConv with α = ½):
// z = ½·conv_in(x) + ½·conv_out(x) + W·x + b.
type Both struct {
	in, out Convolution
	root    *Linear
}

// NewBoth makes the pair; conv makes one of them at a site.
func NewBoth(s Site, props Propagators, conv func(Site) Convolution) *Both {
	half := func(path string, reversed bool) Convolution {
		h := s
		h.Path, h.Propagator, h.Plain, h.halved = s.Path+path, props(s.Path+path, reversed), true, true
		return conv(h)
	}
	c := &Both{in: half(".conv_in", false), out: half(".conv_out", true)}
	root := s
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
