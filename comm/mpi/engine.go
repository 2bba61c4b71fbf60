package mpi

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"weft/comm"
)

// A transfer is sent in parts. Each part is an MPI message of at most partBytes. At most partsAtOnce parts
// are in flight on a link.
//
// Over TCP, MPI sends a message of more than 64 KiB with its header only after the receiver agrees. That
// question and its answer queue behind everything that is already in flight, and links are idle meanwhile. A
// smaller message is sent at once, even to a receiver that has not asked for it, and then lies in the
// receiver's MPI. partsAtOnce bounds how many do.
var partBytes = 60 << 10

const partsAtOnce = 16

// engine keeps the MPI messages in flight. One thread uses it.
type engine struct {
	links map[link]*queue
	slots []part // by slot
	free  []int  // slots
	ended []*transfer
}

// link is one direction between this rank and another rank. MPI matches its messages in the order in which
// they begin.
type link struct {
	peer, tag int
	sends     bool
}

// queue lists the transfers of a link whose parts have not all begun, in order.
type queue struct {
	waiting  []*transfer
	underWay int // parts in flight, also of earlier transfers
}

// part is an MPI message: all or part of a transfer.
type part struct {
	transfer *transfer
	bytes    int
}

// start begins a transfer.
func (e *engine) start(t *transfer) {
	q := e.links[t.link]
	if q == nil {
		q = &queue{}
		e.links[t.link] = q
	}
	t.rest, q.waiting = t.data, append(q.waiting, t)
	e.advance(q)
}

// advance begins as many parts of a link's transfers as may be in flight.
func (e *engine) advance(q *queue) {
	for len(q.waiting) > 0 && q.underWay < partsAtOnce {
		t := q.waiting[0]
		data := t.rest[:min(len(t.rest), partBytes)]
		t.rest = t.rest[len(data):]
		if err := e.begin(t, data); err != nil {
			e.end(t, err)
		} else {
			q.underWay++
			t.parts++
		}
		if len(t.rest) == 0 || t.ended {
			q.waiting = q.waiting[1:]
		}
	}
}

// begin begins a part.
func (e *engine) begin(t *transfer, data []byte) error {
	if len(e.free) == 0 {
		e.free = append(e.free, len(e.slots))
		e.slots = append(e.slots, part{})
	}
	slot := e.free[len(e.free)-1]
	var code C.int
	start, bytes, peer, tag := unsafe.Pointer(unsafe.SliceData(data)), C.int(len(data)),
		C.int(t.peer), C.int(t.tag)
	if t.sends {
		code = C.weft_mpi_send(start, bytes, peer, tag, C.int(slot))
	} else {
		code = C.weft_mpi_receive(start, bytes, peer, tag, C.int(slot))
	}
	if err := failure(code); err != nil {
		return err
	}
	e.free = e.free[:len(e.free)-1]
	e.slots[slot] = part{t, len(data)}
	return nil
}

// end ends a transfer, once. After an error some of its parts may be in flight: the rank is aborted before
// anybody uses the data again.
func (e *engine) end(t *transfer, err error) {
	if !t.ended {
		t.ended, t.err = true, err
		e.ended = append(e.ended, t)
	}
}

// wait makes progress until transfers end, which it returns, or until weft_mpi_wake is called.
func (e *engine) wait() (ended []*transfer, err error) {
	if len(e.ended) == 0 {
		err = e.progress()
	}
	ended, e.ended = e.ended, nil
	return ended, err
}

// progress makes progress until parts end, or until weft_mpi_wake is called.
func (e *engine) progress() error {
	var count C.int
	var ends *C.weft_mpi_end
	err := failure(C.weft_mpi_wait(&count, &ends))
	for _, end := range slices.Clone(unsafe.Slice(ends, count)) { // beginning a part overwrites their memory
		p := e.slots[end.slot]
		e.slots[end.slot] = part{}
		e.free = append(e.free, int(end.slot))
		t := p.transfer
		t.parts--
		if err := failure(end.error); err != nil {
			e.end(t, err)
		} else if !t.sends && int(end.bytes) != p.bytes {
			e.end(t, fmt.Errorf("%w: %d bytes were sent where %d are expected", comm.ErrLength,
				end.bytes, p.bytes))
		} else if t.parts == 0 && len(t.rest) == 0 {
			e.end(t, nil)
		}
		q := e.links[t.link]
		q.underWay--
		e.advance(q)
	}
	return err
}
