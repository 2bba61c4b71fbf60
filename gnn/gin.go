package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

var ginModel = ModelKind{
	Name: "gin", Settings: linearSettings, Decoupled: linearRounds, list: "convs", sameWidth: true,
	weight: ".nn.lins.0.weight", bias: ".nn.lins.1.bias",
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewGIN(at) },
	propagation: func(s *Spec, at Module) Block { return NewGINPropagation(at, s.rounds()) },
	cost:        func(in, out, _ int) Cost { return Cost{in*out + out*out, min(in, out)} },
	innerNorm:   true,
}

// GIN is the graph isomorphism network (Xu et al. 2019): z_i = MLP((1+ε)·x_i + Σ_{j→i} x_j), with MLP(h) =
// W_2·act(norm(W_1·h + b_1)) + b_2. ε is 0 unless loaded weights have another value.
type GIN struct {
	*ginMLP
	p Propagator
}

// NewGIN makes a GIN layer.
func NewGIN(m Module) *GIN { return &GIN{newGINMLP(m), m.Propagator} }

// Forward computes the layer.
func (c *GIN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types, whose rows must have the same width.
func (c *GIN) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	t := source.Tape()
	own := c.own()
	w := c.w1.On(t)
	if source == target {
		return c.after(c.p.AggregateLinear(source, w, Reduce{Kind: KindSum, Self: own}))
	}
	return c.after(autograd.AddLinear(c.p.AggregateLinear(source, w, Sum), target, autograd.Scale(own, w)))
}

// ginMLP is the part of GIN that is computed for each vertex.
type ginMLP struct {
	w1, b1, w2, b2 *nn.Param
	epsilon        *nn.Buffer
	norm           nn.Norm
	act            kernel.Activation
}

func newGINMLP(m Module) *ginMLP {
	c := &ginMLP{act: m.Activation, epsilon: m.Params.Buffer(m.Path+".eps", 1, 0)}
	c.w1 = m.Params.Weight(m.Path+".nn.lins.0.weight", m.In, m.Out, nn.FanIn(m.In))
	c.norm = m.Inner(m.Path+".nn.norms.0", m.Out)
	inner := m
	inner.Norm, inner.Centred, inner.halved = c.norm, false, false
	c.b1 = inner.bias(".nn.lins.0.bias", m.Out, nn.FanIn(m.In))
	c.w2 = m.Params.Weight(m.Path+".nn.lins.1.weight", m.Out, m.Out, nn.FanIn(m.Out))
	c.b2 = m.bias(".nn.lins.1.bias", m.Out, nn.FanIn(m.Out))
	return c
}

// own returns 1+ε.
func (c *ginMLP) own() float32 { return 1 + c.epsilon.Values[0] }

// after computes the MLP from h = W_1·(…) on. It returns the output without the last bias, and that bias.
func (c *ginMLP) after(h *autograd.Var) (*autograd.Var, *nn.Param) {
	t := h.Tape()
	h = finish(h, c.b1.On(t), c.norm, c.act, kernel.Mask{})
	return autograd.Linear(h, c.w2.On(t)), c.b2
}
