package tp

import (
	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// overlap is toRows(inner(toSlices(x))) of a linear aggregation in rounds, one aggregation chunk at a time.
// While a chunk is computed, the rows of later chunks are received, and the results of earlier ones are sent:
//
//	to slices    s0 s1 s2 s3
//	first round     c0 c1 c2 c3
//	last round                   c0 c1 c2 c3       (with one round, the first)
//	to rows                         r0 r1 r2 r3
//
// The sum of a row is never divided among chunks, so it has the same bits for any chunks.
type overlap struct {
	module
	*schedule
	rounds gnn.Rounds
	pass   pass
	// apply computes rows c of one aggregation of x.
	apply func(z, x *tensor.Matrix, to kernel.Output, c rows)
	count func(columns int) // counts an aggregation of so many columns

	receiving, returning     *allToAll     // to slices, and to rows
	arrived, ready, computed chan struct{} // a signal for each chunk; closed early if the work has failed
	// start is for a teleport. In the forward pass it is H⁰, the input of the first round. In the backward
	// pass it is the sum of the gradients of H⁰ so far. It is nil without a teleport.
	start *tensor.Matrix
}

// overlaps reports whether an aggregation can be computed in chunks: it must be linear, and read no rows of
// other partitions.
func (p *propagator) overlaps(r gnn.Reduce, k gnn.Rounds) bool {
	return p.axis.overlapping && r.Linear() && k.Count > 0
}

// newOverlap returns the overlap of a tape's forward or backward pass, for a matrix of so many columns.
func (p *propagator) newOverlap(t *autograd.Tape, phase pass, columns int, r gnn.Reduce, k gnn.Rounds,
) *overlap {
	e, err := p.axis.inner.EdgesOn(t, p.along)
	exchange.Must(err)
	op, err := e.Operator(r)
	exchange.Must(err)
	o := &overlap{
		module: p.module, schedule: p.axis.schedule(direction{p.along, phase}, columns),
		rounds: k, pass: phase,
	}
	o.arrived, o.ready, o.computed = o.signals(), o.signals(), o.signals()
	o.count = func(columns int) { p.axis.inner.Count(o.path, e.Entries(), columns) }
	all, some := op.Apply, op.ApplyRows
	if phase == backward {
		all, some = op.ApplyTransposed, op.ApplyTransposedRows
	}
	o.apply = func(z, x *tensor.Matrix, to kernel.Output, c rows) { some(z, e.Local(), x, to, c.lo, c.hi) }
	if len(o.chunks) == 1 { // only Apply, which computes all rows, can tile the matrix for the cache
		o.apply = func(z, x *tensor.Matrix, to kernel.Output, _ rows) { all(z, e.Local(), x, to) }
	}
	return o
}

// aggregateOverlapped is aggregate, computed in chunks.
func (p *propagator) aggregateOverlapped(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	z := p.axis.team.Memory.NewElement(tensor.Activations, x.Element(), p.to.own.Here, x.Cols())
	on := *p
	on.module = p.on(x.Tape())
	on.newOverlap(x.Tape(), forward, x.Cols(), r, k).run(z, x.Value())
	return x.Tape().Record(autograd.Op{
		Value: z, Inputs: []*autograd.Var{x}, Rows: p.to.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dx := p.axis.team.Memory.NewElement(tensor.Gradients, g.Element, p.from.own.Here, g.Cols)
			on.newOverlap(x.Tape(), backward, g.Cols, r, k).run(dx, g)
			g.Release()
			x.AddGrad(dx)
		},
	})
}

// run computes out from in, both in the row layout. It runs once.
func (o *overlap) run(out, in *tensor.Matrix) {
	cut := even(in.Cols, o.axis.comm.Size())
	x := o.axis.newSlice(o.schedule.from, in.Element, cut)
	o.receiving = o.slicesByChunk([]part{{x: in, z: x, cut: cut}}, o.schedule)
	defer o.receiving.release()
	result := []part{{x: out, cut: cut}}
	o.returning = o.rowsByChunk(result, o.schedule)
	defer o.returning.release()
	if o.rounds.Teleport > 0 {
		o.beginTeleport(x, cut)
	}
	sides := []exchange.Side{
		func(aside *comm.Comm) error { return o.receiving.send(aside, nil) },
		func(aside *comm.Comm) error {
			defer close(o.arrived)
			return o.receiving.receive(aside, 0, len(o.chunks), o.arrived)
		},
		func(aside *comm.Comm) error { return o.returning.send(aside, o.ready) },
		func(aside *comm.Comm) error { return o.returning.receiveComputed(aside, o.computed) },
	}
	exchange.Must(exchange.Beside(o.axis.comm, sides, func() error {
		defer close(o.ready)
		defer close(o.computed)
		o.compute(x, cut)
		return nil
	}))
	if o.start != result[0].z {
		o.start.Release()
	}
	result[0].z.Release()
}

// compute computes all rounds. x is the slice whose rows are being received. The last round's result is sent
// back.
func (o *overlap) compute(x *tensor.Matrix, cut []span) {
	for round := range o.rounds.Count {
		o.count(x.Cols)
		y := o.next(round, x.Element, cut)
		last := round == o.rounds.Count-1
		if last {
			o.returning.parts[0].z = y
		}
		for _, c := range o.chunks {
			if round == 0 && !o.axis.comm.Signalled(o.arrived) {
				return // the receiving side has failed
			}
			o.chunk(round, y, x, c)
			if last {
				o.ready <- struct{}{}
				o.computed <- struct{}{}
			}
		}
		if x != o.start {
			x.Release()
		}
		x = y
	}
}

// beginTeleport prepares rounds with a teleport t, for the received slice x. In the forward pass each round
// computes H ← (1−t)·Â·H + t·H⁰. In the backward pass G is at first the gradient of the last round's result.
// Each round computes ∂L/∂H⁰ += t·G and G ← Âᵀ·(1−t)·G. At the end ∂L/∂H⁰ += G. Between backward rounds x has
// the values (1−t)·G.
func (o *overlap) beginTeleport(x *tensor.Matrix, cut []span) {
	if o.pass == forward {
		o.start = x
		return
	}
	o.start = o.axis.newSlice(o.schedule.from, x.Element, cut)
	team, unpack := o.axis.team, o.receiving.unpack
	o.receiving.unpack = func(buffer *tensor.Matrix, p part, q, row int) {
		team.PutColumns(o.start, buffer, listed(o.sendOrder[q], row, buffer.Rows), 0, kernel.Replace)
		team.Scale(buffer, float32(1-o.rounds.Teleport), buffer)
		unpack(buffer, p, q, row)
	}
}

// next returns the matrix for a round's result: a new one, or start for the last backward round of a
// teleport.
func (o *overlap) next(round int, e tensor.Element, cut []span) *tensor.Matrix {
	if o.sumsGradients() && round == o.rounds.Count-1 {
		return o.start
	}
	return o.axis.newSlice(o.schedule.to, e, cut)
}

// sumsGradients reports whether start is a sum of gradients: in the backward pass of a teleport.
func (o *overlap) sumsGradients() bool { return o.start != nil && o.pass == backward }

// chunk computes rows c of a round: y from x.
func (o *overlap) chunk(round int, y, x *tensor.Matrix, c rows) {
	team := o.axis.team
	share := float32(o.rounds.Teleport)
	rest := float32(1 - o.rounds.Teleport)
	if o.sumsGradients() && round == 0 { // the rows came with this chunk or an earlier one
		team.Scale(c.view(o.start), share, c.view(o.start))
	}
	if o.sumsGradients() && y == o.start {
		o.apply(y, x, kernel.Accumulate, c)
		return
	}
	o.apply(y, x, kernel.Replace, c)
	switch {
	case o.start == nil:
	case o.pass == forward:
		team.Add(c.view(y), share, c.view(o.start), rest, c.view(y))
	default:
		team.Axpy(c.view(o.start), share, c.view(y))
		team.Scale(c.view(y), rest, c.view(y))
	}
}

// signals has capacity for a signal of each chunk, so that sending one never waits.
func (o *overlap) signals() chan struct{} { return make(chan struct{}, len(o.chunks)) }
