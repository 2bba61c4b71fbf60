// Package chunked aggregates along edges on the pipeline axis (GNNPipe, arXiv 2308.10087). It divides the
// vertices of a stage into chunks. A stage computes one chunk after the other. A chunk has edges from
// vertices of other chunks, whose rows (embeddings) it reads from the history: a buffer for each aggregation
// of the model.
//
// Each chunk is a sar.Partition, whose remote rows are the rows of other chunks. Package sar does every kind
// of aggregation. It gets remote rows from the history here, and from other workers on the graph axis. For
// chunk c, in the order of the epoch, each aggregation does this:
//
//  1. Store the rows of c in the history.
//  2. Aggregate c's own rows and the rows that c reads of other chunks. Rows of a chunk before c are of this
//     epoch. Rows of a chunk after c are of the last snapshot, an earlier epoch.
//
// The backward pass takes the chunks in the reverse order:
//
//  1. Add to ∂L/∂x_c the gradients from chunks after c.
//  2. Add twice the gradients of rows that c reads to those of the chunks before c.
//  3. Drop the gradients of snapshot rows: these are constants.
//
// In a random order, a chunk comes before another one half of the time, so the factor 2 makes the gradient
// over one hop unbiased. With several partitions, a worker of each partition computes the stage: these
// workers are the replicas of the stage. All replicas compute their chunks of one number at the same time, as
// one chunk. Before these chunks aggregate, each replica sends the others the rows that their chunks read
// (mirrors).
//
// With several slices, the workers of a replica divide the rows of each chunk, and aggregate a slice of its
// columns, as in package parallel/tp. The algorithm is then the same as with one slice, and the history has
// the slice's columns.
//
// Reading order: history.go is this algorithm. structure.go says which chunk reads which rows.
//
// Package engine calls it for a pipeline.
package chunked

import (
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/axis"
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

	env       axis.Env
	options   axis.Options
	chunks    Division
	team      *kernel.Team
	replicas  *comm.Comm // the workers of the stage, of this worker's slice
	me        int        // this worker's rank among them
	share     *partition.Share
	kinds     []*kind                  // by vertex type
	made      map[gnn.Along]*structure // the structures that were made so far
	lasting   map[sar.Key]*history     // of the last training pass, by aggregation; the next pass takes it
	inferring map[sar.Key]*history     // of an inference, by aggregation, until the last chunk has read it
	phase     phase
	now       *ChunkPass      // the pass that is at work, forward or backward
	warm      bool            // the inference under way makes the snapshot
	paths     map[string]bool // paths of the modules that aggregate
	saved     sar.Saved       // the history of a checkpoint
}

// kind is the rows of a vertex type: shareRows are those of the share.
type kind struct {
	shareRows *partition.PartRows
	rows      [][]int32 // rows of the share, by chunk
	inChunk   []int32   // by row of the share: its number in its chunk
	// vertices are those of the worker's own rows of all chunks, ascending; nil: all vertices of the graph.
	vertices []int32
	places   []int32          // places of these rows in the share, ascending; nil: all
	own      *autograd.RowSet // these rows
}

// Division says which chunk each vertex is in. A graph of several vertex types has one chunk in each
// partition.
type Division struct {
	// Chunks has the chunk of each vertex of the first type within its partition, 0 … Count−1, in the order
	// of the partitions. All partitions have equally many chunks, of which some may be empty.
	Chunks []int32
	Count  int
}

// chunk returns the chunk of a vertex of a type. Vertices are in the order of the partitions.
func (d *Division) chunk(kind, v int) int32 {
	if kind == 0 {
		return d.Chunks[v]
	}
	return 0
}

// phase is the current work of the chunks.
type phase uint8

const (
	forward phase = iota
	backward
	inference // all chunks compute a layer before any chunk computes the next layer
)

// Chunk is a chunk of a stage's rows. Its aggregator has the rows that the worker owns: all of them, or with
// several slices some.
type Chunk struct {
	aggregator
	// Places (Int32, 1 × rows) are, by vertex type, the places of the chunk's own rows among the rows of
	// Graph.Types, ascending.
	Places []*tensor.Matrix

	part  *sar.Partition // aggregates all rows of the chunk
	graph *Graph
	index int
	pause func()
}

// aggregator aggregates along the edges into a chunk.
type aggregator interface {
	Vertices() []int32
	Rows() *autograd.RowSet
	Types() []*autograd.RowSet
	Places(kind int) []int32
	Propagator(path string, along gnn.Along) gnn.Propagator
	EdgeRows(t *autograd.Tape, s gnn.EdgeState) (*autograd.RowSet, error)
	EdgeNumbers(t *autograd.Tape, s gnn.EdgeState, numbering *edges.Numbering) ([]int64, error)
	BeginEpoch(epoch int)
}

// New divides a share into chunks. All workers that Groups.Halo connects call it together.
func New(e axis.Env, o axis.Options, d Division) (*Graph, error) {
	g, s := e.Groups, e.Share
	if d.Count > 1 {
		o.AggregationOrder = order.Embeddings
	}
	c := &Graph{
		env: e, options: o, chunks: d, team: e.Team, replicas: g.Halo, me: g.Halo.Rank(), share: s,
		saved: sar.Saved{What: "history", Place: sar.PlaceOf(g)},
		made:  map[gnn.Along]*structure{}, paths: map[string]bool{},
		lasting: map[sar.Key]*history{}, inferring: map[sar.Key]*history{},
	}
	others := exchange.PeersOf(g.Halo)
	costs := e.Costs(&o, nil)
	slice := func(chunk *Chunk, _ [][]int32, _ []int) { chunk.aggregator = chunk.part }
	if g.Mesh.Slices > 1 {
		costs = order.NewCosts(order.Options{}, nil)
		slice = c.slicer()
	}
	for kind := range s.Edges.Types {
		c.kinds = append(c.kinds, c.divide(kind))
	}
	for k := range d.Count {
		chunk := &Chunk{graph: c, index: k}
		var totals []int
		var vertices [][]int32
		var sets []*autograd.RowSet
		for i, vertexType := range c.kinds {
			ids := vertexType.shareRows.Vertices(vertexType.rows[k])
			total := autograd.NotVertices // a sum over all vertices would lack the other chunks
			if d.Count == 1 {
				total = s.Whole.Types[i].Vertices
			}
			sets = append(sets, autograd.RowsOf(e.Team, ids, len(ids), total, others))
			totals, vertices = append(totals, total), append(vertices, ids)
		}
		chunk.part = sar.Of(e, sar.Source{
			Types: sets, Vertices: vertices[0], Schema: sar.SchemaOf(s),
			Read: func(a gnn.Along, _ edges.Halo) (*edges.Edges, error) {
				st, err := c.structure(a)
				if err != nil {
					return nil, err
				}
				return st.edges[k], nil
			},
			Exchanger: chunk, Chunk: d.Count > 1 || g.Halo.Size() > 1, Slice: g.Slice,
		}, costs, axis.Options{Wire: o.Wire})
		slice(chunk, vertices, totals)
		c.Chunks = append(c.Chunks, chunk)
	}
	c.joinRows(g)
	for _, r := range sar.SchemaOf(s).Relations {
		if _, err := c.structure(gnn.Along{Relation: r.Name}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// divide divides the rows of a vertex type into the chunks.
func (g *Graph) divide(number int) *kind {
	result := &kind{shareRows: &g.share.Edges.Types[number], rows: make([][]int32, g.chunks.Count)}
	for k := range result.rows {
		result.rows[k] = []int32{} // nil would be all
	}
	first := result.shareRows.Starts[g.share.Edges.P]
	for row := range result.shareRows.Rows {
		k := g.chunks.chunk(number, first+row)
		result.inChunk = append(result.inChunk, int32(len(result.rows[k])))
		result.rows[k] = append(result.rows[k], int32(row))
	}
	return result
}

// joinRows finds the worker's own rows of all chunks, and the places of each chunk's among them.
func (g *Graph) joinRows(groups mesh.Groups) {
	for i, k := range g.kinds {
		here := k.shareRows.Rows
		k.vertices = k.shareRows.IDs
		if groups.Mesh.Slices > 1 {
			k.places = []int32{}
			for _, c := range g.Chunks {
				k.places = append(k.places, c.Held(i)...)
			}
			slices.Sort(k.places)
			here = len(k.places)
			k.vertices = k.shareRows.Vertices(k.places)
		}
		total := g.share.Whole.Types[i].Vertices
		k.own = autograd.RowsOf(g.team, k.vertices, here, total, exchange.PeersOf(groups.Replicas))
		for _, c := range g.Chunks {
			places := slices.Clone(c.Held(i))
			for at, row := range places {
				if k.places != nil {
					place, _ := slices.BinarySearch(k.places, row)
					places[at] = int32(place)
				}
			}
			c.Places = append(c.Places, kernel.List(g.team, tensor.Graph, places))
		}
	}
}

// Held are the chunk's own rows of a vertex type, as rows of the share, ascending.
func (c *Chunk) Held(kind int) []int32 {
	rows, own := c.graph.kinds[kind].rows[c.index], c.aggregator.Places(kind)
	if own == nil {
		return rows
	}
	ownRows := make([]int32, len(own))
	for i, place := range own {
		ownRows[i] = rows[place]
	}
	return ownRows
}

// Vertices returns the original ids of the worker's rows of the first vertex type, of all chunks, ascending;
// nil: all vertices of the graph.
func (g *Graph) Vertices() []int32 { return g.kinds[0].vertices }

// Types describes the worker's rows of each vertex type, of all chunks.
func (g *Graph) Types() (own []*autograd.RowSet) {
	for _, k := range g.kinds {
		own = append(own, k.own)
	}
	return own
}

// Places lists the worker's rows of a vertex type, as rows of the share, ascending. nil is all.
func (g *Graph) Places(kind int) []int32 {
	return g.kinds[kind].places
}

// Schema returns the schema of the graph along which messages pass.
func (g *Graph) Schema() gnn.Schema { return sar.SchemaOf(g.share).Passing() }

// ChunkPass is a training pass of the chunks, forward and backward. Several passes may live, begun and not
// ended, if each partition is one chunk, which reads nothing of other passes.
type ChunkPass struct {
	graph *Graph
	epoch int
	order []int                // of the chunks
	read  map[sar.Key]*history // by aggregation
}

// Forward begins the forward pass of an epoch, with the chunks in the given order. It has the history of the
// pass that ended last.
func (g *Graph) Forward(epoch int, order []int) *ChunkPass {
	p := &ChunkPass{g, epoch, slices.Clone(order), g.lasting}
	g.phase, g.now, g.lasting = forward, p, map[sar.Key]*history{}
	for _, c := range g.Chunks {
		c.BeginEpoch(epoch)
	}
	return p
}

// Backward begins the backward pass, with the chunks in the reverse order. A chunk may recompute its forward
// pass during it. That sends no messages.
func (p *ChunkPass) Backward() { p.graph.phase, p.graph.now = backward, p }
