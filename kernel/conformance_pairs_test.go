package kernel_test

import (
	"math"

	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// conformPairs tests scores of pairs and their gradients. Some pairs are of a row with itself, and some rows
// are in no pair.
func conformPairs(s *suite) {
	s.each([]int{0, 1, 5, 300}, func(s *suite, n int) {
		for _, cols := range []int{1, 7, 64, 130} {
			for _, weighted := range []bool{false, true} {
				s.pairs(n, cols, weighted)
			}
		}
	})
}

func (s *suite) pairs(n, cols int, weighted bool) {
	const rows, relations = 20, 3
	what := case_("pairs", n, "columns", cols, "weighted", weighted)
	x, g := s.normal(rows, cols), s.normal(n, 1)
	p := kernel.Pairs{X: x}
	weights := reference.New(relations, cols)
	for i := range weights.Data {
		weights.Data[i] = 1
	}
	if weighted {
		p.Weights = s.normal(relations, cols)
		weights = exact(p.Weights)
	}
	var list []int32
	byRow := make([][]int32, rows) // by row, the ends of pairs there
	for k := range int32(n) {
		source, target := int32(s.r.IntN(rows-2)), int32(s.r.IntN(rows-2))
		list = append(list, int32(s.r.IntN(relations)), source, target)
		byRow[source] = append(byRow[source], 2*k)
		byRow[target] = append(byRow[target], 2*k+1)
	}
	begin, ends := []int32{0}, []int32(nil)
	for _, some := range byRow {
		ends = append(ends, some...)
		begin = append(begin, int32(len(ends)))
	}
	p.Triples = s.ints(list).Reshape(n, 3)
	scores, dx := s.blank(n, 1), s.blank(rows, cols)
	dw := s.team.Memory.NewElement(tensor.Activations, tensor.Float64, relations, cols)
	clear(dw.Doubles())
	s.team.PairScores(scores, p)
	s.team.PairRows(dx, g, p, s.ints(begin), s.ints(ends))
	s.team.PairWeights(dw, g, p)
	s.team.PairWeights(dw, g, p)

	want, wantX, wantW := reference.New(n, 1), reference.New(rows, cols), reference.New(relations, cols)
	terms, termsX := reference.New(n, 1), reference.New(rows, cols)
	ofX, ofG := exact(x), exact(g)
	for k := range n {
		r, source, target := int(list[3*k]), int(list[3*k+1]), int(list[3*k+2])
		for c := range cols {
			a, w, b, by := ofX.At(source, c), weights.At(r, c), ofX.At(target, c), ofG.At(k, 0)
			want.Add(k, 0, a*w*b)
			terms.Add(k, 0, math.Abs(a*w*b))
			wantX.Add(source, c, by*w*b)
			wantX.Add(target, c, by*w*a)
			termsX.Add(source, c, math.Abs(by*w*b))
			termsX.Add(target, c, math.Abs(by*w*a))
			wantW.Add(r, c, 2*by*a*b)
		}
	}
	s.sums(what, scores, want.Data, terms.Data, cols)
	s.sums(what+", dx", dx, wantX.Data, termsX.Data, n)
	for i, v := range dw.Doubles() {
		assert.Near(s.t, wantW.Data[i], v, 1e-6*max(1, float64(n)), what, "dw")
	}
}

// conformAbove has few numbers, so that many are equal, and NaN.
func conformAbove(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		x, scores := s.blank(rows, cols), s.blank(1+s.r.IntN(cols), 1)
		for i := range x.Floats() {
			if x.Floats()[i] = float32(s.r.IntN(5)); i%11 == 3 {
				x.Floats()[i] = float32(math.NaN())
			}
		}
		for i := range scores.Floats() {
			scores.Floats()[i] = float32(s.r.IntN(5))
		}
		want := make([]float64, 2*cols)
		for i, v := range x.Floats() {
			if c := i % cols; c < scores.Rows && v > scores.Floats()[c] {
				want[c]++
			} else if c < scores.Rows && v == scores.Floats()[c] {
				want[cols+c]++
			}
		}
		assert.Equal(s.t, want, s.team.Above(x, scores), case_("rows", rows, "columns", cols))
	})
}
