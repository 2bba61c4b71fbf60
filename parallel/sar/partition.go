package sar

import (
	"cmp"
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
)

// Partition is a worker's part of a graph: all of it, one partition, or some of its rows. Its Propagators
// read from it.
type Partition struct {
	team    *kernel.Team
	comm    *comm.Comm // told of the place in the run
	from    Source
	made    map[gnn.Along]*edges.Edges // those that were asked for
	options Options

	costs *order.Costs
	epoch int // for errors
	read  int // bytes of mapped relations, since the share's memory was last given back
}

// unloadEvery is how many bytes of mapped relations are copied before the share's memory is given back: it
// has as many arrays as there are relations, which all are gone through.
const unloadEvery = 64 << 20

// Source is what a Partition is made from.
type Source struct {
	Rows     *autograd.RowSet
	Vertices []int32            // those of the rows, by their original ids, ascending; nil: all of the graph's
	Others   []*autograd.RowSet // of further vertex types
	Schema   gnn.Schema         // the graph's
	// Read makes the edges of a relation in a direction that lead into the rows. It is called once for each.
	Read func(gnn.Along) (*edges.Edges, error)
	// Mover moves the rows of the remote blocks' sources.
	Mover Mover
}

// Options are the settings of sequential aggregation and rematerialization.
type Options struct {
	// Prefetch is how many messages of other workers' rows are received ahead of the one that is aggregated.
	Prefetch int
	// KeepHalo receives all rows at once and keeps them until the layer's backward pass, instead of one
	// message after the other and again: it shows what SAR saves.
	KeepHalo bool
	// Aggregated takes edges × columns of each pass of a site along the edges, forward and backward; nil:
	// nobody asks. Self loops, which are a factor of each row, are not counted.
	Aggregated func(site string, edgeColumns int64)
}

// New is one partition of a graph, or all of it, on one of as many workers, which g.Halo connects (where the
// team only plans, one made of comm.Plan); g.Holders says who holds which. The structure is copied into the
// team's memory. All of them must call it, and from then on do the same in the same order.
func New(team *kernel.Team, g mesh.Groups, s *partition.Share, w order.Options, o Options) (*Partition, error) {
	p := ofShare(team, g, s, nil, order.NewCosts(w, nil), o)
	for _, r := range p.from.Schema.Relations {
		if _, err := p.Edges(gnn.Along{Relation: r.Name}); err != nil {
			return nil, err
		}
	}
	s.Unload()
	return p, nil
}

// Some are some rows of a share, by vertex type and their places among all, ascending.
type Some struct {
	Rows [][]int32
	// Into are those of Rows that an aggregation is computed for, with the bits that it has among all rows.
	// Rows have all of their in-neighbours along the relations that are asked for, and what others need of
	// this worker besides.
	Into [][]int32
}

// NewSome is New for some rows of a share, forward alone. Edges are read when they are first asked for, by
// all workers in the same order; against a relation along the share's Out, also where there is one partition.
func NewSome(team *kernel.Team, g mesh.Groups, s *partition.Share, some Some, costs *order.Costs, o Options) *Partition {
	return ofShare(team, g, s, &some, costs, o)
}

// ofShare is a Partition of the rows of a share, some nil: all.
func ofShare(team *kernel.Team, g mesh.Groups, s *partition.Share, some *Some, costs *order.Costs, o Options) (p *Partition) {
	from := Source{Schema: SchemaOf(s), Mover: &wire{team, g.Halo, o.Prefetch}}
	for i, t := range s.Edges.Types() {
		if some != nil {
			t.IDs, t.Rows = t.Vertices(some.Rows[i]), len(some.Rows[i])
		}
		rows := autograd.RowsOf(team, t.IDs, t.Rows, from.Schema.Types[i].Vertices, exchange.PeersOf(g.Halo))
		if i == 0 {
			from.Rows, from.Vertices = rows, t.IDs
		} else {
			from.Others = append(from.Others, rows)
		}
	}
	from.Read = func(a gnn.Along) (*edges.Edges, error) { return p.readEdges(g, s, some, a) }
	p = Of(team, g.Halo, from, costs, o)
	return p
}

// Of is a Partition of rows whose edges and halo are found otherwise than New finds them. Partitions of one
// worker may share a cost table.
func Of(team *kernel.Team, c *comm.Comm, from Source, costs *order.Costs, o Options) *Partition {
	return &Partition{team: team, comm: c, from: from, options: o, made: map[gnn.Along]*edges.Edges{}, costs: costs}
}

// SchemaOf is that of the graph that a share is of.
func SchemaOf(s *partition.Share) (schema gnn.Schema) {
	w := &s.Whole
	schema.Types = []gnn.VertexType{{Name: cmp.Or(w.Type, graph.VertexName), Vertices: w.Own(), Columns: w.FeatureColumns}}
	for _, t := range w.Others {
		schema.Types = append(schema.Types, gnn.VertexType{Name: t.Type, Vertices: t.Vertices, Columns: t.FeatureColumns})
	}
	for _, r := range s.Edges.Relations {
		schema.Relations = append(schema.Relations, gnn.Relation{Name: r.Name, Source: r.Source, Target: r.Target})
	}
	return schema
}

// Vertices are those of the worker's rows, by their original ids, ascending; nil: all of the graph's.
func (p *Partition) Vertices() []int32 { return p.from.Vertices }

// Rows are the vertices of the worker's rows.
func (p *Partition) Rows() *autograd.RowSet { return p.from.Rows }

// BeginEpoch says which epoch the work belongs to from now on; errors name it.
func (p *Partition) BeginEpoch(epoch int) {
	p.costs.BeginEpoch()
	p.epoch = epoch
	p.comm.At(epoch, "")
}

// Types are the vertices of the worker's rows of each vertex type.
func (p *Partition) Types() []*autograd.RowSet {
	return append([]*autograd.RowSet{p.from.Rows}, p.from.Others...)
}

// Schema is the graph's.
func (p *Partition) Schema() gnn.Schema { return p.from.Schema }

// relation is which of the graph's relations has that name, −1: none.
func (p *Partition) relation(name string) int {
	return slices.IndexFunc(p.from.Schema.Relations, func(r gnn.Relation) bool { return r.Name == name })
}

// ends are the vertex types that edges in a direction lead from and to.
func (p *Partition) ends(a gnn.Along) (source, target int) {
	r := &p.from.Schema.Relations[p.relation(a.Relation)]
	if a.Reversed {
		return r.Target, r.Source
	}
	return r.Source, r.Target
}

// vertices are how many the graph has of the type that edges in a direction lead from.
func (p *Partition) vertices(a gnn.Along) int {
	source, _ := p.ends(a)
	return p.from.Schema.Types[source].Vertices
}

// Propagator is the gnn.Propagator at a site.
func (p *Partition) Propagator(site string, along gnn.Along) gnn.Propagator {
	if p.relation(along.Relation) < 0 {
		panic(fmt.Sprintf("sar: %s reaches along relation %q, and the graph has %q", site, along.Relation, p.from.Schema.Names()))
	}
	return &propagator{part: p, site: p.costs.Layer(site), along: along}
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
	e, err := p.from.Read(a)
	if err == nil {
		p.made[a] = e
	}
	return e, err
}

// readEdges makes the edges from the share, or from the opposite ones where there is one partition.
func (p *Partition) readEdges(g mesh.Groups, s *partition.Share, some *Some, a gnn.Along) (*edges.Edges, error) {
	r := &s.Edges.Relations[p.relation(a.Relation)]
	source, target := p.ends(a)
	from := edges.Source{
		Relation: &r.In, HaloRows: r.HaloRows, Starts: s.Edges.Types()[source].Starts, Me: s.Edges.P, Holders: g.Holders,
		IDs: p.Types()[target].IDs, Ends: source != target, SourceIDs: p.Types()[source].IDs,
	}
	if some != nil {
		from.Some = &edges.Some{Rows: some.Rows[target], Into: some.Into[target], Sources: some.Rows[source]}
	}
	switch {
	case a.Reversed && len(g.Holders) == 1 && some == nil:
		e, err := p.Edges(gnn.Along{Relation: a.Relation})
		if err != nil {
			return nil, err
		}
		return e.Reversed(), nil
	case a.Reversed:
		from.Relation, from.HaloRows = &r.Out, r.HaloRowsOut
	}
	e, err := edges.New(p.team, g.Halo, from)
	if p.read += 8*len(from.Relation.Indptr) + 4*len(from.Relation.Sources); p.read > unloadEvery {
		s.Unload()
		p.read = 0
	}
	return e, err
}
