package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// GAT is graph attention (Veličković et al. 2018), or GATv2 (Brody et al. 2022); the equations are at Attention.
type GAT struct {
	source, target   *nn.Param // GATv1 has no transform of its own for targets
	sourceB, targetB *nn.Param // GATv2
	aSource, aTarget *nn.Param
	b                *nn.Param
	p                Propagator
	a                Attention
	average          bool
	sourceDropout    nn.Dropout
	targetDropout    nn.Dropout
}

// GATOptions are a graph attention layer's settings. The site's Out is Heads times the width of a head, or the width of a head
// when the heads are averaged.
type GATOptions struct {
	V2               bool
	Heads            int
	Average          bool
	Dropout          float64 // on the coefficients
	TransformDropout float64 // on the transformed features
}

// NewGAT makes a graph attention layer, with LeakyReLU slope 0.2.
func NewGAT(s Site, o GATOptions) *GAT {
	out := s.Out
	if o.Average {
		out *= o.Heads
	}
	weight := func(name string) *nn.Param { return s.Params.Weight(s.Path+name, s.In, out, nn.Glorot(s.In, out)) }
	c := &GAT{
		p: s.Propagator, a: Attention{Heads: o.Heads, Slope: 0.2, Dropout: o.Dropout, SelfLoops: !s.Plain}, average: o.Average,
		sourceDropout: nn.Dropout{Site: s.Path + ".source", P: o.TransformDropout},
		targetDropout: nn.Dropout{Site: s.Path + ".target", P: o.TransformDropout},
	}
	if o.V2 {
		c.source, c.sourceB = weight(".lin_l.weight"), s.Params.Bias(s.Path+".lin_l.bias", out, nn.FanIn(s.In))
		c.target, c.targetB = weight(".lin_r.weight"), s.Params.Bias(s.Path+".lin_r.bias", out, nn.FanIn(s.In))
		c.aSource = s.Params.Attention(s.Path+".att", o.Heads, out)
	} else {
		c.source = weight(".lin.weight")
		c.aSource = s.Params.Attention(s.Path+".att_src", o.Heads, out)
		c.aTarget = s.Params.Attention(s.Path+".att_dst", o.Heads, out)
	}
	c.b = s.bias(".bias", s.Out, nn.Constant(0))
	return c
}

// Forward computes the layer.
func (c *GAT) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t, a := x.Tape(), c.a
	transform := func(w, b *nn.Param, d nn.Dropout) *autograd.Var {
		return autograd.Finish(autograd.Linear(x, w.On(t)), b.On(t), kernel.Identity, d.Mask(t))
	}
	a.ASource, a.ATarget = c.aSource.On(t), c.aTarget.On(t)
	a.Source = transform(c.source, c.sourceB, c.sourceDropout)
	a.Target = a.Source
	if c.target != nil {
		a.Target = transform(c.target, c.targetB, c.targetDropout)
	}
	z := c.p.Attend(a)
	if c.average {
		z = autograd.HeadMean(z, c.a.Heads)
	}
	return z, c.b
}
