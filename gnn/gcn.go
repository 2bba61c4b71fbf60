package gnn

import (
	"weft/autograd"
	"weft/nn"
)

var gcnModel = ModelKind{
	Name: "gcn", Settings: blockSettings, Decoupled: linearRounds, EdgeWeights: true,
	blocks: 1, oneType: true,
	list: "convs", weight: ".lin.weight", bias: ".bias",
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewGCN(at) },
	propagation: func(s *Spec, at Module) Block { return NewPropagation(at, Symmetric, s.rounds()) },
	cost:        func(in, out, _ int) Cost { return Cost{in * out, min(in, out)} },
}

// GCN is the graph convolution of Kipf & Welling (2017): z = D^−½(A+I)D^−½·x·W + b.
type GCN struct {
	w, b *nn.Param
	p    Propagator
	r    Reduce
}

// NewGCN makes a GCN layer. Its input is rows × m.In, its output rows × m.Out.
func NewGCN(m Module) *GCN {
	c := &GCN{
		w: m.Params.Weight(m.Path+".lin.weight", m.In, m.Out, nn.Glorot(m.In, m.Out)),
		p: m.Propagator, r: Symmetric,
	}
	if m.Plain || m.InTarget > 0 {
		c.r = SymmetricNoLoops
	}
	c.b = m.bias(".bias", m.Out, nn.Constant(0))
	return c
}

// Between computes the layer along a relation. Both ends must be of one vertex type, because the
// normalisation needs a degree for both ends.
func (c *GCN) Between(source, _ *autograd.Var) (*autograd.Var, *nn.Param) { return c.Forward(source) }

// Forward computes the layer.
func (c *GCN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return c.p.AggregateLinear(x, c.w.On(x.Tape()), c.r), c.b
}
