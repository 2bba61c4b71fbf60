package gnn

import (
	"weft/autograd"
	"weft/nn"
)

var mlpModel = ModelKind{
	Name: "mlp", Settings: layerSettings, list: "lins", weight: ".weight", bias: ".bias",
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewLinear(at) },
	cost:        func(in, out, _ int) Cost { return Cost{Vertex: in * out} },
}

// Linear is a layer without aggregation: z = x·W + b.
type Linear struct {
	w, b *nn.Param
}

// NewLinear makes a linear layer, with PyTorch's initial values.
func NewLinear(m Module) *Linear { return newLinear(m, nn.FanIn(m.In), nn.FanIn(m.In)) }

// newLinear makes a linear layer with other initial values.
func newLinear(m Module, weight, bias nn.Init) *Linear {
	return &Linear{m.Params.Weight(m.Path+".weight", m.In, m.Out, weight), m.bias(".bias", m.Out, bias)}
}

// Forward computes the layer.
func (c *Linear) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return autograd.Linear(x, c.w.On(x.Tape())), c.b
}
