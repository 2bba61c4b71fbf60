package sar

import "testing"

// TestTileOf: a sum of 2²⁰ elements or more on a mean worker is computed in at most four tiles, of which each
// but the last has whole cache lines of 32 BFloat16.
func TestTileOf(t *testing.T) {
	for _, c := range []struct{ rows, columns, want int }{
		{1 << 12, 255, 255},
		{1 << 12, 256, 64},
		{1 << 14, 100, 32},
		{1 << 14, 128, 32},
		{1 << 14, 129, 64},
		{1 << 14, 1000, 256},
		{1 << 20, 16, 32}, // one tile has all columns
	} {
		if got := tileOf(c.rows, c.columns); got != c.want {
			t.Errorf("%d rows of %d columns: tiles of %d, want %d", c.rows, c.columns, got, c.want)
		}
	}
}
