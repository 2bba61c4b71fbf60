// Package chunked is the part of the pipeline axis (GNNPipe, arXiv 2308.10087) that knows the graph. It
// divides a stage's rows into chunks, which are processed one after the other. A chunk reads rows of other
// chunks from the history.
//
// A chunk is a sar.Partition of its own, whose remote rows are the rows of other chunks. The graph axis
// fetches remote rows over the network; here they come from the history. So every kind of aggregation is
// sar's. For chunk c, in the order of the epoch, each aggregation does this:
//
//  1. Store the rows of c.
//  2. Aggregate c's own rows and the rows of other chunks that c reads. Rows of an earlier chunk are this
//     epoch's. Rows of a later chunk are the last snapshot's.
//
// The backward pass takes the chunks in the reverse order:
//
//  1. Add to ∂L/∂x_c the gradients from chunks after c.
//  2. Add twice the gradients of rows that c reads to those of the chunks before c.
//  3. Drop the gradients of snapshot rows: these are constants.
//
// In a random order a chunk is before another half of the time. The factor 2 makes the gradient over one hop
// unbiased. With several partitions each has a replica of the stage. The replicas process their chunks of the
// same number at the same time, as one chunk. Before these aggregate, each replica sends the rows that the
// others' chunks read (mirrors).
//
// Reading order: history.go is this algorithm. structure.go says which chunk reads which rows.
package chunked

import (
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// Graph is a stage's part of a graph, in chunks.
type Graph struct {
	Chunks []*Chunk

	team      *kernel.Team
	replicas  *comm.Comm // the workers of the stage
	me        int        // this worker's rank among them
	share     *partition.Share
	options   Options
	rows      [][]int32 // rows of the share, by chunk
	place     []int32   // by row of the share: its position in its chunk
	whole     *autograd.RowSet
	made      map[gnn.Along]*structure
	kept      map[callKey]*history // of training, by aggregation
	inferring map[callKey]*history // of an inference, by aggregation, until the last chunk has read it
	phase     phase
	warm      bool  // an inference makes the snapshot
	order     []int // of the chunks in this epoch
}

// Options are the settings of the history.
type Options struct {
	// Chunks is the chunk of each vertex within its partition, 0 … Count−1, in the order of the partitions.
	// All partitions have equally many chunks, of which some may be empty.
	Chunks []int32
	Count  int
	// Period is the number of epochs between two snapshots, at least 1.
	Period int
	Stale  Stale
	// Aggregated is the same as in sar.Options.
	Aggregated func(module string, edgeColumns int64)
}

// phase is the current work of the chunks.
type phase uint8

const (
	forward phase = iota
	backward
	together // inference: all chunks compute a layer before any computes the next
)

// Chunk is a chunk of a stage's rows.
type Chunk struct {
	*sar.Partition
	// Places (Int32, 1 × rows) are its rows' numbers among those of the stage's partition, ascending.
	Places *tensor.Matrix

	graph *Graph
	index int
	pause func()
}

// New divides a share into chunks. All workers that g.Halo connects call it together.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, w order.Options, o Options) (*Graph, error) {
	c := &Graph{
		team: team, replicas: g.Halo, me: g.Halo.Rank(), share: s, options: o, rows: make([][]int32, o.Count),
		made: map[gnn.Along]*structure{}, kept: map[callKey]*history{}, inferring: map[callKey]*history{},
	}
	held, others := &s.Edges, exchange.PeersOf(g.Halo)
	c.whole = autograd.RowsOf(team, held.IDs, held.Rows, s.Whole.Own(), others)
	if o.Count > 1 {
		w.Choice = order.Embeddings
	}
	costs := order.NewCosts(w, nil)
	for row, k := range o.Chunks[held.Starts[held.P]:held.Starts[held.P+1]] {
		c.place = append(c.place, int32(len(c.rows[k])))
		c.rows[k] = append(c.rows[k], int32(row))
	}
	for k, list := range c.rows {
		chunk := &Chunk{Places: kernel.List(team, tensor.Graph, list), graph: c, index: k}
		ids := make([]int32, len(list))
		for i, row := range list {
			ids[i] = s.Values.ID(int(row))
		}
		total := autograd.NotVertices // a sum over all vertices would lack the other chunks
		if o.Count == 1 {
			total = s.Whole.Own()
		}
		chunk.Partition = sar.Of(team, g.Halo, sar.Source{
			Rows: autograd.RowsOf(team, ids, len(ids), total, others), Vertices: ids, Schema: sar.SchemaOf(s),
			Read: func(a gnn.Along) (*edges.Edges, error) {
				st, err := c.structure(a)
				if err != nil {
					return nil, err
				}
				return st.edges[k], nil
			},
			Exchanger: chunk,
		}, costs, sar.Options{Aggregated: o.Aggregated})
		c.Chunks = append(c.Chunks, chunk)
	}
	for _, r := range c.Schema().Relations {
		if _, err := c.structure(gnn.Along{Relation: r.Name}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Vertices are the original ids of all chunks' vertices, ascending. nil is all vertices of the graph.
func (g *Graph) Vertices() []int32 { return g.share.Edges.IDs }

// Rows is the set of all chunks' vertices.
func (g *Graph) Rows() *autograd.RowSet { return g.whole }

// Types is Rows alone: the pipeline axis takes graphs of one vertex type.
func (g *Graph) Types() []*autograd.RowSet { return []*autograd.RowSet{g.whole} }

// Schema is the schema of the graph.
func (g *Graph) Schema() gnn.Schema { return sar.SchemaOf(g.share) }

// Forward begins the forward pass of an epoch, with the chunks in the given order.
func (g *Graph) Forward(epoch int, order []int) {
	g.phase, g.order = forward, slices.Clone(order)
	for _, c := range g.Chunks {
		c.BeginEpoch(epoch)
	}
}

// Backward begins the backward pass, in the reverse order. A chunk may repeat its forward pass in it, which
// sends nothing.
func (g *Graph) Backward() { g.phase = backward }
