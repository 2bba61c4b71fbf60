package kernel_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// Attention over the edges into a vertex.

// kept returns the factor by which a mask multiplies the elements that stay.
func kept(s *suite, mask kernel.Mask) float64 {
	return float64(slices.Max(s.vertexMask(8, 32, mask).Floats()))
}

// vertexMask returns a mask's factors for rows × cols elements.
func (s *suite) vertexMask(rows, cols int, mask kernel.Mask) *tensor.Matrix {
	ones := s.ones(rows, cols)
	s.team.Finish(ones, ones, nil, kernel.Identity, mask)
	return ones
}

func conformAttention(s *suite) {
	run := func(s *suite, heads, width int) {
		for _, loops := range []bool{false, true} {
			g := s.network(s.tangled(19, 75), loops)
			s.eachForm(case_("heads", heads, "width", width, "loops", loops), g, heads,
				width, 1+heads*width%11)
		}
	}
	s.each(widths, func(s *suite, width int) { run(s, 1, width) })
	// Widths of half a vector, and of one, two and four vectors, at some SIMD level.
	for _, heads := range []int{2, 4, 5, 7, 8, 16} {
		s.each([]int{4, 8, 16, 32, 64}, func(s *suite, width int) { run(s, heads, width) })
	}
	for _, heads := range []int{3, 8, 9, 17} { // one random number gives the masks of eight heads
		s.each([]int{1, 15, 16, 17}, func(s *suite, width int) { run(s, heads, width) })
	}
	// A head's columns in two blocks, the last of one vector, and of two.
	s.each([]int{133, 150}, func(s *suite, width int) { run(s, 2, width) })
	run(s, 5, 48) // a head's columns in two slabs of a card's warp
}

// eachForm runs attention in every form, with dropout and without. One of both has features of the edges, in
// turn from width to width, and likewise self loops.
func (s *suite) eachForm(what string, g network, heads, width, features int) {
	s.t.Helper()
	turn := heads + width
	if g.loops != nil {
		turn++
	}
	for _, mask := range []kernel.Mask{{}, kernel.NewMask(99, .4, nil)} {
		var keep []float64
		if turn++; mask.Active() {
			keep = s.edgeMask(g, heads, mask, nil)
		}
		for k, form := range []form{v1, v2, dotProducts} {
			s.attention(what, g, form, heads, width, (turn+k)%2*features, mask, keep)
		}
	}
}

// conformAttentionHub has rows that one thread works on, and rows that are cut.
func conformAttentionHub(s *suite) {
	for degree, shapes := range map[int][][2]int{
		4000: {{3, 5}, {1, 65}}, 18_000: {{1, 8}, {3, 5}, {4, 4}, {1, 65}},
	} {
		// With fewer vertices, equal terms would be rounded alike, and their errors would add up.
		g := s.network(s.tangled(1024, degree), true)
		for _, shape := range shapes {
			s.eachForm(case_("degree", degree, "shape", shape), g, shape[0], shape[1], 2)
		}
	}
}

func conformAttentionEmpty(s *suite) {
	for name, a := range map[string]*kernel.CSR{
		"no rows":    s.rows(0, nil),
		"no entries": s.rows(5, make([][]int32, 5)),
		"one row":    s.rows(1, [][]int32{{0, 0, 0}}),
	} {
		s.eachForm(name, s.network(a, false), 2, 3, 2)
	}
}

// logSums compares the log-sum-exp, which is 0 where there is no edge.
func (s *suite) logSums(what string, got *tensor.Matrix, want []float64) {
	s.t.Helper()
	finite := slices.Clone(want)
	for i, w := range want {
		if math.IsInf(w, -1) {
			finite[i] = 0
		}
	}
	s.elements(what+", log-sum-exp", got, finite, 40)
}

// form is one of the forms of kernel.Attention.
type form string

const (
	v1          form = "GATv1"
	v2          form = "GATv2"
	dotProducts form = "dot products"
)

// query returns rows of storage whose products with others, over heads of that width, are at most about 1.
func (s *suite) query(rows, cols, width int) *tensor.Matrix {
	return s.as(s.storage, s.scaled(rows, cols, .5/math.Sqrt(float64(width))))
}

// scaled returns normal numbers times a factor.
func (s *suite) scaled(rows, cols int, factor float64) *tensor.Matrix {
	m := s.normal(rows, cols)
	s.team.Scale(m, float32(factor), m)
	return m
}

// attention compares a form's forward and backward pass with the reference, for so many features of the
// edges. Scores are about 1, as in a model. GATv1's scores come from HeadDot.
func (s *suite) attention(what string, g network, form form, heads, width, features int, mask kernel.Mask,
	keep []float64,
) {
	s.t.Helper()
	what = case_(what, form, "features", features, "mask", mask.Active())
	n, cols, root := g.a.Rows, heads*width, math.Sqrt(float64(width))
	k := kernel.Attention{Heads: heads, Width: width, Slope: .2, Source: s.stored(n, cols), Mask: mask}
	r := &reference.Attention{Indptr: g.indptr, Indices: g.indices, Heads: heads, Slope: .2, Mask: keep}
	aSource, aTarget := s.scaled(1, cols, 1/root), s.scaled(1, cols, 1/root)
	switch form {
	case v1:
		k.SourceScore, k.TargetScore = s.blank(n, heads), s.blank(n, heads)
		s.team.HeadDot(k.SourceScore, k.Source, aSource)
		s.team.HeadDot(k.TargetScore, k.Source, aTarget)
		k.Edges, r.Features = s.features(g, features, heads, 0)
	case v2:
		k.Target, k.A = s.stored(n, cols), aSource
		k.Edges, r.Features = s.features(g, features, heads, width)
	case dotProducts:
		k.Target, k.Key = s.query(n, cols, width), s.stored(n, cols)
		k.Edges, r.Features = s.features(g, features, heads, width)
	}
	run := attending{
		Attention: k, blocks: []*kernel.CSR{g.a}, loops: g.loops, grad: s.stored(n, cols),
		d: kernel.AttentionGradients{
			Source: s.stored(n, cols), Target: s.stored(n, cols), Key: s.stored(n, cols),
			A: s.normal(1, cols), SourceScore: s.zeros(n, heads), TargetScore: s.zeros(n, heads),
			EdgeVector: s.zeros(features, heads), EdgeWeight: s.zeros(features, cols),
		},
	}
	s.team.Fill(run.d.SourceScore, 1./1024) // gradients of scores are also added to what is there
	s.team.Fill(run.d.TargetScore, 1./1024)
	terms := max(longest(g.a), longest(g.transposed))
	if s.storage == tensor.BFloat16 {
		s.storedAttention(what, run, form, terms)
		return
	}
	x, dOut := exact(k.Source), exact(run.grad)
	var out, target, factor, dFactor *reference.Matrix
	var logSum []float64
	rows, vectors := map[string]*reference.Matrix{}, map[string][]float64{}
	if k.Target != nil {
		target = exact(k.Target)
	}
	if features > 0 {
		factor = exact(cmp.Or(k.Edges.Vector, k.Edges.Weight))
	}
	switch form {
	case v1:
		a, b := values(aSource), values(aTarget)
		out, logSum = reference.GAT(r, x, a, b, factor)
		rows["source"], vectors["source vector"], vectors["target vector"], dFactor = reference.GATBackward(
			r, x, a, b, factor, dOut)
	case v2:
		out, logSum = reference.GATv2(r, x, target, values(k.A), factor)
		rows["source"], rows["target"], vectors["vector"], dFactor = reference.GATv2Backward(
			r, x, target, values(k.A), factor, dOut)
	case dotProducts:
		terms *= width // each coefficient of an edge is a sum of so many terms
		key := exact(k.Key)
		out, logSum = reference.DotProduct(r, target, key, x, factor)
		rows["target"], rows["key"], rows["source"], dFactor = reference.DotProductBackward(
			r, target, key, x, factor, dOut)
	}
	switch {
	case features > 0 && form == v1:
		vectors["edges' vector"] = dFactor.Data
	case features > 0:
		vectors["edges' weight"] = dFactor.Data
	}
	wholes := []bool{false}
	if form == v1 { // it reads fewer rows if it knows all edges of a vertex
		wholes = append(wholes, true)
	}
	for _, run.Whole = range wholes {
		what, got, start := case_(what, "whole", run.Whole), run.over(s.team), byName(run.d)
		s.rowwise(what+", output", got["output"], out, terms)
		s.logSums(what, got["log-sum-exp"], logSum)
		if form == v1 {
			got["source vector"], got["target vector"] = s.zeros(1, cols), s.zeros(1, cols)
			for end, vector := range map[string]*tensor.Matrix{"source": aSource, "target": aTarget} {
				s.team.Axpy(got[end+" score"], -1, start[end+" score"])
				s.team.HeadDotBackward(got["source"], got[end+" vector"], got[end+" score"], k.Source, vector)
			}
		}
		for name, d := range rows {
			s.rowwise(what+", gradient of the "+name, got[name], exact(start[name]).Plus(d), terms)
		}
		for name, d := range vectors {
			want := &reference.Matrix{Rows: got[name].Rows, Cols: got[name].Cols, Data: d}
			if start[name] != nil {
				want = exact(start[name]).Plus(want)
			}
			s.vector(what+", gradient of the "+name, got[name], want.Data, terms)
		}
	}
}

// storedAttention compares attention over sources, targets and gradients in BFloat16 with attention over the
// same numbers in Float32, which the suite compares with the reference. GATv1 has the same bits, rounded. The
// other forms add in another order.
func (s *suite) storedAttention(what string, run attending, form form, terms int) {
	s.t.Helper()
	wide := run
	for _, m := range []**tensor.Matrix{
		&wide.Source, &wide.Target, &wide.Key, &wide.Edges.Rows, &wide.Edges.Loops, &wide.grad,
		&wide.d.Source, &wide.d.Target, &wide.d.Key,
	} {
		if *m != nil {
			*m = s.as(tensor.Float32, *m)
		}
	}
	want := wide.over(s.team)
	run.saved = kernel.Attended{LogSum: want["log-sum-exp"], GradDotOut: want["dots"]}
	for name, got := range run.over(s.team) {
		switch {
		case form == v1 && !same(got, s.as(got.Element, want[name])):
			s.t.Fatalf("%s: the %s is not what comes of Float32, rounded", what, name)
		case form != v1 && (name == "vector" || strings.HasPrefix(name, "edges'")):
			s.vector(what+", "+name, got, values(want[name]), terms)
		case form != v1:
			s.rowwise(what+", "+name, got, exact(want[name]), terms)
		}
	}
}

// attending is attention over blocks of edges from consecutive sources, and its backward pass.
type attending struct {
	kernel.Attention
	blocks []*kernel.CSR
	loops  *tensor.Matrix // the self loops of the only block
	grad   *tensor.Matrix // the gradient of the output
	d      kernel.AttentionGradients
	saved  kernel.Attended // what the backward pass reads; LogSum nil: results of the forward pass
	// uncut says that rows of hubs are not cut.
	uncut bool
}

// attending returns attention over these blocks, with gradients that are added to zeros.
func (s *suite) attending(k kernel.Attention, grad *tensor.Matrix, blocks ...*kernel.CSR) attending {
	rows, targets, cols := k.Source.Rows, grad.Rows, grad.Cols
	return attending{Attention: k, blocks: blocks, grad: grad, d: kernel.AttentionGradients{
		Source: s.as(k.Source.Element, s.zeros(rows, cols)), SourceScore: s.zeros(rows, k.Heads),
		Target: s.as(k.Source.Element, s.zeros(targets, cols)), TargetScore: s.zeros(targets, k.Heads),
		Key: s.as(k.Source.Element, s.zeros(rows, cols)), A: s.zeros(1, cols),
	}}
}

// byName returns the gradients of attention by the names of the inputs.
func byName(d kernel.AttentionGradients) map[string]*tensor.Matrix {
	return map[string]*tensor.Matrix{
		"source": d.Source, "source score": d.SourceScore, "target": d.Target, "target score": d.TargetScore,
		"key": d.Key, "vector": d.A, "edges' vector": d.EdgeVector, "edges' weight": d.EdgeWeight,
	}
}

// over returns the output of attention, its log-sum-exp, the products of the output and its gradient, and the
// gradients of the inputs, which are added to copies of d.
func (a attending) over(team *kernel.Team) map[string]*tensor.Matrix {
	d := a.d
	for _, m := range []**tensor.Matrix{
		&d.Source, &d.SourceScore, &d.Target, &d.TargetScore, &d.Key, &d.A, &d.EdgeVector, &d.EdgeWeight,
	} {
		if *m != nil {
			*m = clone(team, *m)
		}
	}
	each := func(run func(k kernel.Attention, d kernel.AttentionGradients, b *kernel.CSR, last bool)) {
		from := 0
		for n, b := range a.blocks {
			k, d := a.Attention, d
			for _, m := range []**tensor.Matrix{
				&k.Source, &k.SourceScore, &k.SourceIDs, &k.Key, &d.Source, &d.SourceScore, &d.Key,
			} {
				if *m != nil {
					*m = (*m).RowRange(from, from+b.Cols)
				}
			}
			if b.Segments = nil; !a.uncut {
				b.FindSegments()
			}
			run(k, d, b, n == len(a.blocks)-1)
			from += b.Cols
		}
	}
	targets := a.blocks[0].Rows
	state := team.AttentionStart(targets, a.Heads, a.Width, a.Source.Element)
	team.Fill(state.Maximum, float32(math.NaN()))
	team.Fill(state.Out, float32(math.NaN()))
	each(func(k kernel.Attention, _ kernel.AttentionGradients, b *kernel.CSR, last bool) {
		team.Attend(state, k, b, a.loops, kernel.Ending(last))
	})
	if a.saved.LogSum == nil {
		dots := team.Zeros(tensor.Buffers, targets, a.Heads)
		a.saved = kernel.Attended{LogSum: state.Maximum, GradDotOut: dots}
		team.RowDots(a.saved.GradDotOut, a.grad, state.Out)
	}
	if a.saved.Grad = a.grad; a.saved.Out == nil {
		a.saved.Out = state.Out
	}
	each(func(k kernel.Attention, d kernel.AttentionGradients, b *kernel.CSR, _ bool) {
		transposed := team.Transpose(b, tensor.Graph)
		defer transposed.Release()
		if a.uncut {
			transposed.Segments = nil
		}
		team.AttendBackward(d, k, b, transposed, a.loops, a.saved)
	})
	results := byName(d)
	results["output"], results["log-sum-exp"], results["dots"] = state.Out, state.Maximum, a.saved.GradDotOut
	maps.DeleteFunc(results, func(_ string, m *tensor.Matrix) bool { return m == nil })
	return results
}
