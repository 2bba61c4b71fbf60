package appended

import (
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestUntil: the addition between a store and the one that Write has made of it is what was added.
func TestUntil(t *testing.T) {
	g, added := small(t)
	with, err := On(g).With(added)
	require.NoError(t, err)
	store := t.TempDir() + "/later"
	_, err = with.Write(store, "", nil)
	require.NoError(t, err)
	later, err := graph.Open(store)
	require.NoError(t, err)
	defer later.Close()
	got, err := On(g).Until(later)
	require.NoError(t, err)
	require.Len(t, got.Types, len(added.Types))
	for i, want := range added.Types {
		assert.Equal(t, want.Count, got.Types[i].Count)
		assert.Equal(t, want.Names, got.Types[i].Names)
		assert.Equal(t, want.Features.Dense, got.Types[i].Features.Dense)
		assert.Equal(t, want.Features.Indptr, got.Types[i].Features.Indptr)
		assert.Equal(t, want.Features.Indices, got.Types[i].Features.Indices)
		assert.Equal(t, want.Features.Data, got.Types[i].Features.Data)
	}
	again, err := On(g).With(got)
	require.NoError(t, err)
	for i := range later.Relations { // the lists of both are the store's
		r, list := &later.Relations[i], again.In(i)
		n := int64(r.Features.Columns)
		for v := range len(r.Indptr) - 1 {
			at := r.Indptr[v]
			list.Each(int32(v), func(u int32, in *graph.Relation, k int64) {
				assert.Equal(t, r.Sources[at], u)
				if r.Weights != nil {
					assert.Equal(t, r.Weights[at], in.Weights[k])
				}
				assert.Equal(t, r.Features.Dense[at*n:(at+1)*n], in.Features.Dense[k*n:(k+1)*n])
				at++
			})
			assert.Equal(t, r.Indptr[v+1], at)
		}
	}
	between := *g.Copy() // new ones stand before the parallel ones that were there
	between.Relations = slices.Clone(g.Relations)
	knows := &between.Relations[1]
	split := knows.EdgeSplit
	*knows, err = graph.NewRelation(2, graph.Edges{
		Source: []int32{1, 1, 1}, Target: []int32{0, 0, 0},
		FeatureColumns: 2, Features: []float32{9, 9, 1, 2, 3, 4},
	})
	require.NoError(t, err)
	knows.Source, knows.Name, knows.Target, knows.EdgeSplit = "person", "knows", "person", split
	_, err = On(g).Until(&between)
	assert.Refused(t, err,
		"the edges of person__knows__person into vertex 0 are not those of before and others")
	_, err = On(later).Until(g)
	assert.Refused(t, err, "the vertices of person are not those of before and others behind them")
	g.Types[0].Features.Dense[1] = 9
	_, err = On(g).Until(later)
	assert.Refused(t, err, "the features of person have changed")
	g.Types[0].Features.Dense[1] = 2
	g.Relations[1].Features.Dense[0] = 9
	_, err = On(g).Until(later)
	assert.Refused(t, err,
		"the edges of person__knows__person into vertex 0 are not those of before and others")
}
