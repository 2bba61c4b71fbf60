//go:build mpi

package mpi

// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/comm"
)

// engine keeps account of the MPI messages under way. It is used by one thread.
type engine struct {
	slots []piece // by slot
	free  []int   // slots
}

// piece is an MPI message: a transfer, or a part of a long one.
type piece struct {
	of    *transfer
	bytes int
}

// start begins a transfer. It reports whether the transfer has already ended, by an error.
func (e *engine) start(t *transfer) (ended bool) {
	for rest, first := t.data, true; first || len(rest) > 0; first = false {
		part := rest[:min(len(rest), largest)]
		rest = rest[len(part):]
		if len(e.free) == 0 {
			e.free = append(e.free, len(e.slots))
			e.slots = append(e.slots, piece{})
		}
		slot := e.free[len(e.free)-1]
		var code C.int
		data, bytes, peer, tag := unsafe.Pointer(unsafe.SliceData(part)), C.int(len(part)), C.int(t.peer), C.int(t.tag)
		if t.sends {
			code = C.weft_mpi_send(data, bytes, peer, tag, C.int(slot))
		} else {
			code = C.weft_mpi_receive(data, bytes, peer, tag, C.int(slot))
		}
		if t.err = failure(code); t.err != nil {
			break
		}
		e.free = e.free[:len(e.free)-1]
		e.slots[slot] = piece{t, len(part)}
		t.pieces++
	}
	return t.pieces == 0
}

// wait makes progress until transfers end, which it gives, or until weft_mpi_wake is called.
func (e *engine) wait() (ended []*transfer, err error) {
	var count C.int
	var ends *C.weft_mpi_end
	err = failure(C.weft_mpi_wait(&count, &ends))
	for _, end := range unsafe.Slice(ends, count) {
		p := e.slots[end.slot]
		e.slots[end.slot] = piece{}
		e.free = append(e.free, int(end.slot))
		t := p.of
		t.pieces--
		if err := failure(end.error); err != nil {
			t.err = err
		} else if !t.sends && int(end.bytes) != p.bytes {
			t.err = fmt.Errorf("%w: %d bytes were sent where %d are expected", comm.ErrLength, end.bytes, p.bytes)
		}
		if t.pieces == 0 {
			ended = append(ended, t)
		}
	}
	return ended, err
}
