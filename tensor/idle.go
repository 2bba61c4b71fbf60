package tensor

import (
	"cmp"
	"maps"
	"slices"
	"unsafe"
)

// idle is memory of a Meter that no matrix has. Memory of large matrices is kept for matrices of the same
// size, so that huge pages stay whole. Smaller memory is divided and joined: the chunks of a pipeline differ
// in size, and fresh pages for each of them cost more than the kernels.
type idle struct {
	bytes  int64
	large  map[int][]unsafe.Pointer // by size
	ranges []span                   // the rest, by address: ranges that do not touch each other
}

// span is memory from start on.
type span struct {
	start unsafe.Pointer
	size  int
}

func (s span) end() unsafe.Pointer { return unsafe.Add(s.start, s.size) }

// whole reports whether memory of that size is neither divided nor joined. Between guard pages none is.
func whole(size int) bool { return size >= hugePage || guard > 0 }

// put adds memory.
func (d *idle) put(s span) {
	d.bytes += int64(s.size)
	if whole(s.size) {
		d.large[s.size] = append(d.large[s.size], s.start)
		return
	}
	at, _ := slices.BinarySearchFunc(d.ranges, s,
		func(a, b span) int { return cmp.Compare(uintptr(a.start), uintptr(b.start)) })
	joinsBefore := at > 0 && d.ranges[at-1].end() == s.start
	joinsBehind := at < len(d.ranges) && d.ranges[at].start == s.end()
	switch {
	case joinsBefore && joinsBehind:
		d.ranges[at-1].size += s.size + d.ranges[at].size
		d.ranges = slices.Delete(d.ranges, at, at+1)
	case joinsBefore:
		d.ranges[at-1].size += s.size
	case joinsBehind:
		d.ranges[at] = span{s.start, s.size + d.ranges[at].size}
	default:
		d.ranges = slices.Insert(d.ranges, at, s)
	}
}

// take returns memory of that size, nil if there is none: of the smallest range that has it.
func (d *idle) take(size int) unsafe.Pointer {
	if whole(size) {
		if len(d.large[size]) == 0 {
			return nil
		}
		return d.last(size)
	}
	if at := d.smallest(size); at >= 0 {
		return d.divide(at, size)
	}
	return nil
}

// cut returns some memory that is to be given back, if there is any: bytes of the smallest range, which is of
// least use, or else the largest memory that is not divided.
func (d *idle) cut(bytes int) (s span, found bool) {
	if at := d.smallest(0); at >= 0 {
		s.size = min(bytes, d.ranges[at].size)
		s.start = d.divide(at, s.size)
		return s, true
	}
	if len(d.large) > 0 {
		s.size = slices.Max(slices.Collect(maps.Keys(d.large)))
		s.start = d.last(s.size)
		return s, true
	}
	return s, false
}

// smallest returns the number of the smallest range of at least that size, −1 if there is none. It looks no
// further than one of that size, as thousands of parameters leave.
func (d *idle) smallest(size int) int {
	best := -1
	for i, s := range d.ranges {
		if s.size == size {
			return i
		}
		if s.size >= size && (best < 0 || s.size < d.ranges[best].size) {
			best = i
		}
	}
	return best
}

// divide takes the first bytes of a range.
func (d *idle) divide(at, size int) unsafe.Pointer {
	d.bytes -= int64(size)
	s := d.ranges[at]
	if s.size == size {
		d.ranges = slices.Delete(d.ranges, at, at+1)
	} else {
		d.ranges[at] = span{unsafe.Add(s.start, size), s.size - size}
	}
	return s.start
}

// last takes the memory of a size that came last.
func (d *idle) last(size int) unsafe.Pointer {
	d.bytes -= int64(size)
	free := d.large[size]
	p := free[len(free)-1]
	d.large[size] = free[:len(free)-1]
	if len(free) == 1 {
		delete(d.large, size)
	}
	return p
}
