package tables

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// vertexTable is a table of the vertices of one type.
type vertexTable struct {
	path, name string
	asked      string // the column of ids that was asked for; empty: none
	known      string // that of a table that was read before; empty: it is not known
	knownLabel string // that table's label; empty: it had none
	leaveOut   []string
	choices    columns.Choices
	like       columns.List // nil: as the values suggest
	progress   graph.Progress

	header    []string
	nested    []columns.LeftOut
	id, label int // columns; label −1: there is none
	ids       *names.Table
	before    int  // vertices that the graph has, to which the table adds
	numbered  bool // the ids of these are numbers from 0, which ids does not have
	fixed     bool // these are all that there are
	given     bool // there is a table of new vertices
	rows      int  // of the table; ids has further ones
	profiles  []*columns.Profile
	list      columns.List
	from      []int // the column of each of list
	leftOut   []columns.LeftOut
	labels    labels
}

// vertexTables are the tables that the options name. The one with the label comes first.
func (o *Options) vertexTables() (all []*vertexTable, err error) {
	for i, argument := range o.Vertices {
		t := &vertexTable{
			leaveOut: o.LeaveOut, choices: o.Choices, progress: o.Progress, ids: names.NewTable(), label: -1,
		}
		t.name, t.path = Named(argument)
		if t.asked, err = each("id", o.ID, i, len(o.Vertices)); err != nil {
			return nil, err
		}
		of := t.name
		if o.untyped() {
			of = graph.VertexName
		}
		if err := o.Like.table(t, of); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *vertexTable) bool { return other.name == t.name }) {
			return nil, refusal.Errorf("{vertices-from} %s: two vertex types are called %s; give one "+
				"another name, as TYPE=%s", argument, t.name, t.path)
		}
		if err := t.readHeader(); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, o.findLabel(all)
}

// findLabel finds the table that has the column of labels, and puts it first.
func (o *Options) findLabel(all []*vertexTable) error {
	if o.Label == "" {
		for i, t := range all {
			if t.label = slices.Index(t.header, t.knownLabel); t.label >= 0 {
				first(all, i)
			}
		}
		return nil
	}
	of, column := "", o.Label
	if before, after, given := strings.Cut(o.Label, ":"); given &&
		slices.ContainsFunc(all, func(t *vertexTable) bool { return t.name == before }) {
		of, column = before, after
	}
	found := -1
	for i, t := range all {
		if k := slices.Index(t.header, column); k < 0 || of != "" && t.name != of {
			continue
		}
		if found >= 0 {
			return refusal.Errorf("{label} %s: %s and %s have this column; give one as TYPE:%s, with %s or "+
				"%s", o.Label, all[found].path, t.path, column, all[found].name, t.name)
		}
		found = i
	}
	if found < 0 {
		return refusal.Errorf("{label} %s: no table of vertices has this column; %s", o.Label,
			all[0].described())
	}
	t := all[found]
	if t.label = slices.Index(t.header, column); t.label == t.id {
		return refusal.Errorf("{label} %s: this is the column of ids; %s", o.Label, t.described())
	}
	first(all, found)
	return nil
}

// first moves the i-th table to the begin.
func first(all []*vertexTable, i int) {
	t := all[i]
	copy(all[1:i+1], all[:i])
	all[0] = t
}

// readHeader reads the names of the columns. It refuses a table without a row.
func (t *vertexTable) readHeader() error {
	err := t.read(nil, func(*table.Row) error { return errEnough })
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil:
		err = refusal.Errorf("%s: has no row behind its header", t.path)
	}
	return err
}

// errEnough ends the reading of a table.
var errEnough = errors.New("enough is read")

// read reads the table, and calls do with its rows.
func (t *vertexTable) read(progress graph.Progress, do func(*table.Row) error) error {
	file, _, err := regular.Open(t.path)
	if err != nil {
		return err
	}
	defer file.Close()
	of := table.Table{
		Path: t.path, Progress: progress, Separators: ",;\t",
		Line: "a table of vertices", Header: true,
	}
	return of.Each(file, t.choose, func(r *table.Row) error {
		switch n := r.Len(); {
		case n > len(t.header):
			return r.Errorf("%d columns, where the header names %d: put a field that has a "+
				"separator in quotes", n,
				len(t.header))
		case n < len(t.header):
			return r.Errorf("%s, where the header names %d", arrays.Counted(n, "column"), len(t.header))
		}
		return do(r)
	})
}

// choose takes all columns, by the names in the header.
func (t *vertexTable) choose(all []table.Column) (order []int, err error) {
	t.header, t.nested = t.header[:0], nil
	if !slices.ContainsFunc(all, func(c table.Column) bool { return !isNumber(c.Name) }) {
		return nil, errors.New("the first line names no columns: put a line with a name for each before it")
	}
	for k, c := range all {
		if strings.Contains(c.Name, "\r") {
			return nil,
				errors.New(`its lines end as those of old Macs: convert the file, as with tr '\r' '\n'`)
		}
		if c.Name == "" {
			c.Name = unnamed + strconv.Itoa(k)
		}
		if slices.Contains(t.header, c.Name) {
			return nil, fmt.Errorf("two columns are called %.40q: rename one", c.Name)
		}
		if !utf8.ValidString(c.Name) {
			return nil, fmt.Errorf("the name %.40q is not UTF-8: convert the file, as with iconv -t UTF-8",
				c.Name)
		}
		if c.Kind == table.Nested {
			t.nested = append(t.nested, columns.LeftOut{Name: c.Name, Why: "its Parquet type is not " +
				"read, as of lists, structures, bytes and nulls"})
			continue
		}
		t.header, order = append(t.header, c.Name), append(order, k)
	}
	switch {
	case t.asked != "":
		if t.id = slices.Index(t.header, t.asked); t.id < 0 {
			why := refusal.Setting("id") + " asks for"
			if t.adds() {
				why = "has the ids of the graph's vertices"
			}
			return nil, fmt.Errorf("there is no column %s, which %s: there are %s", t.asked, why,
				arrays.Listed(t.header))
		}
	case t.known != "" && slices.Contains(t.header, t.known):
		t.id = slices.Index(t.header, t.known)
	default:
		t.id = max(0, slices.IndexFunc(t.header, arrays.IsIDColumn))
	}
	return order, nil
}

// profile makes the first pass: ids, labels, and what columns hold.
func (t *vertexTable) profile() error {
	t.profiles = nil
	for _, name := range t.header {
		t.profiles = append(t.profiles, columns.NewProfile(name, t.choices))
	}
	if err := t.match(); err != nil {
		return err
	}
	var room []float32
	err := t.read(t.progress, func(r *table.Row) error {
		for k := range t.header {
			if r.Kind(k) != table.Any {
				break // of Parquet, whose text is UTF-8, or bytes
			}
			if field := r.Field(k); !utf8.Valid(field) {
				return r.Errorf("column %s: %.40q is not UTF-8: convert the file, as with "+
					"iconv -f LATIN1 -t UTF-8", t.header[k], field)
			}
		}
		id := r.Field(t.id)
		if err := checkID(id); err != nil {
			return r.Errorf("%w", err)
		}
		v, err := t.ids.Number(id)
		switch {
		case err != nil:
			return r.Errorf("%w", err)
		case int(v) < t.before:
			return r.Errorf("the graph has a vertex of the id %.40q: give new vertices alone", id)
		case int(v) != t.before+t.rows:
			out := ""
			if !t.adds() {
				out = fmt.Sprintf(", or name the column of the ids with %s; %s", refusal.Setting("id"),
					t.described())
			}
			return r.Errorf("the id %.40q stands in row %d as well: give each vertex one row%s", id,
				int(v)-t.before+1, out)
		}
		t.rows++
		if t.label >= 0 {
			if err := t.labels.add(r.Decimal(r.Field(t.label))); err != nil {
				return r.Errorf("column %s: %w", t.header[t.label], err)
			}
		}
		if t.like != nil {
			room, err = t.row(room[:0], r, t.count)
			return err
		}
		for k, p := range t.profiles {
			if t.takes(k) {
				field := r.Field(k)
				p.Add(field, r.Decimal(field))
			}
		}
		return nil
	})
	return err
}

// isNumber reports whether a word is a number, as the fields of a line without names are.
func isNumber(word string) bool {
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}

// checkID refuses an id that names no vertex.
func checkID(id []byte) error {
	switch {
	case len(id) == 0:
		return errors.New("the id is empty")
	case !utf8.Valid(id):
		return fmt.Errorf("the id %.40q is not UTF-8: convert the file, as with iconv -t UTF-8", id)
	}
	return nil
}

// leaves reports whether the column is one of the table's that are left out on request.
func (t *vertexTable) leaves(name string) bool {
	return slices.Contains(t.leaveOut, name) && slices.Contains(t.header, name)
}

// takes reports whether features may be made of a column.
func (t *vertexTable) takes(k int) bool {
	return k != t.id && k != t.label && !isIndex(t.header[k]) && !t.leaves(t.header[k])
}

// unnamed is what pandas calls a column without a name, before its number from 0.
const unnamed = "Unnamed: "

// isIndex reports whether a column is the index of a table of pandas, which numbers the rows.
func isIndex(name string) bool {
	return strings.HasPrefix(name, unnamed) || strings.HasPrefix(name, "__index_level_")
}

// match finds the columns of a list that features are to be like.
func (t *vertexTable) match() error {
	if t.like == nil {
		return nil
	}
	t.list, t.from = slices.Clone(t.like), nil
	for i := range t.list {
		c := &t.list[i]
		k := slices.Index(t.header, c.Name)
		if k < 0 || !t.takes(k) {
			return refusal.Errorf("%s: there is no column %s; %s", t.path, c.Name, t.described())
		}
		c.Missing, c.Other, c.Counts = 0, 0, nil
		if c.Kind == columns.Category {
			c.Counts = make([]int64, len(c.Categories))
		}
		t.from = append(t.from, k)
	}
	for k, name := range t.header {
		if t.takes(k) && t.list.Index(name) < 0 {
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

// row appends the features of a row, and tells seen about its values.
func (t *vertexTable) row(to []float32, r *table.Row, seen func(int, []byte, bool)) ([]float32, error) {
	to, err := t.list.Append(to, func(i int) ([]byte, error) {
		if t.list[i].Kind == columns.Number {
			return r.Decimal(r.Field(t.from[i])), nil
		}
		return r.Field(t.from[i]), nil
	}, seen)
	if err != nil {
		return to, r.Errorf("%w", err)
	}
	return to, nil
}

// adds reports whether the table adds to a graph's, whose column of ids it has.
func (t *vertexTable) adds() bool { return t.before > 0 }

// find returns the vertex of an id.
func (t *vertexTable) find(id []byte) (v int32, there bool) {
	if !t.numbered {
		return t.ids.Find(id)
	}
	n, err := strconv.ParseInt(string(id), 10, 32)
	return int32(n), err == nil && n >= 0 && n < int64(t.before)
}

// all is how many vertices there are, with those that only edges name.
func (t *vertexTable) all() int { return max(t.before, len(t.ids.Names)) }

// finish decides what is made of the columns. Vertices without a row have no values.
func (t *vertexTable) finish() {
	more := int64(len(t.ids.Names) - t.rows)
	t.leftOut = append(t.leftOut, t.nested...)
	for k, p := range t.profiles {
		switch {
		case t.like != nil || k == t.id || k == t.label:
			continue
		case t.leaves(p.Name):
			t.leftOut = append(t.leftOut, columns.LeftOut{Name: p.Name, Why: "as asked"})
			continue
		case isIndex(p.Name):
			t.leftOut = append(t.leftOut,
				columns.LeftOut{Name: p.Name, Why: "it has no name, as the index of pandas"})
			continue
		}
		c, why := p.Column()
		if why != "" {
			t.leftOut = append(t.leftOut, columns.LeftOut{Name: p.Name, Why: why})
			continue
		}
		c.Gaps = c.Gaps || more > 0
		t.list, t.from = append(t.list, c), append(t.from, k)
	}
	t.profiles = nil
	for i := range t.list {
		t.list[i].Missing += more
	}
}

// features makes the second pass: it calls do with the features of all vertices, some at a time.
func (t *vertexTable) features(do func(rows []float32) error) error {
	const batch = 1 << 16 // features, about
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
	read := func(r *table.Row) (err error) {
		if rows++; rows > t.rows {
			return r.Errorf("a further row has come while the file was read: import it again")
		}
		if room, err = t.row(room, r, nil); err != nil {
			return err
		}
		return flush(batch)
	}
	var err error
	if t.before == 0 || t.given {
		err = t.read(nil, read)
	}
	if err == nil && rows < t.rows {
		err = refusal.Errorf("%s: has %d rows, and had %d a moment ago: import it again", t.path, rows,
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

// refuse says of an error that it is about the table.
func (t *vertexTable) refuse(err error) error { return refusal.Errorf("%s: %w", t.path, err) }

// described lists the columns of the table, for people.
func (t *vertexTable) described() string { return t.path + " has " + arrays.Listed(t.header) }
