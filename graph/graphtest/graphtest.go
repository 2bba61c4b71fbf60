// Package graphtest changes graphs, and writes files of them, in the tests of other packages.
package graphtest

import (
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/require"
)

// Permuted returns a graph of one type and relation whose vertex v is called newID[v]. Parallel edges keep
// their order.
func Permuted(t testing.TB, g *graph.Graph, newID []int32) *graph.Graph {
	t.Helper()
	oldID := make([]int32, len(newID))
	for v, id := range newID {
		oldID[id] = int32(v)
	}
	e := g.Relations[0].Edges()
	e.Source = slices.Clone(e.Source)
	for k := range e.Source {
		e.Source[k], e.Target[k] = newID[e.Source[k]], newID[e.Target[k]]
	}
	relation, err := graph.NewRelation(len(newID), e)
	require.NoError(t, err)
	from := &g.Relations[0]
	relation.Source, relation.Name, relation.Target = from.Source, from.Name, from.Target
	permuted := *g.Copy()
	permuted.Relations, permuted.Types[0].Splits = []graph.Relation{relation}, nil
	permuted.Types[0].Features = g.Types[0].Features.Rows(oldID)
	l := &permuted.Types[0].Labels
	l.Class, l.Multi, l.Values = pick(l.Class, 1, oldID), pick(l.Multi, l.Classes, oldID),
		pick(l.Values, l.Columns, oldID)
	permuted.Types[0].GraphOf = pick(g.Types[0].GraphOf, 1, oldID)
	permuted.Types[0].Names = pick(g.Types[0].Names, 1, oldID)
	for _, s := range g.Types[0].Splits {
		for _, part := range s.Parts() {
			ids := make([]int64, 0, len(*part))
			for _, v := range *part {
				ids = append(ids, int64(newID[v]))
			}
			slices.Sort(ids)
			*part = ids
		}
		permuted.Types[0].Splits = append(permuted.Types[0].Splits, s)
	}
	return &permuted
}

// pick returns the rows ids of a row-major matrix; a nil matrix stays nil.
func pick[T any](matrix []T, columns int, ids []int32) (picked []T) {
	for _, v := range ids {
		if matrix != nil {
			picked = append(picked, matrix[int(v)*columns:(int(v)+1)*columns]...)
		}
	}
	return picked
}
