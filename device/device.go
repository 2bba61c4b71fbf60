// Package device drives NVIDIA's GPUs: memory, copies, and launches of the kernels in kernels/. It is the
// only package that knows CUDA. The driver's library is opened at run time, so a build needs nothing of
// NVIDIA's. Package train opens a Device for each worker; package tensor moves matrices by it, and package
// kernel launches kernels on it.
//
// The environment variable WEFT_CUDA names the library that is opened as libcuda.so.1. In tests it is
// bin/libcuda-on-cpu.so (oncpu/), which runs the kernels on a CPU. With WEFT_DEVICE_SYNC=1 the host waits for
// each launch, so that an error names its kernel. With WEFT_DEVICE_GRAPHS=0 kernels are launched one by one.
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

// The oldest driver is one of leastCUDA: it takes the code that NVRTC 12 makes for a card. The oldest cards
// are those of leastMajor.0: kernels use what these have.
const (
	leastCUDA  = 12_000
	leastMajor = 8
)

// The statuses of the driver that this package distinguishes.
const (
	outOfMemory = 2
	noCard      = 100
	notFound    = 500
)

// ErrOutOfMemory is the error that Alloc wraps if the card has too little free memory.
var ErrOutOfMemory = errors.New("the card's memory is full")

// Numbers returns the listed numbers of cards, or the numbers of all cards of this machine if none is listed.
// It refuses a card that the machine lacks.
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

// A Device is a card with a stream of its own, in which calls take effect in their order. Several Devices may
// be open on a card. Any goroutine may call the methods.
type Device struct {
	*card
	stream            unsafe.Pointer // of kernels
	queue             queue          // kernels that are not launched yet
	copyQueues        copyQueues
	waitAfterLaunches bool
	mu                sync.Mutex
	memory            []uint64     // addresses that Alloc returned and Free has not freed
	sinceWait         []string     // names of the last kernels that were launched, at most recent
	failed            error        // the first failure since the last wait
	waits             sync.RWMutex // held for reading by calls of Wait
	closed            bool         // protected by waits
}

var errClosed = errors.New("the device is closed")

const recent = 4

// A card is the state that the Devices on it share.
type card struct {
	number       int
	driver       *C.weft_driver
	name, id     string
	version      int // of the driver: 1000 times its CUDA version
	major, minor int
	mu           sync.Mutex
	functions    map[string]unsafe.Pointer // by name; nil if no kernel has the name
}

// openCards are the cards by their numbers and the driver's library. They stay open until the process ends:
// opening a card takes a third of a second, and its kernels may have to be compiled.
var (
	openCards = map[string]*card{}
	opening   sync.Mutex
)

// Open opens the card of this number, counted from 0, and loads the kernels. An error is a refusal of one
// line.
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

// lacks refuses the number of a card, of a machine with so many cards.
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

// failure returns the error of a status of the driver. doing says what failed.
func failure(driver *C.weft_driver, doing string, status C.int) error {
	var name, text *C.char
	C.weft_error(driver, status, &name, &text)
	if name == nil {
		return fmt.Errorf("%s: CUDA's error %d", doing, status)
	}
	return fmt.Errorf("%s: %s: %s", doing, C.GoString(name), C.GoString(text))
}

// failure is the function failure with the card's name.
func (c *card) failure(doing string, status C.int) error {
	return fmt.Errorf("cuda:%d: %w", c.number, failure(c.driver, doing, status))
}

// Name returns the card's name.
func (d *Device) Name() string { return d.name }

// Number returns the card's number.
func (d *Device) Number() int { return d.number }

// ID returns a string that identifies the card among all cards of all machines.
func (d *Device) ID() string { return d.id }

// Driver returns the CUDA version of the driver.
func (d *Device) Driver() string { return cuda(d.version) }

// Capability returns the card's compute capability, for instance 9, 0 for sm_90.
func (d *Device) Capability() (major, minor int) { return d.major, d.minor }

// Cache returns the bytes of the card's second-level cache.
func (d *Device) Cache() int64 { return int64(d.driver.cache) }

// MakeCurrent selects the card for the calling thread, for other libraries.
func (d *Device) MakeCurrent() error { return d.note("selecting the card", C.weft_use(d.driver)) }

// Memory returns how many bytes of the card's memory are free, and how many it has in all.
func (d *Device) Memory() (free, total int64, err error) {
	var f, t C.size_t
	if status := C.weft_memory(d.driver, &f, &t); status != 0 {
		return 0, 0, d.failure("asking for the card's memory", status)
	}
	return int64(f), int64(t), nil
}

// Close frees the memory that Free has not freed. The card stays open.
func (d *Device) Close() error {
	d.waits.Lock()
	defer d.waits.Unlock()
	d.closed = true
	failed := d.endQueue()
	failed = cmp.Or(failed, d.copyQueues.end(d))
	for _, address := range slices.Clone(d.memory) {
		failed = cmp.Or(failed, d.Free(address))
	}
	if status := C.weft_end_stream(d.driver, d.stream); status != 0 {
		failed = cmp.Or(failed, d.failure("closing the device", status))
	}
	return failed
}

// Alloc allocates so many bytes on the card. It returns their address, a multiple of 256. The error wraps
// ErrOutOfMemory if the card has too few.
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

// Free frees memory that Alloc returned. It waits for kernels and copies that use it.
func (d *Device) Free(address uint64) error {
	d.mu.Lock()
	d.memory = slices.DeleteFunc(d.memory, func(a uint64) bool { return a == address })
	d.mu.Unlock()
	return d.ask("freeing memory of the card", func() C.int {
		return C.weft_free(d.driver, C.device_address(address))
	})
}

// ToDevice copies to the card. It may return before the bytes are there, but from may change then.
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

// Elapsed calls ask, and waits. It returns how many seconds, by the card's clock, the card took for the
// kernels and copies that ask began, counted from the end of earlier ones. Kernels are launched one by one.
// Its error is the first since the last wait.
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

// Sync waits until the card has done all it was asked. Its error is the first since the last wait.
func (d *Device) Sync() error {
	d.queue.mu.Lock()
	_ = d.launchListed() // note keeps its error
	d.queue.mu.Unlock()
	_ = d.note("waiting for the card", C.weft_wait(d.driver, d.stream))
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.failed
	d.failed, d.sinceWait = nil, nil
	return err
}

// note keeps a failure until the next wait, because callers of functions that do not wait need not look at
// errors. A kernel's error shows late, so the failure names the last kernels that were launched: one of these
// failed, or an earlier one.
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
