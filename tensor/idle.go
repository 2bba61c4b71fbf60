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
	ranges []span                   // the rest: ranges that do not touch each other, the smallest first
	starts map[unsafe.Pointer]int   // the sizes of ranges, by their first byte
	ends   map[unsafe.Pointer]int   // by the byte behind them
}

// span is memory from start on.
type span struct {
	start unsafe.Pointer
	size  int
}

func (s span) end() unsafe.Pointer { return unsafe.Add(s.start, s.size) }

func compareSpans(a, b span) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(uintptr(a.start), uintptr(b.start)))
}

func newIdle() idle {
	return idle{large: map[int][]unsafe.Pointer{}, starts: map[unsafe.Pointer]int{}, ends: map[unsafe.Pointer]int{}}
}

// whole reports whether memory of that size is neither divided nor joined. Between guard pages none is.
func whole(size int) bool { return size >= hugePage || guard > 0 }

// put adds memory.
func (d *idle) put(s span) {
	d.bytes += int64(s.size)
	if whole(s.size) {
		d.large[s.size] = append(d.large[s.size], s.start)
		return
	}
	if before, found := d.ends[s.start]; found {
		left := span{unsafe.Add(s.start, -before), before}
		d.remove(left)
		s = span{left.start, before + s.size}
	}
	if behind, found := d.starts[s.end()]; found {
		d.remove(span{s.end(), behind})
		s.size += behind
	}
	d.insert(s)
}

// take returns memory of that size, nil if there is none: of the smallest range that has it.
func (d *idle) take(size int) (p unsafe.Pointer) {
	if whole(size) {
		if len(d.large[size]) == 0 {
			return nil
		}
		p = d.last(size)
	} else {
		at, _ := slices.BinarySearchFunc(d.ranges, span{nil, size}, compareSpans)
		if at == len(d.ranges) {
			return nil
		}
		p = d.divide(d.ranges[at], size)
	}
	d.bytes -= int64(size)
	return p
}

// cut returns some memory that is to be given back, if there is any: bytes of the smallest range, which is of
// least use, or else the largest memory that is not divided.
func (d *idle) cut(bytes int) (s span, found bool) {
	switch {
	case len(d.ranges) > 0:
		s.size = min(bytes, d.ranges[0].size)
		s.start = d.divide(d.ranges[0], s.size)
	case len(d.large) > 0:
		s.size = slices.Max(slices.Collect(maps.Keys(d.large)))
		s.start = d.last(s.size)
	default:
		return s, false
	}
	d.bytes -= int64(s.size)
	return s, true
}

// last takes the memory of a size that came last.
func (d *idle) last(size int) (p unsafe.Pointer) {
	free := d.large[size]
	p = free[len(free)-1]
	if d.large[size] = free[:len(free)-1]; len(free) == 1 {
		delete(d.large, size)
	}
	return p
}

// divide takes the first bytes of a range.
func (d *idle) divide(s span, size int) unsafe.Pointer {
	d.remove(s)
	if s.size > size {
		d.insert(span{unsafe.Add(s.start, size), s.size - size})
	}
	return s.start
}

func (d *idle) insert(s span) {
	at, _ := slices.BinarySearchFunc(d.ranges, s, compareSpans)
	d.ranges = slices.Insert(d.ranges, at, s)
	d.starts[s.start], d.ends[s.end()] = s.size, s.size
}

func (d *idle) remove(s span) {
	at, _ := slices.BinarySearchFunc(d.ranges, s, compareSpans)
	d.ranges = slices.Delete(d.ranges, at, at+1)
	delete(d.starts, s.start)
	delete(d.ends, s.end())
}
