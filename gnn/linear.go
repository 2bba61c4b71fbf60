package gnn

import (
	"weft/autograd"
	"weft/nn"
)

// Linear is a layer without graph work: z = x·W + b.
type Linear struct {
	w, b *nn.Param
}

// NewLinear makes a linear layer, with PyTorch's initial values.
func NewLinear(s Site) *Linear { return newLinear(s, nn.FanIn(s.In), nn.FanIn(s.In)) }

// newLinear makes a linear layer with other initial values.
func newLinear(s Site, weight, bias nn.Init) *Linear {
	return &Linear{s.Params.Weight(s.Path+".weight", s.In, s.Out, weight), s.bias(".bias", s.Out, bias)}
}

// Forward computes the layer.
func (c *Linear) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return autograd.Linear(x, c.w.On(x.Tape())), c.b
}
