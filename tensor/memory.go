package tensor

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OutOfMemory is the panic value of an allocation that the operating system refused.
type OutOfMemory struct {
	Bytes int
	Err   error
}

func (e OutOfMemory) Error() string {
	return fmt.Sprintf("out of memory: %d more bytes were refused (%v)", e.Bytes, e.Err)
}

const (
	pageSize = 4096
	maxBytes = 1 << 62
	// From this size on, transparent huge pages are asked for: gathers of rows then miss the TLB less
	hugePage = 2 << 20
)

// pages is n rounded up to whole pages, at least one.
func pages(n int) int { return max(pageSize, (n+pageSize-1)/pageSize*pageSize) }

// spares are small mappings of the process that no Meter holds. They spare the training of a small graph most
// of its system calls, each of which interrupts all threads. Their few bytes are charged to nobody.
var spares = struct {
	sync.Mutex
	bySize map[int][]unsafe.Pointer
	bytes  int
}{bySize: map[int][]unsafe.Pointer{}}

const (
	spareSize  = 64 << 10 // the largest spare mapping
	spareBytes = 4 << 20  // of all spare mappings together
)

// acquire returns size bytes with undefined elements. Fresh ones take room only once they are written.
func acquire(size int) unsafe.Pointer {
	if p := takeSpare(size); p != nil {
		return p
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size+2*guard), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		panic(OutOfMemory{size, err})
	}
	if size >= hugePage {
		// Advice only: a kernel without huge pages refuses it and nothing is lost.
		_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_HUGEPAGE)
	}
	return protect(p, size)
}

func giveBack(p unsafe.Pointer, size int) {
	if keepSpare(p, size) {
		return
	}
	if err := unix.MunmapPtr(unsafe.Add(p, -guard), uintptr(size+2*guard)); err != nil {
		panic(fmt.Sprintf("tensor: munmap: %v", err))
	}
}

// giveBackEnd gives back the bytes of a mapping from keep on, which are whole pages.
func giveBackEnd(p unsafe.Pointer, size, keep int) {
	if err := unix.MunmapPtr(unsafe.Add(p, keep+guard), uintptr(size-keep)); err != nil {
		panic(fmt.Sprintf("tensor: munmap: %v", err))
	}
	protect(unsafe.Add(p, -guard), keep)
}

func takeSpare(size int) unsafe.Pointer {
	spares.Lock()
	defer spares.Unlock()
	free := spares.bySize[size]
	if len(free) == 0 {
		return nil
	}
	spares.bySize[size], spares.bytes = free[:len(free)-1], spares.bytes-size
	return free[len(free)-1]
}

// keepSpare reports whether a mapping is kept. Between guard pages none is, so that a late use of it faults.
func keepSpare(p unsafe.Pointer, size int) bool {
	spares.Lock()
	defer spares.Unlock()
	if guard > 0 || size > spareSize || spares.bytes+size > spareBytes {
		return false
	}
	spares.bySize[size], spares.bytes = append(spares.bySize[size], p), spares.bytes+size
	return true
}
