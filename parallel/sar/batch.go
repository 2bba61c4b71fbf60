package sar

import (
	"math"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// batch is some consecutive edges of a block. It has their sources and targets, and sparse matrices of zeros
// and ones that sum the edges' rows by target and by source.
type batch struct {
	block            *edges.Block
	before           int // how many of the block's edges come before the batch
	n                int
	sources, targets *tensor.Matrix // Int32, 1 × n: rows of the block's sources, and of messages.Into
	// ids (Int32, 1 × n) are the vertices of the sources. The k-th parallel edge (from 0) has k·V added to
	// its id, so that the first of equal messages wins a maximum.
	ids      *tensor.Matrix
	keys     *tensor.Matrix // Int32, 1 × n: keys of the dropout masks
	weights  *tensor.Matrix // n × 1, or nil
	features *tensor.Matrix // a part of Block.Features, or nil
	// entries (Int32, 1 × n) are the edges' rows of features; nil: one after the other. first is the entry of
	// the block to which the first of these rows belongs.
	entries  *tensor.Matrix
	first    int
	lo, hi   int            // all targets are rows lo … hi−1
	into     *kernel.CSR    // hi−lo rows × n: the edges into each row
	outOf    *kernel.CSR    // distinct sources × n: the edges from each
	distinct *tensor.Matrix // Int32, 1 × distinct sources: their rows
	spread   *kernel.CSR    // n × hi−lo rows, the transpose of into: the target of each edge
}

// each calls f for all edges of a block, at most messageEdges at a time, or deviceEdges.
func (m *messages) each(block *edges.Block, f func(b *batch)) {
	size := min(messageEdges, m.entries(block))
	if m.tape.Memory().OnDevice() {
		size = min(deviceEdges, m.entries(block))
	}
	if size == 0 {
		return
	}
	buffer := m.newBatch(size, block)
	from := m.listed(block)
	defer buffer.release()
	if len(from.indptr) == 0 {
		m.eachPlanned(buffer, block, f)
		return
	}
	at, there := &position{}, from.entries() // fewer than in a plan, if an epoch drops some
	for lo, n := 0, 0; lo < there; lo += n {
		n = min(size, there-lo)
		m.tape.Team.Serial(func() { n = m.fill(buffer, n, at, from) })
		part := buffer.index(m.tape.Team, n).with(block)
		part.before = lo
		f(part)
	}
}

// eachPlanned is each in a plan, which does not know the ends. A batch into all rows takes the most memory.
// The others are alike, each into its part of the rows: one of them counts as all.
func (m *messages) eachPlanned(buffer *batch, block *edges.Block, f func(b *batch)) {
	size, there, rows := buffer.n, m.entries(block), buffer.hi
	team := m.tape.Team
	defer func() { m.tape.Team = team }()
	visit := func(n, times int) {
		m.tape.Team = team.Times(times)
		f(buffer.index(m.tape.Team, n).with(block))
	}
	if there == size {
		visit(size, 1)
		return
	}
	visit(size, 0)
	part := func(n int) int { return min(rows, (m.Rows.Here*n+there-1)/there) }
	buffer.hi = part(size)
	visit(size, there/size)
	if left := there % size; left > 0 {
		buffer.hi = part(left)
		visit(left, 1)
	}
}

// newBatch makes a batch for n edges of a block.
func (m *messages) newBatch(n int, block *edges.Block) *batch {
	mem := m.tape.Memory()
	ints := func() *tensor.Matrix { return mem.NewElement(tensor.Buffers, tensor.Int32, 1, n) }
	matrix := func(rows, cols int) *kernel.CSR {
		return &kernel.CSR{Rows: rows, Cols: cols, Indptr: mem.NewElement(tensor.Buffers, tensor.Int64, 1,
			rows+1), Indices: ints()}
	}
	b := &batch{
		n: n, hi: m.Rows.Here, sources: ints(), targets: ints(), ids: ints(),
		keys: ints(), distinct: ints(),
	}
	if mem.OnDevice() {
		b.hi = min(b.hi, deviceEdges)
	}
	if block.In.Values != nil {
		b.weights = mem.New(tensor.Buffers, n, 1)
	}
	if m.Places != nil && (block.Features != nil || block.WeightGradients != nil) {
		b.entries = ints()
	}
	b.into, b.outOf, b.spread = matrix(b.hi, n), matrix(n, n), matrix(n, b.hi)
	return b
}

// with gives the batch its part of the weights and features of a block's edges.
func (b *batch) with(block *edges.Block) *batch {
	switch f := block.Features; {
	case f == nil:
	case b.entries != nil:
		b.features = f.RowRange(b.first, f.Rows)
	default:
		b.features = f.RowRange(b.first, b.first+b.n)
	}
	b.block = block
	return b
}

func (b *batch) release() {
	for _, a := range []*kernel.CSR{b.into, b.outOf, b.spread} {
		a.Release()
	}
	exchange.Release(b.sources, b.targets, b.ids, b.keys, b.distinct, b.weights, b.entries)
}

// position says where the next edges of a block begin: the entry, its row, and how many entries of that row
// before it have the same source.
type position struct {
	entry, row int
	occurrence int64
	place      int // place of the row among messages.Into, or where it would be
}

// listed has the arrays of a block, from which batches are filled.
type listed struct {
	indptr         []int64
	columns        []int32
	weights        []float32 // nil: the block has no weights
	rows           []int32   // the local row of each row of the matrix; nil: the same
	ids, targetIDs []int32   // vertices of the sources' rows and of the local rows; nil: the row numbers
	places         []int32   // of messages.Into; nil: all
	before         []int32   // by row: parallel edges of its first edge in other blocks; nil: none
}

func (m *messages) listed(block *edges.Block) *listed {
	l := &listed{
		indptr: block.In.Indptr.ReadInt64s(), columns: block.In.Indices.ReadInt32s(),
		weights: block.In.Values.ReadFloats(), rows: block.Targets.ReadInt32s(),
		ids: block.IDs.ReadInt32s(), targetIDs: m.Rows.IDs.ReadInt32s(), places: m.Places.ReadInt32s(),
	}
	if block.Added {
		l.before = m.stored.ReadInt32s()
	}
	return l
}

// takes reports whether messages are computed into the position's row, and finds its place.
func (l *listed) takes(at *position) bool {
	row := int32(entryOf(l.rows, int32(at.row)))
	if l.places == nil {
		at.place = int(row)
		return true
	}
	for at.place < len(l.places) && l.places[at.place] < row {
		at.place++
	}
	return at.place < len(l.places) && l.places[at.place] == row
}

// entries counts the entries in the rows into which messages are computed.
func (l *listed) entries() (n int) {
	for at := (position{}); at.row+1 < len(l.indptr); at.row++ {
		if l.takes(&at) {
			n += int(l.indptr[at.row+1] - l.indptr[at.row])
		}
	}
	return n
}

// fill writes the ends and the keys of the next edges, at most n, whose targets are among b.hi rows. It
// returns how many.
func (m *messages) fill(b *batch, n int, at *position, from *listed) int {
	indptr, columns := from.indptr, from.columns
	sources, targets := b.sources.WriteInt32s(), b.targets.WriteInt32s()
	ids := b.ids.WriteInt32s()
	keys := b.keys.WriteInt32s()
	weights, entries := b.weights.WriteFloats(), b.entries.WriteInt32s()
	for k := range n {
		for indptr[at.row+1] <= int64(at.entry) || !from.takes(at) {
			at.row++
			at.entry = int(indptr[at.row])
		}
		e := at.entry
		if k == 0 {
			b.first = e
		} else if at.place-int(targets[0]) >= b.hi {
			return k
		}
		if entries != nil {
			entries[k] = int32(e - b.first)
		}
		if int64(e) > indptr[at.row] && columns[e] == columns[e-1] {
			at.occurrence++
		} else {
			at.occurrence = 0
			if from.before != nil {
				at.occurrence = int64(from.before[at.row])
			}
		}
		sources[k], targets[k] = columns[e], int32(at.place)
		source, target := entryOf(from.ids, columns[e]), entryOf(from.targetIDs, targets[k])
		ids[k] = m.idOf(source, at.occurrence)
		keys[k] = edgeKey(source, target, at.occurrence)
		if weights != nil {
			weights[k] = from.weights[e]
		}
		at.entry++
	}
	return n
}

// idOf is the id of a vertex, plus k·V for its k-th parallel edge. Only a maximum reads it. idOf refuses an
// id of more than 31 bits.
func (m *messages) idOf(source, k int64) int32 {
	id := source + int64(m.vertices)*k
	if id > math.MaxInt32 && m.Reduce == gnn.KindMax {
		exchange.Must(refusal.Errorf("layer %s: a maximum of messages tells %d parallel edges between two "+
			"of %d vertices apart, and here are more; remove parallel edges from the graph, or take a sum "+
			"or a mean", m.path, (math.MaxInt32-source)/int64(m.vertices)+1, m.vertices))
	}
	return int32(min(id, math.MaxInt32))
}

// entryOf returns the entry of a row in a list, such as its vertex; list nil: the row number.
func entryOf(list []int32, row int32) int64 {
	if list != nil {
		row = list[row]
	}
	return int64(row)
}

// edgeKey returns the number that keys an edge's dropout masks, by the finaliser of SplitMix64. It is the
// same on any workers. Two edges have the same key only by chance.
func edgeKey(source, target, occurrence int64) int32 {
	return int32(autograd.Mix(autograd.Mix(uint64(source)<<32|uint64(target)) + uint64(occurrence)))
}

// index returns the batch of the first n edges, with the matrices that follow from their ends. A plan does
// not know the ends: they may be any rows.
func (b *batch) index(team *kernel.Team, n int) *batch {
	lo, hi := b.lo, b.hi
	team.Serial(func() {
		targets := b.targets.ReadInt32s()[:n]
		lo, hi = int(targets[0]), int(targets[n-1])+1
		into, edges := b.into.Indptr.WriteInt64s(), b.into.Indices.WriteInt32s()
		spread, column := b.spread.Indptr.WriteInt64s(), b.spread.Indices.WriteInt32s()
		row := 0
		into[0] = 0
		for k, target := range targets {
			for ; row < int(target)-lo; row++ {
				into[row+1] = int64(k)
			}
			edges[k] = int32(k)
			spread[k], column[k] = int64(k), target-int32(lo)
		}
		into[hi-lo], spread[n] = int64(n), int64(n)
	})
	part := func(a *kernel.CSR, rows, cols int) *kernel.CSR {
		return &kernel.CSR{
			Rows: rows, Cols: cols, Indptr: a.Indptr.Prefix(1, rows+1),
			Indices: a.Indices.Prefix(1, n),
		}
	}
	p := &batch{
		n: n, lo: lo, hi: hi, sources: b.sources.Prefix(1, n), targets: b.targets.Prefix(1, n),
		ids: b.ids.Prefix(1, n), keys: b.keys.Prefix(1, n), first: b.first,
		distinct: b.distinct, into: part(b.into, hi-lo, n), outOf: b.outOf, spread: part(b.spread, n, hi-lo),
	}
	if b.weights != nil {
		p.weights = b.weights.RowRange(0, n)
	}
	if b.entries != nil {
		p.entries = b.entries.Prefix(1, n)
	}
	return p
}

// bySource sorts the batch's edges by their sources, to sum the gradients of each. rows is the number of rows
// of sources.
func (b *batch) bySource(team *kernel.Team, rows int) {
	u := min(b.n, rows) // in a plan
	team.Serial(func() {
		sources := b.sources.ReadInt32s()
		columns := sorted(b.outOf.Indices.WriteInt32s()[:b.n], sources, rows)
		begins := b.outOf.Indptr.WriteInt64s()
		distinct := b.distinct.WriteInt32s()
		u = 0
		for k, edge := range columns {
			source := sources[edge]
			if k == 0 || source != distinct[u-1] {
				distinct[u], begins[u] = source, int64(k)
				u++
			}
		}
		begins[u] = int64(b.n)
	})
	b.distinct = b.distinct.Prefix(1, u)
	b.outOf = &kernel.CSR{
		Rows: u, Cols: b.n, Indptr: b.outOf.Indptr.Prefix(1, u+1),
		Indices: b.outOf.Indices.Prefix(1, b.n),
	}
}

// sorted writes the numbers of the keys into order, by key (below n) and then by number. It is a radix sort.
func sorted(order, keys []int32, n int) []int32 {
	const digit = 11 // bits
	from, to := make([]int32, len(keys)), order
	for k := range from {
		from[k] = int32(k)
	}
	for shift := 0; shift == 0 || (n-1)>>shift > 0; shift += digit {
		var begins [1<<digit + 1]int32
		for _, key := range keys {
			begins[key>>shift&(1<<digit-1)+1]++
		}
		for d := range 1 << digit {
			begins[d+1] += begins[d]
		}
		for _, k := range from {
			at := &begins[keys[k]>>shift&(1<<digit-1)]
			to[*at] = k
			*at++
		}
		from, to = to, from
	}
	copy(order, from)
	return order
}
