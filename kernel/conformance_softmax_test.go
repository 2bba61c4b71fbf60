package kernel_test

import (
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// Softmax aggregation, whose columns are heads of attention.

func conformSoftmaxSum(s *suite) {
	s.each(append([]int{100, 128, 136, 300}, widths...), func(s *suite, cols int) {
		for _, loops := range []bool{false, true} {
			s.softmaxSum(case_("columns", cols, "loops", loops), s.network(s.tangled(19, 75), loops), cols, 1)
		}
	})
	s.each([]int{24, 129}, func(s *suite, cols int) { // scores whose exponentials are no numbers
		s.softmaxSum(case_("columns", cols, "large"), s.network(s.tangled(19, 75), true), cols, 200)
	})
}

// conformSoftmaxSumHub has rows that one thread works on, and rows that are taken apart.
func conformSoftmaxSumHub(s *suite) {
	for _, degree := range []int{4000, 18_000} {
		g := s.network(s.tangled(1024, degree), true)
		for _, cols := range []int{3, 20} {
			s.softmaxSum(case_("degree", degree, "columns", cols), g, cols, 1)
		}
	}
}

func conformSoftmaxSumEmpty(s *suite) {
	for name, a := range map[string]*kernel.CSR{
		"no rows":    s.rows(0, nil),
		"no entries": s.rows(5, make([][]int32, 5)),
		"one row":    s.rows(1, [][]int32{{0, 0, 0}}),
	} {
		s.softmaxSum(name, s.network(a, false), 6, 1)
	}
}

// softmaxSum holds the forward and the backward pass against the reference, with an inverse temperature of
// about `hot` in each column, in one block of edges and in two.
func (s *suite) softmaxSum(what string, g network, cols int, hot float64) {
	s.t.Helper()
	n := g.a.Rows
	x, t := s.stored(n, cols), s.scaled(1, cols, hot)
	run := attending{
		Attention: kernel.Attention{Heads: cols, Width: 1, Source: x, InverseTemperature: t},
		blocks:    []*kernel.CSR{g.a}, loops: g.loops, grad: s.stored(n, cols),
		d: kernel.AttentionGradients{Source: s.stored(n, cols), SourceScore: s.normal(n, cols)},
	}
	if s.storage == tensor.BFloat16 {
		s.storedSoftmaxSum(what, run)
		return
	}
	r := &reference.Attention{Indptr: g.indptr, Indices: g.indices, Heads: cols}
	out, logSum := reference.SoftmaxSum(r, exact(x), values(t))
	dx, dt := reference.SoftmaxSumBackward(r, exact(x), values(t), exact(run.grad))
	terms := max(longest(g.a), longest(g.transposed))
	if hot > 1 { // an exponential's error is that of its score, in units of the result
		terms *= int(hot * hot)
	}
	holds := func(what string, run attending) {
		s.t.Helper()
		got, start := run.over(s.team), exact(run.d.Source)
		s.rowwise(what+", output", got["output"], out, terms)
		s.logSums(what, got["log-sum-exp"], logSum)
		s.within(what+", gradient of the source", got["source"], start.Plus(dx).Data, func(i int) float64 {
			row := i / cols * cols // what it is added to may take it away
			size := .01 + largest(start.Data[row:row+cols]) + largest(dx.Data[row:row+cols])
			return (1e-5 + sumError(terms)) * size
		})
		score := got["source score"]
		s.team.Axpy(score, -1, run.d.SourceScore)
		sum := s.zeros(1, cols)
		s.team.ColumnSums(sum, score, x)
		s.vector(what+", gradient of the inverse temperature", sum, dt, terms)
	}
	holds(what, run)
	if g.loops == nil && n > 1 {
		two := run
		left, right := halves(s.team, g.a, n/2)
		two.blocks = []*kernel.CSR{left, right}
		holds(what+", two blocks", two)
	}
	with := run.over(s.team)
	run.d.SourceScore = nil
	if without := run.over(s.team); !same(with["source"], without["source"]) {
		s.t.Fatalf("%s: the source's gradient depends on whether the scores' is asked for", what)
	}
}

// storedSoftmaxSum holds the passes over BFloat16 against what comes of the same numbers in Float32, rounded:
// the bits are the same.
func (s *suite) storedSoftmaxSum(what string, run attending) {
	s.t.Helper()
	got, wide := run.over(s.team), run
	for _, m := range []**tensor.Matrix{&wide.Source, &wide.grad, &wide.d.Source} {
		*m = s.as(tensor.Float32, *m)
	}
	wide.saved = kernel.Attended{LogSum: got["log-sum-exp"], Out: s.as(tensor.Float32, got["output"])}
	for name, want := range wide.over(s.team) {
		if name != "dots" && !same(got[name], s.as(got[name].Element, want)) {
			s.t.Fatalf("%s: the %s is not what comes of Float32, rounded", what, name)
		}
	}
}
