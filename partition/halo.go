package partition

import (
	"math/bits"
	"sort"
	"sync/atomic"
)

// bitsOfMarks is the number of vertices in a word of marks.
const bitsOfMarks = 32

// farEnds finds the vertices of other partitions that a partition's edges read, which are its halo.
type farEnds struct {
	me     int      // the partition
	starts []int    // the first position of each partition, of the type of the edges' other ends
	marks  []uint32 // of positions that are read
}

// tally counts edges by the partition of their other ends.
type tally struct {
	edges []int64
	rows  []int // that have such an edge
}

func newTally(k int) *tally { return &tally{edges: make([]int64, k), rows: make([]int, k)} }

func newFarEnds(starts []int) *farEnds {
	return &farEnds{starts: starts, marks: make([]uint32, starts[len(starts)-1]/bitsOfMarks+1)}
}

// begin begins to count the edges of a partition.
func (f *farEnds) begin(me int) {
	f.me = me
	clear(f.marks)
}

// count counts the edges of a row, whose other ends' positions ascend. It may run on several cores, each with
// a tally of its own.
func (f *farEnds) count(t *tally, row []int32) {
	q, end := -1, int32(0)
	for len(row) > 0 {
		for q < 0 || row[0] >= end {
			q = sort.Search(len(t.edges), func(q int) bool { return f.starts[q+1] > int(row[0]) })
			end = int32(f.starts[q+1])
		}
		n := 0
		for n < len(row) && row[n] < end {
			n++
		}
		t.edges[q] += int64(n)
		t.rows[q]++
		if q != f.me {
			f.mark(row[:n])
		}
		row = row[n:]
	}
}

// mark marks positions. Other cores mark, too.
func (f *farEnds) mark(positions []int32) {
	for _, at := range positions {
		word := &f.marks[at/bitsOfMarks]
		bit := uint32(1) << (at % bitsOfMarks)
		if atomic.LoadUint32(word)&bit == 0 {
			atomic.OrUint32(word, bit)
		}
	}
}

// needs returns how many vertices of each partition are read.
func (f *farEnds) needs() []int {
	n := make([]int, len(f.starts)-1)
	for q := range n {
		for at, end := f.starts[q], f.starts[q+1]; at < end; {
			next := min(end, (at/bitsOfMarks+1)*bitsOfMarks)
			word := uint64(f.marks[at/bitsOfMarks]) >> (at % bitsOfMarks)
			n[q] += bits.OnesCount64(word & (1<<(next-at) - 1))
			at = next
		}
	}
	return n
}
