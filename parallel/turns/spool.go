// Package turns is for a worker that holds several partitions of a graph. Each is a rank of its own
// (comm.SharedWorker). The ranks take turns: one computes at a time, with all threads of the worker, until it
// waits for something that has not happened. Then the lowest rank is next whose wait is over. As all ranks
// wait at the same places of an epoch, the order of turns is the same in every run.
//
// A message to a rank that has no turn is kept by a Spool until its receiver takes it. Rows of vertices and
// their gradients are none of these: partitions take them where they lie (package sar). With Offload the
// worker has a memory limit: matrices that the rank at work does not use, and large messages, then rest on
// disk (package tensor).
//
// Package train keeps messages in it where a worker holds several partitions, and package plan counts what it
// holds.
package turns

import (
	"bytes"

	"weft/comm"
	"weft/tensor"
)

// Spool keeps messages until they are received: rows at the ends of scored edges and their gradients in a
// worker's metered memory, and the others, such as sums of weights' gradients, on Go's heap.
type Spool struct {
	Memory  *tensor.Meter
	Reserve Reserve
	Plan    bool // messages have no content, and Memory only plans
	// Messages keeps those between workers, if matrices of Memory may rest. nil: Memory does.
	Messages *tensor.Meter
}

// Reserve is the memory that a worker has for messages to and from other workers where matrices may rest.
// Such messages come at any time. So they have memory of their own, and what rests of all other matrices is
// the same in every run.
type Reserve struct {
	Bytes int64
	// Rests says that messages rest, from the least size on: each is written once, when it is sent or comes,
	// and read once. Otherwise that memory holds all of them.
	Rests bool
}

// metered reports whether messages of a kind are in metered memory.
func metered(k comm.Kind) bool { return k == comm.Links }

// Takes implements comm.Spool.
func (s *Spool) Takes(k comm.Kind, bytes int) (memory int64, rests bool) {
	if !metered(k) {
		return 0, false
	}
	return s.Memory.Takes(bytes, tensor.LeastResting)
}

// Put implements comm.Spool.
func (s *Spool) Put(k comm.Kind, message []byte, path comm.Path) (p comm.Message, err error) {
	if !metered(k) {
		if s.Plan && path != comm.Within {
			return planned(len(message)), nil
		}
		return heap(bytes.Clone(message)), nil
	}
	defer refused(&err)
	if path != comm.Within && (s.Messages != nil || s.Plan) {
		return s.between(message, path), nil
	}
	return s.keep(s.Memory, message), nil
}

// between keeps a message to or from another worker. What it moves counts in the turn of its sender, or of
// its receiver.
func (s *Spool) between(message []byte, path comm.Path) comm.Message {
	memory, rests := s.Memory.Takes(len(message), tensor.LeastResting)
	rests = rests && s.Reserve.Rests
	var m comm.Message = planned(len(message))
	if !s.Plan {
		b := s.keep(s.Messages, message)
		if rests {
			b.Leave()
		}
		m = b
	}
	switch {
	case !rests:
		return m
	case path == comm.Incoming:
		return &counted{m, func() { s.count(memory) }}
	default:
		s.count(memory)
		return m
	}
}

// count counts a message of so many bytes that was written, and is read.
func (s *Spool) count(bytes int64) { s.Memory.Count(tensor.Moved{Written: bytes, Read: bytes}) }

func (s *Spool) keep(memory *tensor.Meter, message []byte) *buffer {
	m := memory.NewElement(tensor.Activations, tensor.Byte, 1, len(message)).Pin()
	copy(m.WriteBytes(), message)
	m.UnpinFrom(tensor.LeastResting).SetReadOnly()
	m.DontNeed()
	return &buffer{m}
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

// planned is a message of a plan to or from another worker, of so many bytes.
type planned int

func (p planned) Len() int          { return int(p) }
func (p planned) Ahead()            {}
func (p planned) Drop()             {}
func (p planned) Take([]byte) error { return nil }

// counted is a message that counts when it is taken.
type counted struct {
	comm.Message
	count func()
}

func (c *counted) Take(into []byte) error {
	c.count()
	return c.Message.Take(into)
}

// buffer is a message in metered memory.
type buffer struct{ *tensor.Matrix }

func (b *buffer) Len() int { return b.Matrix.Len() * b.Element.Size() }
func (b *buffer) Drop()    { b.Release() }

func (b *buffer) Take(into []byte) (err error) {
	defer b.Release()
	defer refused(&err)
	copy(into, b.Pin().ReadBytes())
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
	case tensor.DeviceFailure:
		*err = p
	default:
		panic(p)
	}
}
