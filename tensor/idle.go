package tensor

import (
	"maps"
	"slices"
	"unsafe"
)

// idle is memory of a Meter that belongs to no matrix. Memory of large matrices is kept for matrices of the
// same size, so that huge pages stay whole. Smaller memory is divided and joined: the chunks of a pipeline
// differ in size, and fresh pages for each would cost more than its kernels.
type idle struct {
	bytes int64
	large map[int][]unsafe.Pointer // by size
	// smaller memory: ranges that do not touch each other, perhaps thousands
	ranges  spans
	sizes   map[unsafe.Pointer]int // by start
	endings map[unsafe.Pointer]int // sizes, by end
}

func newIdle() idle {
	return idle{
		large: map[int][]unsafe.Pointer{},
		sizes: map[unsafe.Pointer]int{}, endings: map[unsafe.Pointer]int{},
	}
}

// whole reports whether memory of that size is never divided nor joined. With guard pages no memory is.
func whole(size int) bool { return size >= hugePage || guard > 0 }

// put adds memory.
func (d *idle) put(s span) {
	d.bytes += int64(s.size)
	if whole(s.size) {
		d.large[s.size] = append(d.large[s.size], s.start)
		return
	}
	if size, joins := d.endings[s.start]; joins {
		before := span{unsafe.Add(s.start, -size), size}
		d.remove(before)
		s = span{before.start, size + s.size}
	}
	if size, joins := d.sizes[s.end()]; joins {
		d.remove(span{s.end(), size})
		s.size += size
	}
	d.add(s)
}

// take returns memory of that size; nil: there is none. It takes it from the smallest range that is large
// enough, and among equal ones from the first in memory.
func (d *idle) take(size int) unsafe.Pointer {
	if whole(size) {
		if len(d.large[size]) == 0 {
			return nil
		}
		return d.last(size)
	}
	if s, found := d.ranges.smallest(size); found {
		return d.divide(s, size)
	}
	return nil
}

// cut takes out memory to be given back, if there is any: up to so many bytes of the smallest range, which is
// of least use, or else the largest whole memory.
func (d *idle) cut(bytes int) (s span, found bool) {
	if s, found = d.ranges.smallest(0); found {
		size := min(bytes, s.size)
		return span{d.divide(s, size), size}, true
	}
	if len(d.large) > 0 {
		s.size = slices.Max(slices.Collect(maps.Keys(d.large)))
		s.start = d.last(s.size)
		return s, true
	}
	return s, false
}

// divide takes size bytes from the start of a range, and keeps the others.
func (d *idle) divide(s span, size int) unsafe.Pointer {
	d.bytes -= int64(size)
	d.remove(s)
	if s.size > size {
		d.add(span{unsafe.Add(s.start, size), s.size - size})
	}
	return s.start
}

// add adds a range that touches no other one.
func (d *idle) add(s span) {
	d.ranges.add(s)
	d.sizes[s.start], d.endings[s.end()] = s.size, s.size
}

// remove takes a range away.
func (d *idle) remove(s span) {
	d.ranges.remove(s)
	delete(d.sizes, s.start)
	delete(d.endings, s.end())
}

// last takes whole memory of a size: the one that was put last.
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
