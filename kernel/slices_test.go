package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestColumnsHaveTheSameBits: sums, maxima and attention with given scores have the same bits for some
// columns of a matrix as for these columns of the whole, so that columns can be divided among workers. Each
// column is summed edge after edge, whatever columns share its vector.
func TestColumnsHaveTheSameBits(t *testing.T) {
	for _, cols := range []int{37, 64, 300} {
		with(t, func(s *suite) {
			a := s.tangled(40, 90)
			s.slices(fmt.Sprintf("%d columns", cols), a, cols)
		})
	}
	with(t, func(s *suite) {
		a := s.tangled(30, 20_000)
		a.FindSegments()
		s.slices("a hub", a, 37)
	})
}

// slices tests slices of few columns, wherever they begin, and slices as equal as those of so many workers.
func (s *suite) slices(what string, a *kernel.CSR, cols int) {
	whole := s.overSlices(a, cols)
	results := whole(0, cols)
	check := func(from, to int) {
		for name, m := range whole(from, to) {
			s.sameColumns(fmt.Sprintf("%s, %s of columns %d to %d", what, name, from, to-1), m,
				results[name], from)
			m.Release()
		}
	}
	for width := 1; width <= 17; width++ {
		check(0, width)
		check(cols-width, cols)
		check(width, 2*width)
	}
	for _, workers := range []int{2, 3, 4, 7} {
		for slice := range workers {
			check(cols*slice/workers, cols*(slice+1)/workers)
		}
	}
}

// overSlices returns a function that computes, for some columns of the same random matrices, the results that
// training computes from them.
func (s *suite) overSlices(a *kernel.CSR, cols int) func(from, to int) map[string]*tensor.Matrix {
	team, n := s.team, a.Rows
	weighted := *a
	weighted.Values = s.normal(1, a.Entries())
	transposed := team.Transpose(a, tensor.Graph)
	x, g, initial := s.normal(n, cols), s.normal(n, cols), s.normal(n, cols)
	row, col, self, ids := s.normal(n, 1), s.normal(n, 1), s.normal(n, 1), s.permutation(n)
	source, target, gOut := s.normal(n, 1), s.normal(n, 1), s.normal(n, 1)
	mask, temperature := kernel.NewMask(5, .3, nil), s.normal(1, x.Cols)
	return func(from, to int) map[string]*tensor.Matrix {
		made, width := map[string]*tensor.Matrix{}, to-from
		part := func(m *tensor.Matrix) *tensor.Matrix {
			z := s.blank(m.Rows, width)
			team.PickColumns(z, m, nil, from)
			return z
		}
		partX, partG := part(x), part(g)
		sum := func(name string, e *kernel.CSR, scales kernel.Scales, to kernel.Output) {
			made[name] = part(initial)
			team.SpMM(made[name], e, partX, scales, to)
		}
		sum("sum", a, kernel.Scales{}, kernel.Replace)
		sum("mean", a, kernel.Scales{Row: row}, kernel.Replace)
		sum("mean backward", transposed, kernel.Scales{Col: row}, kernel.Accumulate)
		sum("symmetric sum", a, kernel.Scales{Row: row, Col: col, Self: self}, kernel.Replace)
		sum("weighted sum", &weighted, kernel.Scales{}, kernel.Replace)
		sum("added sum", &weighted, kernel.Scales{Row: row, Col: col, Self: self}, kernel.Accumulate)
		for name, ids := range map[string]*tensor.Matrix{"maximum": nil, "maximum by ids": ids} {
			arg := s.int32s(n, width)
			made[name], made[name+" backward"] = part(initial), part(initial)
			team.Max(made[name], arg, a, partX, ids, nil, kernel.Replace)
			team.MaxBackward(made[name+" backward"], transposed, partG, arg, ids, nil)
			arg.Release()
		}
		attention := kernel.Attention{
			Heads: 1, Width: width, Slope: .2, Source: partX, SourceScore: source, TargetScore: target,
			Whole: true, Mask: mask,
		}
		each := kernel.Attention{Heads: width, Width: 1, Source: partX, InverseTemperature: part(temperature)}
		for name, m := range s.attending(each, partG, a).over(team) {
			if name != "dots" { // which softmax aggregation does not read
				made["softmax, "+name] = m
			}
		}
		state := team.AttentionStart(n, 1, width, tensor.Float32)
		team.Attend(state, attention, a, nil, kernel.Last)
		made["attention"], made["attention backward"] = state.Out, part(initial)
		d := kernel.AttentionGradients{
			Source: made["attention backward"], SourceScore: s.zeros(n, 1), TargetScore: s.zeros(n, 1),
		}
		team.AttendBackward(d, attention, a, transposed, nil,
			kernel.Attended{Grad: partG, GradDotOut: gOut, LogSum: state.Maximum})
		for _, m := range []*tensor.Matrix{partX, partG, d.SourceScore, d.TargetScore, state.Maximum} {
			m.Release()
		}
		return made
	}
}

// TestHeadsHaveTheSameBits: attention has the same bits for some of a layer's heads, in GATv1 also for some
// of a head's columns, as among all heads, so that columns can be divided among workers. A row's exponentials
// are added in the layer's order, whatever heads share a vector.
func TestHeadsHaveTheSameBits(t *testing.T) {
	degrees := []int{63, 64, 65, 127, 128, 129, 500, 1023, 1024, 1025, 1500} // around the ends of batches
	for d := range 40 {
		degrees = append(degrees, d)
	}
	for heads := 1; heads <= 17; heads++ {
		with(t, func(s *suite) { s.someHeads(heads, 3, s.ofDegrees(degrees)) })
	}
	with(t, func(s *suite) { s.someHeads(3, 100, s.ofDegrees(degrees)) }) // GATv2's batches are smaller
	with(t, func(s *suite) { s.someHeads(5, 3, s.ofDegrees([]int{3, 20_000, 200, 40})) })
}

// ofDegrees returns a graph with a vertex for each degree, which has so many random in-edges.
func (s *suite) ofDegrees(degrees []int) *kernel.CSR {
	lists := make([][]int32, len(degrees))
	for i, degree := range degrees {
		for range degree {
			lists[i] = append(lists[i], s.r.Int32N(int32(len(degrees))))
		}
	}
	return s.rows(len(degrees), lists)
}

// someHeads compares attention over the slices of several workers with attention over the whole layer, in one
// block and in two. A slice that begins inside a head is computed head by head.
func (s *suite) someHeads(heads, width int, a *kernel.CSR) {
	n, cols := a.Rows, heads*width
	left, right := halves(s.team, a, n/2)
	x, g, target, vector := s.normal(n, cols), s.normal(n, cols), s.normal(n, cols), s.normal(1, cols)
	sourceScore, targetScore := s.normal(n, heads), s.normal(n, heads)
	part := func(m *tensor.Matrix, from, count int) *tensor.Matrix {
		z := s.blank(m.Rows, count)
		s.team.PickColumns(z, m, nil, from)
		return z
	}
	for _, v2 := range []bool{false, true} {
		attend := func(first, some, from, count int, blocks ...*kernel.CSR) map[string]*tensor.Matrix {
			k := kernel.Attention{
				Heads: some, FirstHead: first, LayerHeads: heads, Width: count / some, Slope: .2,
				Source: part(x, from, count), Mask: kernel.NewMask(5, .3, nil),
			}
			if v2 {
				k.Target, k.A = part(target, from, count), part(vector, from, count)
			} else {
				k.SourceScore, k.TargetScore = part(sourceScore, first, some), part(targetScore, first, some)
			}
			return s.attending(k, part(g, from, count), blocks...).over(s.team)
		}
		for _, blocks := range [][]*kernel.CSR{{a}, {left, right}} {
			whole := attend(0, heads, 0, cols, blocks...)
			check := func(first, some, from, count int) {
				s.t.Helper()
				got := attend(first, some, from, count, blocks...)
				what := case_("GATv2", v2, "heads", heads, "width", width, "blocks", len(blocks),
					"from column", from, "columns", count)
				s.sameColumns(what+", output", got["output"], whole["output"], from)
				s.sameColumns(what+", log-sum-exp", got["log-sum-exp"], whole["log-sum-exp"], first)
			}
			for _, workers := range []int{2, 3, 7} {
				for slice := range workers {
					from, to := cols*slice/workers, cols*(slice+1)/workers
					if v2 {
						from, to = heads*slice/workers*width, heads*(slice+1)/workers*width
					}
					for from < to {
						some, count := 1, min(to, (from/width+1)*width)-from
						if from%width == 0 && to-from >= width {
							some = (to - from) / width
							count = some * width
						}
						check(from/width, some, from, count)
						from += count
					}
				}
			}
		}
	}
}

// sameColumns fails unless got has the bits of whole's columns, from column from on.
func (s *suite) sameColumns(what string, got, whole *tensor.Matrix, from int) {
	s.t.Helper()
	for i := range got.Rows {
		for c := range got.Cols {
			got, want := got.Floats()[i*got.Cols+c], whole.Floats()[i*whole.Cols+from+c]
			if math.Float32bits(got) != math.Float32bits(want) {
				s.t.Fatalf("%s: row %d, column %d is %v, of the whole %v", what, i, from+c, got, want)
			}
		}
	}
}
