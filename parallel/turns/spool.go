// Package turns is for a worker that holds several partitions of a graph. Each is a rank of its own
// (comm.SharedWorker). The ranks take turns: one computes at a time, with all threads of the worker, until it
// waits for something that has not happened. The next turn goes to the lowest rank whose wait is over. All
// ranks wait at the same places of an epoch, so the order of turns is the same in every run.
//
// A Spool keeps a message to a rank that has no turn until the receiver takes it. Rows of vertices and their
// gradients are not among these messages: partitions take them where they lie (package sar). With Offload the
// worker has a memory limit: matrices that the rank at work does not use, and large messages, then rest on
// disk (package tensor).
//
// Package train keeps messages in it if a worker holds several partitions, and package plan counts what it
// holds.
package turns

import (
	"bytes"

	"weft/comm"
	"weft/tensor"
)

// Spool keeps messages until they are received. Rows at the ends of scored edges, and their gradients, are in
// a worker's metered memory. Other messages, such as sums of weights' gradients, are on Go's heap.
type Spool struct {
	Memory  *tensor.Meter
	Reserve Reserve
	Plan    bool // messages have no content, and Memory only plans
	// Messages keeps the messages between workers, if matrices of Memory may rest. nil: Memory keeps them.
	Messages *tensor.Meter
}

// Reserve is the memory that a worker has for messages to and from other workers, if matrices may rest. Such
// messages come at any time. They have memory of their own, so that what rests of all other matrices is the
// same in every run.
type Reserve struct {
	Bytes int64
	// Rests says that messages of at least the least size rest: each is written once, when it is sent or
	// comes, and read once. Otherwise that memory holds all messages.
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

// between keeps a message to or from another worker. What it moves counts in the turn of the message's sender
// here, or its receiver.
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

// count counts a message of so many bytes that is written and read.
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

// planned is a message in a plan to or from another worker, of so many bytes.
type planned int

func (p planned) Len() int          { return int(p) }
func (p planned) Ahead()            {}
func (p planned) Drop()             {}
func (p planned) Take([]byte) error { return nil }

// counted is a message that is counted when it is taken.
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

// refused makes an error of a panic for refused memory, or for a failing disk.
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
