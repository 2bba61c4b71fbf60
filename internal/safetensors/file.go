package safetensors

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"

	"weft/internal/refusal"
	"weft/internal/regular"
)

// File reads single tensors of a file. Several goroutines may use it.
type File struct {
	Metadata map[string]string

	file    *os.File
	entries map[string]entry
	start   int64 // of the data
}

// Open opens a file and reads its header. Errors name the file.
func Open(path string) (*File, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	t := &File{file: f}
	var data int64
	if t.entries, t.Metadata, data, err = readHeader(f, size); err == nil {
		t.start = size - data
		_, err = inOrder(t.entries, data)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return t, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Shape is the shape of a tensor, and whether the file has it.
func (f *File) Shape(name string) (shape []int, found bool) {
	e, found := f.entries[name]
	return e.Shape, found
}

// Shapes are the shapes of all tensors, by name.
func (f *File) Shapes() iter.Seq2[string, []int] {
	return func(yield func(string, []int) bool) {
		for name, e := range f.entries {
			if !yield(name, e.Shape) {
				return
			}
		}
	}
}

// Floats reads consecutive values of an F32 tensor from value from on, until to is full.
func (f *File) Floats(name string, from int, to []float32) error {
	return f.read(name, "F32", from, len(to), func(at int, t Tensor) { copy(to[at:], t.Float32) })
}

// BFloat16s reads the first values of a BF16 tensor, until to is full.
func (f *File) BFloat16s(name string, to []uint16) error {
	return f.read(name, "BF16", 0, len(to), func(at int, t Tensor) {
		for i, x := range t.Float32 {
			to[at+i] = uint16(math.Float32bits(x) >> 16)
		}
	})
}

// Dtype is the element type of a tensor, "" if there is none of that name.
func (f *File) Dtype(name string) string { return f.entries[name].Dtype }

// Ints reads an I64 tensor.
func (f *File) Ints(name string) (all []int64, err error) {
	e := f.entries[name]
	n := 1
	for _, d := range e.Shape {
		n *= d
	}
	err = f.read(name, "I64", 0, n, func(_ int, t Tensor) { all = append(all, t.Int64...) })
	return all, err
}

// read calls use with each batch of n values, from value from on.
func (f *File) read(name, dtype string, from, n int, use func(at int, t Tensor)) error {
	e, found := f.entries[name]
	size := sizes[dtype]
	if !found || e.Dtype != dtype || e.Offsets[0]+int64(from+n)*size > e.Offsets[1] {
		return refusal.Errorf("%s: no tensor %q of %d values of %s", f.file.Name(), name, from+n, dtype)
	}
	b := make([]byte, int64(min(n, batch))*size)
	for at := 0; at < n; at += batch {
		some := b[:int64(min(batch, n-at))*size]
		if _, err := f.file.ReadAt(some, f.start+e.Offsets[0]+int64(from+at)*size); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%s: reading tensor %q: %w", f.file.Name(), name, err)
		}
		use(at, decode(entry{Dtype: dtype}, some))
	}
	return nil
}
