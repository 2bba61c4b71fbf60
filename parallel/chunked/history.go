package chunked

import (
	"iter"
	"slices"

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

// history is what chunks read of each other at a call: the kept rows, matrix by matrix.
type history struct {
	st *structure
	// rows are what a chunk reads. Those of the chunks in the first slots, so many as fresh says, are of this
	// epoch; the others are the snapshot's, zeros at first.
	rows  []*tensor.Matrix
	fresh int
	// aside are the snapshot's where rows are fresh, and the epoch's where they were and are not any more;
	// nil between epochs, and with one chunk.
	aside []*tensor.Matrix
	grads []*tensor.Matrix // what was returned to them so far
	// returned is, with Keep, what each chunk's remote blocks returned last, by the list of their sources.
	returned map[*tensor.Matrix][]*tensor.Matrix
	read     int // how many chunks of an inference have read them
}

// Exchange implements sar.Mover.
func (c *Chunk) Exchange(h *sar.Halo, s sar.Transfer, yield func(sar.Visit) bool) {
	g, key := c.graph, call{h.Path, h.Along, h.Number}
	r := g.history(key)
	switch g.phase {
	case forward:
		c.publish(r, s.Rows)
	case backward:
		g.rewind(r, 1+slices.Index(g.order, c.index))
	case together:
		c.publish(r, s.Rows)
		c.pause()
	}
	if len(s.Grads) > 0 {
		c.expect(r, s.Grads)
	}
	in := g.team.Memory.New(tensor.Buffers, r.st.most, sar.Columns(s.Rows))
	back := g.team.Memory.New(tensor.Buffers, r.st.most, sar.Columns(s.Grads))
	for i, b := range h.Edges.Remote() {
		sources, v := r.st.sources[c.index][i], sar.Visit{Block: b}
		if s.Rows != nil {
			v.Rows = sar.Parts(in.Prefix(b.In.Cols, in.Cols), s.Rows)
			for m, to := range v.Rows {
				g.team.Gather(to, r.rows[m], sources)
			}
		}
		if len(s.Grads) > 0 {
			v.Grads = sar.Parts(back.Prefix(b.In.Cols, back.Cols), s.Grads)
		}
		yield(v)
		if len(s.Grads) > 0 {
			g.giveBack(r, sources, v.Grads)
		}
	}
	exchange.Release(in, back)
	if len(s.Grads) > 0 {
		c.collect(r, s.Grads)
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
		in[key] = &history{st: g.made[key.along]}
	}
	return in[key]
}

// passed releases what the chunks have read of each other at a call of an inference, after the last of them.
func (g *Graph) passed(key call, r *history) {
	if r.read++; r.read == len(g.Chunks) && !g.warm {
		exchange.Release(r.rows...)
		delete(g.passing, key)
	}
}

// publish makes those rows of a chunk that others read fresh, and takes in the mirrors of its slot.
func (c *Chunk) publish(r *history, xs []*tensor.Matrix) {
	g, st := c.graph, r.st
	kept := st.kept[c.index]
	if r.rows == nil {
		r.rows = g.zeros(st, xs)
	}
	if len(g.Chunks) > 1 && g.phase == forward {
		if r.aside == nil {
			r.aside = exchange.Like(g.team.Memory, st.rows(), xs)
		}
		for m, rows := range r.rows {
			g.team.Copy(kept.of(r.aside[m]), kept.of(rows))
		}
		r.fresh++
	}
	for m, x := range xs {
		g.team.Gather(st.of[g.me][c.index].of(r.rows[m]), x, st.own[c.index])
	}
	out := side{c.needed(st), func(replica, m int, message *tensor.Matrix) {
		g.team.Gather(message, xs[m], st.needed[replica][c.index])
	}}
	in := side{c.mirrors(st), func(replica, m int, message *tensor.Matrix) {
		g.team.Copy(st.of[replica][c.index].of(r.rows[m]), message)
	}}
	c.exchange(comm.Halo, xs, out, in)
}

// rewind leaves the rows of so many first slots fresh: the others are what a chunk of the last of these read
// in its forward pass.
func (g *Graph) rewind(r *history, slots int) {
	for ; r.fresh > slots; r.fresh-- {
		kept := r.st.kept[g.order[r.fresh-1]]
		for m := range r.rows {
			rows, aside := kept.of(r.rows[m]), kept.of(r.aside[m])
			fresh := g.team.Memory.New(tensor.Buffers, rows.Rows, rows.Cols)
			g.team.Copy(fresh, rows)
			g.team.Copy(rows, aside)
			g.team.Copy(aside, fresh)
			fresh.Release()
		}
	}
}

// expect begins the backward pass of a call on a chunk: what later chunks have returned to its rows and to
// its mirrors counts twice, where stale gradients are dropped and scaled. What the chunks of its own slot
// return is added afterwards, and counts once.
func (c *Chunk) expect(r *history, dxs []*tensor.Matrix) {
	g := c.graph
	if r.grads == nil {
		r.grads = g.zeros(r.st, dxs)
	}
	if g.options.Stale == DropScale {
		for _, d := range r.grads {
			theirs := r.st.kept[c.index].of(d)
			g.team.Scale(theirs, 2, theirs)
		}
	}
}

// giveBack adds the gradients of a block's sources to what their chunks collect. Chunks of later slots have
// collected already, so that theirs, which are gradients of constants, are dropped.
func (g *Graph) giveBack(r *history, sources *tensor.Matrix, grads []*tensor.Matrix) {
	if g.options.Stale == Keep {
		g.replace(r, sources, grads)
		return
	}
	for m, d := range grads {
		g.team.ScatterAdd(r.grads[m], d, sources)
	}
}

// replace has a block's gradient take the place of what it returned an epoch ago, in what the sources' chunks
// collect.
func (g *Graph) replace(r *history, sources *tensor.Matrix, grads []*tensor.Matrix) {
	old := r.returned[sources]
	if old == nil {
		if r.returned == nil {
			r.returned = map[*tensor.Matrix][]*tensor.Matrix{}
		}
		for _, d := range grads {
			old = append(old, g.team.Zeros(tensor.Buffers, d.Rows, d.Cols))
		}
		r.returned[sources] = old
	}
	for m, d := range grads {
		g.team.Scale(old[m], -1, old[m])
		g.team.Axpy(old[m], 1, d) // the change
		g.team.ScatterAdd(r.grads[m], old[m], sources)
		g.team.Copy(old[m], d)
	}
}

// collect adds to the gradients of a chunk's rows what others returned, those of this replica and of the
// others.
func (c *Chunk) collect(r *history, dxs []*tensor.Matrix) {
	g, st := c.graph, r.st
	for m, dx := range dxs {
		g.team.ScatterAdd(dx, st.of[g.me][c.index].of(r.grads[m]), st.own[c.index])
	}
	out := side{c.mirrors(st), func(replica, m int, message *tensor.Matrix) {
		g.team.Copy(message, st.of[replica][c.index].of(r.grads[m]))
	}}
	in := side{c.needed(st), func(replica, m int, message *tensor.Matrix) {
		g.team.ScatterAdd(dxs[m], message, st.needed[replica][c.index])
	}}
	c.exchange(comm.HaloGradient, dxs, out, in)
}

// side is one direction of an exchange between the replicas: how many rows go to each or come from it, and
// what fills or takes the part of a message that is matrix m's.
type side struct {
	rows func(replica int) int
	move func(replica, m int, message *tensor.Matrix)
}

// needed is how many rows of a chunk a replica reads.
func (c *Chunk) needed(st *structure) func(replica int) int {
	return func(replica int) int { return st.needed[replica][c.index].Cols }
}

// mirrors is how many rows of a replica's chunk in the same slot are read here.
func (c *Chunk) mirrors(st *structure) func(replica int) int {
	return func(replica int) int { return st.of[replica][c.index].rows() }
}

// exchange moves rows of the matrices of a chunk between it and the chunks of the other replicas in the same
// slot, in one message for each, which are taken in the order of a sweep.
func (c *Chunk) exchange(kind comm.Kind, of []*tensor.Matrix, out, in side) {
	g, n := c.graph, c.graph.replicas.Size()
	come, gone := make([]*tensor.Matrix, n), make([]*tensor.Matrix, n)
	receive, send := make([][]byte, n), make([][]byte, n)
	message := func(replica int, s side) (*tensor.Matrix, []byte) {
		m := g.team.Memory.New(tensor.Buffers, s.rows(replica), sar.Columns(of))
		return m, m.Bytes()
	}
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		come[replica], receive[replica] = message(replica, in)
		gone[replica], send[replica] = message(replica, out)
		for m, part := range sar.Parts(gone[replica], of) {
			out.move(replica, m, part)
		}
	}
	exchange.Must(g.replicas.AllToAll(kind, send, receive))
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		for m, part := range sar.Parts(come[replica], of) {
			in.move(replica, m, part)
		}
	}
	exchange.Release(come...)
	exchange.Release(gone...)
}

// zeros are rows of zeros for matrices as wide as these.
func (g *Graph) zeros(st *structure, like []*tensor.Matrix) []*tensor.Matrix {
	zeros := exchange.Like(g.team.Memory, st.rows(), like)
	for _, z := range zeros {
		g.team.Zero(z)
	}
	return zeros
}

// EndEpoch ends both passes, and takes the snapshot anew where it is due. What only the passes read is
// released.
func (g *Graph) EndEpoch(epoch int) {
	for _, r := range g.kept {
		g.rewind(r, 0) // all fresh rows are aside
		switch {
		case len(g.Chunks) == 1:
			r.rows, r.aside = nil, r.rows
		case epoch%g.options.Period == 0:
			r.rows, r.aside = r.aside, r.rows
		}
		exchange.Release(r.aside...)
		r.aside = nil
		if g.options.Stale != Keep {
			exchange.Release(r.grads...)
			r.grads = nil
		}
	}
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
			g.kept[key] = &history{st: r.st, rows: r.rows}
			delete(g.passing, key)
		}
	}
	g.warm = false
	g.forget()
}

// forget releases what an inference kept.
func (g *Graph) forget() {
	for _, r := range g.passing {
		exchange.Release(r.rows...)
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
