package edgelist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// columnRoles are the columns that are read, by their names in lower case: source, target, weight.
var columnRoles = map[string]int{
	"source": 0, "src": 0, "from": 0, "u": 0, "fromnodeid": 0, "node1": 0, "node_1": 0, "id1": 0, "id_1": 0,
	"source_id": 0, "src_id": 0, "0": 0,
	"target": 1, "dst": 1, "to": 1, "v": 1, "tonodeid": 1, "node2": 1, "node_2": 1, "id2": 1, "id_2": 1,
	"target_id": 1, "dst_id": 1, "dest": 1, "destination": 1, "1": 1,
	"weight": 2,
}

// roles is the number of columns that are found by their names: source, target, weight.
const roles = 3

// EndOf returns which end of an edge a column of that name holds, 0 for the source and 1 for the target.
func EndOf(name string) (end int, known bool) {
	role, known := columnRoles[strings.ToLower(strings.TrimSpace(name))]
	return role, known && role < 2
}

// role returns what a column of that name holds: source, target, weight, or a feature.
func (s *source) role(name string) (int, bool) {
	name = strings.TrimSpace(name)
	if feature := slices.Index(s.EdgeFeatures, name); feature >= 0 {
		return roles + feature, true
	}
	if s.EdgeWeights != "" && name == s.EdgeWeights {
		return 2, true
	}
	r, known := columnRoles[strings.ToLower(name)]
	return r, known && (r < 2 || s.EdgeWeights == "")
}

// numbers are the settings of columns that hold numbers, with the names that they ask for.
func (s *source) numbers() (asked [][2]string) {
	if s.EdgeWeights != "" {
		asked = append(asked, [2]string{"edge-weights", s.EdgeWeights})
	}
	for _, name := range s.EdgeFeatures {
		asked = append(asked, [2]string{"edge-features", name})
	}
	return asked
}

// isHeader reports whether the first line names the columns. Where vertices have names as well, only known
// words do, or a third column that is no weight.
func (s *source) isHeader(fields []table.Column) bool {
	switch {
	case len(fields) < 2:
		return false
	case fields[0].Name == "":
		return true
	case s.names == nil:
		return !numeric(fields[0].Name) && !numeric(fields[1].Name)
	case len(fields) > 2 && !numeric(fields[2].Name):
		return true
	}
	return !slices.ContainsFunc(fields[:2], func(c table.Column) bool {
		_, known := columnRoles[strings.ToLower(strings.TrimSpace(c.Name))]
		return !known || numeric(c.Name)
	})
}

func numeric(field string) bool {
	_, err := strconv.ParseFloat(field, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// choose finds the columns of source, target, weight, if there is one, and features. Of text it returns none
// where the first line names no columns.
func (s *source) choose(columns []table.Column) (order []int, err error) {
	text := len(columns) > 0 && columns[0].Kind == table.Any
	switch {
	case text && !s.isHeader(columns):
		if asked := s.numbers(); asked != nil {
			err = fmt.Errorf("there is no header, and %s needs the names of columns: put a line before "+
				"with a name for each column", refusal.Setting(asked[0][0]))
		}
		return nil, err
	case text && columns[0].Name == "":
		return nil, refusal.Columns.Errorf("the first column has no name, as pandas writes its index: " +
			"write it with index=False")
	}
	s.header = true
	order = slices.Repeat([]int{-1}, roles+len(s.EdgeFeatures))
	var names, quoted []string
	for k, c := range columns {
		names, quoted = append(names, c.Name), append(quoted, fmt.Sprintf("%.40q", c.Name))
		role, known := s.role(c.Name)
		switch {
		case !known && !text:
			s.unread = append(s.unread, c.Name)
			continue
		case !known && k < 2 && s.names == nil:
			return nil, refusal.Columns.Errorf("%.40q is not the name of a known column: call the columns "+
				"source, target and weight, and drop the others; if this line is an edge between names, "+
				"give {string-ids}",
				c.Name)
		case !known:
			return nil, refusal.Columns.Errorf("%.40q is not the name of a known column: drop the column, "+
				"call it source, target or weight, or read it with {edge-weights} or {edge-features}", c.Name)
		case order[role] >= 0:
			return nil, fmt.Errorf("columns %.40q and %.40q have one meaning: rename one",
				columns[order[role]].Name, c.Name)
		case !fits(c.Kind, role):
			return nil, fmt.Errorf("column %q does not hold one %s per row",
				c.Name, []string{"id", "id", "number"}[min(role, 2)])
		}
		order[role] = k
	}
	listed := strings.Join(quoted[:min(len(quoted), 20)], ", ")
	switch {
	case order[0] >= 0 && order[1] >= 0:
	case text:
		return nil, refusal.Columns.Errorf("the header names no %s: name the columns source and target",
			[]string{"source", "target"}[min(1, order[0]+1)])
	default:
		return nil, refusal.Columns.Errorf("has columns %s: name those of the edges src and dst (or source "+
			"and target, or 0 and 1)", listed)
	}
	for _, asked := range s.numbers() {
		asks, name := refusal.Setting(asked[0]), asked[1]
		switch role, _ := s.role(name); {
		case order[role] >= 0:
		case text:
			return nil, fmt.Errorf("the header names no %.40q, which %s asks for: it names %q",
				name, asks, names)
		default:
			return nil, fmt.Errorf("has columns %s, and none is %.40q, which %s asks for", listed, name, asks)
		}
	}
	if order[2] < 0 {
		order = slices.Delete(order, 2, 3)
	}
	s.columns = len(order)
	return order, nil
}

// fits reports whether a column of Parquet can be an end of an edge, or a weight or feature.
func fits(kind table.Kind, role int) bool {
	switch kind {
	case table.Words:
		return role < 2
	case table.Reals:
		return role >= 2
	}
	return kind < table.Truths
}

// checkFirst refuses a first edge whose two names do not come back: among names, a header of unknown words
// looks like that.
func (l *list) checkFirst() error {
	const fewest = 3 // of fewer edges nothing can be said
	if l.edges < fewest || l.again {
		return nil
	}
	return refusal.Columns.Of(l.firstAt.Errorf("%.40q and %.40q do not come back, as in a header: name the "+
		"columns source and target, or put a line with these words before it if it is an edge",
		l.names.Names[l.first[0]], l.names.Names[l.first[1]]))
}
