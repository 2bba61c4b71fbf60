package tables

import (
	"math"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// splitBy is the column that divides labelled edges. Its Values are read with the edges.
type splitBy struct {
	graph.SplitBy      // of no name: there is none
	place         int  // place among the columns that are read; −1: not there
	ofGraph       bool // no setting named it here
}

// splitByOf returns the column that divides the labelled edges of a relation.
func splitByOf(r *graph.Relation) (b splitBy) {
	column := r.SplitBy
	if column == nil {
		return b
	}
	b.SplitBy, b.ofGraph = graph.SplitBy{Column: column.Column, Kind: column.Kind, Order: column.Order}, true
	return b
}

// open reports whether the kind of the column is not known yet.
func (b *splitBy) open() bool { return b.Column != "" && b.Kind == "" }

// choose adds the column to the columns that are read of a header, unless it is one of them, or open.
func (b *splitBy) choose(header []string, order []int) ([]int, error) {
	if b.Column == "" {
		return order, nil
	}
	at := slices.Index(header, b.Column)
	switch {
	case at < 0 && b.ofGraph && b.Kind == graph.ByPart:
		b.place = -1 // edges are in no part
		return order, nil
	case at < 0 && b.ofGraph:
		return nil, refusal.Columns.Errorf("there is no column %s, by which the graph's edges are divided: there are "+
			"%s", b.Column, arrays.Listed(header))
	case at < 0:
		return nil, refusal.Columns.Errorf("there is no column %s, which --split asks for: there are %s", b.Column,
			arrays.Listed(header))
	}
	if b.open() {
		return order, nil
	}
	if b.place = slices.Index(order, at); b.place < 0 {
		b.place = len(order)
		order = append(order, at)
	}
	return order, nil
}

// take takes the kind of a column of dates or numbers.
func (b *splitBy) take(c *columns.Column) error {
	switch c.Kind {
	case columns.Date:
		b.Kind, b.Order = graph.ByDate, c.Order
	case columns.Number:
		b.Kind = graph.ByNumber
	default:
		return refusal.Columns.Errorf("column %s: --split divides the edges by dates or numbers, and it holds none: "+
			"write dates as 2024-01-31 or 2024-01-31T12:00", b.Column)
	}
	return nil
}

// value returns a row's value; NaN: the edge is in no part.
func (b *splitBy) value(r *table.Row) (float64, error) {
	if b.place < 0 {
		return math.NaN(), nil
	}
	field := r.Field(b.place)
	if b.Kind == graph.ByNumber {
		field = r.Decimal(field)
	}
	if b.Kind == graph.ByPart && columns.IsMissing(field) {
		return math.NaN(), nil
	}
	x, ok := b.Kind.Value(field, b.Order)
	switch {
	case ok:
	case b.Kind == graph.ByPart:
		return 0, r.Errorf("column %s: %.40q is no part of a split: write train, val or test, or nothing for an edge "+
			"of none", b.Column, field)
	default:
		return 0, r.Errorf("column %s: %.40q is no %s, and --split divides the edges by them: correct it, or leave "+
			"the row out", b.Column, field, b.Kind)
	}
	return x, nil
}

// column returns the column with the values of some edges; nil: there is none.
func (b *splitBy) column(values []float64) *graph.SplitBy {
	if b.Column == "" {
		return nil
	}
	return b.With(values)
}
