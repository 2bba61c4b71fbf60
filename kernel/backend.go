package kernel

// #include "native/weft.h"
import "C"

import (
	"sync"
	"unsafe"

	"weft/tensor"
)

// backend is the place where a team computes. All work of this package on elements goes through it.
type backend interface {
	// run runs the kernels of a launch over all its rows.
	run(l launch)
	// weight runs the sums of a weight's gradient.
	weight(w *weight)
	// parallel calls work(0) … work(n−1): Go code that reads and writes elements by the accessors of
	// matrices.
	parallel(n int, work func(k int))
	// has reports whether the backend has this kernel of its own, instead of code of the CPU (oneDNN, weight,
	// or Go).
	has(kernel C.int) bool
	// wait returns when a device has done all it was asked.
	wait()
}

// link is a kernel with its arguments. A kernel that reduces tiles (tile) runs over numbers of tiles instead
// of rows.
type link struct {
	routine
	args unsafe.Pointer
	tile bool
}

// over runs the kernel over lo…hi−1, on this thread.
func (l link) over(lo, hi int) { C.weft_run(l.name, l.element, l.args, C.int64_t(lo), C.int64_t(hi)) }

// oneKernel returns the links of a launch of one kernel over rows.
func oneKernel(r routine, args unsafe.Pointer) []link { return []link{{r, args, false}} }

// launch is one kernel over rows, or a chain of them. All kernels of a chain run on a tile of the rows, one
// after the other, before any runs on the next tile. So each finds in the caches what the kernel before it
// read or wrote. The results have the same bits as running each kernel over all rows.
type launch struct {
	links       []link
	first, last int // the rows are first … last−1
	cost        int // about how many elements are read for each row or, with by, for each entry
	tile        int // number of rows that the kernels get at a time, counted from row 0; 0: any number
	// by has the rows' entries, if the work grows with them. The kernel skips rows that have segments.
	by       *CSR
	segments []C.weft_segment // the kernel runs over these instead of rows
	partials C.weft_segments  // the segments in a device's memory, and their partial results
}

// over runs the kernels over rows lo…hi−1, where lo is a multiple of the tile.
func (l *launch) over(lo, hi int) {
	if l.tile == 0 {
		l.links[0].over(lo, hi)
		return
	}
	for row := lo; row < hi; row += l.tile {
		for _, k := range l.links {
			if k.tile {
				k.over(row/l.tile, row/l.tile+1)
			} else {
				k.over(row, min(row+l.tile, hi))
			}
		}
	}
}

// cpu is the backend of C kernels, each on one thread over a range of rows.
type cpu struct {
	threads int
	helpers helpers
}

func newCPU(threads int) *cpu {
	return &cpu{threads: threads, helpers: helpers{calls: make(chan *call, threads)}}
}

const (
	grain  = 1 << 15 // number of elements that are worth a hand-out
	chunks = 8       // hand-outs per thread, so that a late thread does not keep the others waiting
)

// parts returns the number of hand-outs that work on so many elements is worth.
func (c *cpu) parts(elements int) int {
	if c.threads == 1 {
		return 1
	}
	return max(1, min(c.threads*chunks, elements/grain))
}

func (c *cpu) run(l launch) {
	if l.segments != nil {
		k := l.links[0]
		c.parallel(len(l.segments), func(i int) {
			C.weft_run_segment(k.name, k.element, k.args, l.segments[i], l.partials.carried+C.int64_t(i))
		})
		return
	}
	if l.by != nil {
		bounds := c.balance(&l)
		c.parallel(len(bounds)-1, func(k int) {
			if bounds[k] < bounds[k+1] {
				l.over(bounds[k], bounds[k+1])
			}
		})
		return
	}
	tile := max(1, l.tile)
	units := (l.last - l.first + tile - 1) / tile
	parts := min(c.parts((l.last-l.first)*max(1, l.cost)), max(1, units))
	c.parallel(parts, func(k int) {
		l.over(l.first+units*k/parts*tile, min(l.first+units*(k+1)/parts*tile, l.last))
	})
}

// balance cuts the rows of a launch into ranges of about equal work: one for each row, and one for each entry
// that is not in a segment.
func (c *cpu) balance(l *launch) []int {
	if l.first == l.last {
		return []int{l.first}
	}
	indptr := l.by.Indptr.ReadInt64s()
	apart := l.by.segmentsOf(l.first, l.last)
	without := make([]int, len(apart.Segments)+1) // the number of entries of the first k segments
	for k, s := range apart.Segments {
		without[k+1] = without[k] + s.End - s.Begin
	}
	work := func(row int) int {
		return int(indptr[row]-indptr[l.first]) + row - l.first - without[apart.segmentsBefore(row)]
	}
	parts := c.parts(work(l.last) * max(1, l.cost))
	bounds := make([]int, parts+1)
	bounds[0], bounds[parts] = l.first, l.last
	for k := 1; k < parts; k++ {
		want := work(l.last) * k / parts
		lo, hi := bounds[k-1], l.last
		for lo < hi {
			if mid := (lo + hi) / 2; work(mid) < want {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		bounds[k] = lo
	}
	return bounds
}

func (c *cpu) has(C.int) bool { return false }
func (c *cpu) wait()          {}

func (c *cpu) weight(w *weight) {
	c.sumsInOrder(w.threads, w.sums.Rows, w.blocks, w.lanes, w.sum, w.add)
}

func (c *cpu) parallel(n int, work func(k int)) {
	if c.threads == 1 || n <= 1 {
		for k := range n {
			work(k)
		}
		return
	}
	call := newCall(n, c.threads, work)
	for range call.shares[1:] {
		c.helpers.join(call)
	}
	call.take(0)
	call.finish()
}

// nothing is the backend of a plan.
type nothing struct{}

func (nothing) run(launch)                {}
func (nothing) weight(*weight)            {}
func (nothing) parallel(int, func(k int)) {}
func (nothing) has(C.int) bool            { return false }
func (nothing) wait()                     {}

// pointer is a field of a kernel's arguments with the address of elements.
type pointer struct {
	name    string
	offset  uintptr
	written bool
}

// arguments are the pointers among the arguments of a kernel, and the size of all arguments in bytes.
type arguments struct {
	pointers []pointer
	size     int
}

// argumentsOf returns the arguments by kernel.
var argumentsOf = sync.OnceValue(func() (all []arguments) {
	for k := range C.int(C.WEFT_KERNEL_COUNT) {
		var a arguments
		var bytes C.int64_t
		for _, p := range unsafe.Slice(C.weft_pointers(k, &bytes), 1<<10) {
			if p.name == nil {
				break
			}
			a.pointers = append(a.pointers, pointer{C.GoString(p.name), uintptr(p.offset), p.written != 0})
		}
		a.size = int(bytes)
		all = append(all, a)
	}
	return all
})

// pointers returns the kernel's pointers, and the size of its arguments in bytes.
func (r routine) pointers() (all []pointer, size int) {
	a := argumentsOf()[r.name]
	return a.pointers, a.size
}

// launch runs a launch as one call. A chain counts the bytes of its first kernel.
func (t *Team) launch(s Shape, entries int, l launch) {
	if t.Watch == nil {
		t.backend.run(l)
		return
	}
	name := names[l.links[0].name]
	for _, k := range l.links[1:] {
		name += "+" + names[k.name]
	}
	t.watched(Call{Kernel: name, Shape: s, Entries: entries, Bytes: l.links[0].bytes}, func() { t.backend.run(l) })
}

// rows runs a kernel over rows 0…n−1 of about cost elements each.
func (t *Team) rows(r routine, args unsafe.Pointer, n, cost int) {
	t.launch(Shape{n, cost}, 0, launch{links: oneKernel(r, args), last: n, cost: cost})
}

// edges runs a kernel over the rows of a that are not cut, in ranges of about equal numbers of entries. The
// kernel reads cols elements for each entry.
func (t *Team) edges(r routine, args unsafe.Pointer, a *CSR, cols int) {
	t.edgesOf(r, args, a, 0, a.Rows, cols)
}

// edgesOf is edges for rows first…last−1.
func (t *Team) edgesOf(r routine, args unsafe.Pointer, a *CSR, first, last, cols int) {
	t.launch(Shape{last - first, cols}, a.entriesOf(first, last), launch{
		links: oneKernel(r, args), first: first, last: last, cost: cols, by: a.cutLong(),
	})
}

// chain runs kernels over the tiles of n rows of about cost elements each.
func (t *Team) chain(n, cost int, links ...link) {
	t.launch(Shape{n, cost}, 0, launch{links: links, last: n, cost: cost, tile: C.WEFT_TILE})
}

// tiles returns the number of tiles of a reduction over n rows.
func tiles(n int) int { return (n + C.WEFT_TILE - 1) / C.WEFT_TILE }

// overTiles runs a kernel over the tiles of n rows of about cost elements each.
func (t *Team) overTiles(r routine, args unsafe.Pointer, n, cost int) {
	t.launch(Shape{n, cost}, 0, launch{links: oneKernel(r, args), last: tiles(n), cost: cost * C.WEFT_TILE})
}

// mergeTiles adds up the tiles' partial sums in double precision, in the order of the tiles, for columns
// from…from+cols−1. The first tile gets the sums. They are also added to z (Float32, cols elements), unless z
// is nil.
func (t *Team) mergeTiles(z, partial *tensor.Matrix, from, cols int) {
	t.mergeInto(&C.weft_merge_tiles_args{z: floats(z)}, partial, from, cols)
}

// mergeInto is mergeTiles with other results.
func (t *Team) mergeInto(args *C.weft_merge_tiles_args, partial *tensor.Matrix, from, cols int) {
	if partial.Rows == 0 {
		return
	}
	args.tiles, args.from = doubles(partial), C.int64_t(from)
	args.count, args.cols = C.int64_t(partial.Rows), C.int64_t(partial.Cols)
	links := oneKernel(on(C.weft_merge_tiles), unsafe.Pointer(args))
	t.launch(Shape{partial.Rows}, 0, launch{links: links, first: from, last: from + cols, cost: partial.Rows})
}

// addTiles adds the tiles' sums to sum, and releases them.
func (t *Team) addTiles(sum, partial *tensor.Matrix) {
	t.mergeTiles(sum, partial, 0, partial.Cols)
	partial.Release()
}

// readTiles sets sums to the sums over the tiles, and releases partial.
func (t *Team) readTiles(sums []float64, partial *tensor.Matrix) {
	t.mergeTiles(nil, partial, 0, partial.Cols)
	clear(sums)
	copy(sums, partial.ReadDoubles())
	partial.Release()
}
