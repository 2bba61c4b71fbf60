// Package streamed writes the store of a graph while the graph is read, so that neither its edges nor its
// dense features need to fit in memory.
package streamed

import (
	"fmt"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Graph is a graph of one vertex type and one relation whose edges, and perhaps dense features, lie in its
// source until they are needed. Read puts it into memory, and Write into a store.
type Graph struct {
	// InMemory is what has been read: Count, labels, splits, names, the graphs of vertices, and features that
	// are no Rows. It has no relation.
	InMemory  *graph.Graph
	Source    string // the path that errors about the graph as a whole name
	Edges     Edges
	EdgeSplit *graph.EdgeSplit // nil: there is none
	Rows      *Rows            // dense features; nil: those of InMemory, if any
	Arrays    []Array          // of vertices
	// FromEdges makes the dense features of consecutive vertices, Columns of the edges for each, from the
	// in-degree of each and the features of the edges into them; nil: they are not made so.
	FromEdges func(indegree []int32, ofEdges []float32) ([]float32, error)
	// Complete sets what InMemory, Rows and EdgeSplit have; nil: they have it already. It is called once,
	// after the edges have been read.
	Complete func(Listed) error

	// Symmetrize stores each edge in both directions, once, as graph.Symmetrize does.
	Symmetrize bool
	// Prepare is called before Write writes anything, when all but the edges and Rows is known. It may change
	// the splits of InMemory. nil: they stay.
	Prepare  func() error
	Progress graph.Progress
	// Release closes the source; nil: nothing is open.
	Release func()
}

// Edges are a list of edges.
type Edges struct {
	Count     int64 // how many there are; Unknown where Complete is not nil, perhaps
	About     int64 // an estimate of Count where that is unknown
	Weighted  bool  // they have weights. Where Complete is not nil, it is set when Each has called its argument
	Columns   int   // of features
	Symmetric bool  // the reverse of each is there, equally often
	// Each calls do with all edges in their order, some at a time, which are valid until do returns. It can
	// be called again, and then reads them again.
	Each func(do func(graph.Edges) error) error
	// Refuse says of an error which edges it is about.
	Refuse func(error) error
}

// Unknown is the Count of edges that have not been read.
const Unknown = -1

// Rows are a matrix with a row for each vertex.
type Rows struct {
	Columns int
	// Each calls do with all rows in their order, some at a time, row-major, which are valid until do
	// returns.
	Each func(do func(rows []float32) error) error
	// Refuse says of an error that it is about the rows.
	Refuse func(error) error
}

// Array is data of the vertices that no model reads, as graph.Array.
type Array struct {
	graph.ArrayShape
	// Each is as that of Rows.
	Each func(do func(rows []float32) error) error
}

// Listed is what is known of edges that have been read.
type Listed struct {
	Count   int64
	Largest int32 // id of an end, −1 where there is no edge
}

// Dense reports whether vertices have dense features. Where Complete is not nil, that is known in Prepare.
func (g *Graph) Dense() bool {
	return g.Rows != nil || g.FromEdges != nil || g.InMemory.Features.Dense != nil
}

// add adds edges.
func (l *Listed) add(e *graph.Edges) {
	l.Count += int64(e.Len())
	l.Largest = max(l.Largest, e.Largest())
}

// Close closes the source.
func (g *Graph) Close() {
	if g.Release != nil {
		g.Release()
	}
}

// Largest reads all edges, and returns the largest id of an end, −1 where there is no edge.
func (e *Edges) Largest() (int32, error) {
	l, err := e.each(nil, func(graph.Edges, Listed) error { return nil })
	return l.Largest, err
}

// Read reads the graph into memory. Its errors are those of Write, and that there is too little memory.
func (g *Graph) Read() (*graph.Graph, error) {
	edges, listed, err := g.Edges.Read(g.Progress)
	if err != nil {
		return nil, err
	}
	if err := g.complete(listed); err != nil {
		return nil, err
	}
	made := *g.InMemory
	if g.Rows != nil {
		made.Features.Columns = g.Rows.Columns
		if made.Features.Dense, err = g.Rows.gather(made.Count); err != nil {
			return nil, err
		}
	}
	for _, a := range g.Arrays {
		array, err := a.Read(made.Count)
		if err != nil {
			return nil, err
		}
		made.Arrays = append(made.Arrays, array)
	}
	relation, err := graph.NewRelation(made.Count, edges)
	if err != nil {
		return nil, g.Edges.Refuse(err)
	}
	if err := g.checkGraphs(&edges); err != nil {
		return nil, err
	}
	relation.EdgeSplit = g.EdgeSplit
	made.Count, made.Relations = 0, []graph.Relation{relation} // has a row for each vertex
	whole := &made
	if g.Symmetrize {
		if whole, err = whole.Symmetrize(); err != nil {
			return nil, g.refuse(err)
		}
	}
	if g.FromEdges != nil {
		r := &whole.Relations[0]
		if err := memory.Need(4 * int64(len(r.Indptr))); err != nil {
			return nil, g.refuse(err)
		}
		indegree := make([]int32, len(r.Indptr)-1)
		for v := range indegree {
			indegree[v] = int32(r.Indptr[v+1] - r.Indptr[v])
		}
		whole.Features.Columns = r.EdgeColumns
		if whole.Features.Dense, err = g.FromEdges(indegree, r.EdgeFeatures); err != nil {
			return nil, g.refuse(err)
		}
	}
	if err := whole.Check(); err != nil {
		return nil, g.refuse(err)
	}
	return whole, nil
}

// checkGraphs refuses an edge between two graphs before its reverse is added, which the file does not have.
func (g *Graph) checkGraphs(e *graph.Edges) error {
	if g.InMemory.GraphOf == nil || !g.Symmetrize {
		return nil // it is checked with the rows
	}
	if err := e.CheckGraphs(g.InMemory.GraphOf); err != nil {
		return g.refuse(err)
	}
	return nil
}

// refuse puts the source before an error about it.
func (g *Graph) refuse(err error) error {
	if !refusal.Is(err) {
		return err // as of the store's disk
	}
	return fmt.Errorf("%s: %w", g.Source, err)
}

// complete calls Complete, if it is there.
func (g *Graph) complete(l Listed) error {
	if g.Complete == nil {
		return nil
	}
	return g.Complete(l)
}

// each calls do with all edges, and tells how many have been read.
func (e *Edges) each(tell graph.Progress, do func(batch graph.Edges, before Listed) error) (l Listed, err error) {
	l.Largest = -1
	err = e.Each(func(batch graph.Edges) error {
		if e.Count != Unknown {
			tell.Of("reading edges", l.Count, e.Count)
		}
		before := l
		l.add(&batch)
		return do(batch, before)
	})
	return l, err
}

// Read reads the edges into memory.
func (e *Edges) Read(tell graph.Progress) (all graph.Edges, l Listed, err error) {
	count := max(e.Count, 0)
	l, err = e.each(tell, func(batch graph.Edges, _ Listed) (err error) {
		n := batch.Len()
		if all.Source, err = memory.GrowTo(all.Source, n, count); err == nil {
			all.Target, err = memory.GrowTo(all.Target, n, count)
		}
		if err == nil {
			all.Weights, err = memory.GrowTo(all.Weights, len(batch.Weights), count)
		}
		if err == nil {
			all.Features, err = memory.GrowTo(all.Features, len(batch.Features), count*int64(e.Columns))
		}
		if err != nil {
			return e.Refuse(err)
		}
		all.Source, all.Target = append(all.Source, batch.Source...), append(all.Target, batch.Target...)
		all.Weights, all.Features = append(all.Weights, batch.Weights...), append(all.Features, batch.Features...)
		return nil
	})
	if all.FeatureColumns = e.Columns; e.Weighted && all.Weights == nil {
		all.Weights = []float32{}
	}
	return all, l, err
}

// gather reads a row for each of so many vertices into memory.
func (r *Rows) gather(vertices int) (all []float32, err error) {
	err = r.Each(func(rows []float32) error {
		if all, err = memory.GrowTo(all, len(rows), int64(vertices)*int64(r.Columns)); err != nil {
			return r.Refuse(err)
		}
		all = append(all, rows...)
		return nil
	})
	return all, err
}

// Read reads the array of so many vertices into memory.
func (a *Array) Read(vertices int) (made graph.Array, err error) {
	refuse := func(err error) error { return fmt.Errorf("array %q: %w", a.Name, err) }
	made.Name, made.Columns = a.Name, a.Columns
	if a.Dtype == graph.Float32 {
		rows := Rows{a.Columns, a.Each, refuse}
		made.Floats, err = rows.gather(vertices)
		return made, err
	}
	err = a.Each(func(rows []float32) error {
		if made.Ints, err = memory.GrowTo(made.Ints, len(rows), int64(vertices)*int64(made.Columns)); err != nil {
			return refuse(err)
		}
		for _, x := range rows {
			made.Ints = append(made.Ints, int64(x))
		}
		return nil
	})
	return made, err
}
