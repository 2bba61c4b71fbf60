package sar_test

import (
	"fmt"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/tensor"
)

// leaky is LeakyReLU with slope 0.2.
func leaky(x *autograd.Var) *autograd.Var {
	return autograd.Combine(.8, autograd.Activate(x, kernel.ReLU), .2, x)
}

// params makes parameters of the leaves that a test's layer is given.
func params(w []*autograd.Var) []*nn.Param {
	list := make([]*nn.Param, len(w))
	for i, v := range w {
		g, _ := v.Grad()
		list[i] = &nn.Param{Name: fmt.Sprint(i), Value: v.Value(), Grad: g}
	}
	return list
}

// message is a layer whose messages are f of both ends.
func message(in, out int, weights [][2]int, r gnn.ReduceKind, loops bool, f func(e gnn.Edges, w []*nn.Param) *autograd.Var) layer {
	return layer{in, out, weights, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		list := params(w)
		return p.Message(gnn.Message{
			Source: x, Target: x, Columns: out, Reduce: r, SelfLoops: loops, Parameters: list,
			Function: func(e gnn.Edges) *autograd.Var { return f(e, list) },
		})
	}}
}

// both is tanh(source·w0 + target·w1), with an edge's weight where there is one, and dropout.
func both(e gnn.Edges, w []*nn.Param) *autograd.Var {
	z := autograd.AddLinear(autograd.Linear(e.Source, w[0].On(e.Tape)), e.Target, w[1].On(e.Tape))
	z = autograd.Finish(z, nil, kernel.Tanh, nn.Dropout{Site: "edge", P: .3}.Mask(e.Source))
	if e.Weight != nil {
		z = autograd.HeadScale(z, e.Weight)
	}
	return z
}

// gatv2 is GATv2 written with message functions: the largest score of each vertex and head, then the sums of
// exponentials and of weighted sources.
func gatv2(heads, width int) layer {
	n := heads * width
	return layer{n, n, [][2]int{{n, n}, {1, n}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		target := autograd.Linear(x, w[0])
		a := params(w[1:])
		score := func(e gnn.Edges) *autograd.Var {
			return autograd.HeadDot(leaky(autograd.Add(e.Source, autograd.Columns(e.Target, 0, n))), a[0].On(e.Tape), heads)
		}
		top := autograd.Detach(p.Message(gnn.Message{
			Source: x, Target: target, Columns: heads, Reduce: gnn.KindMax, SelfLoops: true, Parameters: a, Function: score,
		}))
		sums := p.Message(gnn.Message{
			Source: x, Target: autograd.Join(target, top), Columns: n + heads, Reduce: gnn.KindSum, SelfLoops: true, Parameters: a,
			Function: func(e gnn.Edges) *autograd.Var {
				s := autograd.Exp(autograd.Combine(-1, autograd.Columns(e.Target, n, heads), 1, score(e)))
				return autograd.Join(autograd.HeadScale(e.Source, s), s)
			},
		})
		return autograd.HeadScale(autograd.Columns(sums, 0, n), autograd.Reciprocal(autograd.Columns(sums, n, heads)))
	}}
}

// resGated is the residual gated graph convolution (Bresson & Laurent 2017), without its skip: Σ_j σ(W_k x_i
// + W_q x_j) ⊙ W_v x_j.
func resGated(n int) layer {
	return layer{n, n, [][2]int{{n, n}, {n, 2 * n}}, func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Message(gnn.Message{
			Source: autograd.Linear(x, w[1]), Target: autograd.Linear(x, w[0]), Columns: n, Reduce: gnn.KindSum,
			Function: func(e gnn.Edges) *autograd.Var {
				gate := autograd.Activate(autograd.Add(e.Target, autograd.Columns(e.Source, 0, n)), kernel.Sigmoid)
				return autograd.Multiply(gate, autograd.Columns(e.Source, n, n))
			},
		})
	}}
}

func plain(e gnn.Edges, _ []*nn.Param) *autograd.Var { return e.Source }

var messageLayers = map[string]layer{
	"message sum":           message(4, 3, [][2]int{{4, 3}, {4, 3}}, gnn.KindSum, false, both),
	"message mean":          message(4, 3, [][2]int{{4, 3}, {4, 3}}, gnn.KindMean, true, both),
	"message maximum":       message(4, 3, [][2]int{{4, 3}, {4, 3}}, gnn.KindMax, false, both),
	"message maximum, tied": message(4, 4, nil, gnn.KindMax, true, func(e gnn.Edges, _ []*nn.Param) *autograd.Var { return autograd.Activate(e.Source, kernel.ReLU) }),
	"GATv2 of messages":     gatv2(2, 3),
	"gated":                 resGated(4),
}

// TestMessagesAgree: any message function gives on partitions what it gives on one worker, gradients too.
func TestMessagesAgree(t *testing.T) {
	each(t, func(b *bench, along gnn.Along) {
		agree(b.t, &graph.Graph{Relation: b.relation}, along, messageLayers, dividings(b.vertices), []sar.Options{{Prefetch: 1}, {KeepHalo: true}})
	})
}

// TestMessagesAreLayers: layers written with message functions are the ones that have kernels of their own,
// with every gradient; on a graph with more edges than a function sees at a time.
func TestMessagesAreLayers(t *testing.T) {
	g := manyEdges(t, 900, 40)
	for name, pair := range map[string][2]layer{
		"sum":   {message(5, 5, nil, gnn.KindSum, false, plain), {5, 5, nil, propagate(gnn.Sum, 1)}},
		"mean":  {message(5, 5, nil, gnn.KindMean, false, plain), {5, 5, nil, propagate(gnn.Mean, 1)}},
		"max":   {message(5, 5, nil, gnn.KindMax, false, plain), {5, 5, nil, propagate(gnn.Max, 1)}},
		"gatv2": {gatv2(2, 3), attendV2(2, 3, true, 0)},
	} {
		var got [2]*outcome
		for k, l := range pair {
			team := kernel.NewTeam(2, tensor.NewMeter())
			got[k] = l.blank(g.Vertices())
			l.run(team, paralleltest.Whole(t, team, &g.Relation), nil, stored, got[k], func([]float32) {})
			team.Memory.Close()
		}
		apart(t, name, got[0].out, got[1].out)
		apart(t, name+", input gradient", got[0].dx, got[1].dx)
		for i := range got[1].dw {
			apart(t, name+", parameter gradient", got[0].dw[i], got[1].dw[i])
		}
	}
}
