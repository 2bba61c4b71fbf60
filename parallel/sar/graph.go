// Package sar is the graph axis: sequential aggregation and rematerialization (Mostafa, MLSys 2022). Its
// Graph is one worker's partition, or all of a graph, and gives a convolution its ways along the edges.
//
// Reading: sar.go is the algorithm, halo.go the movement of rows that it is made of, propagator.go in which
// order the work is done, attention.go and message.go what else is aggregated.
package sar

import (
	"fmt"
	"slices"

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
	edges   map[gnn.Along]*edges.Edges              // those that were asked for
	read    func(a gnn.Along) (*edges.Edges, error) // makes those that are asked for first
	options Options

	orders  []string // what each site decided, in the order of the first pass
	decided map[string]bool
	epoch   int // for errors
}

// Options are the settings of sequential aggregation and rematerialization.
type Options struct {
	// Prefetch is how many pieces of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int
	// KeepHalo receives all rows at once and keeps them until the layer's backward pass, instead of one piece
	// after the other and again: it shows what SAR saves.
	KeepHalo bool
}

// stored is the way that every graph is asked for: it is there, or fails, before any work.
var stored = gnn.Along{Relation: graph.RelationName}

func newGraph(team *kernel.Team) *Graph {
	return &Graph{team: team, edges: map[gnn.Along]*edges.Edges{}, decided: map[string]bool{}}
}

// NewWhole is the whole graph on one worker: its structure is copied into the team's memory. copied, unless
// nil, is called when r is not needed any more.
func NewWhole(team *kernel.Team, r *graph.Relation, copied func()) *Graph {
	n := len(r.Indptr) - 1
	g := newGraph(team)
	g.rows = autograd.AllHere(n)
	g.read = func(a gnn.Along) (*edges.Edges, error) {
		if a.Reversed {
			return g.along(gnn.Along{Relation: a.Relation}).Reversed(), nil
		}
		return edges.New(team, nil, edges.Source{Relation: r, Starts: []int{0, n}, Copied: copied})
	}
	g.along(stored)
	return g
}

// NewPartition is one partition of a graph on one of as many workers, which c connects (where the team only
// plans, one made of comm.Plan). All of them must call it, and from then on do the same in the same order.
func NewPartition(team *kernel.Team, c *comm.Comm, s *partition.Share, o Options) (*Graph, error) {
	g := newGraph(team)
	g.comm, g.options = c, o
	ids := team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(s.IDs))
	if !team.Planning() {
		copy(ids.Int32s(), s.IDs)
	}
	g.rows = &autograd.RowSet{Here: len(s.IDs), Total: s.Whole.Vertices, IDs: ids, Peers: peers{g}}
	g.read = func(a gnn.Along) (*edges.Edges, error) {
		r, haloRows := &s.Graph.Relation, s.Whole.Statistics.HaloRows
		if a.Reversed {
			r, haloRows = &s.Out, s.Whole.Statistics.HaloRowsOut
		}
		return edges.New(team, c, edges.Source{Relation: r, Starts: s.Starts, Me: s.P, HaloRows: haloRows, IDs: ids, Copied: s.Graph.Unload})
	}
	_, err := g.ask(stored)
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

// Relations are the graph's, by name.
func (g *Graph) Relations() []string { return []string{graph.RelationName} }

// Propagator is the gnn.Propagator at a site.
func (g *Graph) Propagator(site string, along gnn.Along) gnn.Propagator {
	if has := g.Relations(); !slices.Contains(has, along.Relation) {
		panic(fmt.Sprintf("parallel: %s reaches along relation %q, and the graph has %q", site, along.Relation, has))
	}
	return &propagator{graph: g, site: site, along: along}
}

// Explain says for each site in which order it works, once a forward pass has been made.
func (g *Graph) Explain() []string { return g.orders }

// along are the edges of a relation in a direction.
func (g *Graph) along(a gnn.Along) *edges.Edges {
	e, err := g.ask(a)
	g.must(err)
	return e
}

// ask makes the edges if they were not asked for before. All workers ask for the same ones in the same order.
func (g *Graph) ask(a gnn.Along) (*edges.Edges, error) {
	if e, made := g.edges[a]; made {
		return e, nil
	}
	e, err := g.read(a)
	if err == nil {
		g.edges[a] = e
	}
	return e, err
}

// peers implements autograd.Peers.
type peers struct{ g *Graph }

func (p peers) Sum(values []float64) { p.g.must(p.g.comm.SumDoubles(comm.Statistics, values)) }

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
