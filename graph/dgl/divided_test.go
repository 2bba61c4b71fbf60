package dgl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph/dgl/dgltest"
	"weft/graph/graphtest"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// divide writes a graph in two partitions and returns the path of the JSON file.
func divide(t testing.TB, g *dgltest.Graph, d dgltest.Division) string {
	t.Helper()
	dir := t.TempDir()
	d.K = max(d.K, 2)
	for _, v := range g.Vertices {
		parts := make([]int, v.Count)
		for k := range parts {
			parts[k] = (k*k + 1) % d.K
		}
		d.Parts = append(d.Parts, parts)
	}
	require.NoError(t, dgltest.Divide(dir, "g", g, d))
	return filepath.Join(dir, "g.json")
}

// A graph that was divided, put together again, is the graph, where DGL wrote the vertices' ids from before:
// up to 0.9, or by its tools.
func TestDivided(t *testing.T) {
	for _, g := range []*dgltest.Graph{ring(), shop()} {
		whole, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, g)), only)
		for _, d := range []dgltest.Division{
			{Names: dgltest.Older},
			{Original: true},
			{Names: dgltest.Oldest},
			{Names: dgltest.Older, K: 3},
		} {
			if d.Names == dgltest.Oldest && len(g.Vertices) > 1 {
				continue // it knew one type
			}
			got, division := read(t, divide(t, g, d), only)
			same(t, got, whole)
			assert.Equal(t, "vertices have the ids that they had before DGL divided the graph", got.Notes[0],
				"notes %q", got.Notes)
			var want []int32
			for _, vertices := range got.Types {
				for k := range vertices.Count {
					want = append(want, int32((k*k+1)%division.K))
				}
			}
			assert.Equal(t, want, division.Parts)
			assert.Equal(t, max(d.K, 2), division.K)
		}
	}
}

// Without these ids vertices are numbered as DGL numbered them: by partition, and then in their order.
func TestDividedIDs(t *testing.T) {
	whole, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, ring())),
		Options{Graph: AllGraphs, EdgeWeights: "w"})
	got, d := read(t, divide(t, ring(), dgltest.Division{}), Options{Graph: AllGraphs, EdgeWeights: "w"})
	assert.Equal(t, "vertices have DGL's ids of the divided graph, whose files do not hold those before",
		got.Notes[0], "notes %q", got.Notes)
	var newID []int32 // of each vertex
	for p := range int32(2) {
		for v := range 10 {
			if int32((v*v+1)%2) == p {
				newID = append(newID, int32(v))
			}
		}
	}
	renamed := make([]int32, 10)
	for k, v := range newID {
		renamed[v] = int32(k)
	}
	same(t, got, graphtest.Permuted(t, whole, renamed))
	assert.Equal(t, []int32{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, d.Parts, "partitions")
}

// One partition is the graph, and no division.
func TestDividedInOne(t *testing.T) {
	g := shop()
	dir := t.TempDir()
	err := dgltest.Divide(dir, "g", g,
		dgltest.Division{K: 1, Parts: [][]int{make([]int, 2), make([]int, 4), make([]int, 3)}})
	require.NoError(t, err)
	whole, _ := read(t, graphtest.File(t, "g.bin", dgltest.Graphs(nil, g)), only)
	got, d := read(t, filepath.Join(dir, "g.json"), only)
	same(t, got, whole)
	if d != nil || !strings.Contains(got.Notes[0], "before DGL divided") {
		t.Errorf("%v, notes %q", d, got.Notes)
	}
}

// edit changes the JSON of a divided graph.
func edit(t *testing.T, path string, change func(doc map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	doc := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &doc))
	change(doc)
	if text, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	require.NoError(t, err)
}

// What the JSON file says is held against the partitions' files, and no file elsewhere is read.
func TestDividedRefused(t *testing.T) {
	part := func(doc map[string]any) map[string]any { return doc["part-1"].(map[string]any) }
	for want, change := range map[string]func(doc map[string]any){
		`part-1: part_graph: it names "../g.json", which is not within its folder`: func(doc map[string]any) {
			part(doc)["part_graph"] = "../g.json"
		},
		`part-1: node_feats: it names "/etc/passwd", which is not within its folder`: func(doc map[string]any) {
			part(doc)["node_feats"] = "/etc/passwd"
		},
		`part-1: "part1/x.pt" is a graph of GraphBolt, a pickle, which is never read: divide`: func(doc map[string]any) {
			doc["part-1"] = map[string]any{"part_graph_graphbolt": "part1/x.pt"}
		},
		`part-1: names no node_feats`: func(doc map[string]any) {
			delete(part(doc), "node_feats")
		},
		`part-1: names no edge_feats`: func(doc map[string]any) {
			delete(part(doc), "edge_feats")
		},
		`num_edges is -1`: func(doc map[string]any) {
			doc["num_edges"] = -1
		},
		`edge_map: the ranges end at 9, and num_edges is 10`: func(doc map[string]any) {
			doc["num_edges"] = 10
		},
		`num_edges is 10, and the partitions have 9 edges of their own`: func(doc map[string]any) {
			doc["num_edges"] = 10
			delete(doc, "edge_map")
		},
		`edge_map: a range begins at 1, where the ids before it end at 0`: func(doc map[string]any) {
			for _, ranges := range doc["edge_map"].(map[string]any) {
				for _, pair := range ranges.([]any) {
					ends := pair.([]any)
					ends[0], ends[1] = ends[0].(float64)+1, ends[1].(float64)+1
				}
			}
		},
		`part-1: names no part_graph`: func(doc map[string]any) { delete(part(doc), "part_graph") },
		`part-1: is not there`:        func(doc map[string]any) { delete(doc, "part-1") },
		`num_parts is 0`:              func(doc map[string]any) { doc["num_parts"] = 0 },
		`num_parts is 1025`:           func(doc map[string]any) { doc["num_parts"] = 1025 },
		`num_nodes is -1`:             func(doc map[string]any) { doc["num_nodes"] = -1 },
		`node_map: the ranges end at 9, and there are 10 ids`: func(doc map[string]any) {
			doc["num_nodes"] = 10
		},
		`node_map: "node_map.npy" is a file, as of a graph that was divided with reshuffle=False: divide it again with reshuffle=True`: func(doc map[string]any) {
			doc["node_map"] = "node_map.npy"
		},
		`node_map: ranges of 1 partitions, of which there are 2`: func(doc map[string]any) {
			doc["node_map"] = map[string]any{
				"dev": [][]int{{0, 1}}, "game": [][]int{{0, 1}},
				"user": [][]int{{0, 1}},
			}
		},
		`edge_map: lists of 0 types, of which there are 3`: func(doc map[string]any) {
			doc["edge_map"] = map[string]any{}
		},
		`vertices, where node_map says that 2147483643 are its own`: func(doc map[string]any) {
			doc["num_nodes"] = math.MaxInt32
			doc["node_map"] = map[string]any{
				"dev": [][]int{{0, 1}, {4, 5}}, "game": [][]int{{1, 3}, {5, 7}},
				"user": [][]int{{3, 4}, {7, math.MaxInt32}},
			}
		},
		`ntypes: the type "dev" has the number 3 among 3`: func(doc map[string]any) {
			doc["ntypes"].(map[string]any)["dev"] = 3
		},
		`0 edges of type "dev:makes:game" of its own, where edge_map says`: func(doc map[string]any) {
			doc["part-0"], doc["part-1"] = doc["part-1"], doc["part-0"]
		},
	} {
		path := divide(t, shop(), dgltest.Division{})
		edit(t, path, change)
		if strings.Contains(want, "of its own") {
			want = "of its own, where "
		}
		refused(t, path, only, want)
	}
	path := divide(t, shop(), dgltest.Division{})
	refused(t, path, Options{Graph: 0}, "it describes one graph, so leave --graph out")
	refused(t, filepath.Join(filepath.Dir(path), "part1", "graph.dgl"), only,
		"one partition of a graph that DGL divided: give the JSON file")
	for want, change := range map[string]func(dir string) error{
		"tensors saved by DGL": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "part1", "node_feat.dgl"), []byte("x"), 0o600)
		},
		"no such file": func(dir string) error {
			return os.Remove(filepath.Join(dir, "part0", "edge_feat.dgl"))
		},
		`there is no tensor "_ID", which DGL writes when it divides a graph`: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "part1", "graph.dgl"), dgltest.Graphs(nil, ring()), 0o600)
		},
		`the tensor "features" of "game": is not there, and other partitions have it`: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "part1", "node_feat.dgl"),
				dgltest.File(dgltest.Tensors{"user/feat": dgltest.Of([]int64{})}), 0o600)
		},
		`the tensor "users/feat" is of none of the types "dev", "game", "user"`: func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "part1", "node_feat.dgl"),
				dgltest.File(dgltest.Tensors{"users/feat": dgltest.Of([]int64{})}), 0o600)
		},
		"had the id 0 before the graph was divided, which another had": func(dir string) error {
			for p := range 2 {
				file := filepath.Join(dir, fmt.Sprintf("part%d", p), originalFile)
				all := dgltest.Tensors{}
				for _, name := range []string{"dev", "game", "user"} {
					n := map[string][2]int{"dev": {1, 1}, "game": {2, 2}, "user": {1, 2}}[name][p]
					all[name] = dgltest.Of(make([]int64, n))
				}
				if err := os.WriteFile(file, dgltest.File(all), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		path := divide(t, shop(), dgltest.Division{})
		require.NoError(t, change(filepath.Dir(path)))
		refused(t, path, only, want)
	}
}

// No file outside of the JSON file's folder is read, over no link either.
func TestDividedStaysInItsFolder(t *testing.T) {
	for _, file := range []string{"graph.dgl", "node_feat.dgl", "edge_feat.dgl", originalFile} {
		path := divide(t, shop(), dgltest.Division{Original: true})
		part := filepath.Join(filepath.Dir(path), "part1", file)
		outside := filepath.Join(t.TempDir(), "elsewhere")
		require.NoError(t, errors.Join(os.Rename(part, outside), os.Symlink(outside, part)))
		refused(t, path, only, part+": a link leads out of the folder "+filepath.Dir(path))
		within := filepath.Join(filepath.Dir(path), "within")
		require.NoError(t, errors.Join(os.Remove(part), os.Rename(outside, within),
			os.Symlink("../within", part)))
		read(t, path, only)
	}
}

// A folder stands for the only JSON file in it.
func TestFolder(t *testing.T) {
	path := divide(t, ring(), dgltest.Division{})
	dir := filepath.Dir(path)
	want, _ := read(t, path, only)
	got, d := read(t, dir, only)
	same(t, got, want)
	assert.Equal(t, "dgl "+path, got.Provenance)
	assert.Equal(t, 2, d.K)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), nil, 0o600))
	refused(t, dir, only,
		`is a directory with the JSON files "g.json", "other.json": give the one of the divided graph`)
	refused(t, filepath.Join(dir, "part0"), only, "is a directory without a JSON file: give the JSON file "+
		"of a divided graph")
}

// The forms that DGL has written ranges in.
func TestRanges(t *testing.T) {
	want := [][]span{{{0, 3}, {3, 7}}}
	for _, text := range []string{
		`{"_N": [[0, 3], [3, 7]]}`, `{"_N": [3, 7]}`, `[3, 7]`,
		`[[0, 3], [3, 7]]`,
	} {
		got, err := spans([]byte(text), []string{"_N"}, 2)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
}

func FuzzGraphs(f *testing.F) {
	f.Add(dgltest.Graphs(nil, ring()))
	f.Add(dgltest.Graphs(dgltest.Tensors{"y": dgltest.Of([]int64{1})}, shop()))
	f.Fuzz(func(t *testing.T, content []byte) {
		tryRead(t, graphtest.File(t, "g.bin", content), len(content))
	})
}

func FuzzDivided(f *testing.F) {
	for _, c := range []struct {
		g *dgltest.Graph
		d dgltest.Division
	}{
		{ring(), dgltest.Division{}},
		{ring(), dgltest.Division{Names: dgltest.Oldest}},
		{ring(), dgltest.Division{Original: true}},
		{shop(), dgltest.Division{}},
		{shop(), dgltest.Division{Original: true}},
	} {
		dir := filepath.Dir(divide(f, c.g, c.d))
		file := func(name string) []byte {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil && filepath.Base(name) != originalFile {
				f.Fatal(err)
			}
			return content
		}
		f.Add(file("g.json"), file("part0/graph.dgl"), file("part0/node_feat.dgl"),
			file("part0/edge_feat.dgl"), file("part0/"+originalFile),
			file("part1/graph.dgl"), file("part1/node_feat.dgl"), file("part1/edge_feat.dgl"),
			file("part1/"+originalFile))
	}
	f.Fuzz(func(t *testing.T, config, graph0, vertices0, edges0, original0, graph1, vertices1, edges1,
		original1 []byte,
	) {
		dir, bytes := t.TempDir(), 0
		for name, content := range map[string][]byte{
			"g.json":          config,
			"part0/graph.dgl": graph0, "part0/node_feat.dgl": vertices0, "part0/edge_feat.dgl": edges0,
			"part0/" + originalFile: original0,
			"part1/graph.dgl":       graph1, "part1/node_feat.dgl": vertices1, "part1/edge_feat.dgl": edges1,
			"part1/" + originalFile: original1,
		} {
			if len(content) == 0 {
				continue // the file is not there
			}
			bytes += len(content)
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		tryRead(t, filepath.Join(dir, "g.json"), bytes)
	})
}

// tryRead reads what may be damaged: it is refused, or makes a graph that passes its checks.
func tryRead(t *testing.T, path string, bytes int) {
	streamedtest.AnyBytes(t, opening(path, only), bytes)
	g, d, err := Open(path, only)
	if err != nil {
		return
	}
	defer g.Close()
	if d != nil && len(d.Parts) != g.InMemory.Vertices() {
		t.Errorf("partitions of %d vertices, and %d vertices", len(d.Parts), g.InMemory.Vertices())
	}
}
