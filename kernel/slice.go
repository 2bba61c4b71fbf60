package kernel

import "weft/tensor"

// lineBytes is the size of a line of a card's caches, in bytes.
const lineBytes = 128

// gathering has the sizes of an aggregation on a card.
type gathering struct {
	edges, rows, sources int
	row                  int  // bytes of a row of x
	weighted             bool // edges have weights
}

// passing returns the bytes that an aggregation is expected to read from a card's memory, and all that it
// reads, from memory or cache. Threads take slice bytes of each row at a time, and cache bytes of the
// second-level cache hold rows of x. Each slice of all rows reads the edges once more: an index and perhaps a
// weight of each, and where each row begins.
//
// A row is read once for each edge. If slices of all rows fit the cache, it comes from memory once. Otherwise
// a read finds its row in the cache with the probability that the row is among those that fit, as if all rows
// were equally likely.
func (g gathering) passing(slice, cache int) (memory, all float64) {
	edge := 4
	if g.weighted {
		edge = 8
	}
	slices := parts(g.row, slice)
	structure := float64(slices) * float64(g.edges*edge+g.rows*8)
	found := min(1, float64(cache)/float64(max(1, g.sources*slice)))
	reads, first := float64(g.edges)*float64(g.row), float64(min(g.sources, g.edges))*float64(g.row)
	return structure + reads*(1-found) + first*found, structure + reads
}

// slice returns how many bytes of each row threads should take at a time, a multiple of a line, on a card
// with so many bytes of second-level cache; 0: whole rows.
//
// Half of the cache counts for rows of x: indices and results pass through it, too, and some cards keep a
// line in both halves. The cache has at least twice the rate of the memory, and a thread waits for both. So
// the time of an aggregation is proportional to
//
//	bytes of memory + 1/2 · bytes of the cache.
//
// A narrower slice is taken if that is at least a twentieth less, because a warp then has more rows, of
// different lengths.
func (g gathering) slice(cache int64) int {
	time := func(slice int) float64 {
		memory, all := g.passing(slice, int(cache/2))
		return memory + all/2
	}
	if g.row <= lineBytes || cache <= 0 {
		return 0
	}
	best, least := 0, time(g.row)
	for slice := (g.row - 1) / lineBytes * lineBytes; slice > 0; slice -= lineBytes {
		if t := time(slice); t < .95*least {
			best, least = slice, t
		}
	}
	return best
}

// slice returns the number of columns of x that a device takes at a time in an aggregation for rows lo…hi−1;
// 0: all.
func (t *Team) slice(a *CSR, x *tensor.Matrix, lo, hi int) int {
	d, on := t.backend.(*device)
	if !on {
		return 0
	}
	size := x.Element.Size()
	g := gathering{a.entriesOf(lo, hi), hi - lo, a.Cols, x.Cols * size, a.Values != nil}
	return g.slice(d.card.Cache()) / size
}
