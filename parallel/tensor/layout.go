package tensor

import (
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/tensor"
)

// The values of a partition's rows lie over the workers that slice it in one of two ways: each has some rows
// and all columns (row layout), or some columns and all rows (slice layout).

// site is a place of a model that switches between layouts; errors name it.
type site struct {
	axis *Axis
	path string
}

// span is some columns in a row: those that a worker has in the slice layout.
type span struct{ from, count int }

// even are equal shares of so many columns for so many workers.
func even(columns, workers int) []span {
	cut := make([]span, workers)
	for t := range cut {
		from := columns * t / workers
		cut[t] = span{from, columns*(t+1)/workers - from}
	}
	return cut
}

// columnsOf are how many columns a cut has together.
func columnsOf(cut []span) (n int) {
	for _, s := range cut {
		n += s.count
	}
	return n
}

// input is a value that is split, and how.
type input struct {
	x   *autograd.Var
	cut []span
	// back is Accumulate where spans overlap: the gradients of what went to several workers are added up.
	back kernel.Output
}

// inputs are values that are cut alike, into spans that do not overlap.
func inputs(cut []span, xs ...*autograd.Var) (list []input) {
	for _, x := range xs {
		list = append(list, input{x, cut, kernel.Replace})
	}
	return list
}

// through is gather(inner(split(x))) of some inputs: inner works on own columns of all rows, and what it
// gives, side by side, are own columns of the cut. It is not asked where the worker has none there; all
// switches, forward and backward, are made all the same.
func (s site) through(inputs []input, cut []span, inner func(own []*autograd.Var) []*autograd.Var) *autograd.Var {
	var own []*autograd.Var
	for _, in := range inputs {
		own = append(own, s.split(in))
	}
	parts := own
	if cut[s.axis.comm.Rank()].count > 0 {
		parts = inner(own)
	}
	h := parts[0]
	if len(parts) > 1 {
		h = autograd.Join(parts...)
	}
	for _, x := range slices.Concat(own, parts) {
		if x != h {
			x.Drop()
		}
	}
	z := s.gather(h, cut)
	h.Drop()
	return z
}

// split turns own rows × all columns into all rows × own columns.
func (s site) split(in input) *autograd.Var {
	return in.x.Tape().Record(autograd.Op{
		Value: s.toSlices(in.x.Value(), in.cut), Inputs: []*autograd.Var{in.x}, Rows: s.axis.all, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dx := s.axis.team.Memory.New(tensor.Gradients, in.x.Rows(), in.x.Cols())
			s.toRows(dx, g, in.cut, in.back)
			g.Release()
			in.x.AddGrad(dx)
		},
	})
}

// gather turns all rows × own columns back into own rows × all columns. It is the inverse of split, and its
// adjoint, where the spans of the cut are all columns and do not overlap.
func (s site) gather(z *autograd.Var, cut []span) *autograd.Var {
	x := s.axis.team.Memory.New(tensor.Activations, s.axis.own.Here, columnsOf(cut))
	s.toRows(x, z.Value(), cut, kernel.Replace)
	return z.Tape().Record(autograd.Op{
		Value: x, Inputs: []*autograd.Var{z}, Rows: s.axis.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dz := s.toSlices(g, cut)
			g.Release()
			z.AddGrad(dz)
		},
	})
}

// toSlices is the worker's columns of all rows, of x in the row layout.
func (s site) toSlices(x *tensor.Matrix, cut []span) *tensor.Matrix {
	z := s.axis.slice(cut)
	s.splitting(z, x, cut, s.axis.atOnce).run()
	return z
}

// toRows makes x, in the row layout, of the workers' columns z. With Accumulate they are added to zeros: the
// own ones, and then in the order of the messages.
func (s site) toRows(x, z *tensor.Matrix, cut []span, to kernel.Output) {
	if to == kernel.Accumulate {
		s.axis.team.Zero(x)
	}
	s.gathering(x, z, cut, s.axis.atOnce, to).run()
}

// slice is memory for own columns of all rows.
func (a *Axis) slice(cut []span) *tensor.Matrix {
	return a.team.Memory.New(tensor.Activations, a.all.Here, cut[a.comm.Rank()].count)
}

// splitting is the switch of x, in the row layout, into own columns z of all rows. Rows travel in the order
// of the schedule.
func (s site) splitting(z, x *tensor.Matrix, cut []span, o *schedule) *stream {
	team := s.axis.team
	return s.open(stream{
		kind: comm.ToSlices, chunks: len(o.chunks), from: x,
		of: func(sender, receiver, chunk int) extent {
			return extent{rows{o.come[sender][chunk], o.come[sender][chunk+1]}, cut[receiver].count}
		},
		whole: func(sender, receiver int) extent { return s.axis.allOf(sender, cut[receiver]) },
		pack: func(room, x *tensor.Matrix, q, row int) {
			if o.mine == nil {
				team.PickColumns(room, x.RowRange(row, row+room.Rows), nil, cut[q].from)
				return
			}
			team.PickColumns(room, x, listed(o.mine, row, room.Rows), cut[q].from)
		},
		take: func(room *tensor.Matrix, q, row int) {
			team.PutColumns(z, room, listed(o.travel[q], row, room.Rows), 0, kernel.Replace)
		},
	})
}

// gathering is the switch of own columns z of all rows into x, in the row layout.
func (s site) gathering(x, z *tensor.Matrix, cut []span, o *schedule, to kernel.Output) *stream {
	team := s.axis.team
	return s.open(stream{
		kind: comm.ToRows, chunks: len(o.chunks), from: z,
		of:    func(sender, receiver, chunk int) extent { return extent{o.parts[receiver][chunk], cut[sender].count} },
		whole: func(sender, receiver int) extent { return s.axis.allOf(receiver, cut[sender]) },
		pack: func(room, z *tensor.Matrix, q, row int) {
			team.PickColumns(room, z, listed(s.axis.rowsOf[q], row, room.Rows), 0)
		},
		take: func(room *tensor.Matrix, q, row int) {
			team.PutColumns(x.RowRange(row, row+room.Rows), room, nil, cut[q].from, to)
		},
	})
}
