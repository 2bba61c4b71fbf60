package gnn

import (
	"weft/autograd"
	"weft/kernel"
)

// Jumps are the ways in which a jumping knowledge network (Xu et al. 2018), PyG's JumpingKnowledge, combines
// the outputs of its layers. None is the plain model, whose last layer computes the logits.
var Jumps = []string{noJump, "cat", "max"}

const noJump = "none"

// Jumping is a layer whose output is also combined with the outputs of the layers before it: side by side, or
// as the maximum of each column. State.H0 holds the combination so far.
type Jumping struct {
	Layer   Block
	Maximum bool
	Last    bool // the state after the layer has only the combined outputs
}

// Forward computes the layer for a vertex type's rows, rows × its input width.
func (b *Jumping) Forward(s State) State {
	h := b.Layer.Forward(s).Rows[0]
	// The alias makes the gradient of h independent of where the model is cut into stages.
	all := autograd.Alias(h)
	switch {
	case s.H0 == nil:
	case b.Maximum:
		all = maximum(s.H0, all)
	default:
		all = autograd.Join(s.H0, all)
	}
	if b.Last {
		return StateOf(all)
	}
	return State{Rows: []*autograd.Var{h}, H0: all}
}

// maximum returns the larger of each pair of elements, as a + relu(b − a).
func maximum(a, b *autograd.Var) *autograd.Var {
	more := autograd.Finish(autograd.Combine(1, b, -1, autograd.Copy(a)), nil, kernel.ReLU, kernel.Mask{})
	return autograd.Add(a, more)
}

// jumping turns layers into a jumping knowledge network, and appends the linear layer.
func (s Spec) jumping(layers []BlockSpec, classes int) []BlockSpec {
	all := 0 // columns of the combination so far
	for i := range layers {
		b := &layers[i]
		b.H0 = all
		if s.Jump == "max" {
			all = s.Hidden
		} else {
			all += s.Hidden
		}
		layer, last := b.Build, i == s.Layers-1
		b.Build = func(e Env) Block {
			return &Jumping{Layer: layer(e), Maximum: s.Jump == "max", Last: last}
		}
	}
	layers[s.Layers-1].Out = all
	return append(layers, BlockSpec{
		In: all, Out: classes, Cost: Cost{Vertex: all * classes},
		Build: func(e Env) Block {
			at := Module{Path: "lin", In: all, Out: classes, Params: e.Params}
			return NewLayer(NewLinear(at), TypeLayer{})
		},
	})
}

// jumps reports whether the model is a jumping knowledge network.
func (s *Spec) jumps(kind ModelKind) bool {
	return s.Jump != "" && s.Jump != noJump && kind.Uses("jk") && !s.decouples(kind) && s.made(kind) == nil
}
