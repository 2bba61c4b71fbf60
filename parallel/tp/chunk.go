package tp

import (
	"weft/parallel/axis"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
)

// Chunk describes one of the chunks of a stage of a pipeline.
type Chunk struct {
	Inner  *sar.Partition // aggregates a slice of the columns, for the chunk's rows
	Number int            // of the chunk
	// Vertices are the vertices of the rows, by vertex type.
	Vertices [][]int32
	Totals   []int // autograd.RowSet.Total of the rows, by vertex type
	// Idle is called in a forward pass in place of Inner's aggregation, if this worker has no columns.
	Idle func()
	// Costs is the cost table of all chunks of the worker, from NewCosts.
	Costs *order.Costs
	// Whole are the edges of the partition if the chunk has all its rows, and reads no rows of earlier
	// epochs. It is nil for one chunk of several.
	Whole *partition.PartEdges
}

// NewCosts returns the cost table of a worker whose columns are sliced, for all its chunks.
func NewCosts(e axis.Env, o axis.Options) *order.Costs {
	starts := e.Share.Edges.Types[0].Starts
	slices := e.Groups.Mesh.Slices
	wire := o.Wire.Format(e.Team.Storage)
	return e.Costs(&o, func(columns int) int64 {
		return 2 * redistributedBytes(e.Team, starts, slices, columns, wire)
	})
}

// OfChunk returns the Axis of one worker of Groups.Slices for a chunk. All workers of the stage call it for
// the same chunks. With one chunk the workers own the same rows as without stages.
func OfChunk(e axis.Env, c Chunk, o axis.Options) *Axis {
	g := e.Groups
	a := newAxis(e, c.Inner, o)
	for kind, rows := range c.Inner.Types() {
		lists := c.owners(rows.Here, g.Mesh.Slices)
		if c.Whole != nil {
			lists = ownersOf(c.Whole, kind, g.Mesh.Slices)
		}
		a.slice(g, lists, c.Vertices[kind], c.Totals[kind])
	}
	a.costs, a.idle, a.wholeHeads = c.Costs, c.Idle, c.Whole == nil
	return a
}

// owners returns which of the rows each worker owns: consecutive rows, equally many up to one. The worker
// that begins differs from chunk to chunk, so that the remainders of all chunks spread.
func (c *Chunk) owners(rows, workers int) [][]int32 {
	lists := make([][]int32, workers)
	for i, s := range even(rows, workers) {
		list := make([]int32, s.count)
		for k := range list {
			list[k] = int32(s.from + k)
		}
		lists[(i+c.Number)%workers] = list
	}
	return lists
}
