package gnn

import (
	"weft/autograd"
	"weft/nn"
)

// Linear is a layer without graph work: z = x·W + b.
type Linear struct {
	w, b *nn.Param
}

// NewLinear makes a linear layer.
func NewLinear(s Site) *Linear {
	return &Linear{s.Params.Weight(s.Path+".weight", s.In, s.Out, nn.FanIn(s.In)), s.bias(".bias", s.Out, nn.FanIn(s.In))}
}

// Forward computes the layer.
func (c *Linear) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return autograd.Linear(x, c.w.On(x.Tape())), c.b
}
