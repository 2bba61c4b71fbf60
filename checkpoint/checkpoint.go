// Package checkpoint stores the state of a run between two epochs, and loads it on any number of workers.
//
// Each part of a run (parameters, optimizer, engine) lists the Arrays that it holds. Each worker writes a
// file in the format of safetensors, with the arrays that it alone holds. Worker 0 then writes a manifest
// with the sizes and checksums of all files, and gives the folder its name: a folder with that name is a
// whole checkpoint. A worker that loads a checkpoint finds each array by its name, whichever worker wrote it.
// So a run can continue on another mesh.
//
// Package train writes and reads checkpoints.
package checkpoint

import (
	"slices"

	"weft/autograd"
	"weft/tensor"
)

// Array is memory that a part of a run holds from one epoch to the next.
type Array struct {
	// Name is the same on every mesh, unless the array's content depends on the mesh.
	Name  string
	Shape []int
	// Matrix has the elements, in row order. Without it Floats or BFloat16s has them.
	Matrix    *tensor.Matrix
	Floats    []float32
	BFloat16s []uint16
	// Count takes the place of Floats for a single integer.
	Count *int64
	// Rows is set for an embedding: the second to last axis of Shape is this worker's rows of it.
	Rows *autograd.RowSet
	// Own says that this worker alone holds the array. Every worker of the stage holds the same of any other
	// array without Rows.
	Own bool
}

// Matrix is the Array of a matrix.
func Matrix(name string, m *tensor.Matrix) Array {
	return Array{Name: name, Shape: []int{m.Rows, m.Cols}, Matrix: m}
}

// Elements returns the arrays with the elements of their matrices in Floats or BFloat16s. The matrices must
// not change while the arrays are read.
func Elements(arrays []Array) []Array {
	all := slices.Clone(arrays)
	for i := range all {
		all[i].elements((*tensor.Matrix).ReadFloats, (*tensor.Matrix).ReadBFloat16s)
	}
	return all
}

// Copies is Elements with copies of the elements: a device's memory may be too small for all matrices at a
// time.
func Copies(arrays []Array) []Array {
	all := slices.Clone(arrays)
	for i, a := range arrays {
		all[i].elements(func(m *tensor.Matrix) []float32 { return slices.Clone(m.ReadFloats()) },
			func(m *tensor.Matrix) []uint16 { return slices.Clone(m.ReadBFloat16s()) })
		if a.Matrix != nil {
			a.Matrix.DontNeed()
		}
	}
	return all
}

// elements moves the elements from Of to Floats or BFloat16s.
func (a *Array) elements(floats func(*tensor.Matrix) []float32, halves func(*tensor.Matrix) []uint16) {
	if a.Matrix == nil {
		return
	}
	if a.Matrix.Element == tensor.BFloat16 {
		a.BFloat16s = halves(a.Matrix)
	} else {
		a.Floats = floats(a.Matrix)
	}
	a.Matrix = nil
}

// Snapshot is a copy of arrays. It can be written while the arrays change. Its zero value is empty.
type Snapshot struct {
	values *tensor.Matrix
}

// Size returns the number of bytes of a snapshot of the arrays.
func Size(arrays []Array) int64 { return 4 * int64(floats(arrays)) }

func floats(arrays []Array) (n int) {
	for _, a := range arrays {
		switch {
		case a.Matrix == nil:
			n += len(a.Floats) + halves(len(a.BFloat16s))
		case a.Matrix.Element == tensor.BFloat16:
			n += halves(a.Matrix.Len())
		default:
			n += a.Matrix.Len()
		}
	}
	return n
}

// halves is the number of float32s that take as many bytes as n bfloat16s, or two more.
func halves(n int) int { return (n + 1) / 2 }

// Allocate allocates memory for snapshots of so many bytes, unless the snapshot has it already.
func (s *Snapshot) Allocate(memory *tensor.Meter, bytes int64) {
	n := int(bytes / 4)
	if s.values != nil && s.values.Cols == n {
		return
	}
	s.Release()
	s.values = memory.New(tensor.Buffers, 1, n)
}

// Bytes returns the size of the snapshot's memory, in bytes.
func (s *Snapshot) Bytes() int64 {
	if s.values == nil {
		return 0
	}
	return 4 * int64(s.values.Cols)
}

// Take copies the arrays, and returns the copies. They are valid until the next Take.
func (s *Snapshot) Take(memory *tensor.Meter, arrays []Array) []Array {
	s.Allocate(memory, Size(arrays))
	free := s.values.Floats()
	at := 0
	copies := Elements(arrays)
	for i := range copies {
		c := &copies[i]
		if c.Count != nil {
			c.Count = new(*c.Count)
			continue
		}
		n := copy(free[at:], c.Floats)
		c.Floats = free[at : at+n : at+n]
		at += n
		if c.BFloat16s != nil {
			n := halves(len(c.BFloat16s))
			to := s.values.Reshape(s.values.Cols, 1).RowRange(at, at+n).As(tensor.BFloat16, 1,
				2*n).BFloat16s()[:len(c.BFloat16s)]
			copy(to, c.BFloat16s)
			c.BFloat16s = to
			at += n
		}
	}
	return copies
}

// Release releases the snapshot's memory.
func (s *Snapshot) Release() {
	s.values.Release()
	s.values = nil
}
