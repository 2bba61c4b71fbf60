//go:build weftdebug

package tensor

import (
	"bytes"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guard is the size of the page at each end of every matrix that a debug build makes inaccessible. A kernel
// that reads or writes past its matrix faults there.
const guard = PageSize

func protect(p unsafe.Pointer, size int) unsafe.Pointer {
	for _, at := range []int{0, guard + size} {
		allow(unsafe.Add(p, at), guard, unix.PROT_NONE)
	}
	return unsafe.Add(p, guard)
}

// forbidWrites makes memory read-only.
func forbidWrites(p unsafe.Pointer, size int) { allow(p, size, unix.PROT_READ) }

func allow(p unsafe.Pointer, size, protection int) {
	if err := unix.Mprotect(unsafe.Slice((*byte)(p), size), protection); err != nil {
		panic(fmt.Sprintf("tensor: mprotect: %v", err))
	}
}

// protectHost makes the host's copy of a matrix readable, and with writable also writable.
func protectHost(m *Matrix, writable bool) {
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	allow(m.data, m.bytes, protection)
}

// hideHost makes any use of the host's copy fault, because the elements are valid on the device alone.
func hideHost(m *Matrix) { allow(m.data, m.bytes, unix.PROT_NONE) }

// blanks are the bytes where a kernel must not read. As a float each word is NaN, and as the number of a row
// it is far too large.
var blanks = bytes.Repeat([]byte{0xff, 0xff, 0xff, 0x7f}, PageSize/4)

// blank fills the bytes of an extent from an offset on, and the gap behind it, with blanks.
func (d *onDevice) blank(p *extent, from int) {
	d.asked++
	for at := int64(from); at < p.size(); {
		n := min(int64(PageSize)-at%PageSize, p.size()-at)
		d.check(d.mover.ToDevice(d.addressOf(p)+uint64(at), blanks[at%PageSize:][:n]))
		at += n
	}
}

// mustBeBlank panics if a kernel wrote behind the elements of a matrix. It says nothing if the device has
// failed.
func (d *onDevice) mustBeBlank(p *extent) {
	from := len(p.m.content())
	behind := make([]byte, int(p.size())-from)
	if d.mover.ToHost(behind, d.addressOf(p)+uint64(from)) != nil {
		return
	}
	for at, b := range behind {
		if b != blanks[(from+at)%4] {
			panic(fmt.Sprintf("tensor: byte %d behind a matrix of %d×%d was written on the device", at, p.m.Rows,
				p.m.Cols))
		}
	}
}
