package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// Format is the encoding of a row that is sent to another worker.
type Format uint8

// The formats. A row of b-bit integers q also has its smallest number Z and its range R, two Float32. q
// stands for Z + q·R/(2^b − 1). A number is rounded up or down at random so that its mean is exact
// (stochastic rounding, as in AdaQP; Wan, Zhao and Wu, MLSys 2023). A row with a number that is not finite
// arrives as NaN.
const (
	AsStored   Format = iota // in the element type of the matrix
	InBFloat16               // rounded to nearest
	InInt8
	InInt4
)

// rangeBytes is the number of bytes of Z and R.
const rangeBytes = 8

// Unit is the element type of messages with rows of a matrix of type e: Byte for integers.
func (f Format) Unit(e tensor.Element) tensor.Element {
	switch f {
	case InBFloat16:
		return tensor.BFloat16
	case InInt8, InInt4:
		return tensor.Byte
	}
	return e
}

// Row returns the element type of an encoded row of so many columns, and its number of elements. If integers
// would not take fewer bytes than BFloat16, the row is sent in BFloat16.
func (f Format) Row(e tensor.Element, columns int) (tensor.Element, int) {
	if bits := f.bits(); bits > 0 {
		if n := rangeBytes + (columns*bits+7)/8; n < columns*tensor.BFloat16.Size() {
			return tensor.Byte, n
		}
		return tensor.BFloat16, columns
	}
	return f.Unit(e), columns
}

// bits returns the number of bits of an integer; 0: the format has no integers.
func (f Format) bits() int {
	switch f {
	case InInt8:
		return 8
	case InInt4:
		return 4
	}
	return 0
}

// Draws keys the random numbers of stochastic rounding, one for each vertex and column. They come from the
// generator of dropout masks. Encodings of different keys or streams are independent.
type Draws struct {
	Key    uint64
	Stream uint32
	IDs    *tensor.Matrix // Int32: the vertices of the rows; nil: row i is vertex i
}

// Encode sets row i of z (n × Row's number of elements) to an encoding of row rows_i of x (rows is Int32, 1 ×
// n; nil: row i). It encodes the listed columns (Int32, 1 × their number, ascending; nil: all).
func (t *Team) Encode(f Format, z, x, rows, columns *tensor.Matrix, d Draws) {
	n := z.Rows
	if rows != nil {
		n = rows.Cols
	}
	count := f.check(z, x, columns)
	switch {
	case columns != nil:
	case z.Element == x.Element && rows != nil:
		t.Gather(z, x, rows)
		return
	case z.Element != tensor.Byte && rows == nil:
		t.Convert(z, x)
		return
	}
	args := &C.weft_encode_args{
		z: z.Pointer(), x: storage(x), rows: ints(rows), columns: ints(columns), ids: ints(d.IDs),
		cols: C.int64_t(x.Cols), count: C.int64_t(count),
		key: C.uint64_t(d.Key), stream: C.uint32_t(d.Stream), format: f.c(z),
	}
	t.rows(on(C.weft_encode, x).streams(z), unsafe.Pointer(args), n, x.Cols)
}

// Decode sets row rows_i of z (rows is Int32, 1 × n, all different; nil: row i) to the numbers that row i of
// x encodes, or adds them. It does so in the listed columns, as in Encode, and leaves the others alone.
func (t *Team) Decode(f Format, z, x, rows, columns *tensor.Matrix, to Output) {
	n := x.Rows
	if rows != nil {
		n = rows.Cols
	}
	count := f.check(x, z, columns)
	switch {
	case columns != nil:
	case x.Element == z.Element && rows != nil && to == Accumulate:
		t.ScatterAdd(z, x, rows)
		return
	case x.Element != tensor.Byte && rows == nil && to == Replace:
		t.Convert(z, x)
		return
	}
	args := &C.weft_decode_args{
		z: storage(z), x: x.Pointer(), rows: ints(rows), columns: ints(columns), cols: C.int64_t(z.Cols),
		count: C.int64_t(count), format: f.c(x),
		accumulate: boolean(to == Accumulate),
	}
	t.rows(on(C.weft_decode, z).streams(x), unsafe.Pointer(args), n, z.Cols)
}

// c returns C's format of encoded rows.
func (f Format) c(encoded *tensor.Matrix) C.int32_t {
	switch {
	case encoded.Element == tensor.Float32:
		return C.WEFT_FORMAT_FLOAT32
	case encoded.Element == tensor.BFloat16:
		return C.WEFT_FORMAT_BFLOAT16
	case f == InInt8:
		return C.WEFT_FORMAT_INT8
	}
	return C.WEFT_FORMAT_INT4
}

// check panics unless encoded has the shape and type of encoded rows of these columns of m. It returns the
// number of columns.
func (f Format) check(encoded, m, columns *tensor.Matrix) (count int) {
	count = m.Cols
	if columns != nil {
		count = columns.Cols
	}
	width := count
	if encoded.Element == tensor.Byte {
		width = rangeBytes + (count*f.bits()+7)/8
	}
	if encoded.Cols != width || encoded.Element == tensor.Byte && f.bits() == 0 {
		panic(fmt.Sprintf("kernel: %d columns in format %d as %d elements of type %d", count, f,
			encoded.Cols, encoded.Element))
	}
	return count
}
