package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// GATv2 is graph attention with a nonlinearity between its two weights (Brody et al. 2022), slope 0.2; the
// equations are at Attention. Sources and targets are transformed apart.
type GATv2 struct {
	source, sourceB, target, targetB, a, b *nn.Param
	p                                      Propagator
	o                                      GATOptions
	sourceDropout, targetDropout           nn.Dropout
	selfLoops                              bool
}

// NewGATv2 makes a GATv2 layer.
func NewGATv2(s Site, o GATOptions) *GATv2 {
	n := o.columns(s.Out)
	linear := func(name string, in int) (w, b *nn.Param) {
		return s.Params.Weight(s.Path+name+".weight", in, n, nn.Glorot(in, n)), s.Params.Bias(s.Path+name+".bias", n, nn.FanIn(in))
	}
	c := &GATv2{
		p: s.Propagator, o: o, selfLoops: !s.Plain && s.InTarget == 0,
		sourceDropout: nn.Dropout{Site: s.Path + ".source", P: o.TransformDropout},
		targetDropout: nn.Dropout{Site: s.Path + ".target", P: o.TransformDropout},
	}
	c.source, c.sourceB = linear(".lin_l", s.In)
	c.target, c.targetB = linear(".lin_r", s.target())
	c.a = s.Params.Attention(s.Path+".att", o.Heads, n)
	c.b = s.bias(".bias", s.Out, nn.Constant(0))
	return c
}

// Forward computes the layer.
func (c *GATv2) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types.
func (c *GATv2) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	t := source.Tape()
	transform := func(x *autograd.Var, w, b *nn.Param, d nn.Dropout) *autograd.Var {
		return autograd.Finish(autograd.Linear(x, w.On(t)), b.On(t), kernel.Identity, d.Mask(x))
	}
	z := c.p.Attend(Attention{
		Source: transform(source, c.source, c.sourceB, c.sourceDropout), Target: transform(target, c.target, c.targetB, c.targetDropout),
		ASource: c.a.On(t), Heads: c.o.Heads, Slope: 0.2, Dropout: c.o.Dropout, SelfLoops: c.selfLoops,
	}, Once)
	if c.o.Average {
		z = autograd.HeadMean(z, c.o.Heads)
	}
	return z, c.b
}
