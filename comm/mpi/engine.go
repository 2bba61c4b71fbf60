//go:build mpi

package mpi

// #include "shim.h"
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"weft/comm"
)

// engine keeps account of the MPI messages under way. It is used by one thread.
type engine struct {
	slots  []piece // by slot
	free   []int   // slots
	active int
	last   time.Time // when something began or ended
	timer  *time.Timer
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
		e.active++
		t.pieces++
	}
	return t.pieces == 0
}

// test makes progress, and gives the transfers that have ended.
func (e *engine) test() (ended []*transfer, err error) {
	if e.active == 0 {
		return nil, nil
	}
	var count C.int
	var ends *C.weft_mpi_end
	err = failure(C.weft_mpi_test(&count, &ends))
	for _, end := range unsafe.Slice(ends, count) {
		p := e.slots[end.slot]
		e.slots[end.slot] = piece{}
		e.free = append(e.free, int(end.slot))
		e.active--
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

// How polling slows down. Ranks may outnumber cores, so that a rank that waits must leave its core to those that compute.
const (
	spinning = 20 * time.Microsecond // polls without rest for so long after something happened
	longest  = time.Millisecond      // and rests at most so long
)

// rest waits before the next poll, for an eighth of the time since something last happened: polling adds no more than that to what
// MPI takes. It ends at once when a message is handed over, and without messages under way only then.
func (e *engine) rest(wake <-chan struct{}, happened bool) {
	if e.active == 0 {
		<-wake
		e.last = time.Now()
		return
	}
	if happened {
		e.last = time.Now()
		return
	}
	idle := time.Since(e.last)
	if idle < spinning {
		return
	}
	if e.timer == nil {
		e.timer = time.NewTimer(0)
	}
	e.timer.Reset(min(idle/8, longest))
	select {
	case <-wake:
		e.last = time.Now()
	case <-e.timer.C:
	}
}
