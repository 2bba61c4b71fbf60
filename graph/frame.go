package graph

import (
	"fmt"
	"math"
	"slices"

	"weft/graph/columns"
)

// Frame is the data of rows: of the vertices of a type, or of the edges of a relation (DGL's ndata and
// edata).
type Frame struct {
	Count    int // how many rows there are
	Features Features
	Labels   Labels
	Splits   []Split        // lists of rows; none, one, or several
	SplitBy  *SplitBy       // a column by which rules divide the rows; nil: none is kept
	Names    []string       // of the rows, stored with the arrays; nil: the source has none
	Table    *columns.Table // of which the features were made; nil: there is none
	Arrays   []Array        // arrays that no model reads
}

// HasLabels reports whether the rows have labels, also before these are read.
func (f *Frame) HasLabels() bool { return f.Labels.Column != "" || f.Labels.There() }

// SetLabels gives the rows the labels of another frame of as many, with its splits.
func (f *Frame) SetLabels(from *Frame) {
	f.Labels, f.Splits, f.SplitBy = from.Labels, from.Splits, from.SplitBy
}

// checkOfEdges refuses what no frame of edges has, and no store would keep.
func (f *Frame) checkOfEdges() error {
	if f.Count != 0 || f.Names != nil || f.Table != nil || f.Arrays != nil {
		return flawf(descriptionFile, "edges have a Count, Names, a Table or Arrays, which no store keeps: leave "+
			"them out")
	}
	return nil
}

// checkLabels checks the labels of so many edges.
func (f *Frame) checkLabels(edges int, d depth) error {
	if !f.HasLabels() || d == announced { // the rows come later
		return nil
	}
	err := f.Labels.check(edges, maxClasses(edges), d)
	if err == nil {
		err = f.checkSplits(edges)
	}
	if err == nil {
		err = f.SplitBy.check(edges)
	}
	return err
}

// OfRows returns the labels of the edges with these numbers, a row for each. −1 stands for a row without an
// edge, which has no label.
func (f *Frame) OfRows(numbers []int64) Labels {
	picked := f.Labels
	if f.Labels.Class != nil {
		picked.Class = make([]int64, len(numbers))
	}
	all, columns := f.Labels.rows()
	var rows []float32
	if all != nil {
		rows = make([]float32, len(numbers)*columns)
	}
	for row, k := range numbers {
		switch {
		case f.Labels.Class != nil && k < 0:
			picked.Class[row] = -1
		case f.Labels.Class != nil:
			picked.Class[row] = f.Labels.Class[k]
		case k < 0:
			for c := range columns {
				rows[row*columns+c] = float32(math.NaN())
			}
		default:
			copy(rows[row*columns:(row+1)*columns], all[int(k)*columns:])
		}
	}
	if f.Labels.Continuous() {
		picked.Values = rows
	} else if f.Labels.MultiLabel() {
		picked.Multi = rows
	}
	return picked
}

// Announced are the labels without rows and splits.
func (f *Frame) Announced() Frame {
	if !f.HasLabels() {
		return Frame{}
	}
	return Frame{Labels: f.OfRows(nil), SplitBy: f.SplitBy.OfRows(nil)}
}

// AppendRows appends some rows of other labels, which are of the same kind, with their values of SplitBy.
func (f *Frame) AppendRows(other *Frame, from, to int64) {
	if other.SplitBy != nil {
		f.SplitBy.Values = append(f.SplitBy.Values, other.SplitBy.Values[from:to]...)
	}
	if other.Labels.Class != nil {
		f.Labels.Class = append(f.Labels.Class, other.Labels.Class[from:to]...)
	}
	rows, columns := other.Labels.rows()
	if n := int64(columns); rows != nil && other.Labels.Continuous() {
		f.Labels.Values = append(f.Labels.Values, rows[from*n:to*n]...)
	} else if rows != nil {
		f.Labels.Multi = append(f.Labels.Multi, rows[from*n:to*n]...)
	}
}

// checkBatch refuses labels of a batch of so many edges that a Sink would lose or miss: f announces labels of
// another kind, or none.
func (f *Frame) checkBatch(batch *Frame, edges int) error {
	labels, by := &batch.Labels, batch.SplitBy
	switch {
	case edges == 0 && !labels.There() && by == nil:
	case labels.Column != f.Labels.Column || !labels.like(&f.Labels) ||
		labels.There() && labels.places() != edges:
		return fmt.Errorf("%d edges with %d labels %q are not what was announced: labels %q", edges,
			labels.places(), labels.Column, f.Labels.Column)
	case (by != nil) != (f.SplitBy != nil) || by != nil && len(by.Values) != edges:
		return fmt.Errorf("%d edges have other values to divide them by than was announced", edges)
	}
	return nil
}

// places is the number of rows, with a label or without.
func (l *Labels) places() int {
	if rows, columns := l.rows(); rows != nil {
		return len(rows) / max(1, columns)
	}
	return len(l.Class)
}

// CountLabelled is how many edges have a label.
func (f *Frame) CountLabelled() (count int) {
	for k := range f.Labels.places() {
		if f.Labels.Labelled(int64(k)) {
			count++
		}
	}
	return count
}

// SplitsOfRows returns the splits of the edges with these numbers, as lists of their rows. −1 stands for a
// row without an edge.
func (f *Frame) SplitsOfRows(numbers []int64) (all []Split) {
	order := make([]int, 0, len(numbers)) // rows by the numbers of their edges
	for row, k := range numbers {
		if k >= 0 {
			order = append(order, row)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(numbers[a] - numbers[b]) })
	for i := range f.Splits {
		var split Split
		for part, list := range f.Splits[i].Parts() {
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
