package graph

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/require"
)

// drawGraph draws a small directed graph with self loops, duplicate edges and isolated vertices, weights and
// edge features or none, and every kind of features and labels.
func drawGraph(t *rapid.T) *Graph {
	n := rapid.IntRange(1, 12).Draw(t, "vertices")
	vertex := rapid.Int32Range(0, int32(n-1))
	ends := rapid.SliceOfN(vertex, 0, 40).Draw(t, "ends")
	e := Edges{Source: ends[:len(ends)/2], Target: ends[len(ends)/2 : len(ends)/2*2]}
	if rapid.Bool().Draw(t, "weighted") {
		e.Weights = iota32(e.Len())
	}
	if rapid.Bool().Draw(t, "edge features") {
		e.FeatureColumns, e.Features = 2, iota32(2*e.Len())
	}
	g := &Graph{
		Types: []VertexType{{Frame: Frame{Count: n}}}, Relations: []Relation{must(NewRelation(n, e))},
		Metric: "accuracy", Provenance: "a test",
	}
	switch rapid.IntRange(0, 2).Draw(t, "features") {
	case 1:
		g.Types[0].Features = Features{Columns: 3, Dense: iota32(3 * n)}
	case 2:
		g.Types[0].Features = Features{Columns: n, Indptr: []int64{0}}
		for v := range n { // row v holds v%3 values
			for j := range v % 3 {
				g.Types[0].Features.Indices = append(g.Types[0].Features.Indices, int32(j))
				g.Types[0].Features.Data = append(g.Types[0].Features.Data, float32(10*v+j))
			}
			g.Types[0].Features.Indptr = append(g.Types[0].Features.Indptr,
				int64(len(g.Types[0].Features.Data)))
		}
	}
	switch rapid.IntRange(0, 2).Draw(t, "labels") {
	case 1:
		g.Types[0].Labels = Labels{Classes: n, Class: make([]int64, n)}
		for v := range n {
			g.Types[0].Labels.Class[v] = int64(v - 1)
		}
	case 2:
		g.Types[0].Labels = Labels{Classes: 2, Multi: iota32(2 * n)}
		g.Types[0].Labels.Multi[0], g.Types[0].Labels.Multi[1] = float32(math.NaN()), float32(math.NaN())
	}
	for v := range n {
		g.Types[0].Names = append(g.Types[0].Names, string(rune('a'+v)))
	}
	if rapid.Bool().Draw(t, "arrays") {
		g.Types[0].Arrays = []Array{
			{Name: "node_year", Columns: 1},
			{Name: "node_place", Columns: 2, Floats: iota32(2 * n)},
		}
		for v := range int64(n) {
			g.Types[0].Arrays[0].Ints = append(g.Types[0].Arrays[0].Ints, 2000+v)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "splits") {
		var s Split
		for v := range int64(n) {
			switch rapid.IntRange(0, 3).Draw(t, "part") {
			case 1:
				s.Train = append(s.Train, v)
			case 2:
				s.Val = append(s.Val, v)
			case 3:
				s.Test = append(s.Test, v)
			}
		}
		g.Types[0].Splits = append(g.Types[0].Splits, s)
	}
	return g
}

func iota32(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

func differences(a, b *Graph) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(Graph{}), cmpopts.IgnoreFields(Graph{}, "Notes"),
		cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

// onGraphs checks a property on random graphs, and that it leaves its graph as it was.
func onGraphs(t *testing.T, property func(t *rapid.T, g *Graph)) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		before, err := g.Induced(slices.Repeat([]bool{true}, g.Vertices())) // a copy
		require.NoError(t, err)
		property(t, g)
		require.Equal(t, "", differences(before, g), "the graph was changed in place")
	})
}

type edge struct {
	u, v    int32
	weight  float32
	feature float32 // the first column
}

// edgeList lists the edges in stored order.
func edgeList(g *Graph) []edge {
	e := g.Relations[0].Edges()
	list := make([]edge, e.Len())
	for k := range list {
		list[k] = edge{u: e.Source[k], v: e.Target[k]}
		if e.Weights != nil {
			list[k].weight = e.Weights[k]
		}
		if e.FeatureColumns > 0 {
			list[k].feature = e.Features[k*e.FeatureColumns]
		}
	}
	return list
}

func ends(list []edge) map[[2]int32]int {
	count := map[[2]int32]int{}
	for _, e := range list {
		count[[2]int32{e.u, e.v}]++
	}
	return count
}

// must is for changes that nothing stands against.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestSymmetrize(t *testing.T) {
	onGraphs(t, func(t *rapid.T, g *Graph) {
		s := must(g.Symmetrize())
		require.Equal(t, "", differences(s, must(s.Symmetrize())), "twice is not once")
		before, after := edgeList(g), edgeList(s)
		count := ends(after)
		for _, e := range before {
			require.Equal(t, 1, count[[2]int32{e.u, e.v}], "times that edge %v is there", e)
			require.Equal(t, 1, count[[2]int32{e.v, e.u}], "times that the reverse of %v is there", e)
		}
		// Every edge is the first stored one of its ends, else of the reversed ends.
		for _, e := range after {
			same := func(o edge) bool { return o.u == e.u && o.v == e.v }
			k := slices.IndexFunc(before, same)
			if k < 0 {
				k = slices.IndexFunc(before, func(o edge) bool { return o.u == e.v && o.v == e.u })
			}
			if k < 0 || before[k].weight != e.weight || before[k].feature != e.feature {
				t.Fatalf("edge %+v comes from none of %v", e, before)
			}
		}
	})
}

// Each change says what it did, in numbers.
func TestNotes(t *testing.T) {
	g := Of(must(NewRelation(5, Edges{Source: []int32{0, 0, 1, 2, 3}, Target: []int32{1, 1, 0, 2, 2}})))
	want := []string{
		"5 edges made undirected: 1 added, 1 duplicates left out", "1 self loops left out",
		"5 self loops added", "3 vertices and 5 edges outside the largest component left out",
	}
	changed := must(must(must(must(g.Symmetrize()).RemoveSelfLoops()).AddSelfLoops()).LargestComponent())
	assert.Equal(t, want, changed.Notes)
	if g.Notes != nil {
		t.Errorf("the graph itself says %q", g.Notes)
	}
}

// TestSelfLoopsTakeWhatTheyAskFor: each list of edges grows once, within what is asked for.
func TestSelfLoopsTakeWhatTheyAskFor(t *testing.T) {
	const n = 1 << 16
	e := Edges{Source: make([]int32, n), Target: make([]int32, n), Weights: make([]float32, n)}
	for v := range int32(n) {
		e.Source[v], e.Target[v] = (v+1)%n, v
	}
	r, err := NewRelation(n, e)
	require.NoError(t, err)
	g, looped := Of(r), (*Graph)(nil)
	took := alloctest.Bytes(func() { looped = must(g.AddSelfLoops()) })
	sorting := alloctest.Bytes(func() { _, err = NewRelation(n, looped.Relations[0].Edges()) })
	require.NoError(t, err)
	if asked := uint64(4*n + 4*3*2*n); took > asked+sorting+1<<16 {
		t.Errorf("%d bytes were allocated, %d of them to sort the edges, and %d asked for", took, sorting, asked)
	}
}

func TestSelfLoops(t *testing.T) {
	onGraphs(t, func(t *rapid.T, g *Graph) {
		looped, bare := must(g.AddSelfLoops()), must(g.RemoveSelfLoops())
		had, has := ends(edgeList(g)), ends(edgeList(looped))
		for v := range int32(g.Vertices()) {
			loop := [2]int32{v, v}
			require.Equal(t, max(1, had[loop]), has[loop], "vertex %d loops, had %d", v, had[loop])
		}
		for _, e := range edgeList(looped) {
			added := e.u == e.v && had[[2]int32{e.u, e.v}] == 0
			if added && (g.Relations[0].Weights != nil && e.weight != 1 ||
				g.Relations[0].Features.Columns > 0 && e.feature != 1) {
				t.Fatalf("added loop %+v", e)
			}
		}
		if slices.ContainsFunc(edgeList(bare), func(e edge) bool { return e.u == e.v }) {
			t.Fatal("a loop stayed")
		}
		require.Equal(t, "", differences(bare, must(looped.RemoveSelfLoops())), "other edges changed")
		require.Equal(t, "", differences(looped, must(looped.AddSelfLoops())), "twice is not once")
	})
}

func TestInduced(t *testing.T) {
	onGraphs(t, func(t *rapid.T, g *Graph) {
		keep := rapid.SliceOfN(rapid.Bool(), g.Vertices(), g.Vertices()).Draw(t, "keep")
		part, err := g.Induced(keep)
		require.NoError(t, err)
		var want, got []edge
		name := map[string]int32{}
		for v, s := range g.Types[0].Names {
			name[s] = int32(v)
		}
		for _, e := range edgeList(g) {
			if keep[e.u] && keep[e.v] {
				want = append(want, e)
			}
		}
		for _, e := range edgeList(part) {
			e.u, e.v = name[part.Types[0].Names[e.u]], name[part.Types[0].Names[e.v]]
			got = append(got, e)
		}
		require.Equal(t, want, got, "edges")
		for k, s := range part.Types[0].Splits {
			for _, v := range s.Val {
				if !slices.Contains(g.Types[0].Splits[k].Val, int64(name[part.Types[0].Names[v]])) {
					t.Fatalf("split %d: %v", k, s)
				}
			}
		}
	})
	_, err := Of(must(NewRelation(3, Edges{}))).Induced(make([]bool, 2))
	assert.Error(t, err, "two marks were taken for three vertices")
}

func TestLargestComponent(t *testing.T) {
	onGraphs(t, func(t *rapid.T, g *Graph) {
		size := map[int32]int{}
		for _, c := range g.components() {
			size[c]++
		}
		for _, e := range edgeList(g) {
			if c := g.components(); c[e.u] != c[e.v] {
				t.Fatalf("edge %v joins two components", e)
			}
		}
		largest, first := 0, int32(0)
		for c := range int32(g.Vertices()) {
			if size[c] > largest {
				largest, first = size[c], c
			}
		}
		part := must(g.LargestComponent())
		require.Equal(t, largest, part.Vertices())
		require.Equal(t, g.Types[0].Names[first], part.Types[0].Names[0])
		reached := make([]bool, largest)
		reached[0] = true
		for range largest {
			for _, e := range edgeList(part) {
				either := reached[e.u] || reached[e.v]
				reached[e.u], reached[e.v] = either, either
			}
		}
		if slices.Contains(reached, false) {
			t.Fatalf("the component is not connected: %v", reached)
		}
	})
	empty := Of(must(NewRelation(0, Edges{})))
	assert.Equal(t, 0, must(empty.LargestComponent()).Vertices(), "the component of an empty graph")
}

func TestRandomFeatures(t *testing.T) {
	g := &Graph{
		Types:     []VertexType{{Frame: Frame{Count: 1000, Names: make([]string, 1000)}}},
		Relations: []Relation{must(NewRelation(1000, Edges{}))},
	}
	make1 := func(columns int, seed uint64) []float32 {
		t.Helper()
		changed, err := g.RandomFeatures(columns, seed)
		require.NoError(t, err)
		if changed.Types[0].Features.Columns != columns ||
			len(changed.Types[0].Features.Dense) != 1000*columns ||
			changed.Types[0].Names == nil {
			t.Fatalf("%d features in %d columns", len(changed.Types[0].Features.Dense),
				changed.Types[0].Features.Columns)
		}
		return changed.Types[0].Features.Dense
	}
	wide := make1(8, 1)
	func() {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
		assert.Equal(t, make1(8, 1), wide, "the number of threads changes the features")
	}()
	if slices.Equal(wide, make1(8, 2)) {
		t.Error("another seed gives the same features")
	}
	assert.Equal(t, wide[8*7:8*7+3], make1(3, 1)[3*7:3*8], "a value depends on the number of columns")
	for _, columns := range []int{0, -1, 1 << 30} {
		_, err := g.RandomFeatures(columns, 1)
		assert.Refused(t, err, "", "%d columns", columns)
	}
}

// What a change would take is held against the memory before it is made.
func TestChangesWithoutMemory(t *testing.T) {
	const vertices, edges = 1 << 20, 1 << 20
	e := Edges{Source: make([]int32, edges), Target: make([]int32, edges)}
	for k := range edges {
		e.Source[k], e.Target[k] = int32(k), int32((k+1)%vertices)
	}
	g := &Graph{
		Types: []VertexType{
			{Frame: Frame{Count: vertices, Labels: Labels{Classes: 1, Class: make([]int64, vertices)}}},
		},
		Relations: []Relation{must(NewRelation(vertices, e))},
	}
	changes := map[string]func() (*Graph, error){
		"symmetrize":        g.Symmetrize,
		"largest component": g.LargestComponent,
		"add loops":         g.AddSelfLoops,
		"remove loops":      g.RemoveSelfLoops,
		"random features":   func() (*Graph, error) { return g.RandomFeatures(64, 0) },
		"splits":            func() (*Graph, error) { return g, g.MakeSplits("random:60/20/20", 10, 0) },
	}
	runtime.GC()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(now.HeapAlloc) + 10<<20))
	for name, change := range changes {
		_, err := change()
		assert.Refused(t, err, " MB of memory", name)
	}
}

// TestReversed: every edge leads the other way, with its weight, and twice is the relation itself.
func TestReversed(t *testing.T) {
	r, err := NewRelation(5, Edges{
		Source: []int32{0, 3, 3, 1, 4, 4, 2}, Target: []int32{1, 1, 0, 3, 4, 1, 3},
		Weights: []float32{1, 2, 3, 4, 5, 6, 7},
	})
	require.NoError(t, err)
	back := r.Reversed(5)
	assert.Equal(t, []int64{0, 1, 2, 3, 5, 7}, back.Indptr, "rows begin at")
	assert.Equal(t, []int32{1, 3, 3, 0, 1, 1, 4}, back.Sources, "out-neighbours")
	assert.Equal(t, []float32{1, 4, 7, 3, 2, 6, 5}, back.Weights, "weights")
	again := back.Reversed(5)
	assert.Equal(t, r.Indptr, again.Indptr, "twice: %v, want %v", again, r)
	assert.Equal(t, r.Sources, again.Sources, "twice: %v, want %v", again, r)
	assert.Equal(t, r.Weights, again.Weights, "twice: %v, want %v", again, r)
	if plain := (&Relation{Indptr: r.Indptr, Sources: r.Sources}).Reversed(5); plain.Weights != nil {
		t.Errorf("a relation without weights has %v", plain.Weights)
	}
}

// TestMirrors: a relation and its reverse mirror each other, whichever is asked. A relation of that name
// between other types is no reverse, nor is one without the prefix, nor the relation itself.
func TestMirrors(t *testing.T) {
	buys := &Relation{Source: "person", Name: "buys", Target: "item"}
	for _, c := range []struct {
		relation Relation
		want     bool
	}{
		{Relation{Source: "item", Name: "rev_buys", Target: "person"}, true},
		{Relation{Source: "person", Name: "rev_buys", Target: "item"}, false},
		{Relation{Source: "item", Name: "rev_buys", Target: "item"}, false},
		{Relation{Source: "person", Name: "rev_buys", Target: "person"}, false},
		{Relation{Source: "item", Name: "buys", Target: "person"}, false},
		{Relation{Source: "item", Name: "rev_sees", Target: "person"}, false},
		{*buys, false},
	} {
		assert.Equal(t, c.want, c.relation.Mirrors(buys), "%v", c.relation)
		assert.Equal(t, c.want, buys.Mirrors(&c.relation), "%v", c.relation)
	}
}
