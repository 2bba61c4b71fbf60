package kernel

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"weft/internal/assert"
)

// A secondCache is a model of a card's second-level cache, in which the thing that was used longest ago
// leaves first. Things are rows of x or a slice's parts of rows, which enter as a whole, and data that is
// read or written once.
type secondCache struct {
	free, missed int     // bytes
	next, before []int32 // lists of the things in the cache, from the one that was used last; 0 ends a list
	size         []int32 // 0: it is not in the cache
}

// newSecondCache returns an empty cache of so many bytes, for so many things, with numbers from 1.
func newSecondCache(bytes, things int) *secondCache {
	return &secondCache{
		free: bytes, next: make([]int32, things+1), before: make([]int32, things+1), size: make([]int32, things+1),
	}
}

func (c *secondCache) unlink(k int32) {
	c.next[c.before[k]], c.before[c.next[k]] = c.next[k], c.before[k]
}

// use uses a thing of so many bytes. If it is not in the cache, the bytes come from the memory now, or go to
// it later.
func (c *secondCache) use(k, bytes int32) {
	if c.size[k] != 0 {
		c.unlink(k)
	} else {
		c.missed, c.free, c.size[k] = c.missed+int(bytes), c.free-int(bytes), bytes
	}
	c.next[k], c.before[k] = c.next[0], 0
	c.before[c.next[0]], c.next[0] = k, k
	for c.free < 0 {
		last := c.before[0]
		c.unlink(last)
		c.free, c.size[last] = c.free+int(c.size[last]), 0
	}
}

// edges are the in-edges of rows: of row i indices[indptr[i]:indptr[i+1]].
type edges struct {
	indptr  []int64
	indices []int32
}

// memoryTraffic returns how many bytes an aggregation over e moves between a card's memory and its
// second-level cache. Each of the sources has a row of so many bytes, of which threads take slice bytes at a
// time. Blocks of 256 threads with 16 bytes each start in their order, and so many run at a time. One after
// the other, each running block reads the rows of x for 8 edges of each of its rows.
func (e edges) memoryTraffic(row, slice, cache, blocks int) int {
	rows, lines := len(e.indptr)-1, len(e.indices)/32+1
	c := newSecondCache(cache, 2*rows+lines)
	blockRows := max(1, 256*16/slice) // number of rows of a block
	type block struct{ first, done int }
	var running []block
	for started := 0; started < rows || len(running) > 0; {
		for ; len(running) < blocks && started < rows; started += blockRows {
			running = append(running, block{first: started})
		}
		left := running[:0]
		for _, b := range running {
			more := false
			for i := b.first; i < min(b.first+blockRows, rows); i++ {
				begin, end := int(e.indptr[i])+b.done, int(e.indptr[i+1])
				for k := begin; k < min(begin+8, end); k++ {
					c.use(int32(1+2*rows+k/32), lineBytes)
					c.use(1+e.indices[k], int32(slice))
				}
				if begin < end && begin+8 >= end || b.done == 0 && begin == end {
					c.use(int32(1+rows+i), int32(slice)) // the result
				}
				more = more || begin+8 < end
			}
			if b.done += 8; more {
				left = append(left, b)
			}
		}
		running = left
	}
	// All slices move the same.
	return c.missed * row / slice
}

// randomEdges returns both directions of n edges between so many vertices. They are uniform, or skewed: R-MAT
// with Graph500's probabilities.
func randomEdges(vertices, n int, skewed bool) edges {
	r := rand.New(rand.NewPCG(1, 2))
	names, scale := r.Perm(vertices), bits.Len(uint(vertices-1))
	ends := make([][2]int32, 0, 2*n)
	degrees := make([]int64, vertices+1)
	for len(ends) < 2*n {
		from, to := r.IntN(vertices), r.IntN(vertices)
		if skewed {
			from, to = 0, 0
			for range scale {
				p := r.Float64()
				from, to = 2*from, 2*to
				switch {
				case p < .57:
				case p < .76:
					to++
				case p < .95:
					from++
				default:
					from, to = from+1, to+1
				}
			}
			if max(from, to) >= vertices {
				continue
			}
			from, to = names[from], names[to]
		}
		ends = append(ends, [2]int32{int32(from), int32(to)}, [2]int32{int32(to), int32(from)})
		degrees[from+1]++
		degrees[to+1]++
	}
	e := edges{degrees, make([]int32, len(ends))}
	for i := range vertices {
		e.indptr[i+1] += e.indptr[i]
	}
	at := append([]int64(nil), e.indptr...)
	for _, end := range ends {
		e.indices[at[end[0]]] = end[1]
		at[end[0]]++
	}
	return e
}

// TestSecondCache: the model of a cache agrees with a list by hand, and with the estimate by which slices are
// chosen.
func TestSecondCache(t *testing.T) {
	c := newSecondCache(3, 4)
	for _, k := range []int32{1, 2, 3, 1, 4, 2, 1} { // 4 takes the place of 2, and 2 that of 3
		c.use(k, 1)
	}
	assert.Equal(t, 5, c.missed)
	assert.Equal(t, 0, c.free)

	const vertices, row, cache = 20_000, 1024, 5_000_000
	e := randomEdges(vertices, 150_000, false)
	g := gathering{edges: len(e.indices), rows: vertices, sources: vertices, row: row}
	for _, slice := range []int{row, 512, 128} {
		want, _ := g.passing(slice, cache)
		got := e.memoryTraffic(row, slice, cache, 16) - vertices*row // without the results, which are written
		assert.Near(t, 1, float64(got)/want, .15, slice)
	}
}

// BenchmarkSecondCache prints the bytes that an aggregation moves between memory and second-level cache on an
// H100, by the model, as rows of docs/performance.md. Each row ends with the slice that kernels would take.
func BenchmarkSecondCache(b *testing.B) {
	const cache, processors, blocks = 50_000_000, 132, 2
	for range b.N {
		for _, c := range []struct {
			name            string
			vertices, edges int
			row             int // bytes
			share           int // vertices, edges and the card are divided by it, and nothing else
		}{
			{"ogbn-arxiv, 256", 169_343, 1_166_243, 1024, 1},
			{"ogbn-arxiv, 256 of bf16", 169_343, 1_166_243, 512, 1},
			{"Reddit, 256", 232_965, 57_307_946, 1024, 4},
			{"Reddit, 608", 232_965, 57_307_946, 2432, 4},
			{"scale 20, 256", 1 << 20, 16 << 20, 1024, 4},
		} {
			for _, skewed := range []bool{false, true} {
				e := randomEdges(c.vertices/c.share, c.edges/c.share, skewed)
				g := gathering{edges: len(e.indices), rows: c.vertices, sources: c.vertices / c.share, row: c.row}
				slice := g.slice(int64(cache / c.share))
				move := func(slice int) float64 {
					return 1e-9 * float64(c.share*e.memoryTraffic(c.row, slice, cache/c.share, processors*blocks/c.share))
				}
				whole, sliced := move(c.row), move(lineBytes)
				fmt.Printf("| %s | %v | %.2f | %.2f | %.1f | %v |\n", c.name, skewed, whole, sliced, whole/sliced, slice)
			}
		}
	}
}
