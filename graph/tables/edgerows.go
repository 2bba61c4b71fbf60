package tables

import (
	"fmt"
	"math"

	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
)

// These functions read a row of a list of edges: two vertices, numbers, and a label.

// add adds the edge of a row.
func (l *edgeList) add(r *table.Row) error {
	if n := r.Len(); n != len(l.header) && r.Kind(0) == table.Any {
		return r.Errorf("%s, where the first line has %d", arrays.Counted(n, "column"), len(l.header))
	}
	l.rows++
	if l.rows == 1 {
		if err := l.decide(r); err != nil {
			return err
		}
	}
	var ends [2]int32
	for k := range ends {
		if n, whole := r.Integer(k); whole && l.alone != nil && l.alone.numbered {
			if v, there := l.alone.numbers(n); there {
				ends[k] = v
				continue
			}
		}
		v, err := l.end(k, r.Field(k))
		if err != nil {
			return r.Errorf("%s: %w", endNames[k], err)
		}
		ends[k] = v
	}
	for i := range l.numbers {
		to := &l.batch.Features
		if l.weighted && i == 0 {
			to = &l.batch.Weights
		}
		if err := l.number(to, r, i); err != nil {
			return err
		}
	}
	if l.label != "" {
		if l.by.Column != "" {
			value, err := l.by.value(r)
			if err != nil {
				return err
			}
			l.batch.SplitBy = append(l.batch.SplitBy, value)
		}
		word, err := l.labelOf(r)
		if err != nil {
			return err
		}
		l.batch.Labels = append(l.batch.Labels, word)
	}
	if l.alone != nil {
		l.alone.add(ends, r)
	}
	l.batch.Source, l.batch.Target = append(l.batch.Source, ends[0]), append(l.batch.Target, ends[1])
	return nil
}

// number appends the value of a row in the i-th of the columns of numbers. If the column's mean is known, a
// field that is empty or not of the column's kind counts as missing.
func (l *edgeList) number(to *[]float32, r *table.Row, i int) error {
	c, k := &l.numbers[i], len(l.ends)+i
	missing, err := l.read(to, r, i)
	if err == nil && !missing || !c.Gaps && c.Mean == 0 {
		return err
	}
	*to, _, _ = c.Append(*to, nil) // a missing value is of any kind
	if !missing {
		l.odd[i].add(r.Field(k), int64(l.rows), err)
	}
	return nil
}

// read appends the value of a row in the i-th of the columns of numbers. A value that is missing or not of
// its column's kind is an error, and read appends nothing.
func (l *edgeList) read(to *[]float32, r *table.Row, i int) (missing bool, err error) {
	c, k := &l.numbers[i], len(l.ends)+i
	if c.Kind == columns.Number {
		x, err := r.Number(k)
		if !(math.Abs(float64(float32(x))) <= math.MaxFloat32) || err != nil || r.Missing(k) { // NaN, too
			what := "features of edges are numbers, dates or booleans, of one kind in a column"
			if l.weighted && i == 0 {
				what = "weights of edges are numbers"
			}
			return columns.IsMissing(r.Field(k)), r.Errorf("column %s: %.40q is no finite number, and %s: correct it, "+
				"or leave the row or the column out", c.Name, r.Field(k), what)
		}
		const whole = 1 << 24 // float32 has all whole numbers up to this
		if math.Abs(x) > whole {
			l.round(c.Name, float32(x), r, k)
		}
		if *to = append(*to, float32(x)); c.Gaps {
			*to = append(*to, 0)
		}
		return false, nil
	}
	field := r.Field(k)
	more, _, err := c.Append(*to, field)
	if missing = columns.IsMissing(field); missing || err != nil {
		return missing, r.Errorf("column %s: %.40q is no %s, as the other rows have: correct it, or leave the row or "+
			"the column out", c.Name, field, c.Kind)
	}
	*to = more
	return false, nil
}

// checkOdd refuses a list of which a column has many values that are not of its kind.
func (l *edgeList) checkOdd() error {
	for i := range l.odd {
		if o := &l.odd[i]; !o.Few(int64(l.rows)) {
			return o.err
		}
	}
	return nil
}

// notesOnOdd says which values count as missing in a list whose columns another list has decided.
func (l *edgeList) notesOnOdd() (notes []string) {
	for i := range l.odd {
		if l.odd[i].Rows > 0 {
			notes = append(notes, fmt.Sprintf("%s: column %s: %s", l.path, l.numbers[i].Name,
				l.odd[i].Note(l.numbers[i].Kind)))
		}
	}
	return notes
}

// round notes the first whole number of a column that float32 changes to another.
func (l *edgeList) round(column string, x float32, r *table.Row, k int) {
	if l.rounded[column] {
		return
	}
	field := r.Decimal(r.Field(k))
	if exact, _ := table.Number(field); exact != float64(x) {
		l.rounded[column] = true
		l.notes = append(l.notes, fmt.Sprintf("%s: column %s: float32 makes %.0f of %s; subtract what all have in "+
			"common, as the least", l.path, column, x, field))
	}
}

// end returns the vertex of an id at the k-th end. An id without a row stands for a further vertex.
func (l *edgeList) end(k int, id []byte) (int32, error) {
	e := &l.ends[k]
	if e.table != nil {
		if v, there := e.table.find(id); there {
			if e.table.has(v) {
				l.known++
			}
			return v, nil
		}
	}
	if err := checkID(id); err != nil {
		return 0, err
	}
	if l.id == "" {
		l.id = string(id)
	}
	switch {
	case e.table == nil:
		if err := l.resolve(e, id); err != nil {
			return 0, err
		}
		return l.end(k, id)
	case l.alone != nil && e.table.numbered:
		return 0, l.alone.noVertex(id)
	case e.table.fixed:
		return 0, fmt.Errorf("the graph has no vertex %.40q: %w", id, e.table.noTable())
	}
	return e.table.ids.Number(id)
}

// resolve finds the table that has the first id.
func (l *edgeList) resolve(e *end, id []byte) error {
	var matches []string
	for _, t := range l.tables {
		if v, there := t.find(id); there && t.has(v) {
			matches = append(matches, t.name)
			e.table = t
		}
	}
	if len(matches) == 1 {
		return nil
	}
	e.table = nil
	types := ""
	for _, t := range l.tables {
		types += ", " + t.name
	}
	return fmt.Errorf("the id %.40q is in %d of the tables: write which type the column has, as "+
		"TYPE:COLUMN, where TYPE is one of%s", id, len(matches), types[1:])
}
