// Package parallel divides the work of a network: its Graph is one worker's part of a graph and the worker's ways along its edges.
//
// Reading: sar.go is the algorithm, exchange.go the movement of rows that it is made of, topology.go what a worker holds, propagator.go
// in which order the work is done.
package parallel

import (
	"fmt"
	"time"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
)

// Graph is a worker's part of a graph: all of it, or one partition. Its Propagators read from it.
type Graph struct {
	team  *kernel.Team
	comm  *comm.Comm       // nil with one worker
	share *partition.Share // nil with one worker
	rows  *autograd.RowSet
	edges [2]*topology // as stored, and reversed, which is made when first asked for
	sar   SAR

	operators map[operatorKey]operator
	shares    map[loopsKey]*tensor.Matrix // 1/in-degree of each own row
	loops     map[loopsKey]*block         // self loops as edges
	orders    []string                    // what each site decided, in the order of the first pass
	decided   map[string]bool
	epoch     int // for errors
	waited    time.Duration
}

// SAR are the settings of sequential aggregation and rematerialization.
type SAR struct {
	// Prefetch is how many pieces of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int
	// KeepHalo receives all rows at once and keeps them until the layer's backward pass, instead of one piece after the other and
	// again: it shows what SAR saves.
	KeepHalo bool
}

type operatorKey struct {
	reduce   gnn.Reduce
	reversed bool
}

// loopsKey says which way the edges go, and whether each vertex has exactly one self loop or those that are stored.
type loopsKey struct{ reversed, one bool }

// NewWhole is the whole graph on one worker: its structure is copied into the team's memory. copied, unless nil, is called when r is
// not needed any more.
func NewWhole(team *kernel.Team, r *graph.Relation, copied func()) *Graph {
	n := len(r.Indptr) - 1
	t, _ := newTopology(team, r, []int{0, n}, 0, copied)
	return &Graph{
		team: team, rows: autograd.AllHere(n), edges: [2]*topology{t, t.reversed()},
		operators: map[operatorKey]operator{}, decided: map[string]bool{},
	}
}

// NewPartition is one partition of a graph on one of as many workers, which c connects (where the team only plans, one made of
// comm.Plan). All of them must call it, and from then on do the same in the same order.
func NewPartition(team *kernel.Team, c *comm.Comm, s *partition.Share, o SAR) (*Graph, error) {
	g := &Graph{team: team, comm: c, share: s, sar: o, operators: map[operatorKey]operator{}, decided: map[string]bool{}}
	ids := team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(s.IDs))
	if !team.Planning() {
		copy(ids.Int32s(), s.IDs)
	}
	g.rows = &autograd.RowSet{Here: len(s.IDs), Total: s.Whole.Vertices, IDs: ids, Peers: peers{g}}
	var err error
	g.edges[0], err = g.connect(&s.Graph.Relation, s.Whole.Statistics.HaloRows, s.Graph.Unload)
	return g, err
}

// Rows are the vertices of the worker's rows.
func (g *Graph) Rows() *autograd.RowSet { return g.rows }

// BeginEpoch says which epoch the work belongs to from now on; errors name it.
func (g *Graph) BeginEpoch(epoch int) {
	g.epoch = epoch
	if g.comm != nil {
		g.comm.At(epoch, "")
	}
}

// Waited is how long the worker has stood still for others so far.
func (g *Graph) Waited() time.Duration { return g.waited }

// Propagator is the gnn.Propagator at a site.
func (g *Graph) Propagator(site string, reversed bool) gnn.Propagator {
	return &propagator{graph: g, site: site, reversed: reversed}
}

// Explain says for each site in which order it works, once a forward pass has been made.
func (g *Graph) Explain() []string { return g.orders }

func (g *Graph) topology(reversed bool) *topology {
	if !reversed {
		return g.edges[0]
	}
	if g.edges[1] == nil {
		t, err := g.connect(&g.share.Out, g.share.Whole.Statistics.HaloRowsOut, g.share.Graph.Unload)
		g.must(err)
		g.edges[1] = t
	}
	return g.edges[1]
}

// connect makes a topology and tells the other workers which of their rows it needs: O(halo) numbers. haloRows[p][q] is how many rows
// partition p needs of partition q.
func (g *Graph) connect(r *graph.Relation, haloRows [][]int, copied func()) (*topology, error) {
	t, halo := newTopology(g.team, r, g.share.Starts, g.share.P, copied)
	me, k := g.share.P, len(g.share.Starts)-1
	lists, theirs := make([][]int32, k), make([][]int32, k) // own rows that others need, and their vertices
	for q := range k {
		if q != me {
			lists[q] = make([]int32, haloRows[q][me])
			theirs[q] = make([]int32, haloRows[me][q])
			if !g.team.Planning() && len(halo[q]) != len(theirs[q]) {
				return nil, fmt.Errorf("partition %d needs %d rows of partition %d, where the stored partition says %d; partition the graph again",
					me, len(halo[q]), q, len(theirs[q]))
			}
		}
	}
	if !g.team.Planning() {
		if err := g.comm.AllToAll(comm.Setup, bytesOf(halo), bytesOf(lists)); err != nil {
			return nil, err
		}
		vertices := make([][]int32, k)
		for q, list := range lists {
			for _, row := range list {
				if int(row) >= t.rows || row < 0 {
					return nil, fmt.Errorf("worker %d asks worker %d for row %d of %d", q, me, row, t.rows)
				}
				vertices[q] = append(vertices[q], g.share.IDs[row])
			}
		}
		if err := g.comm.AllToAll(comm.Setup, bytesOf(vertices), bytesOf(theirs)); err != nil {
			return nil, err
		}
		at := make([]int, k)
		for _, b := range t.remote() {
			at[b.peer] += copy(b.ids.Int32s(), theirs[b.peer][at[b.peer]:])
		}
	}
	t.local().ids = g.rows.IDs
	for round := 1; round < k; round++ {
		q := (me + round) % k
		pieces(len(lists[q]), t.rows, func(lo, hi int) {
			p := &piece{q, g.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, hi-lo)}
			if !g.team.Planning() {
				copy(p.list.Int32s(), lists[q][lo:hi])
			}
			t.needed = append(t.needed, p)
		})
	}
	return t, nil
}

// meanShares are 1/in-degree of the worker's rows.
func (g *Graph) meanShares(t *topology, key loopsKey) *tensor.Matrix {
	if g.shares[key] == nil {
		if g.shares == nil {
			g.shares = map[loopsKey]*tensor.Matrix{}
		}
		g.shares[key] = t.degreeColumn(g.team, false, func(v int, degree float64) float64 {
			if key.one {
				return 1 / (degree + 1)
			}
			return inverse(degree + float64(t.loopsOf(v)))
		})
	}
	return g.shares[key]
}

// loopBlock is the self loops as a block of edges, nil where there are none.
func (g *Graph) loopBlock(t *topology, key loopsKey) *block {
	if !key.one && t.loops == nil {
		return nil
	}
	if g.loops[key] == nil {
		if g.loops == nil {
			g.loops = map[loopsKey]*block{}
		}
		g.loops[key] = &block{in: t.loopMatrix(g.team, key.one), ids: g.rows.IDs}
	}
	return g.loops[key]
}

// columnOfSources is, for each remote block, the values that its sources have in a column over the owners' rows.
func (g *Graph) columnOfSources(t *topology, own *tensor.Matrix) ([]*tensor.Matrix, error) {
	columns := make([]*tensor.Matrix, len(t.remote()))
	for i, b := range t.remote() {
		columns[i] = g.team.Memory.New(tensor.Graph, b.in.Cols, 1)
	}
	if t.alone() || g.team.Planning() {
		return columns, nil
	}
	k := g.comm.Size()
	send, receive := make([][]float32, k), make([][]float32, k)
	for _, p := range t.needed {
		for _, row := range p.list.Int32s() {
			send[p.peer] = append(send[p.peer], own.Floats()[row])
		}
	}
	for _, b := range t.remote() {
		receive[b.peer] = append(receive[b.peer], make([]float32, b.in.Cols)...)
	}
	if err := g.comm.AllToAll(comm.Setup, bytesOf(send), bytesOf(receive)); err != nil {
		return nil, err
	}
	at := make([]int, k)
	for i, b := range t.remote() {
		at[b.peer] += copy(columns[i].Floats(), receive[b.peer][at[b.peer]:])
	}
	return columns, nil
}

func bytesOf[T int32 | float32](lists [][]T) [][]byte {
	b := make([][]byte, len(lists))
	for i, l := range lists {
		b[i] = comm.Bytes(l)
	}
	return b
}

// peers implements autograd.Peers.
type peers struct{ g *Graph }

func (p peers) Sum(values []float64) {
	start := time.Now()
	p.g.must(p.g.comm.SumDoubles(comm.Statistics, values))
	p.g.waited += time.Since(start)
}

// must ends the worker's pass with err: a forward or backward pass has no other way out. Package train turns it into an error again.
func (g *Graph) must(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// Failure is the panic value of a pass that could not go on because of another worker.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }
