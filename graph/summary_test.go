package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSummarizeDense(t *testing.T) {
	want := Summary{
		Provenance: "made by hand", Vertices: 4, Edges: 6,
		InDegree: Degrees{0, 1.5, 3}, OutDegree: Degrees{0, 1.5, 3}, Isolated: 1, SelfLoops: 1, DuplicateEdges: 1,
		Weighted: true, EdgeFeatureColumns: 2, FeatureColumns: 3, FeatureDensity: 0.5,
		Classes: 2, ClassNames: []string{"red", "black & <white>\n"}, ClassCounts: []int{1, 2}, Unlabelled: 1,
		Metric: "macro-f1", Splits: []SplitSizes{{1, 1, 1}},
	}
	if diff := cmp.Diff(want, dense().Summarize()); diff != "" {
		t.Error(diff)
	}
}

func TestSummarizeSparse(t *testing.T) {
	want := Summary{
		Vertices: 3, Edges: 4, InDegree: Degrees{1, 4.0 / 3, 2}, OutDegree: Degrees{1, 4.0 / 3, 2}, Symmetric: false,
		FeatureColumns: 5, SparseFeatures: true, FeatureDensity: 0.2, Classes: 2, MultiLabel: true, ClassCounts: []int{2, 1},
		Unlabelled: 1, Splits: []SplitSizes{{1, 0, 1}, {2, 0, 0}, {0, 0, 2}},
	}
	if diff := cmp.Diff(want, sparse().Summarize()); diff != "" {
		t.Error(diff)
	}
}

func TestSummarizeEmpty(t *testing.T) {
	g := &Graph{Relations: []Relation{{Indptr: []int64{0}}}}
	if diff := cmp.Diff(Summary{Symmetric: true, ClassCounts: []int{}, Splits: []SplitSizes{}}, g.Summarize()); diff != "" {
		t.Error(diff)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		g := &Graph{Relations: []Relation{r}}
		if got := g.Summarize().Symmetric; got != want {
			t.Fatalf("edges %v: symmetric %v, want %v", count, got, want)
		}
	})
}
