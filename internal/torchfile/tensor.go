package torchfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strings"

	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
)

// storage is an entry of the archive: the bytes of tensors.
type storage struct {
	file    *File
	key     string
	bytes   uint64            // size of the entry, as the archive says
	section *io.SectionReader // nil until the first tensor is read
}

// open returns the storage's bytes. It refuses a file that lacks some of them.
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

// Type is the element type as PyTorch spells it: "float32".
func (t *Tensor) Type() string { return t.dtype.name }

// Layout is how a sparse tensor is stored.
type Layout string

// The layouts of sparse matrices.
const (
	COO Layout = "torch.sparse_coo" // indices, 2 × values; values
	CSR Layout = "torch.sparse_csr" // bounds of the rows; columns; values
	CSC Layout = "torch.sparse_csc" // bounds of the columns; rows; values
)

// Sparse is a sparse tensor as the pickle gives it. The caller must check that its parts agree.
type Sparse struct {
	Layout Layout
	Shape  []int
	Parts  []*Tensor
}

// maxDimensions bounds the dimensions of a tensor: a graph has vectors and matrices.
const maxDimensions = 8

var errTensor = errors.New("a tensor that is not (storage, offset, size, stride)")

// rebuildTyped makes a tensor of (storage, offset, size, stride, gradient, hooks, dtype, …). The storage has
// plain bytes; dtype is the tensor's type.
func rebuildTyped(args pickle.Tuple) (any, error) {
	if len(args) < 7 {
		return nil, errTensor
	}
	w, okStorage := args[0].(window)
	kind, okType := args[6].(dtype)
	if !okStorage || !okType {
		return nil, errTensor
	}
	w.elements = w.elements * int64(w.size) / int64(kind.size)
	w.dtype = kind
	args = slices.Delete(slices.Clone(args), 6, 7)
	args[0] = w
	return rebuildTensor(args)
}

// rebuildTensor makes a tensor of (storage, offset, size, stride, gradient, hooks, flags). The flags may be
// missing. Each element lies within the storage.
func rebuildTensor(args pickle.Tuple) (any, error) {
	if len(args) < 4 || len(args) > 7 {
		return nil, errTensor
	}
	if len(args) == 7 {
		if flags, ok := args[6].(*pickle.Dict); ok && len(flags.Items) > 0 { // neg or conj
			return nil, errors.New("a tensor whose numbers are to be negated: save it after " +
				".resolve_conj().resolve_neg()")
		}
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
		return nil, fmt.Errorf("a tensor of shape %v from element %d, with strides %v, leaves storage "+
			"%.40q of %d elements", t.Shape, offset, t.strides, w.key, w.elements)
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

// end returns the element behind the last: the largest number if it cannot be counted, and the offset if
// there are no elements.
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

// Dense is a part of a file that is an array: a *Tensor, or a *pickle.Array of NumPy.
type Dense interface {
	// Open returns it as a .npy file, and its size in bytes.
	Open() (r io.Reader, size int64, err error)
}

// Array reads a tensor, or an array of NumPy. bfloat16 and floats of 8 bits become float32.
func Array(d Dense) (*npy.Array, error) {
	r, size, err := d.Open()
	if err != nil {
		return nil, err
	}
	return npy.Read(r, size)
}

// Open returns the tensor as a .npy file, and its size in bytes. If rows lie in the file one behind the
// other, they are read when they are needed.
func (t *Tensor) Open() (r io.Reader, size int64, err error) {
	if err := t.charge(); err != nil {
		return nil, 0, err
	}
	return t.open()
}

// InBlocks reports whether OpenInBlocks reads only the blocks that are asked for: the tensor's rows, or its
// columns, lie in the file one behind the other.
func (t *Tensor) InBlocks() bool { return t.contiguous() || t.transposed().contiguous() }

// OpenInBlocks is Open, except that a tensor whose columns lie one behind the other is a .npy file in Fortran
// order. again says that the tensor was opened before, and that its bytes are counted.
func (t *Tensor) OpenInBlocks(again bool) (r io.Reader, size int64, err error) {
	if !again {
		if err := t.charge(); err != nil {
			return nil, 0, err
		}
	}
	columns := t.transposed()
	if t.contiguous() || !columns.contiguous() {
		return t.open()
	}
	section, err := columns.section()
	if err != nil {
		return nil, 0, err
	}
	return npy.Header{Descr: t.descr(), Fortran: true, Shape: t.Shape}.Stream(section)
}

// transposed is the tensor with its dimensions in the opposite order.
func (t *Tensor) transposed() *Tensor {
	turned := *t
	turned.Shape = slices.Clone(t.Shape)
	turned.strides = slices.Clone(t.strides)
	slices.Reverse(turned.Shape)
	slices.Reverse(turned.strides)
	return &turned
}

// elements returns how many elements the tensor has, and how many bytes of the file they take.
func (t *Tensor) elements() (n int, bytes uint64, err error) {
	if n, err = (npy.Header{Shape: t.Shape}).Elements(); err != nil {
		return 0, 0, err
	}
	high, bytes := bits.Mul64(uint64(n), uint64(t.dtype.size))
	if high != 0 {
		bytes = math.MaxUint64
	}
	return n, bytes, nil
}

// charge counts the bytes that are about to be read.
func (t *Tensor) charge() error {
	_, bytes, err := t.elements()
	if err != nil {
		return err
	}
	if err := t.storage.file.charge(bytes); err != nil {
		return fmt.Errorf("a tensor of shape %v: %w", t.Shape, err)
	}
	return nil
}

// section returns the bytes of a tensor whose elements lie one behind the other, as float32 if NumPy lacks
// their type.
func (t *Tensor) section() (io.Reader, error) {
	n, bytes, err := t.elements()
	if err != nil || n == 0 {
		return strings.NewReader(""), err
	}
	whole, err := t.storage.open()
	if err != nil {
		return nil, err
	}
	section := io.NewSectionReader(whole, t.offset*int64(t.dtype.size), int64(bytes))
	if t.dtype.widens() {
		return &widened{tensor: t, from: section}, nil
	}
	return section, nil
}

// open is Open for bytes that have been counted.
func (t *Tensor) open() (r io.Reader, size int64, err error) {
	h := npy.Header{Descr: t.descr(), Shape: t.Shape}
	if t.contiguous() {
		section, err := t.section()
		if err != nil {
			return nil, 0, err
		}
		return h.Stream(section)
	}
	n, need, err := t.elements()
	if err != nil {
		return nil, 0, err
	}
	if n == 0 {
		return h.Stream(strings.NewReader(""))
	}
	section, err := t.storage.open()
	if err != nil {
		return nil, 0, err
	}
	width, first := int64(t.dtype.size), t.offset*int64(t.dtype.size)
	span := int64(t.end())*width - first
	const float = 4
	if err := memory.Need(span + int64(need) + float*int64(n)); err != nil {
		return nil, 0, err
	}
	data := make([]byte, span)
	if _, err := section.ReadAt(data, first); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("storage %.40q: %w", t.storage.key, err)
	}
	data = t.gather(data, n)
	if t.dtype.widens() {
		data = t.widen(data)
	}
	return h.Stream(bytes.NewReader(data))
}

// widened reads elements as float32.
type widened struct {
	tensor *Tensor
	from   io.Reader
	block  [1 << 15]byte // a multiple of an element
	left   []byte        // bytes of float32 still to be read
}

func (w *widened) Read(b []byte) (int, error) {
	if len(w.left) == 0 {
		n, err := io.ReadFull(w.from, w.block[:])
		if n == 0 {
			return 0, err
		}
		w.left = w.tensor.widen(w.block[:n-n%w.tensor.dtype.size])
	}
	n := copy(b, w.left)
	w.left = w.left[n:]
	return n, nil
}

// descr is the element type as NumPy spells it.
func (t *Tensor) descr() string {
	switch {
	case t.dtype.size == 1 && !t.dtype.widens():
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
	at := 0
	index := make([]int, len(t.Shape))
	for range n {
		out = append(out, data[at:at+width]...)
		for k := len(index) - 1; k >= 0; k-- {
			at += int(t.strides[k]) * width
			index[k]++
			if index[k] < t.Shape[k] {
				break
			}
			at -= t.Shape[k] * int(t.strides[k]) * width
			index[k] = 0
		}
	}
	return out
}

// widen makes float32 of the elements, in the byte order of the file.
func (t *Tensor) widen(data []byte) []byte {
	var order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	} = binary.LittleEndian
	if t.storage.file.big {
		order = binary.BigEndian
	}
	width := t.dtype.size
	out := make([]byte, 0, len(data)/width*4)
	for ; len(data) > 0; data = data[width:] {
		var pattern uint32
		switch t.dtype.name {
		case "bfloat16": // the upper half
			pattern = uint32(order.Uint16(data)) << 16
		case "float8_e5m2": // the upper half of a float16
			pattern = math.Float32bits(npy.Float16(uint16(data[0]) << 8))
		default:
			pattern = math.Float32bits(float8(data[0]))
		}
		out = order.AppendUint32(out, pattern)
	}
	return out
}

// float8 is the value of a float8_e4m3fn (Micikevicius et al. 2022, "FP8 formats for deep learning"): a sign,
// an exponent of 4 bits with the bias 7, and 3 bits of fraction. It has no infinity, and NaN where all bits
// but the sign are 1.
func float8(pattern byte) float32 {
	exponent, fraction := int(pattern>>3)&15, float64(pattern&7)/8
	x := math.Ldexp(1+fraction, exponent-7)
	switch {
	case pattern&0x7f == 0x7f:
		x = math.NaN()
	case exponent == 0:
		x = math.Ldexp(fraction, -6)
	}
	if pattern&0x80 != 0 {
		x = -x
	}
	return float32(x)
}
