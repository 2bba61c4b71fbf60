package kernel

// #include "weft.h"
import "C"

import (
	"fmt"

	"weft/tensor"
)

const (
	// productRows is how many rows one call of the dense product takes. The height of a call never depends on the threads.
	productRows = 1024
	// leastRows is how many rows a call has at least: oneDNN rounds products of fewer rows differently, of one row always and of up
	// to 15 where the second factor is transposed (AVX-512). A vertex's row would then depend on how many others there are.
	leastRows = 16
	// lanes is how many partial results a reduction over vertices keeps, at most: lane l adds tiles l, l+lanes, … in this order.
	lanes = 16
	// laneRows is how many rows one tile of such a reduction has.
	laneRows = 2048
)

func sgemm(transX, transW byte, m, n, k int, x *tensor.Matrix, xRow, ldx int, w *tensor.Matrix, wRow, ldw int, beta float32, z *tensor.Matrix, zRow int) {
	at := func(m *tensor.Matrix, row int) *C.float { return floats(m.RowRange(row, m.Rows)) }
	status := C.weft_sgemm(C.char(transX), C.char(transW), C.int64_t(m), C.int64_t(n), C.int64_t(k), at(x, xRow), C.int64_t(ldx),
		at(w, wRow), C.int64_t(ldw), C.float(beta), at(z, zRow), C.int64_t(z.Cols))
	if status != 0 {
		panic(fmt.Sprintf("kernel: oneDNN refused a %d×%d×%d product (status %d)", m, n, k, int(status)))
	}
}

func beta(accumulate bool) float32 {
	if accumulate {
		return 1
	}
	return 0
}

// MatMul is z = x·w, or z += x·w, for x rows × in and w in × out; with transposed, w is out × in and is read as its transpose.
func (t *Team) MatMul(z, x, w *tensor.Matrix, transposed, accumulate bool) {
	in, out, trans := w.Rows, w.Cols, byte('N')
	if transposed {
		in, out, trans = out, in, 'T'
	}
	check("factor", x, z.Rows, in)
	check("product", z, x.Rows, out)
	if in == 0 && !accumulate {
		t.Zero(z)
	}
	if x.Rows == 0 || in == 0 || out == 0 {
		return
	}
	if x.Rows < leastRows {
		t.fewRows(z, x, w, transposed, accumulate)
		return
	}
	calls := (x.Rows + productRows - 1) / productRows
	t.Parallel(calls, func(k int) {
		lo, hi := k*productRows, min((k+1)*productRows, x.Rows)
		if x.Rows-hi < leastRows {
			hi = x.Rows // the last rows, when they are few, join the call before
		}
		if hi-lo >= leastRows {
			sgemm('N', trans, hi-lo, out, in, x, lo, x.Cols, w, 0, w.Cols, beta(accumulate), z, lo)
		}
	})
}

// fewRows adds rows of zeros, for the rounding that the rows have among others.
func (t *Team) fewRows(z, x, w *tensor.Matrix, transposed, accumulate bool) {
	more, sum := t.scratch(tensor.Float32, leastRows, x.Cols), t.scratch(tensor.Float32, leastRows, z.Cols)
	t.Zero(more)
	t.Zero(sum)
	t.Copy(more.RowRange(0, x.Rows), x)
	if accumulate {
		t.Copy(sum.RowRange(0, x.Rows), z)
	}
	t.MatMul(sum, more, w, transposed, accumulate)
	t.Copy(z, sum.RowRange(0, x.Rows))
	more.Release()
	sum.Release()
}

// MatMulT is z = xᵀ·g, or z += xᵀ·g, for x rows × in and g rows × out: the gradient of a weight. It sums over the rows in fixed
// tiles.
func (t *Team) MatMulT(z, x, g *tensor.Matrix, accumulate bool) {
	check("factor", g, x.Rows, z.Cols)
	check("product", z, x.Cols, g.Cols)
	if !accumulate {
		t.Zero(z)
	}
	if x.Rows == 0 || z.Len() == 0 {
		return
	}
	all := (x.Rows + laneRows - 1) / laneRows
	count := min(all, lanes)
	partial := t.scratch(tensor.Float32, count*z.Rows, z.Cols)
	t.Parallel(count, func(lane int) {
		for tile := lane; tile < all; tile += count {
			lo, hi := tile*laneRows, min((tile+1)*laneRows, x.Rows)
			sgemm('T', 'N', z.Rows, z.Cols, hi-lo, x, lo, x.Cols, g, lo, g.Cols, beta(tile > lane), partial, lane*z.Rows)
		}
	})
	for lane := range count {
		t.Axpy(z, 1, partial.RowRange(lane*z.Rows, (lane+1)*z.Rows))
	}
	partial.Release()
}
