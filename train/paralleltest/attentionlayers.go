package paralleltest

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
)

// Layers of attention over the edges into a vertex.

// slope is the slope of LeakyReLU in the layers here.
const slope = .2

// Attention is GATv1 with heads of the given width.
func Attention(name string, a gnn.Attention, width int) Layer {
	n := a.Heads * width
	l := Layer{Name: name, In: n, Out: n, Weights: [][2]int{{1, n}, {1, n}}, method: "Attend", coarse: 8}
	if a.Dropout == 0 {
		l.exact = exactGAT(a.Heads).looped(a.Loops)
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		b := a
		b.Source, b.Target, b.ASource, b.ATarget, b.Slope = x, x, w[0], w[1], slope
		if len(w) > 2 {
			b.EdgeVector = w[2]
		}
		return p.Attend(b, gnn.Once)
	}
	return l
}

// withEdgeFeatures gives a layer of attention a weight of the edges' features, of that shape.
func (l Layer) withEdgeFeatures(shape ...int) Layer {
	l.Weights = append(slices.Clone(l.Weights), [2]int(shape))
	l.features = true
	return l
}

// AttentionV2 is GATv2, whose targets are a product with the sources.
func AttentionV2(name string, a gnn.Attention, width int) Layer {
	n := a.Heads * width
	l := Layer{Name: name, In: n, Out: n, Weights: [][2]int{{n, n}, {1, n}}, method: "Attend", coarse: 8}
	if a.Dropout == 0 {
		l.exact = exactGATv2(a.Heads).looped(a.Loops)
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		b := a
		b.Source = x
		b.Target = autograd.Linear(x, w[0])
		b.ASource = w[1]
		b.Slope = slope
		if len(w) > 2 {
			b.EdgeWeight = w[2]
		}
		return p.Attend(b, gnn.Once)
	}
	return l
}

// dotProducts is attention by dot products. The keys are the last columns of the input, as a history has rows
// of them; the targets are a product with the sources.
func dotProducts(name string, a gnn.Attention, width int) Layer {
	n := a.Heads * width
	l := Layer{Name: name, In: 2 * n, Out: n, Weights: [][2]int{{n, n}}, method: "Attend", coarse: 8}
	if a.Dropout == 0 {
		l.exact = exactDotProducts(a.Heads).looped(a.Loops)
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		b := a
		b.Source, b.Key = autograd.Columns(x, 0, n), autograd.Columns(x, n, n)
		b.Target = autograd.Linear(b.Source, w[0])
		if len(w) > 1 {
			b.EdgeWeight = w[1]
		}
		return p.Attend(b, gnn.Once)
	}
	return l
}

// attentionOfOne is GATv2 whose source and target are one value. Its gradient then has two parts.
func attentionOfOne(name string, n int) Layer {
	return Layer{
		Name: name, In: n, Out: n, Weights: [][2]int{{1, n}}, method: "Attend", coarse: 8,
		Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			return p.Attend(gnn.Attention{Source: x, Target: x, ASource: w[0], Heads: 2, Slope: slope},
				gnn.Once)
		},
	}
}

// learned says whether softmax aggregation learns its inverse temperature.
type learned bool

// softmaxSum is softmax aggregation of n columns, whose inverse temperatures are a weight.
func softmaxSum(name string, n int, loops gnn.Loops, has learned) Layer {
	return Layer{
		Name: name, In: n, Out: n, Weights: [][2]int{{1, n}}, method: "Attend", coarse: 8,
		exact: exactSoftmaxSum(has).looped(loops),
		Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			t := w[0]
			if !has {
				t = autograd.Detach(t)
			}
			return p.Attend(gnn.Attention{Source: x, InverseTemperature: t, Heads: n, Loops: loops}, gnn.Once)
		},
	}
}

// scores says whether given scores have a gradient.
type scores bool

const (
	withGradient scores = true
	constant     scores = false
)

// Scored is rounds of GATv1 with given scores. They are the last columns of the input: first one for each
// head as a source, then one for each head as a target.
func Scored(name string, a gnn.Attention, k gnn.Rounds, width int, have scores) Layer {
	n := a.Heads * width
	l := Layer{Name: name, In: n + 2*a.Heads, Out: n, method: "Attend", rounds: k != gnn.Once, coarse: 8}
	if a.Dropout == 0 {
		l.exact = exactScored(a, k, have).looped(a.Loops)
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, _ []*autograd.Var) *autograd.Var {
		b := a
		b.Source, b.SourceScore, b.TargetScore = autograd.Columns(x, 0, n), autograd.Columns(x, n, b.Heads),
			autograd.Columns(x, n+b.Heads, b.Heads)
		b.Slope = slope
		if have == constant {
			b.SourceScore, b.TargetScore = autograd.Detach(b.SourceScore), autograd.Detach(b.TargetScore)
		}
		return p.Attend(b, k)
	}
	return l
}
