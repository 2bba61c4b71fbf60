package tp

import (
	"testing"

	"weft/comm"
	"weft/kernel"
	"weft/tensor"
)

// TestChunksFor: an aggregation has several chunks where they hide enough of its communication or
// computation, and one chunk where the kernel tiles the matrix for the cache.
func TestChunksFor(t *testing.T) {
	for _, c := range []struct{ rows, degree, columns, workers, want int }{
		{100_000, 100, 64, 2, 16},
		{100_000, 16, 64, 2, 1},
		{100_000, 48, 64, 2, 1}, // computation takes a fifth of the communication: they can hide a sixth
		{100_000, 72, 64, 2, 16},
		{100_000, 150, 64, 7, 13},
		{1000, 100, 64, 2, 0},
		{300_000, 150, 256, 2, 1},   // 150 MB of a slice
		{300_000, 150, 256, 16, 16}, // 19 MB
	} {
		team := kernel.NewPlan(1, tensor.NewMeter())
		a := &Axis{team: team, largerBy: 1, comm: comm.New(comm.Plan(t.Context(), 0, c.workers), 0)}
		matrix := &kernel.CSR{
			Rows: c.rows, Cols: c.rows,
			Indices: &tensor.Matrix{Rows: 1, Cols: c.rows * c.degree},
		}
		if got := a.chunksFor(matrix, c.columns); got != c.want {
			t.Errorf("%+v: %d chunks", c, got)
		}
	}
}
