package tensor

import (
	"slices"
	"sort"

	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/partition"
	"weft/tensor"
)

const (
	// mostChunks bounds how often a pass over the edges is interrupted, and rowsOfChunk, for each worker, how
	// small messages get.
	mostChunks  = 16
	rowsOfChunk = 1024
	// edgesOfRow is, on average, where the work on a row is worth hiding behind its messages. Below, these
	// take longer by being smaller and going both ways at once than the work does.
	edgesOfRow = 64
)

// chunksFor is how many chunks suit a partition.
func chunksFor(e *partition.Edges, workers int) int {
	edges := 0
	for _, r := range e.Relations {
		edges += len(r.In.Sources)
	}
	if edges < edgesOfRow*e.Rows {
		return 1
	}
	return min(e.Rows/(workers*rowsOfChunk), mostChunks)
}

// schedule is the order in which an aggregation in one direction of the edges takes in the rows that it
// reads: chunk after chunk of consecutive rows of its result, with each chunk the rows that no chunk before
// needs. So each row travels once, and what a chunk needs has come with it or before.
type schedule struct {
	chunks []chunk
	order  []*tensor.Matrix // Int32, 1 × n: each worker's rows in the order in which they travel
	come   [][]int          // of each worker: how many of its rows have come before chunk j; len chunks+1
	done   [][]chunk        // of each worker: which of its rows, by their number, are those of chunk j
	places *tensor.Matrix   // Int32, 1 × n: the places of the worker's own rows among these, in the order of travel
}

// chunk is some rows of a result.
type chunk struct{ lo, hi int }

// direction is one that an aggregation goes in.
type direction struct {
	along    gnn.Along
	backward pass
}

// pass tells the two from each other.
type pass bool

const (
	forward  pass = false
	backward pass = true
)

// schedule is that of a direction. Backward the chunks come in reverse.
func (a *Axis) schedule(d direction) *schedule {
	if a.schedules[d] == nil {
		e, err := a.inner.Edges(d.along)
		exchange.Must(err)
		matrix := e.Local().In
		if d.backward {
			matrix = e.Local().Out
		}
		a.schedules[d] = a.newSchedule(matrix, d.backward)
	}
	return a.schedules[d]
}

func (a *Axis) newSchedule(matrix *kernel.CSR, way pass) *schedule {
	s := &schedule{chunks: chunksOf(matrix, max(1, min(a.chunks, matrix.Rows)), a.team)}
	if way == backward {
		slices.Reverse(s.chunks)
	}
	for _, rows := range a.rows {
		s.order = append(s.order, a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, rows.Cols))
	}
	s.places = a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, a.own.Here)
	s.come, s.done = make([][]int, len(a.rows)), make([][]chunk, len(a.rows))
	if a.team.Planning() {
		for q, rows := range a.rows { // all with the first chunk: what is sent is the same
			s.come[q], s.done[q] = make([]int, len(s.chunks)+1), make([]chunk, len(s.chunks))
			for j := range s.chunks {
				s.come[q][j+1] = rows.Cols
			}
			s.done[q][0].hi = rows.Cols
		}
		return s
	}
	with := firstNeeds(matrix, s.chunks)
	for q, rows := range a.rows {
		s.come[q] = make([]int, len(s.chunks)+1)
		for _, row := range rows.Int32s() {
			s.come[q][with[row]+1]++
		}
		for j := range s.chunks {
			s.come[q][j+1] += s.come[q][j]
		}
		next := slices.Clone(s.come[q])
		for place, row := range rows.Int32s() {
			at := &next[with[row]]
			s.order[q].Int32s()[*at] = row
			if q == a.comm.Rank() {
				s.places.Int32s()[*at] = int32(place)
			}
			*at++
		}
		for _, c := range s.chunks {
			lo, _ := slices.BinarySearch(rows.Int32s(), int32(c.lo))
			hi, _ := slices.BinarySearch(rows.Int32s(), int32(c.hi))
			s.done[q] = append(s.done[q], chunk{lo, hi})
		}
	}
	return s
}

// chunksOf are n chunks of about equal work; where the team only plans, of equal numbers of rows.
func chunksOf(a *kernel.CSR, n int, team *kernel.Team) (list []chunk) {
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
		list = append(list, chunk{lo, hi})
		lo = hi
	}
	return list
}

// firstNeeds are, for each row, the first chunk that needs it: as a source, or as its own.
func firstNeeds(a *kernel.CSR, chunks []chunk) []int32 {
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
