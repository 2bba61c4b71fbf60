package npz

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// folder writes a folder of .npy files and returns its path.
func folder(t testing.TB, entries ...entry) string {
	t.Helper()
	files := map[string]string{}
	for _, e := range entries {
		files[e.key+".npy"] = e.file
	}
	return graphtest.Files(t, files)
}

// typed are three authors, two papers and a venue, of which the papers have labels.
func typed() []entry {
	return []entry{
		array("vertex_types", "<U6", "(3,)", text(6, "author", "paper", "venue")),
		array("edge_types", "<U6", "(2, 3)", text(6, "author", "writes", "paper", "paper", "in", "venue")),
		array("vertices/author/x", "<f4", "(3, 2)", []float32{1, 2, 3, 4, 5, 6}),
		array("vertices/paper/x_data", "<f4", "(1,)", []float32{9}),
		array("vertices/paper/x_indices", "<i4", "(1,)", []int32{3}),
		array("vertices/paper/x_indptr", "<i4", "(3,)", []int32{0, 0, 1}),
		array("vertices/paper/x_shape", "<i8", "(2,)", []int64{2, 4}),
		array("vertices/paper/y", "<i8", "(2,)", []int64{1, 0}),
		array("vertices/paper/train_mask", "|b1", "(2,)", []byte{0, 1}),
		array("edges/author__writes__paper/edge_index", "<i8", "(2, 4)", []int64{2, 0, 1, 2, 1, 1, 0, 0}),
		array("edges/author__writes__paper/edge_weight", "<f4", "(4,)", []float32{.5, 1, 2, 4}),
		array("edges/paper__in__venue/edge_index", "<i8", "(2, 1)", []int64{1, 0}),
		array("edges/paper__in__venue/edge_attr", "<f4", "(1, 2)", []float32{7, 8}),
	}
}

// text are the code points of words, each padded to so many.
func text(width int, words ...string) (points []int32) {
	for _, word := range words {
		padded := make([]int32, width)
		for k, r := range []rune(word) {
			padded[k] = r
		}
		points = append(points, padded...)
	}
	return points
}

// A folder of .npy files is the graph of the archive of the same arrays, in memory and in a stream.
func TestFolder(t *testing.T) {
	for name, entries := range map[string][]entry{
		"sparse": sparse(), "heterophilous": heterophilous(), "edge list": edgeList(),
		"fields": fields(), "typed": typed(),
	} {
		want, err := streamedtest.Read(Open(write(t, entries...), Options{}))
		require.NoError(t, err)
		dir := folder(t, entries...)
		got := streamedtest.Same(t, opening(dir))
		assert.Equal(t, "npz "+dir, got.Provenance, "%s: made by", name)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(graph.Graph{}, "Provenance"),
			cmpopts.IgnoreUnexported(graph.Graph{}, graph.Relation{})); diff != "" {
			t.Errorf("%s (-archive +folder):\n%s", name, diff)
		}
	}
}

// What else is in a folder is named, and what is not in it is not read.
func TestFolderOfOthers(t *testing.T) {
	dir := folder(t, fields()...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("x"), 0o600))
	g, err := streamedtest.Read(Open(dir, Options{}))
	if err != nil || len(g.Warnings) != 1 || g.Warnings[0] != dir+
		`: not read, as they are no arrays (.npy): "notes.txt"` {
		t.Errorf("%v, %v", g, err)
	}
	elsewhere := filepath.Join(folder(t, array("x", "<f4", "(3, 1)", []float32{1, 2, 3})), "x.npy")
	require.NoError(t, os.Remove(filepath.Join(dir, "x.npy")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "x.npy")))
	for want, path := range map[string]string{
		"a link leads out of the folder": dir,
		"its arrays (none) have none":    t.TempDir(),
		"has more than 1000 files":       many(t),
	} {
		streamedtest.WantRefused(t, opening(path), path+": ", want)
	}
}

// many is a folder of more files than a graph has.
func many(t *testing.T) string {
	files := map[string]string{}
	for k := range 1001 {
		files[fmt.Sprint(k, ".npy")] = ""
	}
	return graphtest.Files(t, files)
}

// The type that has labels comes first; each has its features, and each relation its edges.
func TestTyped(t *testing.T) {
	g, err := streamedtest.Read(Open(write(t, typed()...), Options{}))
	require.NoError(t, err)
	writes, in := &g.Relations[0], &g.Relations[1]
	type facts struct {
		Types                              []string
		Counts                             []int
		X                                  []float32
		Indices, Sources                   []int32
		Data, Weights                      []float32
		Class, Train                       []int64
		EdgeFeatures                       []float32
		Source, Name, Target, Notes, Other string
	}
	got := facts{
		X: g.Types[1].Features.Dense, Indices: g.Types[0].Features.Indices, Data: g.Types[0].Features.Data,
		Class: g.Types[0].Labels.Class, Train: g.Types[0].Splits[0].Train, Sources: writes.Sources,
		Weights:      writes.Weights,
		EdgeFeatures: in.Features.Dense, Source: writes.Source, Name: writes.Name, Target: writes.Target,
		Other: in.Name, Notes: strings.Join(g.Notes, "; "),
	}
	for _, v := range g.Types {
		got.Types, got.Counts = append(got.Types, v.Name()), append(got.Counts, v.Count)
	}
	want := facts{
		Types: []string{"paper", "author", "venue"}, Counts: []int{2, 3, 1}, X: []float32{1, 2, 3, 4, 5, 6},
		Indices: []int32{3}, Data: []float32{9}, Class: []int64{1, 0}, Train: []int64{1},
		Sources: []int32{1, 2, 0, 2}, Weights: []float32{2, 4, 1, .5}, EdgeFeatures: []float32{7, 8},
		Source: "author", Name: "writes", Target: "paper", Other: "in",
		Notes: "5 edges of 2 relations, as the file lists them",
	}
	assert.Equal(t, want, got)
	g, err = streamedtest.Read(Open(write(t,
		array("vertex_types", "<U3", "(2,)", text(3, "a/b", ".c")),
		array("edge_types", "<U3", "(1, 3)", text(3, "a/b", "to", ".c")),
		array("edges/a%2Fb__to__.c/edge_index", "<i8", "(2, 1)", []int64{3, 0}),
		array("vertices/%2Ec/num_nodes", "<i8", "()", []int64{2}),
	), Options{}))
	require.NoError(t, err)
	if note := "1 edge of 1 relation, as the file lists them"; g.Types[0].Type != "a/b" || g.Types[0].Count != 4 ||
		g.Types[1].Name() != ".c" || g.Types[1].Count != 2 || g.Notes[0] != note {
		t.Errorf("%q of %d, %q of %d, %q", g.Types[0].Type, g.Types[0].Count, g.Types[1].Name(),
			g.Types[1].Count, g.Notes)
	}
	same := func(changed ...entry) []entry {
		all := typed()
		for _, c := range changed {
			all = append(without(all, c.key), c)
		}
		return all
	}
	for want, entries := range map[string][]entry{
		`has the arrays "vertex_types" without "edge_types"`: without(
			typed(), "edge_types"),
		`array "vertex_types" has "author" twice`: same(array("vertex_types",
			"<U6", "(3,)", text(6, "author", "author", "paper"))),
		`array "edge_types" joins vertices of the type "editor"`: same(
			array("edge_types", "<U6", "(1, 3)", text(6, "editor", "edits", "paper"))),
		`has no array "edges/paper__in__venue/edge_index"`: without(typed(),
			"edges/paper__in__venue/edge_index"),
		`array "vertices/paper/z" is not read`: append(typed(),
			array("vertices/paper/z", "<i8", "(1,)", []int64{1})),
		`array "vertex_types": has shape [3 1]`: same(array("vertex_types",
			"<U6", "(3, 1)", text(6, "author", "paper", "venue"))),
		`the arrays "vertices/author/y" and "vertices/paper/y" are both labels`: append(typed(),
			array("vertices/author/y", "<i8", "(3,)", []int64{1, 0, 1})),
		`array "vertices/paper/y": has 3 rows, not 2`: append(
			same(array("vertices/paper/y", "<i8", "(3,)", []int64{1, 0, 1})),
			array("vertices/paper/num_nodes", "<i8", "()", []int64{2})),
		`has features twice, as "vertices/paper/x" and as "vertices/paper/x_data"`: append(typed(),
			array("vertices/paper/x", "<f4", "(2, 1)", []float32{1, 2})),
		`array "edges/author__writes__paper/edge_index": `: same(
			array("edges/author__writes__paper/edge_index", "<i8", "(2, 4)",
				[]int64{3, 0, 1, 2, 1, 1, 0, 0})),
		`has no array "vertices/author/batch", which other types have`: append(typed(),
			array("vertices/paper/batch", "<i8", "(2,)", []int64{0, 1})),
		`2 relations of 2000000 vertices in all, with 5 edges`: append(without(typed(), "vertices/author/x"),
			array("vertices/author/num_nodes", "<i8", "()", []int64{1_000_000}),
			array("vertices/venue/num_nodes", "<i8", "()", []int64{1_000_000})),
	} {
		refused(t, want, entries...)
	}
}
