package tensor

import (
	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// flow is gather(inner(split(x))) of a linear aggregation in rounds, chunk by chunk: while a chunk is
// computed the rows that the next ones need are on their way in, and those that are done on their way out.
//
//	split   s0 s1 s2 s3
//	first      c0 c1 c2 c3
//	last                    c0 c1 c2 c3       (with one round, the first)
//	gather                     g0 g1 g2 g3
//
// Each row is computed at once, whatever the chunks are, and so has the same bits.
type flow struct {
	site
	*schedule
	rounds gnn.Rounds
	way    pass
	// apply is rows c of one aggregation of x.
	apply func(z, x *tensor.Matrix, to kernel.Output, c rows)
	count func(columns int) // an aggregation of so many columns

	split, gather            *stream
	arrived, ready, computed chan struct{} // say so of each chunk, or are closed where the work has failed
	// start is what a teleport needs besides: forward the rows that the rounds begin with, backward their
	// gradient so far.
	start *tensor.Matrix
}

// flows reports whether an aggregation can be made chunk by chunk: a linear one of rows that are all here.
func (p *propagator) flows(r gnn.Reduce, k gnn.Rounds) bool {
	return p.axis.alone() && r.Kind != gnn.KindMax && k.Count > 0
}

// flow is that of a pass over rows of so many columns.
func (p *propagator) flow(way pass, columns int, r gnn.Reduce, k gnn.Rounds) *flow {
	e, err := p.axis.inner.Edges(p.along)
	exchange.Must(err)
	o, err := e.Operator(r)
	exchange.Must(err)
	f := &flow{site: p.site, schedule: p.axis.schedule(direction{p.along, way}, columns), rounds: k, way: way}
	f.arrived, f.ready, f.computed = f.signals(), f.signals(), f.signals()
	f.count = func(columns int) { p.axis.inner.Count(f.path, e, columns) }
	all, some := o.Apply, o.ApplyRows
	if way == backward {
		all, some = o.ApplyTransposed, o.ApplyTransposedRows
	}
	f.apply = func(z, x *tensor.Matrix, to kernel.Output, c rows) { some(z, e.Local(), x, to, c.lo, c.hi) }
	if len(f.chunks) == 1 { // only all rows may be gathered from a cut matrix
		f.apply = func(z, x *tensor.Matrix, to kernel.Output, _ rows) { all(z, e.Local(), x, to) }
	}
	return f
}

// flowing is the flow on a tape.
func (p *propagator) flowing(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	z := p.axis.team.Memory.New(tensor.Activations, p.axis.own.Here, x.Cols())
	p.flow(forward, x.Cols(), r, k).run(z, x.Value())
	return x.Tape().Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Reads: true, Backward: func(g *tensor.Matrix) {
		dx := p.axis.team.Memory.New(tensor.Gradients, g.Rows, g.Cols)
		p.flow(backward, g.Cols, r, k).run(dx, g)
		g.Release()
		x.AddGrad(dx)
	}})
}

// run makes out of in, both in the row layout, once.
func (f *flow) run(out, in *tensor.Matrix) {
	cut := even(in.Cols, f.axis.comm.Size())
	x := f.axis.slice(cut)
	f.split = f.splitting([]part{{x: in, z: x, cut: cut}}, f.schedule)
	defer f.split.close()
	result := []part{{x: out, cut: cut}}
	f.gather = f.gathering(result, f.schedule)
	defer f.gather.close()
	if f.rounds.Teleport > 0 {
		f.begin(x, cut)
	}
	sides := []exchange.Side{
		func(aside *comm.Comm) error { return f.split.send(aside, nil) },
		func(aside *comm.Comm) error {
			defer close(f.arrived)
			return f.split.receive(aside, 0, len(f.chunks), f.arrived)
		},
		func(aside *comm.Comm) error { return f.gather.send(aside, f.ready) },
		func(aside *comm.Comm) error { return f.gather.collect(aside, f.computed) },
	}
	exchange.Must(exchange.Beside(f.axis.comm, sides, func() error {
		defer close(f.ready)
		defer close(f.computed)
		f.compute(x, cut)
		return nil
	}))
	if f.start != result[0].z {
		f.start.Release()
	}
	result[0].z.Release()
}

// compute makes the rounds, of what the split makes x, for the gather.
func (f *flow) compute(x *tensor.Matrix, cut []span) {
	for round := range f.rounds.Count {
		f.count(x.Cols)
		y, last := f.next(round, cut), round == f.rounds.Count-1
		if last {
			f.gather.parts[0].z = y
		}
		for _, c := range f.chunks {
			if round == 0 && !f.await(f.arrived) {
				return // the side that takes them in has failed
			}
			f.chunk(round, y, x, c)
			if last {
				f.ready <- struct{}{}
				f.computed <- struct{}{}
			}
		}
		if x != f.start {
			x.Release()
		}
		x = y
	}
}

// begin prepares a teleport, for what the split makes x. Forward each round is H ← (1−t)·Â·H + t·H⁰.
// Backward, from the gradient G of the last, each is ∂L/∂H⁰ += t·G; G ← Âᵀ·(1−t)·G; and in the end ∂L/∂H⁰ +=
// G. Between the rounds there x is (1−t)·G.
func (f *flow) begin(x *tensor.Matrix, cut []span) {
	if f.way == forward {
		f.start = x
		return
	}
	f.start = f.axis.slice(cut)
	team, take := f.axis.team, f.split.take
	f.split.take = func(buffer *tensor.Matrix, of part, q, row int) {
		team.PutColumns(f.start, buffer, listed(f.travel[q], row, buffer.Rows), 0, kernel.Replace)
		team.Scale(buffer, float32(1-f.rounds.Teleport), buffer)
		take(buffer, of, q, row)
	}
}

// next is memory for what a round gives. Backward with a teleport the last one adds to the sum of the others.
func (f *flow) next(round int, cut []span) *tensor.Matrix {
	if f.adds() && round == f.rounds.Count-1 {
		return f.start
	}
	return f.axis.slice(cut)
}

// adds reports whether start is a sum.
func (f *flow) adds() bool { return f.start != nil && f.way == backward }

// chunk is rows c of a round, y of x.
func (f *flow) chunk(round int, y, x *tensor.Matrix, c rows) {
	team, share, rest := f.axis.team, float32(f.rounds.Teleport), float32(1-f.rounds.Teleport)
	if f.adds() && round == 0 { // the rows have come with the chunk, or before
		team.Scale(c.of(f.start), share, c.of(f.start))
	}
	if f.adds() && y == f.start {
		f.apply(y, x, kernel.Accumulate, c)
		return
	}
	f.apply(y, x, kernel.Replace, c)
	switch {
	case f.start == nil:
	case f.way == forward:
		team.Add(c.of(y), share, c.of(f.start), rest, c.of(y))
	default:
		team.Axpy(c.of(f.start), share, c.of(y))
		team.Scale(c.of(y), rest, c.of(y))
	}
}

// signals holds one of each chunk: nobody waits to give one.
func (f *flow) signals() chan struct{} { return make(chan struct{}, len(f.chunks)) }

// await waits for a signal, and reports whether it came.
func (f *flow) await(signals <-chan struct{}) (came bool) {
	f.axis.comm.Await(func() { _, came = <-signals })
	return came
}
