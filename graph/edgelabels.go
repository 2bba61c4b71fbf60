package graph

import (
	"math"
	"slices"
	"strings"

	"weft/graph/columns"
	"weft/internal/refusal"
)

// The files of the labels of edges, beside those of their relation.
const (
	edgeLabelsFile     = "edge_labels.npy"       // int64, E; or float32, E × classes or columns
	edgeClassNamesFile = "edge_class_names.json" // a list of strings, one per class
	edgeSplitByFile    = "edge_split_by.npy"     // float64, E
)

// edgePartFiles hold int64 numbers of edges, as splitFiles do ids of vertices.
var edgePartFiles = [3]string{"edge_train.npy", "edge_val.npy", "edge_test.npy"}

// edgeLabelsDescription describes the labels of edges.
type frameDescription struct {
	Column string             `json:"column"`
	Labels *labelsDescription `json:"labels"`
	Splits []SplitSizes       `json:"splits,omitempty"`
	By     *SplitBy           `json:"split_by,omitempty"`
}

// describeFrame describes labels of edges, nil where there are none.
func describeFrame(l *Frame) *frameDescription {
	if !l.HasLabels() {
		return nil
	}
	return &frameDescription{
		l.Labels.Column, describeLabels(&l.Labels), SizesOf(l.Splits), l.SplitBy.described(),
	}
}

// check refuses what labels of so many edges cannot have.
func (d *frameDescription) check(edges int) error {
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

// storedLabels lists the array of the labels of so many edges.
func (l *Frame) storedLabels(d *frameDescription, edges int) []storedArray {
	if d == nil {
		return nil
	}
	all := l.Labels.storedIn(edgeLabelsFile, d.Labels, edges)
	if d.By != nil {
		values := new([]float64)
		if l.SplitBy != nil {
			values = &l.SplitBy.Values
		}
		all = append(all, in(edgeSplitByFile, values, edges))
	}
	return all
}

// described makes labels of edges from their description, without rows.
func (d *frameDescription) described() *Frame {
	l := &Frame{Labels: Labels{Column: d.Column}}
	l.Labels.describedBy(d.Labels)
	l.SplitBy = d.By.described()
	return l
}

// edgeLabels writes the names and splits of labels of edges.
func (s *Folder) edgeFiles(l *Frame) {
	if l.HasLabels() {
		s.names(edgeClassNamesFile, l.Labels.Names)
		s.splits(edgePartFiles, l.Splits)
	}
}

// readFrame makes the labels of edges whose files lie in dir, with their names and splits. The labels
// are not mapped yet.
func readFrame(m *mappings, dir string, d *frameDescription) (l *Frame, err error) {
	if d == nil {
		return &Frame{}, nil
	}
	l = d.described()
	if d.Labels.Names {
		if l.Labels.Names, err = m.names(dir, edgeClassNamesFile, d.Labels.Classes); err != nil {
			return nil, err
		}
	}
	l.Splits, err = readSplits(m, dir, edgePartFiles, d.Splits)
	return l, err
}

// checkLabels checks the labels of so many edges.
func (l *Frame) checkLabels(edges int, d depth) error {
	if !l.HasLabels() || d == announced { // the rows come later
		return nil
	}
	err := l.Labels.check(edges, maxClasses(edges), d)
	if err == nil {
		err = l.checkSplits(edges)
	}
	if err == nil {
		err = l.SplitBy.check(edges)
	}
	return err
}

// OfRows returns the labels of the edges with these numbers, a row for each. −1 stands for a row without an
// edge, which has no label.
func (l *Frame) OfRows(numbers []int64) Labels {
	picked := l.Labels
	if l.Labels.Class != nil {
		picked.Class = make([]int64, len(numbers))
	}
	all, columns := l.Labels.rows()
	var rows []float32
	if all != nil {
		rows = make([]float32, len(numbers)*columns)
	}
	for row, k := range numbers {
		switch {
		case l.Labels.Class != nil && k < 0:
			picked.Class[row] = -1
		case l.Labels.Class != nil:
			picked.Class[row] = l.Labels.Class[k]
		case k < 0:
			for c := range columns {
				rows[row*columns+c] = float32(math.NaN())
			}
		default:
			copy(rows[row*columns:(row+1)*columns], all[int(k)*columns:])
		}
	}
	if l.Labels.Continuous() {
		picked.Values = rows
	} else if l.Labels.MultiLabel() {
		picked.Multi = rows
	}
	return picked
}

// Announced are the labels without rows and splits.
func (l *Frame) Announced() Frame {
	if !l.HasLabels() {
		return Frame{}
	}
	return Frame{Labels: l.OfRows(nil), SplitBy: l.SplitBy.OfRows(nil)}
}

// AppendRows appends some rows of other labels, which are of the same kind, with their values of SplitBy.
func (l *Frame) AppendRows(other *Frame, from, to int64) {
	if other.SplitBy != nil {
		l.SplitBy.Values = append(l.SplitBy.Values, other.SplitBy.Values[from:to]...)
	}
	if other.Labels.Class != nil {
		l.Labels.Class = append(l.Labels.Class, other.Labels.Class[from:to]...)
	}
	rows, columns := other.Labels.rows()
	if n := int64(columns); rows != nil && other.Labels.Continuous() {
		l.Labels.Values = append(l.Labels.Values, rows[from*n:to*n]...)
	} else if rows != nil {
		l.Labels.Multi = append(l.Labels.Multi, rows[from*n:to*n]...)
	}
}

// CountLabelled is how many edges have a label.
func (l *Frame) CountLabelled() (count int) {
	edges := len(l.Labels.Class)
	if rows, columns := l.Labels.rows(); rows != nil {
		edges = len(rows) / columns
	}
	for k := range edges {
		if l.Labels.Labelled(int64(k)) {
			count++
		}
	}
	return count
}

// SplitsOfRows returns the splits of the edges with these numbers, as lists of their rows. −1 stands for a
// row without an edge.
func (l *Frame) SplitsOfRows(numbers []int64) (all []Split) {
	order := make([]int, 0, len(numbers)) // rows by the numbers of their edges
	for row, k := range numbers {
		if k >= 0 {
			order = append(order, row)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(numbers[a] - numbers[b]) })
	for i := range l.Splits {
		var split Split
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
			*split.Parts()[part] = rows
		}
		all = append(all, split)
	}
	return all
}

// CheckUnlabelledEdges refuses a change of the edges if they have labels, which would not follow.
func (g *Graph) CheckUnlabelledEdges() error {
	for i := range g.Relations {
		if l := &g.Relations[i].Frame; l.HasLabels() {
			return refusal.Errorf("edges have labels (%s), and other edges would have none: leave it out, or import "+
				"the graph without labels of edges", l.Labels.Column)
		}
	}
	return nil
}

// HasLabel reports whether the edges have the labels that asked names: COLUMN or, of one of several
// relations, RELATION:COLUMN or SOURCE__NAME__TARGET:COLUMN.
func (r *Relation) HasLabel(asked string) bool {
	return r.HasLabels() && NamesLabel(asked, r.Labels.Column, r.FullName())
}

// NamesLabel is HasLabel for labels of that column in a relation, given by its FullName; "": the name is
// unknown. In a graph without names any name may stand before the column: that of the relation's list is not
// kept.
func NamesLabel(asked, column, fullName string) bool {
	relation, after, qualified := strings.Cut(asked, ":")
	switch {
	case asked == column:
		return true
	case !qualified || after != column:
		return false
	}
	nameless := fullName == "" || fullName == (&Relation{}).FullName()
	return nameless || relation == fullName || strings.Contains(fullName, "__"+relation+"__")
}
