package tensor

import (
	"fmt"
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

// PageSize is the size of a page of the system's memory, in bytes.
const PageSize = 4096

const (
	maxBytes = 1 << 62
	// hugePage is the size of a transparent huge page. Matrices of this size and more ask for them: gathers
	// of rows then miss the TLB less.
	hugePage = 2 << 20
)

// pages rounds n bytes up to whole pages, at least one.
func pages(n int) int { return max(PageSize, (n+PageSize-1)/PageSize*PageSize) }

// acquire returns size bytes with undefined elements. Fresh pages take memory only when they are written.
func acquire(size int) unsafe.Pointer {
	room := size + 2*guard
	if size >= hugePage {
		room += hugePage
	}
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(room), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		panic(OutOfMemory{size, err})
	}
	if size >= hugePage {
		p = aligned(p, size+2*guard)
	}
	adviseHuge(p, size)
	return protect(p, size)
}

// adviseHuge asks for huge pages in large memory. A Linux without them refuses, and nothing is lost.
func adviseHuge(p unsafe.Pointer, size int) {
	if size >= hugePage {
		_ = unix.Madvise(unsafe.Slice((*byte)(p), size), unix.MADV_HUGEPAGE)
	}
}

// aligned is given size bytes and a huge page more. It gives both ends back, so that the memory begins at a
// huge page.
func aligned(p unsafe.Pointer, size int) unsafe.Pointer {
	before := int(-uintptr(p) % hugePage)
	begin := unsafe.Add(p, before)
	for _, end := range []span{{p, before}, {unsafe.Add(begin, size), hugePage - before}} {
		if end.size > 0 {
			unmap(end.start, end.size)
		}
	}
	return begin
}

func giveBack(p unsafe.Pointer, size int) {
	unmap(unsafe.Add(p, -guard), size+2*guard)
}

func unmap(p unsafe.Pointer, size int) {
	if err := unix.MunmapPtr(p, uintptr(size)); err != nil {
		panic(fmt.Sprintf("tensor: munmap: %v", err))
	}
}

// giveBackEnd gives back the bytes of a matrix's memory from keep on: whole pages.
func giveBackEnd(p unsafe.Pointer, size, keep int) {
	unmap(unsafe.Add(p, keep+guard), size-keep)
	protect(unsafe.Add(p, -guard), keep)
}
