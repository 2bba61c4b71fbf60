package pyg

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/require"
)

// expected is a graph as testdata/golden.py writes it down.
type expected struct {
	Types []struct {
		Type  string
		Count int
		X     [][]float32
	}
	Y         []any
	Splits    [][3][]int64
	Relations []struct {
		Source, Name, Target string
		Edges                [][]float32
	}
	Left []string
}

// golden is what testdata/golden.py expects of each file.
func golden(t *testing.T) map[string]expected {
	t.Helper()
	content, err := os.ReadFile("testdata/expected.json")
	require.NoError(t, err)
	all := map[string]expected{}
	require.NoError(t, json.Unmarshal(content, &all))
	return all
}

// written writes a graph down as testdata/golden.py does.
func written(g *graph.Graph) map[string]any {
	types := []any{}
	for _, v := range g.Types {
		types = append(types,
			map[string]any{"type": v.Name(), "count": v.Count, "x": rowsOf(&v.Features, v.Count)})
	}
	relations := []any{}
	for i := range g.Relations {
		r := &g.Relations[i]
		e := r.Edges()
		edges := [][]float32{}
		for k := range e.Source {
			row := []float32{float32(e.Source[k]), float32(e.Target[k])}
			if e.Weights != nil {
				row = append(row, e.Weights[k])
			}
			edges = append(edges, append(row, e.Features[k*e.FeatureColumns:(k+1)*e.FeatureColumns]...))
		}
		source, name, target := r.Ends()
		relations = append(relations,
			map[string]any{"source": source, "name": name, "target": target, "edges": edges})
	}
	var y any
	if g.Types[0].Labels.Class != nil {
		y = g.Types[0].Labels.Class
	} else if g.Types[0].Labels.Multi != nil {
		y = slices.Collect(slices.Chunk(g.Types[0].Labels.Multi, g.Types[0].Labels.Classes))
	}
	splits := [][3][]int64{}
	for _, s := range g.Types[0].Splits {
		splits = append(splits, [3][]int64{s.Train, s.Val, s.Test})
	}
	left := []string{}
	for _, note := range g.Notes {
		if names, ok := strings.CutPrefix(note, "left out: "); ok {
			left = strings.Split(names, ", ")
		}
	}
	return map[string]any{"types": types, "y": y, "splits": splits, "relations": relations, "left": left}
}

func rowsOf(f *graph.Features, vertices int) any {
	if f.Columns == 0 {
		return nil
	}
	rows := [][]float32{}
	for v := range vertices {
		row := make([]float32, f.Columns)
		if f.Sparse() {
			for k := f.Indptr[v]; k < f.Indptr[v+1]; k++ {
				row[f.Indices[k]] = f.Data[k]
			}
		} else {
			copy(row, f.Row(v))
		}
		rows = append(rows, row)
	}
	return rows
}

// opening opens a file.
func opening(path string, o Options) func() (*streamed.Graph, error) {
	return func() (*streamed.Graph, error) { return Open(path, o) }
}

// Each layout that PyG writes is the graph that PyG has of it.
func TestGolden(t *testing.T) {
	all := golden(t)
	for name, want := range all {
		o := Options{}
		if name == "two-labels" {
			o.Target = "author"
		}
		path := filepath.Join("testdata", name+".pt")
		g, err := streamedtest.Read(Open(path, o))
		require.NoError(t, err, name)
		assert.Equal(t, "pyg "+path, g.Provenance, "%s: provenance", name)
		got, err := json.Marshal(written(g))
		require.NoError(t, err)
		var read expected
		require.NoError(t, json.Unmarshal(got, &read))
		assert.Equal(t, want, read, name)
		// A store of it is whole.
		assert.NoError(t, g.Write(filepath.Join(t.TempDir(), "store")), name)
	}
	files, err := filepath.Glob("testdata/*.pt")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pt")
		if _, ok := all[name]; !ok && !strings.HasPrefix(name, "refused-") &&
			!strings.HasPrefix(name, "links") && !strings.HasPrefix(name, "several") &&
			name != "float-labels" {
			t.Errorf("%s is in no test", file)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		target string
		want   string
	}{
		{
			"refused-uncounted", "",
			`a data set of 2 graphs without x or the numbers of their vertices: save them as one, torch.save(Batch.from_data_list(list(dataset)), "graphs.pt")`,
		},
		{"refused-batches", "", "a batch of several graphs: give the graphs apart, or one batch of all " +
			"(graph 0 of a list of 2, counted from 0)"},
		{"refused-other-types", "", "a graph with other types than the first of a list: give graphs of " +
			"the same types of vertices and edges (graph 1 of a list of 2"},
		{
			"refused-mixed-list", "",
			`"x": one of this graph and the graphs before has it, and the other has not: give it to all (graph 2 of a list of 3`,
		},
		{
			"refused-two-dtypes", "",
			`"x": of graph 1 is of type <f8 and shape [2 1], and that of graph 0 of type <f4 with rows of shape [1]: save all alike`,
		},
		{"refused-joined", "", "graph_ids: the edge from vertex 0 of graph 0 leads to vertex 1 of graph " +
			"1; edges join vertices of one graph"},
		{"refused-outside", "", `"edge_index": vertex 2 of graph 0, which has 2 vertices`},
		{
			"refused-class", "",
			`names "fractions.Fraction", which is not on the list of what a dataset's pickle may name; docs/formats.md`,
		},
		{"refused-legacy", "", "a file of torch.save before PyTorch 1.6"},
		{"refused-weights", "", `has no edges (edge_index, adj_t or adj): its fields are ["weight" "bias"]`},
		{"refused-tensor", "", "holds a tensor, no graph of PyTorch Geometric"},
		{
			"refused-type", "",
			`names "torch.float8_e4m3fnuz", which is not on the list of what a dataset's pickle may name; docs/formats.md`,
		},
		{
			"refused-float-edges", "",
			`"edge_index": a tensor of float32, where integers are due: save it after .long()`,
		},
		{"two-labels", "", `the types "author", "paper" have labels (y): choose one with --target`},
		{"two-labels", "poet", `target "poet": its types are "author", "paper", "venue"`},
		{"data", "author", `target "author": the graph has one type of vertices; leave it out`},
	} {
		path := filepath.Join("testdata", c.name+".pt")
		streamedtest.WantRefused(t, opening(path, Options{Target: c.target}), path+": ", c.want)
	}
}

// Labels that are floats, and not whole, are values to predict.
func TestFloatLabels(t *testing.T) {
	g, err := streamedtest.Read(Open("testdata/float-labels.pt", Options{}))
	require.NoError(t, err)
	if l := &g.Types[0].Labels; l.Columns != 1 || len(l.Values) != g.Types[0].Count ||
		l.Values[0]-float32(int(l.Values[0])) != .5 || l.Classes != 0 {
		t.Errorf("labels %+v", l)
	}
}

// Features of which few are not zero become sparse rows unless they are to stay dense.
func TestSparseFeatures(t *testing.T) {
	for keep, sparse := range map[bool]bool{false: true, true: false} {
		g, err := streamedtest.Read(Open("testdata/wide.pt", Options{DenseFeatures: keep}))
		require.NoError(t, err)
		if g.Types[0].Features.Sparse() != sparse ||
			strings.Contains(fmt.Sprint(g.Notes), "stored as sparse rows") != sparse {
			t.Errorf("dense features %v: sparse %v, notes %q", keep, g.Types[0].Features.Sparse(), g.Notes)
		}
	}
}

// Notes name the field that they are about: of the type, where there are types.
func TestNotes(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"testdata/wide.pt", `"x": 0.5 % of the feature values are not zero`},
		{"testdata/hetero-wide.pt", `"x" of "paper": 0.5 % of the feature values are not zero`},
		{"testdata/floats.pt", `"y": floats, all of them whole numbers: read as class ids`},
	} {
		g, err := streamedtest.Read(Open(c.path, Options{}))
		require.NoError(t, err)
		if !slices.ContainsFunc(g.Notes, func(note string) bool { return strings.HasPrefix(note, c.want) }) {
			t.Errorf("%s: notes %q, want one that begins with %q", c.path, g.Notes, c.want)
		}
	}
}

// pickled writes a file whose pickle is that code, with a storage "0" of int64 zeros.
func pickled(t testing.TB, code string, zeros int) string {
	t.Helper()
	return graphtest.File(t, "x.pt", archive(t, code, make([]byte, 8*zeros)))
}

// ids is the code of a tensor of int64 zeros on storage "0"; its sizes stay below 128.
func ids(zeros int, shape ...int) string {
	dims, strides := "(", "("
	for _, n := range shape {
		dims += "K" + string(rune(n))
	}
	for k := range shape {
		step := 1
		for _, n := range shape[k+1:] {
			step *= n
		}
		strides += "K" + string(rune(step))
	}
	return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nLongStorage\n" +
		text("0") + text("cpu") +
		"K" + string(rune(zeros)) + "tQK\x00" + dims + "t" + strides + "t\x89NtR"
}

// text is the code of a string.
func text(s string) string { return "X" + string(rune(len(s))) + "\x00\x00\x00" + s }

// dict is the code of a dict, of keys and values in turn.
func dict(parts ...string) string { return "}(" + strings.Join(parts, "") + "u" }

// hetero is the code of a HeteroData object of these dicts of vertices and edges.
func hetero(vertices, edges string) string {
	return "ctorch_geometric.data.hetero_data\nHeteroData\n)\x81" + dict(text("_node_store_dict"), vertices,
		text("_edge_store_dict"), edges) + "b"
}

func TestDamaged(t *testing.T) {
	edges := text("edge_index") + ids(20, 2, 3)
	relation := "(" + text("a") + text("to") + text("a") + "t"
	for _, c := range []struct{ code, want string }{
		{"N", "holds a plain value"},
		{"]", "a list of 0 values"},
		{")", "a tuple of 0 values"},
		{"(" + dict(edges) + dict(edges) + "t", "a tuple of 2 graphs or other values"},
		{"(" + dict(edges) + dict(edges) + dict(edges) + "t", "a tuple of 3 graphs or other values"},
		{"(" + dict(edges) + text("x") + "t", "a tuple of 2 graphs or other values"},
		{"ctorch_geometric.data.data\nData\n)\x81", "without its attributes"},
		{"ctorch_geometric.data.data\nData\n)\x81" + dict(text("_store"), "N") + "b", "are not a dict"},
		{"ctorch_geometric.data.hetero_data\nHeteroData\n)\x81}b", "without _node_store_dict"},
		{
			"ctorch_geometric.data.storage\nNodeStorage\n)\x81}b",
			`an object of class "torch_geometric.data.storage.NodeStorage"`,
		},
		{dict("K\x01", "K\x01"), "is not called (source, relation, target)"},
		{"ctorch_geometric.data.data\nData\n)\x81" + dict("K\x01", "K\x01") + "b", "a field has no name"},
		{dict(text("edge_index"), "K\x01"), `"edge_index": is no tensor`},
		{dict(text("edge_index"), ids(20, 3, 2)), `"edge_index": has shape [3 2]: it must be 2 × E`},
		{dict(edges, text("num_nodes"), "J\x00\x00\x00\x7f"), `"num_nodes": is [2130706432]`},
		{dict(edges, text("num_nodes"), text("x")), `"num_nodes": is a plain value, no tensor`},
		{dict(edges, text("x"), ids(20, 5)), `"x": features of shape [5]`},
		{dict(edges, text("x"), ids(20, 5, 2), text("y"), ids(20, 4)), `"x": has 5 rows, and "y" has 4`},
		{dict(edges, text("y"), ids(20, 4), text("train_mask"), ids(20, 3)), `"train_mask": has shape [3]`},
		{
			dict(edges, text("y"), ids(20, 4), text("val_mask"), ids(20, 4)),
			`"train_mask": is missing beside "val_mask" and "test_mask"`,
		},
		{
			dict(edges, text("edge_weight"), ids(20, 4)),
			`"edge_weight": has shape [4]: it must be one number for each of 3 edges`,
		},
		{
			dict(edges, text("edge_attr"), ids(20, 4, 2)),
			`"edge_attr": has shape [4 2]: it must have a row for each of 3 edges`,
		},
		{
			dict(edges, text("num_nodes"), "K\x04", text("batch"),
				strings.Replace(ids(20, 4), "Long", "Double", 1)),
			`"batch": a tensor of float64, where integers are due`,
		},
		{
			dict(edges, text("edge_type"), ids(20, 4)),
			`"edge_type": has shape [4]: it must be one number for each of 3 edges`,
		},
		{
			dict(edges, text("num_nodes"), "K\x04", text("train_idx"), ids(20, 1),
				text("train_y"), ids(20, 2)),
			`"train_y": has shape [2]: it must be one class id for each of the 1 vertices in "train_idx"`,
		},
		{
			dict(edges, text("num_nodes"), "K\x04", text("train_idx"), ids(20, 2),
				text("train_y"), ids(20, 2)),
			`"train_idx": entry 2: vertex 0 is given twice`,
		},
		{dict(edges, text("num_nodes"), "K\x04", text("train_idx"), ids(20, 1), text("train_y"), ids(20, 1),
			text("test_idx"), ids(20, 1)), `"test_idx": vertex 0 is also in train_idx`},
		{
			dict(edges, text("num_nodes"), "K\x04", text("test_idx"), ids(20, 1)),
			`"train_idx": is missing beside "val_idx" and "test_idx"`,
		},
		{dict(text("edge_index"), ids(20, 2, 0)), "0 vertices for 0 edges: give their number as num_nodes"},
		{dict(text("adj"), "ctorch_sparse.tensor\nSparseTensor\n)\x81}b"), `"adj": is no tensor`},
		{hetero("N", "}"), `a HeteroData object without _node_store_dict`},
		{hetero(dict(text("a"), "N"), "}"), `the fields of "a" are not a dict`},
		{hetero(dict(relation, "}"), "}"), "a type of vertices has no name"},
		{hetero("}", "}"), "the graph has no type of edges"},
		{dict("(" + text("a") + text("a") + "t" + dict(edges)), "is not called (source, relation, target)"},
		{dict(relation, dict(text("x"), ids(20, 2))), `has no edges of "a__to__a"`},
		{dict("(" + text("a\x01") + text("to") + text("a") + "t" + dict(edges)), `a type is called "a\x01"`},
	} {
		path := pickled(t, c.code+".", 20)
		streamedtest.WantRefused(t, opening(path, Options{}), path+": ", c.want)
	}
}

// Types that share their fields or their vertices cost a pickle a few bytes each: they are refused before
// they take memory.
func TestSharedTypesAreRefused(t *testing.T) {
	var code strings.Builder
	refused := func(want string) {
		t.Helper()
		streamedtest.WantRefused(t, opening(pickled(t, code.String(), 20), Options{}), "", want)
		code.Reset()
	}
	fields := []string{}
	for k := range 100 {
		fields = append(fields, text(fmt.Sprintf("f%d", k)), "N")
	}
	code.WriteString("}(" + text("t") + dict(fields...) + "q\x01")
	for k := range 1000 {
		code.WriteString(text(fmt.Sprintf("t%d", k)) + "h\x01")
	}
	code.WriteString("(" + text("t") + text("to") + text("t") + "t" +
		dict(text("edge_index"), ids(20, 2, 3)) + "u.")
	refused("fields, more than a file of")
	code.WriteString("}(" + text("edge_index_dict") + "}" + text("a_dict") + dict(fields...) + "q\x01")
	for k := range 900 {
		code.WriteString(text(fmt.Sprintf("f%d_dict", k)) + "h\x01")
	}
	code.WriteString("u.")
	refused("fields, more than a file of")
	code.WriteString("}(" + text("t") + dict(text("num_nodes"), "J\x00\x00\x10\x00"))
	for k := range 100 {
		code.WriteString("(" + text("t") + text(fmt.Sprintf("r%d", k)) + text("t") + "t" +
			dict(text("edge_index"), ids(20, 2, 0)))
	}
	code.WriteString("u.")
	refused("too many for a file of")
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pt")
	require.NoError(f, err)
	for _, file := range files {
		if strings.HasSuffix(file, "wide.pt") {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		code, numbers := pulled(f, content)
		f.Add(code, numbers)
	}
	f.Add([]byte(dict(text("edge_index"), ids(20, 2, 3))+"."), make([]byte, 160))
	f.Fuzz(func(t *testing.T, code, numbers []byte) {
		path := graphtest.File(t, "x.pt", archive(t, string(code), numbers))
		streamedtest.AnyBytes(t, opening(path, Options{}), len(code)+len(numbers))
	})
}

// The lines of docs/formats.md that save a file's tensors alone leave the graph as it is, of files that are
// read and of those that are not.
func TestPlainTensors(t *testing.T) {
	if exec.Command("python3", "-c", "import torch, torch_geometric").Run() != nil {
		t.Skip("there is no python3 with PyTorch Geometric (pip install torch torch_geometric)")
	}
	want := golden(t)
	for _, name := range []string{"refused-class", "refused-legacy", "refused-type"} {
		want[name] = want["dataset"]
	}
	folder := t.TempDir()
	command := exec.Command("python3", "-W", "ignore", "testdata/plain.py",
		filepath.Join("..", "..", "docs", "formats.md"), folder)
	for name := range want {
		// PyTorch Geometric 2 cannot use an object of version 1.
		if name != "version-1" {
			command.Args = append(command.Args, filepath.Join("testdata", name+".pt"))
		}
	}
	command.Stderr = os.Stderr
	output, err := command.Output()
	require.NoError(t, err)
	t.Logf("not saved: %s", output)
	saved, err := filepath.Glob(filepath.Join(folder, "*.pt"))
	require.NoError(t, err)
	saved = slices.DeleteFunc(saved, func(path string) bool { return filepath.Base(path) == "theirs.pt" })
	if len(saved) < len(want)-6 { // four files need torch_sparse
		t.Errorf("%d of %d files were saved", len(saved), len(want))
	}
	for _, path := range saved {
		name := filepath.Base(path[:len(path)-len(".pt")])
		o := Options{}
		if name == "two-labels" {
			o.Target = "author"
		}
		g, err := streamedtest.Read(Open(path, o))
		require.NoError(t, err, name)
		content, err := json.Marshal(written(g))
		require.NoError(t, err)
		var got expected
		require.NoError(t, json.Unmarshal(content, &got))
		assert.EqualBy(t, want[name], got, cmpopts.IgnoreFields(expected{}, "Left"))
	}
}

// TestEdgeSplits: the lists of a split of edges are those that golden.py has of PyG's RandomLinkSplit, and
// those of an edge type of a HeteroData. Where edges have an edge_type a list does not say whose it is.
func TestEdgeSplits(t *testing.T) {
	text, err := os.ReadFile("testdata/links.json")
	require.NoError(t, err)
	var want map[string][]int32
	require.NoError(t, json.Unmarshal(text, &want))
	g, err := streamedtest.Read(Open("testdata/links.pt", Options{}))
	require.NoError(t, err)
	s := g.Relations[0].EdgeSplit
	for name, got := range map[string][]int32{
		"train_edges": s.Edges[0], "val_edges": s.Edges[1], "test_edges": s.Edges[2],
		"val_negatives": s.Negative[1], "test_negatives": s.Negative[2],
	} {
		if len(got) == 0 || !slices.Equal(got, want[name]) {
			t.Errorf("%s: %v, want %v", name, got, want[name])
		}
	}
	if s.Negatives != graph.SharedNegatives ||
		slices.ContainsFunc(g.Notes, func(note string) bool { return strings.HasPrefix(note, "left out") }) {
		t.Errorf("%q, %q", s.Negatives, g.Notes)
	}
	g, err = streamedtest.Read(Open("testdata/links-hetero.pt", Options{}))
	require.NoError(t, err)
	if s := g.Relations[0].EdgeSplit; s.Negatives != graph.TargetNegatives ||
		!slices.Equal(s.Edges[0], []int32{0, 3, 1, 2}) || !slices.Equal(s.Negative[2], []int32{0, 2, 3}) {
		t.Errorf("%+v", s)
	}
	path := "testdata/refused-links.pt"
	streamedtest.WantRefused(t, opening(path, Options{}), path, "does not say which edge_type each edge has")
}
