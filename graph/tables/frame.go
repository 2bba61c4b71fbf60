package tables

import (
	"cmp"
	"fmt"
	"strconv"

	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
)

// frame reads the rows of a table, of vertices or of edges, for a graph.Frame: columns that become features,
// and labels.
type frame struct {
	table.Table
	header   []string     // names of columns
	list     columns.List // of the features; of edges the weight, if there is one, comes first
	odd      []oddValues  // for each of list; nil: odd values are not counted
	rows     int          // that were read
	labels   labels
	notes    []string // on columns
	warnings []string
}

// oddValues are the values in a column of the list that are not of its kind.
type oddValues struct {
	columns.Odd
	err error // the refusal of the first of them
}

// namesOf returns the names of all columns.
func namesOf(all []table.Column) []string {
	names := make([]string, len(all))
	for k, c := range all {
		names[k] = cmp.Or(c.Name, unnamed+strconv.Itoa(k))
	}
	return names
}

// eachRow reads the table from input, and calls do with its rows.
func eachRow(input table.Table, choose table.Choose, do func(*table.Row) error) error {
	width := 0
	return input.Each(func(all []table.Column) ([]int, error) {
		width = len(all)
		return choose(all)
	}, func(r *table.Row) error {
		n := r.Len()
		if n == width || r.Kind(0) != table.Any { // a row of Parquet has all columns
			return do(r)
		}
		way := ""
		if n > width {
			way = ": put a field that has a separator in quotes"
		}
		return r.Errorf("%s, where the first line has %d%s", arrays.Counted(n, "column"), width, way)
	})
}

// missing appends the features of a missing value in the i-th column of the list, where a field is not of the
// column's kind, as err says.
func (f *frame) missing(to []float32, i int, field []byte, err error) []float32 {
	if f.odd != nil {
		o := &f.odd[i]
		o.Add(field, int64(f.rows))
		o.err = cmp.Or(o.err, err)
	}
	to, _, _ = f.list[i].Append(to, nil) // a missing value is of any kind
	return to
}

// checkOdd refuses a table of which a column has many values that are not of its kind.
func (f *frame) checkOdd() error {
	for i := range f.odd {
		if !f.odd[i].Few(int64(f.rows) - f.list[i].Missing) {
			return f.odd[i].err
		}
	}
	return nil
}

// noteOdd notes which values count as missing in a table whose columns another table has decided.
func (f *frame) noteOdd() {
	for i := range f.odd {
		c := &f.list[i]
		f.tell(&f.notes, c.Name, f.odd[i].Note(c.Kind))
	}
}

// tell keeps a note or a warning about a column, if there is one.
func (f *frame) tell(notes *[]string, column, note string) {
	if note != "" {
		*notes = append(*notes, fmt.Sprintf("%s: column %s: %s", f.Path, column, note))
	}
}

// column returns what a column becomes, and notes what that assumes.
func (f *frame) column(p *columns.Profile) (c columns.Column, note string) {
	c, note = p.Column()
	f.tell(&f.warnings, p.Name, p.Doubt(&c))
	return c, note
}
