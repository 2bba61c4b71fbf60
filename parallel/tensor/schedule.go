package tensor

import (
	"slices"
	"sort"

	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

const (
	// mostChunks bounds how often a pass over the edges is interrupted, and rowsOfChunk, for each worker, how
	// small messages get.
	mostChunks  = 16
	rowsOfChunk = 1024
	// linkBytes and gatherBytes are what chunksFor takes a link to carry in a second, 1 Gbit/s, and a thread
	// to gather.
	linkBytes   = 125e6
	gatherBytes = 30e9
	// leastHidden is the part of a flow that chunks have to hide.
	leastHidden = .2
)

// chunksFor is how many chunks suit a flow of so many columns through a matrix, on every worker.
//
// In chunks it takes about the longer of its communication and its computation, besides a first and a last
// chunk's share of the other, and at once their sum: the shorter is hidden. Where that is little, messages
// that are smaller and go both ways at once cost more. And all rows at once may be gathered from parts that
// a cache holds: chunks then take half as long again or twice as long, which only a slow link hides, beside
// which it is little.
func (a *Axis) chunksFor(matrix *kernel.CSR, columns int) int {
	workers := a.comm.Size()
	if a.chunks > 0 {
		return a.chunks
	}
	if a.team.Cuts(matrix, (columns+workers-1)/workers) {
		return 1
	}
	others := float64(workers-1) / float64(workers)
	communication := 2 * others * float64(matrix.Rows) / linkBytes // for each column of a slice, and element
	computation := float64(matrix.Entries()) / gatherBytes
	if min(communication, computation) < leastHidden*(communication+computation) {
		return 1
	}
	return min(matrix.Rows/(workers*rowsOfChunk), mostChunks)
}

// schedule is the order in which an aggregation in one direction of the edges takes in the rows that it
// reads: chunk after chunk of consecutive rows of its result, with each chunk the rows that no chunk before
// needs. So each row travels once, and what a chunk needs has come with it or before.
type schedule struct {
	chunks []rows
	travel []*tensor.Matrix // Int32, 1 × n: each worker's rows in the order in which they travel
	come   [][]int          // of each worker: how many of its rows have come before chunk j; len chunks+1
	parts  [][]rows         // of each worker: which of its rows, by their number, are those of chunk j
	// mine (Int32, 1 × n) are the numbers of the worker's own rows in the order in which they travel; nil: in
	// their own.
	mine *tensor.Matrix
}

// inOneChunk is the schedule of rows that all travel at once.
func (a *Axis) inOneChunk() *schedule {
	s := &schedule{chunks: []rows{{0, a.all.Here}}, travel: a.rowsOf}
	for _, list := range a.rowsOf {
		s.come, s.parts = append(s.come, []int{0, list.Cols}), append(s.parts, []rows{{0, list.Cols}})
	}
	return s
}

// direction is one that an aggregation goes in.
type direction struct {
	along gnn.Along
	way   pass
}

// pass tells the two from each other.
type pass bool

const (
	forward  pass = false
	backward pass = true
)

// schedule is that of a flow of so many columns. Backward the chunks come in reverse.
func (a *Axis) schedule(d direction, columns int) *schedule {
	e, err := a.inner.Edges(d.along)
	exchange.Must(err)
	matrix := e.Local().In
	if d.way == backward {
		matrix = e.Local().Out
	}
	n := min(a.chunksFor(matrix, columns), matrix.Rows)
	if n <= 1 {
		return a.atOnce
	}
	if a.schedules[d] == nil {
		a.schedules[d] = a.newSchedule(matrix, n, d.way)
	}
	return a.schedules[d]
}

// newSchedule is one of n chunks.
func (a *Axis) newSchedule(matrix *kernel.CSR, n int, way pass) *schedule {
	s := &schedule{chunks: chunksOf(matrix, n, a.team), mine: a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, a.own.Here)}
	if way == backward {
		slices.Reverse(s.chunks)
	}
	for _, list := range a.rowsOf {
		s.travel = append(s.travel, a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, list.Cols))
	}
	s.come, s.parts = make([][]int, len(a.rowsOf)), make([][]rows, len(a.rowsOf))
	if a.team.Planning() {
		for q, list := range a.rowsOf { // all with the first chunk: what is sent is the same
			s.come[q], s.parts[q] = make([]int, n+1), make([]rows, n)
			for j := range n {
				s.come[q][j+1] = list.Cols
			}
			s.parts[q][0].hi = list.Cols
		}
		return s
	}
	with := firstNeeds(matrix, s.chunks)
	for q, list := range a.rowsOf {
		s.come[q] = make([]int, n+1)
		for _, row := range list.Int32s() {
			s.come[q][with[row]+1]++
		}
		for j := range n {
			s.come[q][j+1] += s.come[q][j]
		}
		next := slices.Clone(s.come[q])
		for number, row := range list.Int32s() {
			at := &next[with[row]]
			s.travel[q].Int32s()[*at] = row
			if q == a.comm.Rank() {
				s.mine.Int32s()[*at] = int32(number)
			}
			*at++
		}
		for _, c := range s.chunks {
			lo, _ := slices.BinarySearch(list.Int32s(), int32(c.lo))
			hi, _ := slices.BinarySearch(list.Int32s(), int32(c.hi))
			s.parts[q] = append(s.parts[q], rows{lo, hi})
		}
	}
	return s
}

// chunksOf are n chunks of about equal work; where the team only plans, of equal numbers of rows.
func chunksOf(a *kernel.CSR, n int, team *kernel.Team) (list []rows) {
	work := func(row int) int { return row }
	if !team.Planning() {
		indptr := a.Indptr.Int64s()
		work = func(row int) int { return row + int(indptr[row]) }
	}
	lo := 0
	for j := 1; j <= n; j++ {
		hi := a.Rows
		if j < n {
			hi = max(lo, sort.Search(a.Rows, func(row int) bool { return work(row) >= work(a.Rows)*j/n }))
		}
		list = append(list, rows{lo, hi})
		lo = hi
	}
	return list
}

// firstNeeds are, for each row, the first chunk that needs it: as a source, or as its own.
func firstNeeds(a *kernel.CSR, chunks []rows) []int32 {
	with := make([]int32, a.Cols)
	for row := range with {
		with[row] = -1
	}
	indptr, sources := a.Indptr.Int64s(), a.Indices.Int32s()
	for j, c := range chunks {
		need := func(row int32) {
			if with[row] < 0 {
				with[row] = int32(j)
			}
		}
		for row := c.lo; row < c.hi; row++ {
			need(int32(row))
			for _, source := range sources[indptr[row]:indptr[row+1]] {
				need(source)
			}
		}
	}
	return with
}
