package kernel

// #include "native/weft.h"
import "C"

import (
	"iter"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"weft/tensor"
)

const (
	// longRow is how many entries a row has at most that is not cut.
	longRow = C.WEFT_LONG
	// segmentEntries is how many a segment has at most, but for equal ones.
	segmentEntries = C.WEFT_SEGMENT
	// partials is how many segments a CPU works on before what they gave is merged, and devicePartials a
	// device at most.
	partials       = C.WEFT_PARTIALS
	devicePartials = C.WEFT_PLACES
)

// Segment is entries Begin … End−1 of a matrix, some of those of a row of many, of which After segments
// follow.
type Segment struct{ Row, Begin, End, After int }

// mostSegments is how many segments of rows of more than one there are at most in so many entries.
func mostSegments(entries int) int { return 2 * entries / segmentEntries }

// MakeRoom takes the memory, charged to kind, that FindSegments lists segments in for a device, where mem is
// of one: 32 bytes for 1024 entries. It is called before, and by a plan, too.
func (a *CSR) MakeRoom(mem *tensor.Meter, kind tensor.Kind) {
	if n := mostSegments(a.Entries()); mem.OnDevice() && n > 0 {
		a.list = mem.NewElement(kind, tensor.Int64, n, int(unsafe.Sizeof(Segment{})/8))
	}
}

// FindSegments sets Segments, and writes those of a device; it is called when Indptr and Indices are filled.
// Transpose calls it for its result.
func (a *CSR) FindSegments() {
	a.Segments = a.segments(longRow, math.MaxInt)
	a.long = len(a.Segments)
	if a.list == nil {
		return
	}
	a.Segments = append(a.Segments, a.segments(segmentEntries, longRow)...)
	if len(a.Segments) > 0 {
		a.list.SetWritable()
		numbers := unsafe.Slice((*int64)(unsafe.Pointer(&a.Segments[0])), a.list.Cols*len(a.Segments))
		copy(a.list.WriteInt64s(), numbers)
	}
}

// segments cuts the rows of more than so many entries, but no more than most.
func (a *CSR) segments(over, most int) (all []Segment) {
	indptr := a.Indptr.ReadInt64s()
	for row := range len(indptr) - 1 {
		first, n := int(indptr[row]), int(indptr[row+1]-indptr[row])
		if n <= over || n > most {
			continue
		}
		columns, begin, before := a.Indices.ReadInt32s()[first:first+n], 0, len(all)
		for k, of := 1, (n-1)/segmentEntries+1; k <= of; k++ {
			if end := cut(columns, k, of); end > begin {
				all = append(all, Segment{Row: row, Begin: first + begin, End: first + end})
				begin = end
			}
		}
		for k := range all[before:] {
			all[before+k].After = len(all) - before - k - 1
		}
	}
	return all
}

// cut returns where part k of n parts ends. Equal entries, which a mask numbers, stay together.
func cut(row []int32, k, n int) int {
	at := len(row) * k / n
	if at < len(row) {
		at, _ = slices.BinarySearch(row, row[at])
	}
	return at
}

// segmentsBefore returns how many segments are of rows before one.
func (a *CSR) segmentsBefore(row int) int {
	k, _ := slices.BinarySearchFunc(a.Segments, row, func(s Segment, row int) int { return s.Row - row })
	return k
}

// segmentsOf returns a with the segments of rows lo…hi−1 alone.
func (a *CSR) segmentsOf(lo, hi int) *CSR {
	return a.someSegments(a.segmentsBefore(lo), a.segmentsBefore(hi))
}

func (a *CSR) someSegments(lo, hi int) *CSR {
	some := *a
	some.Segments, some.listed, some.long = a.Segments[lo:hi], a.listed+lo, max(0, min(a.long, hi)-lo)
	return &some
}

// cutLong returns a with the segments of rows of more than longRow entries, which all kernels over edges cut:
// what they give to a row then has the same bits on a device.
func (a *CSR) cutLong() *CSR { return a.someSegments(0, min(a.long, len(a.Segments))) }

// uncut returns a with whole rows, for a kernel that takes little time for an entry.
func (a *CSR) uncut() *CSR { return a.someSegments(0, 0) }

// longest is how many entries a row has at most that has no segments; 0: all have none.
func (a *CSR) longest() int {
	switch {
	case len(a.Segments) == 0:
		return 0
	case len(a.Segments) == a.long:
		return longRow
	}
	return segmentEntries
}

// bySegments is what a kernel does with rows that are cut. Each of the segments that are worked on at a time
// has a row of its own for its result, its place. A second kernel then merges these in the order of the
// segments. The places at which a row is cut depend on the row alone, so that a result has the same bits for
// any number of threads.
type bySegments struct {
	team  *Team
	rows  *CSR
	count int // of places
	sums  []partialSum
	taken []*tensor.Matrix
	bytes []int
}

// partialSum has the sums of segments, which are added up in the rows of a matrix.
type partialSum struct{ of, places *tensor.Matrix }

// bySegments begins the work on a's rows that are cut: places and sum take memory for it, and run and runSums
// do it. The number of places depends on sizes alone, as a plan does not know the segments. On a device all
// segments of a matrix have places, up to the most that it has.
func (t *Team) bySegments(a *CSR) *bySegments {
	b := &bySegments{team: t, rows: a, count: partials}
	if t.Memory.OnDevice() {
		b.count = 0
		if a.list != nil {
			tensor.Touch(a.list)
			b.count = min(t.partials, a.list.Rows)
		}
	}
	return b
}

// places takes scratch with a row for each segment that is worked on at a time. It is charged, but nil, where
// no row is cut.
func (b *bySegments) places(element tensor.Element, cols int) *tensor.Matrix {
	if b.count == 0 {
		return nil
	}
	if len(b.rows.Segments) == 0 {
		b.bytes = append(b.bytes, b.count*cols*element.Size())
		return nil
	}
	m := b.team.scratch(element, b.count, cols)
	b.taken = append(b.taken, m)
	return m
}

// sum takes places for Float32 sums that runSums adds up in the rows of m; nil for nil.
func (b *bySegments) sum(m *tensor.Matrix) *tensor.Matrix {
	if m == nil {
		return nil
	}
	places := b.places(tensor.Float32, m.Cols)
	b.sums = append(b.sums, partialSum{m, places})
	return places
}

// run runs a kernel over the segments, and merge after as many as there are places. It gives these back. The
// kernel's bytes count with the other rows'.
func (b *bySegments) run(r routine, args unsafe.Pointer, merge func(C.weft_segments)) {
	b.team.Memory.Reserve(b.bytes...)
	r.bytes = Bytes{}
	var pinned runtime.Pinner // what merge's arguments name
	defer pinned.Unpin()
	if len(b.rows.Segments) > 0 {
		pinned.Pin(&b.rows.Segments[0])
	}
	for batch, segments := range b.rows.batches(b.count) {
		b.team.launch(Shape{len(batch)}, 0, launch{links: one(r, args), segments: batch, places: segments})
		merge(segments)
	}
	for _, m := range b.taken {
		m.Release()
	}
}

// merge runs a kernel that merges what is in the places, column by column or head by head.
func (b *bySegments) merge(r routine, args unsafe.Pointer, columns, width int) {
	b.team.launch(Shape{b.count}, 0, launch{links: one(r, args), last: columns, cost: width * b.count})
}

// runSums is run for a kernel whose results are sums.
func (b *bySegments) runSums(r routine, args unsafe.Pointer, to Output) {
	b.run(r, args, func(segments C.weft_segments) {
		for _, s := range b.sums {
			args := &C.weft_merge_sums_args{
				z: either(s.of), places: floats(s.places), cols: C.int64_t(s.of.Cols), segments: segments,
				z_type: C.int32_t(typeOf(s.of)), accumulate: boolean(to == Accumulate),
			}
			b.merge(on(C.weft_merge_sums), unsafe.Pointer(args), s.of.Cols, 1)
		}
	})
}

// batches are the segments that are worked on at a time, in so many places, for the CPU and as the kernels take
// them. If a row goes on in the next batch, its result so far has the first place there. On a device, where
// rows are merged in parallel, such a row is alone.
func (a *CSR) batches(places int) iter.Seq2[[]C.weft_segment, C.weft_segments] {
	all := unsafe.Slice((*C.weft_segment)(unsafe.Pointer(unsafe.SliceData(a.Segments))), len(a.Segments))
	goesOn := func(k int) bool { // from the segment before k to k
		return k > 0 && k < len(all) && all[k-1].after > 0
	}
	return func(yield func([]C.weft_segment, C.weft_segments) bool) {
		for k := 0; k < len(all); {
			carried := int(boolean(goesOn(k)))
			end := min(k+places-carried, len(all))
			if a.list != nil && goesOn(end) {
				if begin := a.beginOf(end); begin > k {
					end = begin
				}
			}
			of := &all[k]
			if a.list != nil {
				of = (*C.weft_segment)(a.list.RowRange(a.listed+k, a.listed+end).Pointer())
			}
			if !yield(all[k:end], C.weft_segments{of: of, count: C.int64_t(end - k), carried: C.int64_t(carried)}) {
				return
			}
			k = end
		}
	}
}

// beginOf is the first segment of the row that segment k is of.
func (a *CSR) beginOf(k int) int {
	for k > 0 && a.Segments[k-1].Row == a.Segments[k].Row {
		k--
	}
	return k
}
