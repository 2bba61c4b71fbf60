package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"weft/tensor"
)

const (
	// lanes is how many partial results a reduction over vertices keeps, at most. A lane adds tiles that lie
	// together in their order.
	lanes = 16
	// laneRows is how many rows one tile of such a reduction has.
	laneRows = 1024
)

// refused returns the panic value for a product that oneDNN did not make: memory for copies of its operands
// is the operating system's to refuse, everything else a programming error.
func refused(status, m, n, k int) any {
	if status == C.WEFT_ONEDNN_MEMORY {
		return tensor.OutOfMemory{
			Bytes: 4 * k * (m + n),
			Err:   fmt.Errorf("oneDNN's copies for a %d×%d×%d product", m, k, n),
		}
	}
	return fmt.Sprintf("kernel: oneDNN refused a %d×%d×%d product (status %d)", m, k, n, status)
}

// WritesPastCaches says whether MatMul of rows × in by in × out writes its result past the caches: it has so
// few operations for each number of a large result that it waits for lines to be read that it then
// overwrites.
func WritesPastCaches(rows, in, out int) bool { return in <= 32 && rows*out >= 32<<20/4 }

// Output says what a kernel does with what its output holds.
type Output bool

// The result replaces it, or extends it: a sum is added to, and a maximum is taken with it.
const (
	Replace    Output = false
	Accumulate Output = true
)

// Orientation says how a matrix is read.
type Orientation bool

// A matrix is read as it is stored, or as its transpose.
const (
	Straight   Orientation = false
	Transposed Orientation = true
)

// MatMul is z = x·w for x rows × in and w in × out, or out × in where it is read transposed. z and x are
// Float32 or BFloat16, and w is Float32. Where x is BFloat16 and the processor multiplies such numbers
// (MultipliesBFloat16), w is rounded to BFloat16. Elsewhere ProductRows rows at a time are converted to Float32.
// Sums are Float32, and z is rounded once.
func (t *Team) MatMul(z, x, w *tensor.Matrix, read Orientation, to Output) {
	transposed, accumulate := read == Transposed, to == Accumulate
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
	p := &product{
		productShape: shapeOfProduct(in, out, transposed, accumulate, x.Element, z.Element),
		past:         !accumulate && z.Element == tensor.Float32 && WritesPastCaches(x.Rows, in, out),
	}
	defer p.release()
	p.pack(t, w)
	whole := x.Rows / ProductRows
	restOfX, restOfZ := x.RowRange(whole*ProductRows, x.Rows), z.RowRange(whole*ProductRows, x.Rows)
	var fullX, fullZ *tensor.Matrix // the rest, with rows of zeros below
	rest := 0
	if restOfX.Rows > 0 {
		rest = 1
		fullX, fullZ = t.scratch(p.x, ProductRows, in), t.scratch(p.z, ProductRows, out)
		defer fullX.Release()
		defer fullZ.Release()
	}
	parts := min(whole, t.threads*chunks)
	of := routine{}.needs(x, w)
	if accumulate {
		of = of.streams(z, z)
	} else {
		of = of.writes(z)
	}
	t.make(Call{Kernel: "product", Shape: Shape{x.Rows, in, out}, Bytes: of.bytes}, rest+parts, func(k int) {
		if k < rest {
			fill(fullX, restOfX)
			if accumulate {
				fill(fullZ, restOfZ)
			}
			p.run(fullZ, fullX, 1)
			convert(restOfZ, fullZ.RowRange(0, restOfZ.Rows))
			return
		}
		lo, hi := whole*(k-rest)/parts, whole*(k-rest+1)/parts
		p.run(z.RowRange(lo*ProductRows, hi*ProductRows), x.RowRange(lo*ProductRows, hi*ProductRows), hi-lo)
	})
}

// fill is x with rows of zeros below, of full's type.
func fill(full, x *tensor.Matrix) {
	convert(full.RowRange(0, x.Rows), x)
	clear(full.RowRange(x.Rows, full.Rows).Bytes())
}

// product is x·w for ProductRows rows of x.
type product struct {
	productShape
	past   bool // z goes past the caches
	handle *C.weft_product
	packed *tensor.Matrix // w
}

// productShape is what oneDNN makes a product for: w is in × out, or with transposed out × in. It reads and
// writes elements of types x and z.
type productShape struct {
	in, out                int
	transposed, accumulate bool
	x, z                   tensor.Element
}

func shapeOfProduct(in, out int, transposed, accumulate bool, x, z tensor.Element) productShape {
	if !MultipliesBFloat16() || x != tensor.BFloat16 {
		x, z = tensor.Float32, tensor.Float32
	}
	return productShape{in, out, transposed, accumulate, x, z}
}

// pack makes ready for w.
func (p *product) pack(t *Team, w *tensor.Matrix) {
	if p.handle = idleProducts.take(p.productShape); p.handle == nil {
		p.must(C.weft_product_new(&p.handle, ProductRows, C.int64_t(p.in), C.int64_t(p.out),
			boolean(p.transposed), boolean(p.accumulate),
			elementType(p.x), elementType(p.z)))
	}
	p.packed = t.scratch(tensor.Float32, 1, int(C.weft_product_packed_bytes(p.handle)+3)/4)
	if !t.plan {
		p.must(C.weft_product_pack(p.handle, floats(w), p.packed.Pointer()))
	}
}

// run multiplies so many times ProductRows rows.
func (p *product) run(z, x *tensor.Matrix, calls int) {
	p.must(C.weft_product_run(p.handle, p.packed.Pointer(), either(x), typeOf(x), either(z), typeOf(z),
		C.int64_t(calls), boolean(p.past)))
}

func (p *product) must(status C.int) {
	if status != 0 {
		panic(refused(int(status), ProductRows, p.out, p.in))
	}
}

func (p *product) release() {
	if p.packed == nil { // oneDNN refused it
		C.weft_product_free(p.handle)
		return
	}
	p.packed.Release()
	idleProducts.put(p.productShape, p.handle)
}

// mostIdleProducts bounds how many products are kept. A model has a few shapes in each direction.
const mostIdleProducts = 256

// products are oneDNN's products that no MatMul uses, kept for the next of the same shape: making one takes
// longer than multiplying few rows. All teams of a process share them.
type products struct {
	mu    sync.Mutex
	idle  map[productShape][]*C.weft_product
	count int
}

var idleProducts = products{idle: map[productShape][]*C.weft_product{}}

// take returns a product of that shape, nil if none is idle.
func (c *products) take(s productShape) *C.weft_product {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle[s]
	if len(idle) == 0 {
		return nil
	}
	c.count--
	last := len(idle) - 1
	if c.idle[s] = idle[:last]; last == 0 {
		delete(c.idle, s)
	}
	return idle[last]
}

// put keeps a product. If there are too many, those of some shape end first.
func (c *products) put(s productShape, p *C.weft_product) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, idle := range c.idle {
		if c.count < mostIdleProducts {
			break
		}
		for _, p := range idle {
			C.weft_product_free(p)
		}
		c.count -= len(idle)
		delete(c.idle, other)
	}
	c.idle[s] = append(c.idle[s], p)
	c.count++
}

// MatMulT is z = xᵀ·g for x rows × in and g rows × out: the gradient of a weight. It sums over the rows of
// fixed tiles in single precision, and over the tiles in double precision. x and g are Float32 or BFloat16,
// and z is Float32. Products of two BFloat16 numbers are exact, whichever instructions make them, but for
// denormal ones, which AMX and AVX512-BF16 take as zero.
//
// Two lanes for each thread are summed at a time, so that the scratch grows with the threads. Lanes are added
// in their order, so that the number of threads changes no bits.
func (t *Team) MatMulT(z, x, g *tensor.Matrix, to Output) {
	check("factor", g, x.Rows, z.Cols)
	check("product", z, x.Cols, g.Cols)
	if x.Rows == 0 && to == Replace {
		t.Zero(z)
	}
	if x.Rows == 0 || z.Len() == 0 {
		return
	}
	tiles := (x.Rows + laneRows - 1) / laneRows
	count := min(tiles, lanes)
	begins := func(lane int) int { return min(tiles*lane/count*laneRows, x.Rows) }
	atOnce, total := min(count, 2*t.threads), 0
	if atOnce < count {
		total = 1 // the first sum is that of the lanes before
	}
	in, out := C.int64_t(x.Cols), C.int64_t(g.Cols)
	stride := int(C.weft_weight_stride(out))
	sums := t.scratch(tensor.Float64, total+atOnce, int(C.weft_weight_rows(in))*stride)
	tileSums := t.scratch(tensor.Float32, atOnce, int(C.weft_weight_rows(min(in, C.WEFT_WEIGHT_IN)))*stride)
	panels := t.scratch(tensor.Float32, atOnce, C.WEFT_WEIGHT_DEPTH*int(C.weft_weight_panels(in, out)))
	args := C.weft_weight_args{
		z: floats(z), x: either(x), g: either(g), x_type: C.int32_t(typeOf(x)), g_type: C.int32_t(typeOf(g)),
		rows: C.int64_t(x.Rows), in: in, out: out, lanes: C.int64_t(count), tile: laneRows,
	}
	if x.Element == tensor.BFloat16 && g.Element == tensor.BFloat16 {
		args.products = C.int32_t(multiplyBy)
	}
	for first := 0; first < count; first += atOnce {
		end := min(first+atOnce, count)
		of := routine{}.needs(x.RowRange(begins(first), begins(end)), g.RowRange(begins(first), begins(end)))
		call := Call{
			Kernel: names[C.weft_weight], Shape: Shape{begins(end) - begins(first), x.Cols, g.Cols}, Bytes: of.bytes,
		}
		t.make(call, end-first, func(k int) {
			one, lane := args, first+k
			one.partial = (*C.double)(ofFirst(sums, total+k, lane))
			one.tile_sum, one.scratch = (*C.float)(ofFirst(tileSums, k, lane)),
				(*C.float)(ofFirst(panels, k, lane))
			on(C.weft_weight).run(unsafe.Pointer(&one), lane, lane+1)
		})
		if first == 0 && total > 0 {
			t.beginSum(sums, stride, z, to)
		}
		if end < count {
			t.addLanes(sums, stride, z)
		} else {
			all := args
			all.partial, all.lanes, all.accumulate = doubles(sums), C.int64_t(total+end-first),
				boolean(to == Accumulate && total == 0)
			t.rows(on(C.weft_weight_sum).writes(z), unsafe.Pointer(&all), x.Cols, count*g.Cols)
		}
	}
	sums.Release()
	tileSums.Release()
	panels.Release()
}

// ofFirst returns where the first lane's row of m would be for the kernel, which finds a lane's by its number,
// to find row k for that lane.
func ofFirst(m *tensor.Matrix, k, lane int) unsafe.Pointer {
	return unsafe.Add(m.Pointer(), (k-lane)*m.Cols*m.Element.Size())
}

// beginSum makes the first of the sums z, or zeros to replace it. The rows of a sum are stride numbers apart.
func (t *Team) beginSum(sums *tensor.Matrix, stride int, z *tensor.Matrix, to Output) {
	t.Parallel(z.Rows, func(i int) {
		total := sums.Doubles()[i*stride:][:z.Cols]
		clear(total)
		if to == Accumulate {
			for c, v := range z.Floats()[i*z.Cols:][:z.Cols] {
				total[c] = float64(v)
			}
		}
	})
}

// addLanes adds the other sums, each for a z, to the first in their order.
func (t *Team) addLanes(sums *tensor.Matrix, stride int, z *tensor.Matrix) {
	t.Parallel(z.Rows, func(i int) {
		total := sums.Doubles()[i*stride:][:z.Cols]
		for k := 1; k < sums.Rows; k++ {
			for c, v := range sums.RowRange(k, k+1).Doubles()[i*stride:][:z.Cols] {
				total[c] += v
			}
		}
	})
}
