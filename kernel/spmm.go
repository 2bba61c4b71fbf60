package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// CSR is a sparse Rows × Cols matrix in compressed rows: row i has entries Indptr[i] … Indptr[i+1]−1, entry k
// in column Indices[k].
type CSR struct {
	Rows, Cols int
	Indptr     *tensor.Matrix // Int64, 1 × Rows+1
	Indices    *tensor.Matrix // Int32, 1 × entries, ascending within a row
	Values     *tensor.Matrix // Float32, 1 × entries; nil: all one

	// Hubs are the rows of so many entries that threads share them, as FindHubs finds them. Without, each row
	// is one thread's.
	Hubs []int
}

// Entries returns the number of stored entries.
func (a *CSR) Entries() int { return a.Indices.Cols }

// entriesOf is how many of them are in rows first…last−1, which are taken to be as long as the others.
func (a *CSR) entriesOf(first, last int) int {
	return int(int64(a.Entries()) * int64(last-first) / int64(max(1, a.Rows)))
}

func (a *CSR) c() C.weft_edges {
	return C.weft_edges{
		indptr: longs(a.Indptr), indices: ints(a.Indices), entries: C.int64_t(a.Entries()),
		others:    C.int64_t(a.Cols),
		skip_hubs: boolean(len(a.Hubs) > 0),
	}
}

// ends returns where the rows' entries end, behind the last of each.
func ends(a *CSR) *C.int64_t { return (*C.int64_t)(unsafe.Add(unsafe.Pointer(longs(a.Indptr)), 8)) }

// structure is what a kernel over all of a's rows reads of it.
func (a *CSR) structure() []*tensor.Matrix { return []*tensor.Matrix{a.Indptr, a.Indices, a.Values} }

// Release gives the arrays back.
func (a *CSR) Release() {
	a.Indptr.Release()
	a.Indices.Release()
	a.Values.Release()
}

// Scales are the factors of an aggregation, each one column or nil for ones: Row per destination, Col per
// source, Self (nil for zeros) the weight of the destination's own row, for a matrix whose sources and
// destinations are the same rows.
type Scales struct {
	Row, Col, Self *tensor.Matrix
}

// SpMM is the aggregation z_i = row_i · (Σ_{j in row i of a} a_ij · col_j · x_j + self_i · x_i), for x a.Cols
// × columns and z a.Rows × columns. Each of them is Float32 or BFloat16; z is rounded when a row's sum is
// complete.
func (t *Team) SpMM(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output) {
	args := spmmArgs(z, a, x, s, to)
	if c := t.tiling(a, x, z.Element, to == Accumulate); c != nil {
		c.spmm(args, a, x)
		c.release()
	} else {
		t.edges(spmmOn(z, a, x, s, to), unsafe.Pointer(args), a, a.Hubs, x.Cols)
	}
	t.spmmHubs(args, z, a, x, s)
}

// SpMMRows is rows lo…hi−1 of SpMM, with the bits that they have there, in the same rows of z. It reads those
// rows of x alone that are their sources or, with self weights, they themselves. It never uses tiles.
func (t *Team) SpMMRows(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output, lo, hi int) {
	some := a.hubsOf(lo, hi)
	args := spmmArgs(z, some, x, s, to)
	r := spmmOn(z, some, x, s, to)
	r.bytes = r.bytes.times(hi-lo, a.Rows)
	t.edgesOf(r, unsafe.Pointer(args), some, lo, hi, some.Hubs, x.Cols)
	t.spmmHubs(args, z, some, x, s)
}

// spmmOn is the kernel for all rows of a.
func spmmOn(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output) routine {
	r := on(C.weft_spmm, x).needs(a.structure()...).needs(s.Row).gathers(a.Entries(), x, s.Col)
	if s.Self != nil {
		r = r.needs(s.Self, x)
	}
	if to == Accumulate {
		return r.streams(z, z)
	}
	return r.writes(z)
}

func spmmArgs(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output) *C.weft_spmm_args {
	check("input", x, a.Cols, z.Cols)
	check("output", z, a.Rows, x.Cols)
	if s.Self != nil {
		check("input with self weights", x, a.Rows, z.Cols)
	}
	return &C.weft_spmm_args{
		z: either(z), z_type: C.int32_t(typeOf(z)), x: storage(x), own: storage(x),
		z_stride: C.int64_t(z.Cols), x_stride: C.int64_t(x.Cols), edges: a.c(), end: ends(a),
		weights: floats(a.Values), row_scale: floats(s.Row), col_scale: floats(s.Col), self: floats(s.Self),
		cols:       C.int64_t(x.Cols),
		accumulate: boolean(to == Accumulate),
	}
}

// spmmHubs does what args describe for the hubs of a, part by part.
func (t *Team) spmmHubs(args *C.weft_spmm_args, z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales) {
	p := t.parts(a, nil, nil)
	part := *args
	part.z, part.z_type, part.row_scale = either(p.sums(z)), C.WEFT_FLOAT32, floats(p.copies(s.Row))
	part.edges, part.end, part.self, part.accumulate = p.c(), ends(&p.CSR), nil, 0
	for row, begins := range p.each() {
		if begins {
			ownTerm(p.sum(z), x, s, row, args.accumulate != 0)
		}
		p.run(on(C.weft_spmm, x), unsafe.Pointer(&part))
	}
	p.release()
}

// ownTerm is what SpMM gives for a row without entries, z from x.
func ownTerm(z []float32, x *tensor.Matrix, s Scales, row int, accumulate bool) {
	if !accumulate {
		clear(z)
	}
	if s.Self == nil || s.Self.Floats()[row] == 0 {
		return
	}
	factor := s.Self.Floats()[row]
	if s.Row != nil {
		factor *= s.Row.Floats()[row]
	}
	for c, v := range numbers(x, row) {
		z[c] += factor * v
	}
}

// Max is z_ic = max_{j in row i} x_jc, and arg (Int32) the id of the source that gave it; ids (Int32, nil:
// the row) are the sources' vertices, and the smallest wins a tie. NaN is larger than any number. A row
// without in-neighbours has 0 and −1. loops (Int32) is positive for the rows that are their own in-neighbour
// besides (nil: none); the matrix holds no self loops then.
func (t *Team) Max(z, arg *tensor.Matrix, a *CSR, x, ids, loops *tensor.Matrix, to Output) {
	first := to == Replace
	check("input", x, a.Cols, z.Cols)
	check("output", z, a.Rows, x.Cols)
	check("arg", arg, a.Rows, x.Cols)
	args := &C.weft_max_args{
		z: storage(z), arg: ints(arg), x: storage(x), edges: a.c(),
		source_ids: ints(ids), loops: ints(loops), cols: C.int64_t(x.Cols), first: boolean(first),
	}
	r := on(C.weft_max, z, x).needs(a.structure()...).writes(z, arg).gathers(a.Entries(), x)
	if !first {
		r = r.streams(z, arg)
	}
	t.edges(r, unsafe.Pointer(args), a, a.Hubs, x.Cols)
	p := t.parts(a, nil, nil)
	partZ, partArg := t.scratch(x.Element, lanes, x.Cols), t.scratch(tensor.Int32, lanes, x.Cols)
	part := *args
	part.z, part.arg = storage(partZ), ints(partArg)
	part.edges, part.loops, part.first = p.c(), nil, 1
	for row, begins := range p.each() {
		top := maxima{numbers(z, row), arg.Int32s()[row*x.Cols : (row+1)*x.Cols]}
		if begins && first {
			top.begin()
		}
		if begins && hasLoop(loops, row) {
			id := vertex(ids, row)
			for c, v := range numbers(x, row) {
				top.merge(c, v, id)
			}
		}
		p.run(r, unsafe.Pointer(&part))
		for lane := range lanes {
			for c, v := range numbers(partZ, lane) {
				top.merge(c, v, partArg.Int32s()[lane*x.Cols+c])
			}
		}
		setNumbers(z, row, top.z)
	}
	partZ.Release()
	partArg.Release()
	p.release()
}

// maxima are the largest values of a row and the ids of their sources, −1 for none, as in max.h.
type maxima struct {
	z   []float32
	arg []int32
}

// begin makes them those of no value.
func (m maxima) begin() {
	clear(m.z)
	for c := range m.arg {
		m.arg[c] = -1
	}
}

// merge extends column c by a value and its source's id; −1 stands for no value.
func (m maxima) merge(c int, v float32, id int32) {
	old, at := m.z[c], m.arg[c]
	nan, oldNaN := v != v, old != old
	if id >= 0 && (at < 0 || v > old || nan && !oldNaN || (v == old || nan) && id < at) {
		m.z[c], m.arg[c] = v, id
	}
}

// MaxBackward adds to dx_j the g_ic of every out-neighbour i whose arg is j; transposed is the transpose of
// Max's matrix.
func (t *Team) MaxBackward(dx *tensor.Matrix, transposed *CSR, g, arg, ids, loops *tensor.Matrix) {
	check("gradient", g, transposed.Cols, dx.Cols)
	check("input gradient", dx, transposed.Rows, g.Cols)
	args := &C.weft_max_back_args{
		dx: either(dx), dx_type: C.int32_t(typeOf(dx)), g: storage(g), arg: ints(arg), edges: transposed.c(),
		source_ids: ints(ids),
		loops:      ints(loops), cols: C.int64_t(g.Cols),
	}
	r := on(C.weft_max_back, g).needs(transposed.structure()...).writes(dx).streams(dx).
		gathers(transposed.Entries(), g, arg)
	t.edges(r, unsafe.Pointer(args), transposed, transposed.Hubs, g.Cols)
	p := t.parts(transposed, nil, ids)
	part := *args
	part.dx, part.dx_type, part.source_ids = either(p.sums(dx)), C.WEFT_FLOAT32, ints(p.ids)
	part.edges, part.loops = p.c(), nil
	for row, begins := range p.each() {
		if begins && hasLoop(loops, row) {
			id, sum := vertex(ids, row), p.sum(dx)
			for c, v := range numbers(g, row) {
				if arg.Int32s()[row*g.Cols+c] == id {
					sum[c] += v
				}
			}
		}
		p.run(r, unsafe.Pointer(&part))
	}
	p.release()
}

// MaskEntries returns the copy of a's values with a mask by (row, column), or by (column, row) where a is the
// transpose of the matrix that the mask belongs to.
func (t *Team) MaskEntries(a *CSR, m Mask, read Orientation) *tensor.Matrix {
	out := t.scratch(tensor.Float32, 1, a.Entries())
	values := a.Values
	if values == nil {
		t.Fill(out, 1)
		values = out
	}
	args := &C.weft_sparse_mask_args{
		out: floats(out), values: floats(values), edges: a.c(),
		transposed: boolean(read == Transposed), mask: m.c(),
	}
	t.edges(on(C.weft_sparse_mask).streams(a.structure()...).streams(out), unsafe.Pointer(args), a, nil, 32)
	return out
}

// Densify is z = a as a dense matrix, Float32 or BFloat16.
func (t *Team) Densify(z *tensor.Matrix, a *CSR) {
	check("dense form", z, a.Rows, a.Cols)
	t.Zero(z)
	t.Parallel(tiles(a.Rows), func(k int) {
		indptr, columns := a.Indptr.Int64s(), a.Indices.Int32s()
		for r := k * C.WEFT_TILE; r < min((k+1)*C.WEFT_TILE, a.Rows); r++ {
			row := numbers(z, r)
			for e := indptr[r]; e < indptr[r+1]; e++ {
				value := float32(1)
				if a.Values != nil {
					value = a.Values.Floats()[e]
				}
				row[columns[e]] += value
			}
			setNumbers(z, r, row)
		}
	})
}

// Transpose returns the transpose of a, its rows' entries in ascending order, charged to kind.
func (t *Team) Transpose(a *CSR, kind tensor.Kind) *CSR {
	b := &CSR{
		Rows: a.Cols, Cols: a.Rows,
		Indptr:  t.Memory.NewElement(kind, tensor.Int64, 1, a.Cols+1),
		Indices: t.Memory.NewElement(kind, tensor.Int32, 1, a.Entries()),
	}
	if a.Values != nil {
		b.Values = t.Memory.New(kind, 1, a.Entries())
	}
	b.SetTranspose(a)
	return b
}

// SetTranspose makes a, which has the sizes of b's transpose, that, where this worker writes a. It is done
// once for each matrix, on one thread.
func (a *CSR) SetTranspose(b *CSR) {
	from, columns := b.Indptr.ReadInt64s(), b.Indices.ReadInt32s()
	next, rows := a.Indptr.WriteInt64s(), a.Indices.WriteInt32s()
	if len(next) == 0 {
		return
	}
	var values, to []float32
	if b.Values != nil {
		values, to = b.Values.ReadFloats(), a.Values.WriteFloats()
	}
	clear(next)
	for _, c := range columns {
		next[c+1]++
	}
	for c := range b.Cols {
		next[c+1] += next[c]
	}
	for r := range b.Rows {
		for k := from[r]; k < from[r+1]; k++ {
			c := columns[k]
			rows[next[c]] = int32(r)
			if values != nil {
				to[next[c]] = values[k]
			}
			next[c]++
		}
	}
	copy(next[1:], next[:b.Cols]) // each entry moved to its row's end, which is the next row's start
	next[0] = 0
	a.FindHubs()
}
