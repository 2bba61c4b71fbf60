// Package graph holds a graph as arrays: its edges as in-neighbour lists, vertex features, labels and splits.
// It reads and writes the on-disk store (a directory of NumPy arrays beside graph.json) and makes the changes
// that need the whole graph: relabelling, symmetrising, self loops, the largest component, splits.
//
// Readers (graph/*) make graphs, package partition divides them, and a worker copies its part of the arrays
// into its own memory.
package graph

import (
	"cmp"
	"slices"

	"weft/graph/columns"
)

// Graph is one graph in memory or mapped from a store: vertices of one type or several, and relations between
// them. An edge u→v is kept with its destination: v aggregates u.
//
// The type whose labels are learned comes first. In most graphs it is the only one. A vertex has an id within
// its type, and one in the whole graph, in which the types follow each other. For the first type both ids are
// the same.
type Graph struct {
	Types     []VertexType // at least one
	Relations []Relation   // at least one
	// Graphs is how many graphs are stored as one (PyG's batch), by VertexType.GraphOf; 0: it is one graph.
	// No edge joins two graphs. A graph may have no vertex of a type.
	Graphs int
	// Metric names the measure in which results on this data are published: "accuracy", "roc-auc",
	// "micro-f1", "macro-f1"; empty: accuracy, or micro-f1 with several labels for each vertex.
	Metric string
	// Provenance says where the graph came from, in one line: the command and its source.
	Provenance string
	// Earlier are the IDs of the versions of the store to which something was appended, the first version
	// first.
	Earlier []string
	// Notes say how the edges, vertices and features differ from their source, or that they do not: a line
	// each, in the order of the changes. They are not stored.
	Notes []string
	// Warnings name what a reader found in the source, does not know, and ignored: a line each. They are not
	// stored.
	Warnings []string

	path   string // of the store, empty for a graph made in memory
	mapped *mappings
}

// VertexType is the vertices of one type.
type VertexType struct {
	Type string // its name; empty: the graph has one type
	Frame
	GraphOf []int32 // the graph of each vertex, 0 to Graphs − 1; nil: there is one graph
}

// VertexName and RelationName are the names of the type and of the relation in a graph that has one of each
// and gives them no names.
const (
	VertexName   = "vertex"
	RelationName = "edge"
)

// Relation is one edge type, from vertices of type Source to vertices of type Target: for each vertex v of
// Target its in-neighbours Sources[Indptr[v]:Indptr[v+1]], in ascending order. Ids count within the types.
// Self loops and duplicate edges are kept as they are.
type Relation struct {
	Source, Name, Target string    // empty: the names in a graph that has one of each
	EndColumns           [2]string // of source and target in the table of the edges; empty: unknown
	// NumberColumns are the columns, in that table, of the weights, if there are any, and of the features;
	// nil: unknown.
	NumberColumns columns.List
	Indptr        []int64   // len vertices of Target + 1
	Sources       []int32   // len E
	Weights       []float32 // len E, nil when the relation is unweighted
	// Frame is of the edges, in the order of Sources: an edge's number is its place there. Sources counts
	// them, and Count is 0. There are no Names, Table and Arrays. A Part has neither labels nor splits of
	// edges: see OpenRelations.
	Frame
	// Symmetric says that the edges are known to be the same, equally often, when each is reversed. Weights
	// may differ. In a Part it is said of the whole graph's relation. False: unknown.
	Symmetric bool
	// EdgeSplit has the supervision edges of a benchmark; nil: link prediction draws a split. A Part has
	// none: see OpenRelations.
	EdgeSplit *EdgeSplit
}

// Features are the input features of V rows: dense (row-major V × Columns), or sparse rows (Indptr, Indices
// ascending within a row, Data), never both. Those of edges are dense. Without features Columns is 0.
type Features struct {
	Columns int
	Dense   []float32 // len V·Columns, or nil
	Indptr  []int64   // len V+1, or nil
	Indices []int32
	Data    []float32
}

// Labels are classes, one per row (Class, −1 where unlabelled), or several labels per row (Multi, a row-major
// V × Classes 0/1 matrix, NaN for a missing label), or the values that a regression predicts (Values, a
// row-major V × Columns matrix, NaN for a missing value). A frame has one of these kinds.
type Labels struct {
	// Column names labels of edges in settings: the key of an array, or the column of a table. It is empty
	// for labels of vertices.
	Column  string
	Classes int // 0 if there are Values
	Class   []int64
	Multi   []float32
	Names   []string // the classes' names, len Classes; nil: the source has none
	Columns int      // of Values, else 0
	Values  []float32
}

// Split names the rows (vertices by their original ids, or edges by their numbers; ascending) that train,
// validate and test.
type Split struct {
	Train, Val, Test []int64
}

// Parts returns the lists of a split: of training, validation and test rows.
func (s *Split) Parts() [3]*[]int64 { return [3]*[]int64{&s.Train, &s.Val, &s.Test} }

// Of returns a graph of one vertex type, which has a vertex for each row of the relation.
func Of(r Relation) *Graph {
	return &Graph{Types: []VertexType{{Frame: Frame{Count: r.rows()}}}, Relations: []Relation{r}}
}

// Name returns the name of the type. Without one it is the name of the type in a graph that has one.
func (t *VertexType) Name() string { return cmp.Or(t.Type, VertexName) }

// Copy returns the graph with lists of types and relations of its own. It shares the arrays.
func (g *Graph) Copy() *Graph {
	copied := *g
	copied.Types, copied.Relations = slices.Clone(g.Types), slices.Clone(g.Relations)
	return &copied
}

// Vertices returns the number of vertices of all types, V.
func (g *Graph) Vertices() (n int) {
	for _, t := range g.Types {
		n += t.Count
	}
	return n
}

// FirstIDs returns the ids in the whole graph of each type's first vertex, and V.
func (g *Graph) FirstIDs() []int {
	first := []int{0}
	for i, t := range g.Types {
		first = append(first, first[i]+t.Count)
	}
	return first
}

// Edges returns the number of stored directed edges of all relations, E, with self loops and duplicates.
func (g *Graph) Edges() (n int64) {
	for _, r := range g.Relations {
		n += r.Indptr[r.rows()]
	}
	return n
}

// Typed reports whether the graph has several vertex types or several relations.
func (g *Graph) Typed() bool { return len(g.Types) > 1 || len(g.Relations) > 1 }

// Ends returns the names of the types that the relation joins, and its own. Without names they are those of a
// graph that has one of each.
func (r *Relation) Ends() (source, name, target string) {
	return cmp.Or(r.Source, VertexName), cmp.Or(r.Name, RelationName), r.target()
}

// FullName distinguishes a relation from the others of its graph: SOURCE__NAME__TARGET.
func (r *Relation) FullName() string { return fullName(r.Ends()) }

func fullName(source, name, target string) string { return source + "__" + name + "__" + target }

func (r *Relation) target() string { return cmp.Or(r.Target, VertexName) }

// rows returns how many vertices the relation leads into.
func (r *Relation) rows() int { return len(r.Indptr) - 1 }

// Sparse reports whether the features are stored as sparse rows.
func (f *Features) Sparse() bool { return f.Indptr != nil }

// Row returns the stored values of a vertex's features.
func (f *Features) Row(v int) []float32 {
	if f.Sparse() {
		return f.Data[f.Indptr[v]:f.Indptr[v+1]]
	}
	return f.Dense[v*f.Columns : (v+1)*f.Columns]
}

// MultiLabel reports whether a vertex may carry several labels.
func (l *Labels) MultiLabel() bool { return l.Multi != nil }

// Continuous reports whether labels are values, and not classes.
func (l *Labels) Continuous() bool { return l.Columns > 0 }

// Named are the labels, of that column.
func (l Labels) Named(column string) Labels {
	l.Column = column
	return l
}

// There reports whether rows have labels of any kind.
func (l *Labels) There() bool { return l.Class != nil || l.MultiLabel() || l.Continuous() }

// rows returns the labels of vertices that have a row of them: the matrix and its columns.
func (l *Labels) rows() ([]float32, int) {
	if l.Continuous() {
		return l.Values, l.Columns
	}
	return l.Multi, l.Classes
}

// OneClass reports whether all vertices with a label have the same one. It is false if vertices may have
// several.
func (l *Labels) OneClass() bool {
	first := int64(-1)
	for _, class := range l.Class {
		if first < 0 {
			first = class
		} else if class >= 0 && class != first {
			return false
		}
	}
	return first >= 0
}

// Close gives mapped files back to the operating system. The arrays must not be used afterwards. It does
// nothing for a graph made in memory.
func (g *Graph) Close() error {
	if g.mapped == nil {
		return nil
	}
	m := g.mapped
	g.mapped = nil
	return m.close()
}

// Unload gives back the memory that mapped files take in this process, after a pass over them. The arrays
// stay usable: their bytes are read again. It does nothing for a graph made in memory.
func (g *Graph) Unload() {
	if g.mapped == nil {
		return
	}
	for _, a := range g.mapped.arrays {
		a.Unload()
	}
}
