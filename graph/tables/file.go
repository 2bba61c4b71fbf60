package tables

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/internal/number"
	"weft/internal/refusal"
)

// readHeader reads the names of the columns. It refuses a table without a row.
func (t *vertexTable) readHeader() error {
	err := t.read(nil, func(*table.Row) error { return errEnough })
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil:
		err = refusal.Errorf("%s: has no row behind its header", t.Path)
	}
	return err
}

// errEnough ends the reading of a table.
var errEnough = errors.New("enough is read")

// read reads the table, and calls do with its rows.
func (t *vertexTable) read(progress graph.Progress, do func(*table.Row) error) error {
	input := t.Table
	input.Progress = progress
	return eachRow(input, t.choose, do)
}

// choose takes all columns but those that are left out, by the names in the header.
func (t *vertexTable) choose(all []table.Column) (order []int, err error) {
	t.header, t.unread = t.header[:0], nil
	if !slices.ContainsFunc(all, func(c table.Column) bool { return !isNumber(c.Name) }) {
		return nil, errors.New("the first line names no columns: put a line with a name for each before it")
	}
	seen := make(map[string]bool, len(all))
	var names []string
	var places []int
	for k, name := range namesOf(all) {
		if seen[name] {
			return nil, arrays.ErrTwoColumns(name)
		}
		if err := arrays.CheckUTF8("name", []byte(name)); err != nil {
			return nil, err
		}
		if all[k].Kind == table.Nested {
			t.unread = append(t.unread, columns.LeftOut{Name: name, Why: "its Parquet type is not " +
				"read, as of lists, structures and bytes"})
			continue
		}
		names, places, seen[name] = append(names, name), append(places, k), true
	}
	id := slices.Index(names, cmp.Or(t.asked, t.known))
	switch {
	case id >= 0:
	case t.asked == "":
		id = max(0, slices.IndexFunc(names, arrays.IsIDColumn))
	case t.ofGraph:
		return nil, fmt.Errorf("there is no column %s, which has the ids of the graph's vertices: there are %s",
			t.asked, arrays.Listed(names))
	default:
		return nil, refusal.Columns.Errorf("there is no column %s, which --id asks for: there are %s", t.asked,
			arrays.Listed(names))
	}
	for i, name := range names {
		if i != id && slices.Contains(t.leaveOut, name) {
			t.unread = append(t.unread, columns.LeftOut{Name: name, Why: "as asked"})
			continue
		}
		if i == id {
			t.id = len(order)
		}
		t.header, order = append(t.header, name), append(order, places[i])
	}
	return order, nil
}

// separators are the separators of a table of text, if it has one of them.
const separators = ",;\t"

// isNumber reports whether a word is a number, as the fields of a line without names are.
func isNumber(word string) bool {
	_, err := number.Parse(word, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// unnamed is how pandas names a column without a name, before its number from 0.
const unnamed = "Unnamed: "

// isIndex reports whether a column is the index of a pandas table, which numbers the rows.
func isIndex(name string) bool {
	return strings.HasPrefix(name, unnamed) || strings.HasPrefix(name, "__index_level_")
}

// refuse says of an error that it is about the table.
func (t *vertexTable) refuse(err error) error { return refusal.Errorf("%s: %w", t.Path, err) }

// described lists the columns of the table, for people.
func (t *vertexTable) described() string { return t.Path + " has " + arrays.Listed(t.header) }
