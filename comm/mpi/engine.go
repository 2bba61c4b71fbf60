//go:build mpi

package mpi

// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"weft/comm"
)

// A transfer goes in parts, each an MPI message of at most partBytes, of which at most partsAtOnce are under
// way on a link.
//
// What takes more than 64 KiB with its header MPI does not send over TCP before the receiver agrees: question
// and answer wait behind all that is on its way already, and links stand idle meanwhile. What takes less goes
// at once, also to a receiver that has not asked for it yet, in whose MPI it then lies: partsAtOnce bounds
// that.
var partBytes = 60 << 10

const partsAtOnce = 16

// engine keeps account of the MPI messages under way. It is used by one thread.
type engine struct {
	links map[link]*queue
	slots []part // by slot
	free  []int  // slots
	ended []*transfer
}

// link is one way between this rank and another. MPI matches its messages in the order in which they begin.
type link struct {
	peer, tag int
	sends     bool
}

// queue are the transfers of a link of which parts have not begun yet, in order.
type queue struct {
	waiting  []*transfer
	underWay int // parts, also of others
}

// part is an MPI message: a transfer, or a part of it.
type part struct {
	of    *transfer
	bytes int
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

// advance begins as many parts of a link's transfers as may be under way.
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
	start, bytes, peer, tag := unsafe.Pointer(unsafe.SliceData(data)), C.int(len(data)), C.int(t.peer), C.int(t.tag)
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

// end ends a transfer, once. After an error parts of it may be under way: the rank is aborted before anybody
// uses the data again.
func (e *engine) end(t *transfer, err error) {
	if !t.ended {
		t.ended, t.err = true, err
		e.ended = append(e.ended, t)
	}
}

// wait makes progress until transfers end, which it gives, or until weft_mpi_wake is called.
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
	for _, end := range slices.Clone(unsafe.Slice(ends, count)) { // beginning a part ends their memory
		p := e.slots[end.slot]
		e.slots[end.slot] = part{}
		e.free = append(e.free, int(end.slot))
		t := p.of
		t.parts--
		if err := failure(end.error); err != nil {
			e.end(t, err)
		} else if !t.sends && int(end.bytes) != p.bytes {
			e.end(t, fmt.Errorf("%w: %d bytes were sent where %d are expected", comm.ErrLength, end.bytes, p.bytes))
		} else if t.parts == 0 && len(t.rest) == 0 {
			e.end(t, nil)
		}
		q := e.links[t.link]
		q.underWay--
		e.advance(q)
	}
	return err
}
