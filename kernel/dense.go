package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"weft/tensor"
)

const (
	// lanes bounds the number of partial results of a reduction over vertices. A lane adds up consecutive
	// tiles in their order.
	lanes = 16
	// laneRows is the number of rows of a tile of such a reduction.
	laneRows = 1024
	// mostSums bounds the number of sums over lanes of all blocks of a weight's gradient, unless there are
	// more blocks.
	mostSums = 32
)

// refused returns the panic value for a product that oneDNN refused. It is an OutOfMemory if memory for
// copies of operands is lacking. Everything else is a programming error.
func refused(status, m, n, k int) any {
	if status == C.WEFT_ONEDNN_MEMORY {
		return tensor.OutOfMemory{
			Bytes: 4 * k * (m + n),
			Err:   fmt.Errorf("oneDNN's copies for a %d×%d×%d product", m, k, n),
		}
	}
	return fmt.Sprintf("kernel: oneDNN refused a %d×%d×%d product (status %d)", m, k, n, status)
}

// writesPastCaches says whether MatMul of rows × in by in × out writes its result past the caches. It does
// for a large result with few operations for each number: otherwise it would wait for cache lines to be read
// that it then overwrites.
func writesPastCaches(rows, in, out int) bool { return in <= 32 && rows*out >= 32<<20/4 }

// Output says what a kernel does with the present elements of its output.
type Output bool

// The result replaces them, or is combined with them: a sum is added, and a maximum is taken.
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

// MatMul is z = x·w for x rows × in and w in × out, or out × in if it is read transposed. z and x are Float32
// or BFloat16, and w is Float32. If x is BFloat16, and a card or a processor that multiplies such numbers
// (MultipliesBFloat16) computes the product, w is rounded to BFloat16. Otherwise a BFloat16 x is converted to
// Float32, ProductRows rows at a time. Sums are Float32, and z is rounded once.
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
	r := routine{name: C.weft_product}.needs(x, w)
	if accumulate {
		r = r.streams(z, z)
	} else {
		r = r.writes(z)
	}
	if t.backend.has(C.weft_product) {
		t.deviceMatMul(r, z, x, w, in, out, transposed, accumulate)
		return
	}
	p := &product{productShape: shapeOfProduct(in, out, transposed, accumulate, x.Element, z.Element)}
	defer p.release()
	p.pack(t, w)
	args := &C.weft_product_args{
		product: p.handle, packed: p.packed.Pointer(), x: either(x), z: either(z), rows: C.int64_t(x.Rows),
		x_type: C.int32_t(typeOf(x)), z_type: C.int32_t(typeOf(z)),
		past: boolean(!accumulate && z.Element == tensor.Float32 && writesPastCaches(x.Rows, in, out)),
	}
	if x.Rows%ProductRows > 0 {
		fullX, fullZ := t.scratch(p.x, ProductRows, in), t.scratch(p.z, ProductRows, out)
		defer fullX.Release()
		defer fullZ.Release()
		args.full_x, args.full_z = either(fullX), either(fullZ)
	}
	t.launch(Shape{x.Rows, in, out}, 0, launch{
		links: oneKernel(r, unsafe.Pointer(args)), last: (x.Rows + ProductRows - 1) / ProductRows, cost: grain,
	})
	p.must()
}

// product is oneDNN's product x·w for ProductRows rows of x.
type product struct {
	productShape
	handle *C.weft_onednn
	packed *tensor.Matrix // w
}

// productShape is the shape for which oneDNN makes a product: w is in × out, or out × in with transposed. x
// and z are the element types that it reads and writes.
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

// pack takes a product of oneDNN, and packs w for it.
func (p *product) pack(t *Team, w *tensor.Matrix) {
	p.handle = idleProducts.take(p.productShape)
	if p.handle == nil {
		p.fail(C.weft_onednn_new(&p.handle, ProductRows, C.int64_t(p.in), C.int64_t(p.out),
			boolean(p.transposed), boolean(p.accumulate),
			elementType(p.x), elementType(p.z)))
	}
	p.packed = t.scratch(tensor.Float32, 1, int(C.weft_onednn_packed_bytes(p.handle)+3)/4)
	args := &C.weft_product_pack_args{product: p.handle, w: floats(w), packed: p.packed.Pointer()}
	t.backend.run(launch{links: oneKernel(routine{name: C.weft_product_pack}, unsafe.Pointer(args)), last: 1})
	p.must()
}

// must panics if oneDNN failed since the last call of must.
func (p *product) must() { p.fail(C.weft_onednn_status(p.handle)) }

func (p *product) fail(status C.int) {
	if status != 0 {
		panic(refused(int(status), ProductRows, p.out, p.in))
	}
}

func (p *product) release() {
	if p.packed == nil { // oneDNN refused it
		C.weft_onednn_free(p.handle)
		return
	}
	p.packed.Release()
	idleProducts.put(p.productShape, p.handle)
}

// mostIdleProducts bounds the number of products that are kept. A model has a few shapes in each direction.
const mostIdleProducts = 256

// products has oneDNN's products that no MatMul uses. They are kept for the next product of the same shape,
// because making one takes longer than multiplying few rows. All teams of a process share them.
type products struct {
	mu    sync.Mutex
	idle  map[productShape][]*C.weft_onednn
	count int
}

var idleProducts = products{idle: map[productShape][]*C.weft_onednn{}}

// take returns a product of that shape, nil if none is idle.
func (c *products) take(s productShape) *C.weft_onednn {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle[s]
	if len(idle) == 0 {
		return nil
	}
	c.count--
	last := len(idle) - 1
	c.idle[s] = idle[:last]
	if last == 0 {
		delete(c.idle, s)
	}
	return idle[last]
}

// put keeps a product. If there are too many, it first frees those of some other shape.
func (c *products) put(s productShape, p *C.weft_onednn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, idle := range c.idle {
		if c.count < mostIdleProducts {
			break
		}
		for _, p := range idle {
			C.weft_onednn_free(p)
		}
		c.count -= len(idle)
		delete(c.idle, other)
	}
	c.idle[s] = append(c.idle[s], p)
	c.count++
}

// MatMulT is z = xᵀ·g for x rows × in and g rows × out: the gradient of a weight. It sums over the rows of
// fixed tiles in single precision, and over the tiles in double precision. x and g are Float32 or BFloat16,
// and z is Float32. Products of two BFloat16 numbers are exact with all instructions, except that AMX and
// AVX512-BF16 take denormal numbers as zero.
//
// Blocks of z are sums over lanes of rows. A thread takes the next lane of a block as soon as it has memory
// for its sum. The thread that completes the next sum in order also adds the sums that wait behind it. All
// sums are added in the order of the lanes, so that the number of threads changes no bits. The scratch grows
// with the number of threads.
func (t *Team) MatMulT(z, x, g *tensor.Matrix, to Output) {
	check("factor", g, x.Rows, z.Cols)
	check("product", z, x.Cols, g.Cols)
	if x.Rows == 0 && to == Replace {
		t.Zero(z)
	}
	if x.Rows == 0 || z.Len() == 0 {
		return
	}
	r := routine{}.needs(x, g)
	if to == Accumulate {
		r = r.streams(z)
	}
	r = r.writes(z)
	c := Call{Kernel: names[C.weft_weight], Shape: Shape{x.Rows, x.Cols, g.Cols}, Bytes: r.bytes}
	if t.backend.has(C.weft_weight) {
		t.deviceMatMulT(c, z, x, g, to)
		return
	}
	w := newWeight(t, z, x, g, to)
	t.watched(c, func() { t.backend.weight(w) })
	w.release()
}

// packTiles packs a factor of BFloat16s for AMX's tiles. It is for a test, which also runs on a processor
// without AMX.
func packTiles(tiles, x *tensor.Matrix, transposed bool) {
	args := C.weft_pack_tiles_args{
		tiles: floats(tiles), x: either(x), columns: C.int64_t(x.Cols), depth: C.int64_t(x.Rows),
		transposed: boolean(transposed),
	}
	link{on(C.weft_pack_tiles), unsafe.Pointer(&args), false}.over(0, 1)
}

// weight is the computation of z = xᵀ·g.
type weight struct {
	z, x, g       *tensor.Matrix
	first         *C.float           // the first element of z
	args          C.weft_weight_args // the common arguments of all sums
	to            Output
	lanes, blocks int // numbers of lanes of rows, and of blocks of z
	broad         int // number of blocks beside each other
	threads       int
	over          func(l link, lo, hi int) // runs one of the kernels
	// One of totals for each block, if there are several lanes; one of sums for each sum that is computed or
	// waits; one of tileSums and of panels for each thread.
	totals, sums, tileSums, panels *tensor.Matrix
}

func newWeight(t *Team, z, x, g *tensor.Matrix, to Output) *weight {
	w := &weight{over: link.over, z: z, x: x, g: g, to: to, first: floats(z), args: C.weft_weight_args{
		x: either(x), g: either(g), in: C.int64_t(x.Cols), out: C.int64_t(g.Cols), tile: laneRows,
		x_type: C.int32_t(typeOf(x)), g_type: C.int32_t(typeOf(g)),
	}}
	if x.Element == tensor.BFloat16 && g.Element == tensor.BFloat16 {
		w.args.products = C.int32_t(multiplyBy)
	}
	w.broad = (z.Cols + C.WEFT_WEIGHT_OUT - 1) / C.WEFT_WEIGHT_OUT
	w.blocks = (z.Rows + C.WEFT_WEIGHT_IN - 1) / C.WEFT_WEIGHT_IN * w.broad
	w.lanes = min(tilesOfLanes(x.Rows), lanes, (mostSums+w.blocks-1)/w.blocks)
	sums := w.lanes * w.blocks
	w.threads = min(t.threads, sums)
	in, out := C.int64_t(min(z.Rows, C.WEFT_WEIGHT_IN)), C.int64_t(min(z.Cols, C.WEFT_WEIGHT_OUT))
	block := int(C.weft_weight_rows(in) * C.weft_weight_stride(out))
	if w.lanes > 1 {
		w.totals = t.scratch(tensor.Float64, w.blocks, block)
	}
	w.sums = t.scratch(tensor.Float64, min(2*w.threads, sums), block)
	w.tileSums = t.scratch(tensor.Float32, w.threads, block)
	w.panels = t.scratch(tensor.Float32, w.threads, C.WEFT_WEIGHT_DEPTH*int(C.weft_weight_panels(in, out)))
	return w
}

func (w *weight) release() {
	w.totals.Release()
	w.sums.Release()
	w.tileSums.Release()
	w.panels.Release()
}

// sumsInOrder calls sum for each lane of each block, with memory for so many sums, and then add, in each
// block in the order of the lanes. After a panic nobody waits for memory.
func (c *cpu) sumsInOrder(threads, sums, blocks, lanes int, sum func(thread, sum, block, lane int),
	add func(block, lane, sum int),
) {
	free := make(chan int, sums)
	for k := range sums {
		free <- k
	}
	orders := make([]laneOrder, blocks)
	for b := range orders {
		orders[b].sums = make([]int, lanes)
	}
	var next atomic.Int64
	failed := make(chan struct{})
	fail := sync.OnceFunc(func() { close(failed) })
	c.parallel(threads, func(thread int) {
		done := false
		defer func() {
			if !done {
				fail()
			}
		}()
		for !done {
			select {
			case s := <-free: // taken before the number, so that the first sum at work never waits
				k := int(next.Add(1)) - 1
				done = k >= lanes*blocks
				if done {
					free <- s
					continue
				}
				block, lane := k/lanes, k%lanes
				sum(thread, s, block, lane)
				orders[block].add(lane, s, func(lane, s int) {
					add(block, lane, s)
					free <- s
				})
			case <-failed:
				done = true
			}
		}
	})
}

// sum computes a block's sum over a lane.
func (w *weight) sum(thread, sum, block, lane int) {
	args := w.args
	args.sum, args.tile_sum = (*C.double)(row(w.sums, sum)), (*C.float)(row(w.tileSums, thread))
	args.scratch = (*C.float)(row(w.panels, thread))
	args.i, args.o = C.int64_t(block/w.broad*C.WEFT_WEIGHT_IN), C.int64_t(block%w.broad*C.WEFT_WEIGHT_OUT)
	begins := func(lane int) int {
		return min(tilesOfLanes(w.x.Rows)*lane/w.lanes*laneRows, w.x.Rows)
	}
	w.over(link{on(C.weft_weight), unsafe.Pointer(&args), false}, begins(lane), begins(lane+1))
}

// add adds a lane's sum to the block's total. After the last lane it writes the total to z's block.
func (w *weight) add(block, lane, sum int) {
	i, o := block/w.broad*C.WEFT_WEIGHT_IN, block%w.broad*C.WEFT_WEIGHT_OUT
	columns := min(w.z.Cols-o, C.WEFT_WEIGHT_OUT)
	args := C.weft_weight_sum_args{
		z:       (*C.float)(unsafe.Add(unsafe.Pointer(w.first), 4*(i*w.z.Cols+o))),
		sum:     (*C.double)(row(w.sums, sum)),
		columns: C.int64_t(columns), stride: C.weft_weight_stride(C.int64_t(columns)),
		z_stride: C.int64_t(w.z.Cols), first: boolean(lane == 0), last: boolean(lane == w.lanes-1),
		accumulate: boolean(w.to == Accumulate),
	}
	if w.totals != nil {
		args.total = (*C.double)(row(w.totals, block))
	}
	w.over(link{on(C.weft_weight_sum), unsafe.Pointer(&args), false}, 0, min(w.z.Rows-i, C.WEFT_WEIGHT_IN))
}

func tilesOfLanes(rows int) int { return (rows + laneRows - 1) / laneRows }

func row(m *tensor.Matrix, k int) unsafe.Pointer {
	return unsafe.Add(m.Pointer(), k*m.Cols*m.Element.Size())
}

// laneOrder orders the additions of a block: the sums of lanes are added one at a time, in the order of the
// lanes, by whichever thread completes the next one.
type laneOrder struct {
	mu     sync.Mutex
	sums   []int // for each lane, 1 + the row of its sum, once it is complete
	next   int   // the lane to be added next
	adding bool
}

// add adds a lane's sum, and further ones in order. It leaves the sum to another thread if that is adding
// now, or has an earlier lane.
func (o *laneOrder) add(lane, sum int, add func(lane, sum int)) {
	o.mu.Lock()
	o.sums[lane] = 1 + sum
	if o.adding {
		o.mu.Unlock()
		return
	}
	o.adding = true
	for o.next < len(o.sums) && o.sums[o.next] > 0 {
		lane := o.next
		o.next++
		o.mu.Unlock()
		add(lane, o.sums[lane]-1)
		o.mu.Lock()
	}
	o.adding = false
	o.mu.Unlock()
}
