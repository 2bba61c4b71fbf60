package graph

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/atomicfile"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Write writes the graph to a new store in dir, which must not exist or be empty. It sorts the sources of
// each row. The store appears under its name only when it is complete and on disk. A failure leaves nothing
// behind.
func (g *Graph) Write(dir string) error {
	return g.WriteWith(dir, nil, func(string) error { return nil })
}

// WriteWith is Write with a line of progress, and calls add before the complete store gets its name. add gets
// the temporary path of the store. It may open the store and write partitions into it.
func (g *Graph) WriteWith(dir string, progress Progress, add func(store string) error) error {
	g, err := g.ascending()
	if err == nil {
		err = g.check(everything)
	}
	if err != nil {
		return refusal.Errorf("%s is not written: %w", dir, err)
	}
	s, err := stage(dir)
	if err != nil {
		return err
	}
	defer s.abort()
	s.progress, s.all = progress, g.bytes()
	s.graph(g)
	s.description(describe(g), symmetric(g.Relations))
	if s.err == nil {
		s.err = add(s.dir.Name())
	}
	s.publish()
	return s.failure()
}

// bytes returns about how many bytes the arrays of a graph take.
func (g *Graph) bytes() (n int64) {
	for _, t := range g.Types() {
		f := &t.Features
		n += 4*int64(len(f.Dense)+len(f.Indices)+len(f.Data)) + 8*int64(len(f.Indptr)) + 4*int64(len(t.GraphOf))
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		n += 8*int64(len(r.Indptr)) + 4*int64(len(r.Sources)+len(r.Weights)+len(r.EdgeFeatures))
	}
	return n + 8*int64(len(g.Labels.Class)) + 4*int64(len(g.Labels.Multi)+len(g.Labels.Values))
}

// ascending returns the graph with the sources of every row in ascending order. It shares arrays that are
// sorted.
func (g *Graph) ascending() (*Graph, error) {
	types, copied := g.Types(), *g
	copied.Relations = slices.Clone(g.Relations)
	for i := range copied.Relations {
		r := &copied.Relations[i]
		s, t, err := g.Joins(r)
		if err != nil {
			return g, err
		}
		if err := checkIndptr(indptrFile, r.Indptr, types[t].Count, len(r.Sources)); err != nil {
			return g, inFolder(g.layout().edges(r.Ends()), err)
		}
		if r.sorted() {
			continue
		}
		sorted, err := NewBipartite(types[s].Count, types[t].Count, r.Edges())
		if err != nil {
			return g, err
		}
		sorted.Source, sorted.Name, sorted.Target, sorted.Symmetric, sorted.EdgeSplit = r.Source, r.Name, r.Target, r.Symmetric, r.EdgeSplit
		*r = sorted
	}
	return &copied, nil
}

// Shape describes the graph that a Writer will write.
type Shape struct {
	Vertices       int
	Edges          int64    // Counted: not known in advance
	EdgeColumns    int      // of edge features; 0 for none
	Weighted       bool     // edges have weights
	FeatureColumns int      // of dense features; 0 for none
	Classes        int      // 0 for no labels
	MultiLabel     bool     // a vertex may carry several labels
	ClassNames     []string // of the classes, nil: they have none
	ValueColumns   int      // of labels that are values; 0 for classes or none
	Sparse         Features // sparse rows in the place of dense features, written by Create
	Names          []string // of the vertices, nil: they have none
	GraphOf        []int32  // the graph of each vertex, of several (see Graph); nil: there is one
	Graphs         int      // how many there are, 0 of one
	Symmetric      bool     // each edge is stored in both directions, equally often
	Metric         string
	Provenance     string
}

// Counted is the number of edges of a Shape if it is not known in advance. The Writer counts them.
const Counted = npy.Growing

// Writer writes a store in batches, so that a graph larger than memory can be generated or imported. Rows,
// dense features and labels are appended in the order of the vertices, and edge features in the order of the
// rows. The calls for these may alternate in any way. After an error only Abort may be called.
type Writer struct {
	shape     Shape
	vertices  vertexDescription // without what is appended or set
	s         *staging
	indptr    *arrayFile
	indices   *arrayFile
	weights   *arrayFile // nil without weights of edges
	data      *arrayFile // of edges; nil without edge features
	features  *arrayFile // nil without features
	labels    *arrayFile // nil without labels
	arrays    []ArrayShape
	splits    []Split
	edgeSplit *EdgeSplit

	rows, featureRows, labelRows int   // vertices that were appended
	edges, dataRows, weighted    int64 // edges that were appended
}

// Create begins a store in dir, which must not exist or be empty. The store appears there at Close.
func Create(dir string, shape Shape) (*Writer, error) {
	if err := checkVertexCount(shape.Vertices); err != nil {
		return nil, refusal.Errorf("%s: %w", dir, err)
	}
	if err := shape.check(); err != nil {
		return nil, refusal.Errorf("%s: %w", dir, err)
	}
	s, err := stage(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{shape: shape, s: s}
	w.indptr = s.array(indptrFile, "<i8", shape.Vertices+1)
	w.indices = s.array(indicesFile, "<i4", int(shape.Edges))
	if shape.Weighted {
		w.weights = s.array(weightsFile, "<f4", int(shape.Edges))
	}
	if shape.EdgeColumns > 0 {
		w.data = s.array(edgeFeaturesFile, "<f4", int(shape.Edges), shape.EdgeColumns)
	}
	if shape.FeatureColumns > 0 {
		w.features = s.array(featuresFile, "<f4", shape.Vertices, shape.FeatureColumns)
	}
	switch {
	case shape.ValueColumns > 0:
		w.labels = s.array(labelsFile, "<f4", shape.Vertices, shape.ValueColumns)
	case shape.Classes > 0 && shape.MultiLabel:
		w.labels = s.array(labelsFile, "<f4", shape.Vertices, shape.Classes)
	case shape.Classes > 0:
		w.labels = s.array(labelsFile, "<i8", shape.Vertices)
	}
	s.names(classNamesFile, shape.ClassNames)
	vertices := VertexType{Type: VertexName, Count: shape.Vertices, Features: shape.Sparse, Names: shape.Names, GraphOf: shape.GraphOf}
	s.vertices(vertices)
	w.vertices = describeVertices(vertices)
	w.shape.Sparse, w.shape.Names = Features{}, nil // the caller may need their memory
	w.indptr.int64s([]int64{0})
	if s.err != nil {
		_ = w.Abort()
		return nil, s.failure()
	}
	return w, nil
}

// check refuses sizes that no graph has.
func (s *Shape) check() error {
	if err := checkMetric(s.Metric); err != nil {
		return err
	}
	if s.Edges < 0 && s.Edges != Counted || s.Edges > math.MaxInt || min(s.FeatureColumns, s.EdgeColumns) < 0 ||
		max(s.FeatureColumns, s.EdgeColumns) > math.MaxInt32 || s.Classes < 0 || max(s.Classes, s.ValueColumns) > maxClasses(s.Vertices) ||
		s.ValueColumns < 0 || s.ValueColumns > 0 && s.Classes > 0 || s.ClassNames != nil && (len(s.ClassNames) != s.Classes || s.MultiLabel) {
		return refusal.Errorf("%d edges with %d feature columns, and %d feature columns and %d classes of vertices are not possible",
			s.Edges, s.EdgeColumns, s.FeatureColumns, s.Classes)
	}
	if s.Sparse.Columns > 0 && (!s.Sparse.Sparse() || s.FeatureColumns > 0) {
		return refusal.Errorf("features of %d dense columns and of %d that are sparse rows are not possible", s.FeatureColumns, s.Sparse.Columns)
	}
	g := Graph{Count: s.Vertices, Features: s.Sparse, Names: s.Names, GraphOf: s.GraphOf, Graphs: s.Graphs}
	return g.CheckVertices()
}

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
	f, err := os.OpenFile(filepath.Join(above, atomicfile.Hidden(filepath.Base(final))), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, refusal.Errorf("%s: its folder cannot be written to (%w); choose another place", dir, err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Scratch makes a temporary file for the caller, on the disk of the store. It has no name, and is removed
// when it is closed or when the process ends.
func (w *Writer) Scratch() (*os.File, error) {
	f, err := w.s.scratch()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.s.name, err)
	}
	return f, nil
}

// AppendRows appends the in-neighbours of the next len(indegree) vertices. sources has indegree[0] ids for
// the first of these vertices, ascending, then indegree[1] ids for the second, and so on. It refuses an edge
// between two graphs.
func (w *Writer) AppendRows(indegree []int32, sources []int32) error {
	if len(indegree) > w.shape.Vertices-w.rows || !w.counted() && int64(len(sources)) > w.shape.Edges-w.edges {
		return fmt.Errorf("%s: %d rows with %d edges after %d and %d are more than the %d and %d announced",
			w.s.name, len(indegree), len(sources), w.rows, w.edges, w.shape.Vertices, w.shape.Edges)
	}
	ends := make([]int64, len(indegree))
	at := 0
	for k, degree := range indegree {
		if degree < 0 || int(degree) > len(sources)-at {
			return fmt.Errorf("%s: in-degree %d of vertex %d does not fit the %d sources given", w.s.name, degree, w.rows+k, len(sources))
		}
		if err := checkRow(inEdges, w.rows+k, sources[at:at+int(degree)], w.shape.Vertices); err != nil {
			return fmt.Errorf("%s: %w", w.s.name, err)
		}
		if w.shape.GraphOf != nil {
			if err := checkOneGraph(w.shape.GraphOf, w.shape.GraphOf, w.rows+k, sources[at:at+int(degree)]); err != nil {
				return refusal.Errorf("%w", err)
			}
		}
		at += int(degree)
		ends[k] = w.edges + int64(at)
	}
	if at != len(sources) {
		return fmt.Errorf("%s: in-degrees add up to %d, but %d sources are given", w.s.name, at, len(sources))
	}
	w.rows += len(indegree)
	w.edges += int64(at)
	w.indptr.int64s(ends)
	w.indices.int32s(sources)
	return w.s.failure()
}

// counted reports whether the number of edges was not known in advance.
func (w *Writer) counted() bool { return w.shape.Edges == Counted }

// AppendWeights appends the weights of the next edges, in the order of the rows. It refuses those that are
// not finite.
func (w *Writer) AppendWeights(weights []float32) error {
	if w.weights == nil {
		return fmt.Errorf("%s: weights for a graph that was announced without", w.s.name)
	}
	if k := notFinite(weights); k >= 0 {
		return refusal.Errorf("%w", flawf(weightsFile, "the weight of edge %d is %v", w.weighted+int64(k), weights[k]))
	}
	w.weighted += int64(len(weights))
	w.weights.float32s(weights)
	return w.s.failure()
}

// AppendEdgeFeatures appends the features of the next edges, in the order of the rows, row-major.
func (w *Writer) AppendEdgeFeatures(rows []float32) error {
	columns := w.shape.EdgeColumns
	if w.data == nil || len(rows)%columns != 0 {
		return fmt.Errorf("%s: %d edge feature values are no rows of %d columns", w.s.name, len(rows), columns)
	}
	if k := notFinite(rows); k >= 0 {
		return fmt.Errorf("%s: edge %d has the value %v in column %d", w.s.name, w.dataRows+int64(k/columns), rows[k], k%columns)
	}
	w.dataRows += int64(len(rows) / columns)
	w.data.float32s(rows)
	return w.s.failure()
}

// AppendFeatures appends the features of the next vertices, row-major.
func (w *Writer) AppendFeatures(rows []float32) error {
	if w.features == nil || len(rows)%w.shape.FeatureColumns != 0 {
		return fmt.Errorf("%s: %d feature values are no rows of %d columns", w.s.name, len(rows), w.shape.FeatureColumns)
	}
	if err := checkFeatureRows(w.featureRows, rows, w.shape.FeatureColumns); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.featureRows += len(rows) / w.shape.FeatureColumns
	w.features.float32s(rows)
	return w.s.failure()
}

// AppendLabels appends the classes of the next vertices, −1 where unlabelled.
func (w *Writer) AppendLabels(classes []int64) error {
	if w.labels == nil || w.shape.MultiLabel || w.shape.ValueColumns > 0 {
		return fmt.Errorf("%s: labels for a graph that was announced without such ones", w.s.name)
	}
	if err := checkClasses(w.labelRows, classes, w.shape.Classes); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.labelRows += len(classes)
	w.labels.int64s(classes)
	return w.s.failure()
}

// AppendMultiLabels appends the labels of the next vertices of a graph with several labels per vertex: a row
// of Shape.Classes values for each vertex, 0 or 1, or NaN for a missing label.
func (w *Writer) AppendMultiLabels(rows []float32) error {
	classes := w.shape.Classes
	if w.labels == nil || !w.shape.MultiLabel || len(rows)%classes != 0 {
		return fmt.Errorf("%s: %d label values are no rows of %d classes", w.s.name, len(rows), classes)
	}
	if err := checkMulti(w.labelRows, rows, classes); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.labelRows += len(rows) / classes
	w.labels.float32s(rows)
	return w.s.failure()
}

// AppendValues appends the values to predict of the next vertices: a row of Shape.ValueColumns for each, NaN
// where one is missing.
func (w *Writer) AppendValues(rows []float32) error {
	columns := w.shape.ValueColumns
	if columns == 0 || len(rows)%columns != 0 {
		return fmt.Errorf("%s: %d values are no rows of %d columns", w.s.name, len(rows), columns)
	}
	if err := checkValues(w.labelRows, rows, columns); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.labelRows += len(rows) / columns
	w.labels.float32s(rows)
	return w.s.failure()
}

// SetSplits sets the stored splits. They are checked and written by Close.
func (w *Writer) SetSplits(splits []Split) { w.splits = splits }

// SetEdgeSplit sets the supervision edges for link prediction. They are checked and written by Close.
func (w *Writer) SetEdgeSplit(s *EdgeSplit) { w.edgeSplit = s }

// Close checks that everything in the Shape was appended, and gives the store its name. If it fails, it
// leaves nothing behind.
func (w *Writer) Close() error {
	defer w.Abort()
	if w.rows != w.shape.Vertices || !w.counted() && w.edges != w.shape.Edges {
		return fmt.Errorf("%s: %d rows and %d edges written of %d and %d announced",
			w.s.name, w.rows, w.edges, w.shape.Vertices, w.shape.Edges)
	}
	if w.data != nil && w.dataRows != w.edges {
		return fmt.Errorf("%s: features of %d edges written of %d", w.s.name, w.dataRows, w.edges)
	}
	if w.weights != nil && w.weighted != w.edges {
		return fmt.Errorf("%s: weights of %d edges written of %d", w.s.name, w.weighted, w.edges)
	}
	for _, a := range []*arrayFile{w.indptr, w.indices, w.weights, w.data, w.features, w.labels} {
		a.close()
	}
	if w.s.err != nil {
		return w.s.failure()
	}
	if err := w.checkSplits(); err != nil {
		return err
	}
	if err := w.edgeSplit.check(w.rows, w.rows); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	w.s.splits(w.splits)
	w.s.edgeSplit(w.edgeSplit)
	var known []int
	if w.shape.Symmetric {
		known = []int{0}
	}
	return w.s.commit(w.describe(), known)
}

// describe returns the description of the store.
func (w *Writer) describe() *description {
	v := w.vertices
	v.Splits, v.Arrays, v.Graphs = describeSplits(w.splits), w.arrays, w.shape.Graphs
	if w.features != nil {
		v.Features = &featuresDescription{Layout: layoutDense, Dtype: "float32", Columns: w.shape.FeatureColumns}
	}
	switch {
	case w.shape.ValueColumns > 0:
		v.Labels = &labelsDescription{Kind: labelsValues, Dtype: "float32", Columns: w.shape.ValueColumns}
	case w.labels != nil && w.shape.MultiLabel:
		v.Labels = &labelsDescription{Kind: labelsMulti, Dtype: "float32", Classes: w.shape.Classes}
	case w.labels != nil:
		v.Labels = &labelsDescription{Kind: labelsClass, Dtype: "int64", Classes: w.shape.Classes, Names: w.shape.ClassNames != nil}
	}
	r := relationDescription{
		Source: VertexName, Name: RelationName, Target: VertexName, Count: int(w.edges), Dtype: "int32", Weights: w.weights != nil, FeatureColumns: w.shape.EdgeColumns,
		EdgeSplit: describeEdgeSplit(w.edgeSplit),
	}
	return &description{formatVersion, w.shape.Provenance, w.shape.Metric, []vertexDescription{v}, []relationDescription{r}}
}

// checkSplits checks the splits against the labels that were written.
func (w *Writer) checkSplits() error {
	m := &mappings{wayOut: importAgain}
	defer m.close()
	l, err := Labels{Classes: w.shape.Classes, Columns: w.shape.ValueColumns}, error(nil)
	switch {
	case w.labels == nil || len(w.splits) == 0:
	case l.Continuous():
		l.Values, err = m.float32s(w.s.dir.Name(), labelsFile, w.shape.Vertices, w.shape.ValueColumns)
	case w.shape.MultiLabel:
		l.Multi, err = m.float32s(w.s.dir.Name(), labelsFile, w.shape.Vertices, w.shape.Classes)
	default:
		l.Class, err = m.int64s(w.s.dir.Name(), labelsFile, w.shape.Vertices)
	}
	if err != nil {
		return err
	}
	if err := checkSplits(w.splits, w.shape.Vertices, &l); err != nil {
		return fmt.Errorf("%s: %w", w.s.name, err)
	}
	return nil
}

// Abort removes the unfinished store. After Close it does nothing, so it can be deferred.
func (w *Writer) Abort() error { return w.s.abort() }
