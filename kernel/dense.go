package kernel

// #include "weft.h"
import "C"

import (
	"fmt"

	"weft/tensor"
)

// ProductRows is how many rows each call has that MatMul is made of; the last is filled up with zeros. oneDNN rounds the last rows of a call,
// and all rows of a low one, in ways that depend on the call's height (AVX2), so that a vertex's row would depend on how many others there
// are. In calls of this height every row has the same bits, at every SIMD level (TestRowOfAProduct).
const ProductRows = 480

const (
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
		panic(refused(int(status), m, n, k))
	}
}

// refused is the panic value for a product that oneDNN did not make: memory for copies of its operands is the operating system's to refuse,
// everything else a programming error.
func refused(status, m, n, k int) any {
	if status == C.WEFT_ONEDNN_MEMORY {
		return tensor.OutOfMemory{Bytes: 4 * k * (m + n), Err: fmt.Errorf("oneDNN's copies for a %d×%d×%d product", m, k, n)}
	}
	return fmt.Sprintf("kernel: oneDNN refused a %d×%d×%d product (status %d)", m, k, n, status)
}

func beta(accumulate bool) float32 {
	if accumulate {
		return 1
	}
	return 0
}

// MatMul is z = x·w, or z += x·w, for x rows × in and w in × out; with transposed, w is out × in and is read as its transpose.
func (t *Team) MatMul(z, x, w *tensor.Matrix, transposed, accumulate bool) {
	in, out := w.Rows, w.Cols
	if transposed {
		in, out = out, in
	}
	check("factor", x, z.Rows, in)
	check("product", z, x.Rows, out)
	if in == 0 && !accumulate {
		t.Zero(z)
	}
	if x.Rows == 0 || in == 0 || out == 0 {
		return
	}
	p := &product{in: in, out: out}
	defer p.release()
	p.pack(t, w, transposed, accumulate)
	whole := x.Rows / ProductRows
	restOfX, restOfZ := x.RowRange(whole*ProductRows, x.Rows), z.RowRange(whole*ProductRows, x.Rows)
	var fullX, fullZ *tensor.Matrix // the rest, with rows of zeros below
	rest := 0
	if restOfX.Rows > 0 {
		rest = 1
		fullX, fullZ = t.scratch(tensor.Float32, ProductRows, in), t.scratch(tensor.Float32, ProductRows, out)
		defer fullX.Release()
		defer fullZ.Release()
	}
	parts := min(whole, t.threads*chunks)
	t.Parallel(rest+parts, func(k int) {
		if k < rest {
			clear(fullX.Floats()[copy(fullX.Floats(), restOfX.Floats()):])
			if accumulate {
				clear(fullZ.Floats()[copy(fullZ.Floats(), restOfZ.Floats()):])
			}
			p.run(fullZ, fullX, 1)
			copy(restOfZ.Floats(), fullZ.Floats())
			return
		}
		lo, hi := whole*(k-rest)/parts, whole*(k-rest+1)/parts
		p.run(z.RowRange(lo*ProductRows, hi*ProductRows), x.RowRange(lo*ProductRows, hi*ProductRows), hi-lo)
	})
}

// product is x·w for ProductRows rows of x.
type product struct {
	in, out int
	handle  *C.weft_product
	packed  *tensor.Matrix // w
}

// pack makes ready for w, in × out, or with transposed out × in.
func (p *product) pack(t *Team, w *tensor.Matrix, transposed, accumulate bool) {
	p.must(C.weft_product_new(&p.handle, ProductRows, C.int64_t(p.in), C.int64_t(p.out), boolean(transposed), boolean(accumulate)))
	p.packed = t.scratch(tensor.Float32, 1, int(C.weft_product_packed_bytes(p.handle)+3)/4)
	if !t.plan {
		p.must(C.weft_product_pack(p.handle, floats(w), floats(p.packed)))
	}
}

// run multiplies so many times ProductRows rows.
func (p *product) run(z, x *tensor.Matrix, calls int) {
	p.must(C.weft_product_run(p.handle, floats(p.packed), floats(x), floats(z), C.int64_t(calls)))
}

func (p *product) must(status C.int) {
	if status != 0 {
		panic(refused(int(status), ProductRows, p.out, p.in))
	}
}

func (p *product) release() {
	p.packed.Release()
	C.weft_product_free(p.handle)
}

// MatMulT is z = xᵀ·g, or z += xᵀ·g, for x rows × in and g rows × out: the gradient of a weight. It sums over the rows in fixed
// tiles. Where g is the narrower one the tiles' products are gᵀ·x, which oneDNN makes up to twice as fast.
func (t *Team) MatMulT(z, x, g *tensor.Matrix, accumulate bool) {
	check("factor", g, x.Rows, z.Cols)
	check("product", z, x.Cols, g.Cols)
	if !accumulate {
		t.Zero(z)
	}
	if x.Rows == 0 || z.Len() == 0 {
		return
	}
	a, b := x, g
	if g.Cols < x.Cols {
		a, b = g, x
	}
	all := (x.Rows + laneRows - 1) / laneRows
	count := min(all, lanes)
	partial := t.scratch(tensor.Float32, count*a.Cols, b.Cols)
	part := func(lane int) *tensor.Matrix { return partial.RowRange(lane*a.Cols, (lane+1)*a.Cols) }
	t.Parallel(count, func(lane int) {
		for tile := lane; tile < all; tile += count {
			lo, hi := tile*laneRows, min((tile+1)*laneRows, x.Rows)
			sgemm('T', 'N', a.Cols, b.Cols, hi-lo, a, lo, a.Cols, b, lo, b.Cols, beta(tile > lane), partial, lane*a.Cols)
		}
	})
	for lane := 1; lane < count; lane++ {
		t.Axpy(part(0), 1, part(lane))
	}
	if a == x {
		t.Axpy(z, 1, part(0))
	} else {
		t.addTransposed(z, part(0))
	}
	partial.Release()
}

// addTransposed is z += xᵀ.
func (t *Team) addTransposed(z, x *tensor.Matrix) {
	t.Parallel(1, func(int) {
		to, from := z.Floats(), x.Floats()
		for r := range x.Rows {
			for c, v := range from[r*x.Cols : (r+1)*x.Cols] {
				to[c*z.Cols+r] += v
			}
		}
	})
}
