package nn

import (
	"slices"

	"weft/tensor"
)

// Buffer is state that is stored with the parameters and not trained, such as batch norm's running
// statistics.
type Buffer struct {
	Name   string
	Values []float32
	Matrix *tensor.Matrix // instead of Values: 1 × n, in the memory of the team
	Count  *int64         // instead of Values: an integer scalar
	// Keeps says that Load leaves the values as they are if the state lacks the buffer
	Keeps bool

	shape []int // in files; nil: [n]
}

// InFiles returns the buffer's shape in files.
func (b *Buffer) InFiles() []int {
	if b.shape == nil {
		return []int{b.Len()}
	}
	return b.shape
}

// Len is the number of values.
func (b *Buffer) Len() int {
	if b.Matrix != nil {
		return b.Matrix.Len()
	}
	return len(b.Values)
}

// Read returns the values for reading. In a plan, the values of Matrix are zeros.
func (b *Buffer) Read() []float32 {
	if b.Matrix == nil {
		return b.Values
	}
	if values := b.Matrix.ReadFloats(); values != nil {
		return values
	}
	return make([]float32, b.Matrix.Len())
}

// Write returns the values for changing. In a plan it returns nil if they are in Matrix.
func (b *Buffer) Write() []float32 {
	if b.Matrix != nil {
		return b.Matrix.WriteFloats()
	}
	return b.Values
}

// Buffer returns the buffer of that name, or makes it with n equal values.
func (ps *Params) Buffer(name string, n int, value float32) *Buffer {
	return ps.buffer(&Buffer{Name: name, Values: slices.Repeat([]float32{value}, n)})
}

// Running is Buffer with the values in a Matrix, so that kernels read and write them.
func (ps *Params) Running(name string, n int, value float32) *Buffer {
	b := ps.Buffer(name, n, value)
	if b.Matrix == nil {
		b.Matrix = ps.team.Memory.New(tensor.Parameters, 1, n)
		copy(b.Matrix.WriteFloats(), b.Values)
		b.Values = nil
	}
	return b
}

// Frozen is Buffer for any shape. Its values come from a file.
func (ps *Params) Frozen(name string, shape []int) *Buffer {
	n := 1
	for _, size := range shape {
		n *= size
	}
	return ps.buffer(&Buffer{Name: name, Values: make([]float32, n), shape: append([]int{}, shape...)})
}

// Counter returns the integer buffer of that name, or makes it.
func (ps *Params) Counter(name string) *Buffer {
	return ps.buffer(&Buffer{Name: name, Count: new(int64)})
}

func (ps *Params) buffer(b *Buffer) *Buffer {
	if made := ps.buffers[b.Name]; made != nil {
		return made
	}
	if ps.like != nil {
		b = ps.like.Buffers[len(ps.Buffers)]
	}
	ps.Buffers, ps.buffers[b.Name] = append(ps.Buffers, b), b
	return b
}
