package sar

import (
	"fmt"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/order"
	"weft/partition"
	"weft/tensor"
)

// Partition is a worker's part of a graph: the whole graph, one partition, or some of its rows. Its
// Propagators read from it.
type Partition struct {
	env     axis.Env
	options axis.Options
	team    *kernel.Team
	comm    *comm.Comm // knows the epoch and the layer, for errors
	from    Source
	made    map[edgesKey]*edges.Edges // edges that have been read
	thin    map[gnn.Along]*edges.Thin // with DropEdge, the edges of this epoch

	costs *order.Costs
	epoch int // for errors
	read  int // bytes of mapped relations read since the last Share.Unload
}

// edgesKey is a relation and direction, with what travels between partitions along its edges.
type edgesKey struct {
	along gnn.Along
	halo  edges.Halo
}

// unloadEvery is the number of bytes of mapped relations after which Share.Unload gives their pages back to
// the system. A graph of many relations has many mapped arrays, and all of them are read.
const unloadEvery = 64 << 20

// Source is what a Partition is made of.
type Source struct {
	Types    []*autograd.RowSet // the rows of each vertex type
	Vertices []int32            // original ids of the first type's rows, ascending; nil: all vertices
	Schema   gnn.Schema         // of the graph
	// Read makes the edges of a relation and direction into the rows. It is called once for each of these,
	// and once more with the halo of the settings.
	Read func(gnn.Along, edges.Halo) (*edges.Edges, error)
	// Exchanger exchanges the rows of the remote blocks' sources.
	Exchanger Exchanger
	// Chunk says that the rows are one of several chunks: gradients from other chunks are added to theirs.
	Chunk bool
	Slice int // the number of the slice of columns that the Partition aggregates
}

// New makes this worker's partition of a graph, or the whole graph for a single worker. Groups.Halo connects
// the workers of all partitions. Groups.Holders says which rank holds which partition. The structure is
// copied into the team's memory: with HaloRows now, else at its first use. All of these workers must call
// New, and must then make the same calls in the same order.
func New(e axis.Env, o axis.Options) (*Partition, error) {
	p := ofShare(e, nil, e.Costs(&o, nil), o)
	// Which edges are needed depends on the model. They are read at their first use.
	if p.options.Halo != edges.HaloRows {
		return p, nil
	}
	for _, r := range p.from.Schema.Relations {
		if _, err := p.Edges(gnn.Along{Relation: r.Name}); err != nil {
			return nil, err
		}
	}
	e.Share.Unload()
	return p, nil
}

// Some selects some rows of a share. Rows and Into have a list for each vertex type: row numbers in the
// share, ascending.
type Some struct {
	Rows [][]int32
	// Into are the rows, among Rows, for which an aggregation is computed, with the same bits as for the
	// whole share. Rows must hold all in-neighbours of Into along the relations that the model uses, and the
	// rows that other workers need from this worker.
	Into [][]int32
	// Gradients says that there may be a backward pass.
	Gradients bool
}

// NewSome makes the Partition of some rows of a share. Edges are read at their first use, by all workers in
// the same order. The reverse direction of a relation reads the share's Out, even with one partition.
func NewSome(e axis.Env, some Some, costs *order.Costs, o axis.Options) *Partition {
	return ofShare(e, &some, costs, o)
}

// ofShare makes the Partition of the selected rows of a share, or of all rows if some is nil.
func ofShare(e axis.Env, some *Some, costs *order.Costs, o axis.Options) (p *Partition) {
	g := &e.Groups
	from := Source{Schema: SchemaOf(e.Share), Exchanger: newWire(e.Team, g.Halo, o.Prefetch), Slice: g.Slice}
	for i, t := range e.Share.Edges.Types {
		if some != nil {
			t.IDs = t.Vertices(some.Rows[i])
			t.Rows = len(some.Rows[i])
		}
		if i == 0 {
			from.Vertices = t.IDs
		}
		from.Types = append(from.Types, autograd.RowsOf(e.Team, t.IDs, t.Rows, from.Schema.Types[i].Vertices,
			exchange.PeersOf(g.Halo)))
	}
	from.Read = func(a gnn.Along, h edges.Halo) (*edges.Edges, error) { return p.readEdges(some, a, h) }
	if len(g.Holders) == 1 || some != nil {
		o.Halo = edges.HaloRows
	}
	p = Of(e, from, costs, o)
	return p
}

// Of makes a Partition of rows whose edges and halo do not come from a share. Partitions of one worker may
// share a cost table.
func Of(e axis.Env, from Source, costs *order.Costs, o axis.Options) *Partition {
	return &Partition{
		env: e, options: o, team: e.Team, comm: e.Groups.Halo, from: from, made: map[edgesKey]*edges.Edges{},
		thin: map[gnn.Along]*edges.Thin{}, costs: costs,
	}
}

// SchemaOf returns the schema of the graph to which the share belongs.
func SchemaOf(s *partition.Share) (schema gnn.Schema) {
	for _, t := range s.Whole.Types {
		schema.Types = append(schema.Types, gnn.VertexType{
			Name: t.Type, Vertices: t.Vertices, Columns: t.FeatureColumns, Sparse: t.FeatureValues > 0,
		})
	}
	for _, r := range s.Edges.Relations {
		schema.Relations = append(schema.Relations, gnn.Relation{
			Name: r.Name, Source: r.Source, Target: r.Target, Columns: r.In.Features.Columns,
			Unweighted: r.In.Weights == nil && len(r.In.Sources) > 0, Silent: r.Silent,
		})
	}
	return schema
}

// Vertices returns the original ids of the worker's vertices, ascending; nil: all vertices of the graph.
func (p *Partition) Vertices() []int32 { return p.from.Vertices }

// Rows describes the worker's rows.
func (p *Partition) Rows() *autograd.RowSet { return p.from.Types[0] }

// BeginEpoch sets the epoch of the work that follows. Errors name it.
func (p *Partition) BeginEpoch(epoch int) {
	p.costs.BeginEpoch()
	p.epoch = epoch
	p.comm.At(epoch, "")
}

// Types describes the worker's rows of each vertex type.
func (p *Partition) Types() []*autograd.RowSet { return p.from.Types }

// Places returns nil: a partition has all rows of its share.
func (p *Partition) Places(int) []int32 { return nil }

// Schema returns the schema of the graph along which messages pass.
func (p *Partition) Schema() gnn.Schema { return p.from.Schema.Passing() }

// relation returns the index of the relation of that name, or −1.
func (p *Partition) relation(name string) int {
	return slices.IndexFunc(p.from.Schema.Relations, func(r gnn.Relation) bool { return r.Name == name })
}

// Ends returns the vertex types of the sources and of the destinations of a relation in a direction.
func (p *Partition) Ends(a gnn.Along) (source, target int) {
	r := &p.from.Schema.Relations[p.relation(a.Relation)]
	if a.Reversed {
		return r.Target, r.Source
	}
	return r.Source, r.Target
}

// vertices returns how many vertices of the sources' type the graph has.
func (p *Partition) vertices(a gnn.Along) int {
	source, _ := p.Ends(a)
	return p.from.Schema.Types[source].Vertices
}

// Propagator returns the gnn.Propagator of the layer with that module path.
func (p *Partition) Propagator(path string, along gnn.Along) gnn.Propagator {
	if p.relation(along.Relation) < 0 {
		panic(fmt.Sprintf("sar: %s aggregates over relation %q, but the graph has %q", path, along.Relation,
			p.from.Schema.Names()))
	}
	return &propagator{part: p, layer: p.costs.Layer(path), along: along}
}

// Count calls Env.Aggregated for one pass of a layer over so many edges, for so many columns.
func (p *Partition) Count(path string, entries int64, columns int) {
	if tell := p.env.Aggregated; tell != nil {
		tell(path, entries*int64(columns))
	}
}

// Edges returns the edges of a relation in a direction, for an aggregation to which all rows travel, whatever
// Halo says. It makes them at the first call. All workers ask for the same edges in the same order.
func (p *Partition) Edges(a gnn.Along) (*edges.Edges, error) { return p.edgesOf(a, edges.HaloRows) }

// EdgesOn returns the edges for a pass on a tape: the edges that the pass is given. With DropEdge, in
// training, these are the edges that the epoch keeps.
func (p *Partition) EdgesOn(t *autograd.Tape, a gnn.Along) (*edges.Edges, error) {
	return p.edgesOn(t, a, edges.HaloRows)
}

// edgesOn returns the edges for a pass on a tape. h says what travels between partitions.
func (p *Partition) edgesOn(t *autograd.Tape, a gnn.Along, h edges.Halo) (*edges.Edges, error) {
	if pass, is := t.Edges.(*edges.Inputs); is {
		e, err := p.edgesOf(a, edges.HaloRows)
		if err != nil {
			return nil, err
		}
		return pass.PassEdges(e, a), nil
	}
	e, err := p.edgesOf(a, h)
	if err != nil || !t.Training || p.options.DropEdge == 0 {
		return e, err
	}
	if p.thin[a] == nil {
		p.thin[a] = e.Thin(a.Reversed)
	}
	return p.thin[a].Draw(edges.Drop{Key: t.Random.Key("drop-edge " + a.Relation), P: p.options.DropEdge}),
		nil
}

// edgesOf returns the edges of a relation in a direction. h says what travels between partitions.
func (p *Partition) edgesOf(a gnn.Along, h edges.Halo) (*edges.Edges, error) {
	key := edgesKey{a, h}
	if e, made := p.made[key]; made {
		return e, nil
	}
	e, err := p.from.Read(a, h)
	if err == nil {
		p.made[key] = e
	}
	return e, err
}

// readEdges makes the edges from the share. With one partition it makes the reverse direction from the edges
// as they are stored.
func (p *Partition) readEdges(some *Some, a gnn.Along, h edges.Halo) (*edges.Edges, error) {
	g, s := &p.env.Groups, p.env.Share
	r := &s.Edges.Relations[p.relation(a.Relation)]
	source, target := p.Ends(a)
	from := edges.Source{
		Relation: &r.In, HaloRows: r.HaloRows, Starts: s.Edges.Types[source].Starts, Me: s.Edges.P,
		Holders: g.Holders,
		IDs:     p.Types()[target].IDs, Ends: source != target, SourceIDs: p.Types()[source].IDs,
		Halo: h, Back: &r.Out, BackStarts: s.Edges.Types[target].Starts, Data: p.env.EdgeData,
		Common: g.Common,
	}
	if own := p.env.Own; own != nil {
		from.Own, from.OwnSources = own[target], own[source]
	}
	if some != nil {
		from.Some = &edges.Some{
			Rows: some.Rows[target], Into: some.Into[target], Sources: some.Rows[source],
			Gradients: some.Gradients,
		}
	}
	switch {
	case a.Reversed && len(g.Holders) == 1 && some == nil:
		e, err := p.Edges(gnn.Along{Relation: a.Relation})
		if err != nil {
			return nil, err
		}
		return e.Reversed(), nil
	case a.Reversed:
		from.Relation, from.HaloRows, from.Back = &r.Out, r.HaloRowsOut, &r.In
	}
	if h != edges.HaloRows { // a linear aggregation reads no features
		from.Data = edges.WithoutFeatures
	}
	e, err := edges.New(p.team, g.Halo, from)
	if p.options.Halo != edges.HaloRows { // else New reads the edges, and its caller makes them read-only
		p.team.Memory.SetAllReadOnly(tensor.Graph)
		// Otherwise a layer may be writing aggregated features that it keeps.
		if from.Data != edges.WithoutFeatures {
			p.team.Memory.SetAllReadOnly(tensor.Features)
		}
	}
	p.read += 8*len(from.Relation.Indptr) + 4*len(from.Relation.Sources) +
		4*len(from.Relation.Features.Dense)
	if p.read > unloadEvery {
		s.Unload()
		p.read = 0
	}
	return e, err
}
