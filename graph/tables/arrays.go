package tables

import (
	"fmt"
	"math"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/npz"
	"weft/graph/streamed"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Beside says what the ids of a list of edges without a table of vertices are, and which files of arrays hold
// the rest. An array is a file of numpy.save, or text, plain or gzip, with a row on each line. A text of
// features or labels whose header begins with id has rows in any order: its first column has the id of each
// row's vertex.
type Beside struct {
	// Features is a matrix with a row for each vertex, or a sparse one as scipy.sparse.save_npz writes it.
	// Labels is a vector of class ids (−1 or nothing: none) or names of classes, a 0/1 matrix, or values to
	// predict (floats).
	Features, Labels string
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
	// Train, Val and Test are vectors of vertex ids, or of one truth value per vertex, or matrices of truth
	// values with a row per vertex and a column per split.
	Train, Val, Test string
	// Count is V; 0: the largest id and one, or the rows of Features or Labels if there are more.
	Count int
	// FirstID is the id of the first vertex, in the list of edges and in lists and columns of ids. If it is
	// not 0, the graph keeps the ids as Names.
	FirstID int
	// Strings says that the ends of edges are names: vertices are numbered by first appearance, and the graph
	// keeps Names.
	Strings bool
}

// check refuses settings that fit no list of edges.
func (b *Beside) check(values bool) error {
	if b.Count < 0 || b.Count > math.MaxInt32 {
		return refusal.Errorf("--vertices %d: give a number from 1 to %d", b.Count, math.MaxInt32)
	}
	if b.Count > 0 && b.Strings {
		return refusal.Errorf("--vertices %d: with --string-ids the edges name the vertices: leave "+
			"--vertices out", b.Count)
	}
	if b.FirstID < 0 || b.FirstID > math.MaxInt32 {
		return refusal.Errorf("--first-id %d: give 0 or 1, with which the ids begin", b.FirstID)
	}
	if b.FirstID > 0 && b.Strings {
		return refusal.Errorf("--first-id %d: with --string-ids ids are names, which are not counted: leave "+
			"one of the two out", b.FirstID)
	}
	if values && b.Labels == "" {
		return refusal.Errorf("--values says what labels are, and none are given: give --labels too, or " +
			"leave it out")
	}
	const bound = 8 // of a vertex's edges
	if err := memory.Need(bound * int64(b.Count)); err != nil {
		return fmt.Errorf("--vertices %d: %w", b.Count, err)
	}
	return nil
}

// complete reads the arrays, once the edges have been read.
func (a *alone) complete(to *streamed.Graph, values bool) error {
	g := to.InMemory
	features, err := a.readFeatures()
	if err != nil {
		return err
	}
	labels, err := a.readLabels(values)
	if err != nil {
		return err
	}
	array := ""
	switch { // arrays without a column of ids
	case features != nil && !features.ByID:
		array = a.Features
	case labels != nil && !labels.ByID:
		array = a.Labels
	case features == nil && labels == nil:
		array = a.Train
	}
	if array != "" && a.Strings && a.allNumbers() {
		return refusal.Errorf("%s: with --string-ids its rows follow the first appearance of an id, and "+
			"all ids of %s are integers: leave --string-ids out", array, a.list.Path)
	}
	if g.Types[0].Count, err = a.vertices(features, labels); err != nil {
		return err
	}
	if features == nil && labels == nil && a.Count == 0 && a.countsFrom1() {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%s: vertex 0 has no edge, no features: ids from 1? "+
			"--first-id 1", a.list.Path))
	}
	if g.Types[0].Names, err = a.texts(g.Types[0].Count); err != nil {
		return err
	}
	if array != "" && a.Strings {
		g.Notes = append(g.Notes, fmt.Sprintf("rows of %s are those of the names in the order in which "+
			"%s first has them; a column id, before the others, says whose row each is", array, a.list.Path))
	}
	if features != nil {
		features.Give(to, 0)
	}
	if labels != nil {
		if g.Types[0].Labels, err = labels.Labels(); err != nil {
			err = fmt.Errorf("%s: %w", a.Labels, err)
			if labels.Names == nil && !labels.Floats() {
				err = fmt.Errorf("%w, or give --values", err)
			}
			return err
		}
	}
	if classes := g.Types[0].Labels.Classes; g.Types[0].Labels.Class != nil &&
		g.Types[0].Labels.Names == nil &&
		arrays.ManyClasses(classes, g.Types[0].Count) {
		g.Notes = append(g.Notes, fmt.Sprintf("whole numbers of %s taken for %d classes of %d vertices; "+
			"--values takes them for values to predict", a.Labels, classes, g.Types[0].Count))
	}
	g.Types[0].Splits, err = a.splits(g.Types[0].Count, &g.Types[0].Labels)
	return err
}

// vertices returns V, after checking that every array has as many rows. features and labels may be nil.
func (a *alone) vertices(features *arrays.Matrix, labels *arrays.LabelRows) (int, error) {
	type rows struct {
		path string
		n    int
	}
	var supplied []rows
	if features != nil {
		supplied = append(supplied, rows{a.Features, features.Rows})
	}
	if labels != nil {
		supplied = append(supplied, rows{a.Labels, labels.Shape[0]})
	}
	vertices := a.Count
	switch {
	case a.Strings:
		vertices = len(a.ids.Names)
	case vertices == 0:
		vertices = int(a.largest) + 1
		for _, r := range supplied {
			vertices = max(vertices, r.n)
		}
	}
	// A row of features or labels was really there, so that a vertex with one may exist; ids are only claims.
	for _, r := range supplied {
		if r.n != vertices {
			err := refusal.Errorf("%s: has %d rows, the graph of %s has %d vertices: give one row for each",
				r.path, r.n, a.list.Path, vertices)
			if r.n == vertices-1 {
				err = a.perhapsFrom1(err)
			}
			return 0, err
		}
	}
	if most := arrays.MaxVertices(a.list.rows); a.Count == 0 && len(supplied) == 0 && int64(vertices) > most {
		return 0, refusal.Errorf("%s: vertex %d (%s) with only %d edges: give --string-ids, or --vertices "+
			"if ids count from 0", a.list.Path, int(a.largest)+a.FirstID, a.largestAt, a.list.rows)
	}
	return vertices, nil
}

// readLabels reads the labels; nil if there are none. It refuses labels without a value: any number of empty
// rows takes no bytes.
func (a *alone) readLabels(values bool) (*arrays.LabelRows, error) {
	if a.Labels == "" {
		return nil, nil
	}
	meaning := arrays.PerhapsWhole
	if values {
		meaning = arrays.Values
	}
	labels, err := arrays.ReadLabels(a.Labels, a.most(), a.key(), meaning)
	if err != nil {
		return nil, err
	}
	if n, err := labels.Elements(); err != nil || n == 0 || len(labels.Shape) == 0 {
		return nil, refusal.Errorf("%s: has shape %v, no values: give one row for each vertex",
			a.Labels, labels.Shape)
	}
	return labels, nil
}

// readFeatures opens the features; nil where there are none.
func (a *alone) readFeatures() (m *arrays.Matrix, err error) {
	if a.Features == "" {
		return nil, nil
	}
	f, err := arrays.Open(a.Features)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Kind == foreign.Archive {
		m, err = npz.ReadMatrix(a.Features)
	} else {
		m, err = f.Features(a.most(), a.DenseFeatures, a.key())
	}
	if err == nil && m.InBlocks == nil && m.Columns == 0 {
		err = refusal.Errorf("%s: has no values: give one row for each vertex", a.Features)
	}
	return m, err
}

// splits reads the splits that are named, if any.
func (a *alone) splits(vertices int, labels *graph.Labels) ([]graph.Split, error) {
	if a.Train == "" && a.Val == "" && a.Test == "" {
		return nil, nil
	}
	if a.Train == "" {
		return nil, refusal.Errorf("a split without training vertices: give --train beside --val and --test")
	}
	var parts [3][][]int64
	files := [3]string{a.Train, a.Val, a.Test}
	for part, path := range files {
		if path == "" {
			continue
		}
		ids, err := arrays.ReadFile(path, a.most())
		if err != nil {
			return nil, err
		}
		if parts[part], err = arrays.PartsFrom(ids, a.FirstID, vertices); err != nil {
			return nil, fmt.Errorf("%s: %w", path, a.perhapsFrom1(err))
		}
		if len(parts[part]) == 0 {
			return nil, refusal.Errorf("%s: has shape %v, no split: give a column for each", path, ids.Shape)
		}
	}
	return arrays.Splits(parts, files, labels)
}
