// Package turns is for workers that hold several partitions of a graph, which take turns (comm.Host).
package turns

import (
	"bytes"

	"weft/comm"
	"weft/tensor"
)

// Shelf keeps messages in a worker's metered memory until they are received.
type Shelf struct {
	Memory *tensor.Meter
	Plan   bool // messages have no content
}

// small messages, such as sums and lists, are kept on Go's heap.
const small = 64 << 10

// Put implements comm.Shelf.
func (s *Shelf) Put(message []byte) (comm.Parcel, error) {
	const element = 2
	if len(message) < small || len(message)%element != 0 {
		return heap(bytes.Clone(message)), nil
	}
	m := s.Memory.NewElement(tensor.Activations, tensor.BFloat16, 1, len(message)/element) // which may rest
	if !s.Plan {
		copy(m.Bytes(), message)
	}
	m.Freeze()
	return &buffer{m, s.Plan}, nil
}

// heap is a small message.
type heap []byte

func (p heap) Len() int { return len(p) }
func (p heap) Drop()    {}

func (p heap) Take(into []byte, done func(error)) {
	copy(into, p)
	done(nil)
}

// buffer is a message in metered memory.
type buffer struct {
	*tensor.Matrix
	plan bool
}

func (b *buffer) Len() int { return b.Matrix.Len() * b.Element.Size() }
func (b *buffer) Drop()    { b.Release() }

func (b *buffer) Take(into []byte, done func(error)) {
	if !b.plan {
		copy(into, b.Bytes())
	}
	b.Release()
	done(nil)
}
