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

// callKey identifies an aggregation within a chunk's pass.
type callKey struct {
	path   string
	along  gnn.Along
	number int
}

// history is the rows that chunks read of each other in one aggregation, by input matrix.
type history struct {
	st *structure
	// rows are the rows to read. Rows of the first fresh chunks of the order are this epoch's. The others are
	// the snapshot's, at first zeros.
	rows  []*tensor.Matrix
	fresh int
	// aside is the other version of each row: the snapshot's where rows has this epoch's, and this epoch's
	// where the backward pass has restored the snapshot's. It is nil between epochs, and with one chunk.
	aside []*tensor.Matrix
	grads []*tensor.Matrix // the sum of the rows' gradients so far
	// returned is the last gradients from each chunk's remote blocks, by the list of their sources. Only Keep
	// has it.
	returned map[*tensor.Matrix][]*tensor.Matrix
	read     int // how many chunks of an inference have read them
}

// Exchange implements sar.Exchanger.
func (c *Chunk) Exchange(call *sar.Call, t sar.Transfer, yield func(sar.Visit) bool) {
	g, key := c.graph, callKey{call.Path, call.Along, call.Number}
	r := g.history(key)
	switch g.phase {
	case forward:
		c.publish(r, t.Rows)
	case backward:
		g.rewind(r, 1+slices.Index(g.order, c.index))
	case together:
		c.publish(r, t.Rows)
		c.pause()
	}
	if len(t.Grads) > 0 {
		c.expect(r, t.Grads)
	}
	in := g.team.Memory.New(tensor.Buffers, r.st.most, sar.Columns(t.Rows))
	back := g.team.Memory.New(tensor.Buffers, r.st.most, sar.Columns(t.Grads))
	for i, b := range call.Edges.Remote() {
		sources, v := r.st.sources[c.index][i], sar.Visit{Block: b}
		if t.Rows != nil {
			v.Rows = sar.Parts(in.Prefix(b.In.Cols, in.Cols), t.Rows)
			for m, to := range v.Rows {
				g.team.Gather(to, r.rows[m], sources)
			}
		}
		if len(t.Grads) > 0 {
			v.Grads = sar.Parts(back.Prefix(b.In.Cols, back.Cols), t.Grads)
		}
		yield(v)
		if len(t.Grads) > 0 {
			g.addGrads(r, sources, v.Grads)
		}
	}
	exchange.Release(in, back)
	if len(t.Grads) > 0 {
		c.collect(r, t.Grads)
	}
	if g.phase == together {
		g.releaseRead(key, r)
	}
}

// history is the history of an aggregation. The first chunk to reach the aggregation makes it.
func (g *Graph) history(key callKey) *history {
	in := g.kept
	if g.phase == together {
		in = g.inferring
	}
	if in[key] == nil {
		in[key] = &history{st: g.made[key.along]}
	}
	return in[key]
}

// releaseRead releases the history of an aggregation once the last chunk of an inference has read it.
func (g *Graph) releaseRead(key callKey, r *history) {
	if r.read++; r.read == len(g.Chunks) && !g.warm {
		exchange.Release(r.rows...)
		delete(g.inferring, key)
	}
}

// publish stores this epoch's rows of a chunk that others read. It also receives the mirrors of the chunks of
// the same number.
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

// rewind restores the snapshot's rows of all but the first chunks of the order. So it leaves the rows that
// the last of these chunks read in its forward pass.
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

// expect begins the backward pass of an aggregation on a chunk. With DropScale it doubles the gradients from
// later chunks, for the chunk's rows and for its mirrors. Gradients from chunks of the same number come
// afterwards, and count once.
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

// addGrads adds the gradients of a remote block's source rows to those of their chunks. Chunks after this one
// have already collected theirs. So these gradients, of constants, are dropped.
func (g *Graph) addGrads(r *history, sources *tensor.Matrix, grads []*tensor.Matrix) {
	if g.options.Stale == Keep {
		g.replace(r, sources, grads)
		return
	}
	for m, d := range grads {
		g.team.ScatterAdd(r.grads[m], d, sources)
	}
}

// replace adds a block's gradients to those of the source rows' chunks, and subtracts the block's gradients
// of the previous epoch.
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

// collect adds the gradients from other chunks to a chunk's rows, of this replica and of the others.
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

// side is one direction of an exchange between replicas. rows is the number of rows for or from a replica.
// move fills or unpacks a message's part of matrix m.
type side struct {
	rows func(replica int) int
	move func(replica, m int, message *tensor.Matrix)
}

// needed is how many rows of a chunk a replica reads.
func (c *Chunk) needed(st *structure) func(replica int) int {
	return func(replica int) int { return st.needed[replica][c.index].Cols }
}

// mirrors is how many rows this replica reads of another replica's chunk of the same number.
func (c *Chunk) mirrors(st *structure) func(replica int) int {
	return func(replica int) int { return st.of[replica][c.index].rows() }
}

// exchange exchanges rows between a chunk and the other replicas' chunks of the same number, in one message
// each. They are unpacked in the order of a halo exchange.
func (c *Chunk) exchange(kind comm.Kind, of []*tensor.Matrix, out, in side) {
	g, n := c.graph, c.graph.replicas.Size()
	received, sent := make([]*tensor.Matrix, n), make([]*tensor.Matrix, n)
	receive, send := make([][]byte, n), make([][]byte, n)
	message := func(replica int, s side) (*tensor.Matrix, []byte) {
		m := g.team.Memory.New(tensor.Buffers, s.rows(replica), sar.Columns(of))
		return m, m.Bytes()
	}
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		received[replica], receive[replica] = message(replica, in)
		sent[replica], send[replica] = message(replica, out)
		for m, part := range sar.Parts(sent[replica], of) {
			out.move(replica, m, part)
		}
	}
	exchange.Must(g.replicas.AllToAll(kind, send, receive))
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		for m, part := range sar.Parts(received[replica], of) {
			in.move(replica, m, part)
		}
	}
	exchange.Release(received...)
	exchange.Release(sent...)
}

// zeros makes zero matrices of the kept rows, as wide as like.
func (g *Graph) zeros(st *structure, like []*tensor.Matrix) []*tensor.Matrix {
	zeros := exchange.Like(g.team.Memory, st.rows(), like)
	for _, z := range zeros {
		g.team.Zero(z)
	}
	return zeros
}

// EndEpoch ends both passes, and takes a new snapshot if one is due. It releases what only the passes read.
func (g *Graph) EndEpoch(epoch int) {
	for _, r := range g.kept {
		g.rewind(r, 0) // now all of this epoch's rows are in aside
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

// Together runs the forward pass of every chunk, exactly. No chunk continues after an aggregation before all
// have reached it.
func (g *Graph) Together(pass func(k int)) {
	g.phase = together
	g.inLockstep(pass)
	g.forget()
}

// Warm is Together, and makes the rows that chunks read of each other the snapshot.
func (g *Graph) Warm(pass func(k int)) {
	g.phase, g.warm = together, true
	g.inLockstep(pass)
	for key, r := range g.inferring {
		if len(g.Chunks) > 1 {
			g.kept[key] = &history{st: r.st, rows: r.rows}
			delete(g.inferring, key)
		}
	}
	g.warm = false
	g.forget()
}

// forget releases the history of an inference.
func (g *Graph) forget() {
	for _, r := range g.inferring {
		exchange.Release(r.rows...)
	}
	clear(g.inferring)
}

// inLockstep runs a pass of every chunk. Each pauses at every aggregation, once it has published its rows,
// until all have.
func (g *Graph) inLockstep(pass func(k int)) {
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

// stopped ends a chunk's pass after another chunk's pass has failed.
const stopped = "a pass that was stopped"
