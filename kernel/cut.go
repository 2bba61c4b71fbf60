package kernel

// #include "weft.h"
import "C"

import (
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"weft/tensor"
)

// An aggregation gathers each row of x about as often as a source has edges, and from memory where no cache holds x. Where that is
// most of its bytes the matrix is cut: into blocks of sources, and the columns into slices, so that the columns of a slice in the rows
// of a block are packed into a piece that a cache does hold, and are gathered from there. A row's sum goes on from block to block in the
// order of its entries: its bits are those of a matrix that is not cut.

// pieceSize is the columns of a slice and the sources of a block; no columns where a matrix is not cut.
type pieceSize struct{ columns, sources int }

// Costs, in bytes from memory: of a byte of a piece, and of the end of a row, which a processor does not foresee. They are fitted to the uniform
// shapes of `weft bench kernels` on one and two threads of a Zen 5 with 32 MB of last-level cache, between what either would choose alone.
const (
	cachedByte = .4
	rowsEnd    = 300
)

// worthwhile is the part of the cost without a cut that one with it stays below.
const worthwhile = .9

// LastLevelCache is the bytes of the largest cache of this computer's first CPU, and how many CPUs share it: none where the system does
// not tell.
var LastLevelCache = sync.OnceValues(func() (size, cpus int) {
	const folders = "/sys/devices/system/cpu/cpu0/cache/index*"
	sizes, _ := filepath.Glob(folders + "/size") // an error is a bad pattern
	for _, file := range sizes {
		text, _ := os.ReadFile(file) // without a number it is no cache
		kilobytes, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(string(text)), "K"))
		if kilobytes<<10 <= size {
			continue
		}
		size, cpus = kilobytes<<10, 0
		shared, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "shared_cpu_map"))
		for _, digit := range string(shared) {
			mask, _ := strconv.ParseUint(string(digit), 16, 4) // not of commas
			cpus += bits.OnesCount64(mask)
		}
	}
	return size, max(1, cpus)
})

// cacheShare is how many bytes of the last-level cache a team of so many threads may count on: as much as its threads are of the CPUs
// that share it, but for the half that passes through.
func cacheShare(threads int) int {
	size, cpus := LastLevelCache()
	return min(size/2, size*threads/cpus)
}

// pieceSize is how a times x, of so many columns, is best cut, if that could pay. Sizes alone decide, so that a plan takes the same scratch.
// A sum that is added to z is not taken up again: z cannot hold both what it held and an unfinished sum.
func (t *Team) pieceSize(a *CSR, columns int, accumulate bool) (best pieceSize) {
	if 4*a.Cols*columns < 2*t.cache {
		return best
	}
	for slice := 32; slice <= min(columns, 128); slice *= 2 {
		most := t.cache / 4 / slice
		if most == 0 || accumulate && most < a.Cols {
			continue
		}
		blocks := (a.Cols + most - 1) / most
		size := pieceSize{slice, (a.Cols + blocks - 1) / blocks}
		if best.columns == 0 || size.cost(a, columns) < best.cost(a, columns) {
			best = size
		}
	}
	if best.columns > 0 && best.cost(a, columns) >= worthwhile*a.wholeCost(columns, 1) {
		return pieceSize{}
	}
	return best
}

// cost is that of a times x in pieces: to pack them, to gather and read the edges for each slice, and to write z in slices and take its sums
// up again for each block. What z costs where a is not cut is left out, as in wholeCost.
func (s pieceSize) cost(a *CSR, columns int) float64 {
	row, slices, blocks := float64(4*columns), float64((columns+s.columns-1)/s.columns), float64((a.Cols+s.sources-1)/s.sources)
	pack := 2 * row
	edge := 4*slices + row*cachedByte
	sum := row*(2*blocks-1) + rowsEnd*blocks*slices
	return float64(a.Cols)*pack + float64(a.Entries())*edge + float64(a.Rows)*sum
}

// wholeCost is that of a times x where a is not cut, of whose gathers so many are not in the cache.
func (a *CSR) wholeCost(columns int, missing float64) float64 {
	row := float64(4 * columns)
	return float64(a.Entries()) * (4 + row*(missing+(1-missing)*cachedByte))
}

// pieces is what an aggregation over a matrix that is cut works with.
type pieces struct {
	pieceSize
	team   *Team
	packed *tensor.Matrix    // sources × columns
	ends   [2]*tensor.Matrix // Int64, 1 × rows: where the entries of a block end, and those of the one before; nil where there is one block
}

// pieces takes scratch for a times x if that may be cut; nil where it is not.
func (t *Team) pieces(a *CSR, columns int, accumulate bool) *pieces {
	size := t.pieceSize(a, columns, accumulate)
	if size.columns == 0 {
		return nil
	}
	p := &pieces{pieceSize: size, team: t, packed: t.scratch(tensor.Float32, size.sources, size.columns)}
	if size.sources < a.Cols {
		for k := range p.ends {
			p.ends[k] = t.scratch(tensor.Int64, 1, a.Rows)
		}
	}
	return p
}

// pay reports whether pieces save time.
func (p *pieces) pay(a *CSR, columns int) bool {
	if p == nil || p.team.plan {
		return false
	}
	return p.cost(a, columns) < worthwhile*a.wholeCost(columns, a.reuse.missing(p.team.cache/(4*columns)))
}

// spmm does what args describe, piece by piece.
func (p *pieces) spmm(args *C.weft_spmm_args, a *CSR, x *tensor.Matrix) {
	at := func(m *C.float, column int) *C.float { return (*C.float)(unsafe.Add(unsafe.Pointer(m), 4*column)) }
	begins := a.Indptr
	for block := 0; block*p.sources < a.Cols; block++ {
		first, after := block*p.sources, min((block+1)*p.sources, a.Cols)
		piece, packed := *args, p.packed.RowRange(0, after-first)
		piece.x, piece.x_stride, piece.first, piece.last = floats(packed), C.int64_t(p.columns), C.int64_t(first), C.int64_t(after-1)
		piece.edges.indptr, piece.extend = longs(begins), boolean(block > 0)
		if after < a.Cols {
			ends := p.ends[block%2]
			p.findEnds(ends, begins, a, after)
			piece.end, piece.row_scale, piece.self = longs(ends), nil, nil
			begins = ends
		}
		for from := 0; from < x.Cols; from += p.columns {
			count := min(p.columns, x.Cols-from)
			p.team.Columns(packed, 0, x.RowRange(first, after), from, count, false)
			piece.z, piece.own, piece.cols = at(args.z, from), at(args.own, from), C.int64_t(count)
			p.team.edges(C.weft_spmm, unsafe.Pointer(&piece), a, a.Hubs, count)
		}
	}
}

// findEnds finds where each row's entries before a column end, from where they begin; hubs, whose rows are taken apart elsewhere, have none.
func (p *pieces) findEnds(ends, begins *tensor.Matrix, a *CSR, column int) {
	p.team.Parallel(tiles(a.Rows), func(k int) {
		indptr, indices, from, to := a.Indptr.Int64s(), a.Indices.Int32s(), begins.Int64s(), ends.Int64s()
		for row := k * C.WEFT_TILE; row < min((k+1)*C.WEFT_TILE, a.Rows); row++ {
			to[row] = from[row]
			if len(a.Hubs) == 0 || indptr[row+1]-indptr[row] <= hubEntries {
				n, _ := slices.BinarySearch(indices[from[row]:indptr[row+1]], int32(column))
				to[row] += int64(n)
			}
		}
	})
}

func (p *pieces) release() {
	if p == nil {
		return
	}
	p.packed.Release()
	for _, ends := range p.ends {
		ends.Release()
	}
}

// reuse is how soon gathers come back to a row: of those between the one that sees the 2^k-th different row and the one that sees the
// 2^(k+1)-th, how many there are, and how many that see a row for the first time.
type reuse struct{ gathers, first [32]int }

// missing is about the part of gathers that a cache of so many rows does not hold (Denning 1968: the working set's rate of growth).
func (r *reuse) missing(rows int) float64 {
	k := bits.Len(uint(rows))
	if k == 0 {
		return 1
	}
	if r.gathers[k-1] == 0 {
		return 0
	}
	return float64(r.first[k-1]) / float64(r.gathers[k-1])
}

// Stretches of the entries are looked at, each from nothing: so many, which begin in equal distances, and at most so long.
const (
	reuseWindows = 4
	reuseLongest = 1 << 24
)

// measureReuse looks at the entries in their order.
func measureReuse(indices []int32, columns int) (r reuse) {
	seen := make([]uint8, columns)
	for w := range reuseWindows {
		different := 0
		begin, end := len(indices)*w/reuseWindows, len(indices)*(w+1)/reuseWindows
		for _, c := range indices[begin:min(end, begin+reuseLongest)] {
			if k := bits.Len(uint(different)); k > 0 {
				r.gathers[k-1]++
				if seen[c] <= uint8(w) {
					r.first[k-1]++
				}
			}
			if seen[c] <= uint8(w) {
				seen[c] = uint8(w) + 1
				different++
			}
		}
	}
	return r
}
