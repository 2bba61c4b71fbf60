// Package turns is for workers that hold several partitions of a graph, which take turns (comm.Host).
package turns

import (
	"bytes"

	"weft/comm"
	"weft/tensor"
)

// Spool keeps messages until they are received: rows and their gradients in a worker's metered memory, and
// the others, such as sums of weights' gradients, on Go's heap.
type Spool struct {
	Memory *tensor.Meter
	Plan   bool // messages have no content
}

// metered reports whether messages of a kind are in metered memory.
func metered(k comm.Kind) bool { return k == comm.Halo || k == comm.HaloGradient || k == comm.Links }

// Takes implements comm.Spool.
func (s *Spool) Takes(k comm.Kind, bytes int) (memory int64, rests bool) {
	if !metered(k) {
		return 0, false
	}
	return s.Memory.Takes(bytes)
}

// Put implements comm.Spool.
func (s *Spool) Put(k comm.Kind, message []byte) (p comm.Message, err error) {
	if !metered(k) {
		return heap(bytes.Clone(message)), nil
	}
	defer refused(&err)
	m := s.Memory.NewElement(tensor.Activations, tensor.Byte, 1, len(message)).Pin()
	if into := m.Bytes(); !s.Plan {
		copy(into, message)
	}
	m.Unpin().Freeze()
	m.Unused()
	return &buffer{m, s.Plan}, nil
}

// heap is a message on Go's heap.
type heap []byte

func (p heap) Len() int { return len(p) }
func (p heap) Ahead()   {}
func (p heap) Drop()    {}

func (p heap) Take(into []byte) error {
	copy(into, p)
	return nil
}

// buffer is a message in metered memory.
type buffer struct {
	*tensor.Matrix
	plan bool
}

func (b *buffer) Len() int { return b.Matrix.Len() * b.Element.Size() }
func (b *buffer) Drop()    { b.Release() }

func (b *buffer) Take(into []byte) (err error) {
	defer b.Release()
	defer refused(&err)
	if from := b.Pin().Bytes(); !b.plan { // a plan brings it back, too
		copy(into, from)
	}
	return nil
}

// refused makes an error of memory that is refused, or of a disk that fails.
func refused(err *error) {
	switch p := recover().(type) {
	case nil:
	case tensor.OutOfMemory:
		*err = p
	case tensor.DiskFailure:
		*err = p.Err
	default:
		panic(p)
	}
}
