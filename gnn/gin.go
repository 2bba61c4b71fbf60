package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// GIN is the graph isomorphism network (Xu et al. 2019): z_i = W_2·act(norm(W_1·((1+ε)·x_i + Σ_{j→i} x_j) +
// b_1)) + b_2. ε is 0 unless loaded weights have another value.
type GIN struct {
	w1, b1, w2, b2 *nn.Param
	epsilon        *nn.Buffer
	norm           nn.Norm
	act            kernel.Activation
	p              Propagator
}

// NewGIN makes a GIN layer.
func NewGIN(m Module) *GIN {
	c := &GIN{p: m.Propagator, act: m.Activation, epsilon: m.Params.Buffer(m.Path+".eps", 1, 0)}
	c.w1 = m.Params.Weight(m.Path+".nn.lins.0.weight", m.In, m.Out, nn.FanIn(m.In))
	c.norm = m.Inner(m.Path+".nn.norms.0", m.Out)
	inner := m
	inner.halved = false
	c.b1 = biasBefore(c.norm, inner, ".nn.lins.0.bias", m.Out, nn.FanIn(m.In))
	c.w2 = m.Params.Weight(m.Path+".nn.lins.1.weight", m.Out, m.Out, nn.FanIn(m.Out))
	c.b2 = m.bias(".nn.lins.1.bias", m.Out, nn.FanIn(m.Out))
	return c
}

// Forward computes the layer.
func (c *GIN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types, whose rows must have the same width.
func (c *GIN) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	t, own := source.Tape(), 1+c.epsilon.Values[0]
	var h *autograd.Var
	if w := c.w1.On(t); source == target {
		h = c.p.AggregateLinear(source, w, Reduce{KindSum, own})
	} else {
		h = autograd.AddLinear(c.p.AggregateLinear(source, w, Sum), target, autograd.Scale(own, w))
	}
	h = finish(h, c.b1.On(t), c.norm, c.act, kernel.Mask{})
	return autograd.Linear(h, c.w2.On(t)), c.b2
}
