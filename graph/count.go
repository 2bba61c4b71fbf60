package graph

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"

	"weft/internal/cores"
)

// counts is what one pass over the edges of a relation finds.
type counts struct {
	loops      int64 // edges from a vertex to itself
	duplicates int64 // edges beyond the first between the same two vertices
	outDegree  []int64
	symmetric  bool // reversing every edge gives the same edges
}

const (
	countedEdges  = 1 << 24 // after so many edges, the pages of mapped files are given back
	countedRanges = 4       // ranges of sources for each core, as some have more edges than others
)

// edgeCounter counts the edges of a relation. Each core takes the edges from one range of sources after the
// other. These stand together in each row, as rows ascend, and so do the places in which the core counts.
//
// A relation with the V×V matrix A of edge counts is symmetric if A equals its transpose. As in Freivalds'
// test (Probabilistic machines can use less running time, 1977), two random vectors x and y tell that without
// a transpose: the sum of y_v x_u − x_v y_u over the edges (u, v) is yᵀ(A−Aᵀ)x, which is 0 if A is symmetric.
// The vectors are drawn anew each time from the numbers modulo the prime 2^61−1, so that for any other A the
// sum is 0 with a probability below 2^−59.
type edgeCounter struct {
	r      *Relation
	within bool // the ends are of one vertex type
	test   bool // test whether it is symmetric
	counts
	drawn []drawn // by vertex, if symmetry is tested
}

// drawn is an element of each of the two random vectors.
type drawn struct{ x, y uint64 }

const prime = 1<<61 - 1 // a Mersenne prime

// reduced returns a number below 2^122 modulo the prime.
func reduced(hi, lo uint64) uint64 {
	sum := lo&prime + (hi<<3 | lo>>61)
	sum = sum&prime + sum>>61
	if sum >= prime {
		sum -= prime
	}
	return sum
}

// count counts the edges of a relation from so many sources, within one vertex type or between two. It calls
// tell now and then with the number of edges so far.
func (g *Graph) count(r *Relation, within bool, sources int, tell func(edges int64)) (*counts, error) {
	c := &edgeCounter{
		r: r, within: within, test: within && !r.Symmetric,
		counts: counts{outDegree: make([]int64, sources)},
	}
	if c.test {
		c.drawn = make([]drawn, sources)
		for v := range c.drawn {
			c.drawn[v] = drawn{rand.Uint64N(prime), rand.Uint64N(prime)}
		}
	}
	sum := uint64(0)
	for from := 0; from < r.rows(); {
		end := r.Indptr[from] + countedEdges
		to := max(from+1, sort.Search(r.rows(), func(v int) bool { return r.Indptr[v+1] > end }))
		some, err := c.rows(g, from, to)
		if err != nil {
			return nil, err
		}
		sum = reduced(0, sum+some)
		g.Unload()
		from = to
		tell(r.Indptr[from])
	}
	c.symmetric = within && sum == 0 // the sum is also 0 if symmetry was known
	return &c.counts, nil
}

// rows counts the edges of the rows from … to−1. It returns their part of the sum that tells symmetry.
func (c *edgeCounter) rows(g *Graph, from, to int) (sum uint64, err error) {
	ranges, sources := countedRanges*cores.Count(), len(c.outDegree)
	errs := make([]error, cores.Count())
	var taken atomic.Int64
	var mu sync.Mutex
	var wait sync.WaitGroup
	for core := range errs {
		wait.Go(func() {
			errs[core] = g.Guard(func() error {
				for k := int(taken.Add(1)) - 1; k < ranges; k = int(taken.Add(1)) - 1 {
					some := c.part(from, to, int32(sources*k/ranges), int32(sources*(k+1)/ranges))
					mu.Lock()
					c.loops += some.loops
					c.duplicates += some.duplicates
					sum = reduced(0, sum+some.sum)
					mu.Unlock()
				}
				return nil
			})
		})
	}
	wait.Wait()
	return sum, errors.Join(errs...)
}

// counted is what the edges of some rows from a range of sources add to the counts.
type counted struct {
	loops, duplicates int64
	sum               uint64 // modulo the prime
}

// part counts the edges of the rows from … to−1 from the sources lo … hi−1.
func (c *edgeCounter) part(from, to int, lo, hi int32) (some counted) {
	r := c.r
	for v := from; v < to; v++ {
		row := r.Sources[r.Indptr[v]:r.Indptr[v+1]]
		if lo > 0 {
			row = row[sort.Search(len(row), func(k int) bool { return row[k] >= lo }):]
		}
		c.row(&some, v, row, hi)
	}
	return some
}

// row counts the edges into v from sources below hi. Loops and symmetry are for a relation within one vertex
// type.
func (c *edgeCounter) row(some *counted, v int, row []int32, hi int32) {
	var x, xs, y, ys, carry uint64 // sums of two words, as a row may have any number of edges
	within, before := c.within, int32(-1)
	for _, u := range row {
		if u >= hi {
			break
		}
		if u == before {
			some.duplicates++
		}
		before = u
		c.outDegree[u]++
		if !within {
			continue
		}
		if int(u) == v {
			some.loops++
		}
		if !c.test {
			continue
		}
		d := &c.drawn[u]
		x, carry = bits.Add64(x, d.x, 0)
		xs += carry
		y, carry = bits.Add64(y, d.y, 0)
		ys += carry
	}
	if !c.test {
		return
	}
	d := &c.drawn[v]
	plus := reduced(bits.Mul64(d.y, reduced(xs, x)))
	minus := reduced(bits.Mul64(d.x, reduced(ys, y)))
	some.sum = reduced(0, some.sum+plus+prime-minus)
}
