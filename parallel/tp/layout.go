package tp

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// The workers that slice a partition hold the values of its rows in one of two layouts. In the row layout
// each worker has some rows and all columns. In the slice layout it has some columns and all rows. An
// all-to-all among these workers redistributes values from one layout to the other.

// module is a layer of the model, by its module path. Errors name it.
type module struct {
	axis *Axis
	path string
	// from and to are the rows of the sources and of the targets.
	from, to *vertexRows
	// format is how values are sent. random keys the draws that encode them.
	format kernel.Format
	random autograd.Random
}

// on is the module in a pass on a tape. In inference values are sent as they are stored.
func (m module) on(t *autograd.Tape) module {
	m.format = kernel.AsStored
	if t.Training {
		m.format, m.random = m.axis.wire, t.Random
	}
	return m
}

// span is a range of columns, which a worker has in the slice layout.
type span struct{ from, count int }

// even divides the columns evenly. Entry t of the result is the span of worker t.
func even(columns, workers int) []span {
	cut := make([]span, workers)
	for t := range cut {
		cut[t] = span{columns * t / workers, Columns(columns, workers, t)}
	}
	return cut
}

// Columns is how many of some columns a slice has.
func Columns(columns, slices, slice int) int {
	return columns*(slice+1)/slices - columns*slice/slices
}

// columnsOf returns the sum of the spans' columns.
func columnsOf(cut []span) (n int) {
	for _, s := range cut {
		n += s.count
	}
	return n
}

// input is a value x of some vertices to redistribute into the slice layout, and each worker's span of its
// columns.
type input struct {
	x        *autograd.Var
	vertices *vertexRows
	cut      []span
	// back is Accumulate if spans overlap. If several workers have a column, its gradient is the sum of
	// theirs.
	back   kernel.Output
	scores bool // scores are sent as they are stored
}

// inputs makes inputs from a value of the sources and one of the targets. A nil value is left out, and so is
// the second if both are the same. Their spans are equal and do not overlap.
func (m module) inputs(cut []span, source, target *autograd.Var) (list []input) {
	if source != nil {
		list = append(list, input{x: source, vertices: m.from, cut: cut, back: kernel.Replace})
	}
	if target != nil && target != source {
		list = append(list, input{x: target, vertices: m.to, cut: cut, back: kernel.Replace})
	}
	return list
}

// part is one of the matrices that an all-to-all redistributes. A message has the same rows of every part.
type part struct {
	x *tensor.Matrix // in the row layout
	// z is in the slice layout. If an overlap computes z, it sets z before the first chunk is ready.
	z   *tensor.Matrix
	cut []span // of each worker
	// to says how received rows are stored in x: Accumulate if spans overlap.
	to     kernel.Output
	scores bool // scores are sent as they are stored
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
// takes part in every all-to-all, forward and backward. If its partitions take turns, they take them between
// the all-to-alls, as partitions of other workers do in inner. read are values without rows that inner reads,
// this worker's columns of them. They get gradients there, too: they may depend on sums over all workers.
func (m module) onSlices(inputs []input, cut []span,
	inner func(own []*autograd.Var) []*autograd.Var, read ...*autograd.Var,
) *autograd.Var {
	own := m.toSlices(inputs)
	var parts []*autograd.Var
	if cut[m.axis.comm.Rank()].count > 0 {
		parts = inner(own)
	} else {
		m.axis.idle()
		parts = []*autograd.Var{m.nothing(slices.Concat(own, read))}
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

// nothing replaces an aggregation of no columns: its result has no columns, and the inputs get gradients
// without columns.
func (m module) nothing(own []*autograd.Var) *autograd.Var {
	none := func(x *autograd.Var, rows int, kind tensor.Kind) *tensor.Matrix {
		return m.axis.team.Memory.NewElement(kind, x.Element(), rows, 0)
	}
	return own[0].Tape().Record(autograd.Op{
		Value: none(own[0], m.to.all.Here, tensor.Activations), Inputs: own, Rows: m.to.all,
		Backward: func(g *tensor.Matrix) {
			g.Release()
			for _, x := range own {
				if x.RequiresGrad() {
					x.AddGrad(none(x, x.Rows(), tensor.Gradients))
				}
			}
		},
	})
}

// toSlices redistributes own rows × all columns into all rows × own columns. Values of the sources go in one
// all-to-all, and values of targets of another vertex type in another one.
func (m module) toSlices(inputs []input) (own []*autograd.Var) {
	for len(inputs) > 0 {
		n := slices.IndexFunc(inputs, func(in input) bool { return in.vertices != inputs[0].vertices })
		if n < 0 {
			n = len(inputs)
		}
		own = append(own, m.toSlicesOf(inputs[0].vertices, inputs[:n])...)
		inputs = inputs[n:]
	}
	return own
}

// toSlicesOf is toSlices for values of one vertex type. In the backward pass one all-to-all redistributes all
// gradients, once the last of them is complete.
func (m module) toSlicesOf(vertices *vertexRows, inputs []input) (own []*autograd.Var) {
	m = m.on(inputs[0].x.Tape())
	var there, back []part
	wanted := 0
	for _, in := range inputs {
		there = append(there, part{
			x: in.x.Value(), z: m.axis.newSlice(vertices, in.x.Element(), in.cut),
			cut: in.cut, scores: in.scores,
		})
		if in.x.RequiresGrad() {
			wanted++
		}
	}
	m.moveToSlices(vertices, there...)
	var xs []*autograd.Var // the inputs with gradients
	for i, in := range inputs {
		own = append(own, in.x.Tape().Record(autograd.Op{
			Value: there[i].z, Inputs: []*autograd.Var{in.x}, Rows: vertices.all, Reads: true,
			Backward: func(g *tensor.Matrix) {
				xs = slices.Insert(xs, 0, in.x)
				back = slices.Insert(back, 0, part{z: g, cut: in.cut, to: in.back, scores: in.scores})
				if len(back) < wanted {
					return
				}
				for k, x := range xs {
					back[k].x = m.axis.team.Memory.NewElement(tensor.Gradients, x.Element(),
						x.Rows(), x.Cols())
				}
				m.moveToRows(vertices, back...)
				for k, x := range xs {
					back[k].z.Release()
					x.AddGrad(back[k].x)
				}
			},
		}))
	}
	return own
}

// toRows redistributes all rows × own columns into own rows × all columns. If the spans are disjoint and
// cover all columns, it is the inverse and the adjoint of toSlices.
func (m module) toRows(z *autograd.Var, cut []span) *autograd.Var {
	m = m.on(z.Tape())
	x := m.axis.team.Memory.NewElement(tensor.Activations, z.Element(), m.to.own.Here, columnsOf(cut))
	m.moveToRows(m.to, part{x: x, z: z.Value(), cut: cut})
	return z.Tape().Record(autograd.Op{
		Value: x, Inputs: []*autograd.Var{z}, Rows: m.to.own, Reads: true,
		Backward: func(g *tensor.Matrix) {
			dz := m.axis.newSlice(m.to, g.Element, cut)
			m.moveToSlices(m.to, part{x: g, z: dz, cut: cut})
			g.Release()
			if dz.Cols == 0 {
				m.axis.halo.LocalBarrier()
			}
			z.AddGrad(dz)
		},
	})
}

// OnSlices implements gnn.Slicer. One all-to-all redistributes the rows of each type into slices, and another
// one the result into rows.
func (a *Axis) OnSlices(path string, x []*autograd.Var,
	f func(x []*autograd.Var) *autograd.Var,
) *autograd.Var {
	a.costs.Layer(path).Explain(func() string {
		return fmt.Sprintf("aggregate %d columns of all relations, in all rounds", x[0].Cols())
	})
	m := module{axis: a, path: path, from: a.types[0], to: a.types[0]}
	cut := even(x[0].Cols(), a.comm.Size())
	var in []input
	for i, v := range x {
		if v != nil {
			in = append(in, input{x: autograd.Dense(v), vertices: a.types[i], cut: cut, back: kernel.Replace})
		}
	}
	return m.onSlices(in, cut, func(own []*autograd.Var) []*autograd.Var {
		all := slices.Clone(x)
		for i, v := range x {
			if v != nil {
				all[i], own = own[0], own[1:]
			}
		}
		return []*autograd.Var{f(all)}
	})
}

// SlicePropagator implements gnn.Slicer. Workers that share the edges make them here, together: in an epoch a
// worker without columns would not.
func (a *Axis) SlicePropagator(path string, along gnn.Along) gnn.Propagator {
	p := a.inner.Propagator(path, along)
	if a.common {
		_, err := a.inner.Edges(along)
		exchange.Must(err)
	}
	return p
}

// moveToSlices fills each part's z, which has own columns of all rows of a vertex type, from all workers' x.
func (m module) moveToSlices(vertices *vertexRows, parts ...part) {
	m.slicesByChunk(parts, vertices.once).run()
}

// moveToRows fills each part's x from all workers' z. With Accumulate it adds to zeros: first this worker's
// own values, then the others' in the order of the messages.
func (m module) moveToRows(vertices *vertexRows, parts ...part) {
	for _, p := range parts {
		if p.to == kernel.Accumulate {
			m.axis.team.Zero(p.x)
		}
	}
	m.rowsByChunk(parts, vertices.once).run()
}

// newSlice allocates a matrix of own columns of all rows of a vertex type.
func (a *Axis) newSlice(vertices *vertexRows, e tensor.Element, cut []span) *tensor.Matrix {
	return a.team.Memory.NewElement(tensor.Activations, e, vertices.all.Here, cut[a.comm.Rank()].count)
}

// slicesByChunk returns the all-to-all from each part's x to its z. It sends rows in the order of the
// schedule.
func (m module) slicesByChunk(parts []part, o *schedule) *allToAll {
	team := m.axis.team
	return m.newAllToAll(allToAll{
		kind: comm.ToSlices, rowsOf: o.from.rowsOf, parts: parts, chunks: len(o.chunks),
		chunkRows: func(owner, chunk int) rows {
			return rows{o.offsets[owner][chunk], o.offsets[owner][chunk+1]}
		},
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
		kind: comm.ToRows, rowsOf: o.to.rowsOf, parts: parts, chunks: len(o.chunks),
		chunkRows: func(owner, chunk int) rows { return o.results[owner][chunk] },
		sentRows:  func(owner int) *tensor.Matrix { return o.to.rowsOf[owner] },
		pack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PickColumns(buffer, p.z, listed(o.to.rowsOf[q], row, buffer.Rows), 0)
		},
		unpack: func(buffer *tensor.Matrix, p part, q, row int) {
			team.PutColumns(p.x.RowRange(row, row+buffer.Rows), buffer, nil, p.cut[q].from, p.to)
		},
	})
}
