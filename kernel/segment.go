package kernel

// #include "native/weft.h"
import "C"

import (
	"iter"
	"slices"
	"unsafe"

	"weft/tensor"
)

const (
	// longRow is how many entries a row has at most that is not cut.
	longRow = C.WEFT_LONG
	// partials is how many segments are worked on before what they gave is merged.
	partials = C.WEFT_PARTIALS
)

// Segment is entries Begin … End−1 of a matrix, some of those of a row of many.
type Segment struct{ Row, Begin, End int }

// FindSegments sets Segments; it is called when Indptr and Indices are filled. Transpose calls it for its
// result.
func (a *CSR) FindSegments() {
	a.Segments = nil
	indptr := a.Indptr.ReadInt64s()
	for row := range len(indptr) - 1 {
		first, n := int(indptr[row]), int(indptr[row+1]-indptr[row])
		if n <= longRow {
			continue
		}
		columns, begin := a.Indices.ReadInt32s()[first:first+n], 0
		for k, of := 1, (n-1)/C.WEFT_SEGMENT+1; k <= of; k++ {
			if end := cut(columns, k, of); end > begin {
				a.Segments = append(a.Segments, Segment{row, first + begin, first + end})
				begin = end
			}
		}
	}
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
	some := *a
	some.Segments = a.Segments[a.segmentsBefore(lo):a.segmentsBefore(hi)]
	return &some
}

// uncut returns a with whole rows, for a kernel that takes little time for an entry.
func (a *CSR) uncut() *CSR {
	whole := *a
	whole.Segments = nil
	return &whole
}

// bySegments is what a kernel does with rows that are cut. Each of the segments that are worked on at a time
// has a row of its own for its result, its place. A second kernel then merges these in the order of the
// segments. Where a row is cut depends on the row alone, so that a result has the same bits for any number of
// threads.
type bySegments struct {
	team  *Team
	rows  *CSR
	sums  []partialSum
	taken []*tensor.Matrix
	bytes []int
}

// partialSum has the sums of segments, which are added up in the rows of a matrix.
type partialSum struct{ of, places *tensor.Matrix }

func (t *Team) bySegments(a *CSR) *bySegments { return &bySegments{team: t, rows: a} }

// places takes scratch with a row for each segment that is worked on at a time. It is charged, but nil, where
// no row is cut, since a plan does not know.
func (b *bySegments) places(element tensor.Element, cols int) *tensor.Matrix {
	if len(b.rows.Segments) == 0 {
		b.bytes = append(b.bytes, partials*cols*element.Size())
		return nil
	}
	m := b.team.scratch(element, partials, cols)
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
func (b *bySegments) run(r routine, args unsafe.Pointer, merge func(C.weft_merges)) {
	b.team.Memory.Reserve(b.bytes...)
	r.bytes = Bytes{}
	for segments, merges := range b.rows.batches() {
		b.team.launch(Shape{len(segments)}, 0, launch{links: one(r, args), segments: segments})
		merge(merges)
	}
	for _, m := range b.taken {
		m.Release()
	}
}

// merge runs a kernel that merges what is in the places, column by column or head by head.
func (b *bySegments) merge(r routine, args unsafe.Pointer, columns, width int) {
	b.team.launch(Shape{partials}, 0, launch{links: one(r, args), last: columns, cost: width * partials})
}

// runSums is run for a kernel whose results are sums.
func (b *bySegments) runSums(r routine, args unsafe.Pointer, to Output) {
	b.run(r, args, func(merges C.weft_merges) {
		for _, s := range b.sums {
			args := &C.weft_merge_sums_args{
				z: either(s.of), places: floats(s.places), cols: C.int64_t(s.of.Cols), merges: merges,
				z_type: C.int32_t(typeOf(s.of)), accumulate: boolean(to == Accumulate),
			}
			b.merge(on(C.weft_merge_sums), unsafe.Pointer(args), s.of.Cols, 1)
		}
	})
}

// batches are the segments that are worked on at a time, and the rows that they are merged to. What a batch
// leaves of a row that goes on has the first place of the next.
func (a *CSR) batches() iter.Seq2[[]C.weft_segment, C.weft_merges] {
	return func(yield func([]C.weft_segment, C.weft_merges) bool) {
		goesOn := func(k int) bool { // from the segment before k to k
			return k > 0 && k < len(a.Segments) && a.Segments[k-1].Row == a.Segments[k].Row
		}
		for k := 0; k < len(a.Segments); {
			var batch []C.weft_segment
			var merges C.weft_merges
			place := int(boolean(goesOn(k)))
			for ; k < len(a.Segments) && place < partials; k, place = k+1, place+1 {
				s := a.Segments[k]
				if len(batch) == 0 || !goesOn(k) {
					first := place
					if goesOn(k) {
						first = 0
					}
					merges.of[merges.count] = C.weft_merge{row: C.int64_t(s.Row), first: C.int32_t(first)}
					merges.count++
				}
				m := &merges.of[merges.count-1]
				m.end, m.complete = C.int32_t(place+1), boolean(!goesOn(k+1))
				batch = append(batch, C.weft_segment{
					row: C.int64_t(s.Row), begin: C.int64_t(s.Begin), end: C.int64_t(s.End),
					place: C.int64_t(place),
				})
			}
			if !yield(batch, merges) {
				return
			}
		}
	}
}
