// Package tp is the tensor axis: tensor parallelism for graph neural networks, as in NeutronTP (Ai et
// al., PVLDB 18(2), 2024). A worker aggregates its slice of the feature columns along all edges of a
// partition, or of the whole graph. It computes everything else on its own rows, with all columns:
//
//	z = toRows(inner(toSlices(x)))
//
// x and z are in the row layout: each worker has its own rows, with all columns. Between them is the slice
// layout: each worker has its slice of the columns, for all rows of the partition. toSlices and toRows
// redistribute a matrix from one layout to the other, by an all-to-all among the workers of the partition.
// Each is the inverse and the adjoint of the other. inner is the aggregation of sar.Partition, on the
// columns of the slice. With one partition it sends no messages.
//
// If the number of workers divides the number of columns, all workers have equal work, whatever the graph is.
// One worker computes the whole sum of a row and column, so the results have the bits of one worker.
// Gradients of weights are summed over the workers.
//
// In this package a chunk is an aggregation chunk: consecutive rows of an aggregation's result.
//
// Reading order: layout.go is this algorithm. propagator.go and attention.go use it in each method of a
// Propagator. alltoall.go has the messages of an all-to-all. overlap.go overlaps the all-to-alls of a linear
// aggregation with its computation, in the chunks of schedule.go. owners.go says which rows are a worker's
// own.
//
// Package engine aggregates by it where the mesh has slices.
package tp

import (
	"cmp"

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
	"weft/tensor"
)

// Axis is one worker of the tensor axis. The workers of an axis slice one partition, or the whole graph.
type Axis struct {
	team  *kernel.Team
	comm  *comm.Comm // the workers that slice the partition
	halo  *comm.Comm // the workers that have the same slice of other partitions
	mesh  mesh.Mesh
	inner *sar.Partition // aggregates the columns of the slice
	types []*vertexRows  // by vertex type
	costs *order.Costs
	// bytes returns the bytes that all workers send in an all-to-all of a vertex type's rows.
	bytes         func(kind, columns int) int64
	redistributed func(module string, bytes int64) // Env.Redistributed
	epoch         int                              // for errors
	partition     int                              // the partition whose columns are sliced
	wire          kernel.Format
	largerBy      float64 // Env.LargerBy, or 1
	allToAlls     int     // how many there were in this epoch
	idle          func()  // replaces inner's work in a forward pass if the slice has no columns
	wholeHeads    bool    // attention is sliced by whole heads
	overlapping   bool    // a slice has all rows that its edges read, so chunks can be aggregated
	common        bool    // workers of the axis share the edges

	chunks    int                     // AggregationChunks
	schedules map[direction]*schedule // each made when first asked for
}

// vertexRows are the partition's rows of one vertex type.
type vertexRows struct {
	rowsOf   []*tensor.Matrix // Int32, 1 × n: the rows that each worker owns, ascending
	own      *autograd.RowSet // the worker's own rows
	all      *autograd.RowSet // all rows of the partition
	places   []int32          // places of the own rows among all rows
	vertices []int32          // vertices of the own rows
	once     *schedule        // the schedule of an all-to-all of all rows at once
}

// New returns the Axis of one worker of Groups.Slices, all of which have the same share. All workers of the
// mesh must call New, and then call the same methods in the same order.
func New(e axis.Env, o axis.Options) (*Axis, error) {
	inside, within := e, o
	inside.Explain, within.AggregationOrder = nil, order.Auto // the whole columns decide on the order
	g, s := e.Groups, e.Share
	var lists [][][]int32
	for kind := range s.Edges.Types {
		list := ownersOf(&s.Edges, kind, g.Mesh.Slices)
		lists = append(lists, list)
		inside.Own = append(inside.Own, list[g.Slice])
	}
	inner, err := sar.New(inside, within)
	if err != nil {
		return nil, err
	}
	a := newAxis(e, inner, o)
	for kind, t := range s.Edges.Types {
		a.slice(g, lists[kind], t.IDs, inner.Schema().Types[kind].Vertices)
	}
	a.overlapping, a.common = g.Mesh.Partitions == 1, g.Common != nil
	a.costs = NewCosts(e, o)
	return a, nil
}

// newAxis makes an Axis without rows and without a cost table.
func newAxis(e axis.Env, inner *sar.Partition, o axis.Options) *Axis {
	g := &e.Groups
	wire := o.Wire.Format(e.Team.Storage)
	return &Axis{
		bytes: func(kind, columns int) int64 {
			return redistributedBytes(e.Team, e.Share.Edges.Types[kind].Starts, g.Mesh.Slices, columns, wire)
		},
		team: e.Team, comm: g.Slices, halo: g.Halo, mesh: g.Mesh, inner: inner,
		redistributed: e.Redistributed, chunks: int(o.AggregationChunks),
		schedules: map[direction]*schedule{}, largerBy: cmp.Or(e.LargerBy, 1),
		partition: g.Partition, wire: wire, idle: g.Halo.LocalBarrier,
	}
}

// slice adds the rows of the next vertex type. lists has the rows that each worker owns, ascending. ids are
// the vertices of all rows; nil: the row numbers. total is the Total of their RowSet.
func (a *Axis) slice(g mesh.Groups, lists [][]int32, ids []int32, total int) {
	own := lists[g.Slice]
	t := &vertexRows{all: a.inner.Types()[len(a.types)], places: own, vertices: own}
	for _, list := range lists {
		t.rowsOf = append(t.rowsOf, kernel.List(a.team, tensor.Graph, list))
	}
	if ids != nil {
		t.vertices = make([]int32, len(own))
		for i, row := range own {
			t.vertices[i] = ids[row]
		}
	}
	t.own = autograd.RowsOf(a.team, t.vertices, len(own), total, exchange.Peers{Comm: g.Replicas})
	t.once = newOneChunk(t, t)
	a.types = append(a.types, t)
}

// redistributedBytes returns the number of bytes that the slices of all partitions send in an all-to-all.
// starts are the first rows of all partitions, followed by the number of all rows.
func redistributedBytes(team *kernel.Team, starts []int, slices, columns int,
	wire kernel.Format,
) (bytes int64) {
	cut := even(columns, slices)
	sent := 0
	bytesOf := func(s span) int {
		return exchange.Form{{Count: s.count, Element: team.Storage, Format: wire}}.Bytes()
	}
	for _, s := range cut {
		sent += bytesOf(s)
	}
	for p, start := range starts[:len(starts)-1] {
		for t, own := range cut {
			rows := ownedRows(starts[p+1]-start, len(cut), t)
			bytes += int64(rows) * int64(sent-bytesOf(own))
		}
	}
	return bytes
}

// Vertices returns the original ids of the worker's own rows of the first vertex type, ascending.
func (a *Axis) Vertices() []int32 { return a.types[0].vertices }

// Rows describes the worker's own rows of the first vertex type.
func (a *Axis) Rows() *autograd.RowSet { return a.types[0].own }

// Types describes the worker's own rows of each vertex type.
func (a *Axis) Types() (own []*autograd.RowSet) {
	for _, t := range a.types {
		own = append(own, t.own)
	}
	return own
}

// Places returns the worker's own rows of a vertex type, among those of the share, ascending.
func (a *Axis) Places(kind int) []int32 { return a.types[kind].places }

// EdgeRows describes rows of edges on a tape, for the edges into the worker's own rows. Another worker
// computes their values.
func (a *Axis) EdgeRows(t *autograd.Tape, s gnn.EdgeState) (*autograd.RowSet, error) {
	_, target := a.inner.Ends(s.Along)
	return a.inner.EdgeRowsInto(t, s, a.types[target].into(a.comm.Rank()))
}

// EdgeNumbers are the numbers of the rows of EdgeRows.
func (a *Axis) EdgeNumbers(t *autograd.Tape, s gnn.EdgeState, numbering *edges.Numbering) ([]int64, error) {
	_, target := a.inner.Ends(s.Along)
	return a.inner.EdgeNumbersInto(t, s, a.types[target].into(a.comm.Rank()), numbering)
}

// into are the worker's own rows, as targets of messages.
func (r *vertexRows) into(rank int) sar.Into { return sar.Into{Rows: r.own, Places: r.rowsOf[rank]} }

// Schema returns the schema of the graph.
func (a *Axis) Schema() gnn.Schema { return a.inner.Schema() }

// BeginEpoch begins an epoch. Errors name it.
func (a *Axis) BeginEpoch(epoch int) {
	a.epoch, a.allToAlls = epoch, 0
	a.costs.BeginEpoch()
	a.inner.BeginEpoch(epoch)
}

// Propagator returns the gnn.Propagator of the layer with that module path.
func (a *Axis) Propagator(path string, along gnn.Along) gnn.Propagator {
	inner := a.SlicePropagator(path, along)
	source, target := a.inner.Ends(along)
	p := &propagator{
		module: module{axis: a, path: path, from: a.types[source], to: a.types[target]}, along: along,
		inner: inner, order: a.costs.Layer(path),
	}
	if len(a.types) > 1 {
		p.order.Moved = func(columns int) int64 { return a.bytes(source, columns) + a.bytes(target, columns) }
	}
	return p
}
