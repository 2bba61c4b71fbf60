package plan

import (
	"encoding/json"
	"maps"
	"testing"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
)

// TestKernels: the calls of a kernel add up by its widths, by hand. Their work is rows and edges times the
// widths, and the operations of a product are two for each. Segments count in the calls that they belong to.
// What a file has of a kernel is read again.
func TestKernels(t *testing.T) {
	k := Kernels{}
	for _, c := range []kernel.Call{
		{Kernel: "spmm", Shape: kernel.Shape{10, 64}, Entries: 90, Bytes: kernel.Bytes{Gathered: 90}},
		{Kernel: "spmm", Shape: kernel.Shape{5, 64}, Entries: 5, Bytes: kernel.Bytes{Streamed: 10}},
		{Kernel: "product", Shape: kernel.Shape{5, 8, 4}},
		{Kernel: "spmm", Shape: kernel.Shape{3}},
	} {
		k.Add(c)
	}
	want := Kernels{
		{"spmm", [2]int{64, 1}}:   {2, 110 * 64, 100, 0},
		{"product", [2]int{8, 4}}: {1, 5 * 8 * 4, 0, 2 * 5 * 8 * 4},
	}
	assert.Equal(t, want, k)
	text, err := json.Marshal(k)
	require.NoError(t, err)
	again := Kernels{}
	if err := json.Unmarshal(text, &again); err != nil || !maps.Equal(again, want) {
		t.Errorf("%s is read as %v, %v", text, again, err)
	}
	c := Counts{Kernels: k}
	c.Traffic[comm.Halo].Messages, c.Traffic[comm.Gradient].Messages = 2, 1
	assert.Equal(t, 3+4*3, c.Steps(), "steps")
}
