package tensor

import (
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/kernel"
	"weft/tensor"
)

// The workers that slice a partition hold the values of its rows in one of two layouts. In the row layout
// each worker has some rows and all columns. In the slice layout it has some columns and all rows. An
// all-to-all among these workers redistributes values from one layout to the other.

// module is a layer of the model, by its module path. Errors name it.
type module struct {
	axis *Axis
	path string
	// format is how values are sent; random keys the draws that encode them.
	format kernel.Format
	random autograd.Random
}

// on is the module in a pass of a tape. In inference values are sent as they are stored.
func (m module) on(t *autograd.Tape) module {
	m.format = kernel.AsStored
	if t.Training {
		m.format, m.random = m.axis.wire, t.Random
	}
	return m
}

// span is a range of columns: those that a worker has in the slice layout.
type span struct{ from, count int }

// even divides the columns evenly. Entry t of the result is the span of worker t.
func even(columns, workers int) []span {
	cut := make([]span, workers)
	for t := range cut {
		from := columns * t / workers
		cut[t] = span{from, columns*(t+1)/workers - from}
	}
	return cut
}

// columnsOf returns the sum of the spans' columns.
func columnsOf(cut []span) (n int) {
	for _, s := range cut {
		n += s.count
	}
	return n
}

// input is a value to redistribute into the slice layout, and each worker's span of its columns.
type input struct {
	x   *autograd.Var
	cut []span
	// back is Accumulate if spans overlap. If several workers have a column, its gradient is the sum of
	// theirs.
	back   kernel.Output
	scores bool // which are sent as they are stored
}

// inputs makes inputs with the same spans, which do not overlap.
func inputs(cut []span, xs ...*autograd.Var) (list []input) {
	for _, x := range xs {
		list = append(list, input{x: x, cut: cut, back: kernel.Replace})
	}
	return list
}

// part is one of the matrices that an all-to-all redistributes. A message has the same rows of every part.
type part struct {
	x *tensor.Matrix // in the row layout
	// z is in the slice layout. If an overlap computes z, it sets z before the first chunk is ready.
	z   *tensor.Matrix
	cut []span // of each worker
	// to says how received rows are stored in x: Accumulate where spans overlap.
	to     kernel.Output
	scores bool // which are sent as they are stored
}

// element returns the element type of both matrices.
func (p *part) element() tensor.Element {
	if p.x != nil {
		return p.x.Element
	}
	return p.z.Element
}

// onSlices returns toRows(inner(toSlices(inputs))). inner gets this worker's columns of all rows. Its
// results, side by side, are this worker's span of cut. A worker with an empty span does not call inner, but
// takes part in every all-to-all, forward and backward. If its partitions take turns, they do so between the
// all-to-alls as those of the other workers do in inner.
func (m module) onSlices(inputs []input, cut []span, inner func(own []*autograd.Var) []*autograd.Var) *autograd.Var {
	own := m.toSlices(inputs)
	parts := own
	if cut[m.axis.comm.Rank()].count > 0 {
		parts = inner(own)
	} else {
		m.axis.idle()
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
	z := m.toRows(h, cut)
	h.Drop()
	return z
}

// toSlices redistributes own rows × all columns into all rows × own columns, in one all-to-all. In the
// backward pass one all-to-all redistributes all gradients, after the last of them is complete.
func (m module) toSlices(inputs []input) (own []*autograd.Var) {
	m = m.on(inputs[0].x.Tape())
	var there, back []part
	wanted := 0
	for _, in := range inputs {
		there = append(there, part{x: in.x.Value(), z: m.axis.slice(in.x.Element(), in.cut), cut: in.cut, scores: in.scores})
		if in.x.Wants() {
			wanted++
		}
	}
	m.moveToSlices(there...)
	var xs []*autograd.Var // of back
	for i, in := range inputs {
		own = append(own, in.x.Tape().Record(autograd.Op{
			Value: there[i].z, Inputs: []*autograd.Var{in.x}, Rows: m.axis.all, Reads: true,
			Backward: func(g *tensor.Matrix) {
				xs, back = slices.Insert(xs, 0, in.x), slices.Insert(back, 0, part{z: g, cut: in.cut, to: in.back, scores: in.scores})
				if len(back) < wanted {
					return
				}
				for k, x := range xs {
					back[k].x = m.axis.team.Memory.NewElement(tensor.Gradients, x.Element(), x.Rows(), x.Cols())
				}
				m.moveToRows(back...)
				for k, x := range xs {
					back[k].z.Release()
					x.AddGrad(back[k].x)
				}
			},
		}))
	}
	return own
}

// toRows redistributes all rows × own columns into own rows × all columns. It is the inverse and the adjoint
// of toSlices where the spans are disjoint and cover all columns.
func (m module) toRows(z *autograd.Var, cut []span) *autograd.Var {
	m = m.on(z.Tape())
	x := m.axis.team.Memory.NewElement(tensor.Activations, z.Element(), m.axis.own.Here, columnsOf(cut))
	m.moveToRows(part{x: x, z: z.Value(), cut: cut})
	return z.Tape().Record(autograd.Op{
		Value: x, Inputs: []*autograd.Var{z}, Rows: m.axis.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dz := m.axis.slice(g.Element, cut)
			m.moveToSlices(part{x: g, z: dz, cut: cut})
			g.Release()
			if dz.Cols == 0 {
				m.axis.halo.Meet()
			}
			z.AddGrad(dz)
		},
	})
}

// moveToSlices fills each part's z, own columns of all rows, from all workers' x.
func (m module) moveToSlices(parts ...part) { m.slicesByChunk(parts, m.axis.oneChunk).run() }

// moveToRows fills each part's x from all workers' z. With Accumulate it adds to zeros: first this worker's
// own values, then the others' in the order of the messages.
func (m module) moveToRows(parts ...part) {
	for _, p := range parts {
		if p.to == kernel.Accumulate {
			m.axis.team.Zero(p.x)
		}
	}
	m.rowsByChunk(parts, m.axis.oneChunk).run()
}

// slice allocates a matrix of own columns of all rows.
func (a *Axis) slice(e tensor.Element, cut []span) *tensor.Matrix {
	return a.team.Memory.NewElement(tensor.Activations, e, a.all.Here, cut[a.comm.Rank()].count)
}

// slicesByChunk returns the all-to-all from each part's x to its z. It sends rows in the order of the
// schedule.
func (m module) slicesByChunk(parts []part, o *schedule) *allToAll {
	team := m.axis.team
	return m.newAllToAll(allToAll{
		kind: comm.ToSlices, parts: parts, chunks: len(o.chunks),
		of:       func(owner, chunk int) rows { return rows{o.offsets[owner][chunk], o.offsets[owner][chunk+1]} },
		sentRows: func(owner int) *tensor.Matrix { return o.sendOrder[owner] },
		pack: func(buffer *tensor.Matrix, p part, q, row int) {
			if o.ownOrder == nil {
				team.PickColumns(buffer, p.x.RowRange(row, row+buffer.Rows), nil, p.cut[q].from)
				return
			}
			team.PickColumns(buffer, p.x, listed(o.ownOrder, row, buffer.Rows), p.cut[q].from)
		},
		unpack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PutColumns(p.z, buffer, listed(o.sendOrder[q], row, buffer.Rows), 0, kernel.Replace)
		},
	})
}

// rowsByChunk returns the all-to-all from each part's z to its x.
func (m module) rowsByChunk(parts []part, o *schedule) *allToAll {
	team := m.axis.team
	return m.newAllToAll(allToAll{
		kind: comm.ToRows, parts: parts, chunks: len(o.chunks),
		of:       func(owner, chunk int) rows { return o.results[owner][chunk] },
		sentRows: func(owner int) *tensor.Matrix { return m.axis.rowsOf[owner] },
		pack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PickColumns(buffer, p.z, listed(m.axis.rowsOf[q], row, buffer.Rows), 0)
		},
		unpack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PutColumns(p.x.RowRange(row, row+buffer.Rows), buffer, nil, p.cut[q].from, p.to)
		},
	})
}
