package generate

import (
	"math/bits"
	"os"
	"slices"
	"sync"

	"weft/graph"
	"weft/internal/cores"
	"weft/internal/memory"
)

// edgeBudget returns the largest size of the edges in memory, in bytes: half of the memory that Go's runtime
// may still allocate, and at most 1 GiB. With more edges, run makes several passes, each for the edges into
// one range of targets. The graph does not depend on the budget.
func edgeBudget() int64 { return min(1<<30, memory.Left()/2) }

const (
	maxBucketEdges    = 1 << 17 // mean number of edges in a bucket, which is sorted in the cache
	maxBucketVertices = 1 << 20
	maxNarrowBuckets  = 1 << 15 // wide edges are filled faster than more buckets than this
	maxWorkers        = 16      // each has a counter for each bucket
	batchEdges        = 1 << 10 // edges that are drawn at a time
)

// key is an edge in memory: the target's place in its bucket, and below it the source. Narrow keys take half
// the memory. They suffice where the buckets are small enough for the number of vertices.
type key interface{ uint32 | uint64 }

// rowMaker makes in-neighbour lists of random edges, by a parallel bucket sort. A bucket is 2^shift
// consecutive targets. The workers first draw all edges to count the edges into each bucket. A pass then
// draws them again, and each worker stores its edges at positions of its own, without a lock. One worker
// sorts a bucket, while others are emitted. Equal edges are the same number, so the lists do not depend on
// the order in which workers store them.
//
// If there are several passes, all edges are drawn once more, into a file (spill.go). Without a file, or room
// for it on the disk, each pass draws all edges and stores its own.
type rowMaker struct {
	edges    edgeFunc
	draws    uint64 // number of edges to draw
	both     bool   // store each edge in both directions
	vertices int
	budget   int64 // in bytes, as edgeBudget gives it
	shift    uint
	narrow   bool      // keys of 32 bits
	counts   [][]int64 // worker → bucket → how many edges the worker finds
	progress graph.Progress
	scratch  func() (*os.File, error) // makes the file for edges of several passes; nil: there is none
}

// emitFunc receives the rows of consecutive vertices, which are valid until it returns.
type emitFunc = func(*graph.Relation) error

// run draws the edges and emits all rows in order.
func (m *rowMaker) run(emit emitFunc) error {
	m.chooseBuckets()
	m.count()
	if m.narrow {
		return runPasses[uint32](m, emit)
	}
	return runPasses[uint64](m, emit)
}

func runPasses[K key](m *rowMaker, emit emitFunc) error {
	size := make([]int64, len(m.counts[0]))
	for _, counts := range m.counts {
		for b, n := range counts {
			size[b] += n
		}
	}
	passes, most := m.passes(size)
	made, drawings := int64(0), len(passes)
	again := func(_ int, visitor visitor, tell func(drawn int64)) error {
		m.each(visitor, tell)
		return nil
	}
	if len(passes) > 1 && m.scratch != nil {
		file, err := m.scratch()
		if err != nil {
			return err
		}
		defer file.Close()
		if from, err := m.spill(passes, file); err == nil {
			again, drawings = from, 1
		} else if err := file.Truncate(0); err != nil { // each pass then draws the edges again
			return err
		}
	}
	buffer := make([]K, most)
	first := 0
	for n, p := range passes {
		keys := buffer[:p.edges]
		tell := func(drawn int64) { m.tell(int64(min(n, drawings-1))*int64(m.draws)+drawn, drawings, made) }
		err := fill(m, keys, first, p.end, func(v visitor) error { return again(n, v, tell) })
		if err != nil {
			return err
		}
		err = emitSorted(m, keys, size[first:p.end], first, func(rows *graph.Relation) error {
			made += int64(len(rows.Sources))
			tell(int64(m.draws))
			return emit(rows)
		})
		if err != nil {
			return err
		}
		first = p.end
	}
	return nil
}

// spill writes the edges of all passes to a file. It returns the function that reads the edges of one pass.
// Keys are narrow if that suffices for each pass.
func (m *rowMaker) spill(passes []pass,
	file *os.File,
) (func(n int, v visitor, tell func(drawn int64)) error, error) {
	most, first := 0, 0 // buckets of a pass
	for _, p := range passes {
		most, first = max(most, p.end-first), p.end
	}
	if uint64(most)<<(m.shift+m.sourceBits()) <= 1<<32 {
		return spillAs[uint32](m, passes, file)
	}
	return spillAs[uint64](m, passes, file)
}

func spillAs[K key](m *rowMaker, passes []pass,
	file *os.File,
) (func(n int, v visitor, tell func(drawn int64)) error, error) {
	s, err := spill[K](m, passes, file, func(drawn int64) { m.tell(drawn, 1, 0) })
	if err != nil {
		return nil, err
	}
	return func(n int, v visitor, _ func(drawn int64)) error { return s.each(n, v) }, nil
}

// stored returns the number of edges that the draws make.
func (m *rowMaker) stored() int64 {
	if m.both {
		return 2 * int64(m.draws)
	}
	return int64(m.draws)
}

// tell shows the share of the work that is done when drawn edges were drawn, in passes passes, and made were
// stored.
func (m *rowMaker) tell(drawn int64, passes int, made int64) {
	stored := m.stored()
	done := float64(drawn+made) / (float64(passes)*float64(m.draws) + float64(stored))
	m.progress.Report("making edges", int64(done*float64(stored)), stored)
}

// pass stores the edges into consecutive buckets, from the end of the previous pass to end.
type pass struct {
	end   int
	edges int64
}

// passes divides the buckets into passes. size has the number of edges of each bucket. The edges of a pass
// fit the budget, unless it has a single bucket. most is the number of edges of the largest pass.
func (m *rowMaker) passes(size []int64) (passes []pass, most int64) {
	for b, n := range size {
		last := len(passes) - 1
		if last < 0 || (passes[last].edges+n)*m.keyBytes() > m.budget {
			passes = append(passes, pass{})
			last++
		}
		passes[last] = pass{b + 1, passes[last].edges + n}
		most = max(most, passes[last].edges)
	}
	return passes, most
}

func (m *rowMaker) keyBytes() int64 {
	if m.narrow {
		return 4
	}
	return 8
}

// sourceBits returns the number of bits of a source in a key.
func (m *rowMaker) sourceBits() uint { return uint(bits.Len(uint(m.vertices - 1))) }

// chooseBuckets chooses the largest buckets whose edges, on average, can be sorted in the cache, and of which
// several fit the budget.
func (m *rowMaker) chooseBuckets() {
	stored := m.stored()
	workers := min(cores.Count(), maxWorkers)
	limit := min(maxBucketEdges, max(1, m.budget/int64(16*workers)))
	perVertex := float64(stored) / float64(m.vertices)
	m.shift = 0
	for size := 2; size <= maxBucketVertices && size < 2*m.vertices &&
		float64(size)*perVertex <= float64(limit); size *= 2 {
		m.shift++
	}
	if fits := 32 - int(m.sourceBits()); m.vertices>>fits <= maxNarrowBuckets {
		m.narrow, m.shift = true, min(m.shift, uint(fits))
	}
	m.counts = make([][]int64, workers)
	for w := range m.counts {
		m.counts[w] = make([]int64, (m.vertices-1)>>m.shift+1)
	}
}

// visitor returns the function that a worker calls with a batch of edges at a time.
type visitor func(worker int) func(source, target []uint32)

// each draws all edges in parallel. Each worker calls the function that visitor returns for it. tell is
// called now and then with the number of edges drawn.
func (m *rowMaker) each(visitor visitor, tell func(drawn int64)) {
	const between = 1 << 20 // draws of the worker that tells for all
	workers := len(m.counts)
	var wait sync.WaitGroup
	for w := range workers {
		first, end := m.draws*uint64(w)/uint64(workers), m.draws*uint64(w+1)/uint64(workers)
		visit := visitor(w)
		wait.Go(func() {
			var source, target [batchEdges]uint32
			for i := first; i < end; i += batchEdges {
				n := min(batchEdges, end-i)
				m.edges(i, source[:n], target[:n])
				visit(source[:n], target[:n])
				if m.both {
					visit(target[:n], source[:n])
				}
				if w == 0 && (i-first)%between == 0 {
					tell(int64(i-first) * int64(workers))
				}
			}
		})
	}
	wait.Wait()
}

func (m *rowMaker) count() {
	m.each(func(worker int) func(source, target []uint32) {
		counts, shift := m.counts[worker], m.shift
		return func(_, target []uint32) {
			for _, t := range target {
				counts[t>>shift]++
			}
		}
	}, func(drawn int64) { m.progress.Report("counting edges", drawn, int64(m.draws)) })
}

// fill stores the edges into buckets first … last−1, grouped by bucket. each gives it these edges, or all
// edges, as rowMaker.each does.
func fill[K key](m *rowMaker, keys []K, first, last int, each func(visitor) error) error {
	next := make([][]int64, len(m.counts)) // worker → bucket − first → position of its next edge
	for w := range next {
		next[w] = make([]int64, last-first)
	}
	var position int64
	for b := first; b < last; b++ {
		for w := range next {
			next[w][b-first] = position
			position += m.counts[w][b]
		}
	}
	return each(func(worker int) func(source, target []uint32) {
		next := next[worker]
		shift := m.shift
		sourceBits := m.sourceBits()
		within := K(1)<<shift - 1
		return func(source, target []uint32) {
			for i, t := range target[:len(source)] {
				b := uint(t>>shift) - uint(first) // wraps around below first
				if b < uint(len(next)) {
					keys[next[b]] = K(t)&within<<sourceBits | K(source[i])
					next[b]++
				}
			}
		}
	})
}

// rows are the rows of a bucket. Their slices are used again.
type rows[K key] struct {
	graph.Relation
	scratch []K
}

// emitSorted emits the rows of consecutive buckets, bucket by bucket. The buckets follow each other in keys.
// All cores sort buckets ahead of the one that is emitted.
func emitSorted[K key](m *rowMaker, keys []K, size []int64, first int, emit emitFunc) error {
	start := make([]int64, len(size)+1)
	for b, n := range size {
		start[b+1] = start[b] + n
	}
	pool := sync.Pool{New: func() any { return new(rows[K]) }}
	return cores.InOrder(len(size), func(b int) *rows[K] {
		r := pool.Get().(*rows[K])
		low := (first + b) << m.shift
		r.list(keys[start[b]:start[b+1]], min(1<<m.shift, m.vertices-low), m.shift, m.sourceBits())
		return r
	}, func(_ int, r *rows[K]) error {
		defer pool.Put(r)
		return emit(&r.Relation)
	})
}

// list sorts the keys of a bucket of so many vertices and lists their rows. It overwrites the keys.
func (r *rows[K]) list(keys []K, vertices int, shift, sourceBits uint) {
	r.scratch = slices.Grow(r.scratch[:0], len(keys))[:len(keys)]
	r.Sources = slices.Grow(r.Sources[:0], len(keys))[:len(keys)]
	r.Indptr = slices.Grow(r.Indptr[:0], vertices+1)[:vertices+1]
	clear(r.Indptr)
	source := K(1)<<sourceBits - 1
	for k, key := range sorted(keys, r.scratch, shift+sourceBits) {
		r.Indptr[key>>sourceBits+1]++
		r.Sources[k] = int32(key & source)
	}
	for v := range vertices {
		r.Indptr[v+1] += r.Indptr[v]
	}
}

// sorted sorts keys of that many bits by their digits, the lowest first. It uses both slices, which are
// equally long, and returns the one that has the result.
func sorted[K key](keys, scratch []K, width uint) []K {
	const few, most = 256, 11 // fewer keys are sorted faster by comparing; bits of a digit
	if len(keys) < few {
		slices.Sort(keys)
		return keys
	}
	digits := (width + most - 1) / most
	each := (width + digits - 1) / digits
	mask := K(1)<<each - 1
	for low := uint(0); low < width; low += each {
		var next [1 << most]int
		for _, key := range keys {
			next[key>>low&mask]++
		}
		at := 0
		for d, n := range next[:mask+1] {
			next[d] = at
			at += n
		}
		for _, key := range keys {
			d := key >> low & mask
			scratch[next[d]] = key
			next[d]++
		}
		keys, scratch = scratch, keys
	}
	return keys
}
