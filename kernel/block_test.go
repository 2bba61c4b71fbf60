package kernel_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// bipartite returns a random block of rows destinations and cols sources, with a hub row, empty rows and
// duplicate edges.
func bipartite(team *kernel.Team, r *rand.Rand, rows, cols int) *kernel.CSR {
	indptr, indices := []int64{0}, []int32{}
	for i := range rows {
		degree := r.IntN(9)
		switch {
		case i == 3:
			degree = 4 * cols
		case i%11 == 5:
			degree = 0
		}
		row := make([]int32, degree)
		for k := range row {
			row[k] = int32(r.IntN(cols))
		}
		slices.Sort(row)
		indices = append(indices, row...)
		indptr = append(indptr, int64(len(indices)))
	}
	return csr(team, rows, cols, indptr, indices)
}

func csr(team *kernel.Team, rows, cols int, indptr []int64, indices []int32) *kernel.CSR {
	a := &kernel.CSR{
		Rows: rows, Cols: cols, Indptr: team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, len(indptr)),
		Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(indices)),
	}
	a.MakeRoom(team.Memory, tensor.Graph)
	copy(a.Indptr.Int64s(), indptr)
	copy(a.Indices.Int32s(), indices)
	return a
}

// halves cuts a block between two ranges of sources.
func halves(team *kernel.Team, a *kernel.CSR, at int) (left, right *kernel.CSR) {
	var indptr [2][]int64
	var indices [2][]int32
	for i := range a.Rows {
		for h := range 2 {
			indptr[h] = append(indptr[h], int64(len(indices[h])))
		}
		for k := a.Indptr.Int64s()[i]; k < a.Indptr.Int64s()[i+1]; k++ {
			if j := a.Indices.Int32s()[k]; int(j) < at {
				indices[0] = append(indices[0], j)
			} else {
				indices[1] = append(indices[1], j-int32(at))
			}
		}
	}
	for h := range 2 {
		indptr[h] = append(indptr[h], int64(len(indices[h])))
	}
	return csr(team, a.Rows, at, indptr[0], indices[0]), csr(team, a.Rows, a.Cols-at, indptr[1], indices[1])
}

func normal(team *kernel.Team, r *rand.Rand, rows, cols int) *tensor.Matrix {
	m := team.Memory.New(tensor.Activations, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = float32(r.NormFloat64())
	}
	return m
}

// TestTwoBlocks: an aggregation over two blocks of sources, one after the other, is the same as over one
// block.
func TestTwoBlocks(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols, at, heads, width = 90, 70, 31, 3, 7
		a := bipartite(s.team, s.r, rows, cols)
		left, right := halves(s.team, a, at)
		x := s.normal(cols, heads*width)
		x1, x2 := x.RowRange(0, at), x.RowRange(at, cols)

		single, two := s.blank(rows, heads*width), s.blank(rows, heads*width)
		s.team.SpMM(single, a, x, kernel.Scales{}, kernel.Replace)
		s.team.SpMM(two, left, x1, kernel.Scales{}, kernel.Replace)
		s.team.SpMM(two, right, x2, kernel.Scales{}, kernel.Accumulate)
		s.rowwise("sum", two, exact(single), longest(a))

		arg, arg2 := s.int32s(rows, heads*width), s.int32s(rows, heads*width)
		s.team.Max(single, arg, a, x, nil, nil, kernel.Replace)
		// In the other order, too.
		s.team.Max(two, arg2, right, x2, s.counted(cols).RowRange(at, cols), nil, kernel.Replace)
		s.team.Max(two, arg2, left, x1, nil, nil, kernel.Accumulate)
		if !same(two, single) || !same(arg2, arg) {
			t.Error("the maxima or their sources differ")
		}
		for form, k := range map[form]kernel.Attention{
			v1:          {SourceScore: s.normal(cols, heads), TargetScore: s.normal(rows, heads)},
			v2:          {Target: s.normal(rows, heads*width), A: s.normal(1, heads*width)},
			dotProducts: {Target: s.query(rows, heads*width, width), Key: s.normal(cols, heads*width)},
		} {
			k.Heads, k.Width, k.Slope, k.Source = heads, width, .2, x
			g := s.normal(rows, heads*width)
			two := s.attending(k, g, left, right).over(s.team)
			for name, m := range s.attending(k, g, a).over(s.team) {
				s.vector(case_(form, name), two[name], values(m), longest(a))
			}
		}
	})
}

// TestBlocksTakeOneSide adds up the gradients of target scores over a dense block, which reads only the rows
// on one side of LeakyReLU's knee, and a thin block, which reads all rows. Every block of a destination must
// take the same side.
func TestBlocksTakeOneSide(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols, at, width = 30, 70, 60, 40
		a := bipartite(s.team, s.r, rows, cols)
		left, right := halves(s.team, a, at)
		k := kernel.Attention{
			Heads: 1, Width: width, Slope: .2, Source: s.normal(cols, width), SourceScore: s.normal(cols, 1),
			TargetScore: s.normal(rows, 1),
		}
		g := s.normal(rows, width)
		whole := s.attending(k, g, a)
		whole.Whole = true
		one, two := whole.over(s.team), s.attending(k, g, left, right).over(s.team)
		s.vector("gradient of the target score", two["target score"], values(one["target score"]), longest(a))
	})
}
