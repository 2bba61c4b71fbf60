package streamed

import (
	"math"

	"weft/graph"
)

// EdgeLabels are the labels of the edges of a relation. The last of Edges.Columns has a Code for each edge:
// its place among the labels, −1 for an edge without a label. If Of.SplitBy is not nil, the column before has
// the Code of a place in its Values, −1 for an edge in no part.
type EdgeLabels struct {
	// Of has the labels by code: classes or values. It also has the splits, as lists of codes, if each edge
	// has a code of its own. Graph.Complete may set Of.
	Of graph.Frame
	// Divide sets the splits of the edges. nil: Of has them.
	Divide func(*graph.Frame) error

	taken []int64 // the codes of the edges in the order of the store, where Of has splits
}

// TellLabelsApart renames labels that have the same column in several relations to RELATION:COLUMN. RELATION
// is SOURCE__NAME__TARGET if several relations have the name.
func (g *Graph) TellLabelsApart() {
	counts, named := map[string]int{}, map[[2]string]int{}
	each := func(do func(r *Relation, column *string)) {
		for i := range g.Relations {
			if r := &g.Relations[i]; r.EdgeLabels != nil {
				do(r, &r.EdgeLabels.Of.Labels.Column)
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
			of := graph.Relation{Source: r.Source, Name: r.Name, Target: r.Target}
			relation = of.FullName()
		}
		if counts[*column] > 1 {
			*column = relation + ":" + *column
		}
	})
}

// MaxCode is the largest code of a label.
const MaxCode = math.MaxInt32&^(1<<23-1) - 2 // Code of it is finite

// Code returns the value of a code in a column of edges.
func Code(code int64) float32 { return math.Float32frombits(uint32(code + 1)) }

// CodeOf returns the code of a value.
func CodeOf(value float32) int64 { return int64(math.Float32bits(value)) - 1 }

// announced returns what is known without rows.
func (l *EdgeLabels) announced() graph.Frame {
	if l == nil {
		return graph.Frame{}
	}
	return l.of(nil, nil)
}

// codes returns how many columns of codes there are.
func (l *EdgeLabels) codes() int {
	switch {
	case l == nil:
		return 0
	case l.Of.SplitBy != nil:
		return 2
	}
	return 1
}

// of returns the labels of edges, without splits, from the codes of their labels and of their parts.
func (l *EdgeLabels) of(codes, by []int64) graph.Frame {
	return graph.Frame{Labels: l.Of.OfRows(codes), SplitBy: l.Of.SplitBy.OfRows(by)}
}

// take removes the columns of codes from the edges' features, and gives the edges their labels.
func (l *EdgeLabels) take(r *graph.Relation) {
	if l == nil {
		return
	}
	all, columns := r.Features.Columns, r.Features.Columns-l.codes()
	edges := len(r.Sources)
	codes, by, features := make([]int64, edges), make([]int64, edges), make([]float32, 0, edges*columns)
	for k := range edges {
		row := r.Features.Dense[k*all : (k+1)*all]
		features = append(features, row[:columns]...)
		by[k] = CodeOf(row[columns])
		codes[k] = CodeOf(row[all-1])
	}
	if len(l.Of.Splits) > 0 {
		l.taken = append(l.taken, codes...)
	}
	r.Frame = l.of(codes, by)
	if r.Features.Columns = columns; columns > 0 {
		r.Features.Dense = features
	}
}

// divides reports whether the edges have splits.
func (l *EdgeLabels) divides() bool { return l != nil && (l.Divide != nil || len(l.Of.Splits) > 0) }

// divide sets the splits of all edges, which have been taken.
func (l *EdgeLabels) divide(of *graph.Frame) error {
	of.Splits = l.Of.SplitsOfRows(l.taken)
	l.taken = nil
	if l.Divide == nil {
		return nil
	}
	return l.Divide(of)
}
