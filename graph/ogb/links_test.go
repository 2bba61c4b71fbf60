package ogb

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestLinkSplits: the splits of edges that golden.py wrote are read as it lists them.
func TestLinkSplits(t *testing.T) {
	train := []int32{0, 1, 1, 2, 2, 3, 3, 0, 0, 1}
	for name, want := range map[string]*graph.EdgeSplit{
		"collab": {
			Negatives: graph.SharedNegatives, Edges: [3][]int32{train, {1, 0, 2, 1}, {0, 2, 3, 1, 0, 2}},
			Negative: [3][]int32{nil, {5, 1, 1, 5, 2, 2}, {5, 4, 4, 4}},
		},
		"citation2": {
			Negatives: graph.TargetNegatives, Edges: [3][]int32{train, {4, 0, 2, 5}, {4, 0, 2, 5}},
			Negative: [3][]int32{nil, {1, 2, 3, 4, 5, 0}, {5, 4, 3, 2, 1, 0}},
		},
	} {
		got, err := readLinkSplit(filepath.Join("testdata", name), 6)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
	for _, c := range []struct {
		name     string
		vertices int
		want     string
	}{
		{
			"wikikg2", 6,
			`testdata/wikikg2/train.pt: a split of triples (head, relation, tail), as ogbl-wikikg2 and ogbl-biokg have, is not read`,
		},
		{
			"collab", 5,
			`testdata/collab/valid.pt: "edge_neg": entry 0: vertex 5 is out of the range of 5 vertices`,
		},
	} {
		_, err := readLinkSplit(filepath.Join("testdata", c.name), c.vertices)
		assert.RefusedFor(t, err, c.want, "")
	}
}

// TestLinkFolder: a folder for link prediction has no labels. Read and Write make the same graph of it, and
// the edges of the name ogbl_collab have their inverses.
func TestLinkFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "ogbl_collab")
	for name, text := range map[string]string{
		"edge": "0,1\n1,2\n2,3\n3,0\n0,1\n", "num-node-list": "6\n",
		"num-edge-list": "5\n", "edge_year": "1\n1\n2\n2\n3\n",
	} {
		gzipped(t, filepath.Join(folder, "raw", name+textSuffix), text)
	}
	require.NoError(t, os.CopyFS(filepath.Join(folder, "split", "time"), os.DirFS("testdata/collab")))
	read := streamedtest.Same(t, func() (*streamed.Graph, error) { return Open(Options{Folder: folder}) })
	if read.Edges() != 10 || read.Types[0].Labels.There() || read.Relations[0].EdgeSplit.Count(0) != 5 {
		t.Errorf("%d edges, %+v", read.Edges(), read.Relations[0].EdgeSplit)
	}
}

// A split that OGB pickled has the ids of its lists; nothing in the file runs.
func TestPickledSplit(t *testing.T) {
	const vertices = 10
	labels := graph.Labels{Classes: 1, Class: make([]int64, vertices)}
	want := graph.Split{Train: []int64{0, 2, 4}, Val: []int64{5}, Test: []int64{1, 9}}
	for file, vertexType := range map[string]string{"split_dict.pt": "", "typed_split_dict.pt": "paper"} {
		got, err := readPickled(filepath.Join("testdata", file), vertexType, vertices, &labels)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	for _, c := range []struct{ file, vertexType, want string }{
		{"split_dict.pt", "paper", `has no ids that are called "train of paper"`},
		{"typed_split_dict.pt", "", `has no ids that are called "train"`},
		{"typed_split_dict.pt", "field", `has no ids that are called "train of field"`},
		{"typed_split_dict.pt", "author", "valid: vertex 0 is also in train"},
		{"refused_split_dict.pt", "", `"train": entry 1: vertex 10 is out of the range of 10 vertices`},
		{"golden.py", "", "give a file of torch.save"},
	} {
		path := filepath.Join("testdata", c.file)
		_, err := readPickled(path, c.vertexType, vertices, &labels)
		assert.RefusedFor(t, err, path+": ", c.want, "%s of %q", c.file, c.vertexType)
	}
}

// It stands in place of the lists.
func TestPickledSplitInPlaceOfLists(t *testing.T) {
	folder := t.TempDir()
	content, err := os.ReadFile("testdata/split_dict.pt")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "split", "time"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "split", "time", pickledSplit), content, 0o666))
	o := Options{Folder: folder}
	splits, err := o.readSplits("", 10, &graph.Labels{Classes: 1, Class: make([]int64, 10)})
	if err != nil || len(splits) != 1 || len(splits[0].Train) != 3 {
		t.Errorf("%v, error %v", splits, err)
	}
}
