package tp

import (
	"slices"
	"sort"

	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

const (
	// maxChunks bounds the number of chunks that chunksFor chooses; on a card, messagesOnCard does.
	maxChunks = 16
	// minChunkRows is the smallest mean number of rows that each worker has in such a chunk, so that messages
	// stay large.
	minChunkRows = 1024
	// linkBytes and gatherBytes are rates, in bytes per second, that chunksFor assumes: for a network link of
	// 1 Gbit/s, and for a thread that reads rows along edges.
	linkBytes   = 125e6
	gatherBytes = 30e9
	// leastHidden is the smallest fraction of the time that several chunks must hide to be chosen.
	leastHidden = .2
)

// chunksFor chooses the number of chunks for an aggregation of so many columns, the same on every worker. The
// columns decide only whether there is one chunk or several, so one schedule serves all numbers of columns.
//
// One chunk takes the time of its communication plus the time of its computation. Several chunks take about
// the longer of the two, plus the other's time for the first and the last chunk: they hide the shorter. If
// they would hide little, one chunk is faster: its messages are larger, and go in one direction at a time.
// One chunk is also faster if the kernel divides the matrix into tiles that fit a cache. It does not do so
// for chunks, which then take 1.5 to 2 times as long to compute. Only a slow link could hide that, and beside
// a slow link the computation is short.
func (a *Axis) chunksFor(matrix *kernel.CSR, columns int) int {
	workers := a.comm.Size()
	if a.chunks > 0 {
		return a.chunks
	}
	if a.team.Tiles(matrix, (columns+workers-1)/workers, a.team.Storage) {
		return 1
	}
	others := float64(workers-1) / float64(workers)
	communication := others * float64(matrix.Rows+matrix.Cols) / linkBytes // per byte of a column
	computation := float64(matrix.Entries()) / gatherBytes
	if min(communication, computation) < leastHidden*(communication+computation) {
		return 1
	}
	most := maxChunks
	if a.team.Memory.OnDevice() {
		most = messagesOnCard
	}
	return min(int(a.largerBy*float64(matrix.Rows))/(workers*minChunkRows), most)
}

// schedule is the order in which workers send the rows that an aggregation along one direction reads. Each
// row is sent once, with the first chunk that reads it.
type schedule struct {
	from, to  *vertexRows // the rows that are read, and the rows that are computed
	chunks    []rows
	sendOrder []*tensor.Matrix // Int32, 1 × n: each worker's rows in the order in which it sends them
	offsets   [][]int          // offsets[q][j]: how many rows worker q sends before chunk j; len chunks+1
	// results[q][j] are the rows of worker q that chunk j computes, as numbers among its own rows.
	results [][]rows
	// ownOrder (Int32, 1 × n) lists this worker's rows in the order in which it sends them, as numbers among
	// its own rows. nil: ascending order.
	ownOrder *tensor.Matrix
}

// newOneChunk returns the schedule of one chunk.
func newOneChunk(from, to *vertexRows) *schedule {
	s := &schedule{from: from, to: to, chunks: []rows{{0, to.all.Here}}, sendOrder: from.rowsOf}
	for q, list := range from.rowsOf {
		s.offsets, s.results = append(s.offsets, []int{0, list.Cols}),
			append(s.results, []rows{{0, to.rowsOf[q].Cols}})
	}
	return s
}

// direction is a relation's direction, with the forward or the backward pass along it.
type direction struct {
	along gnn.Along
	pass  pass
}

// pass is the forward or the backward pass.
type pass bool

const (
	forward  pass = false
	backward pass = true
)

// schedule returns the schedule of an aggregation of so many columns. In the backward pass the chunks are in
// reverse order.
func (a *Axis) schedule(d direction, columns int) *schedule {
	source, target := a.inner.Ends(d.along)
	e, err := a.inner.Edges(d.along)
	exchange.Must(err)
	matrix := e.Local().In
	from := a.types[source]
	to := a.types[target]
	if d.pass == backward {
		matrix, from, to = e.Local().Out, to, from
	}
	n := min(a.chunksFor(matrix, columns), matrix.Rows)
	if n <= 1 {
		return newOneChunk(from, to)
	}
	if a.schedules[d] == nil {
		a.schedules[d] = a.newSchedule(matrix, from, to, n, d.pass)
	}
	return a.schedules[d]
}

// newSchedule makes a schedule of n chunks.
func (a *Axis) newSchedule(matrix *kernel.CSR, from, to *vertexRows, n int, phase pass) *schedule {
	s := &schedule{
		from: from, to: to, chunks: chunksOf(matrix, n),
		ownOrder: a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, from.own.Here),
	}
	if phase == backward {
		slices.Reverse(s.chunks)
	}
	for _, list := range from.rowsOf {
		s.sendOrder = append(s.sendOrder, a.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, list.Cols))
	}
	s.offsets, s.results = make([][]int, len(from.rowsOf)), make([][]rows, len(to.rowsOf))
	var first []int32
	a.team.Serial(func() { first = firstReaders(matrix, s.chunks, from == to) })
	own := s.ownOrder.WriteInt32s()
	for q, list := range from.rowsOf {
		s.offsets[q] = make([]int, n+1)
		read, computed, order := list.ReadInt32s(), to.rowsOf[q].ReadInt32s(), s.sendOrder[q].WriteInt32s()
		for _, row := range read {
			s.offsets[q][first[row]+1]++
		}
		if len(read) < list.Cols { // a plan knows no sources, and sends equally many with each chunk
			for j, c := range evenly(list.Cols, n) {
				s.offsets[q][j+1] = c.hi - c.lo
			}
		}
		for j := range n {
			s.offsets[q][j+1] += s.offsets[q][j]
		}
		next := slices.Clone(s.offsets[q])
		for number, row := range read {
			at := &next[first[row]]
			order[*at] = row
			if q == a.comm.Rank() {
				own[*at] = int32(number)
			}
			*at++
		}
		s.results[q] = evenly(to.rowsOf[q].Cols, n) // in a plan
		a.team.Serial(func() {
			for j, c := range s.chunks {
				s.results[q][j].lo, _ = slices.BinarySearch(computed, int32(c.lo))
				s.results[q][j].hi, _ = slices.BinarySearch(computed, int32(c.hi))
			}
		})
	}
	return s
}

// evenly divides so many rows into n chunks.
func evenly(all, n int) (list []rows) {
	for j := range n {
		list = append(list, rows{all * j / n, all * (j + 1) / n})
	}
	return list
}

// chunksOf divides the rows into n chunks of about equal work, or of equal numbers of rows in a plan.
func chunksOf(a *kernel.CSR, n int) (list []rows) {
	work := func(row int) int { return row }
	if indptr := a.Indptr.ReadInt64s(); len(indptr) > 0 {
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

// firstReaders returns, for each row, the first chunk that reads it as a source. If sources and targets are
// of one vertex type, a chunk also reads its own rows. A row that no chunk reads counts as the last chunk's.
func firstReaders(a *kernel.CSR, chunks []rows, oneType bool) []int32 {
	first := make([]int32, a.Cols)
	for row := range first {
		first[row] = -1
	}
	indptr := a.Indptr.ReadInt64s()
	sources := a.Indices.ReadInt32s()
	for j, c := range chunks {
		read := func(row int32) {
			if first[row] < 0 {
				first[row] = int32(j)
			}
		}
		for row := c.lo; row < c.hi; row++ {
			if oneType {
				read(int32(row))
			}
			for _, source := range sources[indptr[row]:indptr[row+1]] {
				read(source)
			}
		}
	}
	for row, j := range first {
		if j < 0 {
			first[row] = int32(len(chunks) - 1)
		}
	}
	return first
}
