package tensor_test

import (
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/tensor"
)

// TestTiers: each tier gives back what a kernel left in a matrix, all of it or some rows. The matrices have
// more bytes than a file moves at a time.
func TestTiers(t *testing.T) {
	const rows, columns, numbers = 400, 256, 400 * 256
	onTiers(t, 2*numbers*4, func(t *testing.T, mem *tensor.Meter, plan bool) {
		if plan {
			return
		}
		var all []*tensor.Matrix
		for k := range 4 {
			mem.BeginTurn(k == 0)
			m := mem.New(tensor.Activations, rows, columns)
			copy(m.Floats(), numbersFrom(k*numbers, numbers))
			if mem.OnDevice() {
				onDevice(t, mem, true, m) // from now on the elements are there alone
			}
			all = append(all, m)
		}
		resting := 0
		for k, m := range all {
			mem.BeginTurn(false)
			list := []int32{0, 7, 8, rows - 1}
			into := mem.New(tensor.Buffers, len(list), columns)
			if m.GatherAtRest(into, list) {
				resting++
				for i, row := range list {
					want := numbersFrom(k*numbers+int(row)*columns, columns)
					assert.Equal(t, want, into.RowRange(i, i+1).Floats(), "row %d of matrix %d", row, k)
				}
			}
			into.Release()
			if !slices.Equal(m.Floats(), numbersFrom(k*numbers, numbers)) {
				t.Errorf("matrix %d has other elements", k)
			}
		}
		if resting < 2 {
			t.Errorf("%d matrices rested, of 4 where 2 have room", resting)
		}
	})
}
