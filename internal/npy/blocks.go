package npy

import (
	"errors"
	"fmt"
	"io"
)

// Blocks reads an array a few rows at a time.
type Blocks struct {
	Header
	r      io.Reader
	whole  Header // the whole array
	need   int64  // bytes of the array
	rows   int    // rows that are still to come
	size   int64  // bytes of a row
	passed int    // rows that came or were left out
	turned [2]int // rows and columns of an array in Fortran order that comes flat
	buffer []byte // memory of the block before
}

// blockSize is the approximate number of bytes in a block of rows.
const blockSize = 1 << 20

// NewBlocks reads the header of an array of one dimension or more. size is as for Read.
func NewBlocks(r io.Reader, size int64) (*Blocks, error) {
	h, length, err := readHeader(io.LimitReader(r, max(size, 0)))
	if err != nil {
		return nil, err
	}
	return NewDataBlocks(r, size-length, h)
}

// NewDataBlocks is NewBlocks for data without a header in front, which the caller knows.
func NewDataBlocks(r io.Reader, size int64, h Header) (*Blocks, error) {
	need, err := h.bounded(size)
	if err != nil {
		return nil, err
	}
	b := &Blocks{Header: h, r: r, whole: h, need: need}
	if len(h.Shape) > 0 && h.Shape[0] > 0 {
		b.rows, b.size = h.Shape[0], need/int64(h.Shape[0])
	}
	return b, nil
}

// Next returns the next rows, or io.EOF after the last. The next call may overwrite them. An array in Fortran
// order, or one whose rows have no bytes, comes at once.
func (b *Blocks) Next() (*Array, error) {
	if b.rows == 0 {
		return nil, io.EOF
	}
	n := b.rows
	if !b.Fortran && b.size > 0 {
		n = int(min(int64(n), max(1, blockSize/b.size)))
	}
	h := b.Header
	h.Shape = append([]int{n}, b.Shape[1:]...)
	var err error
	if b.buffer, err = readData(b.r, b.buffer, int64(n)*b.size, b.cut); err != nil {
		return nil, err
	}
	block := &Array{Header: h, data: b.buffer, before: b.passed * width(b.Shape), turned: b.turned}
	b.pass(n)
	return block, nil
}

// pass counts the next n rows.
func (b *Blocks) pass(n int) { b.rows, b.passed = b.rows-n, b.passed+n }

// cut returns the error for an array that ends so many bytes behind the rows that have passed.
func (b *Blocks) cut(have int64) error { return short(b.whole, b.need, int64(b.passed)*b.size+have) }

// width returns how many elements a row has.
func width(shape []int) int {
	elements := 1
	for _, n := range shape[1:] {
		elements *= n
	}
	return elements
}

// Flat makes the elements come as an array of one dimension, in the order of the file. Next must not have
// been called yet.
func (b *Blocks) Flat() {
	columns := width(b.Shape)
	n, size := b.rows*columns, b.size/int64(max(columns, 1))
	if b.Fortran {
		b.turned = [2]int{b.rows, columns}
	}
	b.Shape, b.Fortran, b.rows, b.size = []int{n}, false, n, size
}

// Keep makes only the next n rows come.
func (b *Blocks) Keep(n int) { b.rows = min(b.rows, n) }

// Skip leaves out the next n rows.
func (b *Blocks) Skip(n int) error {
	if n < 0 || n > b.rows {
		return fmt.Errorf("%d rows are left out of %d", n, b.rows)
	}
	read, err := io.CopyN(io.Discard, b.r, int64(n)*b.size)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return b.cut(read)
	}
	if err != nil {
		return fmt.Errorf("reading an array: %w", err)
	}
	b.pass(n)
	return nil
}
