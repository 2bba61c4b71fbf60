package partition

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// Share is the part of a graph that a worker reads: the vertices of its partition, with features, labels and
// splits, and the edges into and out of them. With one partition it is the whole graph.
type Share struct {
	Values Values   // of the first vertex type
	Others []Values // of further types, without labels and splits
	Edges  Edges
	Whole  Whole

	part   *graph.Graph                    // holds the arrays
	places func(kind int) (*Places, error) // of a vertex type of the whole graph
	splits edgeSplits                      // of the whole graph
}

// Values has the vertices of one type in a share, and what is stored for each. Rows are in ascending order of
// the vertices' original ids.
type Values struct {
	Rows     int
	IDs      []int32 // original id of each row, ascending; nil: row i is vertex i
	Features graph.Features
	Labels   graph.Labels
	Splits   []graph.Split // lists of row numbers
}

// Edges has the edges into and out of the rows of one partition. The other end of an edge may be in any
// partition. It is given by its position: vertices of a type are sorted by partition, then by id, so that
// row r of partition q has position Starts[q]+r.
type Edges struct {
	Rows      int     // of the first vertex type
	IDs       []int32 // original id of each such row, ascending; nil: row i is vertex i
	P         int     // the number of the partition
	Starts    []int   // len K+1: the first position of each partition, and V, of the first type
	Others    []Rows  // of further types
	Relations []Relation
}

// Rows are a partition's vertices of one type; the fields are as in Edges.
type Rows struct {
	Type   string
	Rows   int
	IDs    []int32
	Starts []int
}

// ID returns the original id of a row.
func (r *Rows) ID(row int32) int32 {
	if r.IDs == nil {
		return row
	}
	return r.IDs[row]
}

// Vertices returns the original ids of some rows. Both are ascending.
func (r *Rows) Vertices(rows []int32) []int32 {
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
	Source, Target int    // numbers of the vertex types that it joins
	// In lists the in-neighbours of each row of the target type, as positions of the source type. They ascend
	// within a row; weights and edge features have the same order. HaloRows[p][q] is how many rows partition
	// p needs of partition q for it.
	In       graph.Relation
	HaloRows [][]int
	// Out lists the out-neighbours of each row of the source type in the same way, with weights and without
	// edge features. Models that aggregate in the reverse direction need it. With one partition it is empty:
	// reverse In instead.
	Out         graph.Relation
	HaloRowsOut [][]int
}

// Whole is what each worker knows of the whole graph.
type Whole struct {
	Vertices       int                `json:"vertices"` // of all types
	Edges          int64              `json:"edges"`    // of all relations
	Type           string             `json:"type,omitempty"`
	Others         []WholeType        `json:"others,omitempty"`
	Graphs         int                `json:"graphs,omitempty"` // that are stored as one; 0: it is one
	FeatureColumns int                `json:"features"`
	FeatureValues  int64              `json:"feature_values,omitempty"` // stored by sparse features; 0: they are dense
	Classes        int                `json:"classes"`
	ValueColumns   int                `json:"value_columns,omitempty"`  // of labels that are values
	SeveralLabels  bool               `json:"several_labels,omitempty"` // a vertex may have any number of classes
	Splits         []graph.SplitSizes `json:"splits"`
	Metric         string             `json:"metric"`
	Provenance     string             `json:"provenance"`
	EdgeSplits     []WholeEdgeSplit   `json:"edge_splits,omitempty"`
	Statistics     Statistics         `json:"-"` // stored in the Description by which the share was opened
}

// WholeEdgeSplit is what each worker knows of the edge split of a relation.
type WholeEdgeSplit struct {
	Relation  int                `json:"relation"` // its number
	Negatives graph.NegativeForm `json:"negatives,omitempty"`
}

// WholeType is what each worker knows of a further vertex type.
type WholeType struct {
	Type           string `json:"type"`
	Vertices       int    `json:"vertices"`
	FeatureColumns int    `json:"features"`
	FeatureValues  int64  `json:"feature_values,omitempty"` // stored by sparse features; 0: they are dense
}

// Own returns the number of vertices of the first type.
func (w *Whole) Own() int {
	n := w.Vertices
	for _, t := range w.Others {
		n -= t.Vertices
	}
	return n
}

// Counts returns the number of vertices of each type.
func (w *Whole) Counts() []int {
	counts := []int{w.Own()}
	for _, t := range w.Others {
		counts = append(counts, t.Vertices)
	}
	return counts
}

// TypeName returns the name of a vertex type, by its number.
func (w *Whole) TypeName(kind int) string {
	if kind > 0 {
		return w.Others[kind-1].Type
	}
	return cmp.Or(w.Type, graph.VertexName)
}

// WholeOf describes a graph, without the statistics of partitions.
func WholeOf(g *graph.Graph) Whole {
	w := Whole{
		Vertices: g.Vertices(), Edges: g.Edges(), FeatureColumns: g.Features.Columns, FeatureValues: int64(len(g.Features.Indices)),
		Classes: g.Labels.Classes, ValueColumns: g.Labels.Columns, SeveralLabels: g.Labels.MultiLabel(), Type: g.Type,
		Graphs: g.Graphs, Splits: []graph.SplitSizes{}, Metric: g.Metric, Provenance: g.Provenance,
	}
	for _, t := range g.Others {
		w.Others = append(w.Others, WholeType{t.Type, t.Count, t.Features.Columns, int64(len(t.Features.Indices))})
	}
	for _, s := range g.Splits {
		w.Splits = append(w.Splits, graph.SplitSizes{Train: len(s.Train), Val: len(s.Val), Test: len(s.Test)})
	}
	for i := range g.Relations {
		if s := g.Relations[i].EdgeSplit; s != nil {
			w.EdgeSplits = append(w.EdgeSplits, WholeEdgeSplit{i, s.Negatives})
		}
	}
	return w
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
	if ids == nil || len(ids) == v.Rows {
		return nil
	}
	if v.IDs == nil {
		return ids
	}
	places, row := make([]int32, len(ids)), 0
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

// Targets returns the labels and splits of some vertices, given by their original ids, ascending; nil: of all
// rows. The splits list indices into ids.
func (v *Values) Targets(ids []int32) (graph.Labels, []graph.Split) {
	places := v.Places(ids)
	if places == nil {
		return v.Labels, v.Splits
	}
	g := (&graph.Graph{Labels: v.Labels, Splits: v.Splits}).Rows(places)
	return g.Labels, g.Splits
}

// Types returns the rows of all vertex types, in order.
func (e *Edges) Types() []Rows {
	return append([]Rows{{Rows: e.Rows, IDs: e.IDs, Starts: e.Starts}}, e.Others...)
}

// All returns the share of a graph that is not partitioned. The graph must pass Check. The share uses its
// arrays.
func All(g *graph.Graph) *Share {
	s := &Share{Whole: WholeOf(g), part: g}
	s.places = func(kind int) (*Places, error) { return &Places{Starts: s.Edges.Types()[kind].Starts}, nil }
	s.splits = inMemory(g)
	for i, t := range g.Types() {
		s.add(i, t, Rows{Type: t.Type, Rows: t.Count, Starts: []int{0, t.Count}})
	}
	s.Values.Labels, s.Values.Splits = g.Labels, g.Splits
	for i := range g.Relations {
		s.Edges.Relations = append(s.Edges.Relations, relationOf(g, i))
	}
	return s
}

// newShare is the share of partition p. starts are by vertex type.
func newShare(part *graph.Part, p int, starts [][]int, whole Whole, places func(kind int) (*Places, error), splits edgeSplits) *Share {
	g, counts := part.Graph, whole.Statistics
	s := &Share{Whole: whole, part: g, places: places, splits: splits}
	for i, t := range g.Types() {
		s.add(i, t, Rows{Type: t.Type, Rows: len(part.IDs[i]), IDs: part.IDs[i], Starts: starts[i]})
	}
	s.Edges.P = p
	s.Values.Labels, s.Values.Splits = g.Labels, g.Splits
	for i := range g.Relations {
		r := relationOf(g, i)
		halo := counts.Halos()[i]
		r.Out, r.HaloRows, r.HaloRowsOut = part.Out[i], halo.Rows, halo.RowsOut
		s.Edges.Relations = append(s.Edges.Relations, r)
	}
	return s
}

// Places returns the order of all partitions in some vertex types, as a Numbering of these has their
// vertices. Of stored ones the first call for a type reads it, for all shares that were opened by the same
// Description. It refuses an order that is not the one of the share's rows.
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
	rows := s.Edges.Types()[kind]
	from, to := rows.Starts[s.Edges.P], rows.Starts[s.Edges.P+1]
	if !slices.Equal(places.Starts, rows.Starts) || !slices.Equal(places.IDs[from:to], rows.IDs) {
		return nil, refusal.Graph.Errorf("the vertices of partition %d are not those that %s gives it; %s", s.Edges.P, assignmentFile, partitionAgain)
	}
	return places, nil
}

// edgeSplits opens a graph that has the edge splits of the whole graph. done gives it back.
type edgeSplits func() (g *graph.Graph, done func() error, err error)

// inMemory are the edge splits of an open graph, which stays open.
func inMemory(g *graph.Graph) edgeSplits {
	return func() (*graph.Graph, func() error, error) { return g, func() error { return nil }, nil }
}

// storedSplits are the edge splits of a store.
func storedSplits(store string) edgeSplits {
	return func() (*graph.Graph, func() error, error) {
		g, err := graph.OpenEdgeSplits(store)
		if err != nil {
			return nil, nil, err
		}
		return g, g.Close, nil
	}
}

// ReadEdgeSplits calls read with the edge splits of the whole graph's relations, by the relation's number;
// nil for one without. Of a stored graph they are valid until read returns.
func (s *Share) ReadEdgeSplits(read func(splits []*graph.EdgeSplit)) error {
	g, done, err := s.splits()
	if err != nil {
		return err
	}
	var splits []*graph.EdgeSplit
	for i := range g.Relations {
		splits = append(splits, g.Relations[i].EdgeSplit)
	}
	err = g.Guard(func() error {
		read(splits)
		return nil
	})
	return errors.Join(err, done())
}

// add adds vertex type i.
func (s *Share) add(i int, t graph.VertexType, rows Rows) {
	v := Values{Rows: rows.Rows, IDs: rows.IDs, Features: t.Features}
	if i == 0 {
		s.Values, s.Edges.Rows, s.Edges.IDs, s.Edges.Starts = v, rows.Rows, rows.IDs, rows.Starts
		return
	}
	s.Others, s.Edges.Others = append(s.Others, v), append(s.Edges.Others, rows)
}

// relationOf returns relation i of a graph that passes Check, with its in-edges.
func relationOf(g *graph.Graph, i int) Relation {
	r := Relation{In: g.Relations[i]}
	var err error
	if r.Source, r.Target, err = g.Joins(&r.In); err != nil {
		panic("partition: " + err.Error())
	}
	if _, r.Name, _ = r.In.Ends(); g.Typed() {
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
		c := newDivider(g, a)
		for p := range shares {
			shares[p] = newShare(c.part(p), p, c.starts(), c.whole, c.places, inMemory(g))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return shares, nil
}

// layout is the order of the partitions in a vertex type: vertices sorted by partition, then by id.
type layout struct {
	of       []int32 // len V: the partition of each vertex
	starts   []int   // len K+1: first position of each partition
	order    []int32 // len V: the vertex at each position
	position []int32 // len V: the position of each vertex
}

// layouts returns the layouts of all vertex types of a graph.
func layouts(g *graph.Graph, a *Assignment) (all []*layout) {
	first := g.FirstIDs()
	for i := range g.Types() {
		all = append(all, newLayout(a.Of[first[i]:first[i+1]], a.K))
	}
	return all
}

func newLayout(of []int32, k int) *layout {
	l := &layout{of: of, starts: make([]int, k+1), order: make([]int32, len(of)), position: make([]int32, len(of))}
	for _, p := range of {
		l.starts[p+1]++
	}
	for p := range k {
		l.starts[p+1] += l.starts[p]
	}
	next := slices.Clone(l.starts)
	for v, p := range of {
		l.order[next[p]], l.position[v] = int32(v), int32(next[p])
		next[p]++
	}
	return l
}

// onlyStarts lets go of all but the first position of each partition.
func (l *layout) onlyStarts() { l.of, l.order, l.position = nil, nil, nil }

// places are the same order.
func (l *layout) places() *Places { return &Places{Starts: l.starts, IDs: l.order, Of: l.position} }

// ids are the vertices of partition p, ascending.
func (l *layout) ids(p int) []int32 { return l.order[l.starts[p]:l.starts[p+1]:l.starts[p+1]] }

// divider makes the shares of a graph, in the order of the partitions. Besides the share it needs some 20
// bytes per vertex, and memory for the out-edges of an eighth of the partitions. It serves Split; Write
// works in streams.
type divider struct {
	g       *graph.Graph
	a       *Assignment
	layouts []*layout // by vertex type
	edges   []*edgeDivider
	whole   Whole
}

// edgeDivider makes the edges of a relation's shares.
type edgeDivider struct {
	from           *graph.Relation
	k              int
	source, target *layout
	outDegree      []int64

	outFrom, outTo int            // the partitions whose out-edges are in outs
	outs           graph.Relation // of all their vertices
}

func newDivider(g *graph.Graph, a *Assignment) *divider {
	c := &divider{g: g, a: a, layouts: layouts(g, a)}
	for i := range g.Relations {
		r := relationOf(g, i)
		e := &edgeDivider{from: &g.Relations[i], k: a.K, source: c.layouts[r.Source], target: c.layouts[r.Target]}
		e.outDegree = make([]int64, len(e.source.of))
		for _, u := range e.from.Sources {
			e.outDegree[u]++
		}
		c.edges = append(c.edges, e)
	}
	c.whole = WholeOf(g)
	c.whole.Statistics = *measure(g, a, c.layouts)
	return c
}

// places are those of a vertex type.
func (c *divider) places(kind int) (*Places, error) { return c.layouts[kind].places(), nil }

// starts are the starts of the layouts.
func (c *divider) starts() (starts [][]int) {
	for _, l := range c.layouts {
		starts = append(starts, l.starts)
	}
	return starts
}

// part returns the part of the graph that belongs to partition p.
func (c *divider) part(p int) *graph.Part {
	ids := c.layouts[0].ids(p)
	part := &graph.Part{Graph: c.g.Rows(ids)}
	for i, t := range c.g.Types() {
		ids := c.layouts[i].ids(p)
		part.IDs, part.Whole = append(part.IDs, ids), append(part.Whole, t.Count)
		if i > 0 {
			part.Graph.Others = append(part.Graph.Others, graph.VertexType{Type: t.Type, Count: len(ids), Features: t.Features.Rows(ids)})
		}
	}
	if part.Graph.Type = c.g.Type; part.Graph.Type != "" {
		part.Graph.Count = len(ids)
	}
	part.Graph.Relations = nil
	for _, e := range c.edges {
		in := e.in(e.target.ids(p))
		in.Source, in.Name, in.Target = e.from.Source, e.from.Name, e.from.Target
		out := e.out(p)
		in.Symmetric, out.Symmetric = e.from.Symmetric, e.from.Symmetric
		part.Graph.Relations, part.Out = append(part.Graph.Relations, in), append(part.Out, out)
	}
	return part
}

// in lists the in-edges of the vertices ids. Parallel edges keep their order.
func (c *edgeDivider) in(ids []int32) graph.Relation {
	from := c.from
	r := graph.Relation{Indptr: make([]int64, len(ids)+1), EdgeColumns: from.EdgeColumns}
	for row, v := range ids {
		r.Indptr[row+1] = r.Indptr[row] + from.Indptr[v+1] - from.Indptr[v]
	}
	edges := int(r.Indptr[len(ids)])
	r.Sources = make([]int32, 0, edges)
	if from.Weights != nil {
		r.Weights = make([]float32, 0, edges)
	}
	if from.EdgeFeatures != nil {
		r.EdgeFeatures = make([]float32, 0, edges*from.EdgeColumns)
	}
	columns := int64(from.EdgeColumns)
	var keys []uint64 // position of the source, then position in the row
	for _, v := range ids {
		keys = keys[:0]
		first := from.Indptr[v]
		for k, u := range from.Sources[first:from.Indptr[v+1]] {
			keys = append(keys, uint64(c.source.position[u])<<32|uint64(k))
		}
		slices.Sort(keys)
		for _, key := range keys {
			k := first + int64(uint32(key))
			r.Sources = append(r.Sources, int32(key>>32))
			if from.Weights != nil {
				r.Weights = append(r.Weights, from.Weights[k])
			}
			if columns > 0 {
				r.EdgeFeatures = append(r.EdgeFeatures, from.EdgeFeatures[k*columns:(k+1)*columns]...)
			}
		}
	}
	return r
}

// outPasses is the most passes over all edges that are made for the out-edges of all partitions. Each pass
// holds the out-edges of several consecutive partitions.
const outPasses = 8

// out lists the out-edges of partition p.
func (c *edgeDivider) out(p int) graph.Relation {
	starts := c.source.starts
	if p < c.outFrom || p >= c.outTo {
		c.outFrom, c.outTo = p, min(p+(c.k+outPasses-1)/outPasses, c.k)
		c.outs = c.outEdges(starts[c.outFrom], starts[c.outTo])
	}
	base := starts[c.outFrom]
	indptr := slices.Clone(c.outs.Indptr[starts[p]-base : starts[p+1]-base+1])
	lo, hi := indptr[0], indptr[len(indptr)-1]
	for row := range indptr {
		indptr[row] -= lo
	}
	r := graph.Relation{Indptr: indptr, Sources: c.outs.Sources[lo:hi:hi]}
	if c.outs.Weights != nil {
		r.Weights = c.outs.Weights[lo:hi:hi]
	}
	return r
}

// outEdges lists the out-edges of the vertices at positions lo … hi−1, in one pass over all edges in the
// order of their targets' positions.
func (c *edgeDivider) outEdges(lo, hi int) graph.Relation {
	from := c.from
	r := graph.Relation{Indptr: make([]int64, hi-lo+1)}
	for row, u := range c.source.order[lo:hi] {
		r.Indptr[row+1] = r.Indptr[row] + c.outDegree[u]
	}
	r.Sources = make([]int32, r.Indptr[hi-lo])
	if from.Weights != nil {
		r.Weights = make([]float32, len(r.Sources))
	}
	next := slices.Clone(r.Indptr)
	for position, v := range c.target.order {
		first := from.Indptr[v]
		for k, u := range from.Sources[first:from.Indptr[v+1]] {
			row := int(c.source.position[u]) - lo
			if row < 0 || row >= hi-lo {
				continue
			}
			at := next[row]
			next[row]++
			r.Sources[at] = int32(position)
			if from.Weights != nil {
				r.Weights[at] = from.Weights[first+int64(k)]
			}
		}
	}
	return r
}
