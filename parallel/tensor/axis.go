// Package tensor is the tensor axis: tensor parallelism for graph neural networks, as in NeutronTP (Ai et
// al., PVLDB 18(2), 2024). A worker aggregates along all edges of a partition, or of the whole graph, for its
// slice of the feature columns, and does everything else on its own rows with all columns:
//
//	z = gather(inner(split(x)))
//
// split turns own rows of all columns into own columns of all rows, gather turns them back; each is the
// other's inverse and adjoint. inner is the aggregation of sar.Partition, on fewer columns: with one
// partition no worker needs anything of another meanwhile, all have equal work where their number divides
// that of the columns, whatever the graph looks like, and a sum over in-neighbours is not cut, so that values
// have one worker's bits. Gradients of weights are summed over workers.
//
// Reading: layout.go is this algorithm; propagator.go and attention.go what each method of a Propagator does
// with it; stream.go the messages of a split or a gather; flow.go how a linear aggregation does all of it at
// once, chunk by chunk, and schedule.go in which chunks; owners.go which rows are a worker's own.
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

// Axis is one worker of those that slice a partition, or all of a graph. Its Propagators read from it.
type Axis struct {
	team          *kernel.Team
	comm          *comm.Comm // the slices of the partition
	mesh          mesh.Mesh
	inner         *sar.Partition   // of the slice
	starts        []int            // of each partition's rows, and the number of all
	rowsOf        []*tensor.Matrix // Int32, 1 × n: those of the partition's rows that each worker owns, ascending
	own           *autograd.RowSet // the worker's own rows
	all           *autograd.RowSet // all of the partition's
	vertices      []int32          // of the own rows
	costs         *order.Costs
	redistributed func(site string, bytes int64) // Options.Redistributed
	epoch         int                            // for errors

	chunks    int                     // Options.Chunks
	atOnce    *schedule               // in one chunk
	schedules map[direction]*schedule // made when first asked for
}

// Options are the settings of the tensor axis.
type Options struct {
	sar.Options // of the aggregation inside a slice
	// Chunks is in how many chunks an aggregation takes in its input and hands on its result, 0: as many as
	// suit it. It changes no bits.
	Chunks int
	// Redistributed is called each time a layer redistributes rows between layouts, which all workers of the
	// stage do together, with the layer's module path and the bytes that this worker sends. It may be nil.
	Redistributed func(path string, bytes int64)
}

// New is one worker of g.Slices, which all have the same share; where the team only plans they are made of
// comm.Plan. All of the mesh's workers must call it, and from then on do the same in the same order.
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
		rows := team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(list))
		if !team.Planning() {
			copy(rows.Int32s(), list)
		}
		a.rowsOf = append(a.rowsOf, rows)
	}
	a.atOnce = a.inOneChunk()
	a.vertices = make([]int32, 0, len(lists[g.Slice]))
	for _, row := range lists[g.Slice] {
		a.vertices = append(a.vertices, s.Values.ID(int(row)))
	}
	a.own = autograd.RowsOf(team, a.vertices, len(a.vertices), s.Whole.Own(), exchange.Peers{Comm: g.Replicas})
	return a, nil
}

// moved are the bytes that all workers send where so many columns are split, aggregated and gathered.
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

// alone reports whether there is one partition, so that a slice has all that it aggregates.
func (a *Axis) alone() bool { return a.mesh.Partitions == 1 }

// Vertices are those of the worker's own rows, by their original ids, ascending.
func (a *Axis) Vertices() []int32 { return a.vertices }

// Rows are the vertices of the worker's own rows.
func (a *Axis) Rows() *autograd.RowSet { return a.own }

// Types are the vertices of the worker's own rows, which are of one type.
func (a *Axis) Types() []*autograd.RowSet { return []*autograd.RowSet{a.own} }

// Schema is the graph's.
func (a *Axis) Schema() gnn.Schema { return a.inner.Schema() }

// BeginEpoch says which epoch the work belongs to from now on; errors name it.
func (a *Axis) BeginEpoch(epoch int) {
	a.epoch = epoch
	a.costs.BeginEpoch()
	a.inner.BeginEpoch(epoch)
}

// Propagator is the gnn.Propagator at a site.
func (a *Axis) Propagator(path string, along gnn.Along) gnn.Propagator {
	return &propagator{site: site{a, path}, along: along, inner: a.inner.Propagator(path, along), order: a.costs.Layer(path)}
}
