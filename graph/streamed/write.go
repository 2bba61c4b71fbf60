package streamed

import (
	"math"
	"os"
	"runtime/debug"
	"slices"

	"weft/graph"
	"weft/graph/internal/edgesort"
	"weft/internal/memory"
)

// Written is what Write wrote.
type Written struct {
	*graph.Graph // without rows of labels and features, and edges; its relation, if there is one, has the edge split
	Edges        int64
	Weighted     bool
	OneClass     bool // all labels are the same
}

// Write writes a new store, dir. It needs memory for what InMemory has, and less than a gigabyte besides. It
// sorts the edges in a temporary file beside the store, with 8 bytes for each, and 4 for its weight and for
// each feature. The store appears when it is complete, and is that of the graph that Read returns. If Write
// fails, it leaves nothing behind. A graph can be written once.
func (g *Graph) Write(dir string) (*Written, error) {
	var s *sorted
	if g.Complete != nil {
		var err error
		if s, err = g.sort(dir, math.MaxInt32); err != nil {
			return nil, err
		}
		defer s.close()
		if err := g.complete(s.listed); err != nil {
			return nil, err
		}
		s.sorter.Limit(g.InMemory.Count)
	}
	of := g.InMemory
	if g.EdgeSplit != nil {
		of.Relations = []graph.Relation{{Indptr: []int64{0}, EdgeSplit: g.EdgeSplit}}
	}
	if err := of.CheckVertices(); err != nil {
		return nil, g.refuse(err)
	}
	if g.Prepare != nil {
		if err := g.Prepare(); err != nil {
			return nil, err
		}
	}
	debug.FreeOSMemory() // the rest may need what was read
	w, err := graph.Create(dir, g.shape(s))
	if err != nil {
		return nil, err
	}
	defer w.Abort() // nothing to do after Close
	written := &Written{Graph: of, OneClass: of.Labels.OneClass()}
	if err := g.writeVertices(w); err != nil {
		return nil, err
	}
	if s == nil {
		if s, err = g.sort(dir, of.Count); err != nil {
			return nil, err
		}
		defer s.close()
	}
	written.Weighted = g.Edges.Weighted
	if written.Edges, err = g.writeEdges(w, s); err != nil {
		return nil, err
	}
	if g.Symmetrize {
		of.Notes = append(slices.Clip(of.Notes), graph.SymmetrizedNote(s.listed.Count, written.Edges, s.sorter.Duplicates))
	}
	return written, w.Close()
}

// shape describes the store. s is nil where the edges have not been read.
func (g *Graph) shape(s *sorted) graph.Shape {
	of := g.InMemory
	shape := graph.Shape{
		Vertices: of.Count, Edges: graph.Counted, EdgeColumns: g.Edges.Columns, Weighted: g.Edges.Weighted, Symmetric: g.Symmetrize || g.Edges.Symmetric,
		FeatureColumns: of.Features.Columns, Names: of.Names, GraphOf: of.GraphOf, Graphs: of.Graphs,
		Classes: of.Labels.Classes, MultiLabel: of.Labels.MultiLabel(), ClassNames: of.Labels.Names, ValueColumns: of.Labels.Columns,
		Metric: of.Metric, Provenance: of.Provenance,
	}
	switch {
	case g.Rows != nil:
		shape.FeatureColumns = g.Rows.Columns
	case g.FromEdges != nil:
		shape.FeatureColumns = g.Edges.Columns
	case of.Features.Sparse():
		shape.FeatureColumns, shape.Sparse = 0, of.Features
	}
	count := g.Edges.Count
	if s != nil {
		count = s.listed.Count
	}
	if !g.Symmetrize && count != Unknown {
		shape.Edges = count
	}
	return shape
}

// writeVertices writes what Create has not written, and drops labels and features that it has written.
func (g *Graph) writeVertices(w *graph.Writer) (err error) {
	of := g.InMemory
	w.SetSplits(of.Splits)
	w.SetEdgeSplit(g.EdgeSplit)
	switch l := &of.Labels; {
	case l.Continuous():
		err = w.AppendValues(l.Values)
		l.Values = []float32{}
	case l.MultiLabel():
		err = w.AppendMultiLabels(l.Multi)
		l.Multi = []float32{}
	case l.Class != nil:
		err = w.AppendLabels(l.Class)
		l.Class = []int64{}
	}
	if err == nil && of.Features.Dense != nil {
		err = w.AppendFeatures(of.Features.Dense)
	}
	if err != nil {
		return err
	}
	g.drop()
	for _, a := range g.Arrays {
		to, err := w.AddArray(a.ArrayShape)
		if err != nil {
			return err
		}
		if err := a.Each(to.Append); err != nil {
			return err
		}
		if err := to.Close(); err != nil {
			return err
		}
	}
	if g.Rows == nil {
		return nil
	}
	of.Features.Columns = g.Rows.Columns
	at := int64(0)
	return g.Rows.Each(func(rows []float32) error {
		g.Progress.Of("reading features", at, int64(of.Count))
		at += int64(len(rows) / g.Rows.Columns)
		return w.AppendFeatures(rows)
	})
}

// drop gives the memory of features back: the edges may need it.
func (g *Graph) drop() {
	f := &g.InMemory.Features
	if f.Dense = nil; f.Sparse() {
		*f = graph.Features{Columns: f.Columns, Indptr: []int64{0}}
	}
	if g.FromEdges != nil {
		f.Columns = g.Edges.Columns
	}
	debug.FreeOSMemory()
}

// sorted are edges that have been read. Most of them are in a file.
type sorted struct {
	scratch *os.File
	sorter  *edgesort.Sorter
	listed  Listed
	values  []float32 // of an edge
}

func (s *sorted) close() { _ = s.scratch.Close() }

// sort reads the edges, whose ends are below so many vertices.
func (g *Graph) sort(dir string, vertices int) (*sorted, error) {
	scratch, err := graph.Scratch(dir)
	if err != nil {
		return nil, err
	}
	s := &sorted{scratch: scratch}
	s.listed, err = g.Edges.each(g.Progress, func(e graph.Edges, before Listed) error {
		if s.sorter == nil { // whether they are weighted is known by now
			if err := s.begin(g, vertices); err != nil {
				return err
			}
		}
		if err := e.CheckEnds(before.Count, vertices); err != nil {
			return g.Edges.Refuse(err)
		}
		if err := g.checkGraphs(&e); err != nil {
			return err
		}
		return s.add(&e, g.Symmetrize)
	})
	if err == nil && s.sorter == nil {
		err = s.begin(g, vertices)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// begin makes the sorter.
func (s *sorted) begin(g *Graph, vertices int) error {
	about, columns := g.Edges.Count, g.Edges.Columns
	if about == Unknown {
		about = g.Edges.About
	}
	if g.Symmetrize {
		about *= 2
	}
	if g.Edges.Weighted {
		columns++
	}
	s.sorter = edgesort.New(edgesort.Options{Scratch: s.scratch, Columns: columns, Single: g.Symmetrize}, vertices, about)
	if err := memory.Need(s.sorter.Memory(about)); err != nil {
		return g.Edges.Refuse(err)
	}
	return nil
}

// add adds edges, and their reverse if both is true.
func (s *sorted) add(e *graph.Edges, both bool) error {
	for k, source := range e.Source {
		target, values := e.Target[k], e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]
		if e.Weights != nil {
			s.values = append(append(s.values[:0], e.Weights[k]), values...)
			values = s.values
		}
		if err := s.sorter.Add(source, target, edgesort.Given, values); err != nil {
			return err
		}
		if !both {
			continue
		}
		if err := s.sorter.Add(target, source, edgesort.Added, values); err != nil {
			return err
		}
	}
	return nil
}

// writeEdges writes the sorted edges, and returns their number.
func (g *Graph) writeEdges(w *graph.Writer, s *sorted) (stored int64, err error) {
	vertices := int64(0)
	var weights, rest []float32
	err = s.sorter.Each(func(r edgesort.Rows) error {
		g.Progress.Of("sorting edges", vertices, int64(g.InMemory.Count))
		vertices += int64(len(r.Indegree))
		stored += int64(len(r.Sources))
		if err := w.AppendRows(r.Indegree, r.Sources); err != nil {
			return g.refuse(err)
		}
		features := r.Features
		if g.Edges.Weighted {
			weights, rest = weights[:0], rest[:0]
			for values := range slices.Chunk(r.Features, s.sorter.Columns) {
				weights, rest = append(weights, values[0]), append(rest, values[1:]...)
			}
			features = rest
			if err := w.AppendWeights(weights); err != nil {
				return g.refuse(err)
			}
		}
		if g.Edges.Columns > 0 {
			if err := w.AppendEdgeFeatures(features); err != nil {
				return err
			}
		}
		if g.FromEdges == nil {
			return nil
		}
		made, err := g.FromEdges(r.Indegree, features)
		if err != nil {
			return g.refuse(err)
		}
		return w.AppendFeatures(made)
	})
	return stored, err
}

// WrittenOf is what a store has of a graph in memory.
func WrittenOf(g *graph.Graph) *Written {
	weighted := slices.ContainsFunc(g.Relations, func(r graph.Relation) bool { return r.Weights != nil })
	return &Written{g, g.Edges(), weighted, g.Labels.OneClass()}
}
