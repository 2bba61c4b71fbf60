package kernel_test

import (
	"strings"
	"testing"
	"unsafe"

	"weft/device"
	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// cached is a card with a second-level cache of so many bytes. It notes the number of blocks of aggregations.
type cached struct {
	kernel.Device
	cache  int64
	blocks int
}

func (c *cached) Cache() int64 { return c.cache }

func (c *cached) Launch(name string, blocks, threads int, args unsafe.Pointer, bytes int) error {
	if strings.HasPrefix(name, "spmm") && !strings.HasSuffix(name, "_segments") {
		c.blocks += blocks
	}
	return c.Device.Launch(name, blocks, threads, args, bytes)
}

// TestSlices: on a card whose second-level cache holds few rows, aggregations take slices of columns. They
// have the same bits as with whole rows, and are right, for all rows and for two ranges of them. Some rows
// have no edges, some few, some enough for a whole block, and some are cut.
func TestSlices(t *testing.T) {
	devicetest.Library(t)
	for _, storage := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
		d, err := device.Open(0)
		require.NoError(t, err)
		memory := tensor.NewMeter()
		require.NoError(t, memory.On(d, 64<<20))
		card := &cached{Device: d}
		s := &suite{t, kernel.NewDeviceTeam(card, 1, memory), random(), storage}
		degrees := []int{600, 17_000, 0, 513}
		for len(degrees) < 311 {
			degrees = append(degrees, s.r.IntN(20))
		}
		a := s.ofDegrees(degrees)
		a.FindSegments()
		a.Values = s.normal(1, a.Entries())
		scales := kernel.Scales{Row: s.normal(a.Rows, 1), Col: s.normal(a.Cols, 1), Self: s.normal(a.Rows, 1)}
		for _, c := range []struct{ cols, cache int }{
			// rows of whole vectors, and of single numbers
			{128, 2 * 311 * 128}, {164, 2 * 311 * 128}, {197, 2 * 311 * 256},
		} {
			c.cols *= 4 / storage.Size()
			x := s.stored(a.Cols, c.cols)
			const apart = 100
			ways := map[string]func(z *tensor.Matrix){
				"all rows": func(z *tensor.Matrix) { s.team.SpMM(z, a, x, scales, kernel.Replace) },
				"two ranges of rows": func(z *tensor.Matrix) {
					s.team.SpMMRows(z, a, x, scales, kernel.Replace, 0, apart)
					s.team.SpMMRows(z, a, x, scales, kernel.Replace, apart, a.Rows)
				},
			}
			for name, multiply := range ways {
				what := case_(name, "columns", c.cols)
				z, sliced := s.unwritten(a.Rows, c.cols), s.unwritten(a.Rows, c.cols)
				card.cache, card.blocks = 0, 0
				multiply(z)
				whole := card.blocks
				card.cache, card.blocks = int64(c.cache), 0
				multiply(sliced)
				if !same(z, sliced) {
					t.Errorf("%s: slices have other bits", what)
				}
				if card.blocks == whole {
					t.Errorf("%s: %d blocks, as of whole rows", what, whole)
				}
			}
			for _, accumulate := range []bool{false, true} {
				s.spmmOf(case_("columns", c.cols, "accumulate", accumulate), a, scales, x, storage, accumulate)
			}
		}
		memory.Close()
		assert.NoError(t, d.Close())
	}
}
