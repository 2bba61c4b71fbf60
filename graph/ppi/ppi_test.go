package ppi

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestRead: the graph is the Batch of the graphs that PyG makes of the same files, with the split of the
// files. What is left out is counted.
func TestRead(t *testing.T) {
	type batch struct {
		X      [][]float32 `json:"x"`
		Y      [][]float32 `json:"y"`
		Batch  []int32     `json:"batch"`
		Edges  [][2]int32  `json:"edges"`
		Splits [3][]int64  `json:"splits"`
	}
	text, err := os.ReadFile("testdata/expected.json")
	require.NoError(t, err)
	var want batch
	require.NoError(t, json.Unmarshal(text, &want))
	if !Is("testdata") || Is(t.TempDir()) {
		t.Error("the folder is not known by its files")
	}
	g, err := Read("testdata", Options{})
	require.NoError(t, err)
	got := batch{
		X:     slices.Collect(slices.Chunk(g.Types[0].Features.Dense, g.Types[0].Features.Columns)),
		Y:     slices.Collect(slices.Chunk(g.Labels.Multi, g.Labels.Classes)),
		Batch: g.Types[0].GraphOf, Splits: [3][]int64{g.Splits[0].Train, g.Splits[0].Val, g.Splits[0].Test},
	}
	e := g.Relations[0].Edges()
	for k := range e.Source {
		got.Edges = append(got.Edges, [2]int32{e.Source[k], e.Target[k]})
	}
	if diff := cmp.Diff(want, got); diff != "" || g.Graphs != 5 {
		t.Errorf("%d graphs (-want +got):\n%s", g.Graphs, diff)
	}
	notes := strings.Join(g.Notes, "\n")
	for _, line := range []string{"2 edges that stand twice", "self loops", "2 edges between two graphs"} {
		assert.Contains(t, notes, line, "notes")
	}
}

// damaged copies the fixture, with other bytes in one file.
func damaged(t testing.TB, file string, text []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files, err := filepath.Glob("testdata/*_*")
	require.NoError(t, err)
	require.Len(t, files, 12)
	for _, path := range files {
		all, err := os.ReadFile(path)
		if filepath.Base(path) == file {
			all = text
		}
		if err == nil && all != nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), all, 0o666)
		}
		require.NoError(t, err)
	}
	return dir
}

// TestRefused: what is missing or damaged is one line that names the file.
func TestRefused(t *testing.T) {
	labels, err := os.ReadFile("testdata/train_labels.npy")
	require.NoError(t, err)
	nodes := `{"directed":true,"nodes":[{"id":0},{"id":1},{"name":"x","id":2},{"id":3}],"links":`
	for _, c := range []struct{ file, text, want string }{
		{"test_feats.npy", "", "no such file"},
		{"valid_graph.json", "", "no such file"},
		{"valid_labels.npy", string(labels), "has shape [9 3]: it must have a row for each of 4 vertices"},
		{"valid_graph_id.npy", string(labels), "<i8 of shape [9 3]: it must be the number of a graph for " +
			"each of the 4 rows of"},
		{"valid_feats.npy", "a,b\n", "is no array that numpy.save writes"},
		{"valid_graph.json", "[]", "no object; give what json.dump(networkx.node_link_data(graph)) writes"},
		{"valid_graph.json", `{"nodes":[]}`, "0 nodes for 4 rows of features"},
		{"valid_graph.json", nodes + `[]`, ": EOF: the file is damaged or cut short"},
		{"valid_graph.json", nodes + `[}`, "the file is damaged or cut short"},
		{"valid_graph.json", nodes[:len(nodes)-9] + `}`, "the object has no list nodes, or none of links"},
		{
			"valid_graph.json", nodes + `[{"source":0,"target":4}]}`,
			"an edge from 0 to 4, where nodes are 0 to 3",
		},
		{
			"valid_graph.json", nodes + `[{"source":0,"target":-1}]}`,
			"an edge from 0 to -1, where nodes are 0 to 3",
		},
		{"valid_graph.json", nodes + `[{"source":0.5,"target":1}]}`, `source "0.5" is not a whole number`},
		{"valid_graph.json", nodes + `[{"source":"a","target":1}]}`, `source "a" is not a whole number`},
		{
			"valid_graph.json", nodes + `[{"source":0,"weight":{"of":[1]}}]}`,
			`an object without ["source" "target"]`,
		},
		{"valid_graph.json", nodes + `{}}`, "no list"},
		{"valid_graph.json", nodes + `[]}{}`, "more than one object"},
		{"valid_graph.json", nodes + `[]}}`, "the file is damaged or cut short"},
		{"valid_graph.json", `{"nodes":[{"id":0},{"id":0}]}`, "node 0: a node has an id from 0 to 3"},
		{"valid_graph.json", `{"nodes":[{"id":7}]}`, "node 7: a node has an id from 0 to 3"},
	} {
		text := []byte(c.text)
		if c.text == "" {
			text = nil
		}
		dir := damaged(t, c.file, text)
		_, err := Read(dir, Options{})
		assert.RefusedFor(t, err, filepath.Join(dir, c.file), c.want, "%s %q", c.file, c.text)
	}
}

// FuzzLinks reads any JSON as the edges of four vertices.
func FuzzLinks(f *testing.F) {
	text, err := os.ReadFile("testdata/valid_graph.json")
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"directed":1,"nodes":[{"id":1e300}],"edges":[[]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l := &links{}
		if err := l.read(json.NewDecoder(bytes.NewReader(text)), 4); err != nil {
			return
		}
		e, err := l.edges([]int32{0, 0, 1, 1}, &left{})
		if err != nil || len(e.Source) > 2*len(text) {
			t.Errorf("%d edges of %d bytes, %v", len(e.Source), len(text), err)
		}
		_, err = graph.NewRelation(4, e)
		assert.NoError(t, err)
	})
}
