package kernel

// #include "weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// Gather is z_i = x_{rows_i} for the listed rows of x (Int32, 1 × n, n at most z's rows); the other rows of z are left alone.
func (t *Team) Gather(z, x, rows *tensor.Matrix) {
	t.listed(C.weft_gather, z, x, rows, z)
}

// ScatterAdd is z_{rows_i} += x_i for the listed rows of z (Int32, 1 × n, n at most x's rows), which differ from each other.
func (t *Team) ScatterAdd(z, x, rows *tensor.Matrix) {
	t.listed(C.weft_scatter_add, z, x, rows, x)
}

func (t *Team) listed(name C.int, z, x, rows, packed *tensor.Matrix) {
	if z.Cols != x.Cols || rows.Cols > packed.Rows {
		panic(fmt.Sprintf("kernel: %d listed rows of a %d×%d matrix and a %d×%d one", rows.Cols, z.Rows, z.Cols, x.Rows, x.Cols))
	}
	args := &C.weft_rows_args{z: floats(z), x: floats(x), rows: ints(rows), cols: C.int64_t(x.Cols)}
	t.rows(name, unsafe.Pointer(args), rows.Cols, x.Cols)
}
