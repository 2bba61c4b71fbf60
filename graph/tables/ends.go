package tables

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// endNames are the names of ends, for people and as settings.
var endNames = [2]string{"source", "target"}

// knownEnds are the names of columns, in lower case, that hold the sources, and those that hold the targets.
var knownEnds = [2][]string{
	{
		"source", "src", "from", "u", "fromnodeid", "node1", "node_1", "id1", "id_1", "source_id", "src_id",
		"0",
	},
	{
		"target", "dst", "to", "v", "tonodeid", "node2", "node_2", "id2", "id_2", "target_id", "dst_id",
		"dest", "destination", "1",
	},
}

// weightName is the name of the column that has the weights of a list alone, in lower case.
const weightName = "weight"

// endOf returns which end of an edge a column of that name holds, 0 for the source and 1 for the target.
func endOf(name string) (end int, known bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	end = slices.IndexFunc(knownEnds[:], func(names []string) bool { return slices.Contains(names, name) })
	return end, end >= 0
}

// only returns the column that is meant, −1 if there is none. If several match, it takes the first beside
// tables, unless the names differ in capitals alone. In a list of edges alone it refuses them, as a setting
// can name the column. unique refuses equal names.
func (l *edgeList) only(setting string, is func(name string) bool) (int, error) {
	at := slices.IndexFunc(l.header, is)
	if at < 0 {
		return at, nil
	}
	name := l.header[at]
	for _, other := range l.header[at+1:] {
		alike := strings.EqualFold(strings.TrimSpace(other), strings.TrimSpace(name))
		if other != name && is(other) && (alike || l.alone != nil) {
			return at, refusal.Columns.Errorf("columns %.40q and %.40q have one meaning: name one with --%s", name, other,
				setting)
		}
	}
	return at, nil
}

// endAt returns the column of the k-th end; −1: none has a known name.
func (l *edgeList) endAt(k int) (at int, err error) {
	e := &l.ends[k]
	if e.asked != "" {
		at = slices.Index(l.header, e.asked)
		typ, column, typed := strings.Cut(e.asked, ":")
		switch {
		case at >= 0:
		case typed && slices.Contains(l.header, column):
			return at, l.noType(endNames[k], typ, column)
		default:
			return at, refusal.Columns.Errorf("there is no column %s, which --%s asks for: there are %s",
				e.asked,
				endNames[k], arrays.Listed(l.header))
		}
		return at, nil
	}
	at = slices.Index(l.header, e.known)
	if at >= 0 {
		return at, nil
	}
	return l.only(endNames[k], func(name string) bool {
		end, known := endOf(name)
		return known && end == k
	})
}

// noType refuses an end TYPE:COLUMN if no table of vertices has that type.
func (l *edgeList) noType(end, typ, column string) error {
	if l.alone != nil {
		return refusal.Errorf("--%s %s:%s: the vertices of a type stand in a table: give --vertices-from %[2]s=TABLE, "+
			"where the column of ids is enough, or the column of the list alone, --%[1]s %[3]s", end, typ, column)
	}
	types := typesOf(l.tables)
	if l.tables[0].ofGraph {
		return refusal.Errorf("--%s %s:%s: the graph has no vertex type %[2]s, but %[4]s: give the column alone, "+
			"--%[1]s %[3]s", end, typ, column, types)
	}
	return refusal.Errorf("--%s %s:%s: no table of vertices is of the type %[2]s, but of %[4]s: give --vertices-from "+
		"%[2]s=TABLE, too, where the column of ids is enough", end, typ, column, types)
}

// typesOf lists the types that tables of vertices are of.
func typesOf(all []*vertexTable) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}

// unnamed refuses a list, of text or of Parquet, whose columns have no known names.
func (l *edgeList) unnamed(text bool) error {
	if len(l.header) < 2 {
		return errors.New("there is one column: give a source and a target")
	}
	way := ""
	if text && l.alone != nil && !l.alone.Strings {
		way = "; if this line is an edge between names, import the list with weft import edges --string-ids"
	}
	return refusal.Columns.Errorf("the columns are %s, and which are the ends of an edge? Name "+
		"them with --source and --target%s", arrays.Listed(l.header), way)
}

// isEdge reports whether the first line of text is an edge, and not names of columns. Beside tables, an edge
// has two of their ids. isEdge refuses an edge if settings name columns.
func (l *edgeList) isEdge(first []table.Column) (bool, error) {
	ids := len(first) == 2 && l.knows([]byte(first[0].Name)) && l.knows([]byte(first[1].Name))
	if l.alone != nil && l.alone.isHeader(first) || l.alone == nil && !ids {
		return false, nil
	}
	asked := [][2]string{{endNames[0], l.ends[0].asked}, {endNames[1], l.ends[1].asked}}
	for i := range l.list {
		asked = append(asked, [2]string{l.setting(i), l.list[i].Name})
	}
	for _, a := range asked {
		switch setting, name := a[0], a[1]; {
		case slices.Contains(l.header, name):
			return false, nil
		case name != "":
			return false, fmt.Errorf("there is no header, and --%s needs the names of columns: put a line "+
				"before with a name for each column", setting)
		}
	}
	if len(first) > len(l.ends)+1 {
		return false, fmt.Errorf("%s, where an edge has a source, a target and, all or none, a weight: put a line "+
			"before with a name for each column", arrays.Counted(len(first), "column"))
	}
	return true, nil
}

// knows reports whether a table has an id.
func (l *edgeList) knows(id []byte) bool {
	return slices.ContainsFunc(l.tables, func(t *vertexTable) bool {
		_, there := t.find(id)
		return there
	})
}

// holding returns the two columns that hold ids of the tables in at least half of the first rows. It returns
// nil unless there are just two, and if a setting names a column or a column has a known name of an end, now
// or in an earlier list.
func (l *edgeList) holding() (columns []int, err error) {
	if l.alone != nil || l.ends[0].asked != "" || l.ends[1].asked != "" ||
		slices.ContainsFunc(l.header, func(name string) bool {
			_, known := endOf(name)
			return known || name == l.ends[0].known || name == l.ends[1].known
		}) {
		return nil, nil
	}
	const most = 1000
	rows := 0
	known := make([]int, len(l.header))
	var places []int // columns that are read
	all := func(found []table.Column) (order []int, err error) {
		places = nil
		for k := range found {
			if found[k].Kind != table.Nested {
				places = append(places, k)
			}
		}
		return places, nil
	}
	err = l.Each(all, func(r *table.Row) error {
		for i, k := range places[:min(len(places), r.Len())] {
			if l.knows(r.Field(i)) {
				known[k]++
			}
		}
		rows++
		if rows == most {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	for k, n := range known {
		if rows > 0 && 2*n >= rows {
			columns = append(columns, k)
		}
	}
	if len(columns) != 2 {
		return nil, nil
	}
	return columns, nil
}
