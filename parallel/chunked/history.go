package chunked

import (
	"iter"

	"weft/comm"
	"weft/gnn"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/tensor"
)

// call is an aggregation of each chunk's pass.
type call struct {
	site   string
	along  gnn.Along
	number int
}

// history is what chunks read of each other at a call: a row for each that any reads, matrix by matrix.
type history struct {
	fresh    []*tensor.Matrix // of this epoch, of the chunks that have come
	snapshot []*tensor.Matrix // constants of the epoch; nil with one chunk
	grads    []*tensor.Matrix // what was returned to them so far
	// returned is, with Keep, what each chunk's remote blocks returned last.
	returned map[*sources][]*tensor.Matrix
	read     int // how many chunks of an inference have read them
}

// Exchange implements sar.Mover.
func (c *Chunk) Exchange(h *sar.Halo, s sar.Transfer, yield func(sar.Visit) bool) {
	g, key := c.graph, call{h.Site, h.Along, h.Number}
	st, r := g.made[h.Along], g.history(key)
	if g.phase != backward {
		c.publish(st, r, s.Rows)
	}
	if g.phase == together {
		c.pause()
	}
	if len(s.Grads) > 0 && r.grads == nil {
		r.grads = g.zeros(st, s.Grads)
	}
	in := g.team.Memory.New(tensor.Buffers, st.most, sar.Columns(s.Rows))
	back := g.team.Memory.New(tensor.Buffers, st.most, sar.Columns(s.Grads))
	for i, b := range h.Edges.Remote() {
		from, v := st.sources[c.index][i], sar.Visit{Block: b}
		if s.Rows != nil {
			v.Rows = sar.Parts(in.Prefix(b.In.Cols, in.Cols), s.Rows)
			c.read(r, from, v.Rows)
		}
		if len(s.Grads) > 0 {
			v.Grads = sar.Parts(back.Prefix(b.In.Cols, back.Cols), s.Grads)
		}
		yield(v)
		if len(s.Grads) > 0 {
			c.giveBack(r, from, v.Grads)
		}
	}
	exchange.Release(in, back)
	if len(s.Grads) > 0 {
		c.collect(st, r, s.Grads)
	}
	if g.phase == together {
		g.passed(key, r)
	}
}

// history is that of a call, made when a chunk first comes to it.
func (g *Graph) history(key call) *history {
	in := g.kept
	if g.phase == together {
		in = g.passing
	}
	if in[key] == nil {
		in[key] = &history{}
	}
	return in[key]
}

// passed releases what the chunks have read of each other at a call of an inference, after the last of them.
func (g *Graph) passed(key call, r *history) {
	if r.read++; r.read == len(g.Chunks) && !g.warm {
		r.release()
		delete(g.passing, key)
	}
}

// publish keeps those rows of a chunk that others read, and takes in those of the other ways' chunks.
func (c *Chunk) publish(st *structure, r *history, xs []*tensor.Matrix) {
	g := c.graph
	if r.fresh == nil {
		r.fresh = exchange.Like(g.team.Memory, st.rows, xs)
	}
	if r.snapshot == nil && len(g.Chunks) > 1 && g.phase != together {
		r.snapshot = g.zeros(st, xs)
	}
	own := st.own[c.index]
	for m, x := range xs {
		g.team.Gather(own.of(r.fresh[m]), x, own.rows)
	}
	out := side{st.needed, func(way int, to []*tensor.Matrix) {
		for m, x := range xs {
			g.team.Gather(to[m], x, st.needed[way][c.index].rows)
		}
	}}
	in := side{st.mirrors, func(way int, from []*tensor.Matrix) {
		for m, come := range from {
			g.team.Copy(st.mirrors[way][c.index].of(r.fresh[m]), come)
		}
	}}
	c.mirror(comm.Halo, xs, out, in)
}

// read are a block's sources: those of chunks that have come as they are, the others' as in the snapshot.
func (c *Chunk) read(r *history, from *sources, to []*tensor.Matrix) {
	for _, run := range from.runs {
		for m := range to {
			source := r.fresh[m]
			if c.graph.phase != together && c.graph.slots[run.chunk] > c.graph.slots[c.index] {
				source = r.snapshot[m]
			}
			c.graph.team.Gather(to[m].RowRange(run.lo, run.hi), source, run.rows)
		}
	}
}

// giveBack adds the gradient of a block's sources to what their chunks collect: that of the same slot once,
// of chunks before twice; that of constants is dropped.
func (c *Chunk) giveBack(r *history, from *sources, grads []*tensor.Matrix) {
	g := c.graph
	if g.options.Stale == Keep {
		c.replace(r, from, grads)
		return
	}
	for _, run := range from.runs {
		for m, d := range grads {
			part := d.RowRange(run.lo, run.hi)
			switch theirs, mine := g.slots[run.chunk], g.slots[c.index]; {
			case theirs > mine:
				continue
			case theirs < mine && g.options.Stale == DropScale:
				g.team.Scale(part, 2, part)
			}
			g.team.ScatterAdd(r.grads[m], part, run.rows)
		}
	}
}

// replace has a block's gradient take the place of what it returned an epoch ago, in what the sources' chunks
// collect.
func (c *Chunk) replace(r *history, from *sources, grads []*tensor.Matrix) {
	g := c.graph
	old := r.returned[from]
	if old == nil {
		if r.returned == nil {
			r.returned = map[*sources][]*tensor.Matrix{}
		}
		for _, d := range grads {
			old = append(old, g.team.Zeros(tensor.Buffers, d.Rows, d.Cols))
		}
		r.returned[from] = old
	}
	for m, d := range grads {
		g.team.Scale(old[m], -1, old[m])
		g.team.Axpy(old[m], 1, d) // the change
		for _, run := range from.runs {
			g.team.ScatterAdd(r.grads[m], old[m].RowRange(run.lo, run.hi), run.rows)
		}
		g.team.Copy(old[m], d)
	}
}

// collect adds to the gradients of a chunk's rows what others returned, those of this way and of the others.
func (c *Chunk) collect(st *structure, r *history, dxs []*tensor.Matrix) {
	g := c.graph
	own := st.own[c.index]
	for m, dx := range dxs {
		g.team.ScatterAdd(dx, own.of(r.grads[m]), own.rows)
	}
	out := side{st.mirrors, func(way int, to []*tensor.Matrix) {
		for m := range dxs {
			g.team.Copy(to[m], st.mirrors[way][c.index].of(r.grads[m]))
		}
	}}
	in := side{st.needed, func(way int, from []*tensor.Matrix) {
		for m, d := range from {
			g.team.ScatterAdd(dxs[m], d, st.needed[way][c.index].rows)
		}
	}}
	c.mirror(comm.HaloGradient, dxs, out, in)
}

// side is one direction of an exchange between the ways: for each way and chunk which rows, and what fills or
// takes a message with them.
type side struct {
	rows [][]list
	move func(way int, message []*tensor.Matrix)
}

// mirror exchanges rows of the matrices of a chunk with the chunks of the other ways in the same slot, in one
// message for each, which are taken in the order of a sweep.
func (c *Chunk) mirror(kind comm.Kind, of []*tensor.Matrix, out, in side) {
	g := c.graph
	n := g.ways.Size()
	come, gone := make([]*tensor.Matrix, n), make([]*tensor.Matrix, n)
	receive, send := make([][]byte, n), make([][]byte, n)
	message := func(way int, s side) (*tensor.Matrix, []byte) {
		m := g.team.Memory.New(tensor.Buffers, s.rows[way][c.index].count, sar.Columns(of))
		return m, m.Bytes()
	}
	for step := 1; step < n; step++ {
		way := (g.way - step + n) % n
		come[way], receive[way] = message(way, in)
		gone[way], send[way] = message(way, out)
		out.move(way, sar.Parts(gone[way], of))
	}
	exchange.Must(g.ways.AllToAll(kind, send, receive))
	for step := 1; step < n; step++ {
		way := (g.way - step + n) % n
		in.move(way, sar.Parts(come[way], of))
	}
	exchange.Release(come...)
	exchange.Release(gone...)
}

// zeros are rows of zeros for matrices as wide as these.
func (g *Graph) zeros(st *structure, like []*tensor.Matrix) []*tensor.Matrix {
	zeros := exchange.Like(g.team.Memory, st.rows, like)
	for _, z := range zeros {
		g.team.Zero(z)
	}
	return zeros
}

// takeSnapshot makes what is fresh the snapshot.
func (g *Graph) takeSnapshot() {
	for _, r := range g.kept {
		if r.snapshot != nil {
			r.fresh, r.snapshot = r.snapshot, r.fresh
		}
	}
}

// endPass releases what only the epoch's passes read.
func (g *Graph) endPass() {
	for _, r := range g.kept {
		r.release()
		if g.options.Stale != Keep {
			exchange.Release(r.grads...)
			r.grads = nil
		}
	}
}

func (r *history) release() {
	exchange.Release(r.fresh...)
	r.fresh = nil
}

// Together runs the forward pass of every chunk, exactly: none goes on from an aggregation before all have
// come to it.
func (g *Graph) Together(pass func(k int)) {
	g.phase = together
	g.abreast(pass)
	g.forget()
}

// Warm is Together, after which what the chunks read of each other is the snapshot.
func (g *Graph) Warm(pass func(k int)) {
	g.phase, g.warm = together, true
	g.abreast(pass)
	for key, r := range g.passing {
		if len(g.Chunks) > 1 {
			g.kept[key] = &history{snapshot: r.fresh}
			delete(g.passing, key)
		}
	}
	g.warm = false
	g.forget()
}

// forget releases what an inference kept.
func (g *Graph) forget() {
	for _, r := range g.passing {
		r.release()
	}
	clear(g.passing)
}

// abreast runs a pass of every chunk. Each stops when it has published, for the others to come there.
func (g *Graph) abreast(pass func(k int)) {
	var running []func() (struct{}, bool)
	for k, c := range g.Chunks {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			defer func() {
				if p := recover(); p != nil && p != stopped {
					panic(p)
				}
			}()
			c.pause = func() {
				if !yield(struct{}{}) {
					panic(stopped)
				}
			}
			pass(k)
		})
		defer stop()
		running = append(running, next)
	}
	for more := true; more; {
		for _, next := range running {
			_, more = next()
		}
	}
}

// stopped ends the pass of a chunk after another's has failed.
const stopped = "a pass that was stopped"
