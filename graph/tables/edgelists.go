package tables

import (
	"slices"
	"strings"

	"weft/graph/columns"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// These functions find the lists of edges that options name, and the columns that settings ask for in each.

// edgeLists are the lists that the options name.
func (o *Options) edgeLists(all []*vertexTable) (lists []*edgeList, err error) {
	if columns := len(o.EdgeFeatures); (columns > 0 || o.EdgeWeights != "") && len(o.Edges) > 1 {
		return nil, refusal.Errorf("--edge-weights and --edge-features are columns of one list of edges, "+
			"and there are %d", len(o.Edges))
	}
	labelled, label, err := o.labelledList()
	if err != nil {
		return nil, err
	}
	var asked [2][]string
	for k, words := range [2][]string{o.Source, o.Target} {
		if asked[k], err = o.columnsOfEnds(endNames[k], words, all); err != nil {
			return nil, err
		}
	}
	tables := map[string]*vertexTable{}
	for _, t := range all {
		tables[t.name] = t
	}
	type edges struct {
		path string
		ends [2]end
	}
	alike := map[edges]string{} // the name of the list
	for i, argument := range o.Edges {
		l := &edgeList{
			tables: all, weighted: o.EdgeWeights != "", rounded: map[string]bool{},
			oneType: len(all) == 1 && o.Like == nil,
		}
		l.Table = table.Table{Progress: o.Progress, Separators: separators, Line: "a list of edges"}
		if i == labelled {
			l.label, l.by = label, splitBy{SplitBy: o.EdgeSplitBy}
		}
		l.name, l.Path = Named(argument)
		if l.weighted {
			l.list = columns.List{{Name: o.EdgeWeights, Kind: columns.Number}}
		}
		for _, name := range o.EdgeFeatures {
			l.list = append(l.list, columns.Column{Name: name})
		}
		for k := range l.ends {
			e := &l.ends[k]
			e.asked = asked[k][i]
			if len(all) == 1 {
				e.table = all[0]
			}
			before, after, ok := strings.Cut(e.asked, ":")
			if t := tables[before]; ok && t != nil {
				e.table, e.asked = t, after
			}
		}
		these := edges{l.Path, l.ends}
		if before, found := alike[these]; found && before != l.name {
			return nil, refusal.Errorf("%s: the relations %s and %s would be the same edges: name the columns of "+
				"each, as in --source %[3]s:COLUMN and --target %[3]s:COLUMN", l.Path, before, l.name)
		}
		alike[these] = l.name
		lists = append(lists, l)
	}
	return lists, nil
}

// labelledList returns the number of the list that EdgeLabel names, and its column; "": none.
func (o *Options) labelledList() (list int, column string, err error) {
	relation, column, ok := strings.Cut(o.EdgeLabel, ":")
	names := make([]string, len(o.Edges))
	for i, argument := range o.Edges {
		names[i], _ = Named(argument)
	}
	switch at := slices.Index(names, relation); {
	case ok && at >= 0:
		return at, column, nil
	case o.EdgeLabel != "" && len(o.Edges) > 1:
		return 0, "", refusal.Errorf("--edge-label %s: is a column of one of %d lists of edges; name its relation, "+
			"as in --edge-label %s:COLUMN", o.EdgeLabel, len(o.Edges), names[0])
	}
	return 0, o.EdgeLabel, nil
}

// columnsOfEnds returns the columns that --source or --target ask for in each list of edges; "": none. A word
// RELATION:COLUMN or RELATION:TYPE:COLUMN is for one list. Words without a relation are for lists without
// such a word.
func (o *Options) columnsOfEnds(setting string, words []string, all []*vertexTable) ([]string, error) {
	lists := map[string]int{}
	for i, argument := range slices.Backward(o.Edges) {
		name, _ := Named(argument)
		lists[name] = i
	}
	for _, t := range all {
		delete(lists, t.name)
	}
	asked := make([]string, len(o.Edges))
	var others []string
	for _, word := range words {
		relation, column, _ := strings.Cut(word, ":")
		switch i, own := lists[relation]; {
		case !own || column == "":
			others = append(others, word)
		case asked[i] != "":
			return nil, refusal.Errorf("--%s %s: the relation has %s already; give one column", setting, word,
				asked[i])
		default:
			asked[i] = column
		}
	}
	var without []int
	for i, column := range asked {
		if column == "" {
			without = append(without, i)
		}
	}
	if len(without) == 0 && others != nil {
		return nil, refusal.Errorf("--%s %s: each relation has a column of its own; leave it out", setting,
			others[0])
	}
	for k, i := range without {
		column, err := each(setting, others, k, len(without))
		if err != nil {
			return nil, err
		}
		asked[i] = column
	}
	return asked, nil
}
