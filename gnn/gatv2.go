package gnn

import (
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

var gatv2Model = ModelKind{
	Name: "gatv2", Settings: slices.Concat([]string{"jk"}, attentionSettings, graphSettings),
	list: "convs", weight: ".lin_l.weight", bias: ".bias",
	convolution: func(s *Spec, at Module, last bool) Convolution {
		return NewGATv2(at, s.attention(last))
	},
	cost: func(in, out, edge int) Cost { return Cost{2 * in * out, 2*out + edge*out} },
}

// GATv2 is graph attention with a nonlinearity between its two weights (Brody et al. 2022), with slope 0.2.
// Attention has the equations, also for the features of edges. Sources have one weight, and targets another.
type GATv2 struct {
	source, sourceB, target, targetB, a, b *nn.Param
	wEdge                                  *nn.Param // nil: features of edges are not used
	p                                      Propagator
	o                                      GATOptions
	sourceDropout, targetDropout           nn.Dropout
	loops                                  Loops
}

// NewGATv2 makes a GATv2 layer.
func NewGATv2(m Module, o GATOptions) *GATv2 {
	n := o.columns(m.Out)
	linear := func(name string, in int) (w, b *nn.Param) {
		return m.Params.Weight(m.Path+name+".weight", in, n, nn.Glorot(in, n)), m.Params.Bias(m.Path+name+
			".bias", n, nn.FanIn(in))
	}
	c := &GATv2{
		p: m.Propagator, o: o, loops: m.loops(),
		sourceDropout: nn.Dropout{Path: m.Path + ".source", P: o.TransformDropout},
		targetDropout: nn.Dropout{Path: m.Path + ".target", P: o.TransformDropout},
	}
	c.source, c.sourceB = linear(".lin_l", m.In)
	c.target, c.targetB = linear(".lin_r", m.target())
	c.a = m.Params.Attention(m.Path+".att", o.Heads, n)
	if o.EdgeFeatures {
		c.wEdge = m.Params.Weight(m.Path+".lin_edge.weight", m.EdgeColumns, n, nn.Glorot(m.EdgeColumns, n))
	}
	c.b = m.bias(".bias", m.Out, nn.Constant(0))
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
	a := Attention{
		Source:  transform(source, c.source, c.sourceB, c.sourceDropout),
		Target:  transform(target, c.target, c.targetB, c.targetDropout),
		ASource: c.a.On(t), Heads: c.o.Heads, Slope: 0.2, Dropout: c.o.Dropout, Loops: c.loops,
	}
	if c.wEdge != nil {
		a.EdgeWeight = c.wEdge.On(t)
	}
	z := c.p.Attend(a, Once)
	if c.o.Average {
		z = autograd.HeadMean(z, c.o.Heads)
	}
	return z, c.b
}
