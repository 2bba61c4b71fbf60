package kernel

import (
	"testing"

	"weft/internal/assert"
)

// TestSliceChoice has graphs of published sizes, on cards with second-level caches of 50 MB (H100) and of 6
// MB.
func TestSliceChoice(t *testing.T) {
	arxiv := gathering{edges: 2_315_598, rows: 169_343, sources: 169_343, row: 1024}
	for _, c := range []struct {
		what   string
		gather gathering
		cache  int64
		slice  int
	}{
		{"arxiv, 256 columns", arxiv, 50e6, 128},
		{"rows that fit", gathering{edges: 2_315_598, rows: 20_000, sources: 20_000, row: 1024}, 50e6, 0},
		{"5/8 of a row fit, nearly", gathering{edges: 4e6, rows: 40_000, sources: 40_000, row: 1024}, 50e6, 640},
		{"a row of a line", gathering{edges: 2e9, rows: 1e6, sources: 1e6, row: 128}, 50e6, 0},
		{"an edge of each row", gathering{edges: 200_000, rows: 200_000, sources: 200_000, row: 1024}, 50e6, 0},
		{"more vertices than lines", gathering{edges: 1e9, rows: 1e8, sources: 1e8, row: 1024}, 50e6, 0},
		{"5.2 % less time", gathering{edges: 1e6, rows: 500_000, sources: 500_000, row: 512}, 50e6, 128},
		{"4.5 % less time", gathering{edges: 4e6, rows: 1e6, sources: 1e6, row: 1024}, 50e6, 0},
		{"an unknown cache", arxiv, 0, 0},
	} {
		assert.Equal(t, c.slice, c.gather.slice(c.cache), c.what)
	}
}

// TestPassing counts by hand for 4 rows of 256 bytes and 10 weighted edges. The cache has room for 128 bytes
// of two rows.
func TestPassing(t *testing.T) {
	g := gathering{edges: 10, rows: 3, sources: 4, row: 256, weighted: true}
	memory, all := g.passing(128, 256)
	assert.Near(t, 2*(10*8+3*8)+10*256*.5+4*256*.5, memory, 0)
	assert.Near(t, 2*(10*8+3*8)+10*256, all, 0)
	memory, _ = g.passing(256, 1024)
	assert.Near(t, 10*8+3*8+4*256, memory, 0)
}
