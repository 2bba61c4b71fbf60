// Package tensor is the tensor axis: tensor parallelism for graph neural networks, as in NeutronTP (Ai et
// al., PVLDB 18(2), 2024). A worker aggregates its slice of the feature columns along all edges of a
// partition, or of the whole graph. It computes everything else on its own rows, with all columns:
//
//	z = toRows(inner(toSlices(x)))
//
// toSlices redistributes own rows of all columns into own columns of all rows. toRows is its inverse and its
// adjoint. Both are all-to-alls among the workers that slice a partition. inner is the aggregation of
// sar.Partition, on fewer columns. With one partition inner sends no messages. All workers have equal work
// where their number divides that of the columns, whatever the graph is. One worker computes the whole sum
// over a vertex's in-neighbours, so that values have one worker's bits. Gradients of weights are summed over
// workers.
//
// Reading order: layout.go is this algorithm. propagator.go and attention.go use it in each method of a
// Propagator. alltoall.go has the messages of an all-to-all. overlap.go overlaps the all-to-alls of a linear
// aggregation with its computation, in the aggregation chunks of schedule.go. owners.go says which rows are a
// worker's own.
package tensor

import (
	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// Axis is one of the workers that slice a partition, or the whole graph. Its Propagators read from it.
type Axis struct {
	team          *kernel.Team
	comm          *comm.Comm // the slices of the partition
	mesh          mesh.Mesh
	inner         *sar.Partition   // aggregates the slice
	starts        []int            // the first row of each partition, and the number of all rows
	rowsOf        []*tensor.Matrix // Int32, 1 × n: the rows of the partition that each worker owns, ascending
	own           *autograd.RowSet // the worker's own rows
	all           *autograd.RowSet // all rows of the partition
	vertices      []int32          // of the own rows
	costs         *order.Costs
	redistributed func(module string, bytes int64) // Options.Redistributed
	epoch         int                              // for errors

	chunks    int                     // Options.Chunks
	atOnce    *schedule               // of one aggregation chunk
	schedules map[direction]*schedule // made when first asked for
}

// Options are the settings of the tensor axis.
type Options struct {
	sar.Options // of the aggregation inside a slice
	// Chunks is the number of aggregation chunks; 0 chooses it for each aggregation. It changes no bits.
	Chunks int
	// Redistributed is called for each all-to-all of a module, with the bytes that this worker sends in it.
	// It may be nil.
	Redistributed func(module string, bytes int64)
}

// New returns the Axis of one worker of g.Slices, whose workers all have the same share. A team that only
// plans has a communicator of comm.Plan. All workers of the mesh must call New, and then call the same
// methods in the same order.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, w order.Options, o Options) (*Axis, error) {
	lists := ownersOf(&s.Edges, g.Mesh.Slices)
	inner, err := sar.New(team, g, s, order.Options{}, o.Options)
	if err != nil {
		return nil, err
	}
	a := &Axis{
		team: team, comm: g.Slices, mesh: g.Mesh, inner: inner, starts: s.Edges.Starts, all: inner.Rows(),
		redistributed: o.Redistributed, chunks: o.Chunks, schedules: map[direction]*schedule{},
	}
	a.costs = order.NewCosts(w, a.moved)
	for _, list := range lists {
		a.rowsOf = append(a.rowsOf, kernel.List(team, tensor.Graph, list))
	}
	a.atOnce = a.inOneChunk()
	a.vertices = make([]int32, 0, len(lists[g.Slice]))
	for _, row := range lists[g.Slice] {
		a.vertices = append(a.vertices, s.Values.ID(int(row)))
	}
	a.own = autograd.RowsOf(team, a.vertices, len(a.vertices), s.Whole.Own(), exchange.Peers{Comm: g.Replicas})
	return a, nil
}

// moved is the number of bytes that all workers send in the two all-to-alls of an aggregation.
func (a *Axis) moved(columns int) (bytes int64) {
	cut := even(columns, a.comm.Size())
	for p, start := range a.starts[:len(a.starts)-1] {
		for t, mine := range cut {
			rows := owned(a.starts[p+1]-start, len(cut), t)
			bytes += 2 * elementBytes * int64(rows) * int64(columns-mine.count)
		}
	}
	return bytes
}

// alone reports whether there is one partition: a slice then has all rows that it aggregates.
func (a *Axis) alone() bool { return a.mesh.Partitions == 1 }

// Vertices are the original ids of the worker's own rows, ascending.
func (a *Axis) Vertices() []int32 { return a.vertices }

// Rows is the set of the worker's own rows.
func (a *Axis) Rows() *autograd.RowSet { return a.own }

// Types is Rows alone: the tensor axis takes graphs of one vertex type.
func (a *Axis) Types() []*autograd.RowSet { return []*autograd.RowSet{a.own} }

// Schema is the schema of the graph.
func (a *Axis) Schema() gnn.Schema { return a.inner.Schema() }

// BeginEpoch begins an epoch. Errors name it.
func (a *Axis) BeginEpoch(epoch int) {
	a.epoch = epoch
	a.costs.BeginEpoch()
	a.inner.BeginEpoch(epoch)
}

// Propagator is the gnn.Propagator of the module at a path.
func (a *Axis) Propagator(path string, along gnn.Along) gnn.Propagator {
	return &propagator{module: module{a, path}, along: along, inner: a.inner.Propagator(path, along), order: a.costs.Layer(path)}
}
