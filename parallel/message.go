package parallel

import (
	"fmt"
	"math"
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// messageEdges is how many edges a message function sees at a time: the memory of its tape is bounded by it.
const messageEdges = 1 << 13

// Message implements gnn.Propagator. Messages are computed for a few edges at a time, aggregated and dropped; the backward pass fetches
// the source rows again and computes each edge's message anew, on a tape of its own (case 2).
func (p *propagator) Message(m gnn.Message) *autograd.Var {
	t, e := m.Source.Tape(), p.enter()
	p.decide(fmt.Sprintf("messages of %d columns, a function of %d of the source", m.Columns, m.Source.Cols()))
	run := &messages{Message: m, tape: t, site: p, rows: e.rows}
	if m.Reduce == gnn.KindMean {
		run.share = p.graph.meanShares(e, loopsKey{p.reversed, m.SelfLoops})
	}
	z := t.Team.Zeros(tensor.Activations, e.rows, m.Columns)
	var arg *tensor.Matrix
	if m.Reduce == gnn.KindMax {
		arg = t.Memory().NewElement(tensor.Activations, tensor.Int32, e.rows, m.Columns)
		t.Team.Fill(arg, -1)
	}
	loops := p.graph.loopBlock(e, loopsKey{p.reversed, m.SelfLoops})
	forward := func(b *block, source *tensor.Matrix) {
		run.each(b, func(c *chunk) { run.forward(c, source, z, arg) })
	}
	forward(e.local(), m.Source.Value())
	if loops != nil {
		forward(loops, m.Source.Value())
	}
	kept := p.fetch(e, m.Source.Value(), t.Recording, forward)

	op := autograd.Op{Value: z, Inputs: []*autograd.Var{m.Source}, Keeps: []*autograd.Var{m.Source}, Buffers: append(kept, arg)}
	if m.Target != nil {
		op.Inputs, op.Keeps = append(op.Inputs, m.Target), append(op.Keeps, m.Target)
	}
	for _, q := range m.Parameters {
		op.Inputs = append(op.Inputs, q.On(t))
	}
	op.Backward = func(g *tensor.Matrix) {
		e, x := p.enter(), m.Source.Value()
		var dx *tensor.Matrix
		if m.Source.Wants() {
			dx = m.Source.GradSum()
		}
		backward := func(b *block, source, d *tensor.Matrix) {
			run.each(b, func(c *chunk) { run.backward(c, source, d, g, arg) })
		}
		backward(e.local(), x, dx)
		if loops != nil {
			backward(loops, x, dx)
		}
		p.rematerialize(e, x, kept, dx, func(b *block, rows, d *tensor.Matrix) {
			if d != nil {
				t.Team.Zero(d)
			}
			backward(b, rows, d)
		})
		g.Release()
	}
	return t.Record(op)
}

// messages is one call of Message on a tape.
type messages struct {
	gnn.Message
	tape  *autograd.Tape
	site  *propagator
	rows  int
	share *tensor.Matrix // 1/in-degree for a mean, else nil
}

// chunk is some consecutive edges of a block: their ends, and the matrices that add their rows up by target and by source.
type chunk struct {
	n                int
	sources, targets *tensor.Matrix // Int32, 1 × n: rows of the block's sources, and own rows
	ids              *tensor.Matrix // Int32, 1 × n: the sources' vertices, made different for parallel edges
	keys             *tensor.Matrix // Int32, 1 × n: of dropout masks
	weights          *tensor.Matrix // n × 1, or nil
	lo, hi           int            // the own rows that they lead into are among these
	into             *kernel.CSR    // hi−lo rows × n: which edges lead into a row
	outOf            *kernel.CSR    // distinct sources × n: which edges come from it
	distinct         *tensor.Matrix // Int32, 1 × distinct sources: their rows
	spread           *kernel.CSR    // n × hi−lo rows: which row an edge leads into
}

// each calls f for all edges of a block, so many at a time. A plan goes through one chunk of the largest size.
func (m *messages) each(b *block, f func(c *chunk)) {
	entries := b.in.Entries()
	size := min(messageEdges, entries)
	if size == 0 {
		return
	}
	room := m.newChunk(size, b.in.Values != nil)
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

// newChunk is a chunk for n edges into any own rows.
func (m *messages) newChunk(n int, weighted bool) *chunk {
	mem := m.tape.Memory()
	ints := func() *tensor.Matrix { return mem.NewElement(tensor.Buffers, tensor.Int32, 1, n) }
	matrix := func(rows, cols int) *kernel.CSR {
		return &kernel.CSR{Rows: rows, Cols: cols, Indptr: mem.NewElement(tensor.Buffers, tensor.Int64, 1, rows+1), Indices: ints()}
	}
	c := &chunk{n: n, hi: m.rows, sources: ints(), targets: ints(), ids: ints(), keys: ints(), distinct: ints()}
	if weighted {
		c.weights = mem.New(tensor.Buffers, n, 1)
	}
	c.into, c.outOf, c.spread = matrix(m.rows, n), matrix(n, n), matrix(n, m.rows)
	return c
}

func (c *chunk) release() {
	for _, a := range []*kernel.CSR{c.into, c.outOf, c.spread} {
		a.Release()
	}
	release([]*tensor.Matrix{c.sources, c.targets, c.ids, c.keys, c.distinct, c.weights})
}

// position is where the edges of a block that come next begin: the entry, its row, and how often the source of the entry before it stood
// in that row.
type position struct {
	entry, row int
	occurrence int64
}

// fill writes the next n edges' ends and numbers.
func (m *messages) fill(c *chunk, n int, at *position, b *block) {
	indptr, columns := b.in.Indptr.Int64s(), b.in.Indices.Int32s()
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
		sources[k], targets[k] = columns[e], int32(at.row)
		source, target := vertexOf(b.ids, columns[e]), vertexOf(m.site.graph.rows.IDs, int32(at.row))
		ids[k] = int32(min(source+int64(m.tape.Rows.Total)*at.occurrence, math.MaxInt32))
		keys[k] = edgeKey(source, target, at.occurrence)
		if c.weights != nil {
			c.weights.Floats()[k] = b.in.Values.Floats()[e]
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

// edgeKey is a number for an edge that keys its dropout masks, by SplitMix64's finaliser: equal on any workers, and for two edges by
// chance alone.
func edgeKey(source, target, occurrence int64) int32 {
	h := uint64(source)<<32 ^ uint64(target) ^ uint64(occurrence)<<48
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return int32(h ^ h>>31)
}

// index is the chunk of the first n edges, with the matrices made from their ends.
func (c *chunk) index(n int) *chunk {
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
		return &kernel.CSR{Rows: rows, Cols: cols, Indptr: first(a.Indptr, rows+1), Indices: first(a.Indices, n)}
	}
	p := &chunk{
		n: n, lo: lo, hi: hi, sources: first(c.sources, n), targets: first(c.targets, n), ids: first(c.ids, n), keys: first(c.keys, n),
		distinct: c.distinct, into: part(c.into, hi-lo, n), outOf: c.outOf, spread: part(c.spread, n, hi-lo),
	}
	if c.weights != nil {
		p.weights = c.weights.RowRange(0, n)
	}
	return p
}

// bySource orders the chunk's edges by their sources, for the sums of a source's gradients.
func (c *chunk) bySource(team *kernel.Team) {
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
	c.distinct = first(c.distinct, u)
	c.outOf = &kernel.CSR{Rows: u, Cols: c.n, Indptr: first(c.outOf.Indptr, u+1), Indices: first(c.outOf.Indices, c.n)}
}

// first is the first n elements of a row.
func first(m *tensor.Matrix, n int) *tensor.Matrix {
	return m.Reshape(m.Len(), 1).RowRange(0, n).Reshape(1, n)
}

// edges puts the rows of both ends on a tape for the function; the matrices are the caller's to release.
func (m *messages) edges(c *chunk, source *tensor.Matrix, recording bool) (e gnn.Edges, rows, grads []*tensor.Matrix) {
	t := m.tape
	tape := &autograd.Tape{
		Team: t.Team, Recording: recording, Training: t.Training, Random: t.Random, Leaves: map[*tensor.Matrix]bool{},
		Rows: autograd.Rows{Here: c.n, Total: autograd.NotVertices, IDs: c.keys},
	}
	for _, q := range m.Parameters {
		tape.Leaves[q.Grad] = true
	}
	gathered := func(from, list *tensor.Matrix, wants bool) *autograd.Var {
		x := t.Memory().New(tensor.Buffers, c.n, from.Cols)
		t.Team.Gather(x, from, list)
		rows = append(rows, x)
		if !recording || !wants {
			return tape.Constant(x, false)
		}
		d := t.Team.Zeros(tensor.Buffers, c.n, from.Cols)
		tape.Leaves[d] = true
		grads = append(grads, d)
		return tape.Leaf(x, d)
	}
	e = gnn.Edges{Tape: tape, Source: gathered(source, c.sources, m.Source.Wants())}
	if m.Target != nil {
		e.Target = gathered(m.Target.Value(), c.targets, m.Target.Wants())
	}
	if c.weights != nil {
		e.Weight = tape.Constant(c.weights, false)
	}
	return e, rows, grads
}

// call computes the messages of the chunk's edges.
func (m *messages) call(e gnn.Edges, n int) *autograd.Var {
	out := e.Tape.Scope(func() *autograd.Var { return m.Function(e) })
	if out.Rows() != n || out.Cols() != m.Columns {
		panic(fmt.Sprintf("parallel: the message function of %s gives %d×%d for %d edges and %d columns", m.site.site, out.Rows(), out.Cols(), n, m.Columns))
	}
	return out
}

// forward aggregates the chunk's messages into z, and for a maximum the winners' ids into arg.
func (m *messages) forward(c *chunk, source, z, arg *tensor.Matrix) {
	e, rows, _ := m.edges(c, source, false)
	out := m.call(e, c.n)
	team := m.tape.Team
	if arg != nil {
		team.Max(z.RowRange(c.lo, c.hi), arg.RowRange(c.lo, c.hi), c.into, out.Value(), c.ids, nil, false)
	} else {
		team.SpMM(z.RowRange(c.lo, c.hi), c.into, out.Value(), kernel.Scales{Row: m.shares(c)}, true)
	}
	out.Drop()
	e.Tape.Discard()
	release(rows)
}

// shares are the factors of a mean for the chunk's targets.
func (m *messages) shares(c *chunk) *tensor.Matrix {
	if m.share == nil {
		return nil
	}
	return m.share.RowRange(c.lo, c.hi)
}

// backward computes the chunk's messages again and adds their gradients: those of source rows to dSource.
func (m *messages) backward(c *chunk, source, dSource, g, arg *tensor.Matrix) {
	e, rows, grads := m.edges(c, source, true)
	out := m.call(e, c.n)
	team, mem := m.tape.Team, m.tape.Memory()
	d := mem.New(tensor.Gradients, c.n, m.Columns)
	if arg != nil {
		team.Zero(d)
		team.MaxBackward(d, c.spread, g.RowRange(c.lo, c.hi), arg.RowRange(c.lo, c.hi), c.ids, nil)
	} else {
		team.SpMM(d, c.spread, g.RowRange(c.lo, c.hi), kernel.Scales{Col: m.shares(c)}, false)
	}
	e.Tape.Backward(out, d)
	if m.Source.Wants() {
		c.bySource(team)
		sums := mem.New(tensor.Buffers, c.n, source.Cols)
		team.SpMM(sums.RowRange(0, c.distinct.Cols), c.outOf, grads[0], kernel.Scales{}, false)
		team.ScatterAdd(dSource, sums, c.distinct)
		sums.Release()
	}
	if m.Target != nil && m.Target.Wants() {
		dTarget := m.Target.GradSum()
		team.SpMM(dTarget.RowRange(c.lo, c.hi), c.into, grads[len(grads)-1], kernel.Scales{}, true)
	}
	release(rows)
	release(grads)
}
