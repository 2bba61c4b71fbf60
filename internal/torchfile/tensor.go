package torchfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
)

// storage is an entry of the archive: the bytes of tensors.
type storage struct {
	file    *File
	key     string
	bytes   uint64            // what the archive says of the entry
	section *io.SectionReader // nil before the first tensor was read
}

// open returns the bytes, of which all are there.
func (s *storage) open() (*io.SectionReader, error) {
	if s.section == nil {
		if err := s.file.charge(s.bytes); err != nil {
			return nil, err
		}
		section, err := s.file.bytes("data/" + s.key)
		if err != nil {
			return nil, err
		}
		s.section = section
	}
	return s.section, nil
}

// window is a storage as a persistent id names it: so many elements of a type.
type window struct {
	*storage
	dtype
	elements int64
}

// Tensor is a dense tensor: element (i, j, …) lies at offset + i·strides[0] + j·strides[1] + … of its
// storage, counted in elements.
type Tensor struct {
	Shape []int

	storage *storage
	dtype   dtype
	offset  int64
	strides []int64
}

// Layout is how a sparse tensor is stored.
type Layout string

// The layouts of sparse matrices.
const (
	COO Layout = "torch.sparse_coo" // indices, 2 × values; values
	CSR Layout = "torch.sparse_csr" // bounds of the rows; columns; values
	CSC Layout = "torch.sparse_csc" // bounds of the columns; rows; values
)

// Sparse is a sparse tensor as the pickle gives it: that its parts agree is for the caller to check.
type Sparse struct {
	Layout Layout
	Shape  []int
	Parts  []*Tensor
}

// maxDimensions bounds the dimensions of a tensor: a graph has vectors and matrices.
const maxDimensions = 8

var errTensor = errors.New("a tensor that is not (storage, offset, size, stride)")

// rebuildTensor makes a tensor of (storage, offset, size, stride, …). Each element lies within the storage.
func rebuildTensor(args pickle.Tuple) (any, error) {
	if len(args) < 4 {
		return nil, errTensor
	}
	w, okStorage := args[0].(window)
	offset, okOffset := args[1].(int64)
	shape, okShape := args[2].(pickle.Tuple)
	strides, okStrides := args[3].(pickle.Tuple)
	if !okStorage || !okOffset || !okShape || !okStrides || len(shape) != len(strides) {
		return nil, errTensor
	}
	t := &Tensor{storage: w.storage, dtype: w.dtype, offset: offset, strides: make([]int64, len(strides))}
	var err error
	if t.Shape, err = sizes(shape); err != nil {
		return nil, err
	}
	for k, stride := range strides {
		n, ok := stride.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("a tensor with the stride %d", n)
		}
		t.strides[k] = n
	}
	if end := t.end(); offset < 0 || end > uint64(w.elements) {
		return nil, fmt.Errorf("a tensor of shape %v from element %d, with strides %v, leaves storage %.40q of %d elements",
			t.Shape, offset, t.strides, w.key, w.elements)
	}
	return t, nil
}

// sizes takes the dimensions of a tensor.
func sizes(dims pickle.Tuple) ([]int, error) {
	if len(dims) > maxDimensions {
		return nil, fmt.Errorf("a tensor of %d dimensions: at most %d are read", len(dims), maxDimensions)
	}
	shape := make([]int, len(dims))
	for k, dim := range dims {
		n, ok := dim.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("a tensor with a dimension of %d", n)
		}
		shape[k] = int(n)
	}
	return shape, nil
}

// end is the element behind the last; the largest number where it cannot be counted, and the offset where
// there is no element.
func (t *Tensor) end() uint64 {
	last := uint64(t.offset)
	for k, n := range t.Shape {
		if n == 0 {
			return uint64(t.offset)
		}
		high, low := bits.Mul64(uint64(n-1), uint64(t.strides[k]))
		sum, carry := bits.Add64(last, low, 0)
		if high != 0 || carry != 0 || sum == math.MaxUint64 {
			return math.MaxUint64
		}
		last = sum
	}
	return last + 1
}

// contiguous reports whether the elements lie one behind the other, in row order.
func (t *Tensor) contiguous() bool {
	step := int64(1)
	for k := len(t.Shape) - 1; k >= 0; k-- {
		if t.Shape[k] != 1 && t.strides[k] != step {
			return false
		}
		step *= int64(t.Shape[k]) // at most the storage's elements
	}
	return true
}

// Dense is what lies in a file as an array: a *Tensor, or a *pickle.Array of NumPy.
type Dense interface {
	// Open returns it as a .npy file, and its size in bytes.
	Open() (r io.Reader, size int64, err error)
}

// Array reads a tensor, or an array of NumPy. bfloat16 becomes float32.
func Array(d Dense) (*npy.Array, error) {
	r, size, err := d.Open()
	if err != nil {
		return nil, err
	}
	return npy.Read(r, size)
}

// Open returns the tensor as a .npy file, and its size in bytes. Rows are read when they are needed, if they
// lie in the file as they are.
func (t *Tensor) Open() (r io.Reader, size int64, err error) {
	h := npy.Header{Descr: t.descr(), Shape: t.Shape}
	n, err := h.Elements()
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return h.Stream(bytes.NewReader(nil))
	}
	high, need := bits.Mul64(uint64(n), uint64(t.dtype.size))
	if high != 0 {
		need = math.MaxUint64
	}
	if err := t.storage.file.charge(need); err != nil {
		return nil, 0, fmt.Errorf("a tensor of shape %v: %w", t.Shape, err)
	}
	section, err := t.storage.open()
	if err != nil {
		return nil, 0, err
	}
	width, first := int64(t.dtype.size), t.offset*int64(t.dtype.size)
	if t.contiguous() && !t.dtype.halved() {
		return h.Stream(io.NewSectionReader(section, first, int64(n)*width))
	}
	span := int64(t.end())*width - first
	if err := memory.Need(span + 2*int64(need)); err != nil {
		return nil, 0, err
	}
	data := make([]byte, span)
	if _, err := section.ReadAt(data, first); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("storage %.40q: %w", t.storage.key, err)
	}
	if !t.contiguous() {
		data = t.gather(data, n)
	}
	if t.dtype.halved() {
		data = widen(data, t.storage.file.big)
	}
	return h.Stream(bytes.NewReader(data))
}

// descr is the element type as NumPy spells it.
func (t *Tensor) descr() string {
	switch {
	case t.dtype.size == 1:
		return "|" + t.dtype.code
	case t.storage.file.big:
		return ">" + t.dtype.code
	}
	return "<" + t.dtype.code
}

// gather copies the n elements out of a storage's bytes, from the tensor's first on, in row order.
func (t *Tensor) gather(data []byte, n int) []byte {
	width := t.dtype.size
	out := make([]byte, 0, n*width)
	at, index := 0, make([]int, len(t.Shape))
	for range n {
		out = append(out, data[at:at+width]...)
		for k := len(index) - 1; k >= 0; k-- {
			at += int(t.strides[k]) * width
			if index[k]++; index[k] < t.Shape[k] {
				break
			}
			at -= t.Shape[k] * int(t.strides[k]) * width
			index[k] = 0
		}
	}
	return out
}

// widen makes float32 of bfloat16, whose bits are its upper half.
func widen(data []byte, big bool) []byte {
	out := make([]byte, 2*len(data))
	half := 2
	if big {
		half = 0
	}
	for k := 0; k < len(data); k += 2 {
		copy(out[2*k+half:], data[k:k+2])
	}
	return out
}
