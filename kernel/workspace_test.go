package kernel_test

import (
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestWorkspacesOfThreads: the memory in which kernels compute besides their operands is counted for each
// thread, and a plan knows it. Attention of 2 heads of 2,048 columns takes 4 rows of 16 KiB, and with weights
// of edge features 16 rows more. Layer norm of 1,000 columns in bfloat16 takes two batches of 16 rows of
// floats. Each takes a cache line besides. A weight's gradient takes two sums of a block, as far as there are
// lanes, a sum of a tile, and panels.
func TestWorkspacesOfThreads(t *testing.T) {
	const rows, heads, width, features, page = 3, 2, 2048, 4, 4096
	attend := func(team *kernel.Team, weights bool) {
		e := &kernel.CSR{
			Rows: rows, Cols: rows, Indptr: team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, rows+1),
			Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, 0),
		}
		clear(e.Indptr.WriteInt64s())
		x := team.Zeros(tensor.Activations, rows, heads*width)
		a := kernel.Attention{Heads: heads, Width: width, Source: x, Target: x, Key: x}
		if weights {
			a.Edges = kernel.EdgeFeatures{
				Rows:   team.Memory.New(tensor.Graph, 0, features),
				Weight: team.Zeros(tensor.Buffers, features, heads*width),
			}
		}
		team.Attend(team.AttentionStart(rows, heads, width, tensor.Float32), a, e, nil, kernel.Last)
	}
	norm := func(team *kernel.Team, element tensor.Element) {
		const cols = 1000
		row := func() *tensor.Matrix { return team.Zeros(tensor.Buffers, 1, cols) }
		column := func() *tensor.Matrix { return team.Zeros(tensor.Buffers, rows, 1) }
		x := team.Memory.NewElement(tensor.Activations, element, rows, cols)
		team.LayerNorm(x, x, kernel.Normalization{Mean: column(), Rstd: column(), Gamma: row(), Beta: row()},
			1e-5, kernel.ReLU, kernel.Mask{})
	}
	weight := func(team *kernel.Team, rows, in, out int) {
		zeros := func(rows, cols int) *tensor.Matrix { return team.Zeros(tensor.Buffers, rows, cols) }
		team.MatMulT(zeros(in, out), zeros(rows, in), zeros(rows, out), kernel.Replace)
	}
	for name, c := range map[string]struct {
		compute func(*kernel.Team)
		more    int64 // bytes that three more threads take, in pages
	}{
		"attention": {func(team *kernel.Team) {
			attend(team, false)
		}, 48 * page}, // of 16.02 KiB × 4
		"attention, weights": {func(team *kernel.Team) {
			attend(team, true)
		}, 240 * page}, // of 320.06 KiB
		"layer norm, bfloat16": {func(team *kernel.Team) {
			norm(team, tensor.BFloat16)
		}, (126 - 32) * page}, // of 125.06 KiB
		"gradient of a weight": {func(team *kernel.Team) { weight(team, 9000, 64, 64) }, 135 * page},
		"gradient of a weight, blocks": {func(team *kernel.Team) {
			weight(team, 3000, 300, 520)
		}, 2566 * page},
		"gradient of a weight, few rows": {func(team *kernel.Team) { weight(team, 1500, 64, 64) }, 25 * page},
		"layer norm of float32":          {func(team *kernel.Team) { norm(team, tensor.Float32) }, 0},
	} {
		peak := func(team *kernel.Team) int64 {
			defer team.Memory.Close()
			c.compute(team)
			return team.Memory.Peak()
		}
		single, four := peak(kernel.NewTeam(1, tensor.NewMeter())), peak(kernel.NewTeam(4, tensor.NewMeter()))
		planned := peak(kernel.NewPlan(4, tensor.NewMeter()))
		if four-single != c.more || planned != four {
			t.Errorf("%s: three more threads take %d bytes, want %d; four take %d, planned %d", name,
				four-single, c.more, four, planned)
		}
	}
}
