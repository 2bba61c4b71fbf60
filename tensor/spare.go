package tensor

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// When a large matrix leaves, its pages are moved to the addresses of the next matrix that comes or is made,
// because fresh pages cost more than reading into them. So are idle pages that must go for a new matrix.
// Until then the pages stay where they were, as a spare. Spares are not charged, but stay within the limit
// and the peak. They begin at huge pages, and are moved one huge page at a time: the system may have each in
// an area of its own, and moves only one area at a time. Addresses that pages have left become one area
// again.
//
// Without spares a training takes 8 % more processor time: 11.5 s of user and system time instead of 10.7 s,
// for five epochs of a GraphSAGE of 3 × 128 on R-MAT with 2¹⁸ vertices and 3.9 million edges, in six
// partitions below 300 MB, which write .6 GB and read 1 GB an epoch (means of five runs each, with deviations
// of .4 s and .2 s; of the system's time 4.6 s and 3.7 s).

// spare is memory with pages that nobody needs the elements of.
type spare struct {
	span
	owner *Matrix // the matrix that is away and keeps these addresses; nil: none does
}

// spares are in the order in which they came.
type spares struct {
	bytes int64
	list  []spare
}

// mostAreas bounds how many areas of memory the moved pages make. Linux lets a process have 65,530 areas.
const mostAreas = 1 << 15

// areas is how many areas the Meters of this process may have made by now: one for each huge page of their
// peaks.
var areas atomic.Int64

// mayMove reports whether the areas of all Meters are few enough for pages of this one to move.
func (t *account) mayMove() bool {
	more := t.peak/hugePage - t.areas
	if more <= 0 {
		return true
	}
	if areas.Add(more) > mostAreas {
		areas.Add(-more)
		return false
	}
	t.areas += more
	return true
}

// leaveAreas leaves this account's areas to other Meters.
func (t *account) leaveAreas() {
	areas.Add(-t.areas)
	t.areas = 0
}

// addSpare keeps memory that nobody needs any more as a spare. It returns false if the memory is too small,
// or if no pages move: in a plan, with guard pages, and when there would be too many areas.
func (t *account) addSpare(s spare) bool {
	if s.size < hugePage || uintptr(s.start)%hugePage != 0 || guard > 0 || t.planned() || !t.mayMove() {
		return false
	}
	t.spares.list = append(t.spares.list, s)
	t.spares.bytes += int64(s.size)
	t.trimSpares()
	return true
}

// spareOrGiveBack makes idle memory a spare, or gives it back to the system. A plan makes many thousands of
// small matrices, so it keeps the addresses, which have no pages, for the next ones.
func (t *account) spareOrGiveBack(s span) {
	switch {
	case t.planned() && !whole(s.size):
		t.addresses.put(s)
	case !t.addSpare(spare{span: s}):
		giveBack(s.start, s.size)
	}
}

// planned reports whether matrices hold nothing.
func (t *account) planned() bool { return t.plan || t.offload != nil && t.offload.below == nil }

// trimSpares gives spares back until they and all that is charged are within the limit and the peak.
func (t *account) trimSpares() {
	most := t.peak
	if t.offload != nil {
		most = min(most, t.offload.limit)
	}
	t.keepSpares(most)
}

// keepSpares gives spares back until they and all that is charged are within so many bytes.
func (t *account) keepSpares(most int64) {
	s := &t.spares
	for len(s.list) > 0 && t.charged()+s.bytes > most {
		over := int(t.charged() + s.bytes - most)
		first := &s.list[0]
		keep := max(0, first.size-over) / hugePage * hugePage
		t.giveSpareBack(first.owner, span{unsafe.Add(first.start, keep), first.size - keep})
		s.cut(0, 0, keep)
	}
}

// cut reduces a spare to its bytes lo to hi−1.
func (s *spares) cut(at, lo, hi int) {
	p := &s.list[at]
	s.bytes -= int64(p.size - (hi - lo))
	p.start = unsafe.Add(p.start, lo)
	p.size = hi - lo
	if p.size == 0 {
		s.list = slices.Delete(s.list, at, at+1)
	}
}

// giveSpareBack gives the pages of a spare back, and also the addresses if no matrix keeps them.
func (t *account) giveSpareBack(owner *Matrix, p span) {
	if owner == nil {
		unmap(p.start, p.size)
		return
	}
	t.refused(renew(p, unix.PROT_NONE))
}

// refused takes an error of the system. If matrices rest, it ends the run.
func (t *account) refused(err error) {
	switch {
	case err == nil:
	case t.offload == nil:
		panic(fmt.Sprintf("tensor: %v", err))
	default:
		t.offload.failed(err)
	}
}

// renew gives the pages at some addresses back, and keeps the addresses. They join adjacent renewed addresses
// in one area.
func renew(s span, protection int) error {
	_, err := unix.MmapPtr(-1, 0, s.start, uintptr(s.size), protection,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// dropSpares takes the spares at a matrix's addresses from the list, and returns them in the order of
// addresses.
func (t *account) dropSpares(owner *Matrix) (dropped []span) {
	t.spares.list = slices.DeleteFunc(t.spares.list, func(p spare) bool {
		if p.owner != owner {
			return false
		}
		dropped = append(dropped, p.span)
		t.spares.bytes -= int64(p.size)
		return true
	})
	slices.SortFunc(dropped, func(a, b span) int { return cmp.Compare(uintptr(a.start), uintptr(b.start)) })
	return dropped
}

// supply moves spares to the addresses of a matrix without pages, as far as there are enough.
func (t *account) supply(m *Matrix) {
	if m.bytes < hugePage || len(t.spares.list) == 0 {
		return
	}
	own := t.dropSpares(m)
	moved := len(own) > 0
	for at := m.data; ; own = own[1:] {
		end := unsafe.Add(m.data, m.bytes)
		if len(own) > 0 {
			end = own[0].start
		}
		moved = t.fill(span{at, int(uintptr(end) - uintptr(at))}) || moved
		if len(own) == 0 {
			break
		}
		at = own[0].end()
	}
	if moved { // the pages that came must be readable and writable
		t.refused(unix.Mprotect(m.memory(), unix.PROT_READ|unix.PROT_WRITE))
	}
}

// fill moves spares to these addresses. It reports whether it moved any.
func (t *account) fill(to span) (moved bool) {
	s := &t.spares
	for to.size > 0 && len(s.list) > 0 {
		at := s.best(to.size)
		from := s.list[at]
		n := min(to.size, from.size)
		if n < to.size {
			n = n / hugePage * hugePage
		}
		for k := 0; k < n; k += hugePage {
			size := min(hugePage, n-k)
			t.move(span{unsafe.Add(to.start, k), size}, span{unsafe.Add(from.start, k), size}, from.owner)
		}
		next := min(from.size, (n+hugePage-1)/hugePage*hugePage)
		if rest := from.size - next; rest < hugePage {
			next = from.size
		}
		if next > n {
			t.giveSpareBack(from.owner, span{unsafe.Add(from.start, n), next - n})
		}
		s.cut(at, next, from.size)
		to = span{unsafe.Add(to.start, n), to.size - n}
		moved = true
	}
	return moved
}

// best returns the index of the spare for so many bytes: the smallest that is large enough, or else the
// largest.
func (s *spares) best(size int) (at int) {
	for i, p := range s.list {
		best := s.list[at].size
		if p.size >= size && (best < size || p.size < best) || p.size < size && p.size > best {
			at = i
		}
	}
	return at
}

// move moves pages to addresses without any.
func (t *account) move(to, from span, owner *Matrix) {
	flags := unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED
	if owner != nil {
		flags |= unix.MREMAP_DONTUNMAP
	}
	_, err := unix.MremapPtr(from.start, uintptr(from.size), to.start, uintptr(to.size), flags)
	if err != nil || owner != nil {
		t.giveSpareBack(owner, from)
	}
	if err != nil {
		// A Linux before 5.7, or several areas in a huge page. It may have freed the addresses.
		t.refused(renew(to, unix.PROT_READ|unix.PROT_WRITE))
	}
}
