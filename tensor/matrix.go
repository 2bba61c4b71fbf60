// Package tensor holds matrices outside Go's heap. Their memory comes from the operating system and is given
// back explicitly, so that a worker's peak is what the algorithm needs and not what a garbage collector left
// over. Every byte is charged to a Meter by what it is for.
//
// A Meter of a plan makes matrices without elements: it charges their bytes, and touches no memory. A Meter
// with a limit (Offload) moves matrices to a Disk when others need their memory, and back when they are used.
// One on a device (On) may move them to the host's memory in the same way.
//
// Reading order: matrix.go, and meter.go, which makes matrices. memory.go asks the operating system. idle.go,
// with spans.go, and spare.go use released memory again. offload.go says which matrices leave, rest.go moves
// them, and gather.go reads single rows; disk.go and ram.go are the tiers where they rest. common.go is
// memory that several workers of a machine map.
//
// A worker has a Meter, and package kernel computes on its matrices.
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
	// the bytes; kernels compute in Float32 and round once what they store.
	BFloat16
	// Byte is for messages with rows that are encoded. Nothing is computed in it.
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
// Meter and lives until Release. Its elements are meant for package kernel; the slice accessors are for
// filling and reading it at the edges of the program.
type Matrix struct {
	Rows, Cols int
	Element    Element

	planned  bool    // it holds nothing: its Meter plans
	known    []int32 // what ReadInt32s has of it all the same
	others   bool    // another worker writes its elements
	data     unsafe.Pointer
	meter    *Meter  // nil for a view
	of       *Matrix // of a view of a matrix that may rest, or is on a device: that matrix
	held     *Matrix // of a view that holds a matrix: that matrix
	rest     *rest   // nil: the matrix does not rest
	extent   *extent // nil: the matrix is on the host
	staged   *buffer // nil: it had no message yet
	kind     Kind
	retained int // holders besides the first
	bytes    int // what the operating system gave, a whole number of pages
}

// Len is the number of elements.
func (m *Matrix) Len() int { return m.Rows * m.Cols }

// Pointer is the address of the first element, for package kernel. The elements of a matrix on a device may
// be there alone. It panics when the matrix was released.
func (m *Matrix) Pointer() unsafe.Pointer {
	if m.data == nil {
		panic("tensor: use of a released matrix")
	}
	if m.rest != nil {
		m.touch()
	} else if m.of != nil && m.of.rest != nil {
		m.of.touch()
	}
	return m.data
}

// Floats are the elements of a Float32 matrix, to be read and written, valid until Release. Nobody may write
// to those of a plan, which are zeros.
func (m *Matrix) Floats() []float32 { return elements[float32](m, Float32, true) }

// Doubles are Floats of a Float64 matrix.
func (m *Matrix) Doubles() []float64 { return elements[float64](m, Float64, true) }

// Int32s are Floats of an Int32 matrix.
func (m *Matrix) Int32s() []int32 { return elements[int32](m, Int32, true) }

// Int64s are Floats of an Int64 matrix.
func (m *Matrix) Int64s() []int64 { return elements[int64](m, Int64, true) }

// BFloat16s are Floats of a BFloat16 matrix: the bits of its elements.
func (m *Matrix) BFloat16s() []uint16 { return elements[uint16](m, BFloat16, true) }

// Bytes are Floats of a matrix of whatever type, for callers that only move them.
func (m *Matrix) Bytes() []byte { return elements[byte](m, Byte, true) }

// ReadFloats are the elements of a Float32 matrix, to be read only, valid until Release. A plan has none, and
// nil has none: the slice is empty.
func (m *Matrix) ReadFloats() []float32 { return held[float32](m, Float32) }

// ReadDoubles are ReadFloats of a Float64 matrix.
func (m *Matrix) ReadDoubles() []float64 { return held[float64](m, Float64) }

// ReadInt32s are ReadFloats of an Int32 matrix, in a plan those of Known.
func (m *Matrix) ReadInt32s() []int32 {
	if m != nil && m.planned {
		m.Pointer()
		return m.known
	}
	return held[int32](m, Int32)
}

// Known gives ReadInt32s elements in a plan, too, where what follows depends on them. They stay as they are.
func (m *Matrix) Known(elements []int32) {
	if m.planned {
		m.known = elements
	}
}

// ReadInt64s are ReadFloats of an Int64 matrix.
func (m *Matrix) ReadInt64s() []int64 { return held[int64](m, Int64) }

// ReadBFloat16s are ReadFloats of a BFloat16 matrix: the bits of its elements.
func (m *Matrix) ReadBFloat16s() []uint16 { return held[uint16](m, BFloat16) }

// ReadBytes are ReadFloats of a matrix of whatever type.
func (m *Matrix) ReadBytes() []byte { return held[byte](m, Byte) }

// WriteFloats are the elements of a Float32 matrix that the caller sets, or changes, valid until Release. A
// plan has none, and so has a worker for a matrix of NewCommon that another writes, and nil: the slice is
// empty.
func (m *Matrix) WriteFloats() []float32 { return ours[float32](m, Float32) }

// WriteDoubles are WriteFloats of a Float64 matrix.
func (m *Matrix) WriteDoubles() []float64 { return ours[float64](m, Float64) }

// WriteInt32s are WriteFloats of an Int32 matrix.
func (m *Matrix) WriteInt32s() []int32 { return ours[int32](m, Int32) }

// WriteInt64s are WriteFloats of an Int64 matrix.
func (m *Matrix) WriteInt64s() []int64 { return ours[int64](m, Int64) }

// WriteBFloat16s are WriteFloats of a BFloat16 matrix: the bits of its elements.
func (m *Matrix) WriteBFloat16s() []uint16 { return ours[uint16](m, BFloat16) }

// WriteBytes are WriteFloats of a matrix of whatever type.
func (m *Matrix) WriteBytes() []byte { return ours[byte](m, Byte) }

// held are the elements that a matrix holds, to be read, and ours those that this worker writes. What rests
// comes back in a plan, too.
func held[T any](m *Matrix, want Element) []T {
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

// elements are those of a matrix, or its bytes, on the host.
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

// RowRange is a view of rows lo…hi−1. It shares the memory and must not outlive the matrix; releasing it does
// nothing.
func (m *Matrix) RowRange(lo, hi int) *Matrix {
	if lo < 0 || hi < lo || hi > m.Rows {
		panic(fmt.Sprintf("tensor: rows %d to %d of %d", lo, hi, m.Rows))
	}
	v := m.view()
	v.Rows, v.data = hi-lo, unsafe.Add(v.data, lo*m.Cols*m.Element.Size())
	return v
}

// Reshape is a view with other numbers of rows and columns and as many elements.
func (m *Matrix) Reshape(rows, cols int) *Matrix {
	if rows*cols != m.Len() {
		panic(fmt.Sprintf("tensor: %d×%d as %d×%d", m.Rows, m.Cols, rows, cols))
	}
	v := m.view()
	v.Rows, v.Cols = rows, cols
	return v
}

// view is a view of all elements.
func (m *Matrix) view() *Matrix {
	v := &Matrix{
		Rows: m.Rows, Cols: m.Cols, Element: m.Element,
		planned: m.planned, others: m.others, data: m.Pointer(), of: m.of,
	}
	if m.rest != nil || m.meter != nil && m.meter.device != nil {
		v.of = m
	}
	return v
}

// Prefix is a view of the first rows·cols elements as a matrix of these rows and columns.
func (m *Matrix) Prefix(rows, cols int) *Matrix {
	if rows < 0 || cols < 0 || rows*cols > m.Len() {
		panic(fmt.Sprintf("tensor: the first %d×%d elements of %d×%d", rows, cols, m.Rows, m.Cols))
	}
	v := m.view()
	v.Rows, v.Cols = rows, cols
	return v
}

// Retain adds a holder: the memory is given back when each has released it, once. No holder may change the
// elements while there are several. Retain and Release of one matrix are not for several goroutines at a
// time.
func (m *Matrix) Retain() *Matrix {
	m.retained++
	return m
}

// Shared reports whether there is more than one holder.
func (m *Matrix) Shared() bool { return m.retained > 0 || m.held != nil && m.held.Shared() }

// Release gives the memory back, when the last holder calls it. A further Release, and the release of a view
// that holds nothing, or of nil, does nothing.
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
		if x-x != 0 { // NaN for both, and for nothing else
			return false
		}
	}
	return true
}

// RoundBFloat16 returns the bits of the bfloat16 that is nearest to x, and of two the even one. NaN stays
// NaN.
func RoundBFloat16(x float32) uint16 {
	bits := math.Float32bits(x)
	if x != x {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBFloat16 returns the value of a bfloat16's bits.
func FromBFloat16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Writer returns a function that copies numbers to the elements from one on. The elements are Float32, or
// BFloat16, to which it rounds.
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

// Reader returns a function that copies the elements from one on, Float32 or BFloat16, into numbers.
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

// Mismatch is the panic of an operation whose operands' shapes do not go together.
type Mismatch string

// Mismatched says which shapes an operation has, and which it needs.
func Mismatched(format string, shapes ...any) Mismatch {
	return Mismatch(fmt.Sprintf(format, shapes...))
}

func (m Mismatch) Error() string { return string(m) }

// Within says in a Mismatch of f what f is part of.
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
