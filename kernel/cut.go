package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// A product a·x reads a row of x for each entry of a. If x is larger than the caches, and the columns of a
// row's entries are far apart, each of these reads comes from memory. SpMM then divides x into tiles: a range
// of its rows (the sources) × a range of its columns. It copies a tile into scratch that fits the last-level
// cache, and reads the rows from there. A row's sum continues from tile to tile in the order of its entries.
// So the result has the same bits as without tiles. A BFloat16 z cannot hold a sum that continues. SpMM then
// takes some rows of z at a time, as many as have Float32 sums in the size of a tile, and copies the tiles of
// x again for each of these groups.

// tileSizes says when x is tiled. Both are in bytes.
type tileSizes struct {
	from int // the smallest x that is tiled
	tile int // the largest tile
}

// TiledFrom is the number of bytes of the smallest matrix that is tiled.
const TiledFrom = 64 << 20

// usualTiles are for a last-level cache of 32 MB, of which a tile takes half. With a smaller cache tiles gain
// less.
var usualTiles = tileSizes{from: TiledFrom, tile: 16 << 20}

const (
	// tileColumns is the number of columns of a tile. Fewer columns mean more passes over the edges, and more
	// columns mean more ranges of sources.
	tileColumns = 64
	// fewestEntries is the smallest mean number of entries for which tiles are faster: of a row in a range of
	// sources, because each range reads and writes the row's sum again, and of a source, because each is
	// copied.
	fewestEntries = 7
	// scatteredFraction is the least fraction of different sources among the entries that one tile could
	// serve. With fewer, the caches hold the rows without tiles.
	scatteredFraction = .85
)

// tileSources returns the number of sources in a tile, or 0 if x is not tiled. It depends on sizes alone: a
// plan, which does not know the entries, must reserve the same scratch as a run. With accumulate a Float32 z
// must have one range of sources, because it cannot hold its old value and an unfinished sum at the same
// time.
func (t *Team) tileSources(a *CSR, columns int, x, z tensor.Element, accumulate bool) int {
	if t.Untiled || t.Memory.OnDevice() || x.Size()*a.Cols*columns < t.sizes.from || columns < tileColumns {
		return 0
	}
	most := t.sizes.tile / x.Size() / tileColumns
	ranges := (a.Cols + most - 1) / most
	copies := 1
	if ranges > 1 && z == tensor.BFloat16 {
		copies = (a.Rows + t.sumRows() - 1) / t.sumRows()
	}
	if a.Entries() < fewestEntries*max(a.Rows*ranges, a.Cols*copies) ||
		accumulate && ranges > 1 && z == tensor.Float32 {
		return 0
	}
	return (a.Cols + ranges - 1) / ranges
}

// sumRows returns the number of rows of z whose sums are in scratch at a time.
func (t *Team) sumRows() int { return max(1, t.sizes.tile/4/tileColumns) }

// Tiles reports whether SpMM may tile an x with that many columns, for x and z of an element type. It
// depends on sizes alone, so a plan and a run agree. SpMMRows never tiles.
func (t *Team) Tiles(a *CSR, columns int, element tensor.Element) bool {
	return t.tileSources(a, columns, element, element, false) > 0
}

// scattered reports whether the entries seldom read the same row of x again soon. It samples stretches of
// entries, each as long as the number of whole rows of x that fit a tile, and counts the different sources.
// If entries read the same rows again soon, a cache already holds them.
func (t *Team) scattered(a *CSR, x *tensor.Matrix) bool {
	const stretches = 4
	indices, length := a.Indices.ReadInt32s(), max(1, t.sizes.tile/x.Element.Size()/x.Cols)
	// seen has, for each row of x, the last stretch that read it, counted from 1.
	seen, sampled, different := make([]uint8, a.Cols), 0, 0
	for k := range stretches {
		begin, end := len(indices)*k/stretches, len(indices)*(k+1)/stretches
		for _, c := range indices[begin:min(end, begin+length)] {
			sampled++
			if seen[c] <= uint8(k) {
				seen[c] = uint8(k) + 1
				different++
			}
		}
	}
	return float64(different) >= scatteredFraction*float64(sampled)
}

// tiling is the scratch of a product with tiles.
type tiling struct {
	team    *Team
	sources int            // number of sources of a tile
	packed  *tensor.Matrix // the tile: sources × tileColumns, of x's element type
	// ends (Int64, 1 × rows) has the position at which each row's entries end. One array is for the current
	// range of sources, and one for the range before. Both are nil if there is one range.
	ends [2]*tensor.Matrix
	// sums (Float32, rows × tileColumns) has the sums of some rows between two ranges; nil: z holds them.
	sums *tensor.Matrix
}

// tiling allocates the scratch for a·x. It returns nil if x is not tiled. The scratch is charged to the Meter
// whenever sizes allow tiles. So a plan, which does not know the entries, has the same peak as a run.
func (t *Team) tiling(a *CSR, x *tensor.Matrix, z tensor.Element, accumulate bool) *tiling {
	sources := t.tileSources(a, x.Cols, x.Element, z, accumulate)
	if sources == 0 {
		return nil
	}
	ranges := sources < a.Cols
	scratch := []int{x.Element.Size() * sources * tileColumns}
	sumRows := 0
	if ranges {
		scratch = append(scratch, 8*a.Rows, 8*a.Rows)
		if z == tensor.BFloat16 {
			sumRows = min(t.sumRows(), a.Rows)
			scratch = append(scratch, 4*sumRows*tileColumns)
		}
	}
	t.Memory.Reserve(scratch...)
	scattered := false
	t.Serial(func() { scattered = t.scattered(a, x) })
	if !scattered {
		return nil
	}
	p := &tiling{team: t, sources: sources, packed: t.scratch(x.Element, sources, tileColumns)}
	if ranges {
		for k := range p.ends {
			p.ends[k] = t.scratch(tensor.Int64, 1, a.Rows)
		}
	}
	if sumRows > 0 {
		p.sums = t.scratch(tensor.Float32, sumRows, tileColumns)
	}
	return p
}

// spmm computes the product that args describe, tile by tile. Sums continue from range to range of the
// sources, in z for all rows and columns at once, or in p.sums for as many rows and columns as it has.
func (p *tiling) spmm(args *C.weft_spmm_args, a *CSR, x *tensor.Matrix) {
	rows, columns := a.Rows, x.Cols
	if p.sums != nil {
		rows, columns = p.sums.Rows, p.sums.Cols
	}
	for lo := 0; lo < a.Rows; lo += rows {
		hi := min(lo+rows, a.Rows)
		for first := 0; first < x.Cols; first += columns {
			begins := a.Indptr
			for k := 0; k*p.sources < a.Cols; k++ {
				tile := p.tile(args, a, k, begins, lo, hi)
				for from := first; from < min(first+columns, x.Cols); from += tileColumns {
					p.multiply(&tile, a, x, from, lo, hi)
				}
				begins = p.ends[k%2]
			}
		}
	}
}

// tile returns the arguments for range k of the sources and rows lo…hi−1. begins has the positions at which
// the rows' entries in the range begin.
func (p *tiling) tile(args *C.weft_spmm_args, a *CSR, k int, begins *tensor.Matrix, lo,
	hi int,
) C.weft_spmm_args {
	tile := *args
	tile.first, tile.cut = C.int64_t(k*p.sources), boolean(p.sources < a.Cols)
	tile.edges.indptr, tile.extend = longs(begins), boolean(k > 0)
	if p.sums != nil {
		tile.sums, tile.first_sum, tile.sums_stride = floats(p.sums), C.int64_t(lo), tileColumns
	}
	if after := (k + 1) * p.sources; after < a.Cols {
		ends := p.ends[k%2]
		p.findEnds(ends, begins, a, after, lo, hi)
		tile.end, tile.row_scale, tile.self = longs(ends), nil, nil
		if p.sums != nil {
			tile.unfinished, tile.accumulate = 1, 0
		}
	}
	return tile
}

// multiply copies a tile of x, whose columns begin at from, and runs the kernel on it for rows lo…hi−1.
func (p *tiling) multiply(tile *C.weft_spmm_args, a *CSR, x *tensor.Matrix, from, lo, hi int) {
	first := int(tile.first)
	after, count := min(first+p.sources, a.Cols), min(tileColumns, x.Cols-from)
	packed := p.packed.RowRange(0, after-first)
	p.team.Columns(packed, 0, x.RowRange(first, after), from, count, Replace)
	tile.x, tile.x_stride, tile.from, tile.cols = storage(packed), tileColumns,
		C.int64_t(from), C.int64_t(count)
	p.team.edgesOf(p.routine(tile, a, x, lo, hi), unsafe.Pointer(tile), a, lo, hi, count)
}

// routine returns the kernel for rows lo…hi−1 and a tile. Its bytes count an equal part of the rows' entries
// for each tile of these columns.
func (p *tiling) routine(tile *C.weft_spmm_args, a *CSR, x *tensor.Matrix, lo, hi int) routine {
	r, columns, ranges := on(C.weft_spmm, x), int(tile.cols), (a.Cols+p.sources-1)/p.sources
	entries := a.entriesOf(lo, hi)
	r.bytes.Gathered = entries * columns * x.Element.Size() / ranges
	r.bytes.Streamed = (hi-lo)*(columns*4+8) + entries*4/ranges
	if tile.extend != 0 || tile.accumulate != 0 {
		r.bytes.Streamed += (hi - lo) * columns * 4
	}
	return r
}

// findEnds sets ends, for rows lo…hi−1, to the position of the first entry with a source of at least column.
// It searches from begins on. Rows that are cut have no entries here: spmmSegments computes them.
func (p *tiling) findEnds(ends, begins *tensor.Matrix, a *CSR, column, lo, hi int) {
	args := &C.weft_ends_args{end: longs(ends), begin: longs(begins), edges: a.c(), column: C.int32_t(column)}
	p.team.edgesOf(on(C.weft_ends).streams(ends, begins), unsafe.Pointer(args), a, lo, hi, 1)
}

func (p *tiling) release() {
	p.packed.Release()
	for _, ends := range p.ends {
		ends.Release()
	}
	p.sums.Release()
}
