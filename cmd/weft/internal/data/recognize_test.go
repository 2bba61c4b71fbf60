package data

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/datasets"
	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

// TestRecognizedRDF: a folder that weft train NAME reads is imported with the tables and columns of that
// graph, and so are its triples alone.
func TestRecognizedRDF(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"mutag_stripped.nt.gz", "trainingSet.tsv", "testSet.tsv"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	triples := filepath.Join(dir, "mutag_stripped.nt.gz")
	want := "weft import rdf " + triples + " STORE --train " + filepath.Join(dir, "trainingSet.tsv") +
		" --test " + filepath.Join(dir, "testSet.tsv") +
		" --entity bond --label label_mutagenic"
	for _, path := range []string{dir, triples} {
		if r, found := Recognize(path); !found || r.command("STORE") != want {
			t.Errorf("%s: %v, %q, want %q", path, found, r.command("STORE"), want)
		}
	}
}

// TestUnreadableIsNoSource: a path that is there and cannot be opened, as a socket, has no format.
func TestUnreadableIsNoSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket.npz")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer listener.Close()
	if r, found := Recognize(path); found {
		t.Errorf("a socket is taken for the source of %q", r.command("STORE"))
	}
}

// TestFilesOfSources: the files of a source are those that its import reads, in whatever format, without the
// store beside it and what else lies there.
func TestFilesOfSources(t *testing.T) {
	for _, c := range []struct{ there, named, want string }{
		{"a.csv a.csv.weft/graph.json other.csv", "a.csv", "a.csv"},
		{
			"ind.x.x ind.x.y ind.x.tx ind.x.ty ind.x.allx ind.x.ally ind.x.graph ind.x.test.index " +
				"ind.x.weft/graph.json ind.x.notes", "ind.x",
			"ind.x.allx ind.x.ally ind.x.graph ind.x.test.index ind.x.tx ind.x.ty ind.x.x ind.x.y",
		},
		{
			"o/raw/edge.csv.gz o/split/time/train.csv.gz o/runs/x", "o",
			"o/raw/edge.csv.gz o/split/time/train.csv.gz",
		},
		{
			"pay/day=1/0.csv pay/day=2/0.csv pay/_SUCCESS pay.weft/graph.json", "pay",
			"pay/_SUCCESS pay/day=1/0.csv pay/day=2/0.csv",
		},
		{"lists/a_Packages lists/b_InRelease lists/partial/c", "lists", "lists/a_Packages"},
		{
			"d/g.json d/part0/graph.dgl d/part1/graph.dgl d/g.json.weft/graph.json d/notes", "d",
			"d/g.json d/part0/graph.dgl d/part1/graph.dgl",
		},
		{"d/g.json d/part0/graph.dgl d/g.json.weft/graph.json", "d/g.json", "d/g.json d/part0/graph.dgl"},
		{
			"d[1]/g.json d[1]/part0/graph.dgl d1/part0/graph.dgl", "d[1]/g.json",
			"d[1]/g.json d[1]/part0/graph.dgl",
		},
		{"lists[1]/a_Packages lists[1]/partial/c lists1/b_Packages", "lists[1]", "lists[1]/a_Packages"},
		{
			"k/raw/train.txt k/raw/valid.txt.gz k/raw/test.txt k/raw/entities.dict k/raw/licence " +
				"k/raw/train.txt.weft/graph.json k/raw/old.dict k/raw.weft/graph.json", "k",
			"k/raw/entities.dict k/raw/test.txt k/raw/train.txt k/raw/valid.txt.gz",
		},
		{
			"r/aifb_stripped.nt.gz r/trainingSet.tsv r/testSet.tsv r/completeDataset.tsv", "r",
			"r/aifb_stripped.nt.gz r/testSet.tsv r/trainingSet.tsv",
		},
		{"r/aifb_stripped.nt.gz r/trainingSet.tsv", "r/aifb_stripped.nt.gz", "r/aifb_stripped.nt.gz"},
	} {
		dir := t.TempDir()
		for path := range strings.FieldsSeq(c.there) {
			path = filepath.Join(dir, path)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
			require.NoError(t, os.WriteFile(path, []byte("a\n"), 0o666))
		}
		r, found := Recognize(filepath.Join(dir, c.named))
		request, err := r.request("store", nil)
		require.NoError(t, err)
		sources, err := datasets.LookAt(request.files())
		var got []string
		for _, f := range sources {
			if f.Folder {
				continue
			}
			path, err := filepath.Rel(dir, f.Path)
			require.NoError(t, err)
			got = append(got, path)
		}
		slices.Sort(got)
		if err != nil || !found || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v, %q, want %q", c.named, found, err, got, c.want)
		}
	}
}

// TestPrefixIsImportedOnce: the store beside the files of a prefix, whose names begin as its own does, is
// none of them, so that it is made once.
func TestPrefixIsImportedOnce(t *testing.T) {
	from, folder := realdata.File(t, "planetoid"), t.TempDir()
	for _, part := range []string{"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"} {
		content, err := os.ReadFile(filepath.Join(from, "ind.cora."+part))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "ind.cora."+part), content, 0o666)
		}
		require.NoError(t, err)
	}
	prefix := filepath.Join(folder, "ind.cora")
	for _, want := range []string{"importing it once", ""} {
		r, found := FromSource(Source{Name: prefix})
		if !found || r.Format != "planetoid" {
			t.Fatalf("recognized as %+v, %v", r, found)
		}
		var show bytes.Buffer
		store, err := r.imported(t.Context(), &show)
		require.NoError(t, err)
		require.Equal(t, prefix+".weft", store)
		if first, _, _ := strings.Cut(show.String(), ","); !strings.Contains(first, want) ||
			want == "" && first != "" {
			t.Errorf("said %q, want %q", &show, want)
		}
	}
}

// TestResolve: a folder that is no store does not hide a dataset of its name, and a store does.
func TestResolve(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("sbm-8k", 0o777))
	named := Source{Name: "sbm-8k"}
	store, err := Resolve(t.Context(), named, io.Discard)
	if err != nil || store == "sbm-8k" {
		t.Errorf("%s, %v", store, err)
	}
	require.NoError(t, os.CopyFS("sbm-8k", os.DirFS(store)))
	if store, err := Resolve(t.Context(), named, io.Discard); store != "sbm-8k" || err != nil {
		t.Errorf("a store of that name is passed over: %s, %v", store, err)
	}
}

// TestImportsOfDatasets: weft import has the format and the flags of each dataset.
func TestImportsOfDatasets(t *testing.T) {
	t.Setenv("WEFT_DATA", "data")
	for _, d := range datasets.All() {
		i := d.Import()
		if i.Format == "" {
			continue
		}
		recognized := recognition{Format: i.Format, source: i.Source, flags: i.Flags}
		request, err := recognized.request("store", nil)
		require.NoError(t, err, d.Name)
		assert.Empty(t, request.flags.Args(), "%s: words that are no flags", d.Name)
	}
}

// TestPublished reads the published datasets that are here and compares their sizes with the literature's.
func TestPublished(t *testing.T) {
	t.Setenv("WEFT_DATA", realdata.Folder(t))
	t.Setenv("WEFT_CACHE", t.TempDir())
	type sizes struct {
		Vertices                            int
		Edges                               int64
		Features, Classes, Splits, TrainSet int
		Metric                              string
	}
	want := map[string]sizes{
		"cora":        {2708, 10556, 1433, 7, 1, 140, ""},
		"citeseer":    {3327, 9104, 3703, 6, 1, 120, ""},
		"computers":   {13381, 491556, 767, 10, 5, 200, ""},
		"minesweeper": {10000, 78804, 7, 2, 10, 5000, "roc-auc"},
		"mutag":       {23644, 2 * 74227, 0, 2, 1, 272, ""},
	}
	for _, d := range datasets.All() {
		expected, known := want[d.Name]
		if !known {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			vertices, edges, listed := d.Size()
			if missing := d.Missing(); missing != "" {
				t.Skipf("a published graph is not here: %s", missing)
			}
			store, err := Resolve(t.Context(), Source{Name: d.Name}, io.Discard)
			require.NoError(t, err)
			g, err := graph.Open(store)
			require.NoError(t, err)
			defer g.Close()
			got := sizes{
				g.Vertices(), g.Edges(), g.Types[0].Features.Columns, g.Types[0].Labels.Classes,
				len(g.Types[0].Splits),
				len(g.Types[0].Splits[0].Train), g.Metric,
			}
			assert.Equal(t, expected, got)
			if listed && (vertices != got.Vertices || edges != got.Edges) {
				t.Errorf("listed with %d vertices and %d edges", vertices, edges)
			}
		})
	}
}
