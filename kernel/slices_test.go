package kernel_test

import (
	"fmt"
	"math"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestColumnsHaveTheSameBits: what sums, maxima and attention with given scores make of some columns of a
// matrix has the bits of these columns of what they make of the whole, so that columns can be divided among
// workers. Each column is summed edge after edge, whatever vectors it shares with others.
func TestColumnsHaveTheSameBits(t *testing.T) {
	for _, cols := range []int{37, 64, 300} {
		with(t, func(s *suite) {
			a := s.tangled(40, 90)
			s.slices(fmt.Sprintf("%d columns", cols), a, cols)
		})
	}
	with(t, func(s *suite) {
		a := s.tangled(30, 20_000)
		a.FindHubs()
		s.slices("a hub", a, 37)
	})
}

// slices holds slices of few columns, wherever they begin, and as nearly equal as so many workers have them.
func (s *suite) slices(what string, a *kernel.CSR, cols int) {
	whole := s.overSlices(a, cols)
	results := whole(0, cols)
	check := func(from, to int) {
		for name, m := range whole(from, to) {
			for i := range m.Rows {
				for c := range to - from {
					got, want := m.Floats()[i*m.Cols+c], results[name].Floats()[i*cols+from+c]
					if math.Float32bits(got) != math.Float32bits(want) {
						s.t.Fatalf("%s, %s of columns %d to %d: row %d, column %d is %v, of the whole %v", what, name, from, to-1, i, c, got, want)
					}
				}
			}
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

// overSlices makes, of some columns of the same random matrices, what they are made of in training.
func (s *suite) overSlices(a *kernel.CSR, cols int) func(from, to int) map[string]*tensor.Matrix {
	team, n := s.team, a.Rows
	weighted := *a
	weighted.Values = s.normal(1, a.Entries())
	transposed := team.Transpose(a, tensor.Graph)
	x, g, held := s.normal(n, cols), s.normal(n, cols), s.normal(n, cols)
	row, col, self, ids := s.normal(n, 1), s.normal(n, 1), s.normal(n, 1), s.permutation(n)
	source, target, gOut := s.normal(n, 1), s.normal(n, 1), s.normal(n, 1)
	mask := kernel.NewMask(5, .3, nil)
	return func(from, to int) map[string]*tensor.Matrix {
		made, width := map[string]*tensor.Matrix{}, to-from
		part := func(m *tensor.Matrix) *tensor.Matrix {
			z := team.Memory.NewElement(tensor.Buffers, tensor.Float32, n, width)
			team.PickColumns(z, m, nil, from)
			return z
		}
		partX, partG := part(x), part(g)
		sum := func(name string, e *kernel.CSR, scales kernel.Scales, to kernel.Output) {
			made[name] = part(held)
			team.SpMM(made[name], e, partX, scales, to)
		}
		sum("sum", a, kernel.Scales{}, kernel.Replace)
		sum("mean", a, kernel.Scales{Row: row}, kernel.Replace)
		sum("mean backward", transposed, kernel.Scales{Col: row}, kernel.Accumulate)
		sum("symmetric sum", a, kernel.Scales{Row: row, Col: col, Self: self}, kernel.Replace)
		sum("weighted sum", &weighted, kernel.Scales{}, kernel.Replace)
		sum("added sum", &weighted, kernel.Scales{Row: row, Col: col, Self: self}, kernel.Accumulate)
		for name, ids := range map[string]*tensor.Matrix{"maximum": nil, "maximum by ids": ids} {
			arg := team.Memory.NewElement(tensor.Buffers, tensor.Int32, n, width)
			made[name], made[name+" backward"] = part(held), part(held)
			team.Max(made[name], arg, a, partX, ids, nil, kernel.Replace)
			team.MaxBackward(made[name+" backward"], transposed, partG, arg, ids, nil)
			arg.Release()
		}
		attention := kernel.Attention{
			Heads: 1, Width: width, Slope: .2, Source: partX, SourceScore: source, TargetScore: target, Whole: true, Mask: mask,
		}
		state := team.AttentionStart(n, 1, width)
		team.Attend(state, attention, a, nil, kernel.Last)
		made["attention"], made["attention backward"] = state.Out, part(held)
		d := kernel.AttentionGradients{
			Source: made["attention backward"], SourceScore: team.Zeros(tensor.Gradients, n, 1), TargetScore: team.Zeros(tensor.Gradients, n, 1),
		}
		team.AttendBackward(d, attention, a, transposed, nil, kernel.Attended{Grad: partG, GradDotOut: gOut, LogSum: state.Maximum})
		for _, m := range []*tensor.Matrix{partX, partG, d.SourceScore, d.TargetScore, state.Maximum} {
			m.Release()
		}
		return made
	}
}
