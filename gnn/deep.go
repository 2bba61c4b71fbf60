package gnn

import (
	"fmt"

	"weft/nn"
)

var resgcnModel = ModelKind{
	Name: "resgcn", Settings: []string{
		"norm", "direction", "aggregation-order", "aggregation-chunks",
		"drop-edge",
	}, list: "layers", deep: resGCN,
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewSAGE(at, Mean) },
	cost:        func(in, out, _ int) Cost { return Cost{in * out, min(in, out)} },
	root:        true,
}

// deep describes a model of residual blocks: an encoder to the hidden width, Layers blocks of that width, and
// a decoder.
type deep struct {
	encoder, decoder string // module paths of their linear maps
	h0               bool   // all blocks read the encoder's output as initial residual
	encode           func(s *Spec, l *Layer) Block
	block            func(s *Spec, kind ModelKind, i int, e Env) Block
	decode           func(s *Spec, kind ModelKind, e Env, l *Linear) Block
	cost             func(s *Spec, kind ModelKind) Cost // of a block
}

// gcnii is the model of the authors' code, with the module paths of PyG's example gcn2_cora.py and the
// setting names of PyG's GCN2Conv.
var gcnii = &deep{
	encoder: "lins.0", decoder: "lins.1", h0: true,
	encode: func(s *Spec, l *Layer) Block {
		t := &l.Types[0]
		dropout := t.Dropout
		t.Dropout = nn.Dropout{}
		t.Activation = Activations[s.Activation]
		return &InitialResidual{Layer: l, Dropout: dropout}
	},
	block: func(s *Spec, kind ModelKind, i int, e Env) Block {
		at := s.deepModule(kind.path(i), e)
		at.Propagator = e.Propagators(at.Path, Along{Relation: e.Only(), Reversed: s.Direction == "out"})
		return NewGCNII(at, GCNIIOptions{
			Alpha: s.Alpha, Theta: s.Theta, Layer: i + 1, SharedWeights: s.SharedWeights, Dropout: s.Dropout,
			Last: i == s.Layers-1,
		})
	},
	decode: func(_ *Spec, _ ModelKind, _ Env, l *Linear) Block { return NewLayer(l, TypeLayer{}) },
	cost: func(s *Spec, _ ModelKind) Cost {
		c := Cost{s.Hidden * s.Hidden, s.Hidden}
		if !s.SharedWeights {
			c.Vertex *= 2
		}
		return c
	},
}

// resGCN is ResGCN+ with GraphSAGE's convolution, the model that GNNPipe was measured with. It has the module
// paths of PyG's example ogbn_proteins_deepgcn.py: the first layer's norm is used before the decoder.
var resGCN = &deep{
	encoder: "node_encoder", decoder: "lin",
	encode: func(s *Spec, l *Layer) Block {
		l.Types[0].Dropout = nn.Dropout{}
		l.Types[0].Detached = s.centres()
		return l
	},
	block: func(s *Spec, kind ModelKind, i int, e Env) Block {
		at := s.deepModule(kind.path(i)+".conv", e)
		at.Centred = s.centres()
		if i == 0 {
			if at.Centred {
				at.Offset = e.Params.Named("node_encoder.bias")
			}
			return NewLayer(s.convolution(kind, at, e, false), TypeLayer{})
		}
		return &ResidualBlock{
			PreActivation: s.preActivation(kind, i, kind.path(i)+".norm", e),
			Conv:          s.convolution(kind, at, e, false),
		}
	},
	decode: func(s *Spec, kind ModelKind, e Env, l *Linear) Block {
		return &Decoder{PreActivation: s.preActivation(kind, s.Layers, kind.path(0)+".norm", e), Linear: l}
	},
	cost: func(s *Spec, kind ModelKind) Cost { return s.cost(kind, s.Hidden, s.Hidden, 0, false) },
}

// residualBlocks are the blocks of Platonov et al. (2023) around a model's convolutions. In their code,
// dropout comes before the activation.
var residualBlocks = &deep{
	encoder: "encoder", decoder: "decoder",
	encode: func(s *Spec, l *Layer) Block {
		l.Types[0].Activation = Activations[s.Activation]
		return l
	},
	block: func(s *Spec, kind ModelKind, i int, e Env) Block {
		at := s.deepModule(kind.path(i), e)
		path := fmt.Sprintf("feed_forwards.%d", i)
		f := &FeedForward{
			Activation: at.Activation, Inner: nn.Dropout{Path: path, P: s.Dropout},
			Outer: nn.Dropout{Path: path + ".out", P: s.Dropout},
		}
		b := &ResidualBlock{
			PreActivation: s.sumNorm(i, e),
			Conv:          s.convolution(kind, at, e, false), FeedForward: f,
		}
		if kind.blocks == 2 {
			f.First = NewLinear(s.deepModule(path+".lins.0", e))
		}
		at = s.deepModule(path+".lins.1", e)
		at.Centred = s.centres() && s.Dropout == 0 // dropout would come between the bias and the norm
		f.Second = NewLinear(at)
		return b
	},
	decode: func(s *Spec, _ ModelKind, e Env, l *Linear) Block {
		return &Decoder{PreActivation: s.sumNorm(s.Layers, e), Linear: l}
	},
	cost: func(s *Spec, kind ModelKind) Cost {
		c := s.cost(kind, s.Hidden, s.Hidden, 0, false)
		c.Vertex += kind.blocks * s.Hidden * s.Hidden
		return c
	},
}

// deepModule returns the Module of a layer between the encoder and the decoder.
func (s *Spec) deepModule(path string, e Env) Module {
	return Module{
		Path: path, In: s.Hidden, Out: s.Hidden, EdgeColumns: e.edgeColumns(), Params: e.Params,
		Activation: Activations[s.Activation],
		Inner:      s.norms(e),
	}
}

// preActivation makes the norm, activation and dropout of ResGCN+ that follow the sum of the first n blocks.
func (s *Spec) preActivation(kind ModelKind, n int, path string, e Env) PreActivation {
	norm := s.norm(e, path, s.Hidden)
	for i := range n {
		if conv := kind.path(i) + ".conv"; s.both(kind) {
			e.Params.Shift(norm, nn.Shift{Bias: conv + ".conv_in.lin_l.bias", Share: .5})
			e.Params.Shift(norm, nn.Shift{Bias: conv + ".conv_out.lin_l.bias", Share: .5})
			e.Params.Shift(norm, nn.Shift{Bias: conv + ".lin.bias", Share: 1})
		} else {
			e.Params.Shift(norm, nn.Shift{Bias: conv + ".lin_l.bias", Share: 1})
		}
	}
	return PreActivation{
		Norm: norm, Activation: Activations[s.Activation], Dropout: nn.Dropout{Path: path, P: s.Dropout},
	}
}

// sumNorm makes the norm that follows the sum of the first n of Platonov et al.'s blocks.
func (s *Spec) sumNorm(n int, e Env) PreActivation {
	norm := s.norm(e, fmt.Sprintf("norms.%d", n), s.Hidden)
	for i := range n {
		if s.Dropout == 0 {
			e.Params.Shift(norm, nn.Shift{Bias: fmt.Sprintf("feed_forwards.%d.lins.1.bias", i), Share: 1})
		}
	}
	return PreActivation{Norm: norm}
}

// centres reports whether norms subtract the mean of each column, and with it any bias.
func (s *Spec) centres() bool { return s.Norm == "batch" || s.Norm == "pair" }

// blocks describes the encoder, the residual blocks and the decoder.
func (d *deep) blocks(s *Spec, kind ModelKind, features, classes int) []BlockSpec {
	h, in := s.Hidden, s.read(features)
	linear := func(path string, in, out int, e Env) *Linear {
		return NewLinear(Module{Path: path, In: in, Out: out, Params: e.Params})
	}
	specs := []BlockSpec{{
		In: in, Out: h, Cost: Cost{Vertex: in * h}, OwnPass: s.ownPass("input-dropout"),
		Build: func(e Env) Block {
			return d.encode(s, NewLayer(linear(d.encoder, in, h, e), TypeLayer{
				Input: nn.Dropout{Path: "input", P: s.InputDropout}, Embedding: s.embedding(0, e),
				Dropout: nn.Dropout{Path: d.encoder, P: s.Dropout},
			}))
		},
	}}
	for i := range s.Layers {
		b := BlockSpec{
			In: h, Out: h, EdgeFeatures: s.readsEdges(kind), Cost: d.cost(s, kind),
			// The encoder and the decoder have no other settings of these.
			OwnPass: s.ownPass("dropout", "attention-dropout", "transform-dropout", "norm"),
			Build:   func(e Env) Block { return d.block(s, kind, i, e) },
		}
		if d.h0 {
			b.H0 = h
		}
		specs = append(specs, b)
	}
	return append(specs, BlockSpec{
		In: h, Out: classes, Cost: Cost{Vertex: h * classes},
		Build: func(e Env) Block {
			return d.decode(s, kind, e, linear(d.decoder, h, classes, e))
		},
	})
}
