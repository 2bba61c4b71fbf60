// Package kernel computes on matrices: C functions, each single-threaded over a range of rows and written for
// AVX-512, AVX2 with FMA, and any CPU; and a Team of goroutines that hands the ranges out. A row has one
// writer. One of many entries is cut into segments, and reductions over vertices run over tiles of fixed
// size; their partial results are merged in order. So a result has the same bits for any number of threads.
// Products with a weight come from oneDNN.
//
// Features, activations and their gradients are Float32 or BFloat16: the operands in storage, of one type in
// a call unless it says otherwise. Arithmetic is in Float32 or wider, and a result is rounded once.
//
// Shapes are checked; a mismatch is a programming error and panics.
//
// Operations of package autograd, optimizers, and axes that pack and add rows call a Team.
package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/internal/cores"
	"weft/tensor"
)

// Team runs kernels on a number of threads. A moment after the last call it holds no goroutines.
type Team struct {
	// Memory is where kernels take their scratch matrices from.
	Memory *tensor.Meter
	// Untiled computes products with large matrices without tiles (cut.go). They take less memory, have the
	// same bits, and may take longer.
	Untiled bool
	// Storage is the element type that tapes store values of vertices and edges in: Float32 or BFloat16.
	Storage tensor.Element
	// TF32 has devices multiply Float32 matrices by tensor cores (3×TF32), whose sums are about as exact.
	TF32 bool
	// Watch, where it is set, makes each kernel call: by run, once, or more often where only its time
	// matters.
	Watch func(c Call, run func())
	// Waits has run return when a device has done what the call asked of it.
	Waits   bool
	more    int // as Call.More
	threads int
	sizes   tileSizes
	backend backend
	// partials is how many segments a device works on at a time, at most.
	partials int
}

// NewTeam returns a team of at least one thread. One of all cores has Go's scheduler keep a processor spare
// (cores.AddProcessor).
func NewTeam(threads int, memory *tensor.Meter) *Team {
	if threads >= cores.Count() {
		cores.AddProcessor()
	}
	threads = max(1, threads)
	return newTeam(threads, memory, newCPU(threads))
}

// NewPlan returns a team whose kernels do nothing. A computation on it allocates the most that it would
// allocate on a team of so many threads. Its Meter then knows the peak. As no page is touched, that costs no
// memory.
func NewPlan(threads int, memory *tensor.Meter) *Team {
	memory.Plan()
	return newTeam(max(1, threads), memory, nothing{})
}

func newTeam(threads int, memory *tensor.Meter, on backend) *Team {
	return &Team{Memory: memory, threads: threads, sizes: usualTiles, backend: on, partials: devicePartials}
}

// In returns the team with other memory.
func (t *Team) In(memory *tensor.Meter) *Team {
	of := *t
	of.Memory = memory
	return &of
}

// Unwatched returns the team without Watch, for calls that not every epoch makes.
func (t *Team) Unwatched() *Team {
	of := *t
	of.Watch = nil
	return &of
}

// Threads returns the number of threads.
func (t *Team) Threads() int { return t.threads }

// Parallel calls work(k) for k = 0…n−1 on the team's threads, in any order: Go code that reads or writes
// elements of matrices. A plan, whose matrices hold nothing, has none.
func (t *Team) Parallel(n int, work func(k int)) { t.backend.parallel(n, work) }

// Serial calls work once: Parallel for work that is not divided among threads.
func (t *Team) Serial(work func()) { t.backend.parallel(1, func(int) { work() }) }

// Call is a kernel call as Team.Watch is told of it.
type Call struct {
	Kernel  string // as in weft.h, or "product"
	Shape   Shape
	Entries int // of a kernel over a sparse matrix, in its rows, which are taken to be equally long
	Bytes   Bytes
	More    int // calls like this one that a plan leaves out: of Team.Times −1 to n−1
}

// Operations is the floating-point operations of a product, and 0 of any other kernel.
func (c Call) Operations() float64 {
	return 2 * float64(c.Shape[0]) * float64(c.Shape[1]) * float64(c.Shape[2])
}

// Bytes are what a call reads and writes of its operands. An operand counts as often as the call passes over
// it: what is added to counts twice.
type Bytes struct {
	Streamed int // from front to back
	// Least is the part of Streamed that no fusion saves: what a product or a sum along edges reads and the
	// result that it writes. All other work on rows could at best be done while these pass.
	Least    int
	Written  int // the part of Least that is a result
	Gathered int // rows that the entries of a sparse matrix name, each time that one does
}

// Work is what calls do: the bytes, what rows are gathered, and the floating-point operations of products.
type Work struct {
	Bytes
	Entries    int // that name the rows of Gathered
	Operations float64
}

// Work is that of the call, and of those like it that a plan leaves out.
func (c Call) Work() Work {
	n := 1 + c.More
	w := Work{Bytes: c.Bytes.times(n, 1), Operations: float64(n) * c.Operations()}
	if w.Gathered > 0 {
		w.Entries = n * c.Entries
	}
	return w
}

// Plus returns the sums.
func (w Work) Plus(more Work) Work {
	return Work{w.Bytes.Plus(more.Bytes), w.Entries + more.Entries, w.Operations + more.Operations}
}

// Plus returns the sums.
func (b Bytes) Plus(more Bytes) Bytes {
	return Bytes{
		b.Streamed + more.Streamed, b.Least + more.Least, b.Written + more.Written, b.Gathered + more.Gathered,
	}
}

// times returns about part/whole of the bytes.
func (b Bytes) times(part, whole int) Bytes {
	of := func(n int) int { return int(int64(n) * int64(part) / int64(max(1, whole))) }
	return Bytes{of(b.Streamed), of(b.Least), of(b.Written), of(b.Gathered)}
}

// bytesOf is the size of matrices, some of which may be nil.
func bytesOf(matrices ...*tensor.Matrix) (n int) {
	for _, m := range matrices {
		if m != nil {
			n += m.Len() * m.Element.Size()
		}
	}
	return n
}

// Shape is the rows that a kernel works on and about how many elements it reads for each, or for each of its
// entries. A product has the rows and columns of its left factor and the columns of its right one.
type Shape [3]int

func (s Shape) String() string {
	if s[2] == 0 {
		return fmt.Sprintf("%d×%d", s[0], s[1])
	}
	return fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2])
}

// names are the C kernels'.
var names = func() (names [C.WEFT_KERNEL_COUNT]string) {
	for k := range names {
		names[k] = C.GoString(C.weft_name(C.int(k)))
	}
	return names
}()

// Work makes a call that is not a kernel's, work(0) … work(n−1), so that Watch is told of it.
func (t *Team) Work(c Call, n int, work func(k int)) { t.make(c, n, work) }

// OnHost has matrices be on the host, for the CPU to read them. On a device this counts as name, which no
// kernel computes there.
func (t *Team) OnHost(name string, read ...*tensor.Matrix) {
	if !t.Memory.OnDevice() {
		return
	}
	var all []tensor.Operand
	for _, m := range read {
		all = append(all, tensor.Operand{Address: m.Pointer()})
	}
	t.Memory.ToHost(name, all)
}

// make makes a call, which is work(0) … work(n−1).
func (t *Team) make(c Call, n int, work func(k int)) { t.watched(c, func() { t.Parallel(n, work) }) }

// Times returns the team for a part of a plan whose calls count n times: for n parts that are alike, or, if n
// is 0, not at all. Calls of the team itself, such as those beside the part, count once.
func (t *Team) Times(n int) *Team {
	of := *t
	of.more = n - 1
	return &of
}

// watched makes a call by run.
func (t *Team) watched(c Call, run func()) {
	if t.Watch == nil {
		run()
		return
	}
	c.More = t.more
	t.Watch(c, func() {
		run()
		if t.Waits {
			t.backend.wait()
		}
	})
}

// routine is a C kernel for elements of one type.
type routine struct {
	name  C.int
	of    C.enum_weft_type
	bytes Bytes
}

// streams adds to the kernel's Bytes what it passes over, each of the matrices once; nil is none.
func (r routine) streams(matrices ...*tensor.Matrix) routine {
	r.bytes.Streamed += bytesOf(matrices...)
	return r
}

// needs is streams for what counts as Least.
func (r routine) needs(matrices ...*tensor.Matrix) routine {
	r.bytes.Least += bytesOf(matrices...)
	return r.streams(matrices...)
}

// writes is needs for results.
func (r routine) writes(matrices ...*tensor.Matrix) routine {
	r.bytes.Written += bytesOf(matrices...)
	return r.needs(matrices...)
}

// gathers adds a row of each of the matrices for each of so many entries.
func (r routine) gathers(entries int, matrices ...*tensor.Matrix) routine {
	for _, m := range matrices {
		if m != nil {
			r.bytes.Gathered += entries * m.Cols * m.Element.Size()
		}
	}
	return r
}

// on returns the kernel for operands of one element type, Float32 or BFloat16; nil is of either. A kernel
// that is not over storage has no such operands.
func on(name C.int, storage ...*tensor.Matrix) routine {
	r, first := routine{name: name, of: C.WEFT_FLOAT32}, true
	for _, m := range storage {
		switch of := typeOf(m); {
		case m == nil:
		case first:
			r.of, first = of, false
		case of != r.of:
			panic(fmt.Sprintf("kernel: operands of %s have different element types", names[name]))
		}
	}
	return r
}

// typeOf returns the type of Float32 or BFloat16 elements.
func typeOf(m *tensor.Matrix) C.enum_weft_type {
	if m == nil {
		return C.WEFT_FLOAT32
	}
	return elementType(m.Element)
}

func elementType(e tensor.Element) C.enum_weft_type {
	switch e {
	case tensor.Float32:
		return C.WEFT_FLOAT32
	case tensor.BFloat16:
		return C.WEFT_BFLOAT16
	}
	panic(fmt.Sprintf("kernel: a matrix of element type %d where numbers are stored", e))
}

func (t *Team) scratch(element tensor.Element, rows, cols int) *tensor.Matrix {
	return t.Memory.NewElement(tensor.Buffers, element, rows, cols)
}

// List returns a list of rows or of classes, Int32 and 1 × n, in the team's memory of a kind. Where the team
// only plans it holds nothing.
func List[T int32 | int64](t *Team, kind tensor.Kind, numbers []T) *tensor.Matrix {
	m := t.Memory.NewElement(kind, tensor.Int32, 1, len(numbers))
	for i := range m.WriteInt32s() {
		m.Int32s()[i] = int32(numbers[i])
	}
	return m
}

func floats(m *tensor.Matrix) *C.float {
	if m == nil {
		return nil
	}
	return (*C.float)(elements(m, tensor.Float32))
}

// storage returns the address of the first element of a matrix that the kernel's element type is chosen by.
func storage(m *tensor.Matrix) *C.elem { return (*C.elem)(either(m)) }

// either returns the address of a matrix whose type the kernel gets as another argument.
func either(m *tensor.Matrix) unsafe.Pointer {
	if m == nil {
		return nil
	}
	typeOf(m)
	return m.Pointer()
}

func ints(m *tensor.Matrix) *C.int32_t {
	if m == nil {
		return nil
	}
	return (*C.int32_t)(elements(m, tensor.Int32))
}

func doubles(m *tensor.Matrix) *C.double {
	if m == nil {
		return nil
	}
	return (*C.double)(elements(m, tensor.Float64))
}

func longs(m *tensor.Matrix) *C.int64_t {
	if m == nil {
		return nil
	}
	return (*C.int64_t)(elements(m, tensor.Int64))
}

// elements returns the address of the first element, and panics where the elements are of another type.
func elements(m *tensor.Matrix, want tensor.Element) unsafe.Pointer {
	if m.Element != want {
		panic(fmt.Sprintf("kernel: a matrix of element type %d where type %d is needed", m.Element, want))
	}
	return m.Pointer()
}

func boolean(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// check panics with a Mismatch unless the matrix has the given shape.
func check(what string, m *tensor.Matrix, rows, cols int) {
	if m != nil && (m.Rows != rows || m.Cols != cols) {
		panic(tensor.Mismatched("%s has the shape %d×%d, and needs %d×%d", what, m.Rows, m.Cols, rows, cols))
	}
}
