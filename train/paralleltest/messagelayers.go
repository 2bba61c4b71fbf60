package paralleltest

import (
	"fmt"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
)

// messages are layers of message functions. Those that also have kernels are compared with their definition
// in double precision.
var messages = []Layer{
	Message("message sum", 4, 3, [][2]int{{4, 3}, {4, 3}}, gnn.Message{}, both),
	Message("message mean", 4, 3, [][2]int{{4, 3}, {4, 3}},
		gnn.Message{Reduce: gnn.KindMean, Loops: gnn.OneLoop}, both),
	Message("message maximum", 4, 3, [][2]int{{4, 3}, {4, 3}}, gnn.Message{Reduce: gnn.KindMax}, both),
	Message("message maximum, tied", 4, 4, nil, gnn.Message{Reduce: gnn.KindMax, Loops: gnn.OneLoop},
		func(e gnn.Edges, _ []*nn.Param) *autograd.Var {
			return autograd.Activate(e.Source, kernel.ReLU)
		}),
	Message("sum of messages", 5, 5, nil, gnn.Message{}, plain).like(exactRounds(gnn.Sum, gnn.Once)),
	Message("mean of messages", 5, 5, nil, gnn.Message{Reduce: gnn.KindMean},
		plain).like(exactRounds(gnn.Mean, gnn.Once)),
	Message("maximum of messages", 5, 5, nil, gnn.Message{Reduce: gnn.KindMax}, plain).
		like(exactExtreme(gnn.Max)),
	Message("columnwise messages", 5, 5, nil,
		gnn.Message{Columnwise: true, Reduce: gnn.KindMean}, columnwise),
	Message("sum of messages, loops removed", 5, 5, nil, gnn.Message{Loops: gnn.RemovedLoops},
		plain).like(exactRounds(gnn.Reduce{Kind: gnn.KindSum, Loops: gnn.RemovedLoops}, gnn.Once)),
	Message("mean of messages, loops added", 5, 5, nil,
		gnn.Message{Reduce: gnn.KindMean, Loops: gnn.AddedLoops, Columnwise: true},
		plain).like(exactRounds(gnn.Reduce{Kind: gnn.KindMean, Loops: gnn.AddedLoops}, gnn.Once)),
	Message("minimum of messages, loops added", 5, 5, nil,
		gnn.Message{Reduce: gnn.KindMin, Loops: gnn.AddedLoops},
		plain).like(exactExtreme(gnn.Reduce{Kind: gnn.KindMin, Loops: gnn.AddedLoops})),
	Message("messages of loops", 5, 5, nil, gnn.Message{Loops: gnn.AddedLoops}, weighed).like(
		exactRounds(gnn.Reduce{Kind: gnn.KindSum, Weighted: true, Self: 2}, gnn.Once)),
	ofEdgeRows("rows of edges, loops added", gnn.AddedLoops,
		gnn.Message{Reduce: gnn.KindMean, Loops: gnn.AddedLoops}).
		like(exactRounds(gnn.Reduce{Kind: gnn.KindMean, Loops: gnn.AddedLoops}, gnn.Once)),
	ofEdgeRows("rows of edges, loops left out", gnn.StoredLoops, gnn.Message{Loops: gnn.RemovedLoops}).
		like(exactRounds(gnn.Reduce{Kind: gnn.KindSum, Loops: gnn.RemovedLoops}, gnn.Once)),
	edgeRowsTwice,
	ofTargets("messages of targets", false),
	ofTargets("columnwise messages of targets", true),
	gine("messages with edge features", 5, gnn.Message{}).like(exactGINE(gnn.KindSum)),
	gine("mean of messages with edge features and loops", 3,
		gnn.Message{Reduce: gnn.KindMean, Loops: gnn.OneLoop}).
		like(exactGINE(gnn.KindMean).looped(gnn.OneLoop)),
	gatv2(2, 3).like(exactGATv2(2).looped(gnn.OneLoop)),
	resGated(4),
}

func (l Layer) like(e exact) Layer {
	l.exact = e
	return l
}

// Message is a layer whose messages are f of source and target, with the reduction and the self loops of m.
func Message(name string, in, out int, weights [][2]int, m gnn.Message,
	f func(e gnn.Edges, w []*nn.Param) *autograd.Var,
) Layer {
	l := Layer{Name: name, In: in, Out: out, Weights: weights, method: "Message"}
	if m.Columnwise {
		l.method = Columnwise
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		b := m
		b.Source = x
		b.Target = x
		b.Columns = out
		b.Parameters = params(w)
		b.Function = func(e gnn.Edges) *autograd.Var { return f(e, b.Parameters) }
		return p.Message(b)
	}
	return l
}

// params makes parameters of the leaves that a layer is given.
func params(w []*autograd.Var) []*nn.Param {
	list := make([]*nn.Param, len(w))
	for i, v := range w {
		g, _ := v.Grad()
		list[i] = &nn.Param{Name: fmt.Sprint(i), Value: v.Value(), Grad: g}
	}
	return list
}

// gine is the sum or mean of GINE's messages, relu(source + features·w0 + w1), of each column from that
// column alone.
func gine(name string, n int, m gnn.Message) Layer {
	m.Columnwise = true
	l := Message(name, n, n, [][2]int{{edgeColumns, n}, {1, n}}, m,
		func(e gnn.Edges, w []*nn.Param) *autograd.Var {
			z := autograd.AddLinear(e.Source, e.Features, e.Slice(w[0].On(e.Tape)))
			return autograd.Finish(z, e.Slice(w[1].On(e.Tape)), kernel.ReLU, kernel.Mask{})
		})
	l.features = true
	return l
}

func plain(e gnn.Edges, _ []*nn.Param) *autograd.Var { return e.Source }

// ofEdgeRows is an aggregation of the sources' rows, which edges of a set keep.
func ofEdgeRows(name string, loops gnn.Loops, m gnn.Message) Layer {
	return Layer{
		Name: name, In: 5, Out: 5, method: "Message",
		Forward: func(p gnn.Propagator, x *autograd.Var, _ []*autograd.Var) *autograd.Var {
			rows := p.ApplyEdges(gnn.Message{
				Source: x, Columns: 5, Loops: loops,
				Function: func(e gnn.Edges) *autograd.Var { return e.Source },
			})
			m := m
			m.Target, m.Columns, m.EdgeRows = x, 5, []gnn.EdgeRows{{Var: rows, Loops: loops}}
			m.Function = func(e gnn.Edges) *autograd.Var { return e.Rows[0] }
			return p.Message(m)
		},
	}
}

// edgeRowsTwice has rows of edges that are computed from such rows, and read by another function, too.
var edgeRowsTwice = Layer{
	Name: "rows of edges of rows of edges", In: 4, Out: 4, Weights: [][2]int{{4, 4}, {4, 4}, {4, 4}},
	method: "Message",
	Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		all := params(w)
		first := p.ApplyEdges(gnn.Message{
			Source: x, Target: x, Columns: 4, Loops: gnn.OneLoop, Parameters: all[:2],
			Function: func(e gnn.Edges) *autograd.Var { return both(e, all) },
		})
		second := p.ApplyEdges(gnn.Message{
			Source: x, Target: x, Columns: 4, Loops: gnn.OneLoop, Parameters: all[2:],
			EdgeRows: []gnn.EdgeRows{{Var: first, Loops: gnn.OneLoop}},
			Function: func(e gnn.Edges) *autograd.Var {
				z := autograd.AddLinear(e.Source, e.Rows[0], all[2].On(e.Tape))
				return autograd.Activate(z, kernel.Tanh)
			},
		})
		return p.Message(gnn.Message{
			Target: x, Columns: 4, Reduce: gnn.KindMean, Loops: gnn.OneLoop,
			EdgeRows: []gnn.EdgeRows{{Var: first, Loops: gnn.OneLoop}, {Var: second, Loops: gnn.OneLoop}},
			Function: func(e gnn.Edges) *autograd.Var {
				return autograd.Multiply(e.Rows[1], autograd.Activate(e.Rows[0], kernel.Sigmoid))
			},
		})
	},
}

// weighed is the source times the weight of an edge if there is one, and twice the source of an added loop.
func weighed(e gnn.Edges, _ []*nn.Param) *autograd.Var {
	switch {
	case e.Loops:
		return autograd.Scale(2, e.Source)
	case e.Weight != nil:
		return autograd.HeadScale(e.Source, e.Weight)
	}
	return e.Source
}

// ofTargets is the sum of tanh(target), times an edge's weight if there is one. It has no sources.
func ofTargets(name string, columnwise bool) Layer {
	l := Message(name, 4, 4, nil, gnn.Message{Columnwise: columnwise}, nil).like(exactOfTargets)
	l.Forward = func(p gnn.Propagator, x *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Message(gnn.Message{
			Target: x, Columns: 4, Columnwise: columnwise, Loops: gnn.OneLoop,
			Function: func(e gnn.Edges) *autograd.Var {
				z := autograd.Activate(e.Target, kernel.Tanh)
				if e.Weight != nil {
					z = autograd.HeadScale(z, e.Weight)
				}
				return z
			},
		})
	}
	return l
}

// both is tanh(source·w0 + target·w1), times an edge's weight if there is one, with dropout.
func both(e gnn.Edges, w []*nn.Param) *autograd.Var {
	z := autograd.AddLinear(autograd.Linear(e.Source, w[0].On(e.Tape)), e.Target, w[1].On(e.Tape))
	z = autograd.Finish(z, nil, kernel.Tanh, nn.Dropout{Path: "edge", P: .3}.Mask(e.Source))
	if e.Weight != nil {
		z = autograd.HeadScale(z, e.Weight)
	}
	return z
}

// columnwise is source ⊙ tanh(target), times an edge's weight if there is one, with dropout.
func columnwise(e gnn.Edges, _ []*nn.Param) *autograd.Var {
	z := autograd.Multiply(e.Source, autograd.Activate(e.Target, kernel.Tanh))
	z = autograd.Finish(z, nil, kernel.Identity,
		nn.Dropout{Path: "edge", P: .3}.Mask(e.Source).From(e.FirstColumn))
	if e.Weight != nil {
		z = autograd.HeadScale(z, e.Weight)
	}
	return z
}

// leaky is LeakyReLU.
func leaky(x *autograd.Var) *autograd.Var {
	return autograd.Combine(1-slope, autograd.Activate(x, kernel.ReLU), slope, x)
}

// gatv2 is GATv2 written with message functions: first the largest score of each vertex and head, then the
// sums of exponentials and of weighted sources.
func gatv2(heads, width int) Layer {
	n := heads * width
	return Layer{
		Name: "GATv2 of messages", In: n, Out: n, Weights: [][2]int{{n, n}, {1, n}},
		method: "Message", coarse: 16,
		Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			target := autograd.Linear(x, w[0])
			a := params(w[1:])
			score := func(e gnn.Edges) *autograd.Var {
				return autograd.HeadDot(leaky(autograd.Add(e.Source, autograd.Columns(e.Target, 0, n))),
					a[0].On(e.Tape), heads)
			}
			top := autograd.Detach(p.Message(gnn.Message{
				Source: x, Target: target, Columns: heads, Reduce: gnn.KindMax, Loops: gnn.OneLoop,
				Parameters: a, Function: score,
			}))
			sums := p.Message(gnn.Message{
				Source: x, Target: autograd.Join(target, top), Columns: n + heads, Reduce: gnn.KindSum,
				Loops: gnn.OneLoop, Parameters: a,
				Function: func(e gnn.Edges) *autograd.Var {
					s := autograd.Exp(autograd.Combine(-1, autograd.Columns(e.Target, n, heads), 1, score(e)))
					return autograd.Join(autograd.HeadScale(e.Source, s), s)
				},
			})
			return autograd.HeadScale(autograd.Columns(sums, 0, n),
				autograd.Reciprocal(autograd.Columns(sums, n, heads)))
		},
	}
}

// resGated is the residual gated graph convolution (Bresson & Laurent 2017), without its skip:
// Σ_j σ(W_k x_i + W_q x_j) ⊙ W_v x_j.
func resGated(n int) Layer {
	return Layer{
		Name: "gated", In: n, Out: n, Weights: [][2]int{{n, n}, {n, 2 * n}}, method: "Message",
		Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			return p.Message(gnn.Message{
				Source: autograd.Linear(x, w[1]), Target: autograd.Linear(x, w[0]), Columns: n,
				Reduce: gnn.KindSum,
				Function: func(e gnn.Edges) *autograd.Var {
					gate := autograd.Activate(autograd.Add(e.Target, autograd.Columns(e.Source, 0, n)),
						kernel.Sigmoid)
					return autograd.Multiply(gate, autograd.Columns(e.Source, n, n))
				},
			})
		},
	}
}
