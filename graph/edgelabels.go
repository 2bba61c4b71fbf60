package graph

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"

	"weft/graph/columns"
	"weft/internal/refusal"
)

// EdgeLabels are what is learned about the edges of a relation: a label for each edge, and which edges train,
// validate and test. An edge's number is its place in Relation.Sources.
type EdgeLabels struct {
	Column string // the column of the labels, as settings name it
	Labels
	Splits []Split  // lists of edges; none, one, or several
	By     *SplitBy // a column by which rules divide the edges; nil: none is kept
}

// The files of the labels of edges, beside those of their relation.
const (
	edgeLabelsFile     = "edge_labels.npy"       // int64, E; or float32, E × classes or columns
	edgeClassNamesFile = "edge_class_names.json" // a list of strings, one per class
	edgeSplitByFile    = "edge_split_by.npy"     // float64, E
)

// edgePartFiles hold int64 numbers of edges, as splitFiles do ids of vertices.
var edgePartFiles = [3]string{"edge_train.npy", "edge_val.npy", "edge_test.npy"}

// edgeLabelsDescription describes EdgeLabels.
type edgeLabelsDescription struct {
	Column string             `json:"column"`
	Labels *labelsDescription `json:"labels"`
	Splits []SplitSizes       `json:"splits,omitempty"`
	By     *SplitBy           `json:"split_by,omitempty"`
}

// describeEdgeLabels describes labels of edges, nil where there are none.
func describeEdgeLabels(l *EdgeLabels) *edgeLabelsDescription {
	if l == nil {
		return nil
	}
	return &edgeLabelsDescription{l.Column, describeLabels(&l.Labels), SizesOf(l.Splits), l.By.described()}
}

// check refuses what labels of so many edges cannot have.
func (d *edgeLabelsDescription) check(edges int) error {
	switch {
	case d == nil:
		return nil
	case d.Labels == nil || d.Column == "":
		return refusal.Errorf("labels of edges without a name or a kind")
	}
	most := maxClasses(edges)
	if l := d.Labels; l.Classes < 0 || l.Classes > most || l.Columns < 0 || l.Columns > most {
		return refusal.Errorf("labels of %d edges with %d classes and %d columns are not possible", edges,
			l.Classes, l.Columns)
	}
	orders := []columns.Order{"", columns.DayFirst, columns.MonthFirst}
	switch b := d.By; {
	case b == nil:
	case !slices.Contains([]SplitByKind{ByDate, ByNumber, ByPart}, b.Kind):
		return refusal.Errorf("edges divided by a column of the kind %q are not possible", b.Kind)
	case !slices.Contains(orders, b.Order):
		return refusal.Errorf("edges divided by dates of the order %q are not possible", b.Order)
	}
	for _, s := range d.Splits {
		for _, n := range s.sizes() {
			if n < 0 || n > edges {
				return refusal.Errorf("a split of %d edges with %d in a part is not possible", edges, n)
			}
		}
	}
	return nil
}

// stored lists the array of the labels of so many edges.
func (l *EdgeLabels) stored(d *edgeLabelsDescription, edges int) []storedArray {
	if d == nil {
		return nil
	}
	all := l.storedIn(edgeLabelsFile, d.Labels, edges)
	if d.By != nil {
		values := new([]float64)
		if l.By != nil {
			values = &l.By.Values
		}
		all = append(all, in(edgeSplitByFile, values, edges))
	}
	return all
}

// described makes labels of edges from their description, without rows.
func (d *edgeLabelsDescription) described() *EdgeLabels {
	l := &EdgeLabels{Column: d.Column}
	l.describedBy(d.Labels)
	l.By = d.By.described()
	return l
}

// edgeLabels writes the names and splits of labels of edges.
func (s *Folder) edgeLabels(l *EdgeLabels) {
	if l != nil {
		s.names(edgeClassNamesFile, l.Names)
		s.splits(edgePartFiles, l.Splits)
	}
}

// readEdgeLabels makes the labels of edges whose files lie in dir, with their names and splits. The labels
// are not mapped yet.
func readEdgeLabels(m *mappings, dir string, d *edgeLabelsDescription) (l *EdgeLabels, err error) {
	if d == nil {
		return nil, nil
	}
	l = d.described()
	if d.Labels.Names {
		if l.Names, err = m.names(dir, edgeClassNamesFile, d.Labels.Classes); err != nil {
			return nil, err
		}
	}
	l.Splits, err = readSplits(m, dir, edgePartFiles, d.Splits)
	return l, err
}

// check checks the labels of so many edges.
func (l *EdgeLabels) check(edges int, d depth) error {
	if l == nil || d == announced { // the rows come later
		return nil
	}
	err := l.Labels.check(edges, maxClasses(edges), d)
	if err == nil {
		err = checkSplits(l.Splits, edges, &l.Labels)
	}
	if err == nil {
		return l.By.check(edges)
	}
	return ofEdges(err)
}

// vertexWords match the words for vertices, but not within names and paths.
var vertexWords = regexp.MustCompile(`(^|[ (])vert(ex|ices)([ ,;:)]|$)`)

// aVertex matches the word with its article.
var aVertex = regexp.MustCompile(`(\b[Aa]) vertex([ ,;:]|$)`)

// edgeWords makes a text about vertices a text about edges.
func edgeWords(text string) string {
	text = aVertex.ReplaceAllString(text, "${1}n edge$2")
	return vertexWords.ReplaceAllStringFunc(text, func(word string) string {
		return strings.NewReplacer("vertices", "edges", "vertex", "edge").Replace(word)
	})
}

// ofEdges adds to a flaw of labels or splits that they are of edges.
func ofEdges(err error) error {
	var f flaw
	if !errors.As(err, &f) {
		return err
	}
	names := map[string]string{labelsFile: edgeLabelsFile, classNamesFile: edgeClassNamesFile}
	for part, file := range splitFiles {
		names[file] = edgePartFiles[part]
	}
	f.file = names[f.file]
	return flaw{f.file, edgeWords(f.reason)}
}

// OfRows returns the labels of the edges with these numbers, a row for each. −1 stands for a row without an
// edge, which has no label.
func (l *EdgeLabels) OfRows(numbers []int64) Labels {
	picked := l.Labels
	if l.Class != nil {
		picked.Class = make([]int64, len(numbers))
	}
	all, columns := l.rows()
	var rows []float32
	if all != nil {
		rows = make([]float32, len(numbers)*columns)
	}
	for row, k := range numbers {
		switch {
		case l.Class != nil && k < 0:
			picked.Class[row] = -1
		case l.Class != nil:
			picked.Class[row] = l.Class[k]
		case k < 0:
			for c := range columns {
				rows[row*columns+c] = float32(math.NaN())
			}
		default:
			copy(rows[row*columns:(row+1)*columns], all[int(k)*columns:])
		}
	}
	if l.Continuous() {
		picked.Values = rows
	} else if l.MultiLabel() {
		picked.Multi = rows
	}
	return picked
}

// Announced are the labels without rows and splits; nil: there are none.
func (l *EdgeLabels) Announced() *EdgeLabels {
	if l == nil {
		return nil
	}
	of := *l
	of.Labels, of.By, of.Splits = of.OfRows(nil), of.By.OfRows(nil), nil
	return &of
}

// AppendRows appends some rows of other labels, which are of the same kind, with their values of By.
func (l *EdgeLabels) AppendRows(of *EdgeLabels, from, to int64) {
	if of.By != nil {
		l.By.Values = append(l.By.Values, of.By.Values[from:to]...)
	}
	if of.Class != nil {
		l.Class = append(l.Class, of.Class[from:to]...)
	}
	rows, columns := of.rows()
	if n := int64(columns); rows != nil && of.Continuous() {
		l.Values = append(l.Values, rows[from*n:to*n]...)
	} else if rows != nil {
		l.Multi = append(l.Multi, rows[from*n:to*n]...)
	}
}

// CountLabelled is how many edges have a label.
func (l *EdgeLabels) CountLabelled() (count int) {
	edges := len(l.Class)
	if rows, columns := l.rows(); rows != nil {
		edges = len(rows) / columns
	}
	for k := range edges {
		if l.Labelled(int64(k)) {
			count++
		}
	}
	return count
}

// SplitsOfRows returns the splits of the edges with these numbers, as lists of their rows. −1 stands for a
// row without an edge.
func (l *EdgeLabels) SplitsOfRows(numbers []int64) (all []Split) {
	order := make([]int, 0, len(numbers)) // rows by the numbers of their edges
	for row, k := range numbers {
		if k >= 0 {
			order = append(order, row)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(numbers[a] - numbers[b]) })
	for i := range l.Splits {
		var of Split
		for part, list := range l.Splits[i].Parts() {
			rows, at := []int64{}, 0
			for _, row := range order {
				for at < len(*list) && (*list)[at] < numbers[row] {
					at++
				}
				if at < len(*list) && (*list)[at] == numbers[row] {
					rows = append(rows, int64(row))
				}
			}
			slices.Sort(rows)
			*of.Parts()[part] = rows
		}
		all = append(all, of)
	}
	return all
}

// MakeSplits replaces the splits of the edges, as Graph.MakeSplits does for vertices. A random rule divides
// the labelled edges. A rule of a column divides them by By.
func (l *EdgeLabels) MakeSplits(spec string, count int, seed uint64) error {
	rule, err := ParseSplit(spec)
	if err != nil {
		return SaysEdges(err)
	}
	if rule.column != "" {
		if count != 1 {
			return refusal.Errorf("--splits %d: --split %s makes one: leave --splits out", count, spec)
		}
		s, err := l.splitBy(&rule)
		if err != nil {
			return err
		}
		by := *l.By
		if by.Rule = ""; rule.kind == splitTime {
			by.Rule = spec
		}
		l.Splits, l.By = []Split{s}, &by
		return nil
	}
	of := &Graph{Types: make([]VertexType, 1), Labels: l.Labels, Splits: l.Splits}
	if err := of.MakeSplits(spec, count, seed); err != nil {
		return SaysEdges(err)
	}
	l.Splits = of.Splits
	if l.By != nil {
		by := *l.By
		by.Rule = ""
		l.By = &by
	}
	return nil
}

// ofEdgesError is an error about vertices that is about edges here.
type ofEdgesError struct{ error }

func (e ofEdgesError) Error() string { return edgeWords(e.error.Error()) }

func (e ofEdgesError) Unwrap() error { return e.error }

// SaysEdges makes a refusal of labels or splits of vertices one of edges.
func SaysEdges(err error) error {
	if refusal.Is(err) {
		return ofEdgesError{err}
	}
	return err
}

// CheckUnlabelledEdges refuses a change of the edges if they have labels, which would not follow.
func (g *Graph) CheckUnlabelledEdges() error {
	for i := range g.Relations {
		if l := g.Relations[i].EdgeLabels; l != nil {
			return refusal.Errorf("edges have labels (%s), and other edges would have none: leave it out, or import "+
				"the graph without labels of edges", l.Column)
		}
	}
	return nil
}

// HasLabel reports whether the edges have the labels that asked names: COLUMN or, of one of several
// relations, RELATION:COLUMN or SOURCE__NAME__TARGET:COLUMN.
func (r *Relation) HasLabel(asked string) bool {
	return r.EdgeLabels != nil && NamesLabel(asked, r.EdgeLabels.Column, r.FullName())
}

// NamesLabel is HasLabel for labels of that column in a relation, given by its FullName; "": the name is
// unknown. In a graph without names any name may stand before the column: that of the relation's list is not
// kept.
func NamesLabel(asked, column, fullName string) bool {
	of, after, given := strings.Cut(asked, ":")
	switch {
	case asked == column:
		return true
	case !given || after != column:
		return false
	}
	nameless := fullName == "" || fullName == (&Relation{}).FullName()
	return nameless || of == fullName || strings.Contains(fullName, "__"+of+"__")
}

// LearnsEdges is a graph in which the edges with labels of that name (see HasLabel) take the place of
// vertices of the first type, with their labels and splits, for code that reads only these. relation is the
// edges' relation; nil: there is none, and the graph is g.
func (g *Graph) LearnsEdges(label string) (of *Graph, relation *Relation) {
	for i := range g.Relations {
		r := &g.Relations[i]
		if !r.HasLabel(label) {
			continue
		}
		of = g.Copy()
		of.Labels, of.Splits, of.Metric = r.EdgeLabels.Labels, r.EdgeLabels.Splits, ""
		of.Types[0] = VertexType{Type: RelationName, Count: len(r.Sources)}
		return of, r
	}
	return g, nil
}
