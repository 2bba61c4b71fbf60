package sar

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// batch is some consecutive edges of a block: their ends, and the matrices that add their rows up by target
// and by source.
type batch struct {
	n                int
	sources, targets *tensor.Matrix // Int32, 1 × n: rows of the block's sources, and own rows
	ids              *tensor.Matrix // Int32, 1 × n: the sources' vertices; + V for each parallel edge before
	keys             *tensor.Matrix // Int32, 1 × n: of dropout masks
	weights          *tensor.Matrix // n × 1, or nil
	lo, hi           int            // the own rows that they lead into are among these
	into             *kernel.CSR    // hi−lo rows × n: which edges lead into a row
	outOf            *kernel.CSR    // distinct sources × n: which edges come from it
	distinct         *tensor.Matrix // Int32, 1 × distinct sources: their rows
	spread           *kernel.CSR    // n × hi−lo rows: which row an edge leads into
}

// each calls f for all edges of a block, so many at a time. A plan goes through one batch of the largest
// size.
func (m *messages) each(b *edges.Block, f func(c *batch)) {
	entries := b.In.Entries()
	size := min(messageEdges, entries)
	if size == 0 {
		return
	}
	room := m.newChunk(size, b.In.Values != nil)
	defer room.release()
	if m.tape.Team.Planning() {
		f(room)
		return
	}
	at := &position{}
	for lo := 0; lo < entries; lo += size {
		n := min(size, entries-lo)
		m.fill(room, n, at, b)
		f(room.index(n))
	}
}

// newChunk is a batch for n edges into any own rows.
func (m *messages) newChunk(n int, weighted bool) *batch {
	mem := m.tape.Memory()
	ints := func() *tensor.Matrix { return mem.NewElement(tensor.Buffers, tensor.Int32, 1, n) }
	matrix := func(rows, cols int) *kernel.CSR {
		return &kernel.CSR{Rows: rows, Cols: cols, Indptr: mem.NewElement(tensor.Buffers, tensor.Int64, 1, rows+1), Indices: ints()}
	}
	c := &batch{n: n, hi: m.rows, sources: ints(), targets: ints(), ids: ints(), keys: ints(), distinct: ints()}
	if weighted {
		c.weights = mem.New(tensor.Buffers, n, 1)
	}
	c.into, c.outOf, c.spread = matrix(m.rows, n), matrix(n, n), matrix(n, m.rows)
	return c
}

func (c *batch) release() {
	for _, a := range []*kernel.CSR{c.into, c.outOf, c.spread} {
		a.Release()
	}
	exchange.Release(c.sources, c.targets, c.ids, c.keys, c.distinct, c.weights)
}

// position is where the edges of a block that come next begin: the entry, its row, and how often the source
// of the entry before it stood in that row.
type position struct {
	entry, row int
	occurrence int64
}

// fill writes the next n edges' ends and numbers.
func (m *messages) fill(c *batch, n int, at *position, b *edges.Block) {
	indptr, columns := b.In.Indptr.Int64s(), b.In.Indices.Int32s()
	sources, targets, ids, keys := c.sources.Int32s(), c.targets.Int32s(), c.ids.Int32s(), c.keys.Int32s()
	for k := range n {
		e := at.entry
		for indptr[at.row+1] <= int64(e) {
			at.row++
		}
		if int64(e) > indptr[at.row] && columns[e] == columns[e-1] {
			at.occurrence++
		} else {
			at.occurrence = 0
		}
		sources[k], targets[k] = columns[e], int32(b.Target(at.row))
		source, target := vertexOf(b.IDs, columns[e]), vertexOf(m.targetIDs, targets[k])
		ids[k] = int32(min(source+int64(m.Source.RowSet().Total)*at.occurrence, math.MaxInt32))
		keys[k] = edgeKey(source, target, at.occurrence)
		if c.weights != nil {
			c.weights.Floats()[k] = b.In.Values.Floats()[e]
		}
		at.entry++
	}
}

// vertexOf is the vertex of a row, by ids or, where these are nil, the row itself.
func vertexOf(ids *tensor.Matrix, row int32) int64 {
	if ids != nil {
		row = ids.Int32s()[row]
	}
	return int64(row)
}

// edgeKey is a number for an edge that keys its dropout masks, by SplitMix64's finaliser: equal on any
// workers, and for two edges by chance alone.
func edgeKey(source, target, occurrence int64) int32 {
	return int32(autograd.Mix(autograd.Mix(uint64(source)<<32|uint64(target)) + uint64(occurrence)))
}

// index is the batch of the first n edges, with the matrices made from their ends.
func (c *batch) index(n int) *batch {
	targets := c.targets.Int32s()[:n]
	lo, hi := int(targets[0]), int(targets[n-1])+1
	into, spread, column := c.into.Indptr.Int64s(), c.spread.Indptr.Int64s(), c.spread.Indices.Int32s()
	row := 0
	into[0] = 0
	for k, target := range targets {
		for ; row < int(target)-lo; row++ {
			into[row+1] = int64(k)
		}
		c.into.Indices.Int32s()[k] = int32(k)
		spread[k], column[k] = int64(k), target-int32(lo)
	}
	into[hi-lo], spread[n] = int64(n), int64(n)
	part := func(a *kernel.CSR, rows, cols int) *kernel.CSR {
		return &kernel.CSR{Rows: rows, Cols: cols, Indptr: a.Indptr.Prefix(1, rows+1), Indices: a.Indices.Prefix(1, n)}
	}
	p := &batch{
		n: n, lo: lo, hi: hi, sources: c.sources.Prefix(1, n), targets: c.targets.Prefix(1, n), ids: c.ids.Prefix(1, n), keys: c.keys.Prefix(1, n),
		distinct: c.distinct, into: part(c.into, hi-lo, n), outOf: c.outOf, spread: part(c.spread, n, hi-lo),
	}
	if c.weights != nil {
		p.weights = c.weights.RowRange(0, n)
	}
	return p
}

// bySource orders the batch's edges by their sources, for the sums of a source's gradients.
func (c *batch) bySource(team *kernel.Team) {
	if team.Planning() {
		return
	}
	order := make([]uint64, c.n)
	for k, source := range c.sources.Int32s() {
		order[k] = uint64(source)<<32 | uint64(k)
	}
	slices.Sort(order)
	columns, begins, distinct := c.outOf.Indices.Int32s(), c.outOf.Indptr.Int64s(), c.distinct.Int32s()
	u := 0
	for k, key := range order {
		source := int32(key >> 32)
		if k == 0 || source != distinct[u-1] {
			distinct[u], begins[u] = source, int64(k)
			u++
		}
		columns[k] = int32(uint32(key))
	}
	begins[u] = int64(c.n)
	c.distinct = c.distinct.Prefix(1, u)
	c.outOf = &kernel.CSR{Rows: u, Cols: c.n, Indptr: c.outOf.Indptr.Prefix(1, u+1), Indices: c.outOf.Indices.Prefix(1, c.n)}
}
