package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// labelledGraph has vertices in classes in turn; every fifth is unlabelled.
func labelledGraph(vertices, classes int) *Graph {
	g := &Graph{
		Types: []VertexType{
			{Frame: Frame{Count: vertices, Labels: Labels{Classes: classes, Class: make([]int64, vertices)}}},
		},
		Relations: []Relation{must(NewRelation(vertices, Edges{}))},
	}
	for v := range vertices {
		g.Types[0].Labels.Class[v] = int64(v % classes)
		if v%5 == 4 {
			g.Types[0].Labels.Class[v] = -1
		}
	}
	return g
}

func multiLabelGraph(vertices int) *Graph {
	g := &Graph{
		Types: []VertexType{
			{Frame: Frame{Count: vertices, Labels: Labels{Classes: 2, Multi: make([]float32, 2*vertices)}}},
		},
		Relations: []Relation{must(NewRelation(vertices, Edges{}))},
	}
	for v := 4; v < vertices; v += 5 {
		missing := float32(math.NaN())
		g.Types[0].Labels.Multi[2*v], g.Types[0].Labels.Multi[2*v+1] = missing, missing
	}
	return g
}

func TestSplitsPartTheLabelledVertices(t *testing.T) {
	for _, test := range []struct {
		graph            *Graph
		spec             string
		train, val, rest int
	}{
		{labelledGraph(1000, 3), "random:60/20/20", 480, 160, 160},
		{labelledGraph(1000, 3), "random:33.3/33.3/33.4", 266, 267, 267},
		{labelledGraph(1000, 3), "random:80/20/0", 640, 160, 0},
		{labelledGraph(1000, 3), "random:100/0/0", 800, 0, 0},
		{labelledGraph(1000, 4), "stratified:60/20/20", 480, 160, 160},
		{labelledGraph(1000, 4), "stratified:80/20/0", 640, 160, 0},
		{labelledGraph(1000, 3), "per-class=20,30", 60, 90, 650},
		{labelledGraph(1000, 3), "per-class=20,30,40", 60, 90, 120},
		{labelledGraph(1000, 3), "per-class=20,=100", 60, 100, 640},
		{labelledGraph(1000, 3), "per-class=20,=100,=200", 60, 100, 200},
		{labelledGraph(1000, 3), "per-class=20,=100,30", 60, 100, 90},
		{labelledGraph(1000, 3), "per-class=20,30,=200", 60, 90, 200},
		{labelledGraph(1000, 3), "per-class=20,=500,=240", 60, 500, 240},
		{labelledGraph(11, 1), "random:60/20/20", 5, 2, 2},
		{multiLabelGraph(1000), "random:60/20/20", 480, 160, 160},
	} {
		require.NoError(t, test.graph.MakeSplits(test.spec, 3, 1), test.spec)
		assert.Len(t, test.graph.Types[0].Splits, 3, test.spec)
		for k, s := range test.graph.Types[0].Splits {
			if len(s.Train) != test.train || len(s.Val) != test.val || len(s.Test) != test.rest {
				t.Errorf("%s: split %d of %d, %d and %d", test.spec, k, len(s.Train), len(s.Val), len(s.Test))
			}
			for _, part := range [][]int64{s.Train, s.Val, s.Test} {
				if !slices.IsSorted(part) {
					t.Errorf("%s: split %d is not ascending", test.spec, k)
				}
			}
			all := slices.Sorted(slices.Values(slices.Concat(s.Train, s.Val, s.Test)))
			assert.Len(t, slices.Compact(all), test.train+test.val+test.rest,
				"%s: the parts of split %d overlap", test.spec, k)
			if slices.ContainsFunc(all, func(v int64) bool { return v%5 == 4 }) {
				t.Errorf("%s: split %d has an unlabelled vertex", test.spec, k)
			}
		}
	}
}

// TestStratified: of each class each part has its percentage, also of one that is rare, as scikit-learn's
// train_test_split with stratify.
func TestStratified(t *testing.T) {
	g := labelledGraph(1000, 2)
	rare := 0
	for v := range g.Types[0].Labels.Class {
		if g.Types[0].Labels.Class[v] == 1 {
			if rare++; rare > 20 {
				g.Types[0].Labels.Class[v] = 0
			}
		}
	}
	require.NoError(t, g.MakeSplits("stratified:50/25/25", 2, 3))
	for _, s := range g.Types[0].Splits {
		for part, want := range map[*[]int64][2]int{
			&s.Train: {390, 10}, &s.Val: {195, 5}, &s.Test: {195, 5},
		} {
			var count [2]int
			for _, v := range *part {
				count[g.Types[0].Labels.Class[v]]++
			}
			assert.Equal(t, want, count)
		}
	}
	if slices.Equal(g.Types[0].Splits[0].Val, g.Types[0].Splits[1].Val) {
		t.Error("two splits are alike")
	}
}

func TestPerClassCounts(t *testing.T) {
	g := labelledGraph(1000, 4)
	require.NoError(t, g.MakeSplits("per-class=7,9", 1, 5))
	for part, want := range map[*[]int64]int{&g.Types[0].Splits[0].Train: 7, &g.Types[0].Splits[0].Val: 9} {
		count := make([]int, 4)
		for _, v := range *part {
			count[g.Types[0].Labels.Class[v]]++
		}
		assert.Equal(t, want, slices.Min(count), "%v of each class", count)
		assert.Equal(t, want, slices.Max(count), "%v of each class", count)
	}
}

// Vertices counted in all are drawn evenly from what training leaves: a class of which little is left comes
// as often as it is there.
func TestCountsInAllAreUniform(t *testing.T) {
	const large, small, train, val = 900, 100, 50, 95
	g := &Graph{
		Types: []VertexType{
			{
				Frame: Frame{
					Count: large + small, Labels: Labels{Classes: 2, Class: make([]int64, large+small)},
				},
			},
		},
		Relations: []Relation{must(NewRelation(large+small, Edges{}))},
	}
	for v := large; v < large+small; v++ {
		g.Types[0].Labels.Class[v] = 1
	}
	const splits = 500
	require.NoError(t, g.MakeSplits(fmt.Sprintf("per-class=%d,=%d,=%d", train, val, val), splits, 3))
	counts := [2]int{}
	for _, s := range g.Types[0].Splits {
		for part, list := range [][]int64{s.Val, s.Test} {
			for _, v := range list {
				counts[part] += int(g.Types[0].Labels.Class[v])
			}
		}
	}
	// Of a hypergeometric distribution, for each split
	want := float64(val) * (small - train) / (large + small - 2*train)
	deviation := math.Sqrt(want / splits)
	for part, n := range counts {
		assert.Near(t, want, float64(n)/splits, 5*deviation,
			"part %d vertices of the small class in the mean ± %.2g", part, deviation)
	}
}

// The splits of this seed stay what they are: results refer to them by their number.
func TestSplitsStay(t *testing.T) {
	for spec, want := range map[string]Split{
		"per-class=2,3": {
			Train: []int64{5, 8, 11, 18}, Val: []int64{2, 6, 13, 15, 16, 17},
			Test: []int64{0, 1, 3, 7, 10, 12},
		},
		"random:60/20/20": {
			Train: []int64{2, 5, 6, 8, 11, 13, 15, 16, 17, 18}, Val: []int64{0, 7, 10},
			Test: []int64{1, 3, 12},
		},
	} {
		g := labelledGraph(20, 2)
		require.NoError(t, g.MakeSplits(spec, 1, 1))
		assert.Equal(t, want, g.Types[0].Splits[0], spec)
	}
}

// Split k depends on the seed and k, not on how many are made.
func TestSplitsAreSeeded(t *testing.T) {
	splits := func(spec string, count int, seed uint64) []Split {
		t.Helper()
		g := labelledGraph(500, 3)
		require.NoError(t, g.MakeSplits(spec, count, seed))
		return g.Types[0].Splits
	}
	for _, spec := range []string{"random:60/20/20", "per-class=20,30", "per-class=20,=30,=40"} {
		five := splits(spec, 5, 1)
		assert.Equal(t, five[:2], splits(spec, 2, 1), spec)
		all := append(five, splits(spec, 5, 2)...)
		for i := range all {
			for j := range i {
				if slices.Equal(all[i].Train, all[j].Train) {
					t.Errorf("%s: splits %d and %d of different seeds or numbers are the same", spec, i, j)
				}
			}
		}
	}
}

func TestGivenKeepsTheSplits(t *testing.T) {
	g := labelledGraph(10, 2)
	g.Types[0].Splits = []Split{{Train: []int64{1}}, {Train: []int64{2}}}
	if err := g.MakeSplits("given", 1,
		1); err != nil || len(g.Types[0].Splits) != 2 || g.Types[0].Splits[1].Train[0] != 2 {
		t.Errorf("%v, %v", g.Types[0].Splits, err)
	}
}

func TestSplitRefusals(t *testing.T) {
	small := labelledGraph(100, 2)
	small.Types[0].Labels.Names = []string{"cats", "dogs"}
	split := labelledGraph(10, 2)
	split.Types[0].Splits = make([]Split, 2)
	exact := labelledGraph(125, 2)
	for _, test := range []struct {
		graph *Graph
		spec  string
		count int
		want  string
	}{
		{small, "", 1, `split ""`},
		{small, "public", 1, `split "public"`},
		{small, "random", 1, `split "random"`},
		{small, "random:60/40", 1, "three percentages"},
		{small, "random:60/20/30", 1, "110"},
		{small, "random:NaN/20/20", 1, "NaN"},
		{small, "random:-10/50/60", 1, "-10"},
		{small, "random:0/50/50", 1, "nothing to train on"},
		{small, "random:99/0.5/0.5", 1, "none"},
		{small, "per-class=20", 1, "two counts"},
		{small, "per-class=0,30", 1, `"0"`},
		{small, "per-class==20,30", 1, "leave the first = out"},
		{small, "per-class=20,=,30", 1, `"=" is no count`},
		{small, "per-class=20,==9", 1, `"==9" is no count`},
		{small, "per-class=20,1,1,1", 1, "two counts or three"},
		{small, "per-class=20,=41", 1, "20 of each class leave 40 vertices, fewer than 41 in all"},
		{small, "per-class=20,=30,=11", 1, "20 of each class leave 40 vertices, fewer than 41 in all"},
		{small, "per-class=20,=40", 1, "no vertex to test on"},
		{small, "per-class=20,=5,21", 1, "class 0 (cats) has 40 vertices, fewer than 41"},
		{small, "per-class=20,99999999999", 1, "99999999999"},
		{small, "per-class=20,30", 1, "class 0 (cats) has 40 vertices, fewer than 50"},
		{labelledGraph(100, 2), "per-class=20,30", 1, "class 0 has 40 vertices"},
		{exact, "per-class=20,30", 1, "no vertex to test on"},
		{multiLabelGraph(500), "per-class=20,30", 1, "several labels"},
		{
			Of(must(NewRelation(9, Edges{}))), "random:60/20/20", 1,
			"with --labels), or bring the split (import edges: with --train, --val and --test) and leave --split out",
		},
		{small, "stratified:60/40", 1, "three percentages, for instance stratified:60/20/20"},
		{small, "stratified:98/1/1", 1, "1 % of each class is none, as the largest has 40 vertices"},
		{multiLabelGraph(500), "stratified:60/20/20", 1, "several labels"},
		{small, "given", 1, "no split"},
		{split, "given", 3, "splits 3"},
		{small, "random:60/20/20", 0, "splits 0"},
		{small, "random:60/20/20", 1 << 30, "splits 1073741824"},
	} {
		err := test.graph.MakeSplits(test.spec, test.count, 1)
		assert.Refused(t, err, test.want, "%q, %d", test.spec, test.count)
	}
}

func TestRandomPercentagesAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(100, 2000).Draw(t, "vertices")
		a := rapid.IntRange(2, 90).Draw(t, "train")
		b := rapid.IntRange(2, 98-a).Draw(t, "validation")
		g := labelledGraph(n, 3)
		require.NoError(t, g.MakeSplits(fmt.Sprintf("random:%d/%d/%d", a, b, 100-a-b), 1, 9))
		labelled := float64(n - n/5)
		for i, share := range []int{a, b, 100 - a - b} {
			got := len([][]int64{
				g.Types[0].Splits[0].Train, g.Types[0].Splits[0].Val, g.Types[0].Splits[0].Test,
			}[i])
			assert.Near(t, labelled*float64(share)/100, float64(got), 1,
				"part %d of %g vertices, asked %d %%", i, labelled, share)
		}
	})
}

func FuzzParseSplit(f *testing.F) {
	for _, spec := range []string{
		"given", "random:60/20/20", "per-class=20,30", "per-class=20,=500,=1000",
		"random:1e2/0/0", "per-class=-1,", "",
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		if _, err := ParseSplit(spec); err != nil &&
			(!refusal.Is(err) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %q is no refusal of one line", spec, err)
		}
	})
}
