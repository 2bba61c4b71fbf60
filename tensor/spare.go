package tensor

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// Memory of a large matrix that leaves is moved to the addresses of the next one that comes or is made: fresh
// pages cost more than what is read into them. Until then it stays where it was, as a spare. Spares are
// within the limit, and not charged.

// spares are large matrices that are away, whose memory is there still, in the order in which they left.
type spares struct {
	bytes int64
	list  []*Matrix
}

// addSpare keeps the memory of a matrix that leaves as a spare. It reports false if it is too small.
func (t *account) addSpare(m *Matrix) bool {
	if m.bytes < hugePage || guard > 0 {
		return false
	}
	t.spares.list = append(t.spares.list, m)
	t.spares.bytes += int64(m.bytes)
	t.trimSpares()
	return true
}

// trimSpares gives spares back until they are within the limit beside all that is charged.
func (t *account) trimSpares() {
	o, s := t.offload, &t.spares
	for len(s.list) > 0 && t.charged()+s.bytes > o.limit {
		m := s.list[0]
		t.dropSpare(0)
		o.err = cmp.Or(o.err, unix.Madvise(m.memory(), unix.MADV_DONTNEED))
	}
}

// dropSpare takes one from the list.
func (t *account) dropSpare(at int) {
	t.spares.bytes -= int64(t.spares.list[at].bytes)
	t.spares.list = slices.Delete(t.spares.list, at, at+1)
}

// supply moves the memory of the smallest spare that has as much to the addresses of a matrix without, which
// may be a spare itself.
func (t *account) supply(m *Matrix) {
	s := &t.spares
	if at := slices.Index(s.list, m); at >= 0 {
		t.dropSpare(at)
		return
	}
	best := -1
	for i, other := range s.list {
		if other.bytes >= m.bytes && (best < 0 || other.bytes < s.list[best].bytes) {
			best = i
		}
	}
	if best < 0 || m.bytes < hugePage {
		return
	}
	from := s.list[best]
	t.dropSpare(best)
	const to = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED | unix.MREMAP_DONTUNMAP
	left := from.memory()
	var failed error
	if _, err := unix.MremapPtr(from.data, uintptr(m.bytes), m.data, uintptr(m.bytes), to); err == nil {
		left, failed = left[m.bytes:], unix.Mprotect(m.memory(), unix.PROT_READ|unix.PROT_WRITE)
	} else { // the system has it in several areas, or is a Linux before 5.7; it may have freed the addresses
		_, failed = unix.MmapPtr(-1, 0, m.data, uintptr(m.bytes), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	}
	if len(left) > 0 {
		failed = cmp.Or(failed, unix.Madvise(left, unix.MADV_DONTNEED))
	}
	t.offload.err = cmp.Or(t.offload.err, failed)
}
