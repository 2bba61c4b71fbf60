package edges

import (
	"slices"

	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

const (
	// MostMessages is the largest number of messages in which the rows of one partition travel. A worker
	// holds a few messages of others' rows at a time, which is less than one partition's rows.
	MostMessages = 6
	// leastMessage is the number of rows up to which rows travel in one message.
	leastMessage = 512
	// leastHeld is the same for rows that the worker itself holds. They are copied and not sent, and each
	// block costs kernel calls that are longer than the copy of few rows.
	leastHeld = 2048
)

// messageRows returns the largest number of rows in a message from a partition of so many rows. Sender and
// receiver both compute it.
func messageRows(partition int) int { return rowsOfBlock(partition, leastMessage) }

func rowsOfBlock(partition, least int) int {
	return max(least, (partition+MostMessages-1)/MostMessages)
}

// messages returns the sizes of the messages that hold n rows of a partition of so many rows.
func messages(n, partition int) (sizes []int) {
	for step := messageRows(partition); n > 0; n -= step {
		sizes = append(sizes, min(step, n))
	}
	return sizes
}

// span is the edges from one partition, in each row of a relation or in some of its rows. They are
// consecutive in a row, because a row's sources ascend.
type span struct {
	r              *graph.Relation
	from, to, ends []int64 // for each row: the span's first edge, its end, and the end of the row
	rows           []int32 // rows with edges in the span, ascending
}

// allRows returns an empty span in all rows. The first call of next moves it to the first partition.
func allRows(r *graph.Relation) *span {
	starts := r.Indptr
	n := len(starts) - 1
	return &span{r: r, from: make([]int64, n), to: slices.Clone(starts[:n]), ends: starts[1:]}
}

// someRows returns an empty span in the rows that s.Some selects. A row that is not in Some.Into will have
// only self loops in the span.
func (s *Source) someRows() *span {
	n := len(s.Some.Rows)
	at := &span{r: s.Relation, from: make([]int64, n), to: make([]int64, n), ends: make([]int64, n)}
	into := s.Some.Into
	for v, row := range s.Some.Rows {
		lo, hi := s.Relation.Indptr[row], s.Relation.Indptr[row+1]
		if len(into) > 0 && into[0] == row {
			into = into[1:]
		} else if s.Ends == TwoTypes {
			hi = lo
		} else {
			sources, own := s.Relation.Sources[lo:hi], int32(s.Starts[s.Me])+row
			from, _ := slices.BinarySearch(sources, own)
			to, _ := slices.BinarySearch(sources, own+1)
			lo, hi = lo+int64(from), lo+int64(to)
		}
		at.to[v], at.ends[v] = lo, hi
	}
	return at
}

// next moves the span to the following edges, up to those whose sources are below end.
func (s *span) next(end int32) {
	s.rows = s.rows[:0]
	for v := range s.to {
		k := s.to[v]
		s.from[v] = k
		for k < s.ends[v] && s.r.Sources[k] < end {
			k++
		}
		s.to[v] = k
		if k > s.from[v] {
			s.rows = append(s.rows, int32(v))
		}
	}
}

// each calls f for every edge of the span.
func (s *span) each(f func(v int, k int64)) {
	for _, v := range s.rows {
		for k := s.from[v]; k < s.to[v]; k++ {
			f(int(v), k)
		}
	}
}

// symmetric reports whether every edge of the span exists in both directions, equally often and with the same
// weights. start is the first row of the partition. Edges of a row come in the order of their sources, so the
// transposed matrix is then equal to the bit.
func (s *span) symmetric(start int32) bool {
	if s.r.Symmetric && s.r.Weights == nil {
		return true
	}
	back := slices.Clone(s.from) // for each row: the edge that must match its next edge into another row
	for v := range s.to {
		for k := s.from[v]; k < s.to[v]; k++ {
			u := s.r.Sources[k] - start
			other := back[u]
			back[u]++
			if other >= s.to[u] || s.r.Sources[other]-start != int32(v) ||
				weight(s.r, other) != weight(s.r, k) {
				return false
			}
		}
	}
	return true
}

// newLocal makes the block of the edges between local rows, from the span of the worker's own partition. It
// also sets the self loops.
func (e *Edges) newLocal(from *Source, s *span, owns []bool) *Block {
	team, mem := e.team, e.team.Memory
	inner, all, owned, ownedOut := 0, 0, 0, 0
	ownsSources := among(from.OwnSources, from.sources())
	loops := make([]int32, e.Rows)
	isLoop := func(v int, k int64) bool { return from.isLoop(v, s.r.Sources[k]) }
	s.each(func(v int, k int64) {
		all++
		if isLoop(v, k) {
			loops[v]++
			e.ownLoops += oneIf(owns, v)
		} else {
			inner++
			owned += oneIf(owns, v)
			ownedOut += oneIf(ownsSources, int(s.r.Sources[k])-from.Starts[from.Me])
		}
	})
	b := &Block{
		In:       newCSR(mem, mem.NewCommon, e.Rows, e.Sources, inner, s.r.Weights != nil),
		Features: from.Data.features(team, s.r, inner), Owned: owned, ownedOut: ownedOut,
	}
	e.loopCount = all - inner
	if inner < all {
		e.Loops = mem.NewCommon(tensor.Graph, tensor.Int32, e.Rows, 1)
		e.loopStart, e.loopW = readLoopWeights(s, isLoop, loops)
		e.loopFeatures = from.Data.features(team, s.r, all-inner)
	}
	fill := b.filler(s.r)
	row := from.localSources()
	loop := 0
	if fill == nil {
		return b
	}
	if e.Loops != nil {
		copy(e.Loops.WriteInt32s(), loops)
	}
	var writeLoop func(row int, k int64)
	if e.loopFeatures != nil {
		writeLoop = copyFeatures(e.loopFeatures, s.r)
	}
	s.each(func(v int, k int64) {
		if !isLoop(v, k) {
			fill.addEdge(v, row(s.r.Sources[k]), k)
		} else if writeLoop != nil {
			writeLoop(loop, k)
			loop++
		}
	})
	fill.finish()
	return b
}

// oneIf is 1 for a row for which are is true, and 0 for others and without a list.
func oneIf(are []bool, row int) int {
	if are != nil && are[row] {
		return 1
	}
	return 0
}

// readLoopWeights returns the weights of the self loops, and where each vertex's weights begin; nil if the
// edges have no weights.
func readLoopWeights(s *span, isLoop func(v int, k int64) bool,
	loops []int32,
) (starts []int64, weights []float32) {
	if s.r.Weights == nil {
		return nil, nil
	}
	starts = make([]int64, len(loops)+1)
	for v, n := range loops {
		starts[v+1] = starts[v] + int64(n)
	}
	s.each(func(v int, k int64) {
		if isLoop(v, k) {
			weights = append(weights, s.r.Weights[k])
		}
	})
	return starts, weights
}

// entryList calls f with the entries of blocks' matrices, row by row. An item is what a column stands for. A
// row's items ascend. k is the edge of the relation, or partialSum.
type entryList func(f func(row int, item int32, k int64))

// partialSum is the edge number of an entry that stands for a partial sum. The entry's value is 1.
const partialSum = -1

// entries are the entries of the edges from the rows of a partition, whose positions begin at start. A source
// is an item. If only the partial sum of a row's sources travels, the sum is an item behind all sources. c
// says for which rows; nil: only rows travel.
func (s *span) entries(start int32, c *cut) entryList {
	return func(f func(row int, item int32, k int64)) {
		for _, v := range s.rows {
			sum := false
			for k := s.from[v]; k < s.to[v]; k++ {
				if u := s.r.Sources[k] - start; c == nil || c.row[u] {
					f(int(v), u, k)
				} else {
					sum = true
				}
			}
			if sum {
				f(int(v), int32(len(c.row))+v, partialSum)
			}
		}
	}
}

// outline is what newBlocks must know in addition to the entries.
type outline struct {
	peer     int
	items    int // how many items may have entries
	sources  int // the first items, which are rows of the peer
	rows     int // how many rows may have entries
	allRows  int // how many rows all entries may have
	before   int // how many items travel before these
	step     int // the most items in a message
	relation *graph.Relation
	data     EdgeData
	owns     []bool // by row: it is in Source.Own; nil: there is no such list
}

// newBlocks makes the blocks of some entries. It also returns the list of the items. all decides which items
// travel in which message of at most step items; nil: some does. Each message has a block; it is nil if none
// of its items has an entry here. So a row of the result is summed in the same parts and the same order,
// whichever other rows are selected.
func newBlocks(team *kernel.Team, some, all entryList, o outline) (blocks []*Block, listed []int32) {
	const inAll, inSome = 1, 2
	// inAll or inSome if the item travels, and later message·step + column
	index := make([]int32, o.items)
	if all != nil {
		all(func(_ int, item int32, _ int64) { index[item] = inAll })
	}
	some(func(_ int, item int32, _ int64) { index[item] = inSome })
	seen := o.before
	var columns, sources []int // of each message's block: columns, and how many of these are the peer's rows
	for item, mark := range index {
		if mark == 0 {
			continue
		}
		message := seen / o.step
		seen++
		for message >= len(columns) {
			columns, sources = append(columns, 0), append(sources, 0)
		}
		index[item] = int32(message*o.step + columns[message])
		if mark == inSome {
			columns[message]++
			listed = append(listed, int32(item))
			if item < o.sources {
				sources[message]++
			}
		}
	}
	count := func(list entryList) []blockCount {
		counts := make([]blockCount, len(columns))
		list(func(v int, item int32, _ int64) { counts[int(index[item])/o.step].add(int32(v), o.owns) })
		return counts
	}
	counts := count(some)
	allCounts := counts
	if all != nil {
		allCounts = count(all)
	}
	mem := team.Memory
	fillers := make([]*filler, len(columns))
	for message, n := range columns {
		if n == 0 && message < o.before/o.step {
			blocks = append(blocks, nil)
			continue
		}
		b := &Block{Peer: o.peer, Owned: counts[message].owned}
		if o.sources > 0 {
			b.IDs = mem.NewElement(tensor.Graph, tensor.Int32, 1, sources[message])
		}
		rows := o.rows
		if len(allCounts[message].rows)*fewTargets < o.allRows {
			targets := counts[message].rows
			rows = len(targets)
			b.Targets = mem.NewCommon(tensor.Graph, tensor.Int32, 1, rows)
			copy(b.Targets.WriteInt32s(), targets)
			b.Targets.Known(targets)
		}
		b.In = newCSR(mem, mem.NewCommon, rows, n, counts[message].edges, o.relation.Weights != nil)
		b.Features = o.data.features(team, o.relation, counts[message].edges)
		blocks = append(blocks, b)
		fillers[message] = b.filler(o.relation)
	}
	if !slices.ContainsFunc(fillers, func(f *filler) bool { return f != nil }) {
		return blocks, listed
	}
	some(func(v int, item int32, k int64) {
		fillers[int(index[item])/o.step].addEdge(v, index[item]%int32(o.step), k)
	})
	for _, f := range fillers {
		if f != nil {
			f.finish()
		}
	}
	return blocks, listed
}

// blockCount counts a block's edges, and lists their destination rows. Edges are added row by row.
type blockCount struct {
	edges, owned int
	rows         []int32
}

func (c *blockCount) add(row int32, owns []bool) {
	c.edges++
	c.owned += oneIf(owns, int(row))
	if n := len(c.rows); n == 0 || c.rows[n-1] != row {
		c.rows = append(c.rows, row)
	}
}

// allocate is NewElement or NewCommon of a Meter.
type allocate func(k tensor.Kind, e tensor.Element, rows, cols int) *tensor.Matrix

func newCSR(mem *tensor.Meter, allocated allocate, rows, cols, entries int, weighted bool) *kernel.CSR {
	a := &kernel.CSR{
		Rows: rows, Cols: cols, Indptr: allocated(tensor.Graph, tensor.Int64, 1, rows+1),
		Indices: allocated(tensor.Graph, tensor.Int32, 1, entries),
	}
	if weighted {
		a.Values = allocated(tensor.Graph, tensor.Float32, 1, entries)
	}
	a.MakeRoom(mem, tensor.Graph)
	return a
}

// newOut makes the transpose of a matrix. One of the workers that share both writes it.
func newOut(team *kernel.Team, in *kernel.CSR) *kernel.CSR {
	out := newCSR(team.Memory, team.Memory.NewCommon, in.Cols, in.Rows, in.Entries(), in.Values != nil)
	out.SetTranspose(in)
	return out
}

// filler writes the entries of a matrix, row by row.
type filler struct {
	a       *kernel.CSR
	indptr  []int64
	columns []int32
	values  []float32
	targets []int32 // Block.Targets, from the last row with an entry on; nil if the matrix has all rows
	listed  int     // the number of that row
	row, at int
	// For addEdge: the relation that has the edges, and the function that writes to Block.Features; nil:
	// there are none.
	relation *graph.Relation
	features func(row int, k int64)
}

// newFiller returns nil if another worker writes the matrix's elements.
func newFiller(a *kernel.CSR) *filler {
	tensor.Touch(a.Arrays()...)
	f := &filler{a: a, indptr: a.Indptr.WriteInt64s(), columns: a.Indices.WriteInt32s()}
	if a.Values != nil {
		f.values = a.Values.WriteFloats()
	}
	if len(f.indptr) == 0 {
		return nil
	}
	return f
}

// filler is newFiller for the edges of a block, which are in r.
func (b *Block) filler(r *graph.Relation) *filler {
	f := newFiller(b.In)
	if f != nil {
		f.relation = r
		if b.Features != nil {
			f.features = copyFeatures(b.Features, r)
		}
		f.targets = b.Targets.ReadInt32s()
	}
	return f
}

// add appends an entry to a row. Rows must come in ascending order. It ignores the value if the matrix has no
// values.
func (f *filler) add(row int, column int32, value float32) {
	if f.targets != nil {
		for f.targets[0] != int32(row) {
			f.targets, f.listed = f.targets[1:], f.listed+1
		}
		row = f.listed
	}
	f.upTo(row)
	f.columns[f.at] = column
	if f.values != nil {
		f.values[f.at] = value
	}
	f.at++
}

// addEdge is add for edge k of the relation, with its features, or for a partial sum.
func (f *filler) addEdge(row int, column int32, k int64) {
	f.add(row, column, weight(f.relation, k))
	if f.features != nil {
		f.features(f.at-1, k)
	}
}

// weight returns the weight of edge k, or 1 if the edges have none or it is a partialSum.
func weight(r *graph.Relation, k int64) float32 {
	if r.Weights == nil || k == partialSum {
		return 1
	}
	return r.Weights[k]
}

// upTo ends the rows before the given row, and begins that row.
func (f *filler) upTo(row int) {
	for ; f.row <= row; f.row++ {
		f.indptr[f.row] = int64(f.at)
	}
}

func (f *filler) finish() {
	f.upTo(f.a.Rows)
	f.a.FindSegments()
}
