package tensor_test

import (
	"fmt"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
)

// TestGatherAtRest: rows of a matrix at rest are copied from the pages that hold them. Up to four unneeded
// pages between two of these are read, too. The matrix stays at rest. A plan counts the same bytes. A matrix
// in memory, or with room there, is left to the kernel.
func TestGatherAtRest(t *testing.T) {
	const columns, pages = 256, 40 // a page has four rows
	for _, c := range []struct {
		rows []int32
		want int64 // pages that are read of a disk
	}{
		{[]int32{0}, 1},
		{[]int32{3, 4}, 2},
		{[]int32{0, 20}, 6},             // four pages between them
		{[]int32{0, 24}, 2},             // five pages between them
		{[]int32{1, 2, 30, 33, 159}, 4}, // pages 0; 7 and 8; 39
		{[]int32{}, 0},
	} {
		for _, tier := range tiers {
			t.Run(fmt.Sprint(tier.name, c.rows), func(t *testing.T) {
				mem := tier.newMeter(t, pages*tensor.PageSize)
				bytes := c.want * tensor.PageSize
				if tier.device {
					bytes = int64(len(c.rows)) * columns * 4
				}
				m := mem.New(tensor.Activations, 4*pages, columns)
				if !tier.plan {
					for i := range m.Floats() {
						m.Floats()[i] = float32(i)
					}
				}
				m.SetReadOnly()
				into := mem.New(tensor.Buffers, len(c.rows), columns)
				if m.GatherAtRest(into, c.rows) || m.AtRest() {
					t.Error("rows of a matrix in memory are read")
				}
				mem.BeginTurn(false)
				other := mem.New(tensor.Activations, 4*pages, columns) // takes m's memory
				require.Equal(t, true, m.AtRest(), "it rests")
				before := mem.OnDisk()
				require.Equal(t, true, m.GatherAtRest(into, c.rows), "it gathers")
				after := mem.OnDisk()
				assert.Equal(t, before.Read+bytes, after.Read, "read")
				assert.Equal(t, before.Written, after.Written, "written")
				for k, row := range c.rows {
					want := numbersFrom(int(row)*columns, columns)
					if !tier.plan && !slices.Equal(into.RowRange(k, k+1).Floats(), want) {
						t.Errorf("row %d is another", row)
					}
				}
				whole := mem.NewElement(tensor.Buffers, tensor.Byte, 1, m.Memory())
				if copied := m.CopyAtRest(whole); !tier.plan &&
					!slices.Equal(copied.Floats(), numbersFrom(0, 4*pages*columns)) {
					t.Error("the copy of all rows has others")
				}
				assert.Equal(t, after.Read+pages*tensor.PageSize, mem.OnDisk().Read, "the copy of all rows")
				assert.Equal(t, true, m.Rests(), "it stays at rest")
				for _, m := range []*tensor.Matrix{other, whole, into} {
					m.Release()
				}
				assert.Equal(t, false, m.AtRest(), "there is room for it")
			})
		}
	}
}

// numbersFrom returns n consecutive numbers from first on.
func numbersFrom(first, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(first + i)
	}
	return list
}

// TestGatherFails: whichever read of a gather fails, the gather ends with the disk's error, and so does every
// later use. Rows are less than a page, or more.
func TestGatherFails(t *testing.T) {
	const rows, reads = 4000, 5
	list := make([]int32, reads)
	for k := range list {
		list[k] = int32(k * (rows - 1) / (reads - 1))
	}
	for _, columns := range []int{24, 1500} {
		for fails := 1; fails <= reads; fails++ {
			d := newDrum()
			mem := offloaded(t, d, 4*rows*int64(columns)+unit)
			m, into := mem.New(tensor.Activations, rows, columns), mem.New(tensor.Buffers, reads, columns)
			mem.BeginTurn(false)
			mem.New(tensor.Activations, rows, columns) // takes m's memory
			require.Equal(t, true, m.AtRest(), "it rests")
			d.calls, d.fails = 0, fails
			for _, use := range []func(){func() { m.GatherAtRest(into, list) }, func() { m.Pointer() }} {
				func() {
					defer func() {
						failure, _ := recover().(tensor.DiskFailure)
						assert.ErrorIs(t, failure.Err, errDrum, "%d columns, read %d", columns, fails)
					}()
					use()
				}()
			}
		}
	}
}
