package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// bipartite is a random block: rows destinations, cols sources, with a hub row, empty rows and duplicate
// edges.
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

func close32(t *testing.T, what string, got, want *tensor.Matrix) {
	t.Helper()
	for i, w := range want.Floats() {
		if g := got.Floats()[i]; !(math.Abs(float64(g)-float64(w)) <= 2e-5*math.Max(1,
			math.Abs(float64(w)))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
	}
}

// TestTwoBlocks aggregates over two blocks of sources, one after the other: the same as over one.
func TestTwoBlocks(t *testing.T) {
	team := kernel.NewTeam(2, tensor.NewMeter())
	defer team.Memory.Close()
	r := rand.New(rand.NewPCG(1, 1))
	const rows, cols, at, heads, width = 90, 70, 31, 3, 7
	a := bipartite(team, r, rows, cols)
	left, right := halves(team, a, at)
	x := normal(team, r, cols, heads*width)
	x1, x2 := x.RowRange(0, at), x.RowRange(at, cols)

	t.Run("sum", func(t *testing.T) {
		one, two := team.Memory.New(tensor.Activations, rows, heads*width),
			team.Memory.New(tensor.Activations, rows, heads*width)
		team.SpMM(one, a, x, kernel.Scales{}, kernel.Replace)
		team.SpMM(two, left, x1, kernel.Scales{}, kernel.Replace)
		team.SpMM(two, right, x2, kernel.Scales{}, kernel.Accumulate)
		close32(t, "sum", two, one)
	})
	t.Run("max", func(t *testing.T) {
		ids := team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, cols)
		for i := range ids.Int32s() {
			ids.Int32s()[i] = int32(i)
		}
		start := func() (z, arg *tensor.Matrix) {
			return normal(team, r, rows, heads*width), team.Memory.NewElement(tensor.Buffers,
				tensor.Int32, rows, heads*width)
		}
		one, arg := start()
		team.Max(one, arg, a, x, nil, nil, kernel.Replace)
		two, arg2 := start()
		// In either order
		team.Max(two, arg2, right, x2, ids.Reshape(cols, 1).RowRange(at, cols), nil, kernel.Replace)
		team.Max(two, arg2, left, x1, nil, nil, kernel.Accumulate)
		close32(t, "max", two, one)
		if !slices.Equal(arg.Int32s(), arg2.Int32s()) {
			t.Error("the sources of the maxima differ")
		}
	})
	for _, v2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "attention", true: "attention v2"}[v2], func(t *testing.T) {
			score, target := normal(team, r, cols, heads), normal(team, r, rows, heads)
			att, targets := normal(team, r, 1, heads*width), normal(team, r, rows, heads*width)
			type part struct {
				e        *kernel.CSR
				x, score *tensor.Matrix
			}
			attend := func(parts ...part) (z, l *tensor.Matrix) {
				s := team.AttentionStart(rows, heads, width, tensor.Float32)
				for n, p := range parts {
					k := kernel.Attention{Heads: heads, Width: width, Slope: .2, Source: p.x}
					if v2 {
						k.A, k.Target = att, targets
					} else {
						k.SourceScore, k.TargetScore = p.score, target
					}
					team.Attend(s, k, p.e, nil, kernel.Ending(n == len(parts)-1))
				}
				return s.Out, s.Maximum
			}
			z1, l1 := attend(part{a, x, score})
			z2, l2 := attend(part{left, x1, score.RowRange(0, at)}, part{right, x2, score.RowRange(at, cols)})
			close32(t, "output", z2, z1)
			close32(t, "log sum", l2, l1)
		})
	}
}

// TestBlocksTakeOneSide adds up the gradients of target scores over a dense block, whose rows of one side of
// LeakyReLU's knee are picked, and a thin one, whose rows are all read: every block of a destination takes
// the same side.
func TestBlocksTakeOneSide(t *testing.T) {
	team := kernel.NewTeam(2, tensor.NewMeter())
	defer team.Memory.Close()
	r := rand.New(rand.NewPCG(2, 2))
	const rows, cols, at, width = 30, 70, 60, 40
	a := bipartite(team, r, rows, cols)
	left, right := halves(team, a, at)
	x, score, target := normal(team, r, cols, width), normal(team, r, cols, 1), normal(team, r, rows, 1)
	g := normal(team, r, rows, width)
	whole := kernel.Attention{
		Heads: 1, Width: width, Slope: .2, Source: x, SourceScore: score,
		TargetScore: target, Whole: true,
	}
	s := team.AttentionStart(rows, 1, width, tensor.Float32)
	team.Attend(s, whole, a, nil, kernel.Last)
	gOut := team.Memory.New(tensor.Buffers, rows, 1)
	team.RowDots(gOut, g, s.Out)
	backward := func(d *tensor.Matrix, k kernel.Attention, e *kernel.CSR, from, to int) {
		k.Source, k.SourceScore = x.RowRange(from, to), score.RowRange(from, to)
		rest := kernel.AttentionGradients{
			Source:      team.Zeros(tensor.Gradients, to-from, width),
			SourceScore: team.Zeros(tensor.Gradients, to-from, 1), TargetScore: d,
		}
		team.AttendBackward(rest, k, e, team.Transpose(e, tensor.Graph), nil,
			kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: s.Maximum})
	}
	one, two := team.Zeros(tensor.Gradients, rows, 1), team.Zeros(tensor.Gradients, rows, 1)
	backward(one, whole, a, 0, cols)
	part := whole
	part.Whole = false
	backward(two, part, left, 0, at)
	backward(two, part, right, at, cols)
	close32(t, "gradient of the target score", two, one)
}
