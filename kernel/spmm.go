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

	// Segments are the parts into which FindSegments cuts rows of more than 16384 entries, so that threads
	// share such a row. Without segments one thread computes each row. On a device the segments of rows of
	// more than 2048 entries follow, because attention cuts them there, too.
	Segments []Segment
	long     int            // number of segments of rows of more than 16384 entries, which come first
	list     *tensor.Matrix // Int64: all segments in a device's memory, a row for each; nil: there are none
	listed   int            // the row in list of the first of Segments
}

// Entries returns the number of stored entries.
func (a *CSR) Entries() int { return a.Indices.Cols }

// entriesOf returns the number of entries of rows first…last−1, if all rows were equally long.
func (a *CSR) entriesOf(first, last int) int {
	return int(int64(a.Entries()) * int64(last-first) / int64(max(1, a.Rows)))
}

func (a *CSR) c() C.weft_edges {
	return C.weft_edges{
		indptr: longs(a.Indptr), indices: ints(a.Indices), entries: C.int64_t(a.Entries()),
		others:  C.int64_t(a.Cols),
		longest: C.int32_t(a.longest()),
	}
}

// ends returns the positions behind the last entry of each row.
func ends(a *CSR) *C.int64_t { return (*C.int64_t)(unsafe.Add(unsafe.Pointer(longs(a.Indptr)), 8)) }

// structure returns the matrices of a that a kernel over all rows reads.
func (a *CSR) structure() []*tensor.Matrix { return []*tensor.Matrix{a.Indptr, a.Indices, a.Values} }

// Arrays returns all matrices of a, some of which may be nil.
func (a *CSR) Arrays() []*tensor.Matrix { return append(a.structure(), a.list) }

// Release gives the arrays back.
func (a *CSR) Release() {
	for _, m := range a.Arrays() {
		m.Release()
	}
}

// Scales are the factors of an aggregation. Each is one column: Row has a factor for each destination, and
// Col for each source; nil: ones. Self has the weight of each destination's own row, if sources and
// destinations are the same rows; nil: zeros.
type Scales struct {
	Row, Col, Self *tensor.Matrix
}

// SpMM is the aggregation z_i = row_i · (Σ_{j in row i of a} a_ij · col_j · x_j + self_i · x_i), for x a.Cols
// × columns and z a.Rows × columns. Each of them is Float32 or BFloat16. z is rounded when a row's sum is
// complete.
func (t *Team) SpMM(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output) {
	a = a.cutLong()
	args := spmmArgs(z, a, x, s, to)
	args.slice = C.int64_t(t.slice(a, x, 0, a.Rows))
	if c := t.tiling(a, x, z.Element, to == Accumulate); c != nil {
		c.spmm(args, a, x)
		c.release()
	} else {
		t.edges(spmmOn(z, a, x, s, to), unsafe.Pointer(args), a, x.Cols)
	}
	t.spmmSegments(*args, z, a, x, to)
}

// SpMMRows computes rows lo…hi−1 of SpMM, with the same bits, in the same rows of z. It reads only the rows
// of x that are their sources and, with self weights, these rows themselves. It never uses tiles.
func (t *Team) SpMMRows(z *tensor.Matrix, a *CSR, x *tensor.Matrix, s Scales, to Output, lo, hi int) {
	some := a.cutLong().segmentsOf(lo, hi)
	args := spmmArgs(z, some, x, s, to)
	args.slice = C.int64_t(t.slice(a, x, lo, hi))
	r := spmmOn(z, some, x, s, to)
	r.bytes = r.bytes.times(hi-lo, a.Rows)
	t.edgesOf(r, unsafe.Pointer(args), some, lo, hi, x.Cols)
	t.spmmSegments(*args, z, some, x, to)
}

// spmmOn returns the kernel for all rows of a.
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

// spmmSegments computes the product that args describe for the rows of a that are cut.
func (t *Team) spmmSegments(args C.weft_spmm_args, z *tensor.Matrix, a *CSR, x *tensor.Matrix, to Output) {
	b := t.bySegments(a)
	args.z, args.z_type = either(b.sum(z)), C.WEFT_FLOAT32
	args.accumulate, args.slice = 0, 0
	b.runSums(on(C.weft_spmm, x), unsafe.Pointer(&args), to)
}

// Max is z_ic = max_{j in row i} x_jc, and arg (Int32) is the id of the source that has it. ids (Int32; nil:
// the row) are the sources' vertices, and the smallest id wins a tie. NaN is larger than any number. A row
// without in-neighbours has 0 and −1. loops (Int32; nil: none) is positive for rows that are also their own
// in-neighbour; the matrix then has no self loops.
func (t *Team) Max(z, arg *tensor.Matrix, a *CSR, x, ids, loops *tensor.Matrix, to Output) {
	a = a.cutLong()
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
	t.edges(r, unsafe.Pointer(args), a, x.Cols)
	b := t.bySegments(a)
	partials, sources := b.partials(x.Element, x.Cols), b.partials(tensor.Int32, x.Cols)
	part := *args
	part.z, part.arg, part.first = storage(partials), ints(sources), 1
	b.run(r, unsafe.Pointer(&part), func(segments C.weft_segments) {
		b.merge(on(C.weft_merge_maxima, z), unsafe.Pointer(&C.weft_merge_maxima_args{
			z: args.z, arg: args.arg, partials: part.z, partial_args: part.arg, segments: segments, cols: args.cols,
			first: args.first,
		}), x.Cols, 1)
	})
}

// MaxBackward adds to dx_j the g_ic of every out-neighbour i whose arg is j; transposed is the transpose of
// Max's matrix.
func (t *Team) MaxBackward(dx *tensor.Matrix, transposed *CSR, g, arg, ids, loops *tensor.Matrix) {
	transposed = transposed.cutLong()
	check("gradient", g, transposed.Cols, dx.Cols)
	check("input gradient", dx, transposed.Rows, g.Cols)
	args := &C.weft_max_back_args{
		dx: either(dx), dx_type: C.int32_t(typeOf(dx)), g: storage(g), arg: ints(arg), edges: transposed.c(),
		source_ids: ints(ids),
		loops:      ints(loops), cols: C.int64_t(g.Cols),
	}
	r := on(C.weft_max_back, g).needs(transposed.structure()...).writes(dx).streams(dx).
		gathers(transposed.Entries(), g, arg)
	t.edges(r, unsafe.Pointer(args), transposed, g.Cols)
	b := t.bySegments(transposed)
	part := *args
	part.dx, part.dx_type = either(b.sum(dx)), C.WEFT_FLOAT32
	b.runSums(r, unsafe.Pointer(&part), Accumulate)
}

// MaskEntries returns a copy of a's values under a mask of (row, column), or of (column, row) if a is the
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
	t.edges(on(C.weft_sparse_mask).streams(a.structure()...).streams(out), unsafe.Pointer(args), a.uncut(), 32)
	return out
}

// Densify is z = a, for a dense matrix z in Float32 or BFloat16.
func (t *Team) Densify(z *tensor.Matrix, a *CSR) {
	check("dense form", z, a.Rows, a.Cols)
	t.Zero(z)
	args := &C.weft_densify_args{
		z: storage(z), values: floats(a.Values), edges: a.c(), cols: C.int64_t(z.Cols),
	}
	t.edges(on(C.weft_densify, z).streams(a.structure()...).streams(z), unsafe.Pointer(args), a.uncut(), 8)
}

// Transpose returns the transpose of a, charged to kind. The entries of its rows are in ascending order.
func (t *Team) Transpose(a *CSR, kind tensor.Kind) *CSR {
	b := &CSR{
		Rows: a.Cols, Cols: a.Rows,
		Indptr:  t.Memory.NewElement(kind, tensor.Int64, 1, a.Cols+1),
		Indices: t.Memory.NewElement(kind, tensor.Int32, 1, a.Entries()),
	}
	if a.Values != nil {
		b.Values = t.Memory.New(kind, 1, a.Entries())
	}
	b.MakeRoom(t.Memory, kind)
	b.SetTranspose(a)
	return b
}

// SetTranspose sets a, which has the sizes of b's transpose, to that transpose, if this worker writes a. It
// is done once for each matrix, on one thread.
func (a *CSR) SetTranspose(b *CSR) {
	from, columns := b.Indptr.ReadInt64s(), b.Indices.ReadInt32s()
	next, rows := a.Indptr.WriteInt64s(), a.Indices.WriteInt32s()
	tensor.Touch(a.list)
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
	a.FindSegments()
}
