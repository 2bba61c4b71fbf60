package npy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unsafe"

	"weft/internal/memory"
	"weft/internal/refusal"
)

// Array is an array as it was read. The methods convert its elements unless a kind of value is lost: numbers
// become wider or narrower, integers become floats, floats never become integers. Results are in row order,
// even if the file is in Fortran order (up to two dimensions). If the types are equal, a result shares the
// array's memory: nobody may write to it.
type Array struct {
	Header
	data   []byte
	before int // elements of the whole array before this block
	// turned is rows and columns of the whole array in Fortran order that comes flat; else zeros.
	turned [2]int
}

// Element returns the number of element k in the whole array, in row order. It is k unless the array is a
// block.
func (a *Array) Element(k int) int {
	k += a.before
	if rows, columns := a.turned[0], a.turned[1]; rows > 0 {
		return k%rows*columns + k/rows
	}
	return k
}

// Read reads one array from r, which has size bytes, header included. It refuses a header that asks for more,
// and leaves bytes after the data unread. The size may itself be only a claim, as of a zip entry: Read
// allocates at most twice the bytes that r really gives, and 16 MiB.
func Read(r io.Reader, size int64) (*Array, error) {
	h, length, err := readHeader(io.LimitReader(r, max(size, 0)))
	if err != nil {
		return nil, err
	}
	return ReadData(r, size-length, h)
}

// ReadData is Read for data without a header in front, which the caller knows.
func ReadData(r io.Reader, size int64, h Header) (*Array, error) {
	need, err := h.bounded(size)
	if err != nil {
		return nil, err
	}
	data, err := readData(r, nil, need, func(have int64) error { return short(h, need, have) })
	if err != nil {
		return nil, err
	}
	return &Array{Header: h, data: data}, nil
}

// bounded returns how many bytes of data the header asks for. It refuses more than size.
func (h Header) bounded(size int64) (need int64, err error) {
	if need, err = h.bytes(); err == nil && need > size {
		err = short(h, need, size)
	}
	return need, err
}

// readData reads so many bytes of an array's data, into the buffer if they fit. cut makes the error for data
// that end after fewer bytes.
func readData(r io.Reader, buffer []byte, need int64, cut func(have int64) error) ([]byte, error) {
	const step = 16 << 20
	data := buffer[:min(need, int64(cap(buffer)))]
	if int64(len(data)) < need {
		if err := memory.Need(need); err != nil {
			return nil, err
		}
		data = make([]byte, min(need, step))
	}
	for read := 0; ; {
		n, err := io.ReadFull(r, data[read:])
		read += n
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if int64(read) < need {
				return nil, cut(int64(read))
			}
		} else if err != nil {
			return nil, fmt.Errorf("reading an array: %w", err)
		}
		if int64(read) == need {
			return data, nil
		}
		size := min(need, 2*int64(read))
		if err := memory.Need(size); err != nil {
			return nil, err
		}
		grown := make([]byte, size)
		copy(grown, data)
		data = grown
	}
}

// New returns an array of values in row order; without a shape it has one dimension.
func New[T float64 | int64 | uint8 | bool](values []T, shape ...int) *Array {
	if len(shape) == 0 {
		shape = []int{len(values)}
	}
	descr := Descr[T]()
	if hostBig {
		descr = strings.Replace(descr, "<", ">", 1)
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))),
		len(values)*int(unsafe.Sizeof(*new(T))))
	return &Array{Header: Header{Descr: descr, Shape: shape}, data: data}
}

// Elements returns the elements of an array whose Descr is T's.
func Elements[T element](a *Array) ([]T, error) {
	_, data, err := a.plain()
	return view[T](data), err
}

func short(h Header, need, have int64) error {
	return refusal.Damaged("it is cut short: %s of %s needs %d bytes of data, %d are there",
		shapeString(h.Shape), h.Descr, need, have)
}

// Float32s returns the elements of an array of booleans, integers or floats. Integers and wide floats are
// rounded to the nearest float32, infinite where they exceed its range.
func (a *Array) Float32s() ([]float32, error) { return convert[float32](a, "f4", "a float") }

// Float64s is Float32s in double precision.
func (a *Array) Float64s() ([]float64, error) { return convert[float64](a, "f8", "a float") }

// Floats reports whether the elements are floats.
func (a *Array) Floats() bool {
	d, err := parseDtype(a.Descr)
	return err == nil && d.kind == 'f'
}

// Int64s returns the elements of an array of booleans or integers. An unsigned value above the range is
// refused.
func (a *Array) Int64s() ([]int64, error) {
	v, err := convert[int64](a, "i8", "an integer")
	if err == nil && a.Descr[1:] == "u8" {
		if k := slices.IndexFunc(v, func(x int64) bool { return x < 0 }); k >= 0 {
			return nil, refusal.Errorf("element %d, %d, exceeds a signed 64-bit integer", a.Element(k),
				uint64(v[k]))
		}
	}
	return v, err
}

// Int32s returns the elements of an array of booleans or integers. A value outside the range is refused.
func (a *Array) Int32s() ([]int32, error) {
	if strings.HasSuffix(a.Descr, "i4") {
		return convert[int32](a, "i4", "an integer")
	}
	wide, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	if err := memory.Need(4 * int64(len(wide))); err != nil {
		return nil, err
	}
	narrow := make([]int32, len(wide))
	for k, x := range wide {
		if x < math.MinInt32 || x > math.MaxInt32 {
			return nil, ExceedsInt32(a.Element(k), x)
		}
		narrow[k] = int32(x)
	}
	return narrow, nil
}

// ExceedsInt32 is the error for an element that is no int32.
func ExceedsInt32(element int, x int64) error {
	return refusal.Errorf("element %d, %d, exceeds a 32-bit integer", element, x)
}

// Bools returns the elements of an array of booleans, or of numbers that are all 0 or 1.
func (a *Array) Bools() ([]bool, error) {
	if a.Floats() {
		values, err := a.Float64s()
		if err != nil {
			return nil, err
		}
		return bools(values)
	}
	values, err := a.Int64s()
	if err != nil {
		return nil, err
	}
	return bools(values)
}

// bools converts numbers that are all 0 or 1.
func bools[N int64 | float64](wide []N) ([]bool, error) {
	if err := memory.Need(int64(len(wide))); err != nil {
		return nil, err
	}
	v := make([]bool, len(wide))
	for k, x := range wide {
		if x != 0 && x != 1 {
			return nil, refusal.Errorf("element %d, %v, is not a truth value", k, x)
		}
		v[k] = x == 1
	}
	return v, nil
}

// Strings returns the elements of an array of fixed-width text, without the zeros that pad them.
func (a *Array) Strings() ([]string, error) {
	d, data, err := a.plain()
	if err != nil {
		return nil, err
	}
	if d.kind != 'S' && d.kind != 'U' {
		return nil, refusal.Errorf("dtype %q is not text", a.Descr)
	}
	if d.size == 0 {
		return []string{}, nil
	}
	n := len(data) / d.size
	if err := memory.Need(int64(len(data)) + int64(n)*int64(unsafe.Sizeof(""))); err != nil {
		return nil, err
	}
	v := make([]string, n)
	for k := range v {
		item := data[k*d.size : (k+1)*d.size]
		if d.kind == 'U' {
			v[k] = strings.TrimRight(string(view[rune](item)), "\x00")
		} else {
			v[k] = strings.TrimRight(string(item), "\x00")
		}
	}
	return v, nil
}

type number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// FloatsError is the type of an array of floats that should be integers.
type FloatsError string

func (descr FloatsError) Error() string {
	return fmt.Sprintf("dtype %q is not an integer: save it with .astype(\"int64\")", string(descr))
}

// convert returns a's elements as D, which is NumPy's type same; wanted names D's kind in errors.
func convert[D int32 | int64 | float32 | float64](a *Array, same, wanted string) ([]D, error) {
	d, data, err := a.plain()
	if err != nil {
		return nil, err
	}
	if a.Descr[1:] == same {
		return view[D](data), nil
	}
	if d.kind == 'f' && wanted != "a float" {
		return nil, refusal.Errorf("%w", FloatsError(a.Descr))
	}
	if d.kind == 'S' || d.kind == 'U' {
		return nil, refusal.Errorf("dtype %q is not %s", a.Descr, wanted)
	}
	if err := memory.Need(int64(len(data)/d.size) * int64(unsafe.Sizeof(*new(D)))); err != nil {
		return nil, err
	}
	switch string([]byte{d.kind, '0' + byte(d.size)}) {
	case "b1":
		v := make([]D, len(data))
		for k, x := range data {
			if x != 0 {
				v[k] = 1
			}
		}
		return v, nil
	case "f2":
		v := make([]D, len(data)/2)
		for k, x := range view[uint16](data) {
			v[k] = D(Float16(x))
		}
		return v, nil
	case "i1":
		return widen[D, int8](data), nil
	case "u1":
		return widen[D, uint8](data), nil
	case "i2":
		return widen[D, int16](data), nil
	case "u2":
		return widen[D, uint16](data), nil
	case "i4":
		return widen[D, int32](data), nil
	case "u4":
		return widen[D, uint32](data), nil
	case "i8":
		return widen[D, int64](data), nil
	case "u8":
		return widen[D, uint64](data), nil
	case "f4":
		return widen[D, float32](data), nil
	default:
		return widen[D, float64](data), nil
	}
}

func widen[D, S number](data []byte) []D {
	v := make([]D, len(data)/int(unsafe.Sizeof(*new(S))))
	for k, x := range view[S](data) {
		v[k] = D(x)
	}
	return v
}

// view reads memory in the host's byte order as elements, without copying it. The memory must be aligned.
func view[T any](data []byte) []T {
	n := len(data) / int(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// plain returns the data in row order, in the host's byte order, and aligned. This is the array's own memory
// if that is so already.
func (a *Array) plain() (dtype, []byte, error) {
	d, err := parseDtype(a.Descr)
	if err != nil {
		return d, nil, err
	}
	data, unit := a.data, d.size
	if d.kind == 'U' {
		unit = 4
	}
	if a.Fortran && len(a.Shape) > 2 {
		return d, nil, refusal.Errorf("an array of %d dimensions in Fortran order is not read; save "+
			"numpy.ascontiguousarray of it", len(a.Shape))
	}
	turned := a.Fortran && len(a.Shape) == 2 && a.Shape[0] > 1 && a.Shape[1] > 1
	misaligned := len(data) > 0 && d.kind != 'S' &&
		uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(unit) != 0
	swapped := d.big != hostBig && unit > 1 && d.kind != 'S'
	if turned || misaligned || swapped {
		if err := memory.Need(int64(len(data))); err != nil {
			return d, nil, err
		}
	}
	if turned {
		data = transpose(data, a.Shape[0], a.Shape[1], d.size)
	} else if misaligned || swapped {
		data = append(make([]byte, 0, len(data)), data...)
	}
	if swapped {
		for k := 0; k < len(data); k += unit {
			slices.Reverse(data[k : k+unit])
		}
	}
	return d, data, nil
}

// transpose copies a columns × rows matrix of elements of the given size into rows × columns.
func transpose(data []byte, rows, columns, size int) []byte {
	out := make([]byte, 0, len(data))
	for r := range rows {
		for c := range columns {
			at := (c*rows + r) * size
			out = append(out, data[at:at+size]...)
		}
	}
	return out
}
