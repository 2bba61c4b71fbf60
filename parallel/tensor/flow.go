package tensor

import (
	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// flow is gather(inner(split(x))) of a linear aggregation, or of several of them, chunk by chunk: while a
// chunk is computed the rows that the next ones need are on their way in, and those that are done on their
// way out.
//
//	split   s0 s1 s2 s3
//	first      c0 c1 c2 c3
//	last                    c0 c1 c2 c3       (with one round, the first)
//	gather                     g0 g1 g2 g3
//
// Each row is computed at once, whatever the chunks are, and so has the same bits.
type flow struct {
	place
	*schedule
	rounds int
	// apply is rows lo … hi−1 of one round
	apply func(z, x *tensor.Matrix, lo, hi int)
	count func(columns int) // a round of so many columns
}

// flows reports whether an aggregation can be made chunk by chunk: a linear one of rows that are all here.
func (p *propagator) flows(r gnn.Reduce, k gnn.Rounds) bool {
	return len(p.axis.starts) == 2 && r.Kind != gnn.KindMax && k.Count > 0 && k.Teleport == 0
}

// flow is that of a pass.
func (p *propagator) flow(way pass, r gnn.Reduce, k gnn.Rounds) *flow {
	e, err := p.axis.inner.Edges(p.along)
	exchange.Must(err)
	o, err := e.Operator(r)
	exchange.Must(err)
	f := &flow{place: p.place, schedule: p.axis.schedule(direction{p.along, way}), rounds: k.Count}
	f.count = func(columns int) { p.axis.inner.Count(f.site, e, columns) }
	f.apply = func(z, x *tensor.Matrix, lo, hi int) { o.ApplyRows(z, e.Local(), x, lo, hi) }
	if way == backward {
		f.apply = func(z, x *tensor.Matrix, lo, hi int) { o.ApplyTransposedRows(z, e.Local(), x, lo, hi) }
	}
	return f
}

// flowing is the flow on a tape.
func (p *propagator) flowing(x *autograd.Var, r gnn.Reduce, k gnn.Rounds) *autograd.Var {
	z := p.team.Memory.New(tensor.Activations, p.own.Here, x.Cols())
	p.flow(forward, r, k).run(z, x.Value())
	return x.Tape().Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Reads: true, Backward: func(g *tensor.Matrix) {
		dx := p.team.Memory.New(tensor.Gradients, g.Rows, g.Cols)
		p.flow(backward, r, k).run(dx, g)
		g.Release()
		x.AddGrad(dx)
	}})
}

// stream is one of a flow's switches: what one worker gives another with a chunk.
type stream struct {
	kind       comm.Kind
	of         func(sender, receiver, chunk int) extent
	whole      func(sender, receiver int) extent // with all chunks
	pack, take func(room *tensor.Matrix, q, row int)
}

// run makes out of in, both in the row layout.
func (f *flow) run(out, in *tensor.Matrix) {
	cut, me := even(in.Cols, f.comm.Size()), f.comm.Rank()
	f.comm.At(f.epoch, f.site)
	x := f.team.Memory.New(tensor.Activations, f.all.Here, cut[me].count)
	split := &stream{
		kind:  comm.ToSlices,
		of:    func(s, r, j int) extent { return extent{f.come[s][j], f.come[s][j+1], cut[r].count} },
		whole: func(s, r int) extent { return extent{0, f.rows[s].Cols, cut[r].count} },
		pack: func(room *tensor.Matrix, q, row int) {
			f.team.PickColumns(room, in, listed(f.places, row, room.Rows), cut[q].from)
		},
		take: func(room *tensor.Matrix, q, row int) {
			f.team.PutColumns(x, room, listed(f.order[q], row, room.Rows), 0, kernel.Replace)
		},
	}
	var z *tensor.Matrix // of the last round
	gather := &stream{
		kind:  comm.ToRows,
		of:    func(s, r, j int) extent { return extent{f.done[r][j].lo, f.done[r][j].hi, cut[s].count} },
		whole: func(s, r int) extent { return extent{0, f.rows[r].Cols, cut[s].count} },
		pack: func(room *tensor.Matrix, q, row int) {
			f.team.PickColumns(room, z, listed(f.rows[q], row, room.Rows), 0)
		},
		take: func(room *tensor.Matrix, q, row int) {
			f.team.PutColumns(out.RowRange(row, row+room.Rows), room, nil, cut[q].from, kernel.Replace)
		},
	}
	f.tell(f.outgoing(split))
	f.tell(f.outgoing(gather))
	var sides []exchange.Side
	var taken []*tensor.Matrix
	beside := func(side func(aside *comm.Comm, rooms []*tensor.Matrix) error, rooms []*tensor.Matrix) {
		taken = append(taken, rooms...)
		sides = append(sides, func(aside *comm.Comm) error { return side(aside, rooms) })
	}
	come, ready, done := f.signals(), f.signals(), f.signals()
	beside(func(aside *comm.Comm, rooms []*tensor.Matrix) error { return f.send(aside, split, rooms, nil) }, f.rooms(f.ahead(), f.outgoing(split)))
	beside(func(aside *comm.Comm, rooms []*tensor.Matrix) error {
		defer close(come)
		return f.takeIn(aside, split, rooms, come)
	}, f.rooms(f.ahead(), f.incoming(split)))
	beside(func(aside *comm.Comm, rooms []*tensor.Matrix) error { return f.send(aside, gather, rooms, ready) }, f.rooms(f.ahead(), f.outgoing(gather)))
	beside(func(aside *comm.Comm, rooms []*tensor.Matrix) error { return f.collect(aside, gather, rooms, done) }, f.rooms(f.ahead(), f.incoming(gather)))
	kept := f.rooms(1, append(split.whole(me, me).pieces(me), gather.whole(me, me).pieces(me)...))
	defer exchange.Release(append(taken, kept...)...)

	exchange.Must(exchange.Beside(f.comm, sides, func() error {
		defer close(ready)
		defer close(done)
		for j := range f.chunks {
			keep(kept[0], split.of(me, me, j).pieces(me), split.pack, split.take)
		}
		for round := range f.rounds {
			f.count(x.Cols)
			y := f.team.Memory.New(tensor.Activations, x.Rows, x.Cols)
			if round == f.rounds-1 {
				z = y
			}
			for j, c := range f.chunks {
				if round == 0 && !f.await(come) {
					y.Release()
					return nil // the side that takes them in has failed
				}
				f.apply(y, x, c.lo, c.hi)
				if z != nil {
					keep(kept[0], gather.of(me, me, j).pieces(me), gather.pack, gather.take)
					ready <- struct{}{}
					done <- struct{}{}
				}
			}
			x.Release()
			x = y
		}
		return nil
	}))
	x.Release()
}

// signals has room for one of each chunk: nobody waits to give one.
func (f *flow) signals() chan struct{} { return make(chan struct{}, len(f.chunks)) }

// await waits for a signal, and reports whether it came.
func (f *flow) await(signals <-chan struct{}) (came bool) {
	f.comm.Await(func() { _, came = <-signals })
	return came
}

// outgoing and incoming are all messages of a stream, for their sizes.
func (f *flow) outgoing(s *stream) []piece {
	return f.pieces(1, func(q int) extent { return s.whole(f.comm.Rank(), q) })
}

func (f *flow) incoming(s *stream) []piece {
	return f.pieces(-1, func(q int) extent { return s.whole(q, f.comm.Rank()) })
}

// comes are the messages that come with a chunk.
func (f *flow) comes(s *stream, chunk int) []piece {
	return f.pieces(-1, func(q int) extent { return s.of(q, f.comm.Rank(), chunk) })
}

// send is the side that sends each chunk's messages, once it is ready; nil: all are.
func (f *flow) send(aside *comm.Comm, s *stream, rooms []*tensor.Matrix, ready <-chan struct{}) error {
	sender := &exchange.Sender{Comm: aside, Kind: s.kind, Rooms: rooms}
	for j := range f.chunks {
		if ready != nil {
			if _, came := <-ready; !came {
				break // the work has failed
			}
		}
		list := f.pieces(1, func(q int) extent { return s.of(f.comm.Rank(), q, j) })
		if err := sendAll(sender, list, s.pack); err != nil {
			return err
		}
	}
	return sender.Finish()
}

// takeIn is the side that takes in what the chunks need, and says of each that all of it has come.
func (f *flow) takeIn(aside *comm.Comm, s *stream, rooms []*tensor.Matrix, come chan<- struct{}) error {
	receiver := &exchange.Receiver{Comm: aside, Kind: s.kind, Rooms: rooms}
	for j := range f.chunks {
		expectAll(receiver, f.comes(s, j))
	}
	for j := range f.chunks {
		if err := takeAll(receiver, f.comes(s, j), s.take); err != nil {
			return err
		}
		come <- struct{}{}
	}
	return nil
}

// collect is the side that takes in the results of each chunk. It waits for them from where this worker has
// its own, as the others then have theirs too, or are late.
func (f *flow) collect(aside *comm.Comm, s *stream, rooms []*tensor.Matrix, done <-chan struct{}) error {
	for j := range f.chunks {
		if _, came := <-done; !came {
			return nil // the work has failed
		}
		receiver, list := &exchange.Receiver{Comm: aside, Kind: s.kind, Rooms: rooms}, f.comes(s, j)
		expectAll(receiver, list)
		if err := takeAll(receiver, list, s.take); err != nil {
			return err
		}
	}
	return nil
}
