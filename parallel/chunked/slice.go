package chunked

import "weft/parallel/tp"

// slicer returns a function that makes the aggregator of a chunk whose columns are sliced. vertices are the
// vertices of its rows, and totals the sizes of its RowSets, by vertex type.
func (g *Graph) slicer() func(c *Chunk, vertices [][]int32, totals []int) {
	costs := tp.NewCosts(g.env, g.options)
	return func(c *Chunk, vertices [][]int32, totals []int) {
		chunk := tp.Chunk{
			Inner: c.part, Number: c.index, Vertices: vertices, Totals: totals, Idle: c.idle, Costs: costs,
		}
		if g.chunks.Count == 1 {
			chunk.Whole = &g.share.Edges
		}
		c.aggregator = tp.OfChunk(g.env, chunk, g.options)
	}
}

// idle pauses where an aggregation of this slice's columns would pause. The slices of a chunk redistribute
// rows in the same order, also slices without columns. The number of pauses makes no difference.
func (c *Chunk) idle() {
	if c.graph.phase == inference {
		c.pause()
	}
}
