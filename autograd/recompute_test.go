package autograd_test

import (
	"slices"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// network is some layers on a bench's tape, each in a scope of its own, as in a model.
type network struct {
	*bench
	weights []*autograd.Var
	forward int // number of results that count has computed
}

func newNetwork(t *testing.T, layers int, recompute bool) *network {
	n := &network{bench: newBench(t)}
	n.tape.Recompute = recompute
	for range layers {
		n.weights = append(n.weights, n.leaf(cols, cols))
	}
	return n
}

// aggregate stands for an aggregation, which is not computed again.
func (n *network) aggregate(x *autograd.Var) *autograd.Var {
	z := n.tape.New(x.Rows(), x.Cols())
	n.team.Copy(z, x.Value())
	return n.tape.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Reads: true, Backward: x.AddGrad})
}

// count returns a copy of x that an operation may take, and counts how often it is computed.
func (n *network) count(x *autograd.Var) *autograd.Var {
	return n.tape.Record(autograd.Op{
		Inputs: []*autograd.Var{x}, Reads: true, Backward: x.AddGrad,
		Forward: func() *tensor.Matrix {
			n.forward++
			z := n.tape.New(x.Rows(), x.Cols())
			n.team.Copy(z, x.Value())
			return z
		},
	})
}

// run passes a constant through the layers. It returns the result, the bytes that are live after the forward
// pass, and the gradients of the weights.
func (n *network) run(
	layer func(x, w *autograd.Var) *autograd.Var,
) (result []float32, live int64, grads [][]float32) {
	x := n.tape.Constant(n.matrix(rows, cols), nil)
	constant := n.team.Memory.LiveTensors()
	for _, w := range n.weights {
		z := n.tape.Scope(func() *autograd.Var { return layer(x, w) })
		x.Drop()
		x = z
	}
	live = (n.team.Memory.LiveTensors() - constant) / page
	result = slices.Clone(x.Value().Floats())
	n.tape.Backward(autograd.Root{Var: x, Grad: n.ones(x)})
	n.live("the backward pass", 0)
	for _, w := range n.weights {
		g, _ := w.Grad()
		grads = append(grads, slices.Clone(g.Floats()))
	}
	return result, live, grads
}

// TestRecompute: with recomputation a tape gives the same bits. After the forward pass it holds as many
// values as are counted here by hand. It computes no value more than twice.
func TestRecompute(t *testing.T) {
	mask := kernel.NewMask(3, .5, nil)
	const layers = 6
	for _, c := range []struct {
		name             string
		layer            func(n *network, x, w *autograd.Var) *autograd.Var
		kept, recomputed int64 // matrices after the forward pass, with the result
		again            int   // number of results of count that are computed again
	}{
		{
			"a layer keeps its aggregation, and not the output of the layer before",
			func(n *network, x, w *autograd.Var) *autograd.Var {
				// reads its result backward
				h := autograd.Activate(n.aggregate(autograd.Linear(x, w)), kernel.Tanh)
				return autograd.Activate(n.count(h), kernel.Sigmoid)
			}, 2 * layers, layers + 1, layers - 1,
		}, // the result of the last layer is not released
		{"a residual layer keeps its input", func(n *network, x, w *autograd.Var) *autograd.Var {
			h := autograd.Finish(n.count(x), nil, kernel.ReLU, mask)
			return autograd.Add(x, n.aggregate(autograd.AddLinear(autograd.Linear(h, w), x, w)))
		}, 2 * layers, layers, layers}, // the tape does not own the first input
		{"a value stays if its input would have to", func(n *network, x, w *autograd.Var) *autograd.Var {
			h := autograd.Finish(n.count(x), nil, kernel.ReLU, mask)
			return autograd.Add(x, n.aggregate(autograd.Linear(h, w)))
		}, layers + 1, layers, 1}, // all but the first
		{
			"of two layers without aggregation one keeps its output",
			func(n *network, x, w *autograd.Var) *autograd.Var {
				return autograd.Finish(n.count(autograd.Linear(x, w)), nil, kernel.ReLU, mask)
			}, layers, layers / 2, layers / 2,
		},
		{
			"a layer keeps what is computed from a value that was released",
			func(n *network, x, w *autograd.Var) *autograd.Var {
				h := autograd.Activate(n.count(autograd.Linear(x, w)), kernel.Tanh)
				return autograd.Multiply(h, autograd.Finish(autograd.Copy(h), nil, kernel.ReLU, mask))
			}, 3 * layers, 2 * layers, layers,
		},
		{"an activation that only its own step reads", func(n *network, x, w *autograd.Var) *autograd.Var {
			return n.aggregate(autograd.Finish(n.count(autograd.Linear(x, w)), nil, kernel.ReLU, mask))
		}, 2 * layers, layers, layers},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(recompute bool) (forward int, result []float32, live int64, grads [][]float32) {
				n := newNetwork(t, layers, recompute)
				result, live, grads = n.run(func(x, w *autograd.Var) *autograd.Var {
					return c.layer(n, x, w)
				})
				return n.forward, result, live, grads
			}
			once, want, kept, wantGrads := run(false)
			forward, got, live, grads := run(true)
			if !slices.Equal(got, want) || !slices.EqualFunc(grads, wantGrads, slices.Equal) {
				t.Error("other bits")
			}
			if kept != c.kept || live != c.recomputed {
				t.Errorf("%d matrices are kept, and %d with recomputation; want %d and %d", kept, live,
					c.kept, c.recomputed)
			}
			if once != layers || forward != layers+c.again {
				t.Errorf("%d results were computed, and %d with recomputation; want %d more",
					once, forward, c.again)
			}
		})
	}
}

// TestRecomputeForNobody: a value was released, but no backward step needs it after all. It is not computed
// again, and lets its inputs go.
func TestRecomputeForNobody(t *testing.T) {
	n := newNetwork(t, 1, true)
	w := n.weights[0]
	x := n.tape.Constant(n.matrix(rows, cols), nil)
	out := n.tape.Scope(func() *autograd.Var {
		z := n.aggregate(autograd.Linear(x, w))
		h := autograd.Activate(n.count(z), kernel.Tanh)
		autograd.Multiply(h, h) // nobody reads the product
		return autograd.Multiply(z, z)
	})
	n.live("the forward pass", 2) // z and the result
	n.tape.Backward(autograd.Root{Var: out, Grad: n.ones(out)})
	n.live("the backward pass", 0)
	if n.forward != 1 {
		t.Errorf("computed %d times", n.forward)
	}
}

// TestRecomputeTakesDropped: an operation that is computed again takes a value that the forward code has
// dropped. The value is released after its last reader, and its gradient reuses its memory.
func TestRecomputeTakesDropped(t *testing.T) {
	n := newNetwork(t, 2, true)
	var x *autograd.Var
	out := n.tape.Scope(func() *autograd.Var {
		x = n.tape.Received(n.team.Memory.New(tensor.Activations, rows, cols), nil)
		h := autograd.Linear(x, n.weights[0]) // it keeps x, so Finish cannot reuse x
		r := autograd.Finish(x, nil, kernel.ReLU, kernel.Mask{})
		return autograd.Multiply(n.aggregate(h), n.aggregate(autograd.Linear(r, n.weights[1])))
	})
	n.live("the forward pass", 4) // x, what Multiply keeps, and the result
	n.tape.Backward(autograd.Root{Var: out, Grad: n.ones(out)})
	x.TakeGrad().Release()
	n.live("the backward pass", 0)
}
