package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

var gineModel = ModelKind{
	Name: "gine", Settings: append([]string{"jk"}, graphSettings...), EdgeFeatures: true, sameWidth: true,
	list:   "convs",
	weight: ".nn.lins.0.weight", bias: ".nn.lins.1.bias",
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewGINE(at) },
	cost:        func(in, out, edge int) Cost { return Cost{in*out + out*out, edge*in + in} },
	innerNorm:   true,
}

// GINE is GIN with edge features (Hu et al. 2020): z_i = MLP((1+ε)·x_i + Σ_{j→i} ReLU(x_j + W_e·e_ji + b_e)),
// where e_ji are the features of an edge. GIN has the MLP.
type GINE struct {
	*ginMLP
	edgeWeight, edgeBias *nn.Param
	p                    Propagator
}

// NewGINE makes a GINE layer, for edges with m.EdgeColumns features.
func NewGINE(m Module) *GINE {
	c := &GINE{ginMLP: newGINMLP(m), p: m.Propagator}
	c.edgeWeight = m.Params.Weight(m.Path+".lin.weight", m.EdgeColumns, m.In, nn.FanIn(m.EdgeColumns))
	c.edgeBias = m.Params.Bias(m.Path+".lin.bias", m.In, nn.FanIn(m.EdgeColumns))
	return c
}

// Forward computes the layer.
func (c *GINE) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	x = autograd.Dense(x)
	return c.Between(x, x)
}

// Between computes the layer along a relation between two types, whose rows must have the same width.
func (c *GINE) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	source, target = autograd.Dense(source), autograd.Dense(target)
	sum := c.p.Message(Message{
		Source: source, Columns: source.Cols(), Columnwise: true,
		Parameters: []*nn.Param{c.edgeWeight, c.edgeBias},
		Function: func(e Edges) *autograd.Var {
			z := autograd.AddLinear(e.Source, e.Features, e.Slice(c.edgeWeight.On(e.Tape)))
			return autograd.Finish(z, e.Slice(c.edgeBias.On(e.Tape)), kernel.ReLU, kernel.Mask{})
		},
	})
	return c.after(autograd.Linear(autograd.Combine(c.own(), target, 1, sum), c.w1.On(source.Tape())))
}
