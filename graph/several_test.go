package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestMerge: the rows of each graph follow those of the one before. The adjacency is block-diagonal.
func TestMerge(t *testing.T) {
	a, b, c := dense(), dense(), dense()
	b.Types[0].Labels = Labels{Classes: 3, Class: []int64{2, 0, -1, 1}}
	a.Types[0].Labels.Names, c.Types[0].Labels, c.Types[0].Splits = nil, Labels{}, []Split{{}}
	b.Types[0].Features = Features{
		Columns: 3, Indptr: []int64{0, 1, 1, 3, 3}, Indices: []int32{2, 0, 1}, Data: []float32{7, 8, 9},
	}
	b.Notes, c.Notes = []string{"one", "two"}, []string{"two"}
	g, err := Merge([]*Graph{a, b, c})
	require.NoError(t, err)
	require.NoError(t, g.Check())
	r, e := dense().Relations[0], Relation{Indptr: []int64{0}, Frame: Frame{Features: Features{Columns: 2}}}
	for k := range 3 {
		for v := range 4 {
			e.Indptr = append(e.Indptr, int64(6*k)+r.Indptr[v+1])
		}
		for _, u := range r.Sources {
			e.Sources = append(e.Sources, int32(4*k)+u)
		}
		e.Weights, e.Features.Dense = append(e.Weights, r.Weights...),
			append(e.Features.Dense, r.Features.Dense...)
	}
	want := &Graph{
		Types: []VertexType{{
			Type: VertexName,
			Frame: Frame{
				Count: 12, Features: Features{
					Columns: 3,
					Dense: slices.Concat(a.Types[0].Features.Dense,
						[]float32{0, 0, 7, 0, 0, 0, 8, 9, 0, 0, 0, 0}, a.Types[0].Features.Dense),
				}, Names: slices.Concat(a.Types[0].Names, a.Types[0].Names, a.Types[0].Names),
				Labels: Labels{Classes: 3, Class: []int64{0, 1, -1, 1, 2, 0, -1, 1, -1, -1, -1, -1}},
				Splits: []Split{{Train: []int64{0, 4}, Val: []int64{1, 5}, Test: []int64{3, 7}}},
			},
			GraphOf: []int32{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
		}},
		Metric: "macro-f1", Relations: []Relation{e},
		Graphs: 3,
		Notes:  []string{"one", "two"},
	}
	g.Types[0].Type = VertexName
	assert.Equal(t, "", same(want, g), "merged")
	sparseTwice, err := Merge([]*Graph{sparse(), sparse()})
	require.NoError(t, err)
	if f := &sparseTwice.Types[0].Features; !f.Sparse() ||
		!slices.Equal(f.Indptr, []int64{0, 2, 2, 3, 5, 5, 6}) ||
		sparseTwice.Types[0].Labels.Classes != 2 || len(sparseTwice.Types[0].Labels.Multi) != 12 {
		t.Errorf("features %+v, labels %+v", f, sparseTwice.Types[0].Labels)
	}
}

// TestMergeTyped: in graphs of several types each type's vertices follow those of the graph before, and edges
// lead between vertices of one graph. A graph may have no vertex of another type than the first.
func TestMergeTyped(t *testing.T) {
	newGraph := func(papers, authors int, e Edges) *Graph {
		writes, cites := must(NewBipartite(authors, papers, e)),
			must(NewRelation(papers, Edges{Source: []int32{0}, Target: []int32{1}}))
		writes.Source, writes.Name, writes.Target = "author", "writes", "paper"
		cites.Source, cites.Name, cites.Target = "paper", "cites", "paper"
		return &Graph{
			Types: []VertexType{{
				Type:  "paper",
				Frame: Frame{Count: papers, Labels: Labels{Classes: 2, Class: make([]int64, papers)}},
			}, {
				Type:  "author",
				Frame: Frame{Count: authors, Features: Features{Columns: 1, Dense: make([]float32, authors)}},
			}},
			Relations: []Relation{writes, cites},
		}
	}
	a, b, c := newGraph(2, 1, Edges{Source: []int32{0}, Target: []int32{1}}), newGraph(3, 0, Edges{}),
		newGraph(2, 2, Edges{Source: []int32{1, 0}, Target: []int32{0, 0}})
	c.Types[1].Features.Dense = []float32{7, 8}
	g := must(Merge([]*Graph{a, b, c}))
	require.NoError(t, g.Check())
	writes, cites, authors := g.Relations[0].Edges(), g.Relations[1].Edges(), g.Types[1]
	if !slices.Equal(g.Types[0].GraphOf, []int32{0, 0, 1, 1, 1, 2, 2}) ||
		!slices.Equal(authors.GraphOf, []int32{0, 2, 2}) || authors.Count != 3 || g.Graphs != 3 ||
		!slices.Equal(authors.Features.Dense, []float32{0, 7, 8}) {
		t.Errorf("papers of %v, authors %+v", g.Types[0].GraphOf, authors)
	}
	if !slices.Equal(writes.Source, []int32{0, 1, 2}) || !slices.Equal(writes.Target, []int32{1, 5, 5}) ||
		!slices.Equal(cites.Source, []int32{0, 2, 5}) || !slices.Equal(cites.Target, []int32{1, 3, 6}) {
		t.Errorf("edges %v and %v", writes, cites)
	}
	s := must(Open(stored(t, g)))
	defer s.Close()
	assert.Equal(t, "", same(g, s), "stored")
	if files := must(Files(s.path)); !slices.Contains(files, "vertices/author/graph_ids.npy") ||
		!slices.Contains(files, "vertices/paper/graph_ids.npy") {
		t.Errorf("files %q", files)
	}
	for want, change := range map[string]func(g *Graph){
		`its vertex type 1 is "poet", and that of the first graph "author"`: func(g *Graph) {
			g.Types[1].Type = "poet"
		},
		`its relation 0 is (author, reads, paper), and that of the first graph (author, writes, paper)`: func(g *Graph) {
			g.Relations[0].Name = "reads"
		},
		`its relation 0 is (paper, writes, paper), and that of the first graph (author, writes, paper)`: func(g *Graph) {
			g.Relations[0] = g.Relations[1]
			g.Relations[0].Name = "writes"
		},
		`its relation 1 is (paper, cites, author), and that of the first graph (paper, cites, paper)`: func(g *Graph) {
			g.Relations[1].Target = "author"
		},
		`it has 0 features of type "author", and the first graph has 1`: func(g *Graph) {
			g.Types[1].Features = Features{}
		},
		"it has 2 vertex types and 1 relations, and the first graph has 2 and 2: give graphs of " +
			"the same types": func(g *Graph) {
			g.Relations = g.Relations[:1]
		},
		`it has arrays that no model reads`: func(g *Graph) {
			g.Types[1].Arrays = make([]Array, 1)
		},
	} {
		other := newGraph(2, 1, Edges{})
		change(other)
		_, err := Merge([]*Graph{a, other})
		assert.Refused(t, err, want)
	}
}

func TestMergeRefuses(t *testing.T) {
	for want, change := range map[string]func(g *Graph){
		"it has 2 features, and the first graph has 3": func(g *Graph) {
			g.Types[0].Features = Features{Columns: 2, Dense: make([]float32, 8)}
		},
		"its edges have 1 features (weights: true), and those of the first graph have 2 (weights: true)": func(g *Graph) {
			r := &g.Relations[0]
			r.Features.Columns, r.Features.Dense = 1, r.Features.Dense[:len(r.Sources)]
		},
		"its edges have 2 features (weights: false)": func(g *Graph) { g.Relations[0].Weights = nil },
		"its labels (2 classes, 0 columns of values) are not of the kind": func(g *Graph) {
			g.Types[0].Labels = Labels{Classes: 2, Multi: make([]float32, 8)}
		},
		"its labels (2 classes, 0 columns of values) are not of the kind of those of another graph (2 classes": func(g *Graph) {
			g.Types[0].Labels.Names = []string{g.Types[0].Labels.Names[1], g.Types[0].Labels.Names[0]}
		},
		"its labels (3 classes, 0 columns": func(g *Graph) {
			l := &g.Types[0].Labels
			l.Classes, l.Names = 3, append(slices.Clone(l.Names), "blue")
		},
		"it has 0 splits, and the first graph has 1": func(g *Graph) { g.Types[0].Splits = nil },
		"it is several graphs itself": func(g *Graph) {
			g.Types[0].GraphOf, g.Graphs = []int32{0, 0, 0, 0}, 1
		},
		"it has 2 vertex types and 1 relations": func(g *Graph) {
			g.Types = append(g.Types, VertexType{Type: "other"})
		},
		"it has 0 vertex types and 1 relations": func(g *Graph) { g.Types = nil },
		"it has no vertex": func(g *Graph) {
			*g = Graph{Types: []VertexType{{}}, Relations: []Relation{{Indptr: []int64{0}}}}
		},
		"it has a split of edges": func(g *Graph) {
			g.Relations[0].EdgeSplit = &EdgeSplit{}
		},
	} {
		g := dense()
		change(g)
		_, err := Merge([]*Graph{dense(), g})
		assert.Refused(t, err, "graph 1 of 2: "+want, "want a refusal with %q", want)
	}
}

// three is three graphs in one store: two paths and a vertex alone.
func three() *Graph {
	return &Graph{
		Types: []VertexType{
			{
				Frame:   Frame{Count: 6, Labels: Labels{Classes: 2, Class: []int64{0, 1, 0, 1, 1, 0}}},
				GraphOf: []int32{0, 0, 0, 1, 2, 2},
			},
		},
		Relations: []Relation{
			must(NewRelation(6, Edges{Source: []int32{0, 1, 2, 4, 5}, Target: []int32{1, 0, 1, 5, 4}})),
		},
		Graphs: 3,
	}
}

// TestGraphsOfVertices: the graphs of vertices are stored and counted, follow their vertices, and are
// numbered anew where one has no vertex left.
func TestGraphsOfVertices(t *testing.T) {
	g := must(Open(stored(t, three())))
	defer g.Close()
	assert.Equal(t, "", same(three(), g), "stored")
	assert.Equal(t, 3, must(g.Summarize(nil)).Graphs, "graphs counted")
	if files := must(Files(g.path)); !slices.Contains(files, "graph_ids.npy") {
		t.Errorf("files %q", files)
	}
	some := must(g.Induced([]bool{true, false, true, false, true, true}))
	if want := []int32{0, 0, 1, 1}; !slices.Equal(some.Types[0].GraphOf, want) || some.Graphs != 2 ||
		some.Check() != nil {
		t.Errorf("induced: %v of %d graphs, want %v", some.Types[0].GraphOf, some.Graphs, want)
	}
}

func TestCheckGraphs(t *testing.T) {
	for want, change := range map[string]func(g *Graph){
		"5 ids of 3 graphs for 6 vertices":                func(g *Graph) { g.Types[0].GraphOf = g.Types[0].GraphOf[1:] },
		"6 ids of 0 graphs":                               func(g *Graph) { g.Graphs = 0 },
		"6 ids of 7 graphs":                               func(g *Graph) { g.Graphs = 7 },
		"vertex 4 is of graph 2, where graphs are 0 to 1": func(g *Graph) { g.Graphs = 2 },
		"the edge from vertex 5 of graph 1 leads to vertex 4 of graph 2; edges join vertices of": func(g *Graph) {
			g.Types[0].GraphOf[5] = 1
		},
		"vertices/other/graph_ids: 0 ids of 3 graphs for 1 vertices": func(g *Graph) {
			g.Types = append(g.Types, VertexType{Type: "other", Frame: Frame{Count: 1}})
		},
		"vertices/other/graph_ids: vertex 1 is of graph 3": func(g *Graph) {
			g.Types = append(g.Types, VertexType{
				Type: "other", Frame: Frame{Count: 2}, GraphOf: []int32{2, 3},
			})
		},
		"vertices/other/graph_ids: the edge from vertex 4 of graph 2 leads to vertex 1 of graph 1": func(g *Graph) {
			g.Types = append(g.Types, VertexType{
				Type: "other", Frame: Frame{Count: 2}, GraphOf: []int32{0, 1},
			})
			r := must(NewBipartite(6, 2, Edges{Source: []int32{0, 3, 4}, Target: []int32{0, 1, 1}}))
			r.Source, r.Name, r.Target = VertexName, "of", "other"
			g.Relations = append(g.Relations, r)
		},
	} {
		g := three()
		change(g)
		if err := g.checkGraphs(everything); err == nil || !strings.Contains(err.Error(), "graph_ids: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNumberGraphs(t *testing.T) {
	graphOf, n, err := NumberGraphs([]int64{7, -1, 7, 9, math.MaxInt64})
	if diff := cmp.Diff([]int32{1, 0, 1, 2, 3}, graphOf); diff != "" || n != 4 || err != nil {
		t.Errorf("%d graphs, error %v: %s", n, err, diff)
	}
}

// TestSplitByGraph: all labelled vertices of a graph are in one part, and unlabelled ones in none.
func TestSplitByGraph(t *testing.T) {
	g := labelledGraph(1000, 3)
	g.Graphs, g.Types[0].GraphOf = 20, make([]int32, 1000)
	for v := range g.Types[0].GraphOf {
		g.Types[0].GraphOf[v] = int32(v % 7 * 3 % 20)
	}
	require.NoError(t, g.MakeSplits("graphs:60/20/20", 2, 1))
	sizes := [][3]int{}
	for _, s := range g.Types[0].Splits {
		var size [3]int
		partOf, labelled := map[int32]int{}, 0
		for part, ids := range s.Parts() {
			labelled += len(*ids)
			for _, v := range *ids {
				id := g.Types[0].GraphOf[v]
				if before, known := partOf[id]; known && before != part || g.Types[0].Labels.Class[v] < 0 {
					t.Fatalf("vertex %d of graph %d in part %d, class %d", v, id, part, g.Types[0].Labels.Class[v])
				} else if !known {
					size[part]++
				}
				partOf[id] = part
			}
		}
		sizes = append(sizes, size)
		assert.Equal(t, 800, labelled, "vertices in a split")
	}
	if want := fmt.Sprint([][3]int{{4, 2, 1}, {4, 2, 1}}); fmt.Sprint(sizes) != want ||
		slices.Equal(g.Types[0].Splits[0].Train, g.Types[0].Splits[1].Train) {
		t.Errorf("graphs in the parts: %v, want %s", sizes, want)
	}
	if err := g.MakeSplits("val", 1,
		1); err != nil || len(g.Types[0].Splits) != 1 || len(g.Types[0].Splits[0].Val) != 800 ||
		len(g.Types[0].Splits[0].Train)+len(g.Types[0].Splits[0].Test) > 0 {
		t.Errorf("val: error %v", err)
	}
	g.Types[0].Splits = nil
	for spec, want := range map[string]string{
		"graphs:98/1/1": "split graphs:98/1/1: 1 % of 7 graphs with labels is none: give that part more",
		"given": "split given: the source has no split: give graphs:60/20/20, random:60/20/20 or " +
			"per-class=20,30",
		"graphs:98/1": "give three percentages, for instance graphs:60/20/20",
	} {
		assert.Refused(t, g.MakeSplits(spec, 1, 1), want, spec)
	}
	assert.Refused(t, labelledGraph(10, 2).MakeSplits("graphs:60/20/20", 1, 1),
		"the store has one graph; give random:60/20/20", "one graph")
}

// TestLabelsAreLike: labels are of one kind if they are so in each of these.
func TestLabelsAreLike(t *testing.T) {
	class := Labels{Classes: 3, Class: []int64{0}, Names: []string{"a", "b", "c"}}
	multi := Labels{Classes: 2, Multi: []float32{0, 1}}
	values := Labels{Columns: 2, Values: []float32{1, 2}}
	for _, c := range []struct {
		what   string
		labels Labels
		change func(l *Labels)
		want   bool
	}{
		{"vertices", class, func(l *Labels) { l.Class = []int64{1, 2} }, true},
		{
			"classes, of which one graph may have the last ones alone", class,
			func(l *Labels) { l.Classes = 2 }, true,
		},
		{"no class", class, func(l *Labels) { l.Class = nil }, false},
		{"names", class, func(l *Labels) { l.Names = []string{"a", "c", "b"} }, false},
		{"no names", class, func(l *Labels) { l.Names = nil }, false},
		{"several labels", class, func(l *Labels) { l.Multi = []float32{1} }, false},
		{"labels of several", multi, func(l *Labels) { l.Classes = 3 }, false},
		{"values of several", multi, func(l *Labels) { l.Multi = []float32{1, 1} }, true},
		{"columns", values, func(l *Labels) { l.Columns = 1 }, false},
		{"values", values, func(l *Labels) { l.Values = []float32{3, 4} }, true},
	} {
		other := c.labels
		if c.change(&other); c.labels.like(&other) != c.want || other.like(&c.labels) != c.want {
			t.Errorf("other %s: like %v, want %v", c.what, !c.want, c.want)
		}
	}
}
