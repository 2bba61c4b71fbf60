package graph

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/require"
)

func TestSummarizeDense(t *testing.T) {
	want := Summary{
		Provenance: "made by hand", Vertices: 4, Edges: 6, InDegree: Degrees{0, 1.5, 3},
		OutDegree: Degrees{0, 1.5, 3}, Isolated: 1, SelfLoops: 1, DuplicateEdges: 1, Weighted: true,
		EdgeFeatureColumns: 2, FeatureColumns: 3, FeatureDensity: 0.5, Classes: 2,
		ClassNames: []string{"red", "black & <white>\n"}, ClassCounts: []int{1, 2}, Unlabelled: 1,
		Metric: "macro-f1", Splits: []SplitSizes{{1, 1, 1}},
	}
	assert.Equal(t, want, summarize(t, dense()))
}

func TestSummarizeSparse(t *testing.T) {
	want := Summary{
		Vertices: 3, Edges: 4, InDegree: Degrees{1, 4.0 / 3, 2}, OutDegree: Degrees{1, 4.0 / 3, 2},
		Symmetric: false, FeatureColumns: 5, SparseFeatures: true, FeatureDensity: 0.2, Classes: 2,
		MultiLabel: true, ClassCounts: []int{2, 1}, Unlabelled: 1,
		Splits: []SplitSizes{{1, 0, 1}, {2, 0, 0}, {0, 0, 2}},
	}
	assert.Equal(t, want, summarize(t, sparse()))
}

func TestSummarizeEmpty(t *testing.T) {
	g := &Graph{Types: []VertexType{{}}, Relations: []Relation{{Indptr: []int64{0}}}}
	assert.Equal(t, Summary{Symmetric: true, ClassCounts: []int{}, Splits: []SplitSizes{}}, summarize(t, g))
}

// The one-pass test of symmetry must agree with counting every edge and its reverse.
func TestSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.IntRange(1, 4).Draw(t, "vertices")
		end := rapid.Int32Range(0, int32(v-1))
		var e Edges
		count := map[[2]int32]int{}
		for range rapid.IntRange(0, 5).Draw(t, "draws") {
			a, b := end.Draw(t, "a"), end.Draw(t, "b")
			e.Source, e.Target = append(e.Source, a), append(e.Target, b)
			count[[2]int32{a, b}]++
			if rapid.IntRange(0, 4).Draw(t, "reverse") > 0 {
				e.Source, e.Target = append(e.Source, b), append(e.Target, a)
				count[[2]int32{b, a}]++
			}
		}
		want := true
		for pair, n := range count {
			want = want && count[[2]int32{pair[1], pair[0]}] == n
		}
		r, err := NewRelation(v, e)
		require.NoError(t, err)
		g := Of(r)
		if got := summarize(t, g).Symmetric; got != want {
			t.Fatalf("edges %v: symmetric %v, want %v", count, got, want)
		}
	})
}

// TestSummarizeTypes: the numbers of two relations by hand, and their sums.
func TestSummarizeTypes(t *testing.T) {
	likes := Relation{
		Source: "user", Name: "likes", Target: "item", Indptr: []int64{0, 3, 4}, Sources: []int32{0, 0, 2, 1},
	}
	knows := Relation{
		Source: "user", Name: "knows", Target: "user", Indptr: []int64{0, 2, 4, 6},
		Sources: []int32{1, 1, 0, 0, 2, 2},
	}
	g := &Graph{
		Types: []VertexType{
			{Type: "user", Frame: Frame{Count: 3}}, {Type: "item", Frame: Frame{Count: 2}},
		},
		Relations: []Relation{likes, knows},
	}
	want := Summary{
		Vertices: 5, Edges: 10, InDegree: Degrees{1, 2, 3}, OutDegree: Degrees{0, 2, 4},
		SelfLoops: 2, DuplicateEdges: 4,
		Types: []TypeSummary{{Type: "user", Vertices: 3}, {Type: "item", Vertices: 2}},
		Relations: []RelationSummary{
			{
				Source: "user", Name: "likes", Target: "item", Edges: 4, InDegree: Degrees{1, 2, 3},
				OutDegree: Degrees{1, 4.0 / 3, 2}, DuplicateEdges: 1,
			},
			{
				Source: "user", Name: "knows", Target: "user", Edges: 6, InDegree: Degrees{2, 2, 2},
				OutDegree: Degrees{2, 2, 2}, SelfLoops: 2, DuplicateEdges: 3,
			},
		},
		ClassCounts: []int{}, Unlabelled: 3, Splits: []SplitSizes{},
	}
	assert.Equal(t, want, summarize(t, g))
	if g.Relations = []Relation{knows}; !summarize(t, g).Symmetric {
		t.Error("one symmetric relation: not symmetric")
	}
}

// TestSummarizePasses: the numbers of a graph whose edges are counted in two passes: loops of vertex 0, and
// an edge in each direction between it and vertex 1.
func TestSummarizePasses(t *testing.T) {
	const loops = countedEdges
	r := Relation{Indptr: []int64{0, loops + 1, loops + 2}, Sources: make([]int32, loops+2)}
	r.Sources[loops] = 1
	s := summarize(t, Of(r))
	if s.SelfLoops != loops || s.DuplicateEdges != loops-1 ||
		s.OutDegree != (Degrees{1, loops/2 + 1, loops + 1}) || !s.Symmetric {
		t.Errorf("%d loops, %d duplicates, out-degrees %v, symmetric %v", s.SelfLoops, s.DuplicateEdges,
			s.OutDegree, s.Symmetric)
	}
}

func summarize(t rapid.TB, g *Graph) Summary {
	t.Helper()
	s, err := g.Summarize(nil)
	require.NoError(t, err)
	return s
}

// A Transposer lists, in ranges of any size, what Reversed lists at once.
func TestTransposer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources, targets := rapid.IntRange(1, 3000).Draw(t, "sources"),
			rapid.IntRange(0, 30).Draw(t, "targets")
		var e Edges
		if targets > 0 {
			e.Source = rapid.SliceOfN(rapid.Int32Range(0, int32(sources-1)), 0, 200).Draw(t, "source")
			e.Target = rapid.SliceOfN(rapid.Int32Range(0, int32(targets-1)), len(e.Source),
				len(e.Source)).Draw(t, "target")
		}
		if rapid.Bool().Draw(t, "weighted") {
			e.Weights = make([]float32, len(e.Source))
			for k := range e.Weights {
				e.Weights[k] = float32(k)
			}
		}
		r, err := NewBipartite(sources, targets, e)
		require.NoError(t, err)
		want := r.Reversed(sources)
		cut := rapid.IntRange(0, targets).Draw(t, "rows of the first part")
		parts := []*Relation{
			{Indptr: r.Indptr[:cut+1], Sources: r.Sources[:r.Indptr[cut]]},
			{Sources: r.Sources[r.Indptr[cut]:]},
		}
		for _, end := range r.Indptr[cut:] {
			parts[1].Indptr = append(parts[1].Indptr, end-r.Indptr[cut])
		}
		if r.Weights != nil {
			parts[0].Weights, parts[1].Weights = r.Weights[:r.Indptr[cut]], r.Weights[r.Indptr[cut]:]
		}
		transposer, err := NewTransposer(parts, func(f func() error) error { return f() }, func() {})
		require.NoError(t, err)
		for lo := 0; lo < sources; {
			hi := rapid.IntRange(lo+1, sources).Draw(t, "end")
			got, err := transposer.List(lo, hi)
			require.NoError(t, err)
			first, end := want.Indptr[lo], want.Indptr[hi]
			for row := lo; row <= hi; row++ {
				require.Equal(t, want.Indptr[row]-first, got.Indptr[row-lo], "row %d begins at", row)
			}
			if !slices.Equal(got.Sources, want.Sources[first:end]) ||
				want.Weights != nil && !slices.Equal(got.Weights, want.Weights[first:end]) {
				t.Fatalf("sources %d to %d: %v, want %v", lo, hi, got, want.Sources[first:end])
			}
			lo = hi
		}
	})
}
