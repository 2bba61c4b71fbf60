package chunked

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/tensor"
)

// history is the buffer of one aggregation: the rows that chunks read of each other. Slices have an entry for
// each matrix that the aggregation reads (attention with given scores reads two).
type history struct {
	key sar.Key
	st  *structure
	// rows has the rows that chunks read. For the first fresh chunks of the order they are of this epoch, and
	// for the others of the snapshot. The first snapshot is zeros.
	rows  []*tensor.Matrix
	fresh int
	// other has the other version of each row: of the snapshot if rows is of this epoch, and of this epoch if
	// the backward pass has restored the snapshot. It is nil between epochs, and with one chunk.
	other []*tensor.Matrix
	grads []*tensor.Matrix // the sum of the rows' gradients so far
	// returned has the gradients of each remote block in the previous epoch, by the block's list of sources.
	// Only Keep uses it.
	returned map[*tensor.Matrix][]*tensor.Matrix
	read     int // number of chunks of an inference that have read rows
}

// Begin implements sar.Exchanger: chunks read each other's rows in the history alone.
func (c *Chunk) Begin(*sar.Call, sar.Transfer, func(sar.Visit) bool) {}

// Exchange implements sar.Exchanger.
func (c *Chunk) Exchange(call *sar.Call, t sar.Transfer, yield func(sar.Visit) bool) {
	g, key := c.graph, call.Key
	r := g.history(key)
	switch g.phase {
	case forward:
		c.publish(r, call, t.Rows)
	case backward:
		g.now.rewind(r, 1+slices.Index(g.now.order, c.index))
	case inference:
		c.publish(r, call, t.Rows)
		c.pause()
	}
	if t.Returns() {
		c.beginBackward(r, t.Grads)
	}
	rows, grads := exchange.FormOf(t.Rows), exchange.FormOf(t.Grads)
	in, back := rows.New(g.team.Memory, 1, r.st.most)[0], grads.New(g.team.Memory, 1, r.st.most)[0]
	for i, b := range call.Edges.Remote() {
		sources, v := r.st.sources[c.index][i], sar.Visit{Block: b}
		if t.Rows != nil {
			v.Rows = rows.Parts(in.Prefix(b.In.Cols, in.Cols))
			for m, to := range v.Rows {
				g.team.Gather(to, r.rows[m], sources)
			}
		}
		if t.Returns() {
			v.Grads = grads.Parts(back.Prefix(b.In.Cols, back.Cols))
		}
		yield(v)
		if t.Returns() {
			g.addGrads(r, sources, v.Grads)
		}
	}
	exchange.Release(in, back)
	if t.Returns() {
		c.collect(r, call, &t)
	}
	r.dontNeed()
	if g.phase == inference {
		g.releaseRead(key, r)
	}
}

// history returns the history of an aggregation, and makes it for the first chunk that computes it.
func (g *Graph) history(key sar.Key) *history {
	in := g.inferring
	if g.phase != inference {
		in = g.now.read
	}
	if in[key] == nil {
		in[key] = &history{key: key, st: g.made[key.Along]}
	}
	return in[key]
}

// ordered are histories in the order of their names in a checkpoint, which is the same in every run.
func (g *Graph) ordered(histories map[sar.Key]*history) []*history {
	return slices.SortedFunc(maps.Values(histories), func(a, b *history) int {
		return strings.Compare(g.saved.Name(a.key, "", 0), g.saved.Name(b.key, "", 0))
	})
}

// resting lets matrices of a history rest.
func resting(ms []*tensor.Matrix) []*tensor.Matrix {
	for _, m := range ms {
		m.Unpin()
	}
	return ms
}

// dontNeed says that the turn at work no longer uses the history.
func (r *history) dontNeed() {
	for _, m := range slices.Concat(r.rows, r.other, r.grads) {
		m.DontNeed()
	}
}

// releaseRead releases the history of an aggregation once the last chunk of an inference has read it.
func (g *Graph) releaseRead(key sar.Key, r *history) {
	r.read++
	if r.read == len(g.Chunks) && !g.warm {
		exchange.Release(r.rows...)
		delete(g.inferring, key)
	}
}

// publish stores the rows of a chunk that other chunks read, and exchanges mirrors: it sends rows that other
// replicas read, and receives rows of their chunks of the same number.
func (c *Chunk) publish(r *history, call *sar.Call, xs []*tensor.Matrix) {
	g, st := c.graph, r.st
	stored := st.stored[c.index]
	if r.rows == nil {
		r.rows = g.initial(r.key, "rows", func() []*tensor.Matrix { return g.zeros(st, xs) })
	}
	if len(g.Chunks) > 1 && g.phase == forward {
		if r.other == nil {
			r.other = resting(exchange.Like(g.team.Memory, st.rows(), xs))
		}
		for m, rows := range r.rows {
			g.team.Copy(stored.view(r.other[m]), stored.view(rows))
		}
		r.fresh++
	}
	for m, x := range xs {
		g.team.Gather(st.spans[g.me][c.index].view(r.rows[m]), x, st.own[c.index])
	}
	form, ids := call.Form(xs), c.part.Types()[st.source].IDs
	out := side{c.needed(st), func(replica, m int, message *tensor.Matrix) {
		form[m].Encode(g.team, message, xs[m], st.needed[replica][c.index], call.Draws(m, ids))
	}}
	in := side{c.mirrors(st), func(replica, m int, message *tensor.Matrix) {
		form[m].Decode(g.team, st.spans[replica][c.index].view(r.rows[m]), message, nil, kernel.Replace)
	}}
	c.exchange(comm.Halo, form, out, in)
}

// rewind restores the snapshot for all but the first slots chunks of the order. The history then has the rows
// that the last of these chunks read in its forward pass.
func (p *ChunkPass) rewind(r *history, slots int) {
	team := p.graph.team
	for ; r.fresh > slots; r.fresh-- {
		stored := r.st.stored[p.order[r.fresh-1]]
		for m := range r.rows {
			rows, other := stored.view(r.rows[m]), stored.view(r.other[m])
			fresh := team.Memory.NewElement(tensor.Buffers, rows.Element, rows.Rows, rows.Cols)
			team.Copy(fresh, rows)
			team.Copy(rows, other)
			team.Copy(other, fresh)
			fresh.Release()
		}
	}
}

// beginBackward begins the backward pass of an aggregation on a chunk. With DropScale it doubles the
// gradients that later chunks have added, to the chunk's rows and to the mirrors of its number. Gradients
// from other replicas' chunks of the same number come afterwards, and are not doubled.
func (c *Chunk) beginBackward(r *history, dxs []*tensor.Matrix) {
	g := c.graph
	if r.grads == nil {
		r.grads = g.initial(r.key, "gradients", func() []*tensor.Matrix { return g.zeros(r.st, dxs) })
	}
	if g.options.StaleGradients == axis.DropScale {
		for _, d := range r.grads {
			theirs := r.st.stored[c.index].view(d)
			g.team.Scale(theirs, 2, theirs)
		}
	}
}

// addGrads adds the gradients of a remote block's source rows to the history. What it adds for sources in
// chunks after this one is dropped: these rows were constants, and their chunks have already collected
// gradients.
func (g *Graph) addGrads(r *history, sources *tensor.Matrix, grads []*tensor.Matrix) {
	if g.options.StaleGradients == axis.Keep {
		g.replace(r, sources, grads)
		return
	}
	for m, d := range grads {
		g.team.ScatterAdd(r.grads[m], d, sources)
	}
}

// replace adds a block's gradients to the history, and subtracts the block's gradients of the previous epoch.
func (g *Graph) replace(r *history, sources *tensor.Matrix, grads []*tensor.Matrix) {
	old := r.returned[sources]
	if old == nil {
		if r.returned == nil {
			r.returned = map[*tensor.Matrix][]*tensor.Matrix{}
		}
		old = g.initial(r.key, r.st.returnedBy(sources), func() (zeros []*tensor.Matrix) {
			for _, d := range grads {
				zeros = append(zeros, g.team.Zeros(tensor.Buffers, d.Rows, d.Cols)) // Float32, as grads are
			}
			return zeros
		})
		r.returned[sources] = old
	}
	for m, d := range grads {
		g.team.Scale(old[m], -1, old[m])
		g.team.Axpy(old[m], 1, d) // the change
		g.team.ScatterAdd(r.grads[m], old[m], sources)
		g.team.Copy(old[m], d)
	}
}

// collect adds to a chunk's rows the gradients that other chunks of this and of other replicas computed.
func (c *Chunk) collect(r *history, call *sar.Call, t *sar.Transfer) {
	g, st := c.graph, r.st
	for m, dx := range t.Grads {
		g.team.ScatterAdd(dx, st.spans[g.me][c.index].view(r.grads[m]), st.own[c.index])
	}
	out := side{c.mirrors(st), func(replica, m int, message *tensor.Matrix) {
		// They have no ids: draws are keyed by their numbers, apart for each pair of replicas and chunk.
		mirrors := st.spans[replica][c.index]
		draws := call.GradientDraws(m, (g.me*g.replicas.Size()+replica)*len(g.Chunks)+c.index, nil)
		t.Sent[m].Encode(g.team, message, mirrors.view(r.grads[m]), nil, draws)
	}}
	in := side{c.needed(st), func(replica, m int, message *tensor.Matrix) {
		t.Sent[m].Decode(g.team, t.Grads[m], message, st.needed[replica][c.index], kernel.Accumulate)
	}}
	c.exchange(comm.HaloGradient, t.Sent, out, in)
}

// side is one direction of an exchange between replicas, sending or receiving. rows returns the number of
// rows to or from a replica. move packs or unpacks the part of a message that belongs to matrix m.
type side struct {
	rows func(replica int) int
	move func(replica, m int, message *tensor.Matrix)
}

// needed counts the rows of a chunk that a replica reads.
func (c *Chunk) needed(st *structure) func(replica int) int {
	return func(replica int) int { return st.needed[replica][c.index].Cols }
}

// mirrors counts the rows that this replica reads of another replica's chunk of the same number.
func (c *Chunk) mirrors(st *structure) func(replica int) int {
	return func(replica int) int { return st.spans[replica][c.index].rows() }
}

// exchange exchanges rows between a chunk and the other replicas' chunks of the same number, in one message
// each. It unpacks them in the order of a halo exchange.
func (c *Chunk) exchange(kind comm.Kind, form exchange.Form, out, in side) {
	g := c.graph
	n := c.graph.replicas.Size()
	received, sent := make([]*tensor.Matrix, n), make([]*tensor.Matrix, n)
	receives, sends := make([]exchange.Arriving, n), make([]*comm.Pending, n)
	message := func(replica int, s side) *tensor.Matrix {
		return form.New(g.team.Memory, 1, s.rows(replica))[0]
	}
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		received[replica], sent[replica] = message(replica, in), message(replica, out)
		for m, part := range form.Parts(sent[replica]) {
			out.move(replica, m, part)
		}
		receives[step] = exchange.Receive(g.replicas, kind, received[replica], replica)
		sends[step] = exchange.Send(g.replicas, kind, sent[replica], replica)
	}
	for step := 1; step < n; step++ {
		replica := (g.me - step + n) % n
		exchange.Must(receives[step].Wait())
		for m, part := range form.Parts(received[replica]) {
			in.move(replica, m, part)
		}
	}
	for step := 1; step < n; step++ {
		exchange.Must(sends[step].Wait())
	}
	exchange.Release(received...)
	exchange.Release(sent...)
}

// zeros makes a zero matrix for each matrix in like, with a row for each stored row and as many columns.
func (g *Graph) zeros(st *structure, like []*tensor.Matrix) []*tensor.Matrix {
	zeros := exchange.Like(g.team.Memory, st.rows(), like)
	for _, z := range zeros {
		g.team.Zero(z)
	}
	return zeros
}

// End ends the pass. Every Period epochs it makes the epoch's rows the new snapshot. It releases what only
// the pass uses, and leaves the rest to the next one.
func (p *ChunkPass) End() {
	g := p.graph
	for _, r := range g.ordered(p.read) {
		p.rewind(r, 0) // now all rows of this epoch are in other
		switch {
		case len(g.Chunks) == 1:
			r.rows, r.other = nil, r.rows
		case p.epoch%g.options.HistoryPeriod == 0:
			r.rows, r.other = r.other, r.rows
		}
		exchange.Release(r.other...)
		r.other = nil
		if g.options.StaleGradients != axis.Keep {
			exchange.Release(r.grads...)
			r.grads = nil
		}
		r.dontNeed()
	}
	g.lasting = p.read
}

// Lockstep runs the forward pass of every chunk, for an exact inference. At each aggregation every chunk
// waits until all chunks have stored their rows.
func (g *Graph) Lockstep(pass func(k int)) {
	g.phase = inference
	g.inLockstep(pass)
	g.forget()
}

// Warm is Lockstep. It makes the rows that it stores the snapshot.
func (g *Graph) Warm(pass func(k int)) {
	g.phase, g.warm = inference, true
	g.inLockstep(pass)
	for key, r := range g.inferring {
		if len(g.Chunks) > 1 {
			g.lasting[key] = &history{key: key, st: r.st, rows: r.rows}
			delete(g.inferring, key)
		}
	}
	g.warm = false
	g.forget()
}

// forget releases the history of an inference.
func (g *Graph) forget() {
	for _, r := range g.ordered(g.inferring) {
		exchange.Release(r.rows...)
	}
	clear(g.inferring)
}

// inLockstep runs a pass of every chunk, each as a coroutine. At every aggregation a chunk publishes its rows
// and pauses until all chunks have done so.
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
		for k, next := range running {
			g.team.Memory.NextTurn(k == 0)
			_, more = next()
		}
	}
}

// stopped ends a chunk's pass after another chunk's pass has failed.
const stopped = "a pass that was stopped"
