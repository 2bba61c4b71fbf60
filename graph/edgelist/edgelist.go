// Package edgelist reads graphs that come as a list of edges, in a text file (comma, semicolon, tab or space
// between the columns; plain or gzip) or in Parquet, with NumPy arrays of features, labels and splits beside
// it.
package edgelist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/npz"
	"weft/graph/streamed"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Options name the files of a graph and how to read them. All but Path may be empty.
type Options struct {
	// Path is the list of edges: source, target and, as an optional third column, a weight.
	Path string
	// EdgeFeatures are the names of further columns of the list, of numbers that are features of the edges. A
	// text file then has a header. A column that is named here is no weight.
	EdgeFeatures []string
	// The files of arrays are what numpy.save writes, or text, plain or gzip, with a row to each line.

	// A text table of features or labels whose header begins with id has rows in any order: its first column
	// says which vertex each row is of, by the ids of the edges.

	// Features is a matrix, one row per vertex, or a sparse one as scipy.sparse.save_npz writes it. Labels is
	// a vector of class ids (−1, or nothing: none) or of names of classes, a 0/1 matrix, or values to predict
	// (floats).
	Features, Labels string
	// Values says that all labels are values to predict, also whole numbers.
	Values bool
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
	// Train, Val and Test are vectors of vertex ids, or of one truth value per vertex, or matrices of truth
	// values with a row per vertex and a column per split.
	Train, Val, Test string
	// Vertices is V; 0 means the largest id plus one, or the rows of Features or Labels where these are more.
	// Ids run from 0.
	Vertices int
	// Strings says that the ends of edges are names: vertices are numbered by first appearance, and the graph
	// keeps Names.
	Strings bool
	// Progress is told how many bytes of Path were read, and what is sorted and written in a stream.
	Progress graph.Progress
}

// Read reads the graph: edges as they are listed, duplicates and self loops included. Complaints about a file
// are refusals that name it, and its line or row.
//
// In a text file, empty lines and those that start with # or % are skipped; the first line that is left may
// be a header, which says what the columns are: src, source or from, dst, target or to, and weight. It is one
// where neither of its first two columns is a number or, with Strings, where both are such words. Columns may
// be in double quotes. A Parquet file, known by its first bytes, has columns of these names, or 0 and 1,
// among others.
func Read(o Options) (*graph.Graph, error) {
	g, err := Open(o)
	if err != nil {
		return nil, err
	}
	return g.Read()
}

// Open returns the graph of Read, to be written in a stream. No file is open before.
func Open(o Options) (*streamed.Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	g := &streamed.Graph{InMemory: &graph.Graph{Provenance: "edges " + o.Path}, Source: o.Path, Progress: o.Progress}
	l := &opened{Options: o, graph: g}
	edges := streamed.Edges{Count: streamed.Unknown, Columns: len(o.EdgeFeatures), Each: l.each, Refuse: l.refuse}
	if info, err := os.Stat(o.Path); err == nil { // if not, reading it says why
		edges.About = info.Size() // an edge takes more of plain text, and less of compressed
	}
	g.Relations, g.Types, g.Complete = []streamed.Relation{{Edges: edges}}, make([]streamed.Type, 1), l.complete
	return g, nil
}

// opened is a graph whose list of edges is read when that is needed.
type opened struct {
	Options
	*list // nil before
	graph *streamed.Graph
}

// refuse implements streamed.Edges.Refuse.
func (l *opened) refuse(err error) error {
	if l.list == nil {
		return refusal.Errorf("%s: %w", l.Path, err)
	}
	return refusal.Errorf("%s: %d vertices, %d edges: %w", l.Path, l.graph.InMemory.Count, l.edges, err)
}

// each implements streamed.Edges.Each.
func (l *opened) each(do func(graph.Edges) error) error {
	const most = 1 << 13 // edges of a batch
	e := graph.Edges{FeatureColumns: len(l.EdgeFeatures)}
	var failed error // of do
	flush := func() error {
		if failed = do(e); failed != nil {
			return failed
		}
		e.Source, e.Target, e.Weights, e.Features = e.Source[:0], e.Target[:0], e.Weights[:0], e.Features[:0]
		return nil
	}
	read, err := l.read(func(source, target int32, values []float32) error {
		at := len(values) - e.FeatureColumns
		l.graph.Relations[0].Weighted = at > 0
		e.Source, e.Target = append(e.Source, source), append(e.Target, target)
		e.Weights, e.Features = append(e.Weights, values[:at]...), append(e.Features, values[at:]...)
		if len(e.Source) < most {
			return nil
		}
		return flush()
	})
	if err == nil && len(e.Source) > 0 {
		err = flush()
	}
	if failed != nil {
		return failed
	}
	l.list = read
	return err
}

// complete reads all but the edges.
func (l *opened) complete() error {
	g := l.graph.InMemory
	numbered := l.Strings && l.numbered()
	features, rows, err := l.readFeatures()
	if err != nil {
		return err
	}
	labels, err := l.readLabels(l.list)
	if err != nil {
		return err
	}
	array := ""
	switch { // of what has no column of ids
	case rows >= 0 && (features == nil || !features.ByID):
		array = l.Features
	case labels != nil && !labels.ByID:
		array = l.Labels
	case rows < 0 && labels == nil:
		array = l.Train
	}
	if array != "" && numbered {
		return refusal.Errorf("%s: with %s its rows follow the first appearance of an id, and all ids of %s are integers: "+
			"leave %s out", array, refusal.Setting("string-ids"), l.Path, refusal.Setting("string-ids"))
	}
	if g.Count, err = l.count(l.list, rows, labels); err != nil {
		return err
	}
	g.Warnings = l.warnings()
	if l.Strings {
		g.Names = l.names.Names
		if array != "" {
			g.Notes = append(g.Notes, fmt.Sprintf("rows of %s are those of the names in the order in which %s first has them; "+
				"a column id, before the others, says whose row each is", array, l.Path))
		}
	}
	if features != nil {
		features.Of(g)
	}
	if g.Labels, err = l.labels(labels); err != nil {
		return err
	}
	if classes := g.Labels.Classes; g.Labels.Class != nil && g.Labels.Names == nil && arrays.ManyClasses(classes, g.Count) {
		g.Notes = append(g.Notes, fmt.Sprintf("whole numbers of %s taken for %d classes of %d vertices; %s takes them for values to predict",
			l.Labels, classes, g.Count, refusal.Setting("values")))
	}
	g.Splits, err = l.splits(g.Count, l.edges, &g.Labels)
	return err
}

// check refuses options that no list of edges fits.
func (o *Options) check() error {
	if o.Vertices < 0 || o.Vertices > math.MaxInt32 {
		return refusal.Errorf("%s %d: give a number from 1 to %d",
			refusal.Setting("vertices"), o.Vertices, math.MaxInt32)
	}
	if o.Vertices > 0 && o.Strings {
		return refusal.Errorf("%s %d: with %s the edges name the vertices: leave %s out",
			refusal.Setting("vertices"), o.Vertices, refusal.Setting("string-ids"), refusal.Setting("vertices"))
	}
	if o.Values && o.Labels == "" {
		return refusal.Errorf("%s says what labels are, and none are given: give %s too, or leave it out", refusal.Setting("values"), refusal.Setting("labels"))
	}
	for i, name := range o.EdgeFeatures {
		if name == "" || slices.Contains(o.EdgeFeatures[:i], name) {
			return refusal.Errorf("%s: the column %q is empty or given twice; name each column once", refusal.Setting("edge-features"), name)
		}
	}
	const bound = 8 // of a vertex's edges
	if err := memory.Need(bound * int64(o.Vertices)); err != nil {
		return fmt.Errorf("%s %d: %w", refusal.Setting("vertices"), o.Vertices, err)
	}
	return nil
}

// warnings name the columns that are not read. Those of a text file are all read.
func (l *list) warnings() []string {
	if len(l.unread) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: columns not read, as they are called neither source, target nor weight: %s (%s reads features of edges)",
		l.path, arrays.Listed(l.unread), refusal.Setting("edge-features"))}
}

// count returns V, after checking that every array has as many rows; −1 stands for no features.
func (o *Options) count(l *list, features int, labels *arrays.LabelRows) (int, error) {
	type rows struct {
		path string
		n    int
	}
	var given []rows
	if features >= 0 {
		given = append(given, rows{o.Features, features})
	}
	if labels != nil {
		given = append(given, rows{o.Labels, labels.Shape[0]})
	}
	vertices := o.Vertices
	switch {
	case o.Strings:
		vertices = len(l.names.Names)
	case vertices == 0:
		vertices = int(l.largest) + 1
		for _, r := range given {
			vertices = max(vertices, r.n)
		}
	}
	// A row of features or labels was really there, so that a vertex with one may exist; ids are only claims.
	for _, r := range given {
		if r.n != vertices {
			return 0, refusal.Errorf("%s: has %d rows, the graph of %s has %d vertices: give one row for each", r.path,
				r.n, o.Path, vertices)
		}
	}
	if most := arrays.MaxVertices(l.edges); o.Vertices == 0 && len(given) == 0 && int64(vertices) > most {
		return 0, refusal.Errorf("%s: vertex %d (%s) with only %d edges: give %s, or %s if ids count from 0",
			o.Path, l.largest, l.where(l.largestAt), l.edges, refusal.Setting("string-ids"), refusal.Setting("vertices"))
	}
	return vertices, nil
}

// most bounds the rows of text that are read beside so many edges: a short gzip file may hold any number of
// them.
func (o *Options) most(edges int) int64 {
	if o.Vertices > 0 {
		return int64(o.Vertices)
	}
	return arrays.MaxVertices(edges)
}

// key is how tables beside the list name its vertices: as the list does. A name that no edge has is that of a
// further vertex.
func (o *Options) key(l *list) *arrays.Key {
	if o.Strings {
		return &arrays.Key{
			Vertex: func(id []byte) (int32, error) {
				if len(id) == 0 || !utf8.Valid(id) {
					return 0, refusal.Errorf("the id %.40q is empty, or not UTF-8", id)
				}
				return l.names.Number(id)
			},
			Name:     func(v int32) string { return fmt.Sprintf("%.40q", l.names.Names[v]) },
			Vertices: func() int { return len(l.names.Names) },
		}
	}
	return &arrays.Key{
		Vertex: func(id []byte) (int32, error) {
			v, err := strconv.ParseUint(string(id), 10, 31)
			if err != nil || int64(v) >= o.most(l.edges) {
				return 0, refusal.Errorf("%.40q is not the id of a vertex, from 0 and below %d; give %s if ids are names", id, o.most(l.edges), refusal.Setting("string-ids"))
			}
			return int32(v), nil
		},
		Name:     func(v int32) string { return strconv.Itoa(int(v)) },
		Vertices: func() int { return max(o.Vertices, int(l.largest)+1) },
	}
}

// readLabels reads the labels; nil where there are none. They are not empty: any number of empty rows takes
// no bytes.
func (o *Options) readLabels(l *list) (*arrays.LabelRows, error) {
	if o.Labels == "" {
		return nil, nil
	}
	labels, err := o.labelRows(o.most(l.edges), o.key(l))
	if err != nil {
		return nil, err
	}
	if n, err := labels.Elements(); err != nil || n == 0 || len(labels.Shape) == 0 {
		return nil, refusal.Errorf("%s: has shape %v, no values: give one row for each vertex", o.Labels, labels.Shape)
	}
	return labels, nil
}

// meaning is what numbers of labels stand for.
func (o *Options) meaning() arrays.Meaning {
	if o.Values {
		return arrays.Values
	}
	return arrays.PerhapsWhole
}

// labels are those of the rows, which may be nil.
func (o *Options) labels(rows *arrays.LabelRows) (graph.Labels, error) {
	if rows == nil {
		return graph.Labels{}, nil
	}
	l, err := rows.Labels()
	switch {
	case err != nil && rows.Names == nil && !rows.Floats():
		return l, fmt.Errorf("%s: %w, or give %s", o.Labels, err, refusal.Setting("values"))
	case err != nil:
		return l, fmt.Errorf("%s: %w", o.Labels, err)
	}
	return l, nil
}

// readFeatures reads features, and returns how many rows they have, −1 where there are none. Those that are
// written in blocks become Rows of the graph, and the others are returned.
func (l *opened) readFeatures() (m *arrays.Matrix, rows int, err error) {
	if l.Features == "" {
		return nil, -1, nil
	}
	if l.graph.Types[0].Rows, rows, err = arrays.DenseRows(l.Features, l.DenseFeatures); err != nil || l.graph.Types[0].Rows != nil {
		return nil, rows, err
	}
	f, err := arrays.Open(l.Features)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if f.Kind == foreign.Archive {
		m, err = npz.ReadMatrix(l.Features)
	} else {
		m, err = f.Features(l.most(l.edges), l.DenseFeatures, l.key(l.list))
	}
	if err == nil && m.Columns == 0 {
		err = l.noFeatures()
	}
	if err != nil {
		return nil, 0, err
	}
	return m, m.Rows, nil
}

func (o *Options) noFeatures() error {
	return refusal.Errorf("%s: has no values: give one row for each vertex", o.Features)
}

// splits reads the splits that the options name, if any.
func (o *Options) splits(vertices, edges int, labels *graph.Labels) ([]graph.Split, error) {
	if o.Train == "" && o.Val == "" && o.Test == "" {
		return nil, nil
	}
	if o.Train == "" {
		return nil, refusal.Errorf("a split without training vertices: give %s beside %s and %s",
			refusal.Setting("train"), refusal.Setting("val"), refusal.Setting("test"))
	}
	var parts [3][][]int64
	files := [3]string{o.Train, o.Val, o.Test}
	for part, path := range files {
		if path == "" {
			continue
		}
		a, err := arrays.ReadFile(path, o.most(edges))
		if err != nil {
			return nil, err
		}
		if parts[part], err = arrays.Parts(a, vertices); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(parts[part]) == 0 {
			return nil, refusal.Errorf("%s: has shape %v, no split: give a column for each", path, a.Shape)
		}
	}
	return arrays.Splits(parts, files, labels)
}

// Vertices reads a list of some of so many vertices: ids in the file's order, each once, or a mask. The file
// is what Options.Train may be, of one split. Complaints are refusals that name the file and the entry.
func Vertices(path string, vertices int) ([]int32, error) {
	a, err := arrays.ReadFile(path, int64(vertices))
	if err != nil {
		return nil, err
	}
	ids, err := arrays.List(a, vertices)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(ids) == 0:
		return nil, refusal.Errorf("%s: names no vertex; give ids, or a mask that marks some", path)
	}
	list := make([]int32, len(ids))
	for i, v := range ids {
		list[i] = int32(v)
	}
	return list, nil
}

// list is what a file of edges holds, but for the edges.
type list struct {
	edges     int
	values    []float32    // of the edge at hand: its weight, if it has one, and its features
	names     *names.Table // with Strings: the names by id; else nil
	largest   int32        // the largest id, −1 before the first edge
	largestAt int64        // its line or row
	unit      string       // "line" or "row"
	first     [2]int32     // the ends of the first edge
	again     bool         // one of them is an end of a later edge

	keep     keepFunc
	features []string // names of columns
	path     string
	vertices int      // ids must be smaller, where it is not 0
	unread   []string // columns
}

// keepFunc takes an edge of a list, with its weight and its features. All have a weight, or none has.
type keepFunc func(source, target int32, values []float32) error

func (l *list) where(at int64) string { return fmt.Sprintf("%s %d", l.unit, at) }

// refuse puts the file and the line, or row, before a complaint.
func (l *list) refuse(at int64, format string, args ...any) error {
	if l.unit == "line" {
		return refusal.Errorf("%s:%d: %w", l.path, at, fmt.Errorf(format, args...))
	}
	return refusal.Errorf("%s: row %d: %w", l.path, at, fmt.Errorf(format, args...))
}

// add keeps an edge from line or row at, with l.values. Both ends are not negative.
func (l *list) add(source, target int32, at int64) error {
	if top := max(source, target); top > l.largest {
		if l.vertices > 0 && int(top) >= l.vertices {
			return l.refuse(at, "vertex %d is out of the range of %s %d", top, refusal.Setting("vertices"), l.vertices)
		}
		l.largest, l.largestAt = top, at
	}
	if l.edges == 0 {
		l.first = [2]int32{source, target}
	} else {
		l.again = l.again || slices.Contains(l.first[:], source) || slices.Contains(l.first[:], target)
	}
	switch err := l.keep(source, target, l.values); {
	case refusal.Is(err):
		return l.refuse(at, "%w", err)
	case err != nil: // of the store's disk, as where that is full
		return err
	}
	l.edges++
	return nil
}

// value adds value i of the edge at hand, of n: its weight, if it has one, and then its features.
func (l *list) value(i, n int, value float64, at int64) error {
	x := float32(value)
	if math.IsNaN(value) || math.IsInf(float64(x), 0) {
		return l.refuse(at, "%s %v is not a finite number", l.what(i, n), value)
	}
	l.values = append(l.values, x)
	return nil
}

// what says what value i of an edge is, of n.
func (l *list) what(i, n int) string {
	if weights := n - len(l.features); i >= weights {
		return fmt.Sprintf("the feature %.40q", l.features[i-weights])
	}
	return "the weight"
}

// numbered reports whether all names are ids that would be read without Strings.
func (l *list) numbered() bool {
	most := arrays.MaxVertices(l.edges)
	return !slices.ContainsFunc(l.names.Names, func(name string) bool {
		id, err := strconv.ParseUint(name, 10, 31)
		return err != nil || int64(id) >= most
	})
}

// id returns the vertex of a name.
func (l *list) id(name []byte, at int64) (int32, error) {
	if len(name) == 0 {
		return 0, l.refuse(at, "an end of the edge is empty")
	}
	if v, appeared := l.names.Find(name); appeared {
		return v, nil
	}
	if !utf8.Valid(name) {
		return 0, l.refuse(at, "the name %.40q is not UTF-8: convert the file, as with iconv -t UTF-8", name)
	}
	v, err := l.names.Number(name)
	if err != nil {
		return 0, l.refuse(at, "%w", err)
	}
	return v, nil
}

// read reads the list in the format that its first bytes show.
func (o *Options) read(keep keepFunc) (*list, error) {
	f, err := os.Open(o.Path)
	if err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return nil, refusal.Errorf("%s: %w; give a list of edges", o.Path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, refusal.Errorf("%s: is a directory; give a list of edges", o.Path)
	}
	r := bufio.NewReaderSize(&told{Reader: f, progress: o.Progress, stage: "reading " + o.Path, all: info.Size()}, bufferSize)
	start, _ := r.Peek(foreign.Head)
	kind := foreign.Recognize(start)
	if kind != foreign.Unknown && kind != foreign.Gzip && kind != foreign.Parquet {
		return nil, kind.Refuse(o.Path, "a list of edges, as CSV or Parquet")
	}
	l := &list{keep: keep, path: o.Path, vertices: o.Vertices, features: o.EdgeFeatures, largest: -1, unit: "line"}
	if o.Strings {
		l.names = names.NewTable()
	}
	switch {
	case kind == foreign.Parquet:
		l.unit = "row"
		err = l.readParquet(f, info.Size(), o.Progress)
	case strings.HasSuffix(strings.ToLower(o.Path), ".parquet"):
		err = refusal.Errorf("%s: does not start as a Parquet file does", o.Path)
	case kind == foreign.Gzip:
		err = l.readGzip(r)
	default:
		err = l.readText(r)
	}
	if err != nil {
		return nil, err
	}
	if l.edges == 0 {
		return nil, refusal.Errorf("%s: has no edge; give a list of edges, source and target", o.Path)
	}
	return l, nil
}

// readGzip reads compressed text.
func (l *list) readGzip(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return refusal.Damaged("%s: a damaged gzip file: %w", l.path, err)
	}
	defer z.Close()
	return l.readText(bufio.NewReaderSize(z, bufferSize))
}

// told tells how many bytes of a file are read.
type told struct {
	io.Reader
	progress  graph.Progress
	stage     string
	read, all int64
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.read += int64(n)
	t.progress.Of(t.stage, t.read, t.all)
	return n, err
}
