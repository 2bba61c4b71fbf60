package npy

import (
	"fmt"
	"io"
	"math"
	"slices"
	"unsafe"
)

// Writer writes one array in batches, in row order, after a header with the shape of the whole array.
type Writer struct {
	w      io.Writer
	h      Header
	left   int // elements still to come; a growing array: minus the elements that came
	length int // bytes of the header
}

// Growing as the first size of a shape stands for a number of rows that is not known in advance.
const Growing = math.MinInt

// NewWriter writes the header of an array of that shape, for one of the element types "<f4", "<f8", "<i4",
// "<i8", "|u1" and "|b1". The data follows by Write; Close checks that it is complete. If the first size is
// Growing, the header has space for any number of rows, and the caller must overwrite it with FinalHeader
// after all rows.
func NewWriter(w io.Writer, descr string, shape ...int) (*Writer, error) {
	if !slices.Contains([]string{"<f4", "<f8", "<i4", "<i8", "|u1", "|b1"}, descr) {
		return nil, fmt.Errorf("arrays of dtype %q are not written", descr)
	}
	if len(shape) > maxDims {
		return nil, fmt.Errorf("an array of %d dimensions is not written", len(shape))
	}
	h := Header{Descr: descr, Shape: slices.Clone(shape)}
	growing := len(shape) > 0 && shape[0] == Growing
	if growing {
		h.Shape[0] = 0
	}
	if _, err := h.bytes(); err != nil {
		return nil, err
	}
	n, err := h.Elements()
	if growing {
		h.Shape[0] = math.MaxInt // the widest
	}
	text := h.marshal()
	if err == nil {
		_, err = w.Write(text)
	}
	copy(h.Shape, shape)
	return &Writer{w, h, n, len(text)}, err
}

// FinalHeader returns the header for the rows that came. It is as long as the header that was written first.
// It is an error if the elements are no whole number of rows.
func (w *Writer) FinalHeader() ([]byte, error) {
	h := w.h
	if w.growing() {
		row := 1
		for _, d := range h.Shape[1:] {
			row *= d
		}
		if row == 0 || w.left%row != 0 {
			return nil, fmt.Errorf("%d elements are no rows of an array of shape %s", -w.left,
				shapeString(h.Shape))
		}
		h.Shape = slices.Clone(h.Shape)
		h.Shape[0] = -w.left / row
	}
	return h.marshalTo(w.length), nil
}

func (w *Writer) growing() bool { return len(w.h.Shape) > 0 && w.h.Shape[0] == Growing }

// Close reports an error if elements are missing. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.left > 0 {
		return fmt.Errorf("an array of shape %s was left with %d elements missing",
			shapeString(w.h.Shape), w.left)
	}
	return nil
}

// Write appends elements to an array of their type.
func Write[T element](w *Writer, v []T) error {
	if descr := Descr[T](); descr != w.h.Descr {
		return fmt.Errorf("elements of %q written to an array of %q", descr, w.h.Descr)
	}
	if len(v) > w.left && !w.growing() {
		return fmt.Errorf("%d elements written to an array of shape %s with room for %d", len(v),
			shapeString(w.h.Shape), w.left)
	}
	if len(v) == 0 {
		return nil
	}
	w.left -= len(v)
	_, err := w.w.Write(Bytes(v))
	return err
}

// element is an element type of arrays.
type element interface{ number | ~bool }

// Bytes returns elements as they stand in a file: v's own memory, or on a big-endian machine a copy.
func Bytes[T element](v []T) []byte {
	var zero T
	size := int(unsafe.Sizeof(zero))
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*size)
	if hostBig {
		data = slices.Clone(data)
		for k := 0; k < len(data); k += size {
			slices.Reverse(data[k : k+size])
		}
	}
	return data
}
