package kernel

// #include "native/weft.h"
import "C"

import (
	"math"
	"unsafe"

	"weft/tensor"
)

// Mask is a dropout mask that is computed wherever it is needed, and never stored: Philox 4×32-10 random bits
// of (key, vertex, column), or of (key, edge, head). The zero Mask drops nothing.
type Mask struct {
	key       uint64
	threshold uint32
	ids       *tensor.Matrix
	first     int
}

// NewMask drops each element with probability p, to 1/65536, and scales the others by 1/(1−p). Equal keys
// give equal masks. ids (Int32, one per row) are the rows' vertices in the original graph, nil when row i is
// vertex i.
func NewMask(key uint64, p float64, ids *tensor.Matrix) Mask {
	return Mask{key: key, threshold: uint32(min(65535, math.Round(p*65536))), ids: ids}
}

// From returns the mask of a slice: of the columns from the given one on, or of the heads in attention.
// Slices with such masks have the mask of the whole.
func (m Mask) From(first int) Mask {
	m.first += first
	return m
}

// Active reports whether the mask drops anything.
func (m Mask) Active() bool { return m.threshold > 0 }

// Uniform sets each element of z, Float32 or BFloat16, to a number in [0, 1) from 24 random bits of (key,
// vertex, column). Masks with the same key use other bits. A BFloat16 is rounded down. ids are as in NewMask.
func (t *Team) Uniform(z *tensor.Matrix, key uint64, ids *tensor.Matrix) {
	args := &C.weft_uniform_args{z: storage(z), ids: ints(ids), key: C.uint64_t(key), cols: C.int64_t(z.Cols)}
	r := on(C.weft_uniform, z).streams(z)
	if ids != nil {
		check("ids", ids, 1, z.Rows)
		r = r.needs(ids)
	}
	t.rows(r, unsafe.Pointer(args), z.Rows, 8*z.Cols)
}

func (m Mask) c() C.weft_mask {
	keep := 1.0
	if m.threshold > 0 {
		keep = 65536 / float64(65536-m.threshold)
	}
	return C.weft_mask{
		key: C.uint64_t(m.key), threshold: C.uint32_t(m.threshold), scale: C.float(keep), ids: ints(m.ids),
		first: C.int64_t(m.first),
	}
}
