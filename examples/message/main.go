// Message trains two networks whose convolutions are written as message functions, on one worker and on four,
// each of which holds a quarter of the graph: any function of an edge's two ends trains on a partitioned
// graph, and the losses are the same.
package main

import (
	"context"
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/graph/generate"
	"weft/kernel"
	"weft/nn"
	"weft/train"
)

// gated is the residual gated graph convolution (Bresson & Laurent 2017; PyG's ResGatedGraphConv):
// z_i = W_s·x_i + Σ_{j→i} σ(W_k·x_i + W_q·x_j) ⊙ W_v·x_j.
func gated(e gnn.Env, path string, in, out int) gnn.Convolution {
	weight := func(name string) *nn.Param { return e.Params.Weight(path+name, in, out, nn.Glorot(in, out)) }
	key, query, value, skip := weight(".lin_key"), weight(".lin_query"), weight(".lin_value"),
		weight(".lin_skip")
	p := e.Propagators(path, gnn.Along{Relation: e.Only()})
	return gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
		t := x.Tape()
		z := p.Message(gnn.Message{
			Source:  autograd.Join(autograd.Linear(x, query.On(t)), autograd.Linear(x, value.On(t))),
			Target:  autograd.Linear(x, key.On(t)),
			Columns: out, Reduce: gnn.KindSum,
			Function: func(e gnn.Edges) *autograd.Var {
				gate := autograd.Activate(autograd.Add(e.Target, autograd.Columns(e.Source, 0, out)),
					kernel.Sigmoid)
				return autograd.Multiply(gate, autograd.Columns(e.Source, out, out))
			},
		})
		return autograd.AddLinear(z, x, skip.On(t)), nil
	})
}

// attentive is GATv2 with one head (Brody et al. 2022), α_ij = softmax_j(a·LeakyReLU(W_l·x_j + W_r·x_i)): the
// largest score of each vertex first, so that no exponential overflows, and then the sums of the exponentials
// and of what they weigh.
func attentive(e gnn.Env, path string, in, out int) gnn.Convolution {
	left := e.Params.Weight(path+".lin_l", in, out, nn.Glorot(in, out))
	right := e.Params.Weight(path+".lin_r", in, out, nn.Glorot(in, out))
	a := e.Params.Attention(path+".att", 1, out)
	p := e.Propagators(path, gnn.Along{Relation: e.Only()})
	score := func(e gnn.Edges) *autograd.Var {
		s := autograd.Add(e.Source, autograd.Columns(e.Target, 0, out))
		s = autograd.Combine(.8, autograd.Activate(s, kernel.ReLU), .2, s) // LeakyReLU with slope 0.2
		return autograd.HeadDot(s, a.On(e.Tape), 1)
	}
	return gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
		t := x.Tape()
		m := gnn.Message{
			Source: autograd.Linear(x, left.On(t)), Target: autograd.Linear(x, right.On(t)),
			Parameters: []*nn.Param{a},
			Columns:    1, Reduce: gnn.KindMax, Loops: gnn.OneLoop, Function: score,
		}
		largest := autograd.Detach(p.Message(m))
		m.Target = autograd.Join(m.Target, largest)
		m.Columns = out + 1
		m.Reduce = gnn.KindSum
		m.Function = func(e gnn.Edges) *autograd.Var {
			s := autograd.Exp(autograd.Combine(-1, autograd.Columns(e.Target, out, 1), 1, score(e)))
			return autograd.Join(autograd.HeadScale(e.Source, s), s)
		}
		sums := p.Message(m)
		return autograd.HeadScale(autograd.Columns(sums, 0, out),
			autograd.Reciprocal(autograd.Columns(sums, out, 1))), nil
	})
}

func main() {
	g := must(generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 800, Degree: 12, Features: 8,
		Classes: 4, Seed: 1, Directed: true,
	}))
	for name, conv := range map[string]func(e gnn.Env, path string, in, out int) gnn.Convolution{
		"gated": gated, "attentive": attentive,
	} {
		for _, mesh := range []string{"graph=1", "graph=4"} {
			o := train.Defaults()
			o.Parallel, o.Epochs = mesh, 30
			job := train.Job{Graph: g, Options: o, Model: func(features, classes int) []gnn.BlockSpec {
				layer := func(path string, in, out int, act kernel.Activation) gnn.BlockSpec {
					return gnn.BlockSpec{In: in, Out: out, Build: func(e gnn.Env) gnn.Block {
						return gnn.NewLayer(conv(e, path, in, out), gnn.TypeLayer{Activation: act})
					}}
				}
				return []gnn.BlockSpec{
					layer("first", features, 16, kernel.ReLU),
					layer("last", 16, classes, kernel.Identity),
				}
			}}
			r := must(job.Run(context.Background()))
			fmt.Printf("%s, %s: loss %.2f, test accuracy %.2f\n", name, mesh,
				r.Losses[len(r.Losses)-1], r.Test)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
