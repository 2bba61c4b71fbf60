package graph

import "strings"

// Target says which rows of a graph a task learns: those of a frame. Rows are also what is predicted,
// explained, measured and reported.
type Target struct {
	Kind   RowKind
	Number int // of the vertex type, or of the relation
}

// RowKind says what the rows of a frame are.
type RowKind uint8

// Rows are vertices of a type, or edges of a relation.
const (
	VertexRows RowKind = iota
	EdgeRows
)

// Noun is what texts call a row of that kind.
func (k RowKind) Noun() Noun {
	if k == EdgeRows {
		return EdgeNoun
	}
	return VertexNoun
}

// Target returns the edges with labels of that name (see HasLabel) or, if there are none, the vertices of the
// first type.
func (g *Graph) Target(edgeLabel string) Target {
	for i := range g.Relations {
		if g.Relations[i].HasLabel(edgeLabel) {
			return Target{EdgeRows, i}
		}
	}
	return Target{}
}

// Frame returns the frame that has the target's rows.
func (g *Graph) Frame(t Target) *Frame {
	if t.Kind == EdgeRows {
		return &g.Relations[t.Number].Frame
	}
	return &g.Types[t.Number].Frame
}

// Relation returns the relation whose edges are the target; nil: it is vertices.
func (g *Graph) Relation(t Target) *Relation {
	if t.Kind != EdgeRows {
		return nil
	}
	return &g.Relations[t.Number]
}

// Rows returns the number of the target's rows.
func (g *Graph) Rows(t Target) int {
	if t.Kind == EdgeRows {
		return len(g.Relations[t.Number].Sources)
	}
	return g.Types[t.Number].Count
}

// HasLabel reports whether the edges have the labels that asked names: COLUMN or, of one of several
// relations, RELATION:COLUMN or SOURCE__NAME__TARGET:COLUMN.
func (r *Relation) HasLabel(asked string) bool {
	return r.HasLabels() && NamesLabel(asked, r.Labels.Column, r.FullName())
}

// NamesLabel is HasLabel for labels of that column in a relation, given by its FullName; "": the name is
// unknown. In a graph without names any name may stand before the column: that of the relation's list is not
// kept.
func NamesLabel(asked, column, fullName string) bool {
	relation, after, qualified := strings.Cut(asked, ":")
	switch {
	case asked == column:
		return true
	case !qualified || after != column:
		return false
	}
	nameless := fullName == "" || fullName == (&Relation{}).FullName()
	return nameless || relation == fullName || strings.Contains(fullName, "__"+relation+"__")
}

// Noun is what texts call a row of a Frame.
type Noun struct{ One, Many string }

// The rows of vertex types and of relations.
var (
	VertexNoun = Noun{"vertex", "vertices"}
	EdgeNoun   = Noun{"edge", "edges"}
)

// A is one row, with its article.
func (n Noun) A() string {
	if n == EdgeNoun {
		return "an " + n.One
	}
	return "a " + n.One
}

// Noun is what texts call the rows of the labels: labels of edges have a Column.
func (l *Labels) Noun() Noun {
	if l.Column != "" {
		return EdgeNoun
	}
	return VertexNoun
}
