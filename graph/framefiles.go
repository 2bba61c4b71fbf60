package graph

import (
	"slices"

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

// frameDescription describes the labels of edges.
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
		l.Labels.Column, describeLabels(&l.Labels), SizesOf(l.Splits), l.SplitBy.With(nil),
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
func (f *Frame) storedLabels(d *frameDescription, edges int) []storedArray {
	if d == nil {
		return nil
	}
	all := f.Labels.storedIn(edgeLabelsFile, d.Labels, edges)
	if d.By != nil {
		values := new([]float64)
		if f.SplitBy != nil {
			values = &f.SplitBy.Values
		}
		all = append(all, in(edgeSplitByFile, values, edges))
	}
	return all
}

// described makes labels of edges from their description, without rows.
func (d *frameDescription) described() *Frame {
	l := &Frame{Labels: Labels{Column: d.Column}}
	l.Labels.describedBy(d.Labels)
	l.SplitBy = d.By.With(nil)
	return l
}

// edgeFiles writes the names and splits of labels of edges.
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

// rowFiles are the files of labels and splits in the folder of a vertex type or of a relation.
type rowFiles struct {
	labels, classNames string
	parts              [3]string
}

// files are the files of the labels, and of the splits beside them.
func (l *Labels) files() rowFiles {
	if l.Noun() == EdgeNoun {
		return rowFiles{edgeLabelsFile, edgeClassNamesFile, edgePartFiles}
	}
	return rowFiles{labelsFile, classNamesFile, splitFiles}
}
