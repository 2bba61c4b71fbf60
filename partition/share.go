package partition

import (
	"errors"
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// Share is the part of a graph that a worker reads: the vertices of its partition, with features, labels and
// splits, and the edges into and out of them. With one partition it is the whole graph.
type Share struct {
	Types []Values // of each vertex type; only the first has labels and splits
	Edges PartEdges
	Whole Whole

	part      *graph.Graph                    // holds the arrays
	places    func(kind int) (*Places, error) // of a vertex type of the whole graph
	relations openRelations                   // of the whole graph
}

// Values has the vertices of one type in a share, in ascending order of their original ids.
type Values struct {
	graph.Frame         // its splits list rows of the share
	IDs         []int32 // original id of each row, ascending; nil: row i is vertex i
	// Arrangement is the form in which FeatureRow gives dense features; nil: as they are stored.
	Arrangement *columns.Arrangement
}

// PartEdges has the edges into and out of the rows of one partition. The other end of an edge may be in any
// partition. It is given by its position: vertices of a type are sorted by partition, then by id, so that
// row r of partition q has position Starts[q]+r.
type PartEdges struct {
	P         int        // the partition's number
	Types     []PartRows // of each vertex type
	Relations []Relation
	// All has the relations with all edges, in a Subgraph with a Silent relation: the workers of a partition
	// divide its rows by them. nil: Relations has all edges.
	All []Relation
}

// Partitions returns the number of partitions.
func (e *PartEdges) Partitions() int { return len(e.Types[0].Starts) - 1 }

// PartRows are a partition's vertices of one type.
type PartRows struct {
	Type   string
	Rows   int
	IDs    []int32 // original id of each row, ascending; nil: row i is vertex i
	Starts []int   // len K+1: the first position of each partition, and the number of vertices
}

// ID returns the original id of a row.
func (r *PartRows) ID(row int32) int32 {
	if r.IDs == nil {
		return row
	}
	return r.IDs[row]
}

// Vertices returns the original ids of some rows. Both are ascending.
func (r *PartRows) Vertices(rows []int32) []int32 {
	if r.IDs == nil {
		return rows
	}
	ids := make([]int32, len(rows))
	for i, row := range rows {
		ids[i] = r.IDs[row]
	}
	return ids
}

// Relation is one edge type of a share.
type Relation struct {
	Name           string // unique: SOURCE__NAME__TARGET if several relations have the name
	Silent         bool   // the edges pass no messages: see Subgraph
	Source, Target int    // numbers of the vertex types that it joins
	// In lists the in-neighbours of each row of the target type, as positions of the source type, ascending
	// within a row. Weights and edge features have the same order. HaloRows[p][q] counts the rows of
	// partition q that partition p needs for it.
	In       graph.Relation
	HaloRows [][]int
	// Out lists the out-neighbours of each row of the source type by their positions, ascending, with
	// weights and without edge features. Models that aggregate in the reverse direction need it. With one
	// partition it is empty: reverse In instead.
	Out         graph.Relation
	HaloRowsOut [][]int
}

// Copy returns a share to arrange or to give other features, while others read s. It uses the arrays of s,
// and is closed with it.
func (s *Share) Copy() *Share {
	copied := *s
	copied.Types = slices.Clone(s.Types)
	return &copied
}

// Arrange makes FeatureRow give the features of each vertex type in the form of an arrangement; an
// arrangement that is nil keeps them, and so does nil for all types.
func (s *Share) Arrange(types []*columns.Arrangement) {
	if types == nil {
		return
	}
	s.Whole = s.Whole.ArrangedBy(types)
	for i, a := range types {
		s.Types[i].Arrangement = a
	}
}

// Given gives vertex types without features, by their numbers, so many columns of zeros. A caller replaces
// the zeros.
func (s *Share) Given(columns map[int]int) {
	s.Whole = s.Whole.Given(columns)
	for kind, n := range columns {
		v := &s.Types[kind]
		v.Features = graph.Features{Columns: n, Indptr: make([]int64, v.Count+1)}
	}
}

// FeatureColumns is the number of features of a row, arranged.
func (v *Values) FeatureColumns() int { return v.Arrangement.Width(v.Features.Columns) }

// FeatureRow returns the stored features of a row, arranged. If the arrangement changes them, they are in
// room, which grows.
func (v *Values) FeatureRow(room []float32, row int) []float32 {
	return v.Arrangement.Row(room, v.Features.Row(row))
}

// ID returns the original id of a row.
func (v *Values) ID(row int) int32 {
	if v.IDs == nil {
		return int32(row)
	}
	return v.IDs[row]
}

// Places returns the rows of some vertices, given by their original ids, ascending. It returns nil for all
// rows, and panics on a vertex without a row.
func (v *Values) Places(ids []int32) []int32 {
	if ids == nil || len(ids) == v.Count {
		return nil
	}
	if v.IDs == nil {
		return ids
	}
	places := make([]int32, len(ids))
	row := 0
	for i, id := range ids {
		for v.IDs[row] < id {
			row++
		}
		if v.IDs[row] != id {
			panic(fmt.Sprintf("partition: vertex %d has no row in this share", id))
		}
		places[i] = int32(row)
	}
	return places
}

// Targets returns the labels and splits of some vertices, given by their original ids, ascending; nil: all
// rows. The splits list indices into ids.
func (v *Values) Targets(ids []int32) (graph.Labels, []graph.Split) {
	places := v.Places(ids)
	if places == nil {
		return v.Labels, v.Splits
	}
	return v.Labels.Select(places), graph.SplitsOf(v.Splits, places)
}

// All returns the share of a graph that is not partitioned. The graph must pass Check. The share uses its
// arrays.
func All(g *graph.Graph) *Share {
	return Some(g, make([][]int32, len(g.Types)), make([]graph.Relation, len(g.Relations)), WholeOf(g))
}

// Some returns the share of some vertices of a larger graph, which whole describes. g has the vertices. out
// has the out-neighbours along each relation, as Relation.Out. ids are the vertices of each type in the
// larger graph, ascending; nil: the vertices of g.
func Some(g *graph.Graph, ids [][]int32, out []graph.Relation, whole Whole) *Share {
	s := &Share{Whole: whole, part: g}
	s.places = func(kind int) (*Places, error) { return &Places{Starts: s.Edges.Types[kind].Starts}, nil }
	s.relations = inMemory(g)
	var starts [][]int
	for _, t := range g.Types {
		starts = append(starts, []int{0, t.Count})
	}
	s.give(ids, starts, out)
	return s
}

// newShare is the share of partition p.
func newShare(
	part *graph.Part, p int, whole Whole, places func(kind int) (*Places, error), all openRelations,
) *Share {
	s := &Share{Whole: whole, part: part.Graph, places: places, relations: all}
	s.give(part.IDs, whole.Statistics.starts(), part.Out)
	s.Edges.P = p
	for i, halo := range whole.Statistics.Halos() {
		r := &s.Edges.Relations[i]
		r.HaloRows, r.HaloRowsOut = halo.Rows, halo.RowsOut
	}
	return s
}

// Places returns the order of all partitions in some vertex types, whose vertices a Numbering of the types
// numbers. The first call for a type reads a stored order, for all shares that the same Description has
// opened. It refuses an order that does not fit the share's rows.
func (s *Share) Places(kinds ...int) (*Places, error) {
	var all []*Places
	for _, kind := range kinds {
		places, err := s.placesOf(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, places)
	}
	return merged(all), nil
}

// placesOf returns the order of all partitions in a vertex type.
func (s *Share) placesOf(kind int) (*Places, error) {
	places, err := s.places(kind)
	if err != nil || len(places.Starts) == 2 {
		return places, err
	}
	rows := s.Edges.Types[kind]
	from, to := rows.Starts[s.Edges.P], rows.Starts[s.Edges.P+1]
	if !slices.Equal(places.Starts, rows.Starts) || !slices.Equal(places.IDs[from:to], rows.IDs) {
		return nil, refusal.Graph.Errorf("the vertices of partition %d are not those that %s gives it; %s",
			s.Edges.P, assignmentFile, partitionAgain)
	}
	return places, nil
}

// openRelations opens a graph that has the relations of the whole graph. done gives it back.
type openRelations func() (g *graph.Graph, done func() error, err error)

// inMemory are the relations of an open graph, which stays open.
func inMemory(g *graph.Graph) openRelations {
	return func() (*graph.Graph, func() error, error) { return g, func() error { return nil }, nil }
}

// storedIn are the relations of a store.
func storedIn(store string) openRelations {
	return func() (*graph.Graph, func() error, error) {
		g, err := graph.OpenRelations(store)
		if err != nil {
			return nil, nil, err
		}
		return g, g.Close, nil
	}
}

// ReadEdgeSplits calls read with the edge splits of the whole graph's relations, by the relation's number;
// nil for one without. If the graph is stored, they are valid until read returns.
func (s *Share) ReadEdgeSplits(read func(splits []*graph.EdgeSplit)) error {
	return s.ReadRelations(func(all []graph.Relation) error {
		var splits []*graph.EdgeSplit
		for i := range all {
			splits = append(splits, all[i].EdgeSplit)
		}
		read(splits)
		return nil
	})
}

// ReadRelations calls read with the relations of the whole graph. If the graph is stored, they are valid
// until read returns.
func (s *Share) ReadRelations(read func(all []graph.Relation) error) error {
	g, done, err := s.relations()
	if err != nil {
		return err
	}
	err = g.Guard(func() error { return read(g.Relations) })
	return errors.Join(err, done())
}

// LabelledBy makes ReadRelations read the relations of g, which stays open: labels and splits of edges may
// differ from those in the store.
func (s *Share) LabelledBy(g *graph.Graph) { s.relations = inMemory(g) }

// give gives the share the vertices and the edges of its part. ids and starts are as in Rows, out as in
// Relation.
func (s *Share) give(ids [][]int32, starts [][]int, out []graph.Relation) {
	g := s.part
	for i, t := range g.Types {
		s.Types = append(s.Types, Values{Frame: t.Frame, IDs: ids[i]})
		s.Edges.Types = append(s.Edges.Types, PartRows{t.Name(), t.Count, ids[i], starts[i]})
	}
	for i := range g.Relations {
		r := relationOf(g, i)
		r.Out = out[i]
		s.Edges.Relations = append(s.Edges.Relations, r)
	}
}

// relationOf returns relation i of a graph that passes Check, with its in-edges.
func relationOf(g *graph.Graph, i int) Relation {
	r := Relation{In: g.Relations[i]}
	var err error
	if r.Source, r.Target, err = g.Joins(&r.In); err != nil {
		panic("partition: " + err.Error())
	}
	_, r.Name, _ = r.In.Ends()
	if g.Typed() {
		r.Name = r.In.FullName()
	}
	return r
}

// Guard runs f, which reads the share's arrays. If a mapped file is truncated meanwhile, Guard returns an
// error.
func (s *Share) Guard(f func() error) error { return s.part.Guard(f) }

// Unload gives the pages of mapped files back to the system, after a pass over them. The arrays stay usable:
// the system reads a page again when it is used.
func (s *Share) Unload() { s.part.Unload() }

// Close releases the share's mapped files. Its arrays must not be used afterwards. It does nothing for a
// share made in memory.
func (s *Share) Close() error { return s.part.Close() }

// Split divides a graph that passes Check into its shares, all in memory. Shares may use arrays of g and of
// each other: g must stay open, and nobody may write to the arrays.
func Split(g *graph.Graph, a *Assignment) ([]*Share, error) {
	if err := a.check(g); err != nil {
		return nil, err
	}
	shares := make([]*Share, a.K)
	err := g.Guard(func() error {
		d := newDivider(g, a, nil)
		parts := make([]*graph.Held, a.K)
		err := d.in(func(p int, part *graph.Part) (graph.Sink, error) {
			parts[p] = graph.Hold(part)
			return parts[p], nil
		})
		if err == nil {
			err = d.out()
		}
		if err != nil {
			return err
		}
		places := func(kind int) (*Places, error) { return d.places[kind], nil }
		for p, part := range parts {
			shares[p] = newShare(part.Part, p, d.whole, places, inMemory(g))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return shares, nil
}
