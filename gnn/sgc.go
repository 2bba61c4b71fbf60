package gnn

import (
	"weft/autograd"
	"weft/nn"
)

var sgcModel = ModelKind{
	Name: "sgc", Settings: []string{"rounds", "direction", "aggregation-chunks", "drop-edge"},
	EdgeWeights: true, OneDirection: true,
	list: "convs", weight: ".lin.weight", bias: ".lin.bias", rounds: 2, single: true,
	convolution: func(s *Spec, at Module, _ bool) Convolution {
		return NewSGC(at, Rounds{Count: s.Rounds})
	},
	cost: func(in, out, _ int) Cost { return Cost{in * out, out} }, // the cost of one round
}

// SGC is the simple graph convolution (Wu et al. 2019), PyG's SGConv: z = Âᴷ·x·W + b, with Â as in GCN. It
// computes Âᴷ·(x·W), because the output usually has fewer columns than the input.
type SGC struct {
	w, b   *nn.Param
	p      Propagator
	rounds Rounds
}

// NewSGC makes the layer. Its input is rows × m.In, its output rows × m.Out.
func NewSGC(m Module, k Rounds) *SGC {
	return &SGC{
		w: m.Params.Weight(m.Path+".lin.weight", m.In, m.Out, nn.FanIn(m.In)),
		b: m.bias(".lin.bias", m.Out, nn.FanIn(m.In)),
		p: m.Propagator, rounds: k,
	}
}

// Forward computes the layer.
func (c *SGC) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return c.p.Propagate(autograd.Linear(x, c.w.On(x.Tape())), Symmetric, c.rounds), c.b
}
