package sar

import (
	"testing"

	"weft/internal/assert"
	"weft/tensor"
)

// TestWant: a matrix of which the next turns read more rows than it has stays in memory, and one of which
// they read as many leaves, though it was made later.
func TestWant(t *testing.T) {
	const rows, columns, bytes = 128, 64, 4 * 128 * 64
	mem := tensor.NewMeter()
	defer mem.Close()
	mem.Offload(nil, 2*bytes)
	made := func() *tensor.Matrix { return mem.New(tensor.Activations, rows, columns) }
	mem.BeginTurn(true)
	more, equal := made(), made()
	want([]*tensor.Matrix{more}, rows+1)
	want([]*tensor.Matrix{equal}, rows)
	mem.BeginTurn(false)
	made()
	assert.Equal(t, false, more.Rests(), "the one that is read more often rests")
	assert.Equal(t, true, equal.Rests(), "the other one rests")
}
