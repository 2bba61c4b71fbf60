package tensor

import (
	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/tensor"
)

// layout is how the values of a partition's rows lie over the workers that slice it: each has some rows and
// all columns (row layout), or some columns and all rows (slice layout).
type layout struct {
	team     *kernel.Team
	comm     *comm.Comm                     // the slices of the partition
	rows     []*tensor.Matrix               // Int32, 1 × n: those of the partition's rows that each worker owns, ascending
	own      *autograd.RowSet               // the worker's own rows
	all      *autograd.RowSet               // all of the partition's
	switched func(site string, bytes int64) // Options.Switched
	epoch    int                            // for errors
}

// place is where a model switches between layouts; errors name it.
type place struct {
	*layout
	site string
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

// through is gather(inner(split(x))): inner works on own columns of all rows, and results in as many.
func (l place) through(x *autograd.Var, cut []span, inner func(s *autograd.Var) *autograd.Var) *autograd.Var {
	s := l.split(x, cut)
	h := inner(s)
	if h != s {
		s.Drop()
	}
	z := l.gather(h, cut)
	h.Drop()
	return z
}

// split turns own rows × all columns into all rows × own columns of the cut. Spans may overlap: what goes to
// several workers comes back added up.
func (l place) split(x *autograd.Var, cut []span) *autograd.Var {
	return x.Tape().Record(autograd.Op{
		Value: l.toSlices(x.Value(), cut), Inputs: []*autograd.Var{x}, Rows: l.all, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dx := l.team.Memory.New(tensor.Gradients, x.Rows(), x.Cols())
			l.toRows(dx, g, cut)
			g.Release()
			x.AddGrad(dx)
		},
	})
}

// gather turns all rows × own columns back into own rows × all columns. It is the inverse of split, and its
// adjoint, where the spans of the cut are all columns and do not overlap.
func (l place) gather(z *autograd.Var, cut []span) *autograd.Var {
	x := l.team.Memory.New(tensor.Activations, l.own.Here, columnsOf(cut))
	l.toRows(x, z.Value(), cut)
	return z.Tape().Record(autograd.Op{
		Value: x, Inputs: []*autograd.Var{z}, Rows: l.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dz := l.toSlices(g, cut)
			g.Release()
			z.AddGrad(dz)
		},
	})
}

// columnsOf are how many columns a cut has together.
func columnsOf(cut []span) (n int) {
	for _, s := range cut {
		n += s.count
	}
	return n
}

// toSlices is the worker's columns of all rows, of x in the row layout.
func (l place) toSlices(x *tensor.Matrix, cut []span) *tensor.Matrix {
	mine := cut[l.comm.Rank()]
	z := l.team.Memory.New(tensor.Activations, l.all.Here, mine.count)
	l.move(switching{
		kind: comm.ToSlices,
		out:  func(q int) extent { return extent{0, x.Rows, cut[q].count} },
		in:   func(q int) extent { return extent{0, l.rows[q].Cols, mine.count} },
		pack: func(room *tensor.Matrix, q, row int) {
			l.team.PickColumns(room, x.RowRange(row, row+room.Rows), nil, cut[q].from)
		},
		take: func(room *tensor.Matrix, q, row int) {
			l.team.PutColumns(z, room, listed(l.rows[q], row, room.Rows), 0, kernel.Replace)
		},
	})
	return z
}

// toRows makes x, in the row layout, of the workers' columns z. Where these overlap, or leave some out, they
// are added to zeros: the own ones, and then in the order of the messages.
func (l place) toRows(x, z *tensor.Matrix, cut []span) {
	to := kernel.Replace
	if columnsOf(cut) != x.Cols {
		l.team.Zero(x)
		to = kernel.Accumulate
	}
	l.move(switching{
		kind: comm.ToRows,
		out:  func(q int) extent { return extent{0, l.rows[q].Cols, z.Cols} },
		in:   func(q int) extent { return extent{0, x.Rows, cut[q].count} },
		pack: func(room *tensor.Matrix, q, row int) {
			l.team.PickColumns(room, z, listed(l.rows[q], row, room.Rows), 0)
		},
		take: func(room *tensor.Matrix, q, row int) {
			l.team.PutColumns(x.RowRange(row, row+room.Rows), room, nil, cut[q].from, to)
		},
	})
}
