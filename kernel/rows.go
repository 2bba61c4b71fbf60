package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// Gather is z_i = x_{rows_i} for the listed rows of x (Int32, 1 × n, n at most z's rows); the other rows of z
// are left alone. z and x are both Float32, both BFloat16 or both Int32.
func (t *Team) Gather(z, x, rows *tensor.Matrix) {
	t.listed(C.weft_gather, z, x, rows, z)
}

// Scatter is z_{rows_i} = x_i for the listed rows of z (Int32, 1 × n, n at most x's rows, all different); the
// other rows are left alone.
func (t *Team) Scatter(z, x, rows *tensor.Matrix) {
	t.listed(C.weft_scatter, z, x, rows, x)
}

// ScatterAdd is z_{rows_i} += x_i for the listed rows of z (Int32, 1 × n, n at most x's rows, all different).
// A BFloat16 x may be added to a Float32 z.
func (t *Team) ScatterAdd(z, x, rows *tensor.Matrix) {
	t.listed(C.weft_scatter_add, z, x, rows, x)
}

// mayMove panics unless rows of x can be copied to z. With add, a BFloat16 x can also be added to a Float32
// z.
func mayMove(z, x *tensor.Matrix, add bool) {
	widens := add && z.Element == tensor.Float32 && x.Element == tensor.BFloat16
	if z.Element != x.Element && !widens || x.Element.Size() > 4 {
		panic(fmt.Sprintf("kernel: rows of element type %d for type %d", x.Element, z.Element))
	}
}

func (t *Team) listed(name C.int, z, x, rows, packed *tensor.Matrix) {
	mayMove(z, x, name == C.weft_scatter_add)
	if z.Cols != x.Cols || rows.Cols > packed.Rows {
		panic(fmt.Sprintf("kernel: %d listed rows of a %d×%d matrix and a %d×%d one", rows.Cols, z.Rows,
			z.Cols, x.Rows, x.Cols))
	}
	args := &C.weft_rows_args{
		z: z.Pointer(), x: (*C.elem)(x.Pointer()), rows: ints(rows),
		cols: C.int64_t(x.Cols),
	}
	r := routine{name: name, element: C.WEFT_FLOAT32} // also for other words of 32 bits
	if x.Element == tensor.BFloat16 {
		r.element = C.WEFT_BFLOAT16
	}
	if z.Element == tensor.BFloat16 {
		args.z_type = C.WEFT_BFLOAT16
	}
	moved := rows.Cols * x.Cols
	r.bytes.Streamed = moved * (z.Element.Size() + x.Element.Size())
	if name == C.weft_scatter_add {
		r.bytes.Streamed += moved * z.Element.Size()
	}
	t.rows(r, unsafe.Pointer(args), rows.Cols, x.Cols)
}

// Columns is z_i,fromZ+c = x_i,fromX+c for c = 0…count−1, or adds them; the other columns of z are left
// alone. Columns of a BFloat16 x may be added to a Float32 z, here and in PutColumns.
func (t *Team) Columns(z *tensor.Matrix, fromZ int, x *tensor.Matrix, fromX, count int, to Output) {
	if z.Rows != x.Rows {
		panic(fmt.Sprintf("kernel: columns of %d×%d to %d×%d", x.Rows, x.Cols, z.Rows, z.Cols))
	}
	t.columns(someColumns{z, nil, fromZ}, someColumns{x, nil, fromX}, x.Rows, count, to)
}

// PickColumns is z_i = columns from…from+z.Cols−1 of x_{rows_i} for the listed rows of x (Int32, 1 × n, n
// at most z's rows; nil: all of x's rows, as many as z has); the other rows of z are left alone.
func (t *Team) PickColumns(z, x, rows *tensor.Matrix, from int) {
	t.columns(someColumns{z, nil, 0}, someColumns{x, rows, from}, packedRows(z, x, rows), z.Cols, Replace)
}

// PutColumns is the reverse of PickColumns: columns from…from+x.Cols−1 of z_{rows_i} become x_i, or x_i is
// added to them, for the listed rows of z (Int32, 1 × n, n at most x's rows, all different; nil: all of z's
// rows, as many as x has). All other elements of z are left alone.
func (t *Team) PutColumns(z, x, rows *tensor.Matrix, from int, to Output) {
	t.columns(someColumns{z, rows, from}, someColumns{x, nil, 0}, packedRows(x, z, rows), x.Cols, to)
}

// packedRows returns the number of rows of packed that are used: as many as are listed, or all.
func packedRows(packed, whole, rows *tensor.Matrix) int {
	n := whole.Rows
	if rows != nil {
		n = rows.Cols
	}
	if n > packed.Rows || rows == nil && n < packed.Rows {
		panic(fmt.Sprintf("kernel: %d rows of a %d×%d matrix beside a %d×%d one", n, whole.Rows, whole.Cols,
			packed.Rows, packed.Cols))
	}
	return n
}

// someColumns are columns of matrix, from column from on, in the listed rows (Int32, 1 × n; nil: the first
// rows).
type someColumns struct {
	matrix, rows *tensor.Matrix
	from         int
}

func (t *Team) columns(z, x someColumns, rows, count int, to Output) {
	for _, s := range []someColumns{z, x} {
		if s.from < 0 || s.from+count > s.matrix.Cols {
			panic(fmt.Sprintf("kernel: %d columns from %d of %d×%d", count, s.from, s.matrix.Rows, s.matrix.Cols))
		}
	}
	mayMove(z.matrix, x.matrix, to == Accumulate)
	args := &C.weft_columns_args{
		z: either(z.matrix), x: storage(x.matrix), z_rows: ints(z.rows), x_rows: ints(x.rows),
		z_cols: C.int64_t(z.matrix.Cols), x_cols: C.int64_t(x.matrix.Cols),
		from_z: C.int64_t(z.from), from_x: C.int64_t(x.from), count: C.int64_t(count),
		z_type:     C.int32_t(typeOf(z.matrix)),
		accumulate: boolean(to == Accumulate),
	}
	r := on(C.weft_columns, x.matrix)
	r.bytes.Streamed = rows * count * (z.matrix.Element.Size() + x.matrix.Element.Size())
	if to == Accumulate {
		r.bytes.Streamed += rows * count * z.matrix.Element.Size()
	}
	t.rows(r, unsafe.Pointer(args), rows, count)
}

// HeadScale is z_ihc = x_ihc · s_ih, for x and z rows × heads·width and s rows × heads. z may be x.
func (t *Team) HeadScale(z, x, s *tensor.Matrix) {
	tensor.SameShape(z, x)
	check("scale of heads", s, x.Rows, s.Cols)
	args := &C.weft_head_scale_args{
		z: storage(z), x: storage(x), s: floats(s), heads: C.int64_t(s.Cols),
		width: C.int64_t(x.Cols / s.Cols),
	}
	t.rows(on(C.weft_head_scale, z, x).streams(z, x, s), unsafe.Pointer(args), x.Rows, x.Cols)
}

// Exp is z = exp(x), element by element. z may be x.
func (t *Team) Exp(z, x *tensor.Matrix) { t.elements(C.weft_exp, z, x) }

// Reciprocal is z = 1/x, element by element, and 0 where x is 0. z may be x.
func (t *Team) Reciprocal(z, x *tensor.Matrix) { t.elements(C.weft_reciprocal, z, x) }

func (t *Team) elements(name C.int, z, x *tensor.Matrix) {
	tensor.SameShape(z, x)
	args := &C.weft_combine_args{z: storage(z), x: storage(x)}
	t.rows(on(name, z, x).streams(z, x), unsafe.Pointer(args), z.Len(), 4)
}

// Picked returns the listed rows of m (Int32, 1 × n), in scratch memory.
func (t *Team) Picked(m, rows *tensor.Matrix) *tensor.Matrix {
	z := t.scratch(m.Element, rows.Cols, m.Cols)
	t.Gather(z, m, rows)
	return z
}

// AttendSome extends a state, which Attend has begun, by the edges of a block whose row i is row rows_i of
// the state (rows is Int32, 1 × n). No such block can be the last: AttendEnd ends the state.
func (t *Team) AttendSome(s *AttentionState, rows *tensor.Matrix, a Attention, e *CSR) {
	some := &AttentionState{
		Maximum: t.Picked(s.Maximum, rows), Out: t.Picked(s.Out, rows),
		sum: t.Picked(s.sum, rows), begun: true,
	}
	t.Attend(some, a, e, nil, More)
	for _, m := range []struct{ to, from *tensor.Matrix }{
		{s.Maximum, some.Maximum},
		{s.Out, some.Out},
		{s.sum, some.sum},
	} {
		t.Scatter(m.to, m.from, rows)
		m.from.Release()
	}
}

// AttendEnd ends a state that no last block has ended.
func (t *Team) AttendEnd(s *AttentionState) {
	heads := s.Maximum.Cols
	args := &C.weft_attend_end_args{
		z: floats(s.Out), maximum: floats(s.Maximum), sum: floats(s.sum), heads: C.int64_t(heads),
		width: C.int64_t(s.Out.Cols / heads),
	}
	t.rows(on(C.weft_attend_end).streams(s.Out, s.Out, s.Maximum, s.sum), unsafe.Pointer(args),
		s.Out.Rows, s.Out.Cols)
	s.sum.Release()
	s.sum, s.begun = nil, false
}
