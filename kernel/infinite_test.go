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

// TestSoftmaxSumOfNaN: a NaN of a source is in its column of each row that has an edge from there, wherever
// the edge stands, and in the gradients of these rows' sources. All else has the bits that it has without it.
// Scores that overflow to −∞ have no weight: a row of these alone is 0, and so are the gradients of their
// sources.
func TestSoftmaxSumOfNaN(t *testing.T) {
	const n, cols = 12, 21 // whole vectors, and columns behind them
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	indptr, indices := []int64{0}, []int32{}
	for _, list := range [n][]int32{
		0: {2}, 1: {2, 3}, 2: {0, 1, 3, 4, 5, 6, 7, 8, 9, 2}, 3: {2, 4, 5, 6, 7, 8, 9, 0, 1, 3},
		4: {5, 10}, 5: {10},
	} {
		indices = append(indices, list...)
		indptr = append(indptr, int64(len(indices)))
	}
	r := rand.New(rand.NewPCG(3, 9))
	x, hot := normal(team, r, n, cols), normal(team, r, 1, cols)
	run := attending{
		Attention: kernel.Attention{Heads: cols, Width: 1, Source: x, InverseTemperature: hot},
		blocks:    []*kernel.CSR{csr(team, n, n, indptr, indices)}, grad: normal(team, r, n, cols),
		d: kernel.AttentionGradients{
			Source: team.Zeros(tensor.Gradients, n, cols), SourceScore: team.Zeros(tensor.Gradients, n, cols),
		},
	}
	finite := run.over(team)
	run.Source = clone(team, x)
	for _, column := range []int{1, 18} {
		run.Source.Floats()[2*cols+column] = float32(math.NaN())
	}
	spoilt := run.over(team)
	rows := map[string]int{ // the first of these are NaN
		"output": 4, "log-sum-exp": 4, "source": 10, "source score": 10,
	}
	for name, first := range rows {
		for k, got := range spoilt[name].Floats() {
			row, column := k/cols, k%cols
			is, want := got != got, finite[name].Floats()[k]
			if nan := row < first && (column == 1 || column == 18); is != nan || !nan && got != want {
				t.Errorf("%s of row %d, column %d: %v, and %v without a NaN", name, row, column, got, want)
			}
		}
	}

	for v := range n {
		run.Source.Floats()[v*cols+1], run.Source.Floats()[v*cols+18] = -1e20, -1e20
	}
	hot.Floats()[1], hot.Floats()[18] = 1e20, 1e20
	for _, column := range []int{1, 18} {
		run.Source.Floats()[3*cols+column] = 0
	}
	small := run.over(team)
	for name := range rows {
		for row := range n {
			for _, column := range []int{1, 18} {
				want := float32(0)
				if name == "source" && row == 3 { // alone has weight in rows 1, 2 and 3
					g := run.grad.Floats()
					want = g[cols+column] + g[2*cols+column] + g[3*cols+column]
				}
				got := small[name].Floats()[row*cols+column]
				if !(math.Abs(float64(got-want)) <= 1e-5) {
					t.Errorf("%s of row %d, column %d: %v, want %v", name, row, column, got, want)
				}
			}
		}
	}
}
