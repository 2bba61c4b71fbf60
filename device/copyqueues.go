package device

// #include "driver.h"
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"
)

// The queues of a device: one of kernels, and two of copies beside them. Each is a stream of CUDA.
const (
	ofKernels = iota
	up
	down
	queues
)

// events is the number of events of a queue, which its marks use one after the other. A mark that is older
// stands for a later moment of its queue.
const events = 64

// copyQueues is the state of the queues of copies. It is empty until the first copy.
type copyQueues struct {
	pinned  []unsafe.Pointer
	streams [queues]unsafe.Pointer
	events  [queues][events]unsafe.Pointer
	marks   [queues]uint64 // the number of marks of each queue
}

// Pinned returns so many bytes of pinned host memory, which Up copies from and Down copies to. Close frees
// it.
func (d *Device) Pinned(bytes int64) ([]byte, error) {
	if err := d.copyQueues.begin(d); err != nil {
		return nil, err
	}
	var p unsafe.Pointer
	if status := C.weft_pinned(d.driver, &p, C.size_t(bytes)); status != 0 {
		return nil, d.failure(fmt.Sprintf("allocating %d bytes of the host's memory", bytes), status)
	}
	d.copyQueues.pinned = append(d.copyQueues.pinned, p)
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (b *copyQueues) begin(d *Device) error {
	if b.streams[ofKernels] != nil {
		return nil
	}
	for q := range b.streams {
		if q != ofKernels {
			if status := C.weft_stream(d.driver, &b.streams[q]); status != 0 {
				return d.failure("opening a queue of copies", status)
			}
		}
		for k := range b.events[q] {
			if status := C.weft_event(d.driver, &b.events[q][k]); status != 0 {
				return d.failure("opening a queue of copies", status)
			}
		}
	}
	b.streams[ofKernels] = d.stream
	return nil
}

func (b *copyQueues) end(d *Device) (failed error) {
	status := C.int(0)
	for _, p := range b.pinned {
		status = cmp.Or(status, C.weft_free_pinned(d.driver, p))
	}
	for q := range b.streams {
		for _, event := range b.events[q] {
			if event != nil {
				status = cmp.Or(status, C.weft_end_event(d.driver, event))
			}
		}
		if q != ofKernels && b.streams[q] != nil {
			status = cmp.Or(status, C.weft_end_stream(d.driver, b.streams[q]))
		}
	}
	if status != 0 {
		failed = d.failure("closing the queues of copies", status)
	}
	return failed
}

// Mark returns a mark that is passed when the device has done all it was asked so far, except Up and Down.
// Only one goroutine at a time may call Pinned, Mark, Up, Down and After. Any number may call Wait.
func (d *Device) Mark() (mark uint64, err error) {
	if err := d.copyQueues.begin(d); err != nil {
		return 0, err
	}
	return d.mark(ofKernels)
}

// mark returns a mark that is passed when a queue has done all it was asked so far.
func (d *Device) mark(queue int) (mark uint64, err error) {
	b := &d.copyQueues
	b.marks[queue]++
	mark = b.marks[queue]*queues + uint64(queue)
	return mark, d.askQueue(queue, "marking a queue", func() C.int {
		return C.weft_record(d.driver, b.eventOf(mark), b.streams[queue])
	})
}

// askQueue calls what, which puts something into a queue. doing names it in errors.
func (d *Device) askQueue(queue int, doing string, what func() C.int) error {
	if queue == ofKernels {
		return d.ask(doing, what)
	}
	return d.note(doing, what())
}

func (b *copyQueues) eventOf(mark uint64) unsafe.Pointer {
	return b.events[mark%queues][mark/queues%events]
}

// Up begins to copy from pinned memory to the card when the mark after has been passed, beside everything
// else. The mark that it returns is passed when the bytes are there.
func (d *Device) Up(to uint64, from []byte, after uint64) (mark uint64, err error) {
	return d.copyBeside(up, []uint64{after}, func(stream unsafe.Pointer) C.int {
		return C.weft_up(d.driver, stream, C.device_address(to), unsafe.Pointer(unsafe.SliceData(from)),
			C.size_t(len(from)))
	})
}

// Down copies from the card to pinned memory in the same way, when all of the marks have been passed.
func (d *Device) Down(to []byte, from uint64, after ...uint64) (mark uint64, err error) {
	return d.copyBeside(down, after, func(stream unsafe.Pointer) C.int {
		return C.weft_to_host(d.driver, stream, unsafe.Pointer(unsafe.SliceData(to)), C.device_address(from),
			C.size_t(len(to)))
	})
}

func (d *Device) copyBeside(queue int, after []uint64, copies func(stream unsafe.Pointer) C.int) (mark uint64,
	err error,
) {
	for _, a := range after {
		if err := d.follow(queue, a); err != nil {
			return 0, err
		}
	}
	if err := d.note("copying beside kernels", copies(d.copyQueues.streams[queue])); err != nil {
		return 0, err
	}
	return d.mark(queue)
}

// After makes everything that is asked from now on, except Up and Down, wait until a mark has been passed.
func (d *Device) After(mark uint64) error { return d.follow(ofKernels, mark) }

func (d *Device) follow(queue int, mark uint64) error {
	if mark == 0 {
		return nil
	}
	return d.askQueue(queue, "having a queue wait", func() C.int {
		return C.weft_after(d.driver, d.copyQueues.streams[queue], d.copyQueues.eventOf(mark))
	})
}

// Wait returns when a mark has been passed. Close waits for calls of Wait; later calls fail.
func (d *Device) Wait(mark uint64) error {
	d.waits.RLock()
	defer d.waits.RUnlock()
	switch {
	case mark == 0:
		return nil
	case d.closed:
		return errClosed
	}
	return d.note("waiting for a copy", C.weft_wait_event(d.driver, d.copyQueues.eventOf(mark)))
}
