package tables

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// These functions choose the columns of a list of edges to read, and find their kinds.

// setting returns the setting that asks for the i-th column of numbers.
func (l *edgeList) setting(i int) string {
	if l.weighted && i == 0 {
		return "edge-weights"
	}
	return "edge-features"
}

// wayTo returns the way out if a list lacks a column that the graph's edges have. Only folders NAME=VALUE
// below the named folder give columns: a list that lies in one, or is one, does not.
func (l *edgeList) wayTo(name, setting string) string {
	for path := filepath.Clean(l.Path); path != "." && path != filepath.Dir(path); path = filepath.Dir(path) {
		if folder := filepath.Base(path); strings.HasPrefix(folder, name+"=") {
			return fmt.Sprintf("; folders give it below the one that is named: name %s, or a new folder with %s alone in it",
				filepath.Dir(path), folder)
		}
	}
	return fmt.Sprintf("; name it with --%s where it is called otherwise, or put the file into a folder %s=VALUE, and "+
		"name the folder above", setting, name)
}

// choose finds the columns of source, target and numbers. It returns none if the file is text whose first
// line is an edge.
func (l *edgeList) choose(all []table.Column) (order []int, err error) {
	l.header, l.order, l.leftOut, l.labelled = namesOf(all), nil, nil, nil
	if l.implied { // an earlier pass implied the weight
		l.list, l.weighted, l.implied = l.list[1:], false, false
	}
	text := len(all) > 0 && all[0].Kind == table.Any
	if text {
		edge, err := l.isEdge(all)
		if edge && l.label != "" && (!l.optional || l.by.Column != "") {
			return nil, fmt.Errorf("--edge-label %s names a column, and the first line names none: put a line with "+
				"the names of the columns before it", l.label)
		}
		if edge && len(all) > len(l.ends) {
			l.imply(weightName)
		}
		if edge || err != nil {
			return nil, err
		}
	}
	for k := range l.ends {
		at, err := l.endAt(k)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			idColumns, err := l.holding()
			if err != nil {
				return nil, err
			}
			l.found = idColumns != nil
			if !l.found {
				return nil, l.unnamed(text)
			}
			at = idColumns[k]
		}
		order = append(order, at)
	}
	if err := l.unique(order); err != nil {
		return nil, err
	}
	if order[0] == order[1] {
		return nil, refusal.Columns.Errorf("column %s would be both ends of an edge: name two of %s with "+
			"--source and --target", l.header[order[0]], arrays.Listed(l.header))
	}
	if err := l.weight(order); err != nil {
		return nil, err
	}
	for i := range l.list {
		name := l.list[i].Name
		at := slices.Index(l.header, name)
		if at >= 0 && slices.Contains(order[2:], at) {
			return nil, refusal.Columns.Errorf("the column %q is given twice: name each column once", name)
		}
		if at < 0 || slices.Contains(order, at) {
			asks, way := "--"+l.setting(i)+" asks for", ""
			if l.ofGraph[name] {
				asks, way = "the edges of the graph have", l.wayTo(name, l.setting(i))
			}
			return nil, fmt.Errorf("there is no further column %s, which %s: there are %s%s", name, asks,
				arrays.Listed(l.header), way)
		}
		order = append(order, at)
	}
	if l.label != "" {
		if order, err = l.by.choose(l.header, order); err != nil {
			return nil, err
		}
	}
	if order, err = l.chooseLabels(order); err != nil {
		return nil, err
	}
	if err := l.unique(order); err != nil {
		return nil, err
	}
	for _, k := range order {
		if all[k].Kind == table.Nested {
			return nil, fmt.Errorf("column %s has a Parquet type that is not read, as of lists, structures and "+
				"bytes: write it as text or numbers, or name another column", l.header[k])
		}
	}
	for k, name := range l.header {
		if !slices.Contains(order, k) {
			l.leftOut = append(l.leftOut, name)
		}
	}
	l.order = order
	if l.kinds = nil; l.oneType && areKinds(l.endColumns()) {
		l.kinds = &kinds{}
	}
	return order, nil
}

// unique refuses a column of which another one has the name.
func (l *edgeList) unique(order []int) error {
	for _, k := range order {
		if slices.Contains(l.header[:k], l.header[k]) || slices.Contains(l.header[k+1:], l.header[k]) {
			return arrays.ErrTwoColumns(l.header[k])
		}
	}
	return nil
}

// weight takes the column that is named weight as the weights of a list alone, unless settings say otherwise.
func (l *edgeList) weight(ends []int) error {
	if l.alone == nil || l.weighted {
		return nil
	}
	at, err := l.only("edge-weights", func(name string) bool {
		return strings.EqualFold(strings.TrimSpace(name), weightName) &&
			!slices.ContainsFunc(l.list, func(c columns.Column) bool { return c.Name == name })
	})
	if err == nil && at >= 0 && !slices.Contains(ends, at) {
		l.imply(l.header[at])
	}
	return err
}

// imply takes a column of weights that was not asked for.
func (l *edgeList) imply(name string) {
	l.implied, l.weighted = true, true
	l.list = slices.Concat(columns.List{{Name: name, Kind: columns.Number}}, l.list)
}

// edgeColumns are the columns of a list of edges that was read before.
type edgeColumns struct {
	ends     [2]string
	weight   columns.List // none, or one
	features columns.List
	label    string // the column, or several between commas; "": there is none
	values   bool   // labels are values
	by       splitBy
}

// columnsOf returns the columns of the list of a relation.
func columnsOf(r *graph.Relation) edgeColumns {
	c := edgeColumns{ends: r.EndColumns, features: r.NumberColumns}
	if r.HasLabels() {
		c.label, c.values, c.by = r.Labels.Column, r.Labels.Continuous(), splitByOf(r)
	}
	if c.features != nil && r.Weights != nil {
		c.weight, c.features = c.features[:1], c.features[1:]
	}
	return c
}

// know says which columns another list of the relation had. This list's weights and features come from the
// same columns. If settings name others, these have the same kinds.
func (l *edgeList) know(was edgeColumns) {
	for k := range l.ends {
		l.ends[k].known = was.ends[k]
	}
	weight, features := was.weight, was.features
	if l.weighted {
		weight, l.list = l.list[:1], l.list[1:]
	}
	for i := range l.list {
		if len(l.list) == len(features) {
			name := l.list[i].Name
			l.list[i] = features[i]
			l.list[i].Name = name
		}
	}
	l.ofGraph = map[string]bool{}
	for _, c := range was.weight {
		l.ofGraph[c.Name] = !l.weighted
	}
	if len(l.list) > 0 {
		features = l.list
	} else {
		for _, c := range features {
			l.ofGraph[c.Name] = true
		}
	}
	l.list, l.weighted = slices.Concat(weight, features), len(weight) > 0
}

// pass reads columns of the list, which some chooses by their numbers in its header.
func (l *edgeList) pass(some func(all []table.Column) []int, do func(*table.Row) error) error {
	return eachRow(l.Table, func(all []table.Column) ([]int, error) {
		if _, err := l.choose(all); err != nil {
			return nil, err
		}
		return append(some(all), l.order[0]), nil // at least one
	}, do)
}

// profiles finds out what columns hold, which some chooses.
func (l *edgeList) profiles(some func(all []table.Column) []int) (made []*columns.Profile, err error) {
	err = l.pass(func(all []table.Column) []int {
		order := some(all)
		for _, k := range order {
			made = append(made, columns.NewProfile(l.header[k], columns.Choices{}))
		}
		return order
	}, func(r *table.Row) error {
		for i, p := range made {
			field := r.Field(i)
			p.Add(field, r.Decimal(field))
		}
		return nil
	})
	return made, err
}

// decide finds the open kinds of features at the first row. A column has dates or truth values if all rows of
// the list with a value have them. All others have numbers; reading refuses any other value.
func (l *edgeList) decide(first *table.Row) error {
	others := false
	var open, order []int // in the list, and in the header
	for i := range l.list {
		if c, k := &l.list[i], len(l.ends)+i; c.Kind == "" {
			_, number := table.Number(first.Decimal(first.Field(k)))
			c.Kind, others = columns.Number, others || !number
			open, order = append(open, i), append(order, l.order[k])
		}
	}
	if !others {
		return nil
	}
	profiles, err := l.profiles(func([]table.Column) []int { return order })
	if err != nil {
		return err
	}
	for at, i := range open {
		made, note := l.column(profiles[at])
		if made.Kind == columns.Date || made.Kind == columns.Boolean {
			l.list[i].Kind, l.list[i].Order = made.Kind, made.Order
			l.tell(&l.notes, made.Name, note)
		}
	}
	return nil
}

// endColumns returns the names of the columns of the ends, in a list with a header.
func (l *edgeList) endColumns() [2]string {
	return [2]string{l.header[l.order[0]], l.header[l.order[1]]}
}
