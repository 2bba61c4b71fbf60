package gnn

import (
	"weft/autograd"
	"weft/nn"
)

// GAT is graph attention (Veličković et al. 2018) with LeakyReLU slope 0.2; the equations are at Attention.
type GAT struct {
	w, aSource, aTarget, b *nn.Param
	p                      Propagator
	o                      GATOptions
	dropout                nn.Dropout
	selfLoops              bool
}

// GATOptions are a graph attention layer's settings. The site's Out is Heads times the width of a head, or
// the width of a head when the heads are averaged.
type GATOptions struct {
	Heads            int
	Average          bool
	Dropout          float64 // on the coefficients
	TransformDropout float64 // on the transformed features
}

// columns is how many columns the heads take together.
func (o GATOptions) columns(out int) int {
	if o.Average {
		return o.Heads * out
	}
	return out
}

// NewGAT makes a graph attention layer.
func NewGAT(s Site, o GATOptions) *GAT {
	n := o.columns(s.Out)
	return &GAT{
		w:       s.Params.Weight(s.Path+".lin.weight", s.In, n, nn.Glorot(s.In, n)),
		aSource: s.Params.Attention(s.Path+".att_src", o.Heads, n), aTarget: s.Params.Attention(s.Path+".att_dst", o.Heads, n),
		b: s.bias(".bias", s.Out, nn.Constant(0)), p: s.Propagator, o: o, selfLoops: !s.Plain,
		dropout: nn.Dropout{Site: s.Path + ".source", P: o.TransformDropout},
	}
}

// Forward computes the layer.
func (c *GAT) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t := x.Tape()
	z := autograd.Dropout(autograd.Linear(x, c.w.On(t)), c.dropout.Mask(x))
	z = c.p.Attend(Attention{
		Source: z, Target: z, ASource: c.aSource.On(t), ATarget: c.aTarget.On(t),
		Heads: c.o.Heads, Slope: 0.2, Dropout: c.o.Dropout, SelfLoops: c.selfLoops,
	}, Once)
	if c.o.Average {
		z = autograd.HeadMean(z, c.o.Heads)
	}
	return z, c.b
}
