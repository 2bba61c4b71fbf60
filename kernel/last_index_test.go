package kernel_test

import (
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestLastIndex: rows end near the end of indices that fill whole pages. With -tags weftdebug, a read behind
// them, even a prefetch, ends the test. Rows of lengths around 64 at the end give the same results as with
// more indices behind them.
func TestLastIndex(t *testing.T) {
	const entries, rows, heads, width = 1024, 3, 4, 8
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	source, target, a := team.Memory.New(tensor.Buffers, rows, heads*width),
		team.Memory.New(tensor.Buffers, rows, heads*width), team.Memory.New(tensor.Buffers, 1, heads*width)
	for _, m := range []*tensor.Matrix{source, target, a} {
		for i := range m.Floats() {
			m.Floats()[i] = float32(i%13)/7 - 1
		}
	}
	out := func(first, room int) []float32 {
		e := &kernel.CSR{Rows: rows, Cols: rows, Indptr: team.Memory.NewElement(tensor.Graph, tensor.Int64, 1,
			rows+1), Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, entries+room)}
		copy(e.Indptr.Int64s(), []int64{0, int64(first), entries - 64, entries})
		for i := range e.Indices.Int32s() {
			e.Indices.Int32s()[i] = int32(i % rows)
		}
		e.Indices = e.Indices.Prefix(1, entries)
		state := team.AttentionStart(rows, heads, width, tensor.Float32)
		team.Attend(state, kernel.Attention{
			Heads: heads, Width: width, Slope: 0.2, Source: source,
			Target: target, A: a,
		}, e, nil, kernel.Last)
		return append([]float32(nil), state.Out.Floats()...)
	}
	for first := range 9 {
		want := out(first, 1024)
		for i, v := range out(first, 0) {
			if v != want[i] {
				t.Fatalf("%d edges first: number %d is %v, with room behind the indices %v",
					first, i, v, want[i])
			}
		}
	}
}
