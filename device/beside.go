package device

// #include "driver.h"
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"
)

// The queues of a device, each a stream: of kernels, and of copies beside them.
const (
	ofKernels = iota
	up
	down
	queues
)

// events is how many a queue has. A mark that is older stands for a later moment of its queue.
const events = 64

// beside is what copies beside kernels need; nothing before the first one is asked for.
type beside struct {
	pinned  []unsafe.Pointer
	streams [queues]unsafe.Pointer
	events  [queues][events]unsafe.Pointer
	marks   [queues]uint64 // their number
}

// Pinned returns so many bytes of the host's memory, from and to which Up and Down copy. Close frees them.
func (d *Device) Pinned(bytes int64) ([]byte, error) {
	if err := d.beside.begin(d); err != nil {
		return nil, err
	}
	var p unsafe.Pointer
	if status := C.weft_pinned(d.driver, &p, C.size_t(bytes)); status != 0 {
		return nil, d.failure(fmt.Sprintf("allocating %d bytes of the host's memory", bytes), status)
	}
	d.beside.pinned = append(d.beside.pinned, p)
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (b *beside) begin(d *Device) error {
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

func (b *beside) end(d *Device) (failed error) {
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

// Mark marks what was asked so far, but for Up and Down. One goroutine at a time calls Pinned, Mark, Up, Down
// and After. Any number call Wait.
func (d *Device) Mark() (mark uint64, err error) {
	if err := d.beside.begin(d); err != nil {
		return 0, err
	}
	return d.mark(ofKernels)
}

// mark marks what a queue was asked so far.
func (d *Device) mark(queue int) (mark uint64, err error) {
	b := &d.beside
	b.marks[queue]++
	mark = b.marks[queue]*queues + uint64(queue)
	return mark, d.askQueue(queue, "marking a queue", func() C.int {
		return C.weft_record(d.driver, b.eventOf(mark), b.streams[queue])
	})
}

// askQueue asks a queue for something.
func (d *Device) askQueue(queue int, doing string, what func() C.int) error {
	if queue == ofKernels {
		return d.ask(doing, what)
	}
	return d.note(doing, what())
}

func (b *beside) eventOf(mark uint64) unsafe.Pointer {
	return b.events[mark%queues][mark/queues%events]
}

// Up begins to copy from pinned memory to the card when a mark has been passed, beside all else. The mark
// that it returns is passed when the bytes are there.
func (d *Device) Up(to uint64, from []byte, after uint64) (mark uint64, err error) {
	return d.copyBeside(up, []uint64{after}, func(stream unsafe.Pointer) C.int {
		return C.weft_up(d.driver, stream, C.device_address(to), unsafe.Pointer(unsafe.SliceData(from)),
			C.size_t(len(from)))
	})
}

// Down is Up from the card to pinned memory, when all of the marks have been passed.
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
	if err := d.note("copying beside kernels", copies(d.beside.streams[queue])); err != nil {
		return 0, err
	}
	return d.mark(queue)
}

// After has what is asked from now on, but for Up and Down, wait until a mark has been passed.
func (d *Device) After(mark uint64) error { return d.follow(ofKernels, mark) }

func (d *Device) follow(queue int, mark uint64) error {
	if mark == 0 {
		return nil
	}
	return d.askQueue(queue, "having a queue wait", func() C.int {
		return C.weft_after(d.driver, d.beside.streams[queue], d.beside.eventOf(mark))
	})
}

// Wait returns when a mark has been passed. Close waits for it, and fails those that come later.
func (d *Device) Wait(mark uint64) error {
	d.waits.RLock()
	defer d.waits.RUnlock()
	switch {
	case mark == 0:
		return nil
	case d.closed:
		return errClosed
	}
	return d.note("waiting for a copy", C.weft_wait_event(d.driver, d.beside.eventOf(mark)))
}
