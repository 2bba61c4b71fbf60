package tables

import (
	"cmp"
	"fmt"
	"math"

	"weft/graph/columns"
	"weft/graph/internal/table"
)

// These functions read a row of a list of edges: two vertices, numbers, and a label.

// add adds the edge of a row.
func (l *edgeList) add(r *table.Row) error {
	l.rows++
	if l.rows == 1 {
		if err := l.decide(r); err != nil {
			return err
		}
		l.odd = make([]oddValues, len(l.list))
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
	for i := range l.list {
		to := &l.batch.Features
		if l.weighted && i == 0 {
			to = &l.batch.Weights
		}
		var err error
		if *to, err = l.number(*to, r, i); err != nil {
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
func (l *edgeList) number(to []float32, r *table.Row, i int) ([]float32, error) {
	c, k, is := &l.list[i], len(l.ends)+i, ""
	if c.Kind == columns.Number {
		x, err := r.Number(k)
		if math.Abs(float64(float32(x))) <= math.MaxFloat32 && err == nil && !r.Missing(k) { // no NaN, too
			const whole = 1 << 24 // float32 has all whole numbers up to this
			if math.Abs(x) > whole {
				l.round(c.Name, float32(x), r, k)
			}
			if to = append(to, float32(x)); c.Gaps {
				to = append(to, 0)
			}
			return to, nil
		}
		is = "finite number, and features of edges are numbers, dates or booleans, of one kind in a column"
		if l.weighted && i == 0 {
			is = "finite number, and weights of edges are numbers"
		}
	}
	field := r.Field(k)
	missing, gaps := columns.IsMissing(field), c.Gaps || c.Mean != 0
	if missing && gaps || !missing && c.Kind != columns.Number {
		if more, _, err := c.Append(to, field); err == nil {
			return more, nil
		}
	}
	err := r.Errorf("column %s: %.40q is no %s: correct it, or leave the row or the column out", c.Name, field,
		cmp.Or(is, string(c.Kind)+", as the other rows have"))
	if !gaps {
		return to, err
	}
	return l.missing(to, i, field, err), nil
}

// round notes the first whole number of a column that float32 changes to another.
func (l *edgeList) round(column string, x float32, r *table.Row, k int) {
	if l.rounded[column] {
		return
	}
	field := r.Decimal(r.Field(k))
	if exact, _ := table.Number(field); exact != float64(x) {
		l.rounded[column] = true
		l.tell(&l.notes, column, fmt.Sprintf("float32 makes %.0f of %s; subtract what all have in common, as the "+
			"least", x, field))
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
