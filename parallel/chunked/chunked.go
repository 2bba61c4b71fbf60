// Package chunked is the part of the pipeline axis (GNNPipe, arXiv 2308.10087) that knows the graph: a
// stage's rows in chunks that are worked on one after the other, and the history by which a chunk reads the
// rows of the others.
//
// A chunk is a sar.Partition of its own, whose remote rows are those of the other chunks. What the graph axis
// fetches over the wire comes from the history here, so that every kind of aggregation is sar's. At each
// aggregation, for chunk c in the order of the epoch:
//
//	keep the rows of c;  aggregate c's own rows, and of the others' those that c reads:
//	those of a chunk that came before as they are in this epoch, those of one that comes later as they were
//	in the last snapshot
//
// and in the backward pass, which goes through the chunks in the reverse order:
//
//	add to ∂L/∂x_c what chunks after c returned;  return to each before c twice the gradient of its rows;
//	drop that of rows of the snapshot, which are constants
//
// In a random order a chunk comes before another half of the time, so that twice makes the gradient of one
// hop unbiased. With several partitions each has a replica of the stage. The chunks of one number are worked
// on at the same time and count as one: before they aggregate, the replicas tell each other the rows that any
// chunk of the others reads (mirrors).
//
// Reading: history.go is this algorithm; structure.go says who reads which rows.
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

	team     *kernel.Team
	replicas *comm.Comm // the workers of the stage
	me       int        // this one among them
	share    *partition.Share
	options  Options
	rows     [][]int32 // of the share, by chunk
	place    []int32   // of each row of the share in its chunk
	whole    *autograd.RowSet
	made     map[gnn.Along]*structure
	kept     map[call]*history // by the training passes' calls
	passing  map[call]*history // by the calls of an inference, until the last chunk has read them
	phase    phase
	warm     bool  // the inference makes a snapshot
	order    []int // of the chunks in this epoch
}

// Options are the settings of the history.
type Options struct {
	// Chunks is for each vertex, in the order of the partitions, the chunk of its partition that it belongs
	// to, 0 … Count−1. Partitions have as many chunks, of which some may have no vertex.
	Chunks []int32
	Count  int
	// Period is after how many epochs the snapshot is taken anew, at least 1.
	Period int
	Stale  Stale
	// Aggregated is the graph axis's, as in sar.Options.
	Aggregated func(site string, edgeColumns int64)
}

// phase is what the chunks are doing.
type phase uint8

const (
	forward phase = iota
	backward
	together // inference: all chunks advance at the same time
)

// Chunk is some rows of a stage.
type Chunk struct {
	*sar.Partition
	// Places (Int32, 1 × rows) are its rows among those of the stage's partition, ascending.
	Places *tensor.Matrix

	graph *Graph
	index int
	pause func()
}

// New divides a share, on one of the workers that g.Halo connects, who call it together.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, w order.Options, o Options) (*Graph, error) {
	c := &Graph{
		team: team, replicas: g.Halo, me: g.Halo.Rank(), share: s, options: o, rows: make([][]int32, o.Count),
		made: map[gnn.Along]*structure{}, kept: map[call]*history{}, passing: map[call]*history{},
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
		total := autograd.NotVertices // a sum over the chunks would not be one at any time
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
			Mover: chunk,
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

// Vertices are those of all chunks, by their original ids, ascending; nil: all of the graph's.
func (g *Graph) Vertices() []int32 { return g.share.Edges.IDs }

// Rows are the vertices of all chunks.
func (g *Graph) Rows() *autograd.RowSet { return g.whole }

// Types are the vertices of all chunks, which are of one type.
func (g *Graph) Types() []*autograd.RowSet { return []*autograd.RowSet{g.whole} }

// Schema is the graph's.
func (g *Graph) Schema() gnn.Schema { return sar.SchemaOf(g.share) }

// Forward begins the forward pass of an epoch, which goes through the chunks in that order.
func (g *Graph) Forward(epoch int, order []int) {
	g.phase, g.order = forward, slices.Clone(order)
	for _, c := range g.Chunks {
		c.BeginEpoch(epoch)
	}
}

// Backward begins the backward pass, in the reverse order. A chunk's forward pass may be made again in it:
// nothing is sent for that.
func (g *Graph) Backward() { g.phase = backward }
