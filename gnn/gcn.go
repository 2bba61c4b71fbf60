package gnn

import (
	"weft/autograd"
	"weft/nn"
)

// GCN is the graph convolution of Kipf & Welling (2017): z = D^−½(A+I)D^−½·x·W + b.
type GCN struct {
	w, b *nn.Param
	p    Propagator
	r    Reduce
}

// NewGCN makes a GCN layer; x is rows × s.In, its output rows × s.Out.
func NewGCN(s Site) *GCN {
	c := &GCN{w: s.Params.Weight(s.Path+".lin.weight", s.In, s.Out, nn.Glorot(s.In, s.Out)), p: s.Propagator, r: Symmetric}
	if s.Plain || s.InTarget > 0 {
		c.r = SymmetricNoLoops
	}
	c.b = s.bias(".bias", s.Out, nn.Constant(0))
	return c
}

// Between computes the layer along a relation, which must be within one type: the normalisation has a degree
// for both ends.
func (c *GCN) Between(source, _ *autograd.Var) (*autograd.Var, *nn.Param) { return c.Forward(source) }

// Forward computes the layer.
func (c *GCN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return c.p.AggregateLinear(x, c.w.On(x.Tape()), c.r), c.b
}
