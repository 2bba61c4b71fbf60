package gnn

import (
	"fmt"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Block is one step of a model: a convolution, then norm, activation and dropout, and the input added where it has a residual
// connection. A model is a list of blocks that could be cut anywhere.
type Block struct {
	Conv       Convolution
	Norm       nn.Norm // nil for none
	Activation kernel.Activation
	Dropout    nn.Dropout
	Residual   bool
}

// Forward computes the block for x, rows × its input width.
func (b *Block) Forward(x *autograd.Var) *autograd.Var {
	z, bias := b.Conv.Forward(x)
	z = finish(z, bias, b.Norm, b.Activation, b.Dropout.Mask(z))
	if b.Residual {
		z = autograd.Add(x, z)
	}
	return z
}

// finish is mask(act(norm(z + bias))); z is given away.
func finish(z *autograd.Var, bias *nn.Param, norm nn.Norm, act kernel.Activation, mask kernel.Mask) *autograd.Var {
	b := bias.On(z.Tape())
	if norm != nil {
		return norm.Forward(autograd.Finish(z, b, kernel.Identity, kernel.Mask{}), act, mask)
	}
	return autograd.Finish(z, b, act, mask)
}

// Model maps input features to logits.
type Model struct {
	Params *nn.Params
	Blocks []*Block
	Input  nn.Dropout // on the features
}

// Forward is rows × classes logits from rows × features.
func (m *Model) Forward(x *autograd.Var) *autograd.Var { return m.Output(m.Hidden(x)) }

// Hidden is the input of the last block: the embeddings.
func (m *Model) Hidden(x *autograd.Var) *autograd.Var {
	return run(m.Blocks[:len(m.Blocks)-1], autograd.Dropout(x, m.Input.Mask(x)))
}

// Output is the last block's output for its input h, which is given away.
func (m *Model) Output(h *autograd.Var) *autograd.Var { return run(m.Blocks[len(m.Blocks)-1:], h) }

// run passes h through blocks. Each frees what it made besides its output, and then its input is dropped.
func run(blocks []*Block, h *autograd.Var) *autograd.Var {
	for _, b := range blocks {
		in := h
		h = in.Tape().Scope(func() *autograd.Var { return b.Forward(in) })
		if h != in {
			in.Drop()
		}
	}
	return h
}

// Spec says what a named model is made of.
type Spec struct {
	Model              string // one of Names
	Layers             int
	Hidden             int     // total over the heads
	Heads, OutputHeads int     // graph attention; several output heads are averaged
	Norm               string  // none, batch, layer
	Activation         string  // one of Activations
	Residual           bool    // the input of each hidden block but the first is added to its output
	Direction          string  // in, out, both
	Dropout            float64 // after each layer but the last
	InputDropout       float64 // on the features
	TransformDropout   float64 // graph attention: on the transformed features
	AttentionDropout   float64 // graph attention: on the coefficients
}

// Names are the models that New builds.
var Names = []string{"mlp", "gcn", "sage", "gat", "gatv2", "gin"}

// Activations are the activations by name.
var Activations = map[string]kernel.Activation{
	"none": kernel.Identity, "relu": kernel.ReLU, "elu": kernel.ELU, "leaky-relu": kernel.LeakyReLU,
	"tanh": kernel.Tanh, "sigmoid": kernel.Sigmoid,
}

// Env is where a model is built: one worker's parameters and ways along the edges, and the widths that the graph gives.
type Env struct {
	Params            *nn.Params
	Propagators       Propagators
	Features, Classes int
}

// New builds a named model: Layers convolutions of width Hidden and the last of width Classes, with norm, activation and dropout
// between them, and PyG's names of parameters (torch_geometric.nn.models).
func New(s Spec, e Env) (*Model, error) {
	act, ok := Activations[s.Activation]
	if !ok {
		return nil, fmt.Errorf("unknown activation %q", s.Activation)
	}
	params := e.Params
	m := &Model{Params: params, Input: nn.Dropout{Site: "input", P: s.InputDropout}}
	norm := func(path string, width int) nn.Norm {
		switch s.Norm {
		case "batch":
			return nn.NewBatchNorm(params, path, width)
		case "layer":
			return nn.NewLayerNorm(params, path, width)
		}
		return nil
	}
	list := "convs"
	if s.Model == "mlp" {
		list = "lins"
	}
	in := e.Features
	for i := range s.Layers {
		params.BeginLayer(i)
		last := i == s.Layers-1
		b := &Block{}
		site := Site{Path: fmt.Sprintf("%s.%d", list, i), In: in, Out: s.Hidden, Params: params, Activation: act, Inner: norm}
		if last {
			site.Out = e.Classes
		} else {
			b.Norm = norm(fmt.Sprintf("norms.%d", i), s.Hidden)
			b.Activation = act
			b.Dropout = nn.Dropout{Site: site.Path, P: s.Dropout}
			b.Residual = s.Residual && i > 0
		}
		site.Norm = b.Norm
		var err error
		if b.Conv, err = s.convolution(site, e.Propagators, last); err != nil {
			return nil, err
		}
		m.Blocks = append(m.Blocks, b)
		in = site.Out
	}
	return m, nil
}

func (s Spec) convolution(site Site, props Propagators, last bool) (Convolution, error) {
	var conv func(Site) Convolution
	switch s.Model {
	case "mlp":
		return NewLinear(site), nil
	case "gcn":
		conv = func(s Site) Convolution { return NewGCN(s) }
	case "sage":
		conv = func(s Site) Convolution { return NewSAGE(s, Mean) }
	case "gin":
		conv = func(s Site) Convolution { return NewGIN(s) }
	case "gat", "gatv2":
		o := GATOptions{Heads: s.Heads, Dropout: s.AttentionDropout, TransformDropout: s.TransformDropout}
		if last {
			o.Heads, o.Average = s.OutputHeads, s.OutputHeads > 1
		}
		if s.Model == "gat" {
			conv = func(s Site) Convolution { return NewGAT(s, o) }
		} else {
			conv = func(s Site) Convolution { return NewGATv2(s, o) }
		}
	default:
		return nil, fmt.Errorf("unknown model %q", s.Model)
	}
	if s.Direction == "both" {
		return NewBoth(site, props, conv), nil
	}
	site.Propagator = props(site.Path, s.Direction == "out")
	return conv(site), nil
}
