package edgesort

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// Edges that exceed the memory for them are divided again, until a range is one vertex: with and without
// weights, features, labels and values that divide.
func TestSorterDivides(t *testing.T) {
	const vertices = 3000
	for _, weighted := range []bool{false, true} {
		for columns := range 3 {
			e := drawn(200_000, vertices, columns, weighted)
			if weighted || columns > 0 {
				e.Labels = make([]int32, e.Len())
			}
			if columns == 1 {
				e.SplitBy = make([]float64, e.Len())
			}
			for k := range e.Labels {
				e.Labels[k] = int32(k%5000) - 1
			}
			for k := range e.SplitBy {
				e.SplitBy[k] = 1.7e9 + float64(k)/7 // more digits than float32 has
			}
			want, err := graph.NewRelation(vertices, e)
			require.NoError(t, err)
			for _, limit := range []int{vertices, 1 << 16} { // known before, or only after all edges
				for _, about := range []int64{10, 10_000_000} {
					assert.Equal(t, want, sorted(t, e, vertices, limit, about), "weights %v, %d features, of %d, about %d",
						weighted, columns, limit, about)
				}
			}
		}
	}
}

// drawn are random edges, of which a third are into one vertex.
func drawn(edges, vertices, columns int, weighted bool) graph.Edges {
	random := rand.New(rand.NewPCG(3, 4))
	e := graph.Edges{FeatureColumns: columns}
	for range edges {
		target := int32(random.IntN(vertices))
		if random.IntN(3) == 0 {
			target = 1234
		}
		e.Source, e.Target = append(e.Source, int32(random.IntN(vertices))), append(e.Target, target)
		if weighted {
			e.Weights = append(e.Weights, random.Float32())
		}
		for range columns {
			e.Features = append(e.Features, random.Float32())
		}
	}
	return e
}

// sorted are the edges as a sorter gives them, of which none, some or all wait in memory.
func sorted(t *testing.T, e graph.Edges, vertices, limit int, about int64) graph.Relation {
	t.Helper()
	none := sortedOf(t, e, vertices, limit, about, 0)
	for _, kept := range []int64{300_000, 1 << 30} { // 300,000: two batches, and a part of one
		assert.Equal(t, none, sortedOf(t, e, vertices, limit, about, kept), "kept %d", kept)
	}
	return none
}

func sortedOf(t *testing.T, e graph.Edges, vertices, limit int, about, kept int64) graph.Relation {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	require.NoError(t, err)
	defer file.Close()
	o := Options{
		Scratch: file, Kept: kept, Weighted: e.Weights != nil, Columns: e.FeatureColumns, Budget: 100_000,
		Labelled: e.Labels != nil, Divided: e.SplitBy != nil,
	}
	s := New(o, limit, about)
	defer s.Close()
	require.NoError(t, s.Add(&e, false))
	got := graph.Relation{
		Indptr: []int64{0}, Frame: graph.Frame{Features: graph.Features{Columns: e.FeatureColumns}},
	}
	s.Limit(vertices)
	var values []float64
	err = s.Each(func(r *graph.Relation) error {
		for _, end := range r.Indptr[1:] {
			got.Indptr = append(got.Indptr, int64(len(got.Sources))+end)
		}
		got.Sources, got.Weights = append(got.Sources, r.Sources...), append(got.Weights, r.Weights...)
		got.Features.Dense = append(got.Features.Dense, r.Features.Dense...)
		got.Labels.Class = append(got.Labels.Class, r.Labels.Class...)
		if r.SplitBy != nil {
			values = append(values, r.SplitBy.Values...)
			got.SplitBy = &graph.SplitBy{Values: values}
		}
		return nil
	})
	require.NoError(t, err)
	info, err := file.Stat()
	require.NoError(t, err)
	if size := int64(len(e.Source) * s.words() * wordBytes); kept > size && about*12 > size {
		assert.Equal(t, 0, info.Size(), "of the file")
	}
	return got
}

// TestSorterReaches: it is the order of the edges that decides when ranges become larger, and not how many
// targets there may be; the rows are the same.
func TestSorterReaches(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const vertices, edges = 5000, 100_000
	rising, falling := graph.Edges{FeatureColumns: 1}, graph.Edges{FeatureColumns: 1}
	for k := range edges {
		source, target, feature := int32(random.IntN(vertices)), int32(k*vertices/edges), random.Float32()
		rising.Source, rising.Target = append(rising.Source, source), append(rising.Target, target)
		rising.Features = append(rising.Features, feature)
	}
	for k := edges - 1; k >= 0; k-- {
		falling.Append(&rising, k)
	}
	for _, e := range []graph.Edges{rising, falling} {
		want, err := graph.NewRelation(vertices, e)
		require.NoError(t, err)
		for _, about := range []int64{1, edges, 1 << 40} {
			assert.Equal(t, want, sorted(t, e, vertices, 1<<31-1, about), "about %d", about)
		}
	}
}

// TestSorterOfFewEdges: what is in memory of many targets with few edges is bounded, whatever their number.
func TestSorterOfFewEdges(t *testing.T) {
	const vertices, budget = 1_000_000, 64_000
	e := graph.Edges{Source: []int32{7, 8, 9}, Target: []int32{999_999, 0, 500_000}}
	file, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	require.NoError(t, err)
	defer file.Close()
	s := New(Options{Scratch: file, Budget: budget}, 1<<31-1, 10)
	require.NoError(t, s.Add(&e, false))
	s.Limit(vertices)
	targets, sources := 0, []int32(nil)
	require.NoError(t, s.Each(func(r *graph.Relation) error {
		rows := len(r.Indptr) - 1
		if rows*targetBytes > budget {
			t.Errorf("%d targets at once", rows)
		}
		targets, sources = targets+rows, append(sources, r.Sources...)
		return nil
	}))
	assert.Equal(t, vertices, targets)
	assert.Equal(t, []int32{8, 9, 7}, sources)
}

// TestSingle: of parallel edges the first is kept, with its weight, features, label and value that divides.
func TestSingle(t *testing.T) {
	scratch, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	require.NoError(t, err)
	defer scratch.Close()
	s := New(Options{
		Scratch: scratch, Weighted: true, Columns: 1, Labelled: true, Divided: true, Single: true,
	}, 2, 5)
	defer s.Close()
	require.NoError(t, s.Add(&graph.Edges{
		Source: []int32{1, 0, 0, 1, 0}, Target: []int32{0, 1, 1, 0, 0}, Weights: []float32{1, 2, 3, 4, 5},
		Features: []float32{10, 20, 30, 40, 50}, Labels: []int32{6, 7, 8, 9, 5},
		SplitBy: []float64{.1, .2, .3, .4, .5},
	}, false))
	require.NoError(t, s.Each(func(rows *graph.Relation) error {
		assert.Equal(t, []int64{0, 2, 3}, rows.Indptr)
		assert.Equal(t, []int32{0, 1, 0}, rows.Sources)
		assert.Equal(t, []float32{5, 1, 2}, rows.Weights)
		assert.Equal(t, []float32{50, 10, 20}, rows.Features.Dense)
		assert.Equal(t, []int64{5, 6, 7}, rows.Labels.Class)
		assert.Equal(t, []float64{.5, .1, .2}, rows.SplitBy.Values)
		return nil
	}))
	assert.Equal(t, 2, s.Duplicates)
}

// TestKept: sorters share a gibibyte, or a sixteenth of the memory that is left.
func TestKept(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 50))
	assert.Equal(t, 1<<30, Kept(1))
	assert.Equal(t, 1<<28, Kept(4))
	debug.SetMemoryLimit(4 << 30)
	if kept := Kept(2); kept < 96<<20 || kept > 128<<20 {
		t.Errorf("%d bytes of each of two, of 4 GiB", kept)
	}
}

// TestNothingKept: where the system gives no memory all batches go to the file.
func TestNothingKept(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "scratch"))
	require.NoError(t, err)
	defer file.Close()
	b := newBatches(file, 1<<60)
	defer b.close()
	for k := range uint32(3) {
		at, err := b.write([]uint32{k, k + 1})
		require.NoError(t, err)
		assert.Equal(t, int64(8*k), at)
	}
	got := make([]uint32, 2)
	require.NoError(t, b.read(got, 16))
	assert.Equal(t, []uint32{2, 3}, got)
	info, err := file.Stat()
	require.NoError(t, err)
	assert.Equal(t, 24, info.Size())
}
