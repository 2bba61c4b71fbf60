package paralleltest

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// Layer is a computation with a Propagator on rows x of the vertices, with parameters w.
type Layer struct {
	Name    string
	In, Out int      // columns
	Weights [][2]int // shapes
	Forward func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var

	method string // of gnn.Propagator, or Columnwise
	// features says that it reads the features of the edges, which reversed edges do not have
	features bool
	rounds   bool  // more than one
	exact    exact // nil: one worker's result is right
	// coarse is how many times further than other layers this one may be off in bfloat16: it subtracts what
	// it stored, or stores a few values after another.
	coarse float64
}

// Columnwise is the method of a message function that computes each column from that column alone.
const Columnwise = "Message of a column"

// Layers are the layers for which every Propagator must agree.
var Layers = slices.Concat([]Layer{
	linear("linear sum", 6, 3, gnn.Reduce{Kind: gnn.KindSum, Self: 1.25}, input),
	linear("linear mean", 3, 6, gnn.Mean, input),
	linear("linear weighted sum without loops", 6, 3,
		gnn.Reduce{Kind: gnn.KindSum, Weighted: true, Loops: gnn.RemovedLoops}, input),
	linear("fixed", 5, 4, gnn.Symmetric, fixed),
	linear("fixed and too wide", 8, 3, gnn.Symmetric, fixed),
	linear("sparse", 8, 20, gnn.Symmetric, sparse),
	kept(5),
	propagate("sum", gnn.Sum, 1),
	propagate("sum and itself twice", gnn.Reduce{Kind: gnn.KindSum, Self: 1.25}, 2),
	propagate("mean", gnn.Mean, 1),
	propagate("mean twice", gnn.Mean, 2),
	propagate("mean of itself too", gnn.Reduce{Kind: gnn.KindMean, Self: 1}, 1),
	propagate("mean of itself too, three times", gnn.Reduce{Kind: gnn.KindMean, Self: 1}, 3),
	teleport("symmetric with a teleport", gnn.Symmetric, gnn.Rounds{Count: 3, Teleport: .1}),
	teleport("sum with a teleport", gnn.Reduce{Kind: gnn.KindSum, Self: 1},
		gnn.Rounds{Count: 2, Teleport: .4}),
	propagate("symmetric", gnn.Symmetric, 1),
	propagate("symmetric twice", gnn.Symmetric, 2),
	propagate("symmetric, no loops", gnn.SymmetricNoLoops, 1),
	propagate("symmetric, no loops, twice", gnn.SymmetricNoLoops, 2),
	propagate("symmetric, loops added", gnn.Reduce{Kind: gnn.KindSymmetricNoLoops, Loops: gnn.AddedLoops}, 1),
	propagate("symmetric without weights, one loop",
		gnn.Reduce{Kind: gnn.KindSymmetricNoLoops, Unweighted: true, Loops: gnn.OneLoop}, 1),
	propagate("sum, one loop", gnn.Reduce{Kind: gnn.KindSum, Loops: gnn.OneLoop}, 1),
	propagate("mean, loops removed, twice", gnn.Reduce{Kind: gnn.KindMean, Loops: gnn.RemovedLoops}, 2),
	propagate("weighted sum", gnn.Reduce{Kind: gnn.KindSum, Weighted: true}, 1),
	propagate("weighted sum, one loop", gnn.Reduce{Kind: gnn.KindSum, Weighted: true, Loops: gnn.OneLoop}, 1),
	propagate("weighted mean, loops added",
		gnn.Reduce{Kind: gnn.KindMean, Weighted: true, Loops: gnn.AddedLoops}, 1),
	propagate("maximum", gnn.Max, 1),
	propagate("maximum, loops removed", gnn.Reduce{Kind: gnn.KindMax, Loops: gnn.RemovedLoops}, 1),
	propagate("minimum, loops added", gnn.Reduce{Kind: gnn.KindMin, Loops: gnn.AddedLoops}, 1),
	Attention("attention", gnn.Attention{Heads: 1}, 5),
	Attention("attention, loops removed", gnn.Attention{Heads: 2, Loops: gnn.RemovedLoops}, 3),
	Attention("attention, loops added", gnn.Attention{Heads: 2, Loops: gnn.AddedLoops}, 3),
	Attention("attention with loops", gnn.Attention{Heads: 3, Loops: gnn.OneLoop}, 4),
	Attention("attention with loops and dropout", gnn.Attention{Heads: 3, Loops: gnn.OneLoop, Dropout: .4}, 4),
	Attention("attention with edge features", gnn.Attention{Heads: 2}, 3).withEdgeFeatures(edgeColumns, 2),
	Attention("attention with loops and edge features", gnn.Attention{Heads: 3, Loops: gnn.OneLoop},
		4).withEdgeFeatures(edgeColumns, 3),
	Attention("attention with edge features and dropout",
		gnn.Attention{Heads: 3, Loops: gnn.OneLoop, Dropout: .4}, 4).withEdgeFeatures(edgeColumns, 3),
	AttentionV2("attention 2", gnn.Attention{Heads: 2}, 3),
	AttentionV2("attention 2 with loops and edge features", gnn.Attention{Heads: 2, Loops: gnn.OneLoop},
		3).withEdgeFeatures(edgeColumns, 6),
	AttentionV2("attention 2 with edge features and dropout", gnn.Attention{Heads: 3, Dropout: .4},
		3).withEdgeFeatures(edgeColumns, 9),
	dotProducts("dot products", gnn.Attention{Heads: 2}, 3),
	dotProducts("dot products with dropout", gnn.Attention{Heads: 4, Dropout: .4}, 2),
	dotProducts("dot products with loops and edge features", gnn.Attention{Heads: 2, Loops: gnn.OneLoop},
		3).withEdgeFeatures(edgeColumns, 6),
	dotProducts("dot products with edge features", gnn.Attention{Heads: 3},
		3).withEdgeFeatures(edgeColumns, 9),
	AttentionV2("attention 2 with dropout", gnn.Attention{Heads: 2, Dropout: .4}, 3),
	AttentionV2("attention 2 and loops", gnn.Attention{Heads: 1, Loops: gnn.OneLoop}, 7),
	attentionOfOne("attention 2 of one value", 6),
	softmaxSum("softmax", 7, gnn.StoredLoops, true),
	softmaxSum("softmax with loops", 6, gnn.OneLoop, false),
	Scored("given scores", gnn.Attention{Heads: 2}, gnn.Once, 3, withGradient),
	Scored("given scores with loops", gnn.Attention{Heads: 3, Loops: gnn.OneLoop}, gnn.Once, 4, withGradient),
	Scored("given scores without a gradient", gnn.Attention{Heads: 1, Loops: gnn.OneLoop},
		gnn.Once, 5, constant),
	Scored("given scores, three rounds", gnn.Attention{Heads: 1, Loops: gnn.OneLoop},
		gnn.Rounds{Count: 3}, 5, withGradient),
	Scored("given scores, rounds with a teleport", gnn.Attention{Heads: 2, Loops: gnn.OneLoop},
		gnn.Rounds{Count: 3, Teleport: .1}, 3, withGradient),
	Scored("given scores, rounds without a gradient", gnn.Attention{Heads: 2},
		gnn.Rounds{Count: 2, Teleport: .1}, 3, constant),
	Scored("given scores, rounds with dropout", gnn.Attention{Heads: 3, Loops: gnn.OneLoop, Dropout: .4},
		gnn.Rounds{Count: 2}, 4, withGradient),
}, messages)

// Is reports whether the layer can be computed along that direction.
func (l Layer) Is(along gnn.Along) bool { return !l.features || !along.Reversed }

// Named is the layer of that name.
func Named(name string) Layer {
	return Layers[slices.IndexFunc(Layers, func(l Layer) bool { return l.Name == name })]
}

// The ways in which a layer is given its input.
func input(x *autograd.Var) *autograd.Var { return x }

func fixed(x *autograd.Var) *autograd.Var { return x.Tape().Fixed(x.Value(), x.RowSet()) }

// sparse is the positive part of x, in compressed rows.
func sparse(x *autograd.Var) *autograd.Var {
	m := x.Value()
	memory := x.Tape().Memory()
	indptr, indices, values := []int64{0}, []int32{}, []float32{}
	for v := range m.Rows {
		for c, f := range numbers(m.RowRange(v, v+1)) {
			if f > 0 {
				indices = append(indices, int32(c))
				values = append(values, float32(f))
			}
		}
		indptr = append(indptr, int64(len(indices)))
	}
	a := &kernel.CSR{
		Rows: m.Rows, Cols: m.Cols, Indptr: memory.NewElement(tensor.Features, tensor.Int64, 1, len(indptr)),
		Indices: memory.NewElement(tensor.Features, tensor.Int32, 1, len(indices)),
		Values:  memory.New(tensor.Features, 1, len(values)),
	}
	copy(a.Indptr.Int64s(), indptr)
	copy(a.Indices.Int32s(), indices)
	copy(a.Values.Floats(), values)
	return x.Tape().SparseConstant(&autograd.Sparse{
		Rows: a, Columns: x.Tape().Team.Transpose(a, tensor.Features),
	}, x.RowSet())
}

func linear(name string, in, out int, r gnn.Reduce, way func(x *autograd.Var) *autograd.Var) Layer {
	l := Layer{
		Name: name, In: in, Out: out, Weights: [][2]int{{in, out}}, method: "AggregateLinear",
		exact: exactLinear(r),
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.AggregateLinear(way(x), w[0], r)
	}
	switch name {
	case "sparse":
		l.exact = l.exact.ofPositive().ofConstant()
	case "fixed", "fixed and too wide":
		l.exact = l.exact.ofConstant()
	}
	return l
}

// kept aggregates constant features twice with one module, and other features in between. The cached
// aggregation of one must not be used for the other.
func kept(n int) Layer {
	return Layer{
		Name: "kept", In: n, Out: n, Weights: [][2]int{{n, n}}, method: "AggregateLinear",
		exact: exactKept, coarse: 4,
		Forward: func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			other := x.Tape().Memory().NewElement(tensor.Features, x.Element(), x.Rows(), x.Cols())
			x.Tape().Team.Scale(other, -3, x.Value())
			z := p.AggregateLinear(fixed(x), w[0], gnn.Sum)
			z = autograd.Add(z, p.AggregateLinear(fixed(x), w[0], gnn.Mean))
			z = autograd.Add(z, p.AggregateLinear(x.Tape().Fixed(other, x.RowSet()), w[0], gnn.Sum))
			return autograd.Add(z, p.AggregateLinear(fixed(x), w[0], gnn.Sum))
		},
	}
}

func propagate(name string, r gnn.Reduce, k int) Layer { return Propagation(name, 5, r, k) }

// Propagation is an aggregation of the given number of columns, k times.
func Propagation(name string, columns int, r gnn.Reduce, k int) Layer {
	return rounds(name, columns, r, gnn.Rounds{Count: k})
}

func teleport(name string, r gnn.Reduce, k gnn.Rounds) Layer { return rounds(name, 5, r, k) }

func rounds(name string, columns int, r gnn.Reduce, k gnn.Rounds) Layer {
	l := Layer{
		Name: name, In: columns, Out: columns, method: "Propagate", rounds: k != gnn.Once,
		exact: exactRounds(r, k),
	}
	if !r.Linear() {
		l.exact = exactExtreme(r)
	}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, _ []*autograd.Var) *autograd.Var {
		return p.Propagate(x, r, k)
	}
	return l
}
