package appended

import (
	"slices"

	"weft/graph"
	"weft/internal/refusal"
)

// Until is the Addition that turns the graph into a later one: the later graph's further vertices, by type,
// and its further edges. Features have the form of appended ones. It has no labels and no tables. It refuses
// graphs that differ otherwise. It reads all edges and features of both.
func (b *Base) Until(later *graph.Graph) (*Addition, error) {
	before := b.Graph
	was, is := before.Types, later.Types
	if len(was) != len(is) || len(before.Relations) != len(later.Relations) {
		return nil, refusal.Errorf("they have other vertex types or relations")
	}
	a := &Addition{}
	for i := range was {
		rows, err := rowsUntil(&was[i], &is[i])
		if err != nil {
			return nil, err
		}
		if arranged := b.arrangement(i); arranged != nil {
			var values []float32
			for row := range slices.Chunk(rows.Features.Dense, rows.Features.Columns) {
				values = append(values, arranged.Row(nil, row)...)
			}
			rows.Features = graph.Features{Columns: b.Width(i), Dense: values}
		}
		a.Types = append(a.Types, rows)
	}
	for i := range before.Relations {
		edges, err := edgesUntil(&before.Relations[i], &later.Relations[i])
		if err != nil {
			return nil, err
		}
		a.Edges = append(a.Edges, edges)
	}
	return a, nil
}

// rowsUntil copies the rows that follow those that the type had.
func rowsUntil(was, is *graph.VertexType) (r NewVertices, err error) {
	r = NewVertices{Count: is.Count - was.Count, Features: graph.Features{Columns: is.Features.Columns}}
	old, now, f := &was.Features, &is.Features, &r.Features
	if r.Count < 0 || was.Name() != is.Name() || !begins(was.Names, is.Names, &r.Names) {
		return r, refusal.Errorf("the vertices of %s are not those of before and others behind them",
			was.Name())
	}
	if old.Columns != now.Columns || old.Sparse() != now.Sparse() ||
		!begins(old.Dense, now.Dense, &f.Dense) ||
		!begins(old.Indptr, now.Indptr, &f.Indptr) || !begins(old.Indices, now.Indices, &f.Indices) ||
		!begins(old.Data, now.Data, &f.Data) {
		return r, refusal.Errorf("the features of %s have changed", was.Name())
	}
	if now.Sparse() {
		f.Indptr = append([]int64{0}, f.Indptr...)
		for k := range f.Indptr[1:] {
			f.Indptr[k+1] -= int64(len(old.Indices))
		}
	}
	return r, nil
}

// begins reports whether a list begins with another, and copies the rest.
func begins[T comparable](with, list []T, rest *[]T) bool {
	if len(list) < len(with) || !slices.Equal(with, list[:len(with)]) {
		return false
	}
	*rest = slices.Clone(list[len(with):])
	return true
}

// edgesUntil are the edges that a relation has in addition to those that it had. Of parallel edges the new
// ones come last.
func edgesUntil(was, is *graph.Relation) (e graph.Edges, err error) {
	if was.FullName() != is.FullName() || was.Features.Columns != is.Features.Columns ||
		(was.Weights == nil) != (is.Weights == nil) {
		return e, refusal.Errorf("the edges of %s have other names, weights or features", was.FullName())
	}
	e.FeatureColumns = is.Features.Columns
	n := int64(e.FeatureColumns)
	same := func(k, j int64) bool {
		return was.Sources[k] == is.Sources[j] && (is.Weights == nil || was.Weights[k] == is.Weights[j]) &&
			slices.Equal(was.Features.Dense[k*n:(k+1)*n], is.Features.Dense[j*n:(j+1)*n])
	}
	for v := range len(is.Indptr) - 1 {
		k, end, parallel := int64(0), int64(0), int32(-1)
		if v < len(was.Indptr)-1 {
			k, end = was.Indptr[v], was.Indptr[v+1]
		}
		for j := is.Indptr[v]; j < is.Indptr[v+1]; j++ {
			u := is.Sources[j]
			if k < end && u != parallel && same(k, j) {
				k++
				continue
			}
			parallel = u
			e.Source, e.Target = append(e.Source, u), append(e.Target, int32(v))
			if is.Weights != nil {
				e.Weights = append(e.Weights, is.Weights[j])
			}
			e.Features = append(e.Features, is.Features.Dense[j*n:(j+1)*n]...)
		}
		if k < end {
			return e, refusal.Errorf("the edges of %s into vertex %d are not those of before and others",
				was.FullName(), v)
		}
	}
	return e, nil
}
