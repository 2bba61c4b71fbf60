//go:build weftdebug

package tensor

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard is the size of the inaccessible page at each end of every matrix in a debug build: a kernel that
// reads or writes past its matrix faults there.
const guard = pageSize

func protect(p unsafe.Pointer, size int) unsafe.Pointer {
	for _, at := range []int{0, guard + size} {
		forbid(unsafe.Add(p, at), guard)
	}
	return unsafe.Add(p, guard)
}

// forbid makes memory inaccessible.
func forbid(p unsafe.Pointer, size int) {
	if err := unix.Mprotect(unsafe.Slice((*byte)(p), size), unix.PROT_NONE); err != nil {
		panic(fmt.Sprintf("tensor: mprotect: %v", err))
	}
}
