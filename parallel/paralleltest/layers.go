package paralleltest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/tensor"
	"weft/train/engine"
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

// Outcome is the result of a layer: output and input gradient by vertex, and the gradients of its parameters.
type Outcome struct {
	Out, DX []float64
	DW      [][]float64
}

// Blank allocates the outcome for so many vertices.
func (l Layer) Blank(vertices int) *Outcome {
	return &Outcome{
		make([]float64, vertices*l.Out), make([]float64, vertices*l.In),
		make([][]float64, len(l.Weights)),
	}
}

// Run computes the layer on one worker, forward and backward, once for each outcome, and writes its part of
// the outcome. All passes share one Propagator and one input. It panics if a pass leaves more memory
// allocated than the pass before.
func (l Layer) Run(c engine.Config, a engine.Axis, along gnn.Along, passes ...*Outcome) {
	memory := c.Team.Memory
	rows := a.Rows()
	ids := a.Vertices()
	x := memory.NewElement(tensor.Features, c.Team.Storage, rows.Here, l.In)
	p := a.Propagator(l.Name, along)
	draw(x, inputNumbers, ids)
	live := int64(0)
	for pass, o := range passes {
		tape := autograd.NewTrainingTape(c.Team, autograd.Random{Seed: 3, Epoch: 5})
		w := drawnParameters(tape, l.Weights)
		in := tape.Input(x, rows)
		out := tape.Scope(func() *autograd.Var { return l.Forward(p, in, w) })
		place(o.Out, out.Value(), ids)
		dz := memory.NewElement(tensor.Gradients, out.Element(), rows.Here, l.Out)
		draw(dz, gradientNumbers, ids)
		tape.Backward(autograd.Root{Var: out, Grad: dz})
		dx := in.TakeGrad()
		place(o.DX, dx, ids)
		dx.Release()
		for i, v := range w {
			dw, _ := v.Grad()
			summed(c, dw, &o.DW[i])
			dw.Release()
		}
		if now := memory.Live(tensor.Activations) + memory.Live(tensor.Gradients); pass > 0 && now != live {
			panic(fmt.Sprintf("%s: %d bytes of values and gradients live after pass %d, %d after "+
				"the one before", l.Name, now, pass+1, live))
		} else {
			live = now
		}
	}
}

// drawnParameters are parameters of these shapes, drawn, with gradients of zeros.
func drawnParameters(tape *autograd.Tape, shapes [][2]int) (w []*autograd.Var) {
	for i, shape := range shapes {
		value := tape.Memory().New(tensor.Parameters, shape[0], shape[1])
		drawWeight(value, i)
		w = append(w, tape.Parameter(value, tape.Team.Zeros(tensor.Gradients, shape[0], shape[1])))
	}
	return w
}

// summed sums a parameter's gradient over the replicas. The first of these writes it.
func summed(c engine.Config, dw *tensor.Matrix, to *[]float64) {
	exchange.Must(c.Groups.Replicas.SumFloats(comm.Gradient, dw.Floats()))
	if c.Groups.Replicas.Rank() == 0 {
		*to = doubles(dw.Floats())
	}
}

// Given is the input rows that Run gives the layer, and the gradient of its output rows.
func (l Layer) Given(vertices int) (x, dz []float64) { return l.given(tensor.Float32, vertices) }

func (l Layer) given(storage tensor.Element, vertices int) (x, dz []float64) {
	return drawn(storage, vertices, l.In, inputNumbers), drawn(storage, vertices, l.Out, gradientNumbers)
}

// drawn is the numbers of draw for all vertices.
func drawn(storage tensor.Element, rows, cols int, purpose uint64) []float64 {
	memory := tensor.NewMeter()
	defer memory.Close()
	m := memory.NewElement(tensor.Features, storage, rows, cols)
	draw(m, purpose, nil)
	return numbers(m)
}

// The purposes of drawn numbers.
const (
	inputNumbers    = 1
	gradientNumbers = 2
)

// drawWeight draws parameter i of a layer. Its numbers are bfloat16s, so that no product rounds them.
func drawWeight(m *tensor.Matrix, i int) {
	draw(m, uint64(10+i), nil)
	for k, v := range m.Floats() {
		m.Floats()[k] = tensor.FromBFloat16(tensor.RoundBFloat16(v))
	}
}

// draw draws numbers that depend on their purpose, the vertex and the column alone, rounded to the element
// type.
func draw(m *tensor.Matrix, purpose uint64, ids []int32) {
	for i := range m.Rows {
		r := rand.New(rand.NewPCG(purpose, uint64(vertex(i, ids))))
		for c := range m.Cols {
			if x := float32(r.NormFloat64()); m.Element == tensor.BFloat16 {
				m.BFloat16s()[i*m.Cols+c] = tensor.RoundBFloat16(x)
			} else {
				m.Floats()[i*m.Cols+c] = x
			}
		}
	}
}

// numbers returns the elements of a matrix, of either element type.
func numbers(m *tensor.Matrix) []float64 {
	if m.Element != tensor.BFloat16 {
		return doubles(m.Floats())
	}
	all := make([]float64, 0, m.Len())
	for _, x := range m.BFloat16s() {
		all = append(all, float64(tensor.FromBFloat16(x)))
	}
	return all
}

// place copies rows to the places of their vertices.
func place(to []float64, from *tensor.Matrix, ids []int32) {
	all := numbers(from)
	for i := range from.Rows {
		copy(to[vertex(i, ids)*from.Cols:], all[i*from.Cols:(i+1)*from.Cols])
	}
}

// vertex is the vertex of a row. ids nil is all vertices.
func vertex(row int, ids []int32) int {
	if ids == nil {
		return row
	}
	return int(ids[row])
}

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

func doubles(x []float32) []float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return d
}
