package graph

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/atomicfile"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Write writes the graph to a new store in dir, which must not exist or be empty. The store appears under its
// name only when it is complete and on disk. A failure leaves nothing behind.
func (g *Graph) Write(dir string) error {
	return g.WriteWith(dir, nil, func(string) error { return nil })
}

// WriteWith writes the graph as Write does, shows progress, and calls add before the complete store gets its
// name. add gets the temporary path of the store. It may open the store and write partitions into it.
func (g *Graph) WriteWith(dir string, progress Progress, add func(store string) error) error {
	if err := g.check(everything); err != nil {
		return refusal.Errorf("%s is not written: %w", dir, err)
	}
	s, err := stage(dir)
	if err != nil {
		return err
	}
	defer s.Abort()
	s.progress, s.all = progress, g.bytes()
	s.graph(g)
	s.description(describe(g), symmetric(g.Relations))
	return s.commitWith(add)
}

// Writer writes a store, or a part of a graph, in batches, so that a graph larger than memory can be written.
// While one method makes its batches, another may be called.
// After an error only Abort may be called.
type Writer struct {
	s      *Folder
	folder string // of a part, in the folder; empty: a store
	part   *Part  // without what is written; a store has no Out
	d      *description
	due    map[string]bool // files of what was announced and is not written yet
}

// Batches calls write with consecutive rows, until write fails. An index of rows in a batch begins at 0.
type Batches[T any] = func(write func(T) error) error

// Counted is a number of edges that is not known in advance. The Writer counts them.
const Counted = npy.Growing

// Create begins a store in dir, which must not exist or be empty. The store appears there at Close. The types
// of g have their Count, and its relations no rows yet. Features with Columns and no values announce dense
// ones, and Labels with Classes and no values those of Classes. Create writes whatever else g has.
func Create(dir string, g *Graph) (*Writer, error) {
	if err := g.CheckAnnounced(); err != nil {
		return nil, refusal.Errorf("%s: %w", dir, err)
	}
	s, err := stage(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{s: s, part: &Part{Graph: g}, d: describe(g), due: map[string]bool{}}
	l := g.layout()
	s.types(g, func(_ int, t VertexType) {
		w.part.Whole = append(w.part.Whole, t.Count)
		if t.Features.Columns > 0 && t.Features.Dense == nil && !t.Features.Sparse() {
			w.due[filepath.Join(l.vertices(t.Name()), featuresFile)] = true
			t.Features = Features{}
		}
		s.vertices(t, g.Graphs)
	})
	for i := range g.Relations {
		at := l.edges(g.Relations[i].Ends())
		split := g.Relations[i].EdgeSplit
		w.due[filepath.Join(at, indptrFile)] = true
		s.within(at, func() { s.write(split.stored(describeEdgeSplit(split))) })
	}
	if g.Types[0].Labels.Classes > 0 && !g.Types[0].Labels.There() {
		w.due[filepath.Join(l.vertices(w.d.Vertices[0].Type), labelsFile)] = true
		l := g.Types[0].Labels
		l.Class = []int64{}
		w.d.Vertices[0].Labels = describeLabels(&l)
	}
	if s.err != nil {
		_ = w.Abort()
		return nil, s.failure()
	}
	return w, nil
}

// CreatePart begins a part in a directory of that name. p has the ids, labels and splits of its vertices. Its
// graph has Count, and types and relations without rows. CreatePart writes ids, labels and splits and does
// not keep them. Close completes the part.
func (s *Folder) CreatePart(name string, p *Part) (*Writer, error) {
	p.Out = make([]Relation, len(p.Graph.Relations))
	for i := range p.Out {
		p.Out[i].Symmetric = p.Graph.Relations[i].Symmetric
	}
	bare := p.Graph.Copy()
	bare.Types[0].Labels, bare.Types[0].Splits = Labels{}, nil
	w := &Writer{s: s, folder: name, part: &Part{Graph: bare, Whole: p.Whole, Out: p.Out}, d: p.describe()}
	s.within(name, func() { s.types(p.Graph, func(i int, _ VertexType) { s.ids(p.IDs[i]) }) })
	return w, s.failure()
}

// ofType has write write a file of vertex type t.
func (w *Writer) ofType(t int, file string, write func()) {
	dir := w.part.Graph.layout().vertices(w.d.Vertices[t].Type)
	delete(w.due, filepath.Join(dir, file))
	w.within(dir, write)
}

// within has write write files into a directory of the store or part, wherever another method is at work.
func (w *Writer) within(dir string, write func()) {
	elsewhere := w.s.sub
	w.s.sub = ""
	w.s.within(filepath.Join(w.folder, dir), write)
	w.s.sub = elsewhere
}

// Features writes the features of vertex type t, of so many columns. Sparse ones have so many stored values;
// −1 stands for dense ones.
func (w *Writer) Features(t, columns, stored int, batches Batches[*Features]) error {
	v, s := &w.d.Vertices[t], w.s
	w.ofType(t, featuresFile, func() {
		if stored < 0 {
			v.Features = &featuresDescription{layoutDense, "float32", columns, 0}
			dense := newArray[float32](s, featuresFile, v.Count, columns)
			rows := 0
			s.take(batches(func(f *Features) error {
				if len(f.Dense)%columns != 0 {
					return fmt.Errorf("%d feature values are no rows of %d columns", len(f.Dense), columns)
				}
				if err := checkFeatureRows(rows, f.Dense, columns); err != nil {
					return refusal.Errorf("%w", err)
				}
				rows += len(f.Dense) / columns
				put(dense, f.Dense)
				return s.err
			}))
			dense.close()
			return
		}
		v.Features = &featuresDescription{layoutSparse, "float32", columns, stored}
		indptr := newArray[int64](s, featuresIndptrFile, v.Count+1)
		indices := newArray[int32](s, featuresIndicesFile, stored)
		data := newArray[float32](s, featuresDataFile, stored)
		ends := []int64{0}
		put(indptr, ends)
		s.take(batches(func(f *Features) error {
			if err := f.check(len(f.Indptr)-1, everything); err != nil || len(f.Indptr) == 1 {
				return err
			}
			ends = appendRows(append(ends[:0], ends[len(ends)-1]), f.Indptr)
			put(indptr, ends[1:])
			put(indices, f.Indices)
			put(data, f.Data)
			return s.err
		}))
		indptr.close()
		indices.close()
		data.close()
	})
	return s.failure()
}

// Classes writes the labels of the first type that Create was announced, −1 where a vertex has none.
func (w *Writer) Classes(batches Batches[[]int64]) error {
	v, s := &w.d.Vertices[0], w.s
	w.ofType(0, labelsFile, func() {
		class := newArray[int64](s, labelsFile, v.Count)
		rows, l := 0, Labels{Classes: v.Labels.Classes}
		s.take(batches(func(some []int64) error {
			if err := l.checkClasses(rows, some); err != nil {
				return err
			}
			rows += len(some)
			put(class, some)
			return s.err
		}))
		class.close()
	})
	return s.failure()
}

// Splits writes splits of the first type, whose labels are written by now.
func (w *Writer) Splits(splits []Split) error {
	m, f, v := &mappings{wayOut: importAgain}, Frame{Splits: splits}, &w.d.Vertices[0]
	defer m.close()
	w.ofType(0, splitFiles[0], func() {
		w.s.completed()
		if w.s.err == nil && v.Labels != nil {
			f.Labels.Classes, f.Labels.Columns = v.Labels.Classes, v.Labels.Columns
			w.s.err = m.read(filepath.Join(w.s.dir.Name(), w.s.sub), f.Labels.stored(v.Labels, v.Count))
		}
		if w.s.err == nil {
			w.s.err = f.checkSplits(v.Count)
		}
		w.s.splits(splitFiles, splits)
	})
	v.Splits = SizesOf(splits)
	return w.s.failure()
}

// Array writes an Array of vertex type t. It refuses values that are not whole in one of integers.
func (w *Writer) Array(t int, shape ArrayShape, batches Batches[[]float32]) error {
	v, s := &w.d.Vertices[t], w.s
	v.Arrays = append(slices.Clip(v.Arrays), shape)
	s.take(checkArrayShapes(v.Arrays))
	if s.err != nil {
		return s.failure()
	}
	file := shape.Name + ".npy"
	w.ofType(t, file, func() {
		if shape.Dtype == Float32 {
			floats := newArray[float32](s, file, v.Count, shape.Columns)
			s.take(batches(func(rows []float32) error {
				put(floats, rows)
				return s.err
			}))
			floats.close()
			return
		}
		ints := newArray[int64](s, file, v.Count, shape.Columns)
		row := []int64{}
		s.take(batches(func(rows []float32) error {
			row = row[:0]
			for _, x := range rows {
				if float32(int64(x)) != x {
					return fmt.Errorf("array %q: %v is no integer", shape.Name, x)
				}
				row = append(row, int64(x))
			}
			put(ints, row)
			return s.err
		}))
		ints.close()
	})
	return s.failure()
}

// In writes the in-edges of relation r: so many of them, or as many as were counted (Counted). They have
// weights and edge features if like has them. An edge between two graphs is refused.
func (w *Writer) In(r int, edges int64, like *Relation, batches Batches[*Relation]) error {
	d := &w.d.Relations[r]
	d.Weights, d.FeatureColumns = like.Weights != nil, like.Features.Columns
	return w.edges(r, inEdges, edges, d, batches)
}

// Out writes the out-edges of relation r of a part: so many of them, or as many as were counted (Counted).
// They have weights if like has them, and no edge features.
func (w *Writer) Out(r int, edges int64, like *Relation, batches Batches[*Relation]) error {
	d := &w.d.Relations[len(w.part.Out)+r]
	d.Weights = like.Weights != nil
	return w.edges(r, outEdges, edges, d, batches)
}

func (w *Writer) edges(
	r int, files relationFiles, edges int64, d *relationDescription, batches Batches[*Relation],
) error {
	rows, far, err := w.part.ends(r, files)
	if err != nil {
		return err
	}
	s := w.s
	dir := w.part.Graph.layout().edges(w.part.Graph.Relations[r].Ends())
	delete(w.due, filepath.Join(dir, files.indptr))
	w.within(dir, func() {
		indptr := newArray[int64](s, files.indptr, rows+1)
		indices := newArray[int32](s, files.indices, int(edges))
		var weights, features *arrayFile
		if d.Weights {
			weights = newArray[float32](s, files.weights, int(edges))
		}
		if d.FeatureColumns > 0 {
			features = newArray[float32](s, files.features, int(edges), d.FeatureColumns)
		}
		var classes, values, by *arrayFile
		if l := d.Frame; l != nil && files == inEdges {
			switch kind := l.Labels; kind.Kind {
			case labelsClass:
				classes = newArray[int64](s, edgeLabelsFile, int(edges))
			case labelsMulti:
				values = newArray[float32](s, edgeLabelsFile, int(edges), kind.Classes)
			default:
				values = newArray[float32](s, edgeLabelsFile, int(edges), kind.Columns)
			}
			if l.By != nil {
				by = newArray[float64](s, edgeSplitByFile, int(edges))
			}
			s.names(edgeClassNamesFile, w.part.Graph.Relations[r].Labels.Names)
		}
		row, ends := 0, []int64{0}
		put(indptr, ends)
		s.take(batches(func(b *Relation) error {
			if err := w.checkBatch(r, files, d, b, row, ends[len(ends)-1], w.part.Whole[far]); err != nil ||
				b.rows() == 0 {
				return err
			}
			row += b.rows()
			ends = appendRows(append(ends[:0], ends[len(ends)-1]), b.Indptr)
			put(indptr, ends[1:])
			put(indices, b.Sources)
			put(weights, b.Weights)
			put(features, b.Features.Dense)
			if l := &b.Frame; l.HasLabels() {
				rows, _ := l.Labels.rows()
				put(classes, l.Labels.Class)
				put(values, rows)
				if l.SplitBy != nil {
					put(by, l.SplitBy.Values)
				}
			}
			return s.err
		}))
		for _, a := range []*arrayFile{indptr, indices, weights, features, classes, values, by} {
			a.close()
		}
		d.Count = int(ends[len(ends)-1])
	})
	return s.failure()
}

// EdgeSplits has divide set the splits of the edges of relation r, which are written by now with their
// labels, and writes them.
func (w *Writer) EdgeSplits(r int, divide func(*Frame) error) error {
	m, d := &mappings{wayOut: importAgain}, &w.d.Relations[r]
	defer m.close()
	s := w.s
	w.within(w.part.Graph.layout().edges(w.part.Graph.Relations[r].Ends()), func() {
		s.completed()
		if s.err != nil {
			return
		}
		l := d.Frame.described()
		s.take(m.read(filepath.Join(s.dir.Name(), s.sub), l.storedLabels(d.Frame, d.Count)))
		if s.err == nil {
			s.take(divide(l))
		}
		if s.err == nil {
			s.take(l.checkLabels(d.Count, indices))
		}
		s.splits(edgePartFiles, l.Splits)
		d.Frame.Splits, d.Frame.By = SizesOf(l.Splits), l.SplitBy.With(nil)
	})
	return s.failure()
}

// checkBatch checks rows of a relation. row and edge are the numbers of the first ones. The other ends are
// numbered over a whole of so many vertices.
func (w *Writer) checkBatch(
	r int, files relationFiles, d *relationDescription, b *Relation, row int, edge int64, whole int,
) error {
	if err := checkIndptr(files.indptr, b.Indptr, b.rows(), len(b.Sources)); err != nil {
		return err
	}
	if d.Weights && len(b.Weights) != len(b.Sources) ||
		b.Features.Columns != d.FeatureColumns && files == inEdges {
		return fmt.Errorf("%d edges with %d weights and %d features are not what was announced",
			len(b.Sources), len(b.Weights), b.Features.Columns)
	}
	announced := &Frame{} // edges out have none
	if files == inEdges {
		announced = &w.part.Graph.Relations[r].Frame
	}
	if err := announced.checkBatch(&b.Frame, len(b.Sources)); err != nil {
		return err
	}
	err := b.checkRows(files, row, edge, whole, everything, func() {})
	if g := w.part.Graph; err == nil && g.Types[0].GraphOf != nil {
		types := g.Types
		source, target, joins := g.Joins(&g.Relations[r])
		if err = joins; err == nil {
			err = b.checkGraphs(types[source].GraphOf, types[target].GraphOf, row)
		}
	}
	if err != nil {
		return refusal.Errorf("%w", err)
	}
	return nil
}

// Written maps the in-edges of relation r that In has written. Closing the graph, which has nothing else,
// gives them back.
func (w *Writer) Written(r int) (*Graph, error) {
	rows, _, err := w.part.ends(r, inEdges)
	if err != nil {
		return nil, err
	}
	m := &mappings{wayOut: partitionAgain}
	g := &Graph{Relations: make([]Relation, 1), path: filepath.Join(w.s.dir.Name(), w.folder), mapped: m}
	dir := filepath.Join(g.path, w.part.Graph.layout().edges(w.part.Graph.Relations[r].Ends()))
	if err := g.Relations[0].read(m, dir, inEdges, &w.d.Relations[r], rows); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close checks that everything that was announced is written, and describes it. It gives a store its name; if
// that fails, it leaves nothing behind.
func (w *Writer) Close() error { return w.CloseWith(func(string) error { return nil }) }

// CloseWith completes a store, and calls add with its temporary path before the store gets its name.
func (w *Writer) CloseWith(add func(store string) error) error {
	for file := range w.due {
		w.s.take(fmt.Errorf("%s was announced and not written", file))
	}
	w.s.within(w.folder, func() { w.s.description(w.d, symmetric(w.part.Graph.Relations, w.part.Out)) })
	if w.folder != "" {
		return w.s.failure()
	}
	defer w.Abort()
	return w.s.commitWith(add)
}

// Abort removes the unfinished store. After Close it does nothing, so it can be deferred.
func (w *Writer) Abort() error { return w.s.Abort() }

// Scratch makes a temporary file, on the disk of a store that will be in dir. It has no name, and is removed
// when it is closed or when the process ends.
func Scratch(dir string) (*os.File, error) {
	final, err := finalPath(dir)
	if err != nil {
		return nil, err
	}
	above := filepath.Dir(final)
	for ; above != filepath.Dir(above); above = filepath.Dir(above) {
		if info, err := os.Stat(above); err == nil && info.IsDir() {
			break
		}
	}
	hidden := filepath.Join(above, atomicfile.Hidden(filepath.Base(final)))
	f, err := os.OpenFile(hidden, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, refusal.Errorf("%s: its folder cannot be written to (%w); choose another place", dir, err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
