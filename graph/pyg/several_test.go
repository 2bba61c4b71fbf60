package pyg

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestSeveralGraphs: several graphs, in each form in which PyG saves them, are the graph that its Batch makes
// of them. Labels of whole graphs are left out.
func TestSeveralGraphs(t *testing.T) {
	type batch struct {
		X     [][]float32 `json:"x"`
		Y     any         `json:"y"`
		Batch []int32     `json:"batch"`
		Train []int64     `json:"train"`
		Edges [][]float32 `json:"edges"`
	}
	text, err := os.ReadFile("testdata/several.json")
	require.NoError(t, err)
	var all map[string]batch
	require.NoError(t, json.Unmarshal(text, &all))
	for name, want := range all {
		g, err := streamedtest.Read(Open("testdata/several-"+name+".pt", Options{}))
		require.NoError(t, err, name)
		got := batch{Batch: g.Types[0].GraphOf, Train: g.Types[0].Splits[0].Train}
		got.X = slices.Collect(slices.Chunk(g.Types[0].Features.Dense, g.Types[0].Features.Columns))
		e := g.Relations[0].Edges()
		for k := range e.Source {
			got.Edges = append(got.Edges, []float32{float32(e.Source[k]), float32(e.Target[k]), e.Weights[k]})
		}
		switch l := &g.Types[0].Labels; {
		case l.Class != nil:
			got.Y = l.Class
		case l.Multi != nil:
			got.Y = slices.Collect(slices.Chunk(l.Multi, l.Classes))
		}
		text, err := json.Marshal(got)
		require.NoError(t, err)
		var read batch
		require.NoError(t, json.Unmarshal(text, &read))
		assert.Equal(t, want, read, name)
		assert.Equal(t, 3, g.Graphs, name)
		left := slices.ContainsFunc(g.Notes, func(note string) bool {
			return strings.HasPrefix(note, `labels of whole graphs left out: "y"`)
		})
		if whole := strings.HasPrefix(name, "whole"); left != whole ||
			slices.ContainsFunc(g.Notes, func(note string) bool {
				return strings.HasPrefix(note, "left out")
			}) {
			t.Errorf("%s: notes %q", name, g.Notes)
		}
	}
}

// TestSeveralTypedGraphs: a list of HeteroData objects, and the Batch of them, are the graph that PyG's Batch
// is, and so is its store. A graph may have no vertex of a type.
func TestSeveralTypedGraphs(t *testing.T) {
	type batch struct {
		X     [][]float32          `json:"x"`
		Y     []int64              `json:"y"`
		Train []int64              `json:"train"`
		Batch map[string][]int32   `json:"batch"`
		Edges map[string][][]int32 `json:"edges"`
	}
	text, err := os.ReadFile("testdata/typed.json")
	require.NoError(t, err)
	var want batch
	require.NoError(t, json.Unmarshal(text, &want))
	check := func(name string, g *graph.Graph) {
		t.Helper()
		got := batch{
			Y: g.Types[0].Labels.Class, Train: g.Types[0].Splits[0].Train, Batch: map[string][]int32{},
			Edges: map[string][][]int32{},
		}
		got.X = slices.Collect(slices.Chunk(g.Types[0].Features.Dense, g.Types[0].Features.Columns))
		for _, v := range g.Types {
			got.Batch[v.Name()] = v.GraphOf
		}
		for i := range g.Relations {
			r := &g.Relations[i]
			e := r.Edges()
			for k := range e.Source {
				got.Edges[r.Name] = append(got.Edges[r.Name], []int32{e.Source[k], e.Target[k]})
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || g.Graphs != 3 {
			t.Errorf("%s: %d graphs (-want +got):\n%s", name, g.Graphs, diff)
		}
	}
	for _, name := range []string{"typed-list", "typed-batch"} {
		g, err := streamedtest.Read(Open("testdata/several-"+name+".pt", Options{}))
		require.NoError(t, err, name)
		check(name, g)
		store := filepath.Join(t.TempDir(), "store")
		require.NoError(t, g.Write(store))
		stored, err := graph.Open(store)
		require.NoError(t, err)
		check("the store of "+name, stored)
		assert.NoError(t, stored.Close())
	}
}

// TestNoVertexOfAType: a graph of a list may have features of no vertices of a type.
func TestNoVertexOfAType(t *testing.T) {
	typed := func(authors int) string {
		relation := "(" + text("paper") + text("cites") + text("paper") + "t"
		return dict(text("author"), dict(text("x"), ids(20, authors, 1)), text("paper"),
			dict(text("x"), ids(20, 3, 2)), relation, dict(text("edge_index"), ids(20, 2, 3)))
	}
	for _, authors := range [][]int{{0, 2}, {2, 0}, {0, 0, 2, 0}} {
		code := "]("
		var want []int32
		for k, n := range authors {
			code += typed(n)
			want = append(want, slices.Repeat([]int32{int32(k)}, n)...)
		}
		g, err := streamedtest.Read(Open(pickled(t, code+"e.", 20), Options{}))
		require.NoError(t, err, "%v authors", authors)
		at := slices.IndexFunc(g.Types, func(v graph.VertexType) bool { return v.Name() == "author" })
		if a := g.Types[at]; g.Graphs != len(authors) || a.Count != 2 || !slices.Equal(a.GraphOf, want) ||
			len(a.Features.Dense) != 2 {
			t.Errorf("%v authors: %d graphs, %+v", authors, g.Graphs, a)
		}
	}
}
