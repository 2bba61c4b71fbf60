package bench

import (
	"fmt"
	"math"
	"time"

	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// ledger runs the kernel calls of an epoch alone, on matrices of the shapes that they have in it, and writes down how long each
// takes. Its methods are the steps of a model. A call with the shape of an earlier one is counted, not run again.
type ledger struct {
	b     *bench
	team  *kernel.Team
	rows  int
	graph *sparse
	loops *tensor.Matrix // Int32: attention's self loop of each vertex
	// scales of the aggregations
	inverse, root, self *tensor.Matrix // rows × 1
	trained, labels     *tensor.Matrix // Int32: the rows of the training loss, and the class of each row
	calls               []Call
}

func newLedger(b *bench, g *graph.Graph) *ledger {
	team := kernel.NewTeam(b.Threads, tensor.NewMeter())
	n := g.Vertices()
	l := &ledger{b: b, team: team, rows: n, graph: newSparse(team, &g.Relation)}
	ints := func(n int) *tensor.Matrix { return team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, n) }
	l.loops, l.labels, l.trained = ints(n), ints(n), ints(len(g.Splits[0].Train))
	team.Fill(l.loops, 1)
	for v, class := range g.Labels.Class {
		l.labels.Int32s()[v] = int32(class)
	}
	for i, v := range g.Splits[0].Train {
		l.trained.Int32s()[i] = int32(v)
	}
	l.inverse, l.root, l.self = team.Memory.New(tensor.Graph, n, 1), team.Memory.New(tensor.Graph, n, 1), team.Memory.New(tensor.Graph, n, 1)
	for v := range n {
		degree := float64(g.Relation.Indptr[v+1] - g.Relation.Indptr[v])
		l.inverse.Floats()[v] = float32(1 / math.Max(1, degree))
		l.root.Floats()[v] = float32(1 / math.Sqrt(degree+1))
		l.self.Floats()[v] = l.root.Floats()[v]
	}
	return l
}

func (l *ledger) close() { l.team.Memory.Close() }

// call enters a kernel call, so many times an epoch. prepare makes the matrices, in memory that is given back after the call.
func (l *ledger) call(name, shape string, times int, prepare func(a *arrays) (run func())) {
	for i := range l.calls {
		if c := &l.calls[i]; c.Name == name && c.Shape == shape {
			c.Times += times
			return
		}
	}
	a := &arrays{team: l.team}
	run := prepare(a)
	seconds := l.b.alternate(500*time.Millisecond, run)[0]
	a.release()
	l.calls = append(l.calls, Call{name, shape, times, seconds})
}

func (l *ledger) width(cols int) string { return fmt.Sprintf("%d×%d", l.rows, cols) }

func (l *ledger) widths(in, out int) string { return fmt.Sprintf("%d×%d×%d", l.rows, in, out) }

// product is x·w.
func (l *ledger) product(in, out int) { l.products("product", in, out, false) }

// addProduct is z + x·w.
func (l *ledger) addProduct(in, out int) { l.products("product added", in, out, true) }

func (l *ledger) products(name string, in, out int, accumulate bool) {
	l.call(name, l.widths(in, out), 1, func(a *arrays) func() {
		x, w, z := a.matrix(l.rows, in), a.matrix(in, out), a.zeros(l.rows, out)
		return func() { l.team.MatMul(z, x, w, false, accumulate) }
	})
}

// inputGradient is g·wᵀ, or added to what another product left.
func (l *ledger) inputGradient(in, out int, accumulate bool) {
	name := "input gradient"
	if accumulate {
		name += " added"
	}
	l.call(name, l.widths(in, out), 1, func(a *arrays) func() {
		g, w, dx := a.matrix(l.rows, out), a.matrix(in, out), a.zeros(l.rows, in)
		return func() { l.team.MatMul(dx, g, w, true, accumulate) }
	})
}

// weightGradient is xᵀ·g, added to the parameter's gradient.
func (l *ledger) weightGradient(in, out int) {
	l.call("weight gradient", l.widths(in, out), 1, func(a *arrays) func() {
		x, g, dw := a.matrix(l.rows, in), a.matrix(l.rows, out), a.zeros(in, out)
		return func() { l.team.MatMulT(dw, x, g, true) }
	})
}

// reduce is an aggregation's factors, forward and backward.
type reduce func(l *ledger) (forward, backward kernel.Scales)

func mean(l *ledger) (forward, backward kernel.Scales) {
	return kernel.Scales{Row: l.inverse}, kernel.Scales{Col: l.inverse}
}

// symmetric is GCN's normalisation, with a self loop for each vertex.
func symmetric(l *ledger) (forward, backward kernel.Scales) {
	s := kernel.Scales{Row: l.root, Col: l.root, Self: l.self}
	return s, s
}

func (l *ledger) aggregate(cols int, r reduce) {
	l.call("aggregate", l.width(cols), 1, func(a *arrays) func() {
		x, z := a.matrix(l.rows, cols), a.zeros(l.rows, cols)
		scales, _ := r(l)
		return func() { l.team.SpMM(z, l.graph.in, x, scales, false) }
	})
}

func (l *ledger) aggregateBackward(cols int, r reduce) {
	l.call("aggregate backward", l.width(cols), 1, func(a *arrays) func() {
		g, dx, e := a.matrix(l.rows, cols), a.zeros(l.rows, cols), l.graph.transposed()
		_, scales := r(l)
		return func() { l.team.SpMM(dx, e, g, scales, false) }
	})
}

// attend are the scores and the pass over the edges.
func (l *ledger) attend(heads, cols int) {
	l.scores(heads, cols)
	shape := l.attentionShape(heads, cols)
	l.call("attention", shape, 1, func(a *arrays) func() {
		k, state := l.attention(heads, cols, a), a.state(l.rows, heads, cols/heads)
		return func() { l.team.Attend(state, k, l.graph.in, l.loops, true) }
	})
}

// attendBackward are the scores again, the gradients' zeros, both passes over the edges, and the way back from scores to rows.
func (l *ledger) attendBackward(heads, cols int) {
	shape := l.attentionShape(heads, cols)
	l.call("row dots", shape, 1, func(a *arrays) func() {
		g, out, dots := a.matrix(l.rows, cols), a.matrix(l.rows, cols), a.zeros(l.rows, heads)
		return func() { l.team.RowDots(dots, g, out) }
	})
	l.scores(heads, cols)
	l.zero(l.rows, cols, 1)
	l.zero(l.rows, heads, 2)
	l.call("attention backward", shape, 1, func(a *arrays) func() {
		k, e, t := l.attention(heads, cols, a), l.graph.in, l.graph.transposed()
		g, gOut, logSum := a.matrix(l.rows, cols), a.matrix(l.rows, heads), a.filled(l.rows, heads, 4) // above all scores
		d := kernel.AttentionGradients{
			Source: a.zeros(l.rows, cols), SourceScore: a.zeros(l.rows, heads), TargetScore: a.zeros(l.rows, heads),
		}
		return func() { l.team.AttendBackward(d, k, e, t, l.loops, g, gOut, logSum) }
	})
	l.call("head dot backward", shape, 2, func(a *arrays) func() {
		dz, da, s := a.zeros(l.rows, cols), a.zeros(1, cols), a.matrix(l.rows, heads)
		z, vector := a.matrix(l.rows, cols), a.matrix(1, cols)
		return func() { l.team.HeadDotBackward(dz, da, s, z, vector) }
	})
}

func (l *ledger) attentionShape(heads, cols int) string {
	return fmt.Sprintf("%d×%d heads=%d", l.rows, cols, heads)
}

func (l *ledger) attention(heads, cols int, a *arrays) kernel.Attention {
	return kernel.Attention{
		Heads: heads, Width: cols / heads, Slope: 0.2, Whole: true, Source: a.matrix(l.rows, cols), SourceScore: a.matrix(l.rows, heads),
		TargetScore: a.matrix(l.rows, heads),
	}
}

// scores are the products of each row with both attention vectors.
func (l *ledger) scores(heads, cols int) {
	l.call("head dot", l.attentionShape(heads, cols), 2, func(a *arrays) func() {
		out, z, vector := a.zeros(l.rows, heads), a.matrix(l.rows, cols), a.matrix(1, cols)
		return func() { l.team.HeadDot(out, z, vector) }
	})
}

// place says where a kernel writes its result.
type place bool

const (
	copied  place = false
	inPlace place = true
)

// mask is that of dropout ½, as the models have.
var mask = kernel.NewMask(1, 0.5, nil)

// finish is bias, ReLU and dropout.
func (l *ledger) finish(cols int, where place) {
	l.finishes("bias, relu and dropout", cols, where, kernel.ReLU, mask)
}

// finishLast is the bias of the last layer.
func (l *ledger) finishLast(cols int, where place) {
	l.finishes("bias", cols, where, kernel.Identity, kernel.Mask{})
}

func (l *ledger) finishes(name string, cols int, where place, act kernel.Activation, m kernel.Mask) {
	l.call(name, l.width(cols), 1, func(a *arrays) func() {
		x, bias := a.matrix(l.rows, cols), a.matrix(1, cols)
		z := x
		if where == copied {
			z = a.zeros(l.rows, cols)
		}
		return func() { l.team.Finish(z, x, bias, act, m) }
	})
}

func (l *ledger) finishBackward(cols int) {
	l.call("relu and dropout backward", l.width(cols), 1, func(a *arrays) func() {
		g, z := a.matrix(l.rows, cols), a.matrix(l.rows, cols)
		return func() { l.team.FinishBackward(g, g, z, kernel.ReLU, mask) }
	})
}

// columnSums is the gradient of a bias.
func (l *ledger) columnSums(cols int) {
	l.call("column sums", l.width(cols), 1, func(a *arrays) func() {
		g, sum := a.matrix(l.rows, cols), a.zeros(1, cols)
		return func() { l.team.ColumnSums(sum, g, nil) }
	})
}

// normalize is batch norm, ReLU and dropout: the moments of each column, then the rows.
func (l *ledger) normalize(cols int) {
	l.call("moments", l.width(cols), 1, func(a *arrays) func() {
		x, m := a.matrix(l.rows, cols), kernel.NewMoments(cols)
		return func() { l.team.Moments(m, x) }
	})
	l.call("normalize, relu and dropout", l.width(cols), 1, func(a *arrays) func() {
		z, x, n := a.zeros(l.rows, cols), a.matrix(l.rows, cols), a.normalization(cols)
		return func() { l.team.Normalize(z, x, n, kernel.ReLU, mask) }
	})
}

func (l *ledger) normalizeBackward(cols int) {
	l.call("normalize sums, relu and dropout backward", l.width(cols), 1, func(a *arrays) func() {
		g, x, n := a.matrix(l.rows, cols), a.matrix(l.rows, cols), a.normalization(cols)
		sumG, sumGX := make([]float64, cols), make([]float64, cols)
		return func() { l.team.NormalizeSums(sumG, sumGX, g, x, n, kernel.ReLU, mask) }
	})
	l.call("normalize backward", l.width(cols), 1, func(a *arrays) func() {
		g, x, n, row := a.matrix(l.rows, cols), a.matrix(l.rows, cols), a.normalization(cols), a.matrix(1, cols)
		return func() { l.team.NormalizeBackward(g, g, x, n, row, row) }
	})
}

// loss is the cross-entropy of the training rows, with its gradient.
func (l *ledger) loss(layers []layer) {
	classes := layers[len(layers)-1].out
	l.zero(l.rows, classes, 1)
	l.call("cross-entropy", l.width(classes), 1, func(a *arrays) func() {
		grad, logits := a.zeros(l.rows, classes), a.matrix(l.rows, classes)
		return func() { l.team.CrossEntropy(grad, logits, l.trained, l.labels, 1e-6) }
	})
}

// step is the optimizer's step on so many parameters of n values, and the zeros for their next gradients.
func (l *ledger) step(n, times int) {
	l.call("adam", fmt.Sprint(n), times, func(a *arrays) func() {
		w, g, m, v := a.matrix(1, n), a.matrix(1, n), a.zeros(1, n), a.zeros(1, n)
		s := kernel.AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Clip: 1, Step: 1}
		return func() { l.team.Adam(w, g, m, v, s) }
	})
	l.zero(1, n, times)
}

// zero clears a matrix that is then added to.
func (l *ledger) zero(rows, cols, times int) {
	l.call("zero", fmt.Sprintf("%d×%d", rows, cols), times, func(a *arrays) func() {
		z := a.zeros(rows, cols)
		return func() { l.team.Zero(z) }
	})
}
