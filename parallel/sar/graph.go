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
	"weft/parallel/exchange"
	"weft/partition"
)

// Graph is a worker's part of a graph: all of it, or one partition. Its Propagators read from it.
type Graph struct {
	team    *kernel.Team
	comm    *comm.Comm // the workers that hold the other partitions
	ids     []int32    // of the rows; nil: row i is vertex i
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

// New is one partition of a graph, or all of it, on one of as many workers, which c connects (where the team
// only plans, one made of comm.Plan): the structure is copied into the team's memory. All of them must call it,
// and from then on do the same in the same order.
func New(team *kernel.Team, c *comm.Comm, s *partition.Share, o Options) (*Graph, error) {
	g := &Graph{team: team, comm: c, options: o, ids: s.Edges.IDs, decided: map[string]bool{}}
	var others autograd.Peers
	if c.Size() > 1 {
		others = peers{g}
	}
	g.rows = autograd.RowsOf(team, g.ids, len(s.Edges.Relations[0].In.Indptr)-1, s.Whole.Vertices, others)
	read := func(r *graph.Relation, haloRows [][]int) (*edges.Edges, error) {
		return edges.New(team, c, edges.Source{
			Relation: r, Starts: s.Edges.Starts, Me: s.Edges.P, HaloRows: haloRows, IDs: g.rows.IDs, Copied: s.Unload,
		})
	}
	r := &s.Edges.Relations[0]
	g.reverse = func() (*edges.Edges, error) {
		if c.Size() == 1 {
			return g.edges[0].Reversed(), nil
		}
		return read(&r.Out, r.HaloRowsOut)
	}
	var err error
	g.edges[0], err = read(&r.In, r.HaloRows)
	return g, err
}

// Vertices are those of the worker's rows, by their original ids, ascending; nil: all of the graph's.
func (g *Graph) Vertices() []int32 { return g.ids }

// Rows are the vertices of the worker's rows.
func (g *Graph) Rows() *autograd.RowSet { return g.rows }

// BeginEpoch says which epoch the work belongs to from now on; errors name it.
func (g *Graph) BeginEpoch(epoch int) {
	g.epoch = epoch
	g.comm.At(epoch, "")
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
		exchange.Must(err)
		g.edges[1] = e
	}
	return g.edges[1]
}

// peers implements autograd.Peers.
type peers struct{ g *Graph }

func (p peers) Sum(values []float64) {
	start := time.Now()
	exchange.Must(p.g.comm.SumDoubles(comm.Statistics, values))
	p.g.waited += time.Since(start)
}
