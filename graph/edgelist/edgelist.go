// Package edgelist reads graphs that come as a list of edges, in a text file (comma, semicolon, tab or space
// between the columns; plain or gzip) or in Parquet, with NumPy arrays of features, labels and splits beside
// it.
package edgelist

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/arrays"
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
	// EdgeWeights is the name of the column of the weights; empty: weight.
	EdgeWeights string
	// EdgeFeatures are the names of further columns of the list, of numbers that are features of the edges. A
	// text file then has a header, as with EdgeWeights. A column that is named here is no weight.
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
	// Vertices is V; 0 means up to the largest id, or the rows of Features or Labels where these are more.
	Vertices int
	// FirstID is the id of the first vertex, in the list of edges and in lists and columns of ids. Where it
	// is not 0 the graph keeps the ids as Names.
	FirstID int
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
	g := &streamed.Graph{
		InMemory: &graph.Graph{Provenance: "edges " + o.Path}, Source: o.Path,
		Progress: o.Progress,
	}
	s := &source{Options: o, graph: g}
	edges := streamed.Edges{
		Count: streamed.Unknown, Columns: len(o.EdgeFeatures),
		Each: s.each, Refuse: s.refuse,
	}
	if info, err := os.Stat(o.Path); err == nil { // if not, reading it says why
		edges.About = info.Size() // an edge takes more of plain text, and less of compressed
	}
	g.Relations, g.Types = []streamed.Relation{{Edges: edges}}, make([]streamed.Type, 1)
	g.Complete = s.complete
	return g, nil
}

// source is a graph whose list of edges is read when that is needed.
type source struct {
	Options
	graph *streamed.Graph
	list
}

// refuse implements streamed.Edges.Refuse.
func (s *source) refuse(err error) error {
	if s.graph.InMemory.Count == 0 { // the list has not been read
		return refusal.In(s.Path, err)
	}
	return refusal.Errorf("%s: %d vertices, %d edges: %w", s.Path, s.graph.InMemory.Count, s.edges, err)
}

// complete reads all but the edges.
func (s *source) complete() error {
	g := s.graph.InMemory
	numbered := s.Strings && s.numbered()
	features, err := s.readFeatures()
	if err != nil {
		return err
	}
	labels, err := s.readLabels()
	if err != nil {
		return err
	}
	array := ""
	switch { // of what has no column of ids
	case features != nil && !features.ByID:
		array = s.Features
	case labels != nil && !labels.ByID:
		array = s.Labels
	case features == nil && labels == nil:
		array = s.Train
	}
	if array != "" && numbered {
		return refusal.Errorf("%s: with {string-ids} its rows follow the first appearance of an id, and "+
			"all ids of %s are integers: leave {string-ids} out", array, s.Path)
	}
	if g.Count, err = s.count(features, labels); err != nil {
		return err
	}
	g.Warnings = s.warnings(features != nil || labels != nil)
	if s.FirstID > 0 {
		if g.Names, err = ids(s.FirstID, g.Count); err != nil {
			return err
		}
	}
	if s.Strings {
		g.Names = s.names.Names
		if array != "" {
			g.Notes = append(g.Notes, fmt.Sprintf("rows of %s are those of the names in the order in which "+
				"%s first has them; a column id, before the others, says whose row each is", array, s.Path))
		}
	}
	if features != nil {
		features.Give(s.graph, 0)
	}
	if g.Labels, err = s.labels(labels); err != nil {
		return err
	}
	if classes := g.Labels.Classes; g.Labels.Class != nil && g.Labels.Names == nil &&
		arrays.ManyClasses(classes, g.Count) {
		g.Notes = append(g.Notes, fmt.Sprintf("whole numbers of %s taken for %d classes of %d vertices; "+
			"%s takes them for values to predict", s.Labels, classes, g.Count, refusal.Setting("values")))
	}
	g.Splits, err = s.splits(g.Count, &g.Labels)
	return err
}

// check refuses options that no list of edges fits.
func (o *Options) check() error {
	if o.Vertices < 0 || o.Vertices > math.MaxInt32 {
		return refusal.Errorf("{vertices} %d: give a number from 1 to %d", o.Vertices, math.MaxInt32)
	}
	if o.Vertices > 0 && o.Strings {
		return refusal.Errorf("{vertices} %d: with {string-ids} the edges name the vertices: leave "+
			"{vertices} out", o.Vertices)
	}
	if o.FirstID < 0 || o.FirstID > math.MaxInt32 {
		return refusal.Errorf("{first-id} %d: give 0 or 1, with which the ids begin", o.FirstID)
	}
	if o.FirstID > 0 && o.Strings {
		return refusal.Errorf("{first-id} %d: with {string-ids} ids are names, which are not counted: leave "+
			"one of the two out", o.FirstID)
	}
	if o.Values && o.Labels == "" {
		return refusal.Errorf("{values} says what labels are, and none are given: give {labels} too, or " +
			"leave it out")
	}
	for i, name := range o.EdgeFeatures {
		if name == "" || slices.Contains(o.EdgeFeatures[:i], name) || name == o.EdgeWeights {
			return refusal.Errorf("{edge-features}: the column %q is empty or given twice; name each "+
				"column once", name)
		}
	}
	const bound = 8 // of a vertex's edges
	if err := memory.Need(bound * int64(o.Vertices)); err != nil {
		return fmt.Errorf("%s %d: %w", refusal.Setting("vertices"), o.Vertices, err)
	}
	return nil
}

// warnings name the columns that are not read, and say that vertex 0 is empty, which it is not where all
// vertices have rows. The columns of a text file are all read.
func (s *source) warnings(rows bool) (all []string) {
	if len(s.unread) > 0 {
		all = append(all, refusal.Sprintf("%s: columns left out: %s; an import takes them with {edge-weights} "+
			"and {edge-features}", s.Path, arrays.Listed(s.unread)))
	}
	if !rows && s.Vertices == 0 && s.countsFrom1() {
		all = append(all, fmt.Sprintf("%s: vertex 0 has no edge, no features: ids from 1? %s 1",
			s.Path, refusal.Setting("first-id")))
	}
	return all
}

// ids are those of so many vertices, as text.
func ids(first, vertices int) ([]string, error) {
	const bytes = 32 // a string and its text
	if err := memory.Need(bytes * int64(vertices)); err != nil {
		return nil, err
	}
	texts := make([]string, vertices)
	for v := range texts {
		texts[v] = strconv.Itoa(first + v)
	}
	return texts, nil
}

// count returns V, after checking that every array has as many rows. Both may be nil.
func (s *source) count(features *arrays.Matrix, labels *arrays.LabelRows) (int, error) {
	type rows struct {
		path string
		n    int
	}
	var given []rows
	if features != nil {
		given = append(given, rows{s.Features, features.Rows})
	}
	if labels != nil {
		given = append(given, rows{s.Labels, labels.Shape[0]})
	}
	vertices := s.Vertices
	switch {
	case s.Strings:
		vertices = len(s.names.Names)
	case vertices == 0:
		vertices = int(s.largest) + 1
		for _, r := range given {
			vertices = max(vertices, r.n)
		}
	}
	// A row of features or labels was really there, so that a vertex with one may exist; ids are only claims.
	for _, r := range given {
		if r.n != vertices {
			err := refusal.Errorf("%s: has %d rows, the graph of %s has %d vertices: give one row for each",
				r.path, r.n, s.Path, vertices)
			if r.n == vertices-1 {
				err = s.perhapsFrom1(err)
			}
			return 0, err
		}
	}
	if most := arrays.MaxVertices(s.edges); s.Vertices == 0 && len(given) == 0 && int64(vertices) > most {
		return 0, refusal.Errorf("%s: vertex %d (%s) with only %d edges: give {string-ids}, or {vertices} "+
			"if ids count from 0", s.Path, int(s.largest)+s.FirstID, s.largestAt, s.edges)
	}
	return vertices, nil
}

// most bounds the rows of text that are read beside so many edges: a short gzip file may hold any number of
// them.
func (s *source) most() int64 {
	if s.Vertices > 0 {
		return int64(s.Vertices)
	}
	return arrays.MaxVertices(s.edges)
}

// key is how tables beside the list name its vertices: as the list does. A name that no edge has is that of a
// further vertex.
func (s *source) key() *arrays.Key {
	if s.Strings {
		return &arrays.Key{
			Vertex: func(id []byte) (int32, error) {
				if len(id) == 0 || !utf8.Valid(id) {
					return 0, refusal.Errorf("the id %.40q is empty, or not UTF-8", id)
				}
				return s.names.Number(id)
			},
			Name:     func(v int32) string { return fmt.Sprintf("%.40q", s.names.Names[v]) },
			Vertices: func() int { return len(s.names.Names) },
		}
	}
	return &arrays.Key{
		Vertex: func(id []byte) (int32, error) {
			v, err := strconv.ParseUint(string(id), 10, 31)
			first := int64(s.FirstID)
			if err != nil || int64(v) < first || int64(v)-first >= s.most() {
				return 0, refusal.Errorf("%.40q is not the id of a vertex, from %d and below %d; give "+
					"{string-ids} if ids are names", id, first, first+s.most())
			}
			return int32(int64(v) - first), nil
		},
		Name:     func(v int32) string { return strconv.Itoa(int(v) + s.FirstID) },
		Vertices: func() int { return max(s.Vertices, int(s.largest)+1) },
		NoFirst:  s.perhapsFrom1,
	}
}

// readLabels reads the labels; nil where there are none. They are not empty: any number of empty rows takes
// no bytes.
func (s *source) readLabels() (*arrays.LabelRows, error) {
	if s.Labels == "" {
		return nil, nil
	}
	meaning := arrays.PerhapsWhole
	if s.Values {
		meaning = arrays.Values
	}
	labels, err := arrays.ReadLabels(s.Labels, s.most(), s.key(), meaning)
	if err != nil {
		return nil, err
	}
	if n, err := labels.Elements(); err != nil || n == 0 || len(labels.Shape) == 0 {
		return nil, refusal.Errorf("%s: has shape %v, no values: give one row for each vertex",
			s.Labels, labels.Shape)
	}
	return labels, nil
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

// readFeatures opens the features; nil where there are none.
func (s *source) readFeatures() (m *arrays.Matrix, err error) {
	if s.Features == "" {
		return nil, nil
	}
	f, err := arrays.Open(s.Features)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Kind == foreign.Archive {
		m, err = npz.ReadMatrix(s.Features)
	} else {
		m, err = f.Features(s.most(), s.DenseFeatures, s.key())
	}
	if err == nil && m.InBlocks == nil && m.Columns == 0 {
		err = refusal.Errorf("%s: has no values: give one row for each vertex", s.Features)
	}
	return m, err
}

// splits reads the splits that the options name, if any.
func (s *source) splits(vertices int, labels *graph.Labels) ([]graph.Split, error) {
	if s.Train == "" && s.Val == "" && s.Test == "" {
		return nil, nil
	}
	if s.Train == "" {
		return nil, refusal.Errorf("a split without training vertices: give {train} beside {val} and {test}")
	}
	var parts [3][][]int64
	files := [3]string{s.Train, s.Val, s.Test}
	for part, path := range files {
		if path == "" {
			continue
		}
		a, err := arrays.ReadFile(path, s.most())
		if err != nil {
			return nil, err
		}
		if parts[part], err = arrays.PartsFrom(a, s.FirstID, vertices); err != nil {
			return nil, fmt.Errorf("%s: %w", path, s.perhapsFrom1(err))
		}
		if len(parts[part]) == 0 {
			return nil, refusal.Errorf("%s: has shape %v, no split: give a column for each", path, a.Shape)
		}
	}
	return arrays.Splits(parts, files, labels)
}
