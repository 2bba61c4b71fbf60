package bench

// #include "native/probe.h"
import "C"

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	_ "weft/internal/bench/native"
	"weft/kernel"
	"weft/tensor"
)

// probes run a team's threads over the probe loops: what the machine can do, measured without the kernels'
// code. They use the best instructions that this CPU has, whatever the kernels were told to use.
type probes struct{ team *kernel.Team }

const (
	shares       = 8    // ranges per thread, so that a late thread does not keep the others waiting
	lineWords    = 16   // 32-bit words in a cache line
	expBuffer    = 2048 // floats that stay in the first-level cache
	expPerCall   = 1 << 16
	scoreBuffer  = 1024 // floats of each of three operands, which stay there too
	scorePerCall = 1 << 18
)

// level holds the loops in the best instructions that this CPU has.
var level = C.probe_at(0)

// eachLevel calls f with each of the levels that this CPU can run, for tests, which cannot reach C.
func eachLevel(f func()) {
	best := level
	defer func() { level = best }()
	for rank := C.int(0); C.probe_at(rank) != nil; rank++ {
		level = C.probe_at(rank)
		f()
	}
}

// ranges divides 0 … n−1 among the threads, in multiples of unit.
func (p probes) ranges(n, unit int, work func(lo, hi int)) {
	units := (n + unit - 1) / unit
	parts := 1
	if p.team.Threads() > 1 {
		parts = max(1, min(p.team.Threads()*shares, units))
	}
	p.team.Parallel(parts, func(k int) { work(units*k/parts*unit, min(n, units*(k+1)/parts*unit)) })
}

// gather reads, for each of the indices in their order, that row of every matrix (of 32-bit words), and
// returns the sum modulo 2^32 of all the words that it read: where g counts lines, of a row's first word and
// its last, if they may be in different ones. The row that g.ahead places behind is prefetched, none where
// that is 0.
func (p probes) gather(g gather) uint32 {
	if len(g.matrices) > C.PROBE_MATRICES {
		panic(fmt.Sprintf("bench: a gather from %d matrices", len(g.matrices)))
	}
	rows := C.probe_rows{
		matrices: C.int64_t(len(g.matrices)), indptr: (*C.int64_t)(g.indptr.Pointer()),
		rows:    C.int64_t(g.indptr.Len() - 1),
		indices: (*C.int32_t)(g.indices.Pointer()), ahead: C.int64_t(g.ahead),
	}
	for i, m := range g.matrices {
		rows.x[i], rows.cols[i] = (*C.uint32_t)(m.Pointer()), C.int64_t(m.Cols)
	}
	var sum atomic.Uint32
	p.ranges(g.indices.Len(), 1, func(lo, hi int) {
		if g.lines {
			sum.Add(uint32(C.probe_lines(level, &rows, C.int64_t(lo), C.int64_t(hi))))
		} else {
			sum.Add(uint32(C.probe_gather(level, &rows, C.int64_t(lo), C.int64_t(hi))))
		}
	})
	return sum.Load()
}

// read reads matrices from front to back and returns the sum modulo 2^32 of their words.
func (p probes) read(matrices ...*tensor.Matrix) uint32 {
	var sum atomic.Uint32
	for _, m := range matrices {
		p.words(m, func(x unsafe.Pointer, n int) { sum.Add(uint32(C.probe_read(level, x, C.int64_t(n)))) })
	}
	return sum.Load()
}

// write sets every word of a matrix, with ordinary stores: a line is fetched before it is written where the
// machine does so.
func (p probes) write(m *tensor.Matrix, value uint32) {
	p.words(m, func(x unsafe.Pointer, n int) { C.probe_write(level, x, C.int64_t(n), C.uint32_t(value)) })
}

// past sets every word of a matrix, past the caches: no line is fetched.
func (p probes) past(m *tensor.Matrix, value uint32) {
	p.words(m, func(x unsafe.Pointer, n int) { C.probe_past(level, x, C.int64_t(n), C.uint32_t(value)) })
}

// update adds to every word of a matrix: it is read and written in place.
func (p probes) update(m *tensor.Matrix, value uint32) {
	p.words(m, func(x unsafe.Pointer, n int) { C.probe_update(level, x, C.int64_t(n), C.uint32_t(value)) })
}

func (p probes) words(m *tensor.Matrix, work func(x unsafe.Pointer, n int)) {
	start := m.Pointer()
	p.ranges(m.Len()*m.Element.Size()/4, lineWords, func(lo, hi int) { work(unsafe.Add(start, 4*lo), hi-lo) })
}

// calls is how many calls of so much each do n or more, as many for each of the threads.
func (p probes) calls(n, each int) int {
	threads := p.team.Threads()
	return max(1, (n+each*threads-1)/(each*threads)) * threads
}

// exp computes at least n exponentials of numbers between −20 and 0 in the first-level cache.
func (p probes) exp(n int) rated {
	calls := p.calls(n, expPerCall)
	x, results := make([]float32, expBuffer), make(chan []float32, p.team.Threads())
	for i := range x {
		x[i] = -20 * float32(i) / expBuffer
	}
	for range cap(results) {
		results <- make([]float32, expBuffer)
	}
	run := func() {
		p.team.Parallel(calls, func(int) {
			z := <-results
			exponentials(z, x, expPerCall/expBuffer)
			results <- z
		})
	}
	return rated{run, float64(calls * expPerCall)}
}

// exponentials is z_i = e^x_i, so many times over.
func exponentials(z, x []float32, times int) {
	C.probe_exp(level, (*C.float)(&z[0]), (*C.float)(&x[0]), C.int64_t(len(x)), C.int64_t(times))
}

// score adds up at least n terms a·LeakyReLU(x + y), as GATv2's scores do, from operands in the first-level
// cache.
func (p probes) score(n int) rated {
	calls := p.calls(n, scorePerCall)
	x := make([]float32, 3*scoreBuffer)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	run := func() {
		p.team.Parallel(calls, func(int) {
			scoreTerms(x[:scoreBuffer], x[scoreBuffer:], x[2*scoreBuffer:], scorePerCall/scoreBuffer)
		})
	}
	return rated{run, float64(calls * scorePerCall)}
}

// scoreTerms is the sum over x, a multiple of 64 numbers, of a·LeakyReLU(x + y) with slope 0.2, so many times
// over.
func scoreTerms(x, y, a []float32, times int) float32 {
	return float32(C.probe_score(level, (*C.float)(&x[0]), (*C.float)(&y[0]), (*C.float)(&a[0]),
		C.int64_t(len(x)), C.int64_t(times)))
}
