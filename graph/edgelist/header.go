package edgelist

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"weft/internal/refusal"
)

// columnRoles are the columns that are read, by their names in lower case: source, target, weight.
var columnRoles = map[string]int{
	"source": 0, "src": 0, "from": 0, "u": 0, "fromnodeid": 0, "node1": 0, "node_1": 0, "id1": 0, "id_1": 0, "source_id": 0, "src_id": 0,
	"target": 1, "dst": 1, "to": 1, "v": 1, "tonodeid": 1, "node2": 1, "node_2": 1, "id2": 1, "id_2": 1, "target_id": 1, "dst_id": 1,
	"dest": 1, "destination": 1, "0": 0, "1": 1, "weight": 2,
}

// roles is the number of columns that are found by their names: source, target, weight.
const roles = 3

// role returns what a column of that name holds.
func role(name []byte) (int, bool) {
	r, known := columnRoles[strings.ToLower(strings.TrimSpace(string(name)))]
	return r, known
}

// isHeader reports whether the first line names the columns. Where vertices have names as well, only known
// words do, or a third column that is no weight.
func (l *list) isHeader(fields [][]byte) bool {
	switch {
	case len(fields) < 2:
		return false
	case len(fields[0]) == 0:
		return true
	case l.names == nil:
		return !numeric(fields[0]) && !numeric(fields[1])
	case len(fields) > 2 && !numeric(fields[2]):
		return true
	}
	return !slices.ContainsFunc(fields[:2], func(name []byte) bool {
		_, known := role(name)
		return !known || numeric(name)
	})
}

// header reads from a line that names the columns where source, target, weight, if there is one, and features
// stand.
func (l *list) header(names [][]byte, number int64) (order []int, err error) {
	if len(names[0]) == 0 {
		return nil, l.refuse(number, "the first column has no name, as pandas writes its index: write it with index=False")
	}
	order = slices.Repeat([]int{-1}, roles+len(l.features))
	for column, name := range names {
		r, known := role(name)
		if feature := slices.Index(l.features, strings.TrimSpace(string(name))); feature >= 0 {
			r, known = roles+feature, true
		}
		switch {
		case !known && column < 2 && l.names == nil:
			return nil, l.refuse(number, "%.40q is not a vertex id, nor the name of a column: name the columns source, target and "+
				"weight, drop others, or give %s if ids are names", name, refusal.Setting("string-ids"))
		case !known:
			return nil, l.refuse(number, "%.40q is not the name of a column: drop that column, name it source, target or weight, or read it with %s",
				name, refusal.Setting("edge-features"))
		case order[r] >= 0:
			return nil, l.refuse(number, "columns %.40q and %.40q have one meaning: rename one", names[order[r]], name)
		}
		order[r] = column
	}
	if order[0] < 0 || order[1] < 0 {
		return nil, l.refuse(number, "the header names no %s: name the columns source and target", []string{"source", "target"}[min(1, order[0]+1)])
	}
	for i, name := range l.features {
		if order[roles+i] < 0 {
			return nil, l.refuse(number, "the header names no %.40q, which %s asks for: it names %q", name, refusal.Setting("edge-features"), names)
		}
	}
	if order[2] < 0 {
		order = slices.Delete(order, 2, 3)
	}
	return order, nil
}

// checkFirst refuses a first edge whose two names do not come back: among names, a header of unknown words
// looks like that.
func (l *list) checkFirst(number int64) error {
	const fewest = 3 // of fewer edges nothing can be said
	if l.edges < fewest || l.again {
		return nil
	}
	return l.refuse(number, "%.40q and %.40q do not come back, as in a header: name the columns source and target, or put a line "+
		"with these words before it if it is an edge", l.names.Names[l.first[0]], l.names.Names[l.first[1]])
}

func numeric(field []byte) bool {
	_, err := strconv.ParseFloat(string(field), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}
