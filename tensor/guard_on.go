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
