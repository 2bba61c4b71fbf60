package edgelist

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/edgesort"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Changes are what Write changes of the graph that Read would return.
type Changes struct {
	Symmetrize bool                     // as graph.Symmetrize
	Split      func(*graph.Graph) error // changes the splits of a graph with labels and the splits of the files; nil: they stay
	Provenance string
}

// Written is what Write wrote.
type Written struct {
	Graph    *graph.Graph // without edges and features
	Edges    int64
	Weighted bool
}

// Streams reports whether Write can write the graph: its edges name vertices by numbers, and its features, if
// any, are an array of numpy.save whose rows stay dense.
func (o *Options) Streams() (bool, error) {
	if o.Strings || o.Features == "" {
		return !o.Strings, nil
	}
	f, err := arrays.Open(o.Features)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return f.StaysDense(o.DenseFeatures)
}

// Write reads the graph and writes a new store, dir. Besides labels and splits it needs less than a
// gigabyte of memory. It sorts the edges in a temporary file beside the store, with 8 bytes for each edge,
// and 4 for its weight and for each feature. The store appears when it is complete. If Write fails, it
// leaves nothing behind.
func (o *Options) Write(dir string, c Changes) (*Written, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	scratch, err := graph.Scratch(dir)
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	sorter, list, err := o.sort(scratch, c.Symmetrize)
	if err != nil {
		return nil, err
	}
	features, err := o.openFeatures()
	if err != nil {
		return nil, err
	}
	defer features.close()
	labels, err := o.readLabels(list)
	if err != nil {
		return nil, err
	}
	vertices, err := o.count(list, features.rows(), labels)
	if err != nil {
		return nil, err
	}
	g := &graph.Graph{Count: vertices, Provenance: c.Provenance, Warnings: list.warnings(), Features: graph.Features{Columns: features.columns()}}
	if g.Labels, err = o.labels(labels); err != nil {
		return nil, err
	}
	if g.Splits, err = o.splits(vertices, list.edges, &g.Labels); err == nil && c.Split != nil {
		err = c.Split(g)
	}
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // the rest may need what was read
	weighted := list.weighted()
	w, err := graph.Create(dir, graph.Shape{
		Vertices: vertices, Edges: graph.Counted, Weighted: weighted, EdgeColumns: len(o.EdgeFeatures), Symmetric: c.Symmetrize,
		FeatureColumns: g.Features.Columns, Classes: g.Labels.Classes, MultiLabel: g.Labels.MultiLabel(), ClassNames: g.Labels.Names, ValueColumns: g.Labels.Columns, Provenance: c.Provenance,
	})
	if err != nil {
		return nil, err
	}
	defer w.Abort() // nothing to do after Close
	w.SetSplits(g.Splits)
	if err := writeLabels(w, &g.Labels); err != nil {
		return nil, err
	}
	if err := features.write(w, o.Progress); err != nil {
		return nil, err
	}
	sorter.Limit(vertices)
	edges, err := o.writeEdges(w, sorter, vertices)
	if err != nil {
		return nil, err
	}
	if c.Symmetrize {
		g.Notes = append(g.Notes, graph.SymmetrizedNote(int64(list.edges), edges, sorter.Duplicates))
	}
	return &Written{g, edges, weighted}, w.Close()
}

// sort reads the list of edges into a sorter.
func (o *Options) sort(scratch *os.File, symmetrize bool) (s *edgesort.Sorter, l *list, err error) {
	limit, about := math.MaxInt32, int64(0)
	if info, err := os.Stat(o.Path); err == nil { // if not, reading it says why
		about = info.Size() // an edge takes more of plain text, and less of compressed
	}
	if o.Vertices > 0 {
		limit = o.Vertices
	}
	l, err = o.read(func(source, target int32, values []float32) error {
		if s == nil {
			s = edgesort.New(edgesort.Options{Scratch: scratch, Columns: len(values), Single: symmetrize}, limit, about)
			if err := memory.Need(s.Memory(about)); err != nil {
				return err
			}
		}
		if err := s.Add(source, target, edgesort.Given, values); err != nil || !symmetrize {
			return err
		}
		return s.Add(target, source, edgesort.Added, values)
	})
	return s, l, err
}

// writeEdges writes the sorted edges, and returns their number.
func (o *Options) writeEdges(w *graph.Writer, s *edgesort.Sorter, vertices int) (edges int64, err error) {
	rows := int64(0)
	var weights, features []float32
	err = s.Each(func(r edgesort.Rows) error {
		o.Progress.Of("sorting edges", rows, int64(vertices))
		rows += int64(len(r.Indegree))
		edges += int64(len(r.Sources))
		if err := w.AppendRows(r.Indegree, r.Sources); err != nil || s.Columns == 0 {
			return err
		}
		weights, features = weights[:0], features[:0]
		for values := range slices.Chunk(r.Features, s.Columns) {
			weight, ofEdge := o.divide(values)
			weights, features = append(weights, weight...), append(features, ofEdge...)
		}
		if len(weights) > 0 {
			if err := w.AppendWeights(weights); err != nil {
				return err
			}
		}
		if len(features) == 0 {
			return nil
		}
		return w.AppendEdgeFeatures(features)
	})
	return edges, err
}

func writeLabels(w *graph.Writer, l *graph.Labels) error {
	switch {
	case l.Continuous():
		return w.AppendValues(l.Values)
	case l.MultiLabel():
		return w.AppendMultiLabels(l.Multi)
	case l.Classes > 0:
		return w.AppendLabels(l.Class)
	}
	return nil
}

// features are the rows of an array of numpy.save, in blocks; nil: there are none.
type features struct {
	path   string
	file   *arrays.File
	blocks *npy.Blocks
}

func (o *Options) openFeatures() (*features, error) {
	if o.Features == "" {
		return nil, nil
	}
	file, err := arrays.Open(o.Features)
	if err != nil {
		return nil, err
	}
	blocks, err := file.Rows()
	if err == nil && (blocks.Shape[0] == 0 || blocks.Shape[1] == 0) {
		err = o.noFeatures()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &features{o.Features, file, blocks}, nil
}

func (f *features) close() {
	if f != nil {
		_ = f.file.Close()
	}
}

// rows returns the number of rows, −1 without features.
func (f *features) rows() int {
	if f == nil {
		return -1
	}
	return f.blocks.Shape[0]
}

func (f *features) columns() int {
	if f == nil {
		return 0
	}
	return f.blocks.Shape[1]
}

// write writes all rows.
func (f *features) write(w *graph.Writer, progress graph.Progress) error {
	for at := 0; at < f.rows(); {
		block, err := f.blocks.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var values []float32
		if err == nil {
			values, err = block.Float32s()
		}
		if err == nil {
			err = arrays.CheckFinite(values, f.columns(), at)
		}
		if err != nil {
			return refusal.Errorf("%s: %w", f.path, err)
		}
		at += len(values) / f.columns()
		progress.Of("reading "+f.path, int64(at), int64(f.rows()))
		if err := w.AppendFeatures(values); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}
