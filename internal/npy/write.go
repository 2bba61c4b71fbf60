package npy

import (
	"fmt"
	"io"
	"slices"
	"unsafe"
)

// Writer writes one array piece by piece, in row order, behind a header that announces the whole.
type Writer struct {
	w    io.Writer
	h    Header
	left int // elements still to come
}

// NewWriter writes the header of an array of that shape, for one of the element types "<f4", "<f8", "<i4",
// "<i8", "|u1" and "|b1". The data follows through the Write methods; Close checks that it was complete.
func NewWriter(w io.Writer, descr string, shape ...int) (*Writer, error) {
	if !slices.Contains([]string{"<f4", "<f8", "<i4", "<i8", "|u1", "|b1"}, descr) {
		return nil, fmt.Errorf("arrays of dtype %q are not written", descr)
	}
	h := Header{Descr: descr, Shape: slices.Clone(shape)}
	if _, err := h.bytes(); err != nil {
		return nil, err
	}
	if len(shape) > maxDims {
		return nil, fmt.Errorf("an array of %d dimensions is not written", len(shape))
	}
	n, err := h.Elements()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(h.marshal())
	return &Writer{w, h, n}, err
}

// WriteFloat32s appends elements to an array of "<f4".
func (w *Writer) WriteFloat32s(v []float32) error { return put(w, "<f4", v) }

// WriteInt32s appends elements to an array of "<i4".
func (w *Writer) WriteInt32s(v []int32) error { return put(w, "<i4", v) }

// WriteInt64s appends elements to an array of "<i8".
func (w *Writer) WriteInt64s(v []int64) error { return put(w, "<i8", v) }

// Close reports an error if elements are missing. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.left > 0 {
		return fmt.Errorf("an array of shape %s was left with %d elements missing", shapeString(w.h.Shape), w.left)
	}
	return nil
}

func put[T element](w *Writer, descr string, v []T) error {
	if descr != w.h.Descr {
		return fmt.Errorf("elements of %q written to an array of %q", descr, w.h.Descr)
	}
	if len(v) > w.left {
		return fmt.Errorf("%d elements written to an array of shape %s with room for %d", len(v), shapeString(w.h.Shape), w.left)
	}
	if len(v) == 0 {
		return nil
	}
	w.left -= len(v)
	_, err := w.w.Write(Bytes(v))
	return err
}

// element is what arrays have.
type element interface{ number | ~bool }

// Bytes are elements as they stand in a file: v's own memory, or on a big-endian machine a copy.
func Bytes[T element](v []T) []byte {
	var one T
	size := int(unsafe.Sizeof(one))
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*size)
	if hostBig {
		data = slices.Clone(data)
		for k := 0; k < len(data); k += size {
			slices.Reverse(data[k : k+size])
		}
	}
	return data
}
