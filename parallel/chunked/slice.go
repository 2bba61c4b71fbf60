package chunked

import (
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/parallel/tp"
)

// slicer returns a function that makes the axis of a chunk whose columns are sliced. total is that of its
// RowSet.
func (g *Graph) slicer(of mesh.Groups, w order.Options) func(c *Chunk, total int) {
	costs := tp.NewCosts(g.team, of, g.share.Edges.Starts, w, g.options.Wire)
	o := tp.Options{Options: sar.Options{Wire: g.options.Wire}, Redistributed: g.options.Redistributed}
	return func(c *Chunk, total int) {
		chunk := tp.Chunk{Inner: c.part, Number: c.index, Total: total, Idle: c.idle, Costs: costs}
		if len(g.rows) == 1 {
			chunk.Whole = &g.share.Edges
		}
		c.axis = tp.OfChunk(g.team, of, chunk, o)
	}
}

// idle pauses where an aggregation of this slice's columns would: the slices of a chunk redistribute rows in
// the same order, also those without columns. The number of pauses makes no difference.
func (c *Chunk) idle() {
	if c.graph.phase == inference {
		c.pause()
	}
}
