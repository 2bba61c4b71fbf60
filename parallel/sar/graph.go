// Package sar is the graph axis: sequential aggregation and rematerialization (Mostafa, MLSys 2022). Its
// Graph is one worker's partition, or all of a graph, and gives a convolution its ways along the edges.
//
// Reading: sar.go is the algorithm, halo.go the movement of rows that it is made of, propagator.go in which
// order the work is done, attention.go and message.go what else is aggregated.
package sar

import (
	"time"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
)

// Graph is a worker's part of a graph: all of it, or one partition. Its Propagators read from it.
type Graph struct {
	team    *kernel.Team
	comm    *comm.Comm // nil with one worker
	rows    *autograd.RowSet
	edges   [2]*edges.Edges              // as stored, and reversed
	reverse func() (*edges.Edges, error) // makes the reversed ones, when they are first asked for
	options Options

	orders  []string // what each site decided, in the order of the first pass
	decided map[string]bool
	epoch   int // for errors
	waited  time.Duration
}

// Options are the settings of sequential aggregation and rematerialization.
type Options struct {
	// Prefetch is how many pieces of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int
	// KeepHalo receives all rows at once and keeps them until the layer's backward pass, instead of one piece
	// after the other and again: it shows what SAR saves.
	KeepHalo bool
}

// NewWhole is the whole graph on one worker: its structure is copied into the team's memory. copied, unless
// nil, is called when r is not needed any more.
func NewWhole(team *kernel.Team, r *graph.Relation, copied func()) *Graph {
	n := len(r.Indptr) - 1
	g := &Graph{team: team, rows: autograd.AllHere(n), decided: map[string]bool{}}
	e, err := edges.New(team, nil, edges.Source{Relation: r, Starts: []int{0, n}, Copied: copied})
	g.must(err)
	g.edges = [2]*edges.Edges{e, e.Reversed()}
	return g
}

// NewPartition is one partition of a graph on one of as many workers, which c connects (where the team only
// plans, one made of comm.Plan). All of them must call it, and from then on do the same in the same order.
func NewPartition(team *kernel.Team, c *comm.Comm, s *partition.Share, o Options) (*Graph, error) {
	g := &Graph{team: team, comm: c, options: o, decided: map[string]bool{}}
	ids := team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(s.IDs))
	if !team.Planning() {
		copy(ids.Int32s(), s.IDs)
	}
	g.rows = &autograd.RowSet{Here: len(s.IDs), Total: s.Whole.Vertices, IDs: ids, Peers: peers{g}}
	read := func(r *graph.Relation, haloRows [][]int) (*edges.Edges, error) {
		return edges.New(team, c, edges.Source{Relation: r, Starts: s.Starts, Me: s.P, HaloRows: haloRows, IDs: ids, Copied: s.Graph.Unload})
	}
	g.reverse = func() (*edges.Edges, error) { return read(&s.Out, s.Whole.Statistics.HaloRowsOut) }
	var err error
	g.edges[0], err = read(&s.Graph.Relation, s.Whole.Statistics.HaloRows)
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

// along are the edges as stored, or reversed.
func (g *Graph) along(reversed bool) *edges.Edges {
	if !reversed {
		return g.edges[0]
	}
	if g.edges[1] == nil {
		e, err := g.reverse()
		g.must(err)
		g.edges[1] = e
	}
	return g.edges[1]
}

// peers implements autograd.Peers.
type peers struct{ g *Graph }

func (p peers) Sum(values []float64) {
	start := time.Now()
	p.g.must(p.g.comm.SumDoubles(comm.Statistics, values))
	p.g.waited += time.Since(start)
}

// must ends the worker's pass with err: a forward or backward pass has no other way out. Package train turns
// it into an error again.
func (g *Graph) must(err error) {
	if err != nil {
		panic(Failure{err})
	}
}

// Failure is the panic value of a pass that could not go on because of another worker.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }
