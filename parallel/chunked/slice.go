package chunked

import "weft/parallel/tp"

// slicer returns a function that makes the aggregator of a chunk whose columns are sliced. total is that of
// its RowSet.
func (g *Graph) slicer() func(c *Chunk, total int) {
	costs := tp.NewCosts(g.env, g.options)
	return func(c *Chunk, total int) {
		chunk := tp.Chunk{Inner: c.part, Number: c.index, Total: total, Idle: c.idle, Costs: costs}
		if len(g.rows) == 1 {
			chunk.Whole = &g.share.Edges
		}
		c.aggregator = tp.OfChunk(g.env, chunk, g.options)
	}
}

// idle pauses where an aggregation of this slice's columns would: the slices of a chunk redistribute rows in
// the same order, also those without columns. The number of pauses makes no difference.
func (c *Chunk) idle() {
	if c.graph.phase == inference {
		c.pause()
	}
}
