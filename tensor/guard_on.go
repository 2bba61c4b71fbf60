//go:build weftdebug

package tensor

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard is the size of the inaccessible page at each end of every matrix in a debug build: a kernel that
// reads or writes past its matrix faults there.
const guard = PageSize

func protect(p unsafe.Pointer, size int) unsafe.Pointer {
	for _, at := range []int{0, guard + size} {
		allow(unsafe.Add(p, at), guard, unix.PROT_NONE)
	}
	return unsafe.Add(p, guard)
}

// forbidWrites lets memory be read alone.
func forbidWrites(p unsafe.Pointer, size int) { allow(p, size, unix.PROT_READ) }

func allow(p unsafe.Pointer, size, protection int) {
	if err := unix.Mprotect(unsafe.Slice((*byte)(p), size), protection); err != nil {
		panic(fmt.Sprintf("tensor: mprotect: %v", err))
	}
}

// protectHost lets the host's copy of a matrix be read, and with writable be changed.
func protectHost(m *Matrix, writable bool) {
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	allow(m.data, m.bytes, protection)
}

// hideHost has a use of the host's copy fault: the elements are on the device alone.
func hideHost(m *Matrix) { allow(m.data, m.bytes, unix.PROT_NONE) }
