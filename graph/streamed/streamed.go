// Package streamed takes graphs from the sources that importers read: into memory, or into a store while they
// are read, so that neither edges nor dense features need to fit in memory.
//
// An importer describes its source once, as a Graph:
//
//   - InMemory has what is small: the vertex types, that with labels first, with their Count, names and
//     sparse features, labels, splits, the graphs of vertices, notes. What the importer has in memory anyway
//     it may leave there, dense features too.
//   - Relations has the names of each relation, and how its edges are read, some at a time. Listed makes that
//     of a list in memory.
//   - Types has, for each type, dense features and arrays that are read some rows at a time.
//
// If the vertices are known only after the edges, Complete sets what is missing. Of makes a Graph of a graph
// in memory. A Graph has no use but Read and Write, which give the same graph and the same refusals.
//
// Readers of files that may be larger than memory return a Graph; the command import writes it into a store.
package streamed

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// Graph is a graph whose edges, and perhaps dense features and arrays, lie in its source until they are
// needed. Read puts it into memory, and Write into a store.
type Graph struct {
	// InMemory is what has been read. It has no relations.
	InMemory  *graph.Graph
	Source    string // the path that errors about the graph as a whole name
	Relations []Relation
	Types     []Type // by vertex type; nil: InMemory has all
	// FromEdges makes the dense features of consecutive vertices from the rows of the edges into them:
	// Columns of the edges for each vertex. The graph has one type and one relation. nil: features have
	// another source.
	FromEdges func(rows *graph.Relation) ([]float32, error)
	// Complete sets parts of InMemory, Types and edge splits; nil: they are there already. It is called once,
	// after the edges of all relations have been read.
	Complete func() error

	// Symmetrize stores each edge in both directions, once, as graph.Symmetrize does.
	Symmetrize bool
	// Prepare is called before Write writes anything, when all but edges and Rows is known. It may change the
	// splits of InMemory. nil: they stay.
	Prepare func() error
	// Write calls Add before the complete store gets its name, as graph.WriteWith does. nil: nothing is
	// added.
	Add      func(store string) error
	Progress graph.Progress
	// Release closes the source; nil: nothing is open.
	Release func()

	whole bool // InMemory has the relations, too
}

// Relation is the edges from the vertices of one type to those of another.
type Relation struct {
	Source, Name, Target string // empty in a graph with one type and relation
	Edges
	EndColumns    [2]string        // as in graph.Relation
	NumberColumns columns.List     // as in graph.Relation
	EdgeSplit     *graph.EdgeSplit // nil: there is none
	Frame         *Frame           // nil: there are none
}

// Edges are a list of edges.
type Edges struct {
	Count int64 // number of edges; Unknown is allowed if Complete is not nil
	About int64 // estimate of an unknown Count
	// Weighted says that they have weights. If Complete is not nil, it is set before Each first calls its
	// argument.
	Weighted  bool
	Columns   int  // features of an edge
	Labelled  bool // lists have Labels
	Divided   bool // lists have SplitBy
	Symmetric bool // the reverse of each edge is there, equally often
	// Each calls do with all edges in their order, some at a time. They are valid until do returns. A further
	// call reads them again.
	Each func(do func(graph.Edges) error) error
	// Refuse adds to an error which edges it is about.
	Refuse func(error) error

	listed *graph.Edges // the edges in memory; nil: they are not there
}

// Unknown is the Count of edges that have not been read.
const Unknown = -1

// Type is the data of a vertex type that is not in memory.
type Type struct {
	Rows   *RowSource // dense features; nil: InMemory has any
	Arrays []Array
}

// RowSource is a matrix with a row for each vertex.
type RowSource struct {
	Columns int
	// Each calls do with all rows in their order, some at a time, row-major. They are valid until do returns.
	Each func(do func(rows []float32) error) error
	// Refuse adds to an error that it is about the rows.
	Refuse func(error) error
}

// Array is vertex data that no model reads, as in graph.Array.
type Array struct {
	graph.ArrayShape
	// Each is as in Rows.
	Each func(do func(rows []float32) error) error
}

// Of returns a Graph of a graph that is wholly in memory.
func Of(g *graph.Graph, source string) *Graph {
	return &Graph{InMemory: g, Source: source, whole: true}
}

// Opened returns the graph that open makes. Closing it releases its source, and so does a failure of open.
func Opened(open func() (*Graph, error), release func()) (*Graph, error) {
	g, err := open()
	if err != nil {
		release()
		return nil, err
	}
	g.Release = release
	return g, nil
}

// Listed returns edges in memory as Edges.
func Listed(e graph.Edges, refuse func(error) error) Edges {
	return Edges{
		Count: int64(e.Len()), Weighted: e.Weights != nil, Columns: e.FeatureColumns,
		Each: func(do func(graph.Edges) error) error { return do(e) }, Refuse: refuse, listed: &e,
	}
}

// Transposed returns the edges with their ends exchanged.
func (e Edges) Transposed() Edges {
	exchanged := func(list graph.Edges) graph.Edges {
		list.Source, list.Target = list.Target, list.Source
		return list
	}
	each := e.Each
	e.Each = func(do func(graph.Edges) error) error {
		return each(func(list graph.Edges) error { return do(exchanged(list)) })
	}
	if e.listed != nil {
		list := exchanged(*e.listed)
		e.listed = &list
	}
	return e
}

// Dense reports whether vertices have dense features. If Complete is not nil, this is known only in Prepare.
func (g *Graph) Dense() bool {
	dense := func(t graph.VertexType) bool { return t.Features.Dense != nil }
	return g.FromEdges != nil || slices.ContainsFunc(g.InMemory.Types, dense) ||
		slices.ContainsFunc(g.Types, func(t Type) bool { return t.Rows != nil })
}

// Close closes the source.
func (g *Graph) Close() {
	if g.Release != nil {
		g.Release()
	}
}

// Label gives the edges labels with splits, a row of frame for each edge in their order.
func (r *Relation) Label(frame graph.Frame, divide func(*graph.Frame) error) {
	r.Frame = &Frame{Frame: frame, Divide: divide}
	each := r.Each
	r.Labelled, r.Divided, r.listed = true, frame.SplitBy != nil, nil
	r.Each = func(do func(graph.Edges) error) error {
		at := 0
		var rows []int32
		return each(func(list graph.Edges) error {
			rows = rows[:0]
			for k := range list.Source {
				rows = append(rows, int32(at+k))
			}
			list.Labels = rows
			if frame.SplitBy != nil {
				list.SplitBy = frame.SplitBy.Values[at : at+len(rows)]
			}
			at += len(rows)
			return do(list)
		})
	}
}

// Largest reads all edges, and returns the largest ids of a source and of a target, −1 if there is no edge.
func (e *Edges) Largest() (source, target int32, err error) {
	source, target = -1, -1
	_, err = e.each(nil, func(batch graph.Edges, _ int64) error {
		for k, u := range batch.Source {
			source, target = max(source, u), max(target, batch.Target[k])
		}
		return nil
	})
	return source, target, err
}

// announced returns the relations, without rows.
func (g *Graph) announced() (all []graph.Relation) {
	for i := range g.Relations {
		r := &g.Relations[i]
		all = append(all, graph.Relation{
			Source: r.Source, Name: r.Name, Target: r.Target, EndColumns: r.EndColumns,
			NumberColumns: r.NumberColumns, EdgeSplit: r.EdgeSplit, Indptr: []int64{0},
			Frame:     r.Frame.announced(),
			Symmetric: g.Symmetrize || r.Symmetric,
		})
	}
	return all
}

// checkSymmetrize refuses to make the edges of several types or relations undirected.
func checkSymmetrize(g *graph.Graph) error {
	if err := g.CheckOneType(); err != nil {
		return fmt.Errorf("--symmetrize: %w", err)
	}
	if err := g.CheckUnlabelledEdges(); err != nil {
		return fmt.Errorf("--symmetrize: %w", err)
	}
	return nil
}

// checkGraphs refuses an edge between two graphs. It runs before the reverse is added, which the file lacks.
func (g *Graph) checkGraphs(e *graph.Edges) error {
	if g.InMemory.Types[0].GraphOf == nil || !g.Symmetrize {
		return nil // the check of the rows finds it
	}
	if err := e.CheckGraphs(g.InMemory.Types[0].GraphOf); err != nil {
		return g.refuse(err)
	}
	return nil
}

// refuse puts the source before an error about it.
func (g *Graph) refuse(err error) error {
	if !refusal.Is(err) {
		return err // such as an error of the store's disk
	}
	return fmt.Errorf("%s: %w", g.Source, err)
}

// complete calls Complete, if it is there.
func (g *Graph) complete() error {
	if g.Complete == nil {
		return nil
	}
	return g.Complete()
}

// each calls do with all edges, and how many were before, and tells how many have been read.
func (e *Edges) each(tell graph.Progress,
	do func(batch graph.Edges, before int64) error,
) (read int64, err error) {
	err = e.Each(func(batch graph.Edges) error {
		if e.Count != Unknown {
			tell.Report("reading edges", read, e.Count)
		}
		before := read
		read += int64(batch.Len())
		return do(batch, before)
	})
	return read, err
}
