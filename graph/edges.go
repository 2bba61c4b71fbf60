package graph

import (
	"fmt"
	"sort"

	"weft/internal/memory"
)

// Edges is an edge list: edge k goes from Source[k] to Target[k], with Weight[k] and the k-th row of Features
// where present.
type Edges struct {
	Source, Target []int32
	Weights        []float32 // nil when unweighted
	Features       []float32 // row-major E × FeatureColumns, nil when there is none
	FeatureColumns int
	// Labels are the classes of the edges; of a streamed.Graph the rows of their labels in a streamed.Frame.
	// −1: none; nil: not read.
	Labels  []int32
	SplitBy []float64 // value of each edge, of Frame.SplitBy; nil: no column divides them
}

// Len returns the number of edges.
func (e *Edges) Len() int { return len(e.Source) }

// Pairs returns the ends of the edges, source and target in turn.
func (e *Edges) Pairs() []int32 {
	ids := make([]int32, 0, 2*e.Len())
	for k, source := range e.Source {
		ids = append(ids, source, e.Target[k])
	}
	return ids
}

// Append appends edge k of from, which has as many features.
func (e *Edges) Append(from *Edges, k int) {
	e.Source, e.Target = append(e.Source, from.Source[k]), append(e.Target, from.Target[k])
	if from.Weights != nil {
		e.Weights = append(e.Weights, from.Weights[k])
	}
	n := from.FeatureColumns
	e.Features = append(e.Features, from.Features[k*n:(k+1)*n]...)
}

// CheckEnds refuses an end outside the range of sources or targets. first is the number of the first edge, if
// e is a part of a list.
func (e *Edges) CheckEnds(first int64, sources, targets int) error {
	for k := range e.Source {
		if u, v := e.Source[k], e.Target[k]; u < 0 || int(u) >= sources || v < 0 || int(v) >= targets {
			limit := fmt.Sprint(sources)
			if sources != targets {
				limit = fmt.Sprintf("%d to %d", sources, targets)
			}
			return fmt.Errorf("edge %d (%d→%d) leaves the range of %s vertices, whose numbers begin at 0",
				first+int64(k), u, v, limit)
		}
	}
	return nil
}

// NewRelation sorts an edge list over vertices 0…vertices−1 into in-neighbour lists: by target, then by
// source, and duplicates in the order in which they were given. An end outside the range is an error that
// names the edge. NewRelation refuses lists for which there is no memory.
func NewRelation(vertices int, e Edges) (Relation, error) {
	return NewBipartite(vertices, vertices, e)
}

// NewBipartite makes the in-neighbour lists of edges from sources to targets of two types. It sorts and
// refuses as NewRelation does.
func NewBipartite(sources, targets int, e Edges) (Relation, error) {
	n := len(e.Source)
	if len(e.Target) != n || (e.Weights != nil && len(e.Weights) != n) ||
		len(e.Features) != n*e.FeatureColumns || (e.Labels != nil && len(e.Labels) != n) ||
		(e.SplitBy != nil && len(e.SplitBy) != n) {
		return Relation{}, fmt.Errorf("%d sources, %d targets, %d weights, %d edge feature values, %d labels and %d "+
			"values that divide do not agree",
			n, len(e.Target), len(e.Weights), len(e.Features), len(e.Labels), len(e.SplitBy))
	}
	if err := e.CheckEnds(0, sources, targets); err != nil {
		return Relation{}, err
	}
	const order, bound, source = 8, 8, 4
	if err := memory.Need(2*order*int64(n) + bound*int64(max(sources, targets)+1)); err != nil {
		return Relation{}, err
	}
	// Two stable counting sorts: by source, then by target.
	next := make([]int64, max(sources, targets)+1)
	bySource := countingOrder(next[:sources+1], e.Source, nil)
	clear(next)
	next = next[: targets+1 : targets+1]
	byTarget := countingOrder(next, e.Target, bySource)
	copy(next[1:], next) // the edges into a vertex begin where those into the vertex before it end
	next[0] = 0
	// bySource is garbage now.
	values := 4*int64(len(e.Features)+len(e.Weights)) + 8*int64(len(e.Labels)+len(e.SplitBy))
	if err := memory.Need(source*int64(n) + values); err != nil {
		return Relation{}, err
	}
	r := Relation{
		Indptr: next, Sources: make([]int32, n), Frame: Frame{Features: Features{Columns: e.FeatureColumns}},
	}
	if e.Weights != nil {
		r.Weights = make([]float32, n)
	}
	if e.FeatureColumns > 0 {
		r.Features.Dense = make([]float32, 0, n*e.FeatureColumns)
	}
	if e.Labels != nil {
		r.Labels.Class = make([]int64, n)
	}
	if e.SplitBy != nil {
		r.SplitBy = &SplitBy{Values: make([]float64, n)}
	}
	for k, from := range byTarget {
		r.Sources[k] = e.Source[from]
		if e.Weights != nil {
			r.Weights[k] = e.Weights[from]
		}
		if e.FeatureColumns > 0 {
			f := from * e.FeatureColumns
			r.Features.Dense = append(r.Features.Dense, e.Features[f:f+e.FeatureColumns]...)
		}
		if e.Labels != nil {
			r.Labels.Class[k] = int64(e.Labels[from])
		}
		if e.SplitBy != nil {
			r.SplitBy.Values[k] = e.SplitBy[from]
		}
	}
	return r, nil
}

// countingOrder returns the positions 0…len(key)−1, taken in the order of previous (nil: ascending), stably
// sorted by key. At first next is zero, with an entry for each key and one more. Afterwards the entry of a
// key is where its positions end.
func countingOrder(next []int64, key []int32, previous []int) []int {
	for _, k := range key {
		next[k+1]++
	}
	for k := range len(next) - 1 {
		next[k+1] += next[k]
	}
	order := make([]int, len(key))
	place := func(i int) {
		k := key[i]
		order[next[k]] = i
		next[k]++
	}
	if previous == nil {
		for i := range key {
			place(i)
		}
	} else {
		for _, i := range previous {
			place(i)
		}
	}
	return order
}

// Edges lists the relation's edges in stored order.
func (r *Relation) Edges() Edges {
	e := Edges{
		Source: r.Sources, Target: make([]int32, len(r.Sources)), Weights: r.Weights,
		Features: r.Features.Dense, FeatureColumns: r.Features.Columns,
	}
	for v := range len(r.Indptr) - 1 {
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			e.Target[k] = int32(v)
		}
	}
	return e
}

// EdgesOf lists the edges with these numbers.
func (r *Relation) EdgesOf(numbers ...int64) *Edges {
	n := int64(r.Features.Columns)
	e := &Edges{FeatureColumns: r.Features.Columns}
	for _, k := range numbers {
		source, target := r.EndsOf(k)
		e.Source, e.Target = append(e.Source, source), append(e.Target, target)
		e.Features = append(e.Features, r.Features.Dense[k*n:(k+1)*n]...)
		if r.Weights != nil {
			e.Weights = append(e.Weights, r.Weights[k])
		}
	}
	return e
}

// EndsOf are the source and the target of an edge, by its number.
func (r *Relation) EndsOf(k int64) (source, target int32) {
	v := sort.Search(r.rows(), func(v int) bool { return r.Indptr[v+1] > k })
	return r.Sources[k], int32(v)
}

// duplicates counts the edges beyond the first between the same two vertices.
func (r *Relation) duplicates() int64 {
	n := int64(0)
	for v := range len(r.Indptr) - 1 {
		for k := r.Indptr[v] + 1; k < r.Indptr[v+1]; k++ {
			if r.Sources[k-1] == r.Sources[k] {
				n++
			}
		}
	}
	return n
}
