package tables

import (
	"errors"
	"slices"

	"weft/graph/edgelist"
	"weft/graph/internal/table"
	"weft/internal/regular"
)

// holding returns the two columns that hold ids of the tables in at least half of the first rows; nil: there
// are not just two, or a column is asked for, or has the name of an end or was one before.
func (l *edgeList) holding() (columns []int, err error) {
	if l.ends[0].asked != "" || l.ends[1].asked != "" ||
		slices.ContainsFunc(l.header, func(name string) bool {
			_, known := edgelist.EndOf(name)
			return known || name == l.ends[0].known || name == l.ends[1].known
		}) {
		return nil, nil
	}
	file, _, err := regular.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const most = 1000
	rows, known := 0, make([]int, len(l.header))
	of := table.Table{Path: l.path, Separators: ",;\t", Line: "a list of edges"}
	var places []int // the columns that are read
	all := func(found []table.Column) (order []int, err error) {
		places = nil
		for k := range found {
			if found[k].Kind != table.Nested {
				places = append(places, k)
			}
		}
		return places, nil
	}
	err = of.Each(file, all, func(r *table.Row) error {
		for i, k := range places[:min(len(places), r.Len())] {
			id := r.Field(i)
			if slices.ContainsFunc(l.tables, func(t *vertexTable) bool {
				_, there := t.find(id)
				return there
			}) {
				known[k]++
			}
		}
		if rows++; rows == most {
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
