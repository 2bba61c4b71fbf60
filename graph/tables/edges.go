package tables

import (
	"fmt"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// edgeList is a list of edges, the source of a relation.
type edgeList struct {
	name string
	frame
	ends     [2]end // source, target
	weighted bool
	implied  bool // no setting asked for the weight
	tables   []*vertexTable
	oneType  bool               // both ends are of the only type; no table of another type is known
	label    string             // the column of labels, or several between commas; empty: there is none
	optional bool               // the list may lack it
	values   bool               // whole numbers are values, as in an earlier list
	by       splitBy            // column that divides the labelled edges
	alone    *alone             // the vertices if there is no table; nil: there is a table
	ofGraph  map[string]bool    // columns of numbers of the graph's edges that no setting named here
	made     *streamed.Relation // that is told whether there are weights; nil: the list adds to a graph

	order []int // columns to read: source, target, numbers, label; nil: the first line is an edge
	// labelled are the columns of labels, from label, that the list has.
	labelled []string
	kinds    *kinds // kinds of the ends; nil: the names of columns say that there is one
	found    bool   // source and target are the two columns that hold ids
	leftOut  []string
	rounded  map[string]bool // columns for which a note says that float32 rounds
	known    int64           // ends of edges with a row in a table
	id       string          // the first end of an edge
	batch    graph.Edges
}

// end is an end of the edges of a list.
type end struct {
	asked string       // the column that a setting names; empty: one with a known name
	known string       // the column in a list that was read before; empty: not known
	table *vertexTable // has the vertices of the ends; nil: the first edge tells
}

// edges returns the edges of the list.
func (l *edgeList) edges() streamed.Edges {
	e := streamed.Edges{
		Count: streamed.Unknown, Columns: l.features(), Weighted: l.weighted, Labelled: l.label != "",
		Divided: l.label != "" && l.by.Column != "", Each: l.each, Refuse: l.refuse,
	}
	if bytes, err := table.Size(l.Path); err == nil { // reading reports the error
		e.About = bytes
	}
	return e
}

// each implements streamed.Edges.Each.
func (l *edgeList) each(do func(graph.Edges) error) error {
	l.rows, l.known, l.batch = 0, 0, graph.Edges{FeatureColumns: l.features()}
	if l.alone != nil {
		l.alone.begin()
	}
	l.labels = labels{}
	flush := func() error {
		b := &l.batch
		if b.Len() == 0 {
			return nil
		}
		if l.kinds != nil {
			if err := l.kinds.add(b); err != nil {
				return err
			}
		}
		if l.made != nil {
			l.made.Weighted = l.weighted
		}
		err := do(*b)
		b.Source, b.Target, b.Weights, b.Features = b.Source[:0], b.Target[:0], b.Weights[:0], b.Features[:0]
		b.Labels, b.SplitBy = b.Labels[:0], b.SplitBy[:0]
		return err
	}
	input := l.Table
	input.Pipe = l.alone != nil // a list alone is read once, unless something is found out before
	err := eachRow(input, l.choose, func(r *table.Row) error {
		if err := l.add(r); err != nil {
			return err
		}
		const most = 1 << 13 // edges of a batch
		if l.batch.Len() < most {
			return nil
		}
		return flush()
	})
	switch {
	case err != nil:
		return err
	case l.rows == 0:
		return refusal.Errorf("%s: has no edge; give a list of edges, source and target", l.Path)
	case l.alone != nil:
		if err := l.alone.checkFirst(); err != nil {
			return err
		}
	case l.known == 0 && l.ends[0].table.ofGraph:
		return refusal.Errorf("%s: no end of an edge is the id of a vertex that the graph or a table has: "+
			"name the columns of the ends with --source and --target", l.Path)
	case l.known == 0:
		return l.foreign()
	}
	if err := l.checkOdd(); err != nil {
		return err
	}
	return flush()
}

// features is how many features an edge has.
func (l *edgeList) features() int {
	if l.weighted {
		return l.list[1:].Width()
	}
	return l.list.Width()
}

// foreign refuses a list if no end is an id of the tables.
func (l *edgeList) foreign() error {
	vertices, ids, has := l.ends[0].table, "", ""
	if known := vertices.alike(l.id); known != "" {
		return refusal.Errorf("%s: no end of an edge is an id of %s, which has %.40q where an end is %.40q: "+
			"write the ids in both files alike", l.Path, vertices.Path, known, l.id)
	}
	if len(vertices.ids.Names) > 0 {
		ids = fmt.Sprintf(", as ids are written like %.40q, and ends like %.40q", vertices.ids.Names[0], l.id)
	}
	if vertices.header != nil {
		has = "; " + vertices.described()
	}
	return refusal.Columns.Errorf("%s: no end of an edge is an id of %s%s: name the columns of the ids with "+
		"--id, and those of the ends with --source and --target%s", l.Path, vertices.Path, ids, has)
}

// refuse says of an error that it is about the edges.
func (l *edgeList) refuse(err error) error {
	if l.rows == 0 { // no edges have been read
		return refusal.In(l.Path, err)
	}
	return refusal.Errorf("%s: %s: %w", l.Path, arrays.Counted(l.rows, "edge"), err)
}
