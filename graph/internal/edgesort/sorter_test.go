package edgesort

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// Edges that exceed the memory for them are divided again, until a range is one vertex.
func TestSorterDivides(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const vertices, edges = 3000, 200_000
	e := graph.Edges{FeatureColumns: 1}
	for range edges {
		target := int32(random.IntN(vertices))
		if random.IntN(3) == 0 {
			target = 1234
		}
		e.Source, e.Target = append(e.Source, int32(random.IntN(vertices))), append(e.Target, target)
		e.Features = append(e.Features, random.Float32())
	}
	want, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	for _, limit := range []int{vertices, 1 << 16} { // known before, or only after all edges
		assert.Equal(t, want, sorted(t, e, vertices, limit), "of %d", limit)
	}
}

func sorted(t *testing.T, e graph.Edges, vertices, limit int) graph.Relation {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	require.NoError(t, err)
	defer file.Close()
	s := New(Options{Scratch: file, Columns: 1, Budget: 100_000}, limit, 10)
	require.NoError(t, s.Add(&e, false))
	got := graph.Relation{Indptr: []int64{0}, EdgeColumns: 1}
	s.Limit(vertices)
	err = s.Each(func(r *graph.Relation) error {
		for _, end := range r.Indptr[1:] {
			got.Indptr = append(got.Indptr, int64(len(got.Sources))+end)
		}
		got.Sources, got.EdgeFeatures = append(got.Sources, r.Sources...),
			append(got.EdgeFeatures, r.EdgeFeatures...)
		return nil
	})
	require.NoError(t, err)
	return got
}
