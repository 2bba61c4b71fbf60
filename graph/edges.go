package graph

import (
	"fmt"
	"slices"

	"weft/internal/memory"
)

// Edges is an edge list: edge k goes from Source[k] to Target[k], with Weight[k] and the k-th row of Features where present.
type Edges struct {
	Source, Target []int32
	Weights        []float32 // nil when unweighted
	Features       []float32 // row-major E × FeatureColumns, nil when there is none
	FeatureColumns int
}

// Len is the number of edges.
func (e *Edges) Len() int { return len(e.Source) }

// NewRelation sorts an edge list over vertices 0…vertices−1 into in-neighbour lists: by target, then by
// source, duplicates in the order they were given. An end outside the range is an error that names the edge;
// what exceeds the memory is refused.
func NewRelation(vertices int, e Edges) (Relation, error) {
	n := len(e.Source)
	if len(e.Target) != n || (e.Weights != nil && len(e.Weights) != n) || len(e.Features) != n*e.FeatureColumns {
		return Relation{}, fmt.Errorf("%d sources, %d targets, %d weights and %d edge feature values do not agree",
			n, len(e.Target), len(e.Weights), len(e.Features))
	}
	for k := range n {
		if u, v := e.Source[k], e.Target[k]; u < 0 || int(u) >= vertices || v < 0 || int(v) >= vertices {
			return Relation{}, fmt.Errorf("edge %d (%d→%d) leaves the range of %d vertices", k, u, v, vertices)
		}
	}
	if err := memory.Need(sortBytes(vertices, &e)); err != nil {
		return Relation{}, err
	}
	// Two stable counting sorts: by source, then by target.
	bySource := countingOrder(vertices, e.Source, nil)
	order := countingOrder(vertices, e.Target, bySource)
	r := Relation{Indptr: make([]int64, vertices+1), Sources: make([]int32, n), EdgeColumns: e.FeatureColumns}
	for _, v := range e.Target {
		r.Indptr[v+1]++
	}
	for v := range vertices {
		r.Indptr[v+1] += r.Indptr[v]
	}
	if e.Weights != nil {
		r.Weights = make([]float32, n)
	}
	if e.FeatureColumns > 0 {
		r.EdgeFeatures = make([]float32, 0, n*e.FeatureColumns)
	}
	for k, from := range order {
		r.Sources[k] = e.Source[from]
		if e.Weights != nil {
			r.Weights[k] = e.Weights[from]
		}
		if e.FeatureColumns > 0 {
			f := from * e.FeatureColumns
			r.EdgeFeatures = append(r.EdgeFeatures, e.Features[f:f+e.FeatureColumns]...)
		}
	}
	return r, nil
}

// sortBytes is what NewRelation takes at most, beside its argument: two orders and one's counters, or one and
// the result.
func sortBytes(vertices int, e *Edges) int64 {
	const order, counter = 8, 8
	return 2*order*int64(e.Len()) + counter*int64(vertices+1) + 4*int64(len(e.Weights)) + 4*int64(len(e.Features))
}

// countingOrder returns the positions 0…len(key)−1, taken in the order given by previous (nil: ascending), stably sorted by key.
func countingOrder(keys int, key []int32, previous []int) []int {
	next := make([]int, keys+1)
	for _, k := range key {
		next[k+1]++
	}
	for k := range keys {
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
		Features: r.EdgeFeatures, FeatureColumns: r.EdgeColumns,
	}
	for v := range len(r.Indptr) - 1 {
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			e.Target[k] = int32(v)
		}
	}
	return e
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

// sorted reports whether every row's sources ascend.
func (r *Relation) sorted() bool {
	for v := range len(r.Indptr) - 1 {
		if !slices.IsSorted(r.Sources[r.Indptr[v]:r.Indptr[v+1]]) {
			return false
		}
	}
	return true
}
