package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// A product a·x reads a row of x for each entry of a. If x is larger than the caches and the entries of a row
// are far apart, each of these reads comes from memory. SpMM then divides x into tiles: a range of its rows
// (the sources) × a range of its columns. It copies a tile into scratch that fits the last-level cache, and
// reads the rows from there. A row's sum continues from tile to tile in the order of its entries. So the
// result has the same bits as without tiles.

// tileSizes says when x is tiled. Both are in bytes.
type tileSizes struct {
	from int // the smallest x that is tiled
	tile int // the largest tile
}

// usualTiles fit a last-level cache of 32 MB: a tile takes half of it. With a smaller cache tiles gain less.
var usualTiles = tileSizes{from: 64 << 20, tile: 16 << 20}

const (
	// tileColumns is the number of columns of a tile. With fewer columns there are more passes over the edges,
	// with more columns there are more ranges of sources.
	tileColumns = 64
	// fewestEntries is the smallest mean number of entries, of a row in a range of sources and of a source,
	// for which tiles are faster: each range reads and writes the row's sum again, and each source is copied.
	fewestEntries = 7
	// scatteredFraction is how many of the entries that one tile could serve must have different sources, as
	// a fraction. With fewer, the caches hold the rows without tiles.
	scatteredFraction = .85
)

// tileSources returns the number of sources in a tile, or 0 if x is not tiled. It depends on sizes alone: a
// plan, which does not know the entries, must reserve the same scratch as a run. With accumulate there must be
// one range of sources, because z cannot hold its old value and an unfinished sum at the same time, and so
// with a BFloat16 z, which cannot hold an unfinished sum.
func (t *Team) tileSources(a *CSR, columns int, x, z tensor.Element, accumulate bool) int {
	if t.Uncut || x.Size()*a.Cols*columns < t.sizes.from || columns < tileColumns {
		return 0
	}
	most := t.sizes.tile / x.Size() / tileColumns
	ranges := (a.Cols + most - 1) / most
	if a.Entries() < fewestEntries*max(a.Rows*ranges, a.Cols) || ranges > 1 && (accumulate || z == tensor.BFloat16) {
		return 0
	}
	return (a.Cols + ranges - 1) / ranges
}

// Tiles reports whether SpMM may tile an x with that many columns, for x and z of an element type. It depends on sizes alone, so a plan and a
// run agree. SpMMRows never tiles.
func (t *Team) Tiles(a *CSR, columns int, element tensor.Element) bool {
	return t.tileSources(a, columns, element, element, false) > 0
}

// scattered reports whether the entries seldom read the same row of x again soon. It samples stretches of
// entries, each as long as the number of whole rows of x that fit a tile, and counts the different sources.
// Where entries do read the same rows again, a cache already holds them.
func (t *Team) scattered(a *CSR, x *tensor.Matrix) bool {
	const stretches = 4
	indices, length := a.Indices.Int32s(), max(1, t.sizes.tile/x.Element.Size()/x.Cols)
	// seen has for each row of x the last stretch that read it, counted from 1.
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
	sources int            // of a tile
	packed  *tensor.Matrix // sources × tileColumns, of x's element type: the tile
	// ends (Int64, 1 × rows) has the position at which each row's entries end: one array for the current range
	// of sources, one for the range before it. Both are nil if there is one range.
	ends [2]*tensor.Matrix
}

// tiling allocates the scratch for a·x. It returns nil if x is not tiled. The scratch is charged to the Meter
// wherever sizes allow tiles. So a plan, which does not know the entries, has the same peak as a run.
func (t *Team) tiling(a *CSR, x *tensor.Matrix, z tensor.Element, accumulate bool) *tiling {
	sources := t.tileSources(a, x.Cols, x.Element, z, accumulate)
	if sources == 0 {
		return nil
	}
	ranges := sources < a.Cols
	scratch := []int{x.Element.Size() * sources * tileColumns}
	if ranges {
		scratch = append(scratch, 8*a.Rows, 8*a.Rows)
	}
	t.Memory.Reserve(scratch...)
	if t.plan || !t.scattered(a, x) {
		return nil
	}
	p := &tiling{team: t, sources: sources, packed: t.scratch(x.Element, sources, tileColumns)}
	if ranges {
		for k := range p.ends {
			p.ends[k] = t.scratch(tensor.Int64, 1, a.Rows)
		}
	}
	return p
}

// spmm computes the product that args describe, tile by tile.
func (p *tiling) spmm(args *C.weft_spmm_args, a *CSR, x *tensor.Matrix) {
	begins := a.Indptr
	for k := 0; k*p.sources < a.Cols; k++ {
		first, after := k*p.sources, min((k+1)*p.sources, a.Cols)
		tile, packed := *args, p.packed.RowRange(0, after-first)
		tile.x, tile.x_stride, tile.first = storage(packed), tileColumns, C.int64_t(first)
		tile.cut = boolean(p.sources < a.Cols)
		tile.edges.indptr, tile.extend = longs(begins), boolean(k > 0)
		if after < a.Cols {
			ends := p.ends[k%2]
			p.findEnds(ends, begins, a, after)
			tile.end, tile.row_scale, tile.self = longs(ends), nil, nil
			begins = ends
		}
		for from := 0; from < x.Cols; from += tileColumns {
			count := min(tileColumns, x.Cols-from)
			p.team.Columns(packed, 0, x.RowRange(first, after), from, count, Replace)
			tile.from, tile.cols = C.int64_t(from), C.int64_t(count)
			p.team.edges(on(C.weft_spmm, x), unsafe.Pointer(&tile), a, a.Hubs, count)
		}
	}
}

// findEnds writes into ends the position of each row's first entry with a source of at least column. It
// searches from begins on. Hubs have no entries here: spmmHubs computes their rows.
func (p *tiling) findEnds(ends, begins *tensor.Matrix, a *CSR, column int) {
	args := &C.weft_ends_args{end: longs(ends), begin: longs(begins), edges: a.c(), column: C.int32_t(column)}
	p.team.edges(on(C.weft_ends), unsafe.Pointer(args), a, a.Hubs, 1)
}

func (p *tiling) release() {
	p.packed.Release()
	for _, ends := range p.ends {
		ends.Release()
	}
}
