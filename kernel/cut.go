package kernel

// #include "weft.h"
import "C"

import (
	"math/bits"
	"unsafe"

	"weft/tensor"
)

// An aggregation gathers each row of x about as often as a source has edges, and slowly where no fast cache
// holds x. Where that is most of its time the matrix is cut: into blocks of sources, and the columns into
// slices, so that the columns of a slice in the rows of a block are packed into a piece that a faster cache
// does hold, and are gathered from there. A row's sum goes on from block to block in the order of its
// entries: its bits are those of a matrix that is not cut.

// cutLimits are the sizes, in bytes, that sums are cut by.
type cutLimits struct {
	from        int // of the least x that is cut
	least, most int // of a piece, powers of two
}

var usualCutLimits = cutLimits{from: 16 << 20, least: 1 << smallestRegion, most: 32 << 20}

// fewestGathers of each source, on average, are needed for packing it to pay.
const fewestGathers = 4

// rowEnd is what the end of a row costs in a block's slice, in bytes read from front to back: the processor
// does not foresee it, and waits for z. It was found on two processors whose memories differ by a factor of
// three.
const rowEnd = 1000

// worthwhile is the part of the time without a cut that one with it stays below.
const worthwhile = .9

// mostPiece is the bytes of the largest piece that a times x may be cut into; 0 where it is not cut. Sizes
// alone decide, as what scratch counts depends on it, in a plan and in a run. A sum that is added to z is not
// taken up again, as z cannot hold both what it held and an unfinished sum: the piece has all sources then.
func (t *Team) mostPiece(a *CSR, columns int, accumulate bool) int {
	bytes, most := 4*a.Cols*columns, t.cut.most
	for most > bytes/4 {
		most /= 2
	}
	if t.Uncut || bytes < t.cut.from || most < t.cut.least || a.Entries() < fewestGathers*a.Cols || columns < sliceColumns[0] ||
		accumulate && most < 4*a.Cols*sliceColumns[0] {
		return 0
	}
	return most
}

// pieceSize is the columns of a slice and the sources of a block; no columns where a matrix is not cut.
type pieceSize struct{ columns, sources int }

// pieceSize is how a times x is best cut, into pieces of so many bytes at most.
func (t *Team) pieceSize(a *CSR, x *tensor.Matrix, accumulate bool, most int) (best pieceSize) {
	if a.reuse == nil {
		a.reuse = measureReuse(a.Indices.Int32s(), a.Cols)
	}
	c := t.costsOf(x)
	least := worthwhile * c.whole(a, x.Cols)
	for bytes := t.cut.least; bytes <= most; bytes *= 2 {
		for _, columns := range sliceColumns {
			sources := bytes / 4 / columns
			if columns > x.Cols || accumulate && sources < a.Cols {
				continue
			}
			blocks := (a.Cols + sources - 1) / sources
			size := pieceSize{columns, (a.Cols + blocks - 1) / blocks}
			if cost := c.inPieces(a, x.Cols, size); cost < least {
				best, least = size, cost
			}
		}
	}
	return best
}

// inPieces is the seconds of a times x in pieces: to pack them, to gather and read the edges for each slice,
// and to write z in slices and take its sums up again for each block. What z costs where a is not cut is left
// out, as in whole.
func (c *memoryCosts) inPieces(a *CSR, columns int, s pieceSize) float64 {
	row, slices, blocks := float64(4*columns), float64((columns+s.columns-1)/s.columns), float64((a.Cols+s.sources-1)/s.sources)
	stream := c.stream(4 * a.Cols * columns)
	pack := 2 * row * stream
	edge := 4*slices*stream + row*c.gather(4*s.sources*s.columns, s.columns)
	sum := (row*(2*blocks-1) + rowEnd*blocks*slices) * stream
	return float64(a.Cols)*pack + float64(a.Entries())*edge + float64(a.Rows)*sum
}

// whole is the seconds of a times x where a is not cut.
func (c *memoryCosts) whole(a *CSR, columns int) float64 {
	row, before := 4*columns, 1.0 // the part of gathers that a smaller cache does not hold
	gather := 0.0
	for rows := 1; rows < a.Cols; rows *= 2 {
		missing := min(before, a.reuse.missing(rows))
		gather += (before - missing) * c.again(min(2*rows, a.Cols)*row, columns)
		before = missing
	}
	gather += before * c.again(a.Cols*row, columns)
	return float64(a.Entries()) * (4*c.stream(a.Cols*row) + float64(row)*gather)
}

// pieces is what an aggregation over a matrix that is cut works with.
type pieces struct {
	pieceSize
	team   *Team
	packed *tensor.Matrix    // sources × columns
	ends   [2]*tensor.Matrix // Int64, 1 × rows: where the entries of a block end, and those of the one before; nil where there is one block
}

// pieces takes scratch for a times x if that is cut; nil where it is not. As much as any cut takes counts
// wherever sizes allow one, so that a plan and a run come to the same peak.
func (t *Team) pieces(a *CSR, x *tensor.Matrix, accumulate bool) *pieces {
	most := t.mostPiece(a, x.Cols, accumulate)
	if most == 0 {
		return nil
	}
	scratch := []int{most}
	if !accumulate {
		scratch = append(scratch, 8*a.Rows, 8*a.Rows)
	}
	t.Memory.Reserve(scratch...)
	if t.plan {
		return nil
	}
	size := t.pieceSize(a, x, accumulate, most)
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

// spmm does what args describe, piece by piece.
func (p *pieces) spmm(args *C.weft_spmm_args, a *CSR, x *tensor.Matrix) {
	at := func(m *C.float, column int) *C.float { return (*C.float)(unsafe.Add(unsafe.Pointer(m), 4*column)) }
	begins := a.Indptr
	for block := 0; block*p.sources < a.Cols; block++ {
		first, after := block*p.sources, min((block+1)*p.sources, a.Cols)
		piece, packed := *args, p.packed.RowRange(0, after-first)
		piece.x, piece.x_stride, piece.first, piece.cut = floats(packed), C.int64_t(p.columns), C.int64_t(first), boolean(p.sources < a.Cols)
		piece.edges.indptr, piece.extend = longs(begins), boolean(block > 0)
		if after < a.Cols {
			ends := p.ends[block%2]
			p.findEnds(ends, begins, a, after)
			piece.end, piece.row_scale, piece.self = longs(ends), nil, nil
			begins = ends
		}
		for from := 0; from < x.Cols; from += p.columns {
			count := min(p.columns, x.Cols-from)
			p.team.Columns(packed, 0, x.RowRange(first, after), from, count, Replace)
			piece.z, piece.own, piece.cols = at(args.z, from), at(args.own, from), C.int64_t(count)
			p.team.edges(C.weft_spmm, unsafe.Pointer(&piece), a, a.Hubs, count)
		}
	}
}

// findEnds finds where each row's entries before a column end, from where they begin; hubs, whose rows are
// taken apart elsewhere, have none.
func (p *pieces) findEnds(ends, begins *tensor.Matrix, a *CSR, column int) {
	args := &C.weft_ends_args{end: longs(ends), begin: longs(begins), edges: a.c(), column: C.int32_t(column)}
	p.team.edges(C.weft_ends, unsafe.Pointer(args), a, a.Hubs, 1)
}

func (p *pieces) release() {
	p.packed.Release()
	for _, ends := range p.ends {
		ends.Release()
	}
}

// reuse is how soon gathers come back to a row: of those between the one that sees the 2^k-th different row
// and the one that sees the 2^(k+1)-th, how many there are, and how many that see a row for the first time.
type reuse struct{ gathers, first [32]int }

// missing is about the part of gathers that a cache of so many rows does not hold (Denning 1968: the working
// set's rate of growth).
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

// Stretches of the entries are looked at, each from nothing: so many, which begin in equal distances, and at
// most so long.
const (
	reuseWindows = 4
	reuseLongest = 1 << 24
)

// measureReuse looks at the entries in their order.
func measureReuse(indices []int32, columns int) *reuse {
	var r reuse
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
	return &r
}
