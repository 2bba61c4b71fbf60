package generate

import (
	"slices"
	"sync"
	"sync/atomic"

	"weft/internal/cores"
	"weft/internal/memory"
)

// edgeBudget is the memory for edges that wait for their row, in bytes: a half of what Go's runtime may still
// take, and 1 GiB at most. A graph with more edges is drawn in several passes, each of which keeps the edges
// into one range of targets. The graph does not depend on it.
func edgeBudget() int64 { return min(1<<30, memory.Left()/2) }

const (
	edgeBytes        = 8       // an edge waits as target<<32 | source
	maxBlockEdges    = 1 << 15 // mean edges of a block, sorted in the cache
	maxBlockVertices = 1 << 20
	maxWorkers       = 16 // each keeps a count for each block
)

// rowMaker turns drawn edges into in-neighbour lists. Targets are divided into blocks of 2^shift vertices: a
// first drawing counts the edges into each block, hence a pass knows where each worker puts its edges without
// a lock, and a block is sorted by one worker. Equal edges cannot be told apart, so the lists do not depend
// on who found an edge first.
type rowMaker struct {
	edge     edgeFunc
	draws    uint64 // edges drawn
	both     bool   // each is stored in both directions
	vertices int
	budget   int64 // in bytes, as edgeBudget gives it
	shift    uint
	counts   [][]int64 // worker → block → edges that the worker finds
}

// emit is given the rows of consecutive vertices: their in-degrees and their ascending sources. The slices
// are used again.
type emitFunc func(indegree, sources []int32) error

// run draws the edges and emits all rows in order.
func (m *rowMaker) run(emit emitFunc) error {
	m.chooseBlocks()
	m.count()
	blocks := len(m.counts[0])
	size := make([]int64, blocks)
	for _, counts := range m.counts {
		for b, n := range counts {
			size[b] += n
		}
	}
	passes, most := m.passes(size)
	room := make([]uint64, most)
	first := 0
	for _, p := range passes {
		edges := room[:p.edges]
		m.fill(edges, first, p.end)
		sortBlocks(edges, size[first:p.end])
		if err := m.emit(edges, size[first:p.end], first, emit); err != nil {
			return err
		}
		first = p.end
	}
	return nil
}

// pass keeps the edges into the blocks up to end, from where the pass before it ended.
type pass struct {
	end   int
	edges int64
}

// passes divides the blocks, of such sizes, among passes whose edges the budget holds, where single blocks
// do; most is the edges of the largest.
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

// chooseBlocks picks the largest blocks that hold few enough edges in the mean to be sorted in the cache and
// to leave the budget several blocks.
func (m *rowMaker) chooseBlocks() {
	stored := int64(m.draws)
	if m.both {
		stored *= 2
	}
	limit := min(maxBlockEdges, max(1, m.budget/edgeBytes/4))
	perVertex := float64(stored) / float64(m.vertices)
	m.shift = 0
	for size := 2; size <= maxBlockVertices && size < 2*m.vertices && float64(size)*perVertex <= float64(limit); size *= 2 {
		m.shift++
	}
	workers := min(cores.Count(), maxWorkers)
	m.counts = make([][]int64, workers)
	for w := range m.counts {
		m.counts[w] = make([]int64, (m.vertices-1)>>m.shift+1)
	}
}

// each draws the edges of every worker and calls the function that visitor made for it.
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

// fill draws all edges again and keeps those into the blocks first…last−1, grouped by block.
func (m *rowMaker) fill(edges []uint64, first, last int) {
	next := make([][]int64, len(m.counts)) // worker → block − first → where its next edge goes
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

// sortBlocks sorts each block by target and source. The blocks lie one after the other.
func sortBlocks(edges []uint64, size []int64) {
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

// emit hands on the rows of sorted blocks, block by block.
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
