package tables

import (
	"fmt"
	"slices"

	"weft/graph/columns"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// match finds the columns of a list in a table that is to be read like another.
func (t *vertexTable) match() error {
	if t.like == nil {
		return nil
	}
	t.list = slices.Clone(t.like)
	t.from = nil
	places := make(map[string]int, len(t.header))
	for k, name := range t.header {
		places[name] = k
	}
	for i := range t.list {
		c := &t.list[i]
		k, there := places[c.Name]
		if !there || !t.takes(k) {
			return refusal.Errorf("%s: there is no column %s; %s", t.Path, c.Name, t.described())
		}
		c.Missing, c.Other, c.Counts = 0, 0, nil
		if c.Kind == columns.Category {
			c.Counts = make([]int64, len(c.Categories))
		}
		t.from, t.odd = append(t.from, k), append(t.odd, oddValues{})
	}
	known := t.list.Places()
	for k, name := range t.header {
		if _, is := known[name]; !is && t.takes(k) {
			t.leftOut = append(t.leftOut, columns.LeftOut{Name: name, Why: "the model does not know it"})
		}
	}
	return nil
}

// count counts what the value of a row in a column of the list is.
func (t *vertexTable) count(column int, field []byte, unknown bool) {
	c := &t.list[column]
	switch {
	case columns.IsMissing(field):
		c.Missing++
	case unknown:
		c.Other++
	case c.Kind == columns.Category:
		k, _ := slices.BinarySearch(c.Categories, string(field))
		c.Counts[k]++
	}
}

// row appends the features of a row. A value that is not of its column's kind is missing. The first pass of a
// table that is read like another counts what the values are.
func (t *vertexTable) row(to []float32, r *table.Row) []float32 {
	for i := range t.list {
		c := &t.list[i]
		field := r.Field(t.from[i])
		if c.Kind == columns.Number {
			field = r.Decimal(field)
		}
		more, unknown, err := c.Append(to, field)
		if err != nil {
			more = t.missing(to, i, field, r.Errorf("column %s: %w", c.Name, err))
		} else if t.odd != nil {
			t.count(i, field, unknown)
		}
		to = more
	}
	return to
}

// firstOf returns the first notes about columns, and says how many more there are.
func (t *vertexTable) firstOf(notes []string) []string {
	const most = 20
	if more := len(notes) - most; more > 0 {
		return append(notes[:most:most], fmt.Sprintf("%s: and %d more columns of which such is to be told",
			t.Path, more))
	}
	return notes
}

// finish decides which features the columns become. Vertices without a row have no values.
func (t *vertexTable) finish() {
	more := int64(len(t.ids.Names) - t.rows)
	t.leftOut = append(t.leftOut, t.unread...)
	for k, p := range t.profiles {
		switch {
		case t.like != nil || k == t.id || k == t.label:
			continue
		case isIndex(p.Name):
			t.leftOut = append(t.leftOut,
				columns.LeftOut{Name: p.Name, Why: "it has no name, as the index of pandas"})
			continue
		}
		c, note := t.column(p)
		if c.Kind == "" {
			t.leftOut = append(t.leftOut, columns.LeftOut{Name: p.Name, Why: note})
			continue
		}
		t.tell(&t.notes, p.Name, note)
		c.Gaps = c.Gaps || more > 0
		t.list, t.from = append(t.list, c), append(t.from, k)
	}
	t.profiles = nil
	for i := range t.list {
		t.list[i].Missing += more
	}
}

// features are the features of all vertices; nil: there are none.
func (t *vertexTable) features() *streamed.RowSource {
	if len(t.list) == 0 {
		return nil
	}
	return &streamed.RowSource{Columns: t.list.Width(), Each: t.eachFeatures, Refuse: t.refuse}
}

// eachFeatures makes the second pass: it calls do with the features of all vertices, some at a time.
func (t *vertexTable) eachFeatures(do func(rows []float32) error) error {
	const batch = 1 << 16 // values of features in a batch, about
	width, rows := t.list.Width(), 0
	room := make([]float32, 0, batch+width)
	flush := func(least int) error {
		if len(room) < least {
			return nil
		}
		err := do(room)
		room = room[:0]
		return err
	}
	read := func(r *table.Row) error {
		rows++
		if rows > t.rows {
			return r.Errorf("a further row has come while the file was read: import it again")
		}
		room = t.row(room, r)
		return flush(batch)
	}
	var err error
	if t.hasTable {
		err = t.read(nil, read)
	}
	if err == nil && rows < t.rows {
		err = refusal.Errorf("%s: has %d rows, and had %d a moment ago: import it again", t.Path, rows,
			t.rows)
	}
	for ; err == nil && t.before+rows < len(t.ids.Names); rows++ {
		for i := range t.list {
			room, _, _ = t.list[i].Append(room, nil) // a missing value is of any kind
		}
		err = flush(batch)
	}
	if err == nil {
		err = flush(1)
	}
	return err
}
