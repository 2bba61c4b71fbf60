package streamed

import "weft/graph"

// Frame has the labels of the edges of a relation. Labels of its Edges is the row of each edge in Frame.
type Frame struct {
	// Frame has the labels by row: classes or values. It has the splits, too, as lists of rows, if each edge
	// has a row of its own. Its SplitBy describes a column whose values SplitBy of the Edges has.
	// Graph.Complete may set Frame.
	graph.Frame
	// Divide sets the splits of the edges. nil: Frame has them.
	Divide func(*graph.Frame) error

	taken []int64 // the rows of the edges in the order of the store, where Frame has splits
}

// TellLabelsApart renames labels that have the same column in several relations to RELATION:COLUMN. RELATION
// is SOURCE__NAME__TARGET if several relations have the name.
func (g *Graph) TellLabelsApart() {
	counts, named := map[string]int{}, map[[2]string]int{}
	each := func(do func(r *Relation, column *string)) {
		for i := range g.Relations {
			if r := &g.Relations[i]; r.Frame != nil {
				do(r, &r.Frame.Labels.Column)
			}
		}
	}
	each(func(r *Relation, column *string) {
		counts[*column]++
		named[[2]string{r.Name, *column}]++
	})
	each(func(r *Relation, column *string) {
		relation := r.Name
		if named[[2]string{r.Name, *column}] > 1 {
			typed := graph.Relation{Source: r.Source, Name: r.Name, Target: r.Target}
			relation = typed.FullName()
		}
		if counts[*column] > 1 {
			*column = relation + ":" + *column
		}
	})
}

// announced returns what is known without rows.
func (l *Frame) announced() graph.Frame {
	if l == nil {
		return graph.Frame{}
	}
	return graph.Frame{Labels: l.OfRows(nil), SplitBy: l.SplitBy.With(nil)}
}

// take gives edges of the relation their labels. Until then their classes are rows of Frame: so they came, as
// graph.Edges.Labels, and were sorted.
func (l *Frame) take(edges *graph.Frame) {
	if l == nil {
		return
	}
	rows := edges.Labels.Class
	if len(l.Splits) > 0 {
		l.taken = append(l.taken, rows...)
	}
	edges.Labels = l.OfRows(rows)
	if edges.SplitBy != nil {
		edges.SplitBy = l.SplitBy.With(edges.SplitBy.Values)
	}
}

// divides reports whether the edges have splits.
func (l *Frame) divides() bool { return l != nil && (l.Divide != nil || len(l.Splits) > 0) }

// divide sets the splits of all edges, which have been taken.
func (l *Frame) divide(edges *graph.Frame) error {
	edges.Splits = l.SplitsOfRows(l.taken)
	l.taken = nil
	if l.Divide == nil {
		return nil
	}
	return l.Divide(edges)
}
