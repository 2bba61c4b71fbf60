package paralleltest

import (
	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
)

// InitialResidual names a model of the suite's own, whose first embeddings travel along: GCNII without its
// identity mapping (Chen et al. 2020, equation 5). An encoder makes h0, three convolutions add a part of it
// to what they aggregate, and a decoder makes the logits.
const InitialResidual = "initial residual"

func initialResidual(hidden int) func(features, classes int) []gnn.BlockSpec {
	return func(features, classes int) []gnn.BlockSpec {
		blocks := []gnn.BlockSpec{{In: features, Out: hidden, Build: func(e gnn.Env) gnn.Block {
			encoder := gnn.Layer{Activation: kernel.ReLU, Dropout: nn.Dropout{Site: "encoder", P: .3}}
			encoder.Conv = gnn.NewLinear(gnn.Site{Path: "encoder", In: features, Out: hidden, Params: e.Params})
			return begins{encoder}
		}}}
		paths := []string{"convs.0", "convs.1", "convs.2"}
		for i, path := range paths {
			blocks = append(blocks, gnn.BlockSpec{In: hidden, Out: hidden, H0: hidden, Build: func(e gnn.Env) gnn.Block {
				linear := gnn.NewLinear(gnn.Site{Path: path, In: hidden, Out: hidden, Params: e.Params})
				return reads{linear, e.Propagators(path, gnn.Along{Relation: e.Only()}), i == len(paths)-1}
			}})
		}
		return append(blocks, gnn.BlockSpec{In: hidden, Out: classes, Build: func(e gnn.Env) gnn.Block {
			return &gnn.Layer{Conv: gnn.NewLinear(gnn.Site{Path: "decoder", In: hidden, Out: classes, Params: e.Params})}
		}})
	}
}

// begins is a layer whose output travels along from there.
type begins struct{ gnn.Layer }

func (b begins) Forward(s gnn.State) gnn.State {
	s = b.Layer.Forward(s)
	return gnn.State{H: s.H, H0: s.H}
}

// reads is relu((0.8·Â·h + 0.2·h0)·W + b); behind the last of them h0 travels no further.
type reads struct {
	linear *gnn.Linear
	p      gnn.Propagator
	last   bool
}

func (b reads) Forward(s gnn.State) gnn.State {
	z, bias := b.linear.Forward(autograd.Combine(.2, s.H0, .8, b.p.Propagate(s.H, gnn.Symmetric, gnn.Once)))
	s.H = autograd.Finish(z, bias.On(z.Tape()), kernel.ReLU, kernel.Mask{})
	if b.last {
		s.H0 = nil
	}
	return s
}
