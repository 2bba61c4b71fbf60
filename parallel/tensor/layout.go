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

// part is one of the matrices that a switch moves: the rows of several travel together.
type part struct {
	x   *tensor.Matrix // in the row layout
	z   *tensor.Matrix // in the slice layout; of a flow's gather it is there when the first chunk is ready
	cut []span
	// to is, of what comes into the row layout, Accumulate where spans overlap.
	to kernel.Output
}

// through is gather(inner(split(x))) of some inputs: inner works on own columns of all rows, and what it
// gives, side by side, are own columns of the cut. It is not asked where the worker has none there; all
// switches, forward and backward, are made all the same.
func (s site) through(inputs []input, cut []span, inner func(own []*autograd.Var) []*autograd.Var) *autograd.Var {
	own := s.split(inputs)
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

// split turns own rows × all columns into all rows × own columns, in one switch. So is the way back: the
// gradients go when the last of those that are asked for is there.
func (s site) split(inputs []input) (own []*autograd.Var) {
	var there, back []part
	wanted := 0
	for _, in := range inputs {
		there = append(there, part{x: in.x.Value(), z: s.axis.slice(in.cut), cut: in.cut})
		if in.x.Wants() {
			wanted++
		}
	}
	s.toSlices(there...)
	var xs []*autograd.Var // of back
	for i, in := range inputs {
		own = append(own, in.x.Tape().Record(autograd.Op{
			Value: there[i].z, Inputs: []*autograd.Var{in.x}, Rows: s.axis.all, Reads: true,
			Backward: func(g *tensor.Matrix) {
				xs, back = slices.Insert(xs, 0, in.x), slices.Insert(back, 0, part{z: g, cut: in.cut, to: in.back})
				if len(back) < wanted {
					return
				}
				for k, x := range xs {
					back[k].x = s.axis.team.Memory.New(tensor.Gradients, x.Rows(), x.Cols())
				}
				s.toRows(back...)
				for k, x := range xs {
					back[k].z.Release()
					x.AddGrad(back[k].x)
				}
			},
		}))
	}
	return own
}

// gather turns all rows × own columns back into own rows × all columns. It is the inverse of split, and its
// adjoint, where the spans of the cut are all columns and do not overlap.
func (s site) gather(z *autograd.Var, cut []span) *autograd.Var {
	x := s.axis.team.Memory.New(tensor.Activations, s.axis.own.Here, columnsOf(cut))
	s.toRows(part{x: x, z: z.Value(), cut: cut})
	return z.Tape().Record(autograd.Op{
		Value: x, Inputs: []*autograd.Var{z}, Rows: s.axis.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dz := s.axis.slice(cut)
			s.toSlices(part{x: g, z: dz, cut: cut})
			g.Release()
			z.AddGrad(dz)
		},
	})
}

// toSlices makes each part's z, own columns of all rows, of the workers' x.
func (s site) toSlices(parts ...part) { s.splitting(parts, s.axis.atOnce).run() }

// toRows makes each part's x of the workers' z. With Accumulate they are added to zeros: the own ones, and
// then in the order of the messages.
func (s site) toRows(parts ...part) {
	for _, p := range parts {
		if p.to == kernel.Accumulate {
			s.axis.team.Zero(p.x)
		}
	}
	s.gathering(parts, s.axis.atOnce).run()
}

// slice is memory for own columns of all rows.
func (a *Axis) slice(cut []span) *tensor.Matrix {
	return a.team.Memory.New(tensor.Activations, a.all.Here, cut[a.comm.Rank()].count)
}

// splitting is the switch of each part's x into its z. Rows travel in the order of the schedule.
func (s site) splitting(parts []part, o *schedule) *stream {
	team := s.axis.team
	return s.open(stream{
		kind: comm.ToSlices, parts: parts, chunks: len(o.chunks),
		of: func(owner, chunk int) rows { return rows{o.come[owner][chunk], o.come[owner][chunk+1]} },
		pack: func(buffer *tensor.Matrix, p part, q, row int) {
			if o.mine == nil {
				team.PickColumns(buffer, p.x.RowRange(row, row+buffer.Rows), nil, p.cut[q].from)
				return
			}
			team.PickColumns(buffer, p.x, listed(o.mine, row, buffer.Rows), p.cut[q].from)
		},
		take: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PutColumns(p.z, buffer, listed(o.travel[q], row, buffer.Rows), 0, kernel.Replace)
		},
	})
}

// gathering is the switch of each part's z into its x.
func (s site) gathering(parts []part, o *schedule) *stream {
	team := s.axis.team
	return s.open(stream{
		kind: comm.ToRows, parts: parts, chunks: len(o.chunks),
		of: func(owner, chunk int) rows { return o.parts[owner][chunk] },
		pack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PickColumns(buffer, p.z, listed(s.axis.rowsOf[q], row, buffer.Rows), 0)
		},
		take: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PutColumns(p.x.RowRange(row, row+buffer.Rows), buffer, nil, p.cut[q].from, p.to)
		},
	})
}
