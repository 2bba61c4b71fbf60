package graph

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
