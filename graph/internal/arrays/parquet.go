package arrays

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// labelColumns are the names of the column of labels in a Parquet file with several columns.
var labelColumns = []string{"label", "labels", "y", "class"}

// columnOfLabels reads labels from Parquet: the only column, or that of such a name, and one of ids.
func (f *File) columnOfLabels(most int64, key *Key, as Meaning) (*LabelRows, error) {
	t := &numbers{path: f.path, columns: 1, as: as}
	n := &classNames{table: names.NewTable()}
	choose := func(columns []table.Column) ([]int, error) {
		id := slices.IndexFunc(columns,
			func(c table.Column) bool { return len(columns) > 1 && IsIDColumn(c.Name) })
		var order []int
		for k, c := range columns {
			if len(columns) == 1 || slices.Contains(labelColumns, c.Name) {
				order = append(order, k)
			}
		}
		if len(order) != 1 {
			return nil, errors.New("which column has the labels? Call it label, or leave the others out")
		}
		label := columns[order[0]]
		n.text, t.pointed = label.Kind == table.Words, label.Kind == table.Reals
		switch {
		case label.Kind >= table.Truths:
			return nil, fmt.Errorf("column %q does not hold one label per row", label.Name)
		case n.text && as == Values:
			return nil, fmt.Errorf("column %q holds text, and values to predict are numbers; leave --values "+
				"out for names of classes", label.Name)
		case id < 0:
			return order, nil
		case columns[id].Kind >= table.Truths || columns[id].Kind == table.Reals:
			return nil, fmt.Errorf("column %q does not hold one id per row", columns[id].Name)
		}
		same := func(c table.Column) bool { return c.Name == columns[id].Name }
		if slices.ContainsFunc(columns[id+1:], same) {
			return nil, ErrTwoColumns(columns[id].Name)
		}
		t.ids = NewRowIDs(key)
		return append(order, id), nil
	}
	var values []float64
	read := func(r *table.Row) (err error) {
		t.rows++
		if t.rows > most {
			return refusal.Errorf("%s: more than %d rows, one for each vertex that the graph may have",
				f.path, most)
		}
		x, err := n.value(r)
		if err == nil {
			values, err = memory.Append(values, x)
		}
		if err != nil {
			return r.ColumnErrorf(0, "%w", err)
		}
		if t.ids == nil {
			return nil
		}
		if err := t.ids.Add(r.Field(1), r.At); err != nil {
			return r.ColumnErrorf(1, "%w", err)
		}
		return nil
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	in := table.Table{Path: f.path}
	if err := in.EachOf(f.file, choose, read); err != nil {
		return nil, err
	}
	a, err := t.array(values)
	if err != nil {
		return nil, err
	}
	return t.labels(n, a)
}

// value is the label of a row of Parquet: a number, or the number of a name. NaN is no label.
func (n *classNames) value(r *table.Row) (float64, error) {
	switch {
	case r.Missing(0) || n.text && len(r.Field(0)) == 0:
		return math.NaN(), nil
	case n.text:
		id, err := n.add(r.Field(0))
		return float64(id), err
	}
	return r.Number(0)
}
