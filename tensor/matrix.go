// Package tensor holds matrices outside Go's heap. Their memory comes from the operating system and is given
// back explicitly, so that a worker's peak is the need of the algorithm, without what a garbage collector
// leaves over. A Meter charges every byte, by its purpose (Kind).
//
// A Meter of a plan makes matrices without elements: it charges their bytes, and touches no memory. A Meter
// with a limit (Offload) moves matrices to a Disk when other matrices need their memory, and back when they
// are used. A Meter on a device (On) may move them to the host's memory in the same way.
//
// Reading order: matrix.go, and meter.go, which makes matrices. memory.go asks the operating system. idle.go,
// with spans.go, and spare.go use released memory again. offload.go says which matrices leave, rest.go moves
// them, and gather.go reads single rows; disk.go and ram.go are the tiers in which matrices rest. device.go
// has matrices on a device, and message.go messages from and to it. common.go is memory that several workers
// of a machine map.
//
// Each worker (package worker) has a Meter, and package kernel computes on its matrices.
package tensor

import (
	"fmt"
	"math"
	"unsafe"
)

// Element is the type of a matrix's elements.
type Element uint8

// The element types.
const (
	Float32 Element = iota
	Float64
	Int32
	Int64
	// BFloat16 is the upper half of a Float32. It stores features, activations and their gradients in half
	// the bytes. Kernels compute in Float32, and round each result once.
	BFloat16
	// Byte is for messages with encoded rows. Nothing is computed in it.
	Byte
)

// Size is the number of bytes of one element.
func (e Element) Size() int {
	switch e {
	case Byte:
		return 1
	case BFloat16:
		return 2
	case Float32, Int32:
		return 4
	default:
		return 8
	}
}

// Matrix is a row-major Rows × Cols matrix without gaps between its rows, outside Go's heap. It is made by a
// Meter and lives until Release. Package kernel computes on its elements. The slice accessors are for filling
// and reading it at the edges of the program.
type Matrix struct {
	Rows, Cols int
	Element    Element

	planned  bool    // its Meter plans, so it holds nothing
	known    []int32 // elements that ReadInt32s returns even in a plan (Known)
	others   bool    // another worker writes its elements
	data     unsafe.Pointer
	meter    *Meter  // nil for a view
	base     *Matrix // the matrix of a view, if that matrix may rest or is on a device
	held     *Matrix // the matrix that a view holds (Hold)
	rest     *rest   // nil: the matrix does not rest
	extent   *extent // nil: the matrix is on the host
	staged   *buffer // nil: no message of it has been staged
	kind     Kind
	retained int // holders besides the first
	bytes    int // bytes from the operating system, a whole number of pages
}

// Len is the number of elements.
func (m *Matrix) Len() int { return m.Rows * m.Cols }

// Pointer returns the address of the first element, for package kernel. It panics if the matrix was released.
// The elements of a matrix on a device may be valid there alone.
func (m *Matrix) Pointer() unsafe.Pointer {
	if m.data == nil {
		panic("tensor: use of a released matrix")
	}
	if m.rest != nil {
		m.touch()
	} else if m.base != nil && m.base.rest != nil {
		m.base.touch()
	}
	return m.data
}

// Floats returns the elements of a Float32 matrix for reading and writing, valid until Release. In a plan
// they are zeros, and nobody may write to them.
func (m *Matrix) Floats() []float32 { return elements[float32](m, Float32, true) }

// Doubles is Floats for a Float64 matrix.
func (m *Matrix) Doubles() []float64 { return elements[float64](m, Float64, true) }

// Int32s is Floats for an Int32 matrix.
func (m *Matrix) Int32s() []int32 { return elements[int32](m, Int32, true) }

// Int64s is Floats for an Int64 matrix.
func (m *Matrix) Int64s() []int64 { return elements[int64](m, Int64, true) }

// BFloat16s is Floats for a BFloat16 matrix: the bits of its elements.
func (m *Matrix) BFloat16s() []uint16 { return elements[uint16](m, BFloat16, true) }

// Bytes is Floats for a matrix of any type: the bytes of its elements, for callers that only move them.
func (m *Matrix) Bytes() []byte { return elements[byte](m, Byte, true) }

// ReadFloats returns the elements of a Float32 matrix for reading only, valid until Release. In a plan, and
// for nil, the slice is empty.
func (m *Matrix) ReadFloats() []float32 { return readable[float32](m, Float32) }

// ReadDoubles is ReadFloats for a Float64 matrix.
func (m *Matrix) ReadDoubles() []float64 { return readable[float64](m, Float64) }

// ReadInt32s is ReadFloats for an Int32 matrix. In a plan it returns the elements of Known.
func (m *Matrix) ReadInt32s() []int32 {
	if m != nil && m.planned {
		m.Pointer()
		return m.known
	}
	return readable[int32](m, Int32)
}

// Known gives ReadInt32s elements that it returns in a plan, because later steps of the plan depend on them.
// They must not change.
func (m *Matrix) Known(elements []int32) {
	if m.planned {
		m.known = elements
	}
}

// ReadInt64s is ReadFloats for an Int64 matrix.
func (m *Matrix) ReadInt64s() []int64 { return readable[int64](m, Int64) }

// ReadBFloat16s is ReadFloats for a BFloat16 matrix: the bits of its elements.
func (m *Matrix) ReadBFloat16s() []uint16 { return readable[uint16](m, BFloat16) }

// ReadBytes is ReadFloats for a matrix of any type: the bytes of its elements.
func (m *Matrix) ReadBytes() []byte { return readable[byte](m, Byte) }

// WriteFloats returns the elements of a Float32 matrix, which the caller sets or changes, valid until
// Release. The slice is empty in a plan, for a matrix of NewCommon that another worker writes, and for nil.
func (m *Matrix) WriteFloats() []float32 { return ours[float32](m, Float32) }

// WriteDoubles is WriteFloats for a Float64 matrix.
func (m *Matrix) WriteDoubles() []float64 { return ours[float64](m, Float64) }

// WriteInt32s is WriteFloats for an Int32 matrix.
func (m *Matrix) WriteInt32s() []int32 { return ours[int32](m, Int32) }

// WriteInt64s is WriteFloats for an Int64 matrix.
func (m *Matrix) WriteInt64s() []int64 { return ours[int64](m, Int64) }

// WriteBFloat16s is WriteFloats for a BFloat16 matrix: the bits of its elements.
func (m *Matrix) WriteBFloat16s() []uint16 { return ours[uint16](m, BFloat16) }

// WriteBytes is WriteFloats for a matrix of any type: the bytes of its elements.
func (m *Matrix) WriteBytes() []byte { return ours[byte](m, Byte) }

// readable returns the elements of a matrix for reading, and ours those that this worker writes. In a plan,
// too, a matrix at rest comes back.
func readable[T any](m *Matrix, want Element) []T {
	if m == nil {
		return nil
	}
	all := elements[T](m, want, false)
	if m.planned {
		return nil
	}
	return all
}

func ours[T any](m *Matrix, want Element) []T {
	if m == nil {
		return nil
	}
	all := elements[T](m, want, !m.others)
	if m.planned || m.others {
		return nil
	}
	return all
}

// elements returns the elements of a matrix, or its bytes, on the host.
func elements[T any](m *Matrix, want Element, written bool) []T {
	n := m.Len()
	if want == Byte {
		n *= m.Element.Size()
	} else if m.Element != want {
		panic(fmt.Sprintf("tensor: element type %d read as %d", m.Element, want))
	}
	first := m.Pointer()
	m.host(written)
	return unsafe.Slice((*T)(first), n)
}

// RowRange returns a view of rows lo…hi−1. It shares the memory, and must not outlive the matrix. Releasing
// it does nothing.
func (m *Matrix) RowRange(lo, hi int) *Matrix {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("tensor: rows %d to %d of %d", lo, hi, m.Rows))
	}
	v := m.view()
	v.Rows, v.data = hi-lo, unsafe.Add(v.data, lo*m.Cols*m.Element.Size())
	return v
}

// Reshape returns a view with other numbers of rows and columns, and as many elements.
func (m *Matrix) Reshape(rows, cols int) *Matrix {
	if rows*cols != m.Len() {
		panic(fmt.Sprintf("tensor: %d×%d as %d×%d", m.Rows, m.Cols, rows, cols))
	}
	v := m.view()
	v.Rows, v.Cols = rows, cols
	return v
}

// view returns a view of all elements.
func (m *Matrix) view() *Matrix {
	v := &Matrix{
		Rows: m.Rows, Cols: m.Cols, Element: m.Element,
		planned: m.planned, others: m.others, data: m.Pointer(), base: m.base,
	}
	if m.rest != nil || m.meter != nil && m.meter.device != nil {
		v.base = m
	}
	return v
}

// Prefix returns a view of the first rows·cols elements, as a matrix of rows × cols.
func (m *Matrix) Prefix(rows, cols int) *Matrix {
	if rows < 0 || cols < 0 || rows*cols > m.Len() {
		panic(fmt.Sprintf("tensor: the first %d×%d elements of %d×%d", rows, cols, m.Rows, m.Cols))
	}
	v := m.view()
	v.Rows, v.Cols = rows, cols
	return v
}

// Retain adds a holder: the memory is given back when each has released it, once. No holder may change the
// elements while there are several. Only one goroutine at a time may call Retain and Release of a matrix.
func (m *Matrix) Retain() *Matrix {
	m.retained++
	return m
}

// Shared reports whether there is more than one holder.
func (m *Matrix) Shared() bool { return m.retained > 0 || m.held != nil && m.held.Shared() }

// Release gives the memory back when the last holder calls it. It does nothing for nil, for a view that holds
// nothing, and when it is called again.
func (m *Matrix) Release() {
	if m == nil || m.meter == nil && m.held == nil || m.data == nil {
		return
	}
	if m.retained > 0 {
		m.retained--
		return
	}
	if m.held != nil {
		m.held.Release()
	} else {
		m.meter.free(m)
	}
	m.data = nil
}

// Finite reports whether none of the values is a NaN or an infinity.
func Finite(values []float32) bool {
	for _, x := range values {
		if x-x != 0 { // NaN for NaN and infinities, and otherwise 0
			return false
		}
	}
	return true
}

// RoundBFloat16 returns the bits of the bfloat16 nearest to x; of two equally near ones, the even one. NaN
// stays NaN.
func RoundBFloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBFloat16 returns the value of a bfloat16's bits.
func FromBFloat16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Writer returns a function that copies numbers to the elements, from element at on. The elements are Float32
// or BFloat16; for BFloat16 it rounds.
func (m *Matrix) Writer() func(at int, numbers []float32) {
	if m.Element != BFloat16 {
		floats := m.WriteFloats()
		return func(at int, numbers []float32) { copy(floats[at:], numbers) }
	}
	halves := m.WriteBFloat16s()
	return func(at int, numbers []float32) {
		for k, x := range numbers {
			halves[at+k] = RoundBFloat16(x)
		}
	}
}

// Reader returns a function that copies elements, from element at on, into numbers. The elements are Float32
// or BFloat16.
func (m *Matrix) Reader() func(at int, numbers []float32) {
	if m.Element != BFloat16 {
		floats := m.ReadFloats()
		return func(at int, numbers []float32) { copy(numbers, floats[at:]) }
	}
	halves := m.ReadBFloat16s()
	return func(at int, numbers []float32) {
		for k := range numbers {
			numbers[k] = FromBFloat16(halves[at+k])
		}
	}
}

// SameShape panics with a Mismatch unless the matrices have equal numbers of rows and columns.
func SameShape(a, b *Matrix) {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		panic(Mismatched("an operation takes matrices of one shape, and gets %d×%d and %d×%d", a.Rows, a.Cols,
			b.Rows, b.Cols))
	}
}

// Mismatch is the panic value of an operation whose operands have shapes that do not fit.
type Mismatch string

// Mismatched formats a Mismatch, whose text has the shapes of an operation and says what it needs.
func Mismatched(format string, shapes ...any) Mismatch {
	return Mismatch(fmt.Sprintf(format, shapes...))
}

func (m Mismatch) Error() string { return string(m) }

// Within calls f. If f panics with a Mismatch, it adds where to its text.
func Within(where string, f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case Mismatch:
			panic(Mismatch(where + ": " + string(p)))
		default:
			panic(p)
		}
	}()
	f()
}
