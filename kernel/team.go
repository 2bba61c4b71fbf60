// Package kernel computes on matrices. It has C functions, each single-threaded over a range of rows, written
// for AVX-512, AVX2 with FMA, and any CPU. A Team of goroutines hands the ranges out. A row has one writer. A
// row of many entries is cut into segments, and reductions over vertices run over tiles of fixed size. Their
// partial results are merged in order, so a result has the same bits for any number of threads. Products with
// a weight come from oneDNN.
//
// Features, activations and their gradients are Float32 or BFloat16: the operands in storage. They have one
// type in a call, unless its comment says otherwise. Arithmetic is in Float32 or wider, and a result is
// rounded once.
//
// Shapes are checked; a mismatch is a programming error and panics.
//
// The operations of package autograd, optimizers (package optim), and axes that pack and add rows
// (parallel/*) call a Team.
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
	// Memory is the Meter from which kernels take their scratch matrices.
	Memory *tensor.Meter
	// Untiled says that products with large matrices are computed without tiles (cut.go). They take less
	// memory, have the same bits, and may take longer.
	Untiled bool
	// Storage is the element type that tapes store values of vertices and edges in: Float32 or BFloat16.
	Storage tensor.Element
	// TF32 says that devices multiply Float32 matrices by tensor cores (3×TF32). The sums are about as exact.
	TF32 bool
	// Watch, if it is set, makes each kernel call by calling run: once, or more often if only the time
	// matters.
	Watch func(c Call, run func())
	// Waits says that run returns only when a device has done the call.
	Waits   bool
	more    int // Call.More of its calls
	threads int
	sizes   tileSizes
	backend backend
	// partials is the largest number of segments that a device works on at a time.
	partials int
}

// NewTeam returns a team of at least one thread. For a team of all cores, it gives Go's scheduler one more
// processor (cores.AddProcessor).
func NewTeam(threads int, memory *tensor.Meter) *Team {
	if threads >= cores.Count() {
		cores.AddProcessor()
	}
	threads = max(1, threads)
	return newTeam(threads, memory, newCPU(threads))
}

// NewPlan returns a team whose kernels do nothing. A computation on it allocates as much as it would at most
// on a team of so many threads, so the Meter knows the peak. No page is touched, so it costs no memory.
func NewPlan(threads int, memory *tensor.Meter) *Team {
	memory.Plan()
	return newTeam(max(1, threads), memory, nothing{})
}

func newTeam(threads int, memory *tensor.Meter, on backend) *Team {
	return &Team{Memory: memory, threads: threads, sizes: usualTiles, backend: on, partials: devicePartials}
}

// In returns the same team with another Meter.
func (t *Team) In(memory *tensor.Meter) *Team {
	team := *t
	team.Memory = memory
	return &team
}

// Unwatched returns the same team without Watch, for calls that not every epoch makes.
func (t *Team) Unwatched() *Team {
	team := *t
	team.Watch = nil
	return &team
}

// Threads returns the number of threads.
func (t *Team) Threads() int { return t.threads }

// Parallel calls work(k) for k = 0…n−1 on the team's threads, in any order: Go code that reads or writes
// elements of matrices. A plan does not call it, because its matrices hold nothing.
func (t *Team) Parallel(n int, work func(k int)) { t.backend.parallel(n, work) }

// Serial calls work once: Parallel for work that is not divided among threads.
func (t *Team) Serial(work func()) { t.backend.parallel(1, func(int) { work() }) }

// Call describes a kernel call to Team.Watch.
type Call struct {
	Kernel  string // the name in weft.h, or "product"
	Shape   Shape
	Entries int // of a kernel over a sparse matrix: the entries of its rows, if all rows were equally long
	Bytes   Bytes
	More    int // number of calls like this one that a plan leaves out: Team.Times sets it, from −1 on
}

// Operations returns the floating-point operations of a product, and 0 for any other kernel.
func (c Call) Operations() float64 {
	return 2 * float64(c.Shape[0]) * float64(c.Shape[1]) * float64(c.Shape[2])
}

// Bytes counts the bytes of operands that a call reads and writes. An operand counts as often as the call
// passes over it: a matrix that is added to counts twice.
type Bytes struct {
	Streamed int // read or written from front to back
	// Least is the part of Streamed that no fusion saves: the operands of a product or of a sum along edges,
	// and its result. All other work on rows could at best be done while these pass.
	Least    int
	Written  int // the part of Least that is a result
	Gathered int // rows that the entries of a sparse matrix read, counted once for each entry
}

// Work counts the work of calls: their bytes, the entries that gather rows, and the floating-point operations
// of products.
type Work struct {
	Bytes
	Entries    int // the entries that read the rows of Gathered
	Operations float64
}

// Work returns the work of the call, and of the calls like it that a plan leaves out.
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
	scaled := func(n int) int { return int(int64(n) * int64(part) / int64(max(1, whole))) }
	return Bytes{scaled(b.Streamed), scaled(b.Least), scaled(b.Written), scaled(b.Gathered)}
}

// bytesOf returns the size of matrices, some of which may be nil.
func bytesOf(matrices ...*tensor.Matrix) (n int) {
	for _, m := range matrices {
		if m != nil {
			n += m.Len() * m.Element.Size()
		}
	}
	return n
}

// Shape has the number of rows that a kernel works on, and about how many elements it reads for each row, or
// for each entry. For a product it has the rows and columns of the left factor, and the columns of the right
// factor.
type Shape [3]int

func (s Shape) String() string {
	if s[2] == 0 {
		return fmt.Sprintf("%d×%d", s[0], s[1])
	}
	return fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2])
}

// names are the names of the C kernels.
var names = func() (names [C.WEFT_KERNEL_COUNT]string) {
	for k := range names {
		names[k] = C.GoString(C.weft_name(C.int(k)))
	}
	return names
}()

// Work makes a call of Go code, work(0) … work(n−1), so that Watch is told of it.
func (t *Team) Work(c Call, n int, work func(k int)) { t.make(c, n, work) }

// OnHost makes matrices valid on the host, for the CPU to read. On a device, DeviceUse.OnCPU counts the bytes
// under name, the work that no kernel of the device does.
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

// make makes a call of Go code, work(0) … work(n−1).
func (t *Team) make(c Call, n int, work func(k int)) { t.watched(c, func() { t.Parallel(n, work) }) }

// Times returns the same team for a part of a plan whose calls count n times: for n equal parts, or not at
// all if n is 0. Calls of t itself count once.
func (t *Team) Times(n int) *Team {
	team := *t
	team.more = n - 1
	return &team
}

// watched makes a call by run, through Watch if it is set.
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
	name    C.int
	element C.enum_weft_type
	bytes   Bytes
}

// streams adds to the kernel's Bytes the matrices that it passes over, each once; they may be nil.
func (r routine) streams(matrices ...*tensor.Matrix) routine {
	r.bytes.Streamed += bytesOf(matrices...)
	return r
}

// needs is streams for operands that count as Least.
func (r routine) needs(matrices ...*tensor.Matrix) routine {
	r.bytes.Least += bytesOf(matrices...)
	return r.streams(matrices...)
}

// writes is needs for results.
func (r routine) writes(matrices ...*tensor.Matrix) routine {
	r.bytes.Written += bytesOf(matrices...)
	return r.needs(matrices...)
}

// gathers adds to the kernel's Bytes a row of each of the matrices for each entry.
func (r routine) gathers(entries int, matrices ...*tensor.Matrix) routine {
	for _, m := range matrices {
		if m != nil {
			r.bytes.Gathered += entries * m.Cols * m.Element.Size()
		}
	}
	return r
}

// on returns the kernel for operands of one element type, Float32 or BFloat16; nil fits both. A kernel
// without operands in storage is given none.
func on(name C.int, storage ...*tensor.Matrix) routine {
	r, first := routine{name: name, element: C.WEFT_FLOAT32}, true
	for _, m := range storage {
		switch element := typeOf(m); {
		case m == nil:
		case first:
			r.element, first = element, false
		case element != r.element:
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

// List returns a list of rows or of classes, Int32 and 1 × n, in the team's memory, charged to kind. In a
// plan it holds nothing.
func List[T int32 | int64](t *Team, kind tensor.Kind, numbers []T) *tensor.Matrix {
	m := t.Memory.NewElement(kind, tensor.Int32, 1, len(numbers))
	to := m.WriteInt32s()
	for i, n := range numbers[:len(to)] {
		to[i] = int32(n)
	}
	return m
}

func floats(m *tensor.Matrix) *C.float {
	if m == nil {
		return nil
	}
	return (*C.float)(elements(m, tensor.Float32))
}

// storage returns the address of the first element of an operand that has the kernel's element type.
func storage(m *tensor.Matrix) *C.elem { return (*C.elem)(either(m)) }

// either returns the address of a matrix whose element type is another argument of the kernel.
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

// elements returns the address of the first element, and panics if the elements have another type.
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
