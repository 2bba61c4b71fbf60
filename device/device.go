// Package device has NVIDIA's GPUs: memory, copies, and launches of the kernels in kernels/. It is the
// only package that knows CUDA. The driver's library is opened at run time, so a build needs nothing of
// NVIDIA's.
//
// The environment variable WEFT_CUDA names the library that is opened as libcuda.so.1. In tests that is
// bin/libcuda-on-cpu.so (oncpu/), which runs the kernels on a CPU. With WEFT_DEVICE_SYNC=1 each launch is
// waited for, so that an error names its kernel. With WEFT_DEVICE_GRAPHS=0 kernels are launched one by one.
package device

// #cgo CFLAGS: -O2 -std=gnu11
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"weft/internal/refusal"
)

// The driver is one of leastCUDA or later: it takes what NVRTC 12 makes for a card. Kernels use what cards
// have since leastMajor.0.
const (
	leastCUDA  = 12_000
	leastMajor = 8
)

// The driver's statuses that are told apart.
const (
	outOfMemory = 2
	noCard      = 100
	notFound    = 500
)

// ErrOutOfMemory is what Alloc's error wraps where the card has too little free memory.
var ErrOutOfMemory = errors.New("the card's memory is full")

// Numbers returns the numbers of the cards that are listed, or of all cards of this machine if none is. It
// refuses a card that the machine lacks.
func Numbers(listed []int) ([]int, error) {
	driver := (*C.weft_driver)(C.calloc(1, C.sizeof_weft_driver))
	defer C.free(unsafe.Pointer(driver))
	cards, _, err := start(driver)
	if err != nil {
		return nil, err
	}
	if listed == nil {
		for number := range max(cards, 1) {
			listed = append(listed, number)
		}
	}
	for _, number := range listed {
		if err := lacks(number, cards); err != nil {
			return nil, err
		}
	}
	return listed, nil
}

// A Device is a card, with a stream of its own: what is asked of it happens there in order. Several may be
// open on a card. Its methods may be called from any goroutine.
type Device struct {
	*card
	stream            unsafe.Pointer // of kernels
	queue             queue          // of those that are not launched yet
	beside            beside
	waitAfterLaunches bool
	mu                sync.Mutex
	memory            []uint64     // what Alloc returned and Free did not get
	sinceWait         []string     // the last kernels that were launched, at most recent
	failed            error        // the first failure since the last wait
	waits             sync.RWMutex // held by those that wait for a mark
	closed            bool         // under waits
}

var errClosed = errors.New("the device is closed")

const recent = 4

// A card has what its devices share.
type card struct {
	number       int
	driver       *C.weft_driver
	name, id     string
	version      int // of the driver: 1000 times that of CUDA
	major, minor int
	mu           sync.Mutex
	functions    map[string]unsafe.Pointer // nil for a name that no kernel has
}

// openCards are open until the process ends, by their numbers and the driver's library: a card takes a third
// of a second to make what it has for a process, and its kernels may have to be compiled.
var (
	openCards = map[string]*card{}
	opening   sync.Mutex
)

// Open opens card number of this machine, counted from 0, with the kernels. A refusal is one line.
func Open(number int) (*Device, error) {
	c, err := openCard(number)
	if err != nil {
		return nil, err
	}
	d := &Device{card: c, waitAfterLaunches: os.Getenv("WEFT_DEVICE_SYNC") == "1"}
	d.queue.graphs, d.queue.known = c.recordsGraphs() && !d.waitAfterLaunches, map[string]*list{}
	if status := C.weft_stream(d.driver, &d.stream); status != 0 {
		return nil, d.failure("opening the device", status)
	}
	return d, nil
}

// openCard opens a card once.
func openCard(number int) (*card, error) {
	opening.Lock()
	defer opening.Unlock()
	key := fmt.Sprint(number, os.Getenv("WEFT_CUDA"))
	if c := openCards[key]; c != nil {
		return c, nil
	}
	c := &card{
		number:    number,
		driver:    (*C.weft_driver)(C.calloc(1, C.sizeof_weft_driver)),
		functions: map[string]unsafe.Pointer{},
	}
	if err := c.open(); err != nil {
		if left := c.close(); left != nil {
			err = fmt.Errorf("%w; %w", err, left)
		}
		return nil, err
	}
	openCards[key] = c
	return c, nil
}

func (c *card) close() (err error) {
	defer C.free(unsafe.Pointer(c.driver))
	if status := C.weft_end(c.driver); status != 0 {
		err = c.failure("closing the card", status)
	}
	return err
}

// start opens the driver, and counts the cards.
func start(driver *C.weft_driver) (cards, version int, err error) {
	if err := load(driver); err != nil {
		return 0, 0, err
	}
	var v, n C.int
	if status := C.weft_version(driver, &v); status != 0 {
		return 0, 0, failure(driver, "asking for the driver's version", status)
	}
	if v < leastCUDA {
		return 0, 0, refusal.Errorf("the driver is too old: it is one of CUDA %s; "+
			"install NVIDIA's driver 525 (CUDA %d.0) or later", cuda(int(v)), leastCUDA/1000)
	}
	switch status := C.weft_start(driver, &n); {
	case status == noCard:
		n = 0
	case status != 0:
		return 0, 0, refusal.Errorf("%w: look at nvidia-smi",
			failure(driver, "starting the driver", status))
	}
	return int(n), int(v), nil
}

// cuda writes a version of CUDA.
func cuda(version int) string { return fmt.Sprintf("%d.%d", version/1000, version%1000/10) }

// lacks refuses a number that is none of so many cards.
func lacks(number, cards int) error {
	switch {
	case number >= 0 && number < cards:
		return nil
	case cards == 0:
		return refusal.Errorf("no card is visible on this machine: look at nvidia-smi and CUDA_VISIBLE_DEVICES")
	case cards == 1:
		return refusal.Errorf("cuda:%d: this machine has 1 card: name cuda:0", number)
	}
	return refusal.Errorf("cuda:%d: this machine has %d cards: name cuda:0 to cuda:%d", number, cards, cards-1)
}

func (c *card) open() error {
	cards, version, err := start(c.driver)
	if err == nil {
		err = lacks(c.number, cards)
	}
	if err != nil {
		return err
	}
	c.version = version
	var name [256]C.char
	var id [16]C.char
	var major, minor C.int
	status := C.weft_select(c.driver, C.int(c.number), &name[0], C.int(len(name)), &id[0], &major, &minor)
	if status != 0 {
		return c.failure("selecting the card", status)
	}
	c.name, c.id = C.GoString(&name[0]), fmt.Sprintf("%x", C.GoBytes(unsafe.Pointer(&id), C.int(len(id))))
	c.major, c.minor = int(major), int(minor)
	if c.major < leastMajor {
		return refusal.Errorf("cuda:%d: %s is of sm_%d%d: needs %d.0, as A100 and RTX 30 have, or later",
			c.number, c.name, c.major, c.minor, leastMajor)
	}
	if status := C.weft_begin(c.driver); status != 0 {
		return c.failure("opening the card", status)
	}
	image, err := c.image()
	if err != nil {
		return err
	}
	if status := C.weft_module(c.driver, unsafe.Pointer(unsafe.SliceData(image))); status != 0 {
		return c.failure("loading the kernels", status)
	}
	return nil
}

// load opens the driver's library.
func load(driver *C.weft_driver) error {
	const usual = "libcuda.so.1"
	name := cmp.Or(os.Getenv("WEFT_CUDA"), usual)
	library := C.CString(name)
	defer C.free(unsafe.Pointer(library))
	var loader, missing *C.char
	switch status := C.weft_load(driver, library, &loader, &missing); {
	case status == 0:
		return nil
	case missing != nil:
		return refusal.Errorf("%s lacks %s: install NVIDIA's driver 525 or later", name, C.GoString(missing))
	case name == usual && strings.Contains(C.GoString(loader), "No such file"):
		return refusal.Errorf("no %s: install NVIDIA's driver", usual)
	case name == usual:
		return refusal.Errorf("%s: install NVIDIA's driver", C.GoString(loader))
	default:
		return refusal.Errorf("WEFT_CUDA: %s: name NVIDIA's %s, or unset it", C.GoString(loader), usual)
	}
}

// failure is the error of a status of the driver's.
func failure(driver *C.weft_driver, doing string, status C.int) error {
	var name, text *C.char
	C.weft_error(driver, status, &name, &text)
	if name == nil {
		return fmt.Errorf("%s: CUDA's error %d", doing, status)
	}
	return fmt.Errorf("%s: %s: %s", doing, C.GoString(name), C.GoString(text))
}

// failure is that of a call about the card, which it names.
func (c *card) failure(doing string, status C.int) error {
	return fmt.Errorf("cuda:%d: %w", c.number, failure(c.driver, doing, status))
}

// Name returns the card's name.
func (d *Device) Name() string { return d.name }

// Number returns the card's number.
func (d *Device) Number() int { return d.number }

// ID returns what tells the card from all others, of other machines too.
func (d *Device) ID() string { return d.id }

// Driver returns the driver's version of CUDA.
func (d *Device) Driver() string { return cuda(d.version) }

// Capability returns which of NVIDIA's generations the card is of, as 9, 0 for sm_90.
func (d *Device) Capability() (major, minor int) { return d.major, d.minor }

// Cache returns the bytes of the card's second cache, before its memory.
func (d *Device) Cache() int64 { return int64(d.driver.cache) }

// MakeCurrent makes the card that of the calling thread, for other libraries.
func (d *Device) MakeCurrent() error { return d.note("selecting the card", C.weft_use(d.driver)) }

// Memory returns how many bytes the card has.
func (d *Device) Memory() (free, total int64, err error) {
	var f, t C.size_t
	if status := C.weft_memory(d.driver, &f, &t); status != 0 {
		return 0, 0, d.failure("asking for the card's memory", status)
	}
	return int64(f), int64(t), nil
}

// Close gives back the memory that was not freed. The card stays open.
func (d *Device) Close() error {
	d.waits.Lock()
	defer d.waits.Unlock()
	d.closed = true
	failed := d.endQueue()
	failed = cmp.Or(failed, d.beside.end(d))
	for _, address := range slices.Clone(d.memory) {
		failed = cmp.Or(failed, d.Free(address))
	}
	if status := C.weft_end_stream(d.driver, d.stream); status != 0 {
		failed = cmp.Or(failed, d.failure("closing the device", status))
	}
	return failed
}

// Alloc returns the address of so many bytes, a multiple of 256.
func (d *Device) Alloc(bytes int64) (address uint64, err error) {
	var p C.device_address
	switch status := C.weft_alloc(d.driver, &p, C.size_t(bytes)); status {
	case 0:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.memory = append(d.memory, uint64(p))
		return uint64(p), nil
	case outOfMemory:
		return 0, fmt.Errorf("cuda:%d: %w: no %d bytes are free", d.number, ErrOutOfMemory, bytes)
	default:
		return 0, d.failure(fmt.Sprintf("allocating %d bytes on the card", bytes), status)
	}
}

// Free gives back what Alloc returned. It waits for what uses it.
func (d *Device) Free(address uint64) error {
	d.mu.Lock()
	d.memory = slices.DeleteFunc(d.memory, func(a uint64) bool { return a == address })
	d.mu.Unlock()
	return d.ask("freeing memory of the card", func() C.int {
		return C.weft_free(d.driver, C.device_address(address))
	})
}

// ToDevice copies to the card. It may return before the bytes are there; from may be changed then.
func (d *Device) ToDevice(to uint64, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return d.ask("copying to the card", func() C.int {
		return C.weft_to_device(d.driver, d.stream, C.device_address(to),
			unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)))
	})
}

// ToHost copies from the card, and returns when the bytes are there. Its error is the first since the last
// wait.
func (d *Device) ToHost(to []byte, from uint64) error {
	if len(to) > 0 {
		_ = d.ask("copying from the card", func() C.int {
			return C.weft_to_host(d.driver, d.stream, unsafe.Pointer(unsafe.SliceData(to)),
				C.device_address(from), C.size_t(len(to)))
		})
	}
	return d.Sync()
}

// Copy copies from one place on the card to another.
func (d *Device) Copy(to, from uint64, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	return d.ask("copying on the card", func() C.int {
		return C.weft_copy(d.driver, d.stream, C.device_address(to), C.device_address(from), C.size_t(bytes))
	})
}

// Has reports whether there is a kernel of that name.
func (d *Device) Has(kernel string) bool { return d.function(kernel) != nil }

// function returns the kernel of a name, nil if there is none.
func (d *Device) function(kernel string) unsafe.Pointer {
	d.card.mu.Lock()
	f, known := d.functions[kernel]
	d.card.mu.Unlock()
	if known {
		return f
	}
	name := C.CString(kernel)
	defer C.free(unsafe.Pointer(name))
	if status := C.weft_function(d.driver, name, &f); status == notFound {
		f = nil
	} else if d.note("finding the kernel "+kernel, status) != nil {
		return nil
	}
	d.card.mu.Lock()
	d.functions[kernel] = f
	d.card.mu.Unlock()
	return f
}

// Elapsed calls ask, and returns how many seconds the card takes for what ask asks of it, by the card's
// clock: from the end of what was asked before. It waits for that. Kernels are launched one by one. Its error
// is the first since the last wait.
func (d *Device) Elapsed(ask func()) (seconds float64, err error) {
	d.launchesAlone(true)
	defer d.launchesAlone(false)
	var timers [2]unsafe.Pointer
	for k := range timers {
		status := C.weft_timer(d.driver, &timers[k])
		if status == 0 {
			defer func() {
				err = cmp.Or(err, d.note("closing a timer", C.weft_end_event(d.driver, timers[k])))
			}()
			if k == 1 {
				ask()
			}
			status = C.weft_record(d.driver, timers[k], d.stream)
		}
		_ = d.note("starting a timer", status)
	}
	if err := d.Sync(); err != nil {
		return 0, err
	}
	var milliseconds C.float
	status := C.weft_elapsed(d.driver, &milliseconds, timers[0], timers[1])
	return float64(milliseconds) / 1e3, d.note("reading a timer", status)
}

// Sync waits for all that was asked. Its error is the first since the last wait.
func (d *Device) Sync() error {
	d.queue.mu.Lock()
	_ = d.launchListed() // whose error is kept
	d.queue.mu.Unlock()
	_ = d.note("waiting for the card", C.weft_wait(d.driver, d.stream))
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failed
	d.failed, d.sinceWait = nil, nil
	return err
}

// note keeps a failure until the next wait, as the caller of what does not wait need not look at it. As a
// kernel's error shows late, the failure names the last kernels that were launched: it is of one of these,
// or of one before.
func (d *Device) note(doing string, status C.int) error {
	if status == 0 {
		return nil
	}
	err := d.failure(doing, status)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sinceWait) > 0 {
		err = fmt.Errorf("%w (launched last: %s; WEFT_DEVICE_SYNC=1 finds the kernel)",
			err, strings.Join(d.sinceWait, ", "))
	}
	d.failed = cmp.Or(d.failed, err)
	return err
}
