package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestInfiniteRow: an infinite number of a neighbour makes its own column of a sum infinite, and no other. It
// is in each row's last edge, and behind it a batch has unfilled places.
func TestInfiniteRow(t *testing.T) {
	const n, last = 40, 39
	infinity := float32(math.Inf(1))
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	indptr, indices := []int64{0}, []int32{}
	for i := range int32(n) { // every row has source `last`, and row `last` every source
		for j := range int32(last) {
			if j < i%20 || i == last {
				indices = append(indices, j)
			}
		}
		indices = append(indices, last)
		indptr = append(indptr, int64(len(indices)))
	}
	a := csr(team, n, n, indptr, indices)
	transposed := team.Transpose(a, tensor.Graph)
	onlyFirst := func(what string, heads, width int, m *tensor.Matrix) {
		for k, v := range m.Floats() {
			if column := k % m.Cols; column == 0 && v != infinity ||
				column > 0 && !(math.Abs(float64(v)) < 1e6) {
				t.Fatalf("%s, %d heads of %d columns: %v in row %d, column %d", what, heads, width,
					v, k/m.Cols, column)
			}
		}
	}
	for _, heads := range []int{1, 2, 3, 8} {
		for _, width := range []int{1, 3, 8, 16, 17, 40, 64, 65, 130} {
			r := rand.New(rand.NewPCG(8, 8))
			x, score, target := normal(team, r, n, heads*width), normal(team, r, n, heads),
				normal(team, r, n, heads)
			k := kernel.Attention{
				Heads: heads, Width: width, Slope: .2, Source: x, SourceScore: score,
				TargetScore: target,
			}
			s := team.AttentionStart(n, heads, width, tensor.Float32)
			team.Attend(s, k, a, nil, kernel.Last)
			g, gOut := normal(team, r, n, heads*width), normal(team, r, n, heads)
			g.Floats()[last*heads*width] = infinity
			d := kernel.AttentionGradients{
				Source:      team.Zeros(tensor.Gradients, n, heads*width),
				SourceScore: team.Zeros(tensor.Gradients, n, heads),
				TargetScore: team.Zeros(tensor.Gradients, n, heads),
			}
			team.AttendBackward(d, k, a, transposed, nil,
				kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: s.Maximum})
			onlyFirst("gradient", heads, width, d.Source)
			x.Floats()[last*heads*width] = infinity
			team.Attend(s, k, a, nil, kernel.Last)
			onlyFirst("output", heads, width, s.Out)
			team.SpMM(s.Out, a, x, kernel.Scales{}, kernel.Replace)
			onlyFirst("sum", heads, width, s.Out)
		}
	}
}
