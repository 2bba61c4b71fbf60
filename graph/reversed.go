package graph

import "slices"

// Reversed returns the relation with every edge reversed, weights included and edge features left out:
// row u, of so many sources, lists the out-neighbours of u, ascending. It has no names.
func (r *Relation) Reversed(vertices int) *Relation {
	out := &Relation{Indptr: make([]int64, vertices+2), Sources: make([]int32, len(r.Sources))}
	if r.Weights != nil {
		out.Weights = make([]float32, len(r.Weights))
	}
	// Indptr[u+1] is where the next out-neighbour of u goes, until it has come to the end of u's row.
	for _, u := range r.Sources {
		out.Indptr[u+2]++
	}
	for v := range vertices {
		out.Indptr[v+2] += out.Indptr[v+1]
	}
	for v := range r.rows() {
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			at := &out.Indptr[r.Sources[k]+1]
			out.Sources[*at] = int32(v)
			if r.Weights != nil {
				out.Weights[*at] = r.Weights[k]
			}
			*at++
		}
	}
	out.Indptr = out.Indptr[:vertices+1]
	return out
}

// featuresIn returns the edge features of r in the order of its edges in reversed, from r.Reversed; nil if r
// has none.
func (r *Relation) featuresIn(reversed *Relation) []float32 {
	if r.Features.Dense == nil {
		return nil
	}
	columns := int64(r.Features.Columns)
	next := slices.Clone(reversed.Indptr)
	features := make([]float32, len(r.Features.Dense))
	for k, u := range r.Sources {
		copy(features[next[u]*columns:], r.Features.Dense[int64(k)*columns:int64(k+1)*columns])
		next[u]++
	}
	return features
}
