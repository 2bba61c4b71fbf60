package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"weft/graph/internal/counter"
	"weft/internal/cores"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// The changes below return a new graph and leave g as it was. The new graph shares with g the arrays that do
// not change, so that a mapped g must stay open as long as the new graph is used. A change that exceeds the
// memory is refused.

// Induced keeps the vertices that keep marks, in their order, and the edges between them. Its length is V.
func (g *Graph) Induced(keep []bool) (*Graph, error) {
	if len(keep) != g.Vertices() {
		return nil, fmt.Errorf("%d marks for %d vertices: give one for each vertex", len(keep), g.Vertices())
	}
	if err := g.CheckOneType(); err != nil {
		return nil, err
	}
	r := &g.Relations[0]
	newID := make([]int32, len(keep))
	oldID := []int32{}
	for v, kept := range keep {
		newID[v] = -1
		if kept {
			newID[v] = int32(len(oldID))
			oldID = append(oldID, int32(v))
		}
	}
	relation, err := r.Where(func(_ int64, u, v int32) bool { return keep[u] && keep[v] })
	if err != nil {
		return nil, err
	}
	for k, u := range relation.Sources {
		relation.Sources[k] = newID[u]
	}
	for i, v := range oldID { // rows between kept ones are empty
		relation.Indptr[i+1] = relation.Indptr[v+1]
	}
	relation.Indptr = relation.Indptr[:len(oldID)+1]
	relation.Symmetric = r.Symmetric // an edge and its reverse both stay or both go
	if relation.EdgeSplit, err = r.EdgeSplit.relabelled(newID); err != nil {
		return nil, err
	}
	if err := memory.Need(g.vertexBytes()); err != nil {
		return nil, err
	}
	changed := g.with(relation)
	t := &changed.Types[0]
	t.Count = len(oldID)
	t.Features = t.Features.Rows(oldID)
	t.Names = gather(t.Names, 1, oldID)
	t.Arrays = gatherArrays(t.Arrays, oldID)
	changed.Types[0].Labels = g.Types[0].Labels.Select(oldID)
	changed.Types[0].Splits = SplitsOf(g.Types[0].Splits, oldID)
	changed.ofVertices(g, oldID)
	return changed, nil
}

// Select returns the labels of the vertices ids.
func (l *Labels) Select(ids []int32) Labels {
	picked := *l
	picked.Class = gather(l.Class, 1, ids)
	picked.Multi = gather(l.Multi, l.Classes, ids)
	picked.Values = gather(l.Values, l.Columns, ids)
	return picked
}

// SplitsOf returns the splits of the vertices ids, which must ascend; ids[r] is r in them.
func SplitsOf(splits []Split, ids []int32) (picked []Split) {
	for _, s := range splits {
		picked = append(picked, Split{rowsOf(s.Train, ids), rowsOf(s.Val, ids), rowsOf(s.Test, ids)})
	}
	return picked
}

// rowsOf returns the places in rows of those vertices ids that rows has. Both ascend.
func rowsOf(ids []int64, rows []int32) []int64 {
	places := []int64{}
	at := 0
	for _, v := range ids {
		for at < len(rows) && int64(rows[at]) < v {
			at++
		}
		if at < len(rows) && int64(rows[at]) == v {
			places = append(places, int64(at))
		}
	}
	return places
}

// with returns a graph of other edges, of one relation, that shares everything else with g.
func (g *Graph) with(relation Relation) *Graph {
	if len(g.Relations) > 0 {
		r := &g.Relations[0]
		relation.Source, relation.Name, relation.Target = r.Source, r.Name, r.Target
		relation.EndColumns, relation.NumberColumns = r.EndColumns, r.NumberColumns
		relation.EdgeSplit = cmp.Or(relation.EdgeSplit, r.EdgeSplit)
	}
	changed := g.changed()
	changed.Relations = []Relation{relation}
	return changed
}

// changed returns a copy to change, which belongs to no store.
func (g *Graph) changed() *Graph {
	changed := g.Copy()
	changed.path = ""
	changed.mapped = nil
	return changed
}

// CheckOneType refuses a change that graphs of several types or relations do not allow.
func (g *Graph) CheckOneType() error {
	if !g.Typed() {
		return nil
	}
	return refusal.Errorf("the graph has %d vertex types and %d relations, and this changes graphs of one "+
		"type and one relation; leave it out (--reverse-relations adds reverse edges)", len(g.Types),
		len(g.Relations))
}

// noted adds a line to the notes of a graph that with made.
func (g *Graph) noted(format string, args ...any) *Graph {
	g.Notes = append(slices.Clip(g.Notes), fmt.Sprintf(format, args...))
	return g
}

// Symmetrize adds the reverse of every edge and removes duplicate edges. If edges u→v have different weights
// or features, the first stored one stays, and an edge that was there is preferred to one that was added:
// where both u→v and v→u exist, each keeps its own weight, and the result is symmetric in its edges only.
// (PyG's to_undirected adds up the weights of duplicates.)
func (g *Graph) Symmetrize() (*Graph, error) {
	if err := g.CheckOneType(); err != nil {
		return nil, err
	}
	const ends = 5 * 4 // of an edge: its target, and both twice
	if err := memory.Need(ends*g.Edges() + 2*g.Relations[0].dataBytes()); err != nil {
		return nil, err
	}
	e := g.Relations[0].Edges()
	both := Edges{
		Source: slices.Concat(e.Source, e.Target), Target: slices.Concat(e.Target, e.Source),
		FeatureColumns: e.FeatureColumns,
	}
	if e.Weights != nil {
		both.Weights = make([]float32, 0, 2*len(e.Weights)) // not nil, also of no edge
		both.Weights = append(append(both.Weights, e.Weights...), e.Weights...)
	}
	if e.Features != nil {
		both.Features = slices.Concat(e.Features, e.Features)
	}
	doubled, err := NewRelation(g.Vertices(), both)
	if err != nil {
		return nil, err
	}
	// Sources ascend within a row, hence duplicates are neighbours.
	single, err := g.filtered(&doubled, func(k int64, u, v int32) bool {
		return k == doubled.Indptr[v] || doubled.Sources[k-1] != u
	})
	if err != nil {
		return nil, err
	}
	single.Relations[0].Symmetric = true
	single.NoteSymmetrized(g.Edges(), single.Edges(), g.Relations[0].duplicates(), e.Weights != nil)
	return single, nil
}

// NoteSymmetrized notes what Symmetrize has done to so many edges, some of them duplicates. It warns of
// duplicates that had weights: none of these was added to another.
func (g *Graph) NoteSymmetrized(before, after, duplicates int64, weighted bool) {
	note := fmt.Sprintf("%d edges made undirected: %d added", before, after-before+duplicates)
	if duplicates > 0 {
		note += fmt.Sprintf(", %d duplicates left out", duplicates)
	}
	if duplicates > 0 && weighted {
		g.Warnings = append(slices.Clip(g.Warnings), note+" with their weights: the first of each pair of vertices stays")
		return
	}
	g.Notes = append(slices.Clip(g.Notes), note)
}

// AddSelfLoops adds the edge v→v to each vertex v that has none, with weight 1 and edge features 1 (as PyG
// and DGL do) where the graph has them.
func (g *Graph) AddSelfLoops() (*Graph, error) {
	if err := g.CheckOneType(); err != nil {
		return nil, err
	}
	r := &g.Relations[0]
	vertices := g.Vertices()
	values := int64(2 + r.Features.Columns) // of an edge, with its ends
	if r.Weights != nil {
		values++
	}
	if err := memory.Need(4*g.Edges() + 4*values*(g.Edges()+int64(vertices))); err != nil {
		return nil, err
	}
	e := r.Edges()
	e.Source, e.Target = slices.Grow(slices.Clip(e.Source), vertices), slices.Grow(e.Target, vertices)
	if r.Weights != nil {
		e.Weights = slices.Grow(slices.Clip(e.Weights), vertices)
	}
	e.Features = slices.Grow(slices.Clip(e.Features), vertices*r.Features.Columns)
	for v := range vertices {
		if _, has := slices.BinarySearch(r.Sources[r.Indptr[v]:r.Indptr[v+1]], int32(v)); has {
			continue
		}
		e.Source, e.Target = append(e.Source, int32(v)), append(e.Target, int32(v))
		if r.Weights != nil {
			e.Weights = append(e.Weights, 1)
		}
		for range r.Features.Columns {
			e.Features = append(e.Features, 1)
		}
	}
	relation, err := NewRelation(g.Vertices(), e)
	if err != nil {
		return nil, err
	}
	relation.Symmetric = r.Symmetric
	return g.with(relation).noted("%d self loops added", int64(e.Len())-g.Edges()), nil
}

// RemoveSelfLoops removes every edge v→v.
func (g *Graph) RemoveSelfLoops() (*Graph, error) {
	if err := g.CheckOneType(); err != nil {
		return nil, err
	}
	without, err := g.filtered(&g.Relations[0], func(_ int64, u, v int32) bool { return u != v })
	if err != nil {
		return nil, err
	}
	without.Relations[0].Symmetric = g.Relations[0].Symmetric
	if loops := g.Edges() - without.Edges(); loops > 0 {
		without.noted("%d self loops left out", loops)
	}
	return without, nil
}

// LargestComponent keeps the largest weakly connected component, of several as large the one with the
// smallest vertex.
func (g *Graph) LargestComponent() (*Graph, error) {
	if err := g.CheckOneType(); err != nil {
		return nil, err
	}
	const component, size, keep, ids = 4, 8, 1, 8
	if err := memory.Need((component + size + keep + ids) * int64(g.Vertices())); err != nil {
		return nil, err
	}
	induced, err := g.Induced(g.inLargest())
	if err != nil {
		return nil, err
	}
	return induced.noted("%d vertices and %d edges outside the largest component left out",
		g.Vertices()-induced.Vertices(), g.Edges()-induced.Edges()), nil
}

// inLargest marks the vertices of the largest component.
func (g *Graph) inLargest() []bool {
	component := g.components()
	size := make([]int, len(component))
	for _, c := range component {
		size[c]++
	}
	largest := 0
	for c := range size {
		if size[c] > size[largest] {
			largest = c
		}
	}
	keep := make([]bool, len(component))
	for v, c := range component {
		keep[v] = int(c) == largest
	}
	return keep
}

// components returns for each vertex the smallest vertex of its weakly connected component.
func (g *Graph) components() []int32 {
	parent := make([]int32, g.Vertices())
	for v := range parent {
		parent[v] = int32(v)
	}
	root := func(v int32) int32 {
		for parent[v] != v {
			parent[v] = parent[parent[v]] // halve the path
			v = parent[v]
		}
		return v
	}
	r := &g.Relations[0]
	for v := range int32(len(parent)) {
		for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
			a, b := root(u), root(v)
			parent[max(a, b)] = min(a, b)
		}
	}
	for v := range parent {
		parent[v] = root(int32(v))
	}
	return parent
}

// maxRandomColumns keeps a mistyped number from exhausting the memory.
const maxRandomColumns = 1 << 20

// RandomFeatures replaces the features of all types by standard normal ones, for graphs that come without.
// The value at a vertex and a column depends on nothing but these two and the seed.
func (g *Graph) RandomFeatures(columns int, seed uint64) (*Graph, error) {
	if columns < 1 || columns > maxRandomColumns {
		return nil, refusal.Errorf("--random-features %d: give between 1 and %d columns", columns,
			maxRandomColumns)
	}
	if err := memory.Need(4 * int64(g.Vertices()) * int64(columns)); err != nil {
		return nil, fmt.Errorf("--random-features %d: %w", columns, err)
	}
	noise := counter.New(seed, "features")
	first := 0 // of the type, in the whole graph
	normal := func(n int) Features {
		dense := make([]float32, n*columns)
		start := first
		cores.Divide(n, func(from, to int) {
			for v := from; v < to; v++ {
				noise.Normals(dense[v*columns:(v+1)*columns], uint64(start+v))
			}
		})
		first += n
		return Features{Columns: columns, Dense: dense}
	}
	changed := g.changed()
	for i := range changed.Types {
		t := &changed.Types[i]
		t.Features = normal(t.Count)
		t.Table = nil
	}
	return changed, nil
}

// ReverseRelations adds to each relation its reverse, rev_NAME, with the same weights and edge features,
// where there is none of that name yet and it is not one itself, as PyG's ToUndirected with merge=False does.
func (g *Graph) ReverseRelations() (*Graph, error) {
	changed := g.changed()
	types := g.Types
	there := map[[3]string]bool{}
	for i := range g.Relations {
		source, name, target := g.Relations[i].Ends()
		there[[3]string{source, name, target}] = true
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		source, name, target := r.Ends()
		s, _, err := g.Joins(r)
		if err != nil {
			return nil, err
		}
		if there[[3]string{target, ReversePrefix + name, source}] {
			continue
		}
		if from, forward, to, ok := r.ReverseOf(); ok && there[[3]string{from, forward, to}] {
			continue
		}
		ends := 16*int64(types[s].Count) + 8*int64(len(r.Sources))
		if err := memory.Need(ends + 4*int64(len(r.Features.Dense))); err != nil {
			return nil, err
		}
		reversed := r.Reversed(types[s].Count)
		reversed.Features.Columns, reversed.Features.Dense = r.Features.Columns, r.featuresIn(reversed)
		reversed.Source, reversed.Name, reversed.Target = target, ReversePrefix+name, source
		changed.Relations = append(changed.Relations, *reversed)
	}
	if changed.Typed() { // the names are then those of folders
		for i := range changed.Relations {
			r := &changed.Relations[i]
			r.Source, r.Name, r.Target = r.Ends()
		}
	}
	return changed.noted("%d reverse relations added", len(changed.Relations)-len(g.Relations)), nil
}

// ReversePrefix begins the names of reverse relations.
const ReversePrefix = "rev_"

// ReverseOf returns the relation whose reverse is r. It goes by the name and the ends that ReverseRelations
// gives what it adds. ok is false where r has no such name; there may be no relation that it is the reverse
// of.
func (r *Relation) ReverseOf() (source, name, target string, ok bool) {
	target, reverse, source := r.Ends()
	name, ok = strings.CutPrefix(reverse, ReversePrefix)
	return source, name, target, ok
}

// Mirrors reports whether one of two relations is the reverse of the other, as ReverseOf has it.
func (r *Relation) Mirrors(other *Relation) bool {
	for _, pair := range [][2]*Relation{{r, other}, {other, r}} {
		source, name, target, ok := pair[0].ReverseOf()
		if s, n, t := pair[1].Ends(); ok && s == source && n == name && t == target {
			return true
		}
	}
	return false
}

// Where returns the relation with those edges that keep accepts, edge k of the stored order from u to v.
func (r *Relation) Where(keep func(k int64, u, v int32) bool) (Relation, error) {
	edges, perEdge := int64(len(r.Sources)), 1+r.Features.Columns
	if r.Weights != nil {
		perEdge++
	}
	if err := memory.Need(8*int64(len(r.Indptr)) + 4*int64(perEdge)*edges); err != nil {
		return Relation{}, err
	}
	kept := *r
	kept.Symmetric = false
	kept.Indptr = make([]int64, len(r.Indptr))
	kept.Sources = make([]int32, 0, edges)
	if r.Weights != nil {
		kept.Weights = make([]float32, 0, edges)
	}
	if r.Features.Columns > 0 {
		kept.Features.Dense = make([]float32, 0, len(r.Features.Dense))
	}
	columns := int64(r.Features.Columns)
	for v := range int32(len(r.Indptr) - 1) {
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			if !keep(k, r.Sources[k], v) {
				continue
			}
			kept.Sources = append(kept.Sources, r.Sources[k])
			if r.Weights != nil {
				kept.Weights = append(kept.Weights, r.Weights[k])
			}
			kept.Features.Dense = append(kept.Features.Dense, r.Features.Dense[k*columns:(k+1)*columns]...)
		}
		kept.Indptr[v+1] = int64(len(kept.Sources))
	}
	return kept, nil
}

// filtered is g with those edges of r that keep accepts.
func (g *Graph) filtered(r *Relation, keep func(k int64, u, v int32) bool) (*Graph, error) {
	relation, err := r.Where(keep)
	if err != nil {
		return nil, err
	}
	return g.with(relation), nil
}

// dataBytes returns what the edges' weights and features take.
func (r *Relation) dataBytes() int64 { return 4 * int64(len(r.Weights)+len(r.Features.Dense)) }

// Rows returns the features of the vertices ids, in that order.
func (f *Features) Rows(ids []int32) Features {
	if !f.Sparse() {
		return Features{Columns: f.Columns, Dense: gather(f.Dense, f.Columns, ids)}
	}
	picked := Features{Columns: f.Columns, Indptr: make([]int64, 1, len(ids)+1)}
	for _, v := range ids {
		first, end := f.Indptr[v], f.Indptr[v+1]
		picked.Indices = append(picked.Indices, f.Indices[first:end]...)
		picked.Data = append(picked.Data, f.Data[first:end]...)
		picked.Indptr = append(picked.Indptr, int64(len(picked.Indices)))
	}
	return picked
}

// gather picks the rows ids of a row-major matrix; a nil matrix stays nil.
func gather[T any](matrix []T, columns int, ids []int32) []T {
	if matrix == nil {
		return nil
	}
	picked := make([]T, 0, len(ids)*columns)
	for _, v := range ids {
		picked = append(picked, matrix[int(v)*columns:(int(v)+1)*columns]...)
	}
	return picked
}
