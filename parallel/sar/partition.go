package sar

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
)

// Partition is a worker's part of a graph: all of it, or one partition. Its Propagators read from it.
type Partition struct {
	team    *kernel.Team
	comm    *comm.Comm // the workers that hold the other partitions
	holders []int      // for each partition the rank that holds it
	share   *partition.Share
	rows    *autograd.RowSet
	made    map[gnn.Along]*edges.Edges // those that were asked for
	options Options

	book  *order.Book
	epoch int // for errors
}

// Options are the settings of sequential aggregation and rematerialization.
type Options struct {
	// Prefetch is how many pieces of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int
	// KeepHalo receives all rows at once and keeps them until the layer's backward pass, instead of one piece
	// after the other and again: it shows what SAR saves.
	KeepHalo bool
	// Aggregated takes edges × columns of each pass of a site along the edges, forward and backward; nil:
	// nobody asks. Self loops, which are a factor of each row, are not counted.
	Aggregated func(site string, edgeColumns int64)
}

// New is one partition of a graph, or all of it, on one of as many workers, which g.Halo connects (where the
// team only plans, one made of comm.Plan); g.Holders says who holds which. The structure is copied into the
// team's memory. All of them must call it, and from then on do the same in the same order.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, w order.Options, o Options) (*Partition, error) {
	p := &Partition{
		team: team, comm: g.Halo, holders: g.Holders, share: s, options: o,
		made: map[gnn.Along]*edges.Edges{}, book: order.NewBook(w, nil),
	}
	var others autograd.Peers
	if p.comm.Size() > 1 {
		others = exchange.Peers{Comm: p.comm}
	}
	p.rows = autograd.RowsOf(team, s.Edges.IDs, s.Edges.Rows, s.Whole.Vertices, others)
	for _, name := range p.Relations() {
		if _, err := p.Edges(gnn.Along{Relation: name}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Vertices are those of the worker's rows, by their original ids, ascending; nil: all of the graph's.
func (p *Partition) Vertices() []int32 { return p.share.Edges.IDs }

// Rows are the vertices of the worker's rows.
func (p *Partition) Rows() *autograd.RowSet { return p.rows }

// BeginEpoch says which epoch the work belongs to from now on; errors name it.
func (p *Partition) BeginEpoch(epoch int) {
	p.book.BeginEpoch()
	p.epoch = epoch
	p.comm.At(epoch, "")
}

// Relations are the graph's, by name.
func (p *Partition) Relations() (names []string) {
	for _, r := range p.share.Edges.Relations {
		names = append(names, r.Name)
	}
	return names
}

// Propagator is the gnn.Propagator at a site.
func (p *Partition) Propagator(site string, along gnn.Along) gnn.Propagator {
	if has := p.Relations(); !slices.Contains(has, along.Relation) {
		panic(fmt.Sprintf("sar: %s reaches along relation %q, and the graph has %q", site, along.Relation, has))
	}
	return &propagator{part: p, site: p.book.Site(site), along: along}
}

// Count tells Options.Aggregated of a pass of a site along all of e's edges, for so many columns.
func (p *Partition) Count(site string, e *edges.Edges, columns int) {
	if tell := p.options.Aggregated; tell != nil {
		tell(site, e.Entries()*int64(columns))
	}
}

// Edges are those of a relation in a direction, made when they are first asked for. All workers ask for the
// same ones in the same order.
func (p *Partition) Edges(a gnn.Along) (*edges.Edges, error) {
	if e, made := p.made[a]; made {
		return e, nil
	}
	e, err := p.read(a)
	if err == nil {
		p.made[a] = e
	}
	return e, err
}

// read makes the edges from the share, or from the opposite ones where there is one partition.
func (p *Partition) read(a gnn.Along) (*edges.Edges, error) {
	held := &p.share.Edges
	r := &held.Relations[slices.Index(p.Relations(), a.Relation)]
	from := edges.Source{
		Relation: &r.In, HaloRows: r.HaloRows, Starts: held.Starts, Me: held.P, Holders: p.holders, IDs: p.rows.IDs,
		Copied: p.share.Unload,
	}
	switch {
	case a.Reversed && len(p.holders) == 1:
		e, err := p.Edges(gnn.Along{Relation: a.Relation})
		if err != nil {
			return nil, err
		}
		return e.Reversed(), nil
	case a.Reversed:
		from.Relation, from.HaloRows = &r.Out, r.HaloRowsOut
	}
	return edges.New(p.team, p.comm, from)
}
