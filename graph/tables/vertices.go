package tables

import (
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// vertexTable is the vertices of one type: those of a table and, if tables add to a graph, also those of the
// graph.
type vertexTable struct {
	name string
	frame
	vertexIDs
	hasTable bool // there is a table

	// Columns of the table, among those that are read:
	asked      string  // the column of ids that a setting names; empty: none
	ofGraph    bool    // the graph has this column, and the table adds to the graph
	known      string  // the column of a table that was read before; empty: not known
	id         int     // the column of ids
	label      int     // the column of labels; −1: there is none
	knownLabel string  // the column of a table that was read before; empty: that table had none
	words      []int32 // the word of each row's label, −1 if it has none

	// Columns that become features, and others:
	like     columns.List // the wanted columns; nil: the values decide
	choices  columns.Choices
	profiles []*columns.Profile // of the columns that are read
	from     []int              // the column for each of the list
	leaveOut []string           // columns to leave out
	unread   []columns.LeftOut
	leftOut  []columns.LeftOut
}

// newTable returns the vertices of a type that has some, without a table.
func (o *Options) newTable(vertexType graph.VertexType) *vertexTable {
	return &vertexTable{
		name: vertexType.Name(), label: -1, choices: o.Choices,
		frame: frame{Table: table.Table{
			Progress: o.Progress, Separators: separators, Line: "a table of vertices", Header: true,
		}},
		vertexIDs: vertexIDs{ids: names.NewTable(), before: vertexType.Count},
	}
}

// vertexTables are the tables that the options name. The one with the label comes first.
func (o *Options) vertexTables() (all []*vertexTable, err error) {
	for i, argument := range o.Vertices {
		t := o.newTable(graph.VertexType{})
		t.hasTable = true
		t.name, t.Path = Named(argument)
		for _, name := range o.LeaveOut {
			if name != o.Label && t.name+":"+name != o.Label { // the label stays in
				t.leaveOut = append(t.leaveOut, name)
			}
		}
		if t.asked, err = each("id", o.ID, i, len(o.Vertices)); err != nil {
			return nil, err
		}
		vertexType := t.name
		if o.untyped() {
			vertexType = graph.VertexName
		}
		if err := o.Like.table(t, vertexType, len(o.Vertices) == 1); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *vertexTable) bool { return other.name == t.name }) {
			return nil, refusal.Errorf("--vertices-from %s: two vertex types are called %s; give one "+
				"another name, as TYPE=%s", argument, t.name, t.Path)
		}
		if err := t.readHeader(); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, o.findLabel(all)
}

// findLabel finds the table with the column of labels, and puts it first.
func (o *Options) findLabel(all []*vertexTable) error {
	if o.Label == "" {
		for i, t := range all {
			t.label = slices.Index(t.header, t.knownLabel)
			if t.label >= 0 {
				first(all, i)
			}
		}
		return nil
	}
	vertexType, column := "", o.Label
	if before, after, ok := strings.Cut(o.Label, ":"); ok &&
		slices.ContainsFunc(all, func(t *vertexTable) bool { return t.name == before }) {
		vertexType, column = before, after
	}
	found := -1
	for i, t := range all {
		if k := slices.Index(t.header, column); k < 0 || vertexType != "" && t.name != vertexType {
			continue
		}
		if found >= 0 {
			return refusal.Errorf("--label %s: %s and %s have this column; give one as TYPE:%s, with %s or "+
				"%s", o.Label, all[found].Path, t.Path, column, all[found].name, t.name)
		}
		found = i
	}
	if found < 0 {
		var have []string
		for _, t := range all {
			have = append(have, t.described())
		}
		return refusal.Columns.Errorf("--label %s: no table of vertices has this column; %s%s", o.Label,
			strings.Join(have, "; "), typed(all))
	}
	t := all[found]
	t.label = slices.Index(t.header, column)
	if t.label == t.id {
		return refusal.Columns.Errorf("--label %s: this is the column of ids; %s", o.Label, t.described())
	}
	first(all, found)
	return nil
}

// typed says how to name a column of one of several tables.
func typed(all []*vertexTable) string {
	if len(all) == 1 {
		return ""
	}
	return fmt.Sprintf("; a column of one table is TYPE:COLUMN, as in %s:COLUMN", all[0].name)
}

// first moves the i-th table to the begin.
func first(all []*vertexTable, i int) {
	t := all[i]
	copy(all[1:i+1], all[:i])
	all[0] = t
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
	err := t.read(t.Progress, func(r *table.Row) error {
		for k := range t.header {
			if r.Kind(k) != table.Any {
				break // Parquet: its text is UTF-8, or bytes
			}
			if err := arrays.CheckUTF8("text", r.Field(k)); err != nil {
				return r.Errorf("column %s: %w", t.header[k], err)
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
			if !t.ofGraph {
				out = fmt.Sprintf(", or name the column of the ids with --id; %s",
					t.described())
			}
			return refusal.Columns.Of(r.Errorf("the id %.40q stands in row %d as well: give each vertex "+
				"one row%s", id, int(v)-t.before+1, out))
		}
		t.rows++
		if t.label >= 0 {
			word, err := t.labels.word(r.Decimal(r.Field(t.label)))
			if err == nil {
				t.words, err = memory.Append(t.words, word)
			}
			if err != nil {
				return r.Errorf("column %s: %w", t.header[t.label], err)
			}
		}
		if t.like != nil {
			room = t.row(room[:0], r)
			return nil
		}
		for k, p := range t.profiles {
			if t.takes(k) {
				field := r.Field(k)
				p.Add(field, r.Decimal(field))
			}
		}
		return nil
	})
	if err == nil {
		err = t.checkOdd()
	}
	t.noteOdd()
	for i := range t.odd {
		t.list[i].Missing += t.odd[i].Rows
	}
	t.odd = nil // a further pass counts nothing
	return err
}

// takes reports whether features may be made of a column.
func (t *vertexTable) takes(k int) bool {
	return k != t.id && k != t.label && !isIndex(t.header[k])
}
