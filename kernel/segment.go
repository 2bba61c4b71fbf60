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
	// longRow is the largest number of entries of a row that is not cut.
	longRow = C.WEFT_LONG
	// segmentEntries is the largest number of entries of a segment; equal entries, which stay in one segment,
	// may exceed it.
	segmentEntries = C.WEFT_SEGMENT
	// cpuPartials is the number of partial results on a CPU: it works on so many segments before their results
	// are merged. devicePartials is the largest number on a device.
	cpuPartials    = C.WEFT_PARTIALS
	devicePartials = C.WEFT_DEVICE_PARTIALS
)

// Segment is entries Begin … End−1 of a matrix, a part of a long row. After is the number of segments of the
// row that follow.
type Segment struct{ Row, Begin, End, After int }

// mostSegments bounds the number of segments, in rows of more than one, for so many entries.
func mostSegments(entries int) int { return 2 * entries / segmentEntries }

// MakeRoom takes memory, charged to kind, in which FindSegments lists segments for a device: 32 bytes for
// 1024 entries. It does nothing if mem is not on a device. It must be called before FindSegments, also in a
// plan.
func (a *CSR) MakeRoom(mem *tensor.Meter, kind tensor.Kind) {
	if n := mostSegments(a.Entries()); mem.OnDevice() && n > 0 {
		a.list = mem.NewElement(kind, tensor.Int64, n, int(unsafe.Sizeof(Segment{})/8))
	}
}

// FindSegments sets Segments, and writes a device's list of them. It must be called when Indptr and Indices
// are filled. Transpose calls it for its result.
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

// segments returns the segments of the rows with more than over and at most most entries.
func (a *CSR) segments(over, most int) (all []Segment) {
	indptr := a.Indptr.ReadInt64s()
	for row := range len(indptr) - 1 {
		first, n := int(indptr[row]), int(indptr[row+1]-indptr[row])
		if n <= over || n > most {
			continue
		}
		columns, begin, before := a.Indices.ReadInt32s()[first:first+n], 0, len(all)
		for k, pieces := 1, (n-1)/segmentEntries+1; k <= pieces; k++ {
			if end := cut(columns, k, pieces); end > begin {
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

// cut returns the position at which part k of n parts of a row ends. Equal entries stay in one part, because
// a mask numbers them.
func cut(row []int32, k, n int) int {
	at := len(row) * k / n
	if at < len(row) {
		at, _ = slices.BinarySearch(row, row[at])
	}
	return at
}

// segmentsBefore returns the number of segments of rows before this one.
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

// cutLong returns a with the segments of rows of more than longRow entries, which all kernels over edges cut,
// so that a row's result has the same bits on a device.
func (a *CSR) cutLong() *CSR { return a.someSegments(0, min(a.long, len(a.Segments))) }

// uncut returns a without segments, for a kernel that takes little time for an entry.
func (a *CSR) uncut() *CSR { return a.someSegments(0, 0) }

// longest returns the largest number of entries of a row that has no segments; 0: no row has segments.
func (a *CSR) longest() int {
	switch {
	case len(a.Segments) == 0:
		return 0
	case len(a.Segments) == a.long:
		return longRow
	}
	return segmentEntries
}

// bySegments runs a kernel over rows that are cut. A kernel works on some segments at a time, and each of
// them writes a partial result, in a row of scratch. A second kernel then merges the partial results in the
// order of the segments. Where a row is cut depends on the row alone, so a result has the same bits for any number of
// threads.
type bySegments struct {
	team  *Team
	rows  *CSR
	count int // number of partial results
	sums  []partialSum
	taken []*tensor.Matrix
	bytes []int
}

// partialSum has the partial sums of segments, and total, to whose rows they are added.
type partialSum struct{ total, partials *tensor.Matrix }

// bySegments prepares work on a's rows that are cut. partials and sum take memory for it, and run or runSums
// does it. The number of partial results depends on sizes alone, because a plan does not know the segments.
// On a device there is one for each segment, up to a limit.
func (t *Team) bySegments(a *CSR) *bySegments {
	b := &bySegments{team: t, rows: a, count: cpuPartials}
	if t.Memory.OnDevice() {
		b.count = 0
		if a.list != nil {
			tensor.Touch(a.list)
			b.count = min(t.partials, a.list.Rows)
		}
	}
	return b
}

// partials returns scratch with a row for each partial result. If no row is cut, it returns nil, and the scratch is
// charged all the same.
func (b *bySegments) partials(element tensor.Element, cols int) *tensor.Matrix {
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

// sum takes memory for partial Float32 sums, which runSums adds to the rows of m; nil for nil.
func (b *bySegments) sum(m *tensor.Matrix) *tensor.Matrix {
	if m == nil {
		return nil
	}
	partials := b.partials(tensor.Float32, m.Cols)
	b.sums = append(b.sums, partialSum{m, partials})
	return partials
}

// run runs a kernel over the segments, and calls merge after as many as there are partial results, and at the
// end. It then releases these. The kernel's bytes are counted with the other rows'.
func (b *bySegments) run(r routine, args unsafe.Pointer, merge func(C.weft_segments)) {
	b.team.Memory.Reserve(b.bytes...)
	r.bytes = Bytes{}
	var pinned runtime.Pinner // the arguments of merge point to them
	defer pinned.Unpin()
	if len(b.rows.Segments) > 0 {
		pinned.Pin(&b.rows.Segments[0])
	}
	for batch, segments := range b.rows.batches(b.count) {
		b.team.launch(Shape{len(batch)}, 0, launch{links: oneKernel(r, args), segments: batch, partials: segments})
		merge(segments)
	}
	for _, m := range b.taken {
		m.Release()
	}
}

// merge runs a kernel that merges the partial results, column by column or head by head.
func (b *bySegments) merge(r routine, args unsafe.Pointer, columns, width int) {
	b.team.launch(Shape{b.count}, 0, launch{links: oneKernel(r, args), last: columns, cost: width * b.count})
}

// runSums is run for a kernel whose results are sums.
func (b *bySegments) runSums(r routine, args unsafe.Pointer, to Output) {
	b.run(r, args, func(segments C.weft_segments) {
		for _, s := range b.sums {
			args := &C.weft_merge_sums_args{
				z: either(s.total), partials: floats(s.partials), cols: C.int64_t(s.total.Cols), segments: segments,
				z_type: C.int32_t(typeOf(s.total)), accumulate: boolean(to == Accumulate),
			}
			b.merge(on(C.weft_merge_sums), unsafe.Pointer(args), s.total.Cols, 1)
		}
	})
}

// batches returns the segments that are worked on at a time, with so many partial results: for the CPU, and
// in the form of the kernels' arguments. If a row goes on in the next batch, its result so far is the first
// partial result there. On a device, which merges rows in parallel, such a row has batches of its own.
func (a *CSR) batches(partials int) iter.Seq2[[]C.weft_segment, C.weft_segments] {
	all := unsafe.Slice((*C.weft_segment)(unsafe.Pointer(unsafe.SliceData(a.Segments))), len(a.Segments))
	goesOn := func(k int) bool { // whether a row goes on from segment k−1 to k
		return k > 0 && k < len(all) && all[k-1].after > 0
	}
	return func(yield func([]C.weft_segment, C.weft_segments) bool) {
		for k := 0; k < len(all); {
			carried := int(boolean(goesOn(k)))
			end := min(k+partials-carried, len(all))
			if a.list != nil && goesOn(end) {
				if begin := a.beginOf(end); begin > k {
					end = begin
				}
			}
			first := &all[k]
			if a.list != nil {
				first = (*C.weft_segment)(a.list.RowRange(a.listed+k, a.listed+end).Pointer())
			}
			if !yield(all[k:end], C.weft_segments{of: first, count: C.int64_t(end - k), carried: C.int64_t(carried)}) {
				return
			}
			k = end
		}
	}
}

// beginOf returns the first segment of the row that has segment k.
func (a *CSR) beginOf(k int) int {
	for k > 0 && a.Segments[k-1].Row == a.Segments[k].Row {
		k--
	}
	return k
}
