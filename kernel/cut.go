package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// An aggregation gathers each row of x about as often as a source has edges. Where x is large and its rows
// are needed from all over it, each of them comes from memory. Such an x is cut: into blocks of sources, and
// its columns into slices. The columns of a slice in the rows of a block are packed into a piece that a
// last-level cache holds, and are gathered from there. A row's sum goes on from block to block in the order
// of its entries, so that its bits are those of a matrix that is not cut.

// cutSizes are what sums are cut by, in bytes.
type cutSizes struct {
	from  int // of the least x that is cut
	piece int // of a piece
}

// A last-level cache of 32 MB holds a piece of half its size beside what else a sum reads. Where it is
// smaller, pieces of 16 MB gain less.
var usualCut = cutSizes{from: 64 << 20, piece: 16 << 20}

const (
	// sliceColumns are the columns of a slice. Narrower ones take more passes over the edges, and wider ones
	// more blocks.
	sliceColumns = 64
	// fewestEntries, on average, are those of a row in each block where taking its sum up again pays, and
	// those of a source where packing it pays.
	fewestEntries = 7
	// scatteredPart of the gathers that a piece could serve at once are of different rows where these lie all
	// over x.
	scatteredPart = .85
)

// blockSources is the sources of a block of a times x, 0 where that is not cut. Sizes alone decide, as
// scratch depends on it, in a plan and in a run. A sum that is added to z is not taken up again, as z cannot
// hold both what it held and an unfinished sum: there is one block then.
func (t *Team) blockSources(a *CSR, columns int, accumulate bool) int {
	if t.Uncut || 4*a.Cols*columns < t.cut.from || columns < sliceColumns {
		return 0
	}
	most := t.cut.piece / 4 / sliceColumns
	blocks := (a.Cols + most - 1) / most
	if a.Entries() < fewestEntries*max(a.Rows*blocks, a.Cols) || accumulate && blocks > 1 {
		return 0
	}
	return (a.Cols + blocks - 1) / blocks
}

// Cuts reports whether sizes let SpMM gather an x of so many columns piece by piece, as SpMMRows never does: in
// a plan as in a run.
func (t *Team) Cuts(a *CSR, columns int) bool { return t.blockSources(a, columns, false) > 0 }

// scattered reports whether gathers seldom come back to a row soon: in stretches of as many entries as a
// piece holds whole rows of x, most are of different rows. Where they do come back, a cache holds the row
// already.
func (t *Team) scattered(a *CSR, columns int) bool {
	const stretches = 4
	indices, length := a.Indices.Int32s(), max(1, t.cut.piece/4/columns)
	// Seen: the last stretch that had the row, counted from 1
	seen, looked, different := make([]uint8, a.Cols), 0, 0
	for k := range stretches {
		begin, end := len(indices)*k/stretches, len(indices)*(k+1)/stretches
		for _, c := range indices[begin:min(end, begin+length)] {
			looked++
			if seen[c] <= uint8(k) {
				seen[c] = uint8(k) + 1
				different++
			}
		}
	}
	return float64(different) >= scatteredPart*float64(looked)
}

// pieces is what an aggregation over a matrix that is cut works with.
type pieces struct {
	team    *Team
	sources int            // of a block
	packed  *tensor.Matrix // sources × sliceColumns
	// ends (Int64, 1 × rows) are where the entries of a block end, and those of the one before; nil where
	// there is one block.
	ends [2]*tensor.Matrix
}

// pieces takes scratch for a times x if that is cut; nil where it is not. The scratch counts wherever sizes
// allow a cut, so that a plan, which does not know the entries, and a run come to the same peak.
func (t *Team) pieces(a *CSR, x *tensor.Matrix, accumulate bool) *pieces {
	sources := t.blockSources(a, x.Cols, accumulate)
	if sources == 0 {
		return nil
	}
	blocks := sources < a.Cols
	scratch := []int{4 * sources * sliceColumns}
	if blocks {
		scratch = append(scratch, 8*a.Rows, 8*a.Rows)
	}
	t.Memory.Reserve(scratch...)
	if t.plan || !t.scattered(a, x.Cols) {
		return nil
	}
	p := &pieces{team: t, sources: sources, packed: t.scratch(tensor.Float32, sources, sliceColumns)}
	if blocks {
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
		piece.x, piece.x_stride, piece.first = floats(packed), sliceColumns, C.int64_t(first)
		piece.cut = boolean(p.sources < a.Cols)
		piece.edges.indptr, piece.extend = longs(begins), boolean(block > 0)
		if after < a.Cols {
			ends := p.ends[block%2]
			p.findEnds(ends, begins, a, after)
			piece.end, piece.row_scale, piece.self = longs(ends), nil, nil
			begins = ends
		}
		for from := 0; from < x.Cols; from += sliceColumns {
			count := min(sliceColumns, x.Cols-from)
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
