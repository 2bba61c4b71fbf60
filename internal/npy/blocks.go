package npy

import (
	"fmt"
	"io"
)

// Blocks reads an array a few rows at a time.
type Blocks struct {
	Header
	r      io.Reader
	rows   int    // still to come
	size   int64  // bytes of a row
	buffer []byte // of the block before
}

// blockSize is about how many bytes of rows come at a time.
const blockSize = 1 << 20

// NewBlocks reads the header of an array of one dimension or more, of which size bytes are available as for
// Read.
func NewBlocks(r io.Reader, size int64) (*Blocks, error) {
	h, length, err := readHeader(io.LimitReader(r, max(size, 0)))
	if err != nil {
		return nil, err
	}
	return NewDataBlocks(r, size-length, h)
}

// NewDataBlocks is NewBlocks for data of which the header is known and does not stand before it.
func NewDataBlocks(r io.Reader, size int64, h Header) (*Blocks, error) {
	need, err := h.bounded(size)
	if err != nil {
		return nil, err
	}
	b := &Blocks{Header: h, r: r}
	if len(h.Shape) > 0 && h.Shape[0] > 0 {
		b.rows, b.size = h.Shape[0], need/int64(h.Shape[0])
	}
	return b, nil
}

// Next returns the next rows, which the next call may overwrite, and io.EOF after the last. Next
// returns an array in Fortran order, or one whose rows have no bytes, at once.
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
	if b.buffer, err = readData(b.r, b.buffer, h, int64(n)*b.size); err != nil {
		return nil, err
	}
	b.rows -= n
	return &Array{h, b.buffer}, nil
}

// Flat makes the elements come as an array of one dimension, in the order in which they lie in the file. It
// is called before Next.
func (b *Blocks) Flat() {
	n, size := b.rows, b.size
	for _, d := range b.Shape[1:] {
		n *= d
		size /= int64(max(d, 1))
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
	if _, err := io.CopyN(io.Discard, b.r, int64(n)*b.size); err != nil {
		return fmt.Errorf("reading an array: %w", err)
	}
	b.rows -= n
	return nil
}
