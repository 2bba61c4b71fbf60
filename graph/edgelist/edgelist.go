// Package edgelist reads graphs that come as a list of edges, in a text file (comma, semicolon, tab or space
// between the columns; plain or gzip) or in Parquet, with NumPy arrays of features, labels and splits beside
// it.
package edgelist

import (
	"bufio"
	"cmp"
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
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Options name the files of a graph and how to read them. All but Path may be empty.
type Options struct {
	// Path is the list of edges: source, target and, as an optional third column, a weight.
	Path string
	// The files of arrays are what numpy.save writes, or text, plain or gzip, with a row to each line.

	// Features is a matrix, one row per vertex, or a sparse one as scipy.sparse.save_npz writes it. Labels is
	// a vector of class ids (−1, or nothing: none) or a 0/1 matrix.
	Features, Labels string
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
	if o.Vertices < 0 || o.Vertices > math.MaxInt32 {
		return nil, refusal.Errorf("%s %d: give a number from 1 to %d",
			refusal.Setting("vertices"), o.Vertices, math.MaxInt32)
	}
	if o.Vertices > 0 && o.Strings {
		return nil, refusal.Errorf("%s %d: with %s the edges name the vertices: leave %s out",
			refusal.Setting("vertices"), o.Vertices, refusal.Setting("string-ids"), refusal.Setting("vertices"))
	}
	const bound = 8 // of a vertex's edges
	if err := memory.Need(bound * int64(o.Vertices)); err != nil {
		return nil, fmt.Errorf("%s %d: %w", refusal.Setting("vertices"), o.Vertices, err)
	}
	list, err := readEdges(o)
	if err != nil {
		return nil, err
	}
	if array := cmp.Or(o.Features, o.Labels, o.Train); array != "" && o.Strings && list.numbered() {
		return nil, refusal.Errorf("%s: with %s its rows follow the first appearance of an id, and all ids of %s are integers: "+
			"leave %s out", array, refusal.Setting("string-ids"), o.Path, refusal.Setting("string-ids"))
	}
	features, labels, err := o.readVertexData(list.edges.Len())
	if err != nil {
		return nil, err
	}
	vertices, err := o.count(list, features, labels)
	if err != nil {
		return nil, err
	}
	relation, err := graph.NewRelation(vertices, list.edges)
	if err != nil {
		return nil, refusal.Errorf("%s: %d vertices, %d edges: %w", o.Path, vertices, list.edges.Len(), err)
	}
	g := &graph.Graph{Relations: []graph.Relation{relation}, Provenance: "edges " + o.Path}
	if o.Strings {
		g.Names = list.names.Names
	}
	if len(list.unread) > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%s: columns not read, as they are called neither source, target nor weight: %s", o.Path, arrays.Listed(list.unread)))
	}
	if features != nil {
		features.Of(g)
	}
	if labels != nil {
		if g.Labels, err = arrays.Labels(labels); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Labels, err)
		}
	}
	if g.Splits, err = o.splits(vertices, list.edges.Len(), &g.Labels); err != nil {
		return nil, err
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Path, err)
	}
	return g, nil
}

// count returns V, after checking that every array has as many rows.
func (o *Options) count(l *list, features *arrays.Matrix, labels *npy.Array) (int, error) {
	type rows struct {
		path string
		n    int
	}
	var given []rows
	if features != nil {
		given = append(given, rows{o.Features, features.Rows})
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
	if most := arrays.MaxVertices(l.edges.Len()); o.Vertices == 0 && len(given) == 0 && int64(vertices) > most {
		return 0, refusal.Errorf("%s: vertex %d (%s) with only %d edges: give %s, or %s if ids count from 0",
			o.Path, l.largest, l.where(l.largestAt), l.edges.Len(), refusal.Setting("string-ids"), refusal.Setting("vertices"))
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

// readVertexData reads the arrays with one row per vertex; nil where there is none. They are not empty: any
// number of empty rows takes no bytes.
func (o *Options) readVertexData(edges int) (features *arrays.Matrix, labels *npy.Array, err error) {
	if o.Features != "" {
		if features, err = o.readFeatures(edges); err != nil {
			return nil, nil, err
		}
		if features.Columns == 0 {
			return nil, nil, refusal.Errorf("%s: has no values: give one row for each vertex", o.Features)
		}
	}
	if o.Labels != "" {
		if labels, err = arrays.ReadFile(o.Labels, o.most(edges)); err != nil {
			return nil, nil, err
		}
		if n, err := labels.Elements(); err != nil || n == 0 || len(labels.Shape) == 0 {
			return nil, nil, refusal.Errorf("%s: has shape %v, no values: give one row for each vertex", o.Labels, labels.Shape)
		}
	}
	return features, labels, nil
}

// readFeatures reads features of any kind.
func (o *Options) readFeatures(edges int) (*arrays.Matrix, error) {
	f, err := arrays.Open(o.Features)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Kind == foreign.Archive {
		return npz.ReadMatrix(o.Features)
	}
	return f.Features(o.most(edges), o.DenseFeatures)
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

// list is what a file of edges holds.
type list struct {
	edges     graph.Edges
	names     *names.Table // with Strings: the names by id; else nil
	largest   int32        // the largest id, −1 before the first edge
	largestAt int64        // its line or row
	unit      string       // "line" or "row"

	path     string
	vertices int      // ids must be smaller, where it is not 0
	unread   []string // columns
}

func (l *list) where(at int64) string { return fmt.Sprintf("%s %d", l.unit, at) }

// refuse puts the file and the line, or row, before a complaint.
func (l *list) refuse(at int64, format string, args ...any) error {
	if l.unit == "line" {
		return refusal.Errorf("%s:%d: %w", l.path, at, fmt.Errorf(format, args...))
	}
	return refusal.Errorf("%s: row %d: %w", l.path, at, fmt.Errorf(format, args...))
}

// add appends an edge from line or row at. Both ends are not negative.
func (l *list) add(source, target int32, at int64) error {
	if top := max(source, target); top > l.largest {
		if l.vertices > 0 && int(top) >= l.vertices {
			return l.refuse(at, "vertex %d is out of the range of %s %d", top, refusal.Setting("vertices"), l.vertices)
		}
		l.largest, l.largestAt = top, at
	}
	if err := l.reserve(1); err != nil {
		return l.refuse(at, "%w", err)
	}
	l.edges.Source = append(l.edges.Source, source)
	l.edges.Target = append(l.edges.Target, target)
	return nil
}

// reserve allocates memory for so many more edges without weights.
func (l *list) reserve(edges int) (err error) {
	if l.edges.Source, err = memory.Grow(l.edges.Source, edges); err == nil {
		l.edges.Target, err = memory.Grow(l.edges.Target, edges)
	}
	return err
}

// weigh appends the weight of the edge added last.
func (l *list) weigh(weight float64, at int64) error {
	w := float32(weight)
	if math.IsNaN(weight) || math.IsInf(float64(w), 0) {
		return l.refuse(at, "the weight %v is not a finite number", weight)
	}
	var err error
	if l.edges.Weights, err = memory.Grow(l.edges.Weights, 1); err != nil {
		return l.refuse(at, "%w", err)
	}
	l.edges.Weights = append(l.edges.Weights, w)
	return nil
}

// numbered reports whether all names are ids that would be read without Strings.
func (l *list) numbered() bool {
	most := arrays.MaxVertices(l.edges.Len())
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

// readEdges reads the list in the format that its first bytes show.
func readEdges(o Options) (*list, error) {
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
	r := bufio.NewReaderSize(f, bufferSize)
	start, _ := r.Peek(foreign.Head)
	kind := foreign.Recognize(start)
	if kind != foreign.Unknown && kind != foreign.Gzip && kind != foreign.Parquet {
		return nil, kind.Refuse(o.Path, "a list of edges, as CSV or Parquet")
	}
	l := &list{path: o.Path, vertices: o.Vertices, largest: -1, unit: "line"}
	if o.Strings {
		l.names = names.NewTable()
	}
	switch {
	case kind == foreign.Parquet:
		l.unit = "row"
		err = l.readParquet(f, info.Size())
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
	if l.edges.Len() == 0 {
		return nil, refusal.Errorf("%s: has no edge; give a list of edges, source and target", o.Path)
	}
	return l, nil
}

// readGzip reads compressed text.
func (l *list) readGzip(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return refusal.Errorf("%s: a damaged gzip file: %w", l.path, err)
	}
	defer z.Close()
	return l.readText(bufio.NewReaderSize(z, bufferSize))
}
