package sar

import (
	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

const (
	// tilesOfSum is the number of tiles of a large sum.
	tilesOfSum = 4
	// tileColumns divides the number of columns of a tile. So many BFloat16 fill a cache line.
	tileColumns = 32
	// tiledFrom is the number of elements, in a mean worker's sum, from which on the memory that tiles save
	// is worth their messages.
	tiledFrom = 1 << 20
)

// tile returns the number of columns of x that are aggregated at a time. It is the same on all workers.
//
// A sum over several blocks is Float32 until it is complete. A large sum that is stored as BFloat16 is
// therefore computed in tiles, some columns after the others, so that only a tile of it is ever Float32. The
// rows of a tile travel in messages of their own. The bytes are the same, and so are the bits of the sums.
func (p *propagator) tile(x *autograd.Var) int {
	o := &p.part.options
	columns := x.Cols()
	workers := p.part.comm.Size()
	switch {
	case x.Element() == tensor.Float32 || x.Tape().Storage == tensor.Float32:
		return columns
	case workers == 1 || p.part.from.Chunk || o.KeepHalo:
		return columns
	case p.part.env.Tile > 0:
		return p.part.env.Tile
	}
	return tileOf(p.part.vertices(p.along)/workers, columns)
}

// tileOf returns the number of columns of a tile of a sum, if a worker has rows rows on average. It is all
// columns if the sum is small.
func tileOf(rows, columns int) int {
	if rows*columns < tiledFrom {
		return columns
	}
	const divisor = tilesOfSum * tileColumns
	return (columns + divisor - 1) / divisor * tileColumns
}

// inTiles computes z from x, or adds to it, a tile of columns at a time. For each tile sum must compute a
// Float32 matrix, which into returns, from the tile's columns of x. inTiles then rounds it.
func (c *Call) inTiles(columns int, z, x *tensor.Matrix, to kernel.Output,
	sum func(x *tensor.Matrix, into func() *tensor.Matrix) *tensor.Matrix,
) {
	team := c.part.team
	c.columns = x.Cols
	for from := 0; from < x.Cols; from += columns {
		n := min(columns, x.Cols-from)
		some := team.Memory.NewElement(tensor.Buffers, x.Element, x.Rows, n)
		team.PickColumns(some, x, nil, from)
		c.column = from
		tile := sum(some, func() *tensor.Matrix { return team.Memory.New(tensor.Buffers, z.Rows, n) })
		some.Release()
		if to == kernel.Accumulate {
			team.Columns(tile, 0, z, from, n, kernel.Accumulate)
		}
		team.Narrow(tile)
		team.Columns(z, from, tile, 0, n, kernel.Replace)
		tile.Release()
	}
}
