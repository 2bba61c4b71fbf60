package generate

import (
	"slices"
	"sync"
	"sync/atomic"

	"weft/internal/cores"
	"weft/internal/memory"
)

// edgeBudget returns the largest size of the edges in memory, in bytes: half of the memory that Go's runtime
// may still allocate, and at most 1 GiB. With more edges, run makes several passes. Each draws all edges and
// stores those into one range of targets. The graph does not depend on the budget.
func edgeBudget() int64 { return min(1<<30, memory.Left()/2) }

const (
	edgeBytes         = 8       // an edge in memory is target<<32 | source
	maxBucketEdges    = 1 << 15 // mean number of edges in a bucket, which is sorted in the cache
	maxBucketVertices = 1 << 20
	maxWorkers        = 16 // each has a counter for each bucket
)

// rowMaker makes in-neighbour lists of random edges, by a parallel bucket sort. A bucket is 2^shift
// consecutive targets. The workers first draw all edges to count the edges into each bucket. A pass then
// draws them again, and each worker stores its edges at positions of its own, without a lock. One worker
// sorts a bucket. Equal edges are the same number, so the lists do not depend on the order in which workers
// store them.
type rowMaker struct {
	edge     edgeFunc
	draws    uint64 // number of edges to draw
	both     bool   // store each edge in both directions
	vertices int
	budget   int64 // in bytes, as edgeBudget gives it
	shift    uint
	counts   [][]int64 // worker → bucket → edges that the worker finds
}

// emitFunc receives the rows of consecutive vertices: the in-degree of each, and the sources of each,
// ascending. The slices are valid until it returns.
type emitFunc func(indegree, sources []int32) error

// run draws the edges and emits all rows in order.
func (m *rowMaker) run(emit emitFunc) error {
	m.chooseBuckets()
	m.count()
	buckets := len(m.counts[0])
	size := make([]int64, buckets)
	for _, counts := range m.counts {
		for b, n := range counts {
			size[b] += n
		}
	}
	passes, most := m.passes(size)
	buffer := make([]uint64, most)
	first := 0
	for _, p := range passes {
		edges := buffer[:p.edges]
		m.fill(edges, first, p.end)
		sortBuckets(edges, size[first:p.end])
		if err := m.emit(edges, size[first:p.end], first, emit); err != nil {
			return err
		}
		first = p.end
	}
	return nil
}

// pass stores the edges into consecutive buckets: from the end of the previous pass to end.
type pass struct {
	end   int
	edges int64
}

// passes divides the buckets into passes. size has the number of edges of each bucket. The edges of a pass
// fit the budget, unless it has a single bucket. most is the number of edges of the largest pass.
func (m *rowMaker) passes(size []int64) (passes []pass, most int64) {
	for b, n := range size {
		last := len(passes) - 1
		if last < 0 || (passes[last].edges+n)*edgeBytes > m.budget {
			passes = append(passes, pass{})
			last++
		}
		passes[last] = pass{b + 1, passes[last].edges + n}
		most = max(most, passes[last].edges)
	}
	return passes, most
}

// chooseBuckets chooses the largest buckets whose edges, on average, can be sorted in the cache, and of which
// several fit the budget.
func (m *rowMaker) chooseBuckets() {
	stored := int64(m.draws)
	if m.both {
		stored *= 2
	}
	limit := min(maxBucketEdges, max(1, m.budget/edgeBytes/4))
	perVertex := float64(stored) / float64(m.vertices)
	m.shift = 0
	for size := 2; size <= maxBucketVertices && size < 2*m.vertices && float64(size)*perVertex <= float64(limit); size *= 2 {
		m.shift++
	}
	workers := min(cores.Count(), maxWorkers)
	m.counts = make([][]int64, workers)
	for w := range m.counts {
		m.counts[w] = make([]int64, (m.vertices-1)>>m.shift+1)
	}
}

// each draws all edges in parallel. Each worker calls the function that visitor returns for it.
func (m *rowMaker) each(visitor func(worker int) func(source, target uint64)) {
	workers := len(m.counts)
	var wait sync.WaitGroup
	for w := range workers {
		first, end := m.draws*uint64(w)/uint64(workers), m.draws*uint64(w+1)/uint64(workers)
		visit := visitor(w)
		wait.Go(func() {
			for i := first; i < end; i++ {
				source, target := m.edge(i)
				visit(source, target)
				if m.both {
					visit(target, source)
				}
			}
		})
	}
	wait.Wait()
}

func (m *rowMaker) count() {
	m.each(func(worker int) func(source, target uint64) {
		counts, shift := m.counts[worker], m.shift
		return func(_, target uint64) { counts[target>>shift]++ }
	})
}

// fill draws all edges again and stores those into buckets first … last−1, grouped by bucket.
func (m *rowMaker) fill(edges []uint64, first, last int) {
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
	m.each(func(worker int) func(source, target uint64) {
		next, shift := next[worker], m.shift
		return func(source, target uint64) {
			b := target>>shift - uint64(first) // wraps around below first
			if b < uint64(len(next)) {
				edges[next[b]] = target<<32 | source
				next[b]++
			}
		}
	})
}

// sortBuckets sorts each bucket by target and source. The buckets follow each other in edges.
func sortBuckets(edges []uint64, size []int64) {
	start := make([]int64, len(size)+1)
	for b, n := range size {
		start[b+1] = start[b] + n
	}
	var taken atomic.Int64
	var wait sync.WaitGroup
	for range min(cores.Count(), len(size)) {
		wait.Go(func() {
			for {
				b := taken.Add(1) - 1
				if b >= int64(len(size)) {
					return
				}
				slices.Sort(edges[start[b]:start[b+1]])
			}
		})
	}
	wait.Wait()
}

// emit calls the function emit with the rows of sorted buckets, bucket by bucket.
func (m *rowMaker) emit(edges []uint64, size []int64, first int, emit emitFunc) error {
	indegree := make([]int32, 1<<m.shift)
	var sources []int32
	for b, n := range size {
		low := (first + b) << m.shift
		indegree := indegree[:min(1<<m.shift, m.vertices-low)]
		clear(indegree)
		sources = sources[:0]
		for _, e := range edges[:n] {
			indegree[int(e>>32)-low]++
			sources = append(sources, int32(uint32(e)))
		}
		edges = edges[n:]
		if err := emit(indegree, sources); err != nil {
			return err
		}
	}
	return nil
}
