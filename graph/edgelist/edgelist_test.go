package edgelist

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/gzip"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func array(t testing.TB, data any, shape ...int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "array.npy")
	require.NoError(t, npytest.WriteFile(path, data, shape...))
	return path
}

func zipped(t testing.TB, content string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

// reading is a file and what it holds.
type reading struct {
	name, content string
	strings       bool // its ids are names
	want          graph.Relation
	names         []string
}

func (r *reading) check(t *testing.T, file string) {
	t.Helper()
	path := write(t, file, r.content)
	got, err := Read(Options{Path: path, Strings: r.strings})
	require.NoError(t, err, r.name)
	all := &graph.Graph{Relations: []graph.Relation{r.want}, Names: r.names, Provenance: "edges " + path}
	assert.EqualBy(t, all, got, cmpopts.IgnoreUnexported(graph.Graph{}),
		cmpopts.IgnoreFields(graph.Graph{}, "Warnings"))
}

// Every spelling of the edges 0→1, 2→0, 0→1.
func TestSpellings(t *testing.T) {
	want := graph.Relation{Indptr: []int64{0, 1, 3, 3}, Sources: []int32{2, 0, 0}}
	weighted := want
	weighted.Weights = []float32{-.25, .5, 3}
	names := []string{"0", "1", "2"}
	for _, c := range []reading{
		{"spaces", "0 1\n2 0\n0 1\n", false, want, nil},
		{"runs of blanks", "  0 \t1 \n2\t\t0\n0  1", false, want, nil},
		{"tabs", "0\t1\n2\t0\n0\t1\n", false, want, nil},
		{"commas, header, carriage returns", "source,target\r\n0,1\r\n2,0\r\n\r\n0,1\r\n", false, want, nil},
		{"byte order mark", "\xef\xbb\xbf0,1\n2,0\n0,1\n", false, want, nil},
		{"byte order mark and header", "\xef\xbb\xbfu;v\n0;1\n2;0\n0;1\n", false, want, nil},
		{"comments", "# FromNodeId ToNodeId\n% x\n\n0 1\n#\n2 0\n0 1\n", false, want, nil},
		{"quotes", "\"from\",\"to\"\n\"0\",\"1\"\n \"2\" , \"0\"\n0,1\n", false, want, nil},
		{"weights", "src,dst,weight\n0,1,0.5\n2, 0, -2.5e-1\n0,1,3\n", false, weighted, nil},
		{"columns by name", "weight,dst,src\n0.5,1,0\n-.25,0,2\n3,1,0\n", false, weighted, nil},
		{"names in columns by name", "to,from\na,b\nb,c\na,b\n", true, want, []string{"b", "a", "c"}},
		{"gzip", zipped(t, "0 1\n2 0\n0 1\n"), false, want, nil},
		{"names", "b,a\nc,b\nb,a\n", true, want, []string{"b", "a", "c"}},
		{
			"names with a header", "Source\tTarget\nx y\tä\n\"z\"\"z\"\tx y\nx y\tä\n", true, want,
			[]string{"x y", "ä", `z"z`},
		},
		{"names that start with a quote", "'a \"b\n\"c 'a\n'a \"b\n", true, want, []string{"'a", `"b`, `"c`}},
		{"weighted names", "0 1 .5\n2 0 -.25\n0 1 3", true, weighted, names},
	} {
		c.check(t, "edges.txt")
	}
}

// TestEdgeWeights: a column that is named has the weights, in text and in Parquet, and weight then has none.
func TestEdgeWeights(t *testing.T) {
	for file, content := range map[string]string{
		"e.csv":     "size,src,note,dst\n1,0,10,1\n2,2,20,0\n3,0,30,1\n",
		"e.parquet": tableOf(t, []featuredEdge{{1, 0, 10, .5, 1}, {2, 2, 20, -.25, 0}, {3, 0, 30, 3, 1}}),
	} {
		g, err := Read(Options{
			Path: write(t, file, content), EdgeWeights: "size", EdgeFeatures: []string{"note"},
		})
		require.NoError(t, err, file)
		assert.Equal(t, []float32{2, 1, 3}, g.Relations[0].Weights, file)
		assert.Equal(t, []float32{20, 10, 30}, g.Relations[0].EdgeFeatures, file)
	}
	for content, want := range map[string]string{
		"0,1,2\n":                    "there is no header, and edge-weights needs the names of columns",
		"src,dst,weight\n0,1,2\n":    `e.csv:1: "weight" is not the name of a known column`,
		"src,dst,weight,size\n0,1,2": `e.csv:1: "weight" is not the name of a known column`,
		"src,dst\n0,1\n":             `names no "size", which edge-weights asks for: it names ["src" "dst"]`,
	} {
		_, err := Read(Options{Path: write(t, "e.csv", content), EdgeWeights: "size"})
		assert.Refused(t, err, want, "%q", content)
	}
}

// TestEdgeFeatures: columns that are named are features of the edges, in text and in Parquet.
func TestEdgeFeatures(t *testing.T) {
	for file, of := range map[string]struct {
		content string
		names   []string
	}{
		"e.csv": {
			"size,src,note,weight,dst\n1,0,10,.5,1\n2,2,20,-.25,0\n3,0,30,3,1\n", []string{"note", "size"},
		},
		"names.csv": {
			"size\tsrc\tnote\tweight\tdst\n1\t0\t10\t.5\t1\n2\t2\t20\t-.25\t0\n3\t0\t30\t3\t1\n",
			[]string{"note", "size"},
		},
		"e.parquet": {
			tableOf(t, []featuredEdge{{1, 0, 10, .5, 1}, {2, 2, 20, -.25, 0}, {3, 0, 30, 3, 1}}),
			[]string{"note", "size"},
		},
		"weight.csv": {"note,weight,src,dst\n10,1,0,1\n20,2,2,0\n30,3,0,1\n", []string{"note", "weight"}},
	} {
		g, err := Read(Options{
			Path: write(t, file, of.content), EdgeFeatures: of.names, Strings: file == "names.csv",
		})
		require.NoError(t, err, file)
		want := graph.Relation{
			Indptr: []int64{0, 1, 3, 3}, Sources: []int32{2, 0, 0}, Weights: []float32{-.25, .5, 3},
			EdgeFeatures: []float32{20, 2, 10, 1, 30, 3}, EdgeColumns: 2,
		}
		if file == "weight.csv" {
			want.Weights = nil
		}
		if diff := cmp.Diff(want, g.Relations[0]); diff != "" || len(g.Warnings) > 0 {
			t.Errorf("%s: %s, warnings %q", file, diff, g.Warnings)
		}
	}
	for _, c := range []struct{ file, content, want string }{
		{"e.csv", "0,1,2\n", "e.csv:1: there is no header, and edge-features needs the names of columns"},
		{"e.csv", "src,dst\n0,1\n", `names no "size", which edge-features asks for: it names ["src" "dst"]`},
		{"e.csv", "src,dst,size,kind\n0,1,2,3\n", `"kind" is not the name of a known column`},
		{"e.csv", "src,dst,size\n0,1\n", "e.csv:2: 2 columns: the header names 3"},
		{"e.csv", "src,dst,size\n0,1,2,3,4,5\n", "e.csv:2: more than 4 columns: the header names 3"},
		{"e.csv", "src,dst,size\n0,1,big\n", `the feature "size" "big" is not a number`},
		{"e.csv", "src,dst,size\n0,1,inf\n", `the feature "size" +Inf is not a finite number`},
		{"e.parquet", tableOf(t, []plainEdge{{0, 1}}), `none is "size", which edge-features asks for`},
		{
			"e.parquet", tableOf(t, []textFeature{{0, 1, "big"}}),
			`column "size" does not hold one number per row`,
		},
	} {
		_, err := Read(Options{Path: write(t, c.file, c.content), EdgeFeatures: []string{"size"}})
		assert.Refused(t, err, c.want, "%q", c.content)
	}
	_, err := Read(Options{Path: write(t, "e.csv", "u,v,a\n0,1,2\n"), EdgeFeatures: []string{"a", "a"}})
	assert.Refused(t, err, "", "a column named twice")
}

func TestArraysBeside(t *testing.T) {
	nan := float32(math.NaN())
	o := Options{
		Path:     write(t, "e.csv", "0,1\n2,0\n"),
		Features: array(t, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2),
		Labels:   array(t, []int64{1, 0, -1, 2}, 4), Train: array(t, []int64{3, 0}, 2),
		Test: array(t, []bool{false, true, false, false}, 4),
	}
	got, err := Read(o)
	require.NoError(t, err)
	want := &graph.Graph{
		// Vertex 3 has a row of features and no edge.
		Relations:  []graph.Relation{{Indptr: []int64{0, 1, 2, 2, 2}, Sources: []int32{2, 0}}},
		Features:   graph.Features{Columns: 2, Dense: []float32{1, 2, 3, 4, 5, 6, 7, 8}},
		Labels:     graph.Labels{Classes: 3, Class: []int64{1, 0, -1, 2}},
		Splits:     []graph.Split{{Train: []int64{0, 3}, Val: []int64{}, Test: []int64{1}}},
		Provenance: "edges " + o.Path,
		Notes: []string{"whole numbers of " + o.Labels + " taken for 3 classes of 4 vertices; values " +
			"takes them for values to predict"},
	}
	assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(graph.Graph{}))

	got, err = Read(Options{
		Path: o.Path, Vertices: 3, Labels: array(t, []float32{1, 0, nan, nan, 1, 1}, 3, 2),
	})
	require.NoError(t, err)
	multi := graph.Labels{Classes: 2, Multi: []float32{1, 0, nan, nan, 1, 1}}
	if diff := cmp.Diff(multi, got.Labels, cmpopts.EquateNaNs()); diff != "" || !got.Labels.MultiLabel() {
		t.Errorf("label matrix (-want +got):\n%s", diff)
	}

	got, err = Read(Options{Path: o.Path, Vertices: 5_000_000})
	require.NoError(t, err)
	assert.Equal(t, 5_000_000, got.Vertices())
}

// CSV, plain or gzip, is read as the .npy files of the same numbers are.
func TestTextBeside(t *testing.T) {
	o := Options{
		Path: write(t, "e.csv", "0,1\n2,0\n"), Features: array(t, []float32{1, -2, 3.5, 4, 5, 6}, 3, 2),
		Labels: array(t, []int64{1, 0, -1}, 3), Train: array(t, []int64{1}, 1),
		Val: array(t, []bool{true, false, false}, 3),
	}
	want, err := Read(o)
	require.NoError(t, err)
	for _, pack := range []func(testing.TB, string) string{
		zipped, func(_ testing.TB, text string) string { return text },
	} {
		o.Features = write(t, "x.csv.gz", pack(t, "a,b\n1,-2\n3.5,4\n5,6e0\n"))
		o.Labels = write(t, "y.csv.gz", pack(t, "1\n0\n\n"))
		o.Train = write(t, "train.csv.gz", pack(t, "1\n"))
		o.Val = write(t, "val.csv.gz", pack(t, "True\nFalse\nFalse\n"))
		got, err := Read(o)
		require.NoError(t, err)
		assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(graph.Graph{}),
			cmpopts.IgnoreFields(graph.Graph{}, "Notes"))
	}
}

func TestDamagedIsRefused(t *testing.T) {
	edges := write(t, "e.txt", "0 1\n2 0\n")
	file := func(content string) Options { return Options{Path: write(t, "edges.csv", content)} }
	named := func(content string) Options {
		return Options{Path: write(t, "edges.csv", content), Strings: true}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Path: "missing.csv"}, "missing.csv"},
		{Options{Path: t.TempDir()}, "is a directory"},
		{file(""), "has no edge"},
		{file("# only\nsource,target\n"), "has no edge"},
		{file("0,1\n2\n"), "edges.csv:2: 1 column:"},
		{file("0,1\n\n2,3,4\n"), "edges.csv:3: 3 columns:"},
		{file("0,1,2,3,4\n"), "edges.csv:1: more than 3 columns"},
		{file("0,1\n0,x\n"), `edges.csv:2: "x" is not a vertex id`},
		{file("0,1\n0,-1\n"), `"-1" is not`},
		{file("0.5,1\n"), `"0.5" is not`},
		{file("0,2147483647\n"), `"2147483647" is not`},
		{file("0,99999999999999999999\n"), "is not a vertex id"},
		{file("0,\n"), `"" is not`},
		{file("0,2000000000\n"), "vertex 2000000000 (line 1) with only 1 edges"},
		{file("0,1,x\n"), `edges.csv:1: the weight "x"`},
		{file("0,1,nan\n"), "not a finite number"},
		{file("0,1,1e99\n"), "the weight"},
		{file("%%MatrixMarket matrix coordinate\n3 3 1\n1 2\n"), "counts from 1"},
		{file(strings.Repeat("1", 1<<20+1)), "edges.csv:1: the line is longer"},
		{file("0\x001\n"), "edges.csv: is no text: give a list of edges"},
		{file("\xff\xfe0\x00,\x001\x00"), "edges.csv: is UTF-16: convert the file, as with iconv"},
		{file(zipped(t, strings.Repeat("0 1\n2 0\n", 1000))[:40]), "damaged or cut short"},
		{file("\x1f\x8b\x00\x00"), "gzip"},
		{file("PAR1"), "Parquet"},
		{Options{Path: write(t, "e.parquet", "0 1\n")}, "does not start as a Parquet file"},
		{file(",src,dst\n0,0,1\n"), "edges.csv:1: the first column has no name, as pandas writes its " +
			"index: write it with index=False"},
		{file(",0,1\n0,0,1\n"), "index=False"},
		{file("id,src,dst\n0,0,1\n"), `edges.csv:1: "id" is not the name of a known column`},
		{
			file("source,target,timestamp\n0,1,7\n"),
			`"timestamp" is not the name of a known column: drop the column`,
		},
		{file("source,from\n0,1\n"), "have one meaning"},
		{file("weight,target\n0,1\n"), "names no source"},
		{file("source,weight\n0,1\n"), "names no target"},
		{named("id,src,dst\n0,a,b\n"), `"id" is not the name of a known column`},
		{named(",src,dst\n0,a,b\n"), "index=False"},
		{named("person,friend\na,b\nb,c\nc,a\n"), `edges.csv:1: "person" and "friend" do not come back`},
		{named("a,b\nb,caf\xe9\n"), `edges.csv:2: the name "caf\xe9" is not UTF-8`},
		{Options{Path: edges, Strings: true, Labels: array(t, []int64{0, 1, 0}, 3)}, "leave string-ids out"},
		{named("a,\n"), "edges.csv:1: an end of the edge is empty"},
		{Options{Path: edges, Vertices: 2}, "e.txt:2: vertex 2 is out of the range"},
		{Options{Path: edges, Vertices: -1}, "vertices -1"},
		{Options{Path: edges, Vertices: 3, Strings: true}, "leave vertices out"},
		{Options{Path: edges, Features: array(t, []float32{1, 2}, 2, 1)}, "has 3 vertices"},
		{Options{Path: edges, Features: array(t, []float32{1, 2, 3}, 3)}, "give a matrix"},
		{Options{Path: edges, Features: array(t, []float32{}, 1<<30, 0)}, "no values"},
		{Options{Path: edges, Features: "missing.npy"}, "missing.npy"},
		{Options{Path: edges, Labels: array(t, []int64{0, 1, -2}, 3)}, "label -2 of vertex 2"},
		{
			Options{Path: edges, Labels: array(t, []float32{0, 1, float32(math.Inf(1))}, 3, 1)},
			"label +Inf of vertex 2",
		},
		{Options{Path: edges, Features: write(t, "x.csv", "1,2\n3\n")}, "x.csv:2: 1 columns"},
		{Options{Path: edges, Features: write(t, "x.csv", "1\n2\n")}, "x.csv: has 2 rows, the graph of "},
		{
			Options{
				Path:     edges,
				Features: write(t, "x.csv.gz", zipped(t, strings.Repeat("1,2\n", 1000))[:20]),
			},
			"damaged or cut short",
		},
		{
			Options{
				Path: edges, Vertices: 3,
				Labels: write(t, "y.csv.gz", zipped(t, strings.Repeat("1\n", 1000))),
			},
			"y.csv.gz:4: more than 3 rows",
		},
		{Options{Path: edges, Train: write(t, "train.csv", "0\n\n")}, "vertex -1 is out of the range"},
		{Options{Path: edges, Val: array(t, []int64{0}, 1)}, "give train beside val and test"},
		{Options{Path: edges, Train: array(t, []int64{0, 3}, 2)}, "vertex 3 is out of the range"},
		{Options{Path: edges, Train: array(t, []int64{1, 1}, 2)}, "given twice"},
		{
			Options{Path: edges, Labels: array(t, []int64{0, 1, -1}, 3), Train: array(t, []int64{2}, 1)},
			"array.npy: vertex 2 has no label: leave it out",
		},
		{Options{Path: edges, Train: array(t, []bool{true}, 1)}, "1 truth values"},
		{
			Options{Path: edges, Train: array(t, []int64{0}, 1), Test: array(t, []int64{1, 0}, 2)},
			"array.npy: vertex 0 is also in ",
		},
	} {
		_, err := Read(c.o)
		assert.Refused(t, err, c.want, "%+v", c.o)
	}
}

// A column of class ids is a vector, and bytes of 0 and 1 are a mask.
func TestColumnsAndMasks(t *testing.T) {
	g, err := Read(Options{
		Path: write(t, "e.csv", "0,1\n2,0\n"), Labels: array(t, []int64{1, 0, -1}, 3, 1),
		Train: array(t, []uint8{0, 1, 0}, 3),
	})
	require.NoError(t, err)
	assert.Equal(t, graph.Labels{Classes: 2, Class: []int64{1, 0, -1}}, g.Labels)
	assert.Equal(t, []int64{1}, g.Splits[0].Train)
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"0 1\n2 0\n", "source,target,w\n0,1,.5\n", "\"a\"\t\"b\"\n", "# x\n1;2\r\n",
		zipped(f, "0 1\n"),
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, content string, names bool) {
		g, err := Read(Options{Path: write(t, "edges.csv", content), Strings: names})
		if err != nil {
			assert.Refused(t, err, "")
			return
		}
		if names && len(g.Names) != g.Vertices() {
			t.Errorf("%d names for %d vertices", len(g.Names), g.Vertices())
		}
	})
}

func BenchmarkText(b *testing.B) {
	var content strings.Builder
	const edges = 1_000_000
	for k := range edges {
		fmt.Fprintf(&content, "%d\t%d\n", k*7919%1_000_003, k*104729%1_000_003)
	}
	path := write(b, "edges.tsv", content.String())
	b.SetBytes(int64(content.Len()))
	for b.Loop() {
		g, err := Open(Options{Path: path})
		if err == nil {
			err = g.Relations[0].Each(func(graph.Edges) error { return nil })
		}
		require.NoError(b, err)
	}
	b.ReportMetric(edges*float64(b.N)/b.Elapsed().Minutes()/1e6, "Medges/min")
}

// Lists that exceed the memory are refused, whatever the size of the file.
func TestWithoutMemory(t *testing.T) {
	const edges, names = 4 << 20, 300_000
	named := &strings.Builder{}
	for k := range names {
		fmt.Fprintf(named, "the name of vertex %d\tx\n", k)
	}
	lists := []Options{
		{Path: write(t, "edges.gz", zipped(t, strings.Repeat("0 1\n", edges)))},
		{Path: write(t, "edges.parquet", tableOf(t, make([]struct{ Src, Dst int32 }, edges)))},
		{Path: write(t, "names.tsv", named.String()), Strings: true},
	}
	for range 2 { // pools keep what they have for one collection
		runtime.GC()
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(now.Sys-now.HeapIdle) + 12<<20))
	for _, o := range lists {
		_, err := Read(o)
		assert.RefusedFor(t, err, o.Path+":", " needs ", filepath.Base(o.Path))
	}
}

// Masks with a column for each split, as PyTorch Geometric has them, make as many splits.
func TestMasksOfSeveralSplits(t *testing.T) {
	edges := write(t, "e.csv", "0,1\n1,2\n2,3\n")
	train := array(t, []bool{true, false, false, true, false, false, false, false}, 4, 2)
	val := array(t, []uint8{0, 1, 0, 0, 1, 0, 0, 0}, 4, 2)
	test := array(t, []bool{false, false, true, false, false, true, true, true}, 4, 2)
	g, err := Read(Options{Path: edges, Train: train, Val: val, Test: test})
	require.NoError(t, err)
	want := []graph.Split{
		{Train: []int64{0}, Val: []int64{2}, Test: []int64{1, 3}},
		{Train: []int64{1}, Val: []int64{0}, Test: []int64{2, 3}},
	}
	assert.Equal(t, want, g.Splits)
	g, err = Read(Options{Path: edges, Train: train, Test: test})
	require.NoError(t, err)
	want[0].Val, want[1].Val = []int64{}, []int64{}
	assert.Equal(t, want, g.Splits, "without validation")
	g, err = Read(Options{Path: edges, Train: train, Test: array(t, []int64{2}, 1)})
	require.NoError(t, err)
	want[0].Test, want[1].Test = []int64{2}, []int64{2}
	assert.Equal(t, want, g.Splits, "one list for all splits")
	three := array(t, make([]bool, 12), 4, 3)
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"three beside two": {
			Options{Path: edges, Train: train, Val: three}, "2 splits, where " + three + " has 3",
		},
		"a row per split": {
			Options{Path: edges, Train: array(t, make([]bool, 8), 2, 4)},
			"has shape [2 4]: a mask has 4 values, true for the vertices of its part, or a row ",
		},
		"no split":     {Options{Path: edges, Train: array(t, []bool{}, 4, 0)}, "has shape [4 0], no split"},
		"in two parts": {Options{Path: edges, Train: train, Val: train}, "vertex 0 is also in "},
		"numbers": {
			Options{Path: edges, Train: array(t, []int64{0, 1, 2, 3, 0, 1, 2, 3}, 4, 2)},
			"element 2, 2, is not a truth value",
		},
	} {
		_, err := Read(c.o)
		assert.Refused(t, err, c.want, name)
	}
}

// TestVertices: a list keeps its order, in each kind of file; what is wrong with one is said by its entry.
func TestVertices(t *testing.T) {
	for path, want := range map[string][]int32{
		array(t, []int64{7, 0, 3}, 3): {7, 0, 3},
		array(t, []bool{false, true, false, true, false, false, false, false}, 8): {1, 3},
		write(t, "list.csv", "id\n5\n2\n"):                                        {5, 2},
		write(t, "list.csv.gz", zipped(t, "4\n6\n1\n")):                           {4, 6, 1},
		write(t, "one.csv", "3\n"):                                                {3},
	} {
		got, _, err := Vertices(path, nil, 8)
		require.NoError(t, err)
		assert.Equal(t, want, got, path)
	}
	for want, path := range map[string]string{
		"entry 2: vertex 8 is out of the range of 8 vertices":                                             write(t, "far.csv", "1\n8\n"),
		"entry 1: vertex -1 is out of the range of 8 vertices":                                            array(t, []int64{-1}, 1),
		"entry 2: vertex -1 is out of the range of 8 vertices: leave empty lines out, and give ids below": write(t, "gap.csv", "1\n\n"),
		"entry 4: vertex 5 is given twice, first by entry 1":                                              write(t, "twice.csv", "5\n3\n2\n5\n"),
		"names no vertex": array(t, []int64{}, 0),
		"names no vertex; give ids, or a mask that marks some": array(t, make([]bool, 8), 8),
		"vertices of shape [2 2]":                              array(t, []int64{1, 2, 3, 4}, 2, 2),
		"3 truth values for 8 vertices":                        array(t, []bool{true, true, true}, 3),
	} {
		_, _, err := Vertices(path, nil, 8)
		assert.Refused(t, err, path+": "+want)
	}
}

// TestVerticesByName: names are those of the store's vertices, in the order of the list; numbers stay
// numbers where no entry is a name, also of names that look like numbers.
func TestVerticesByName(t *testing.T) {
	words := []string{"C-1", "New York", "a, b", "C-3", "twin", "twin"}
	numbers := []string{"100", "7", "1", "0"}
	for _, test := range []struct {
		list  string
		names []string
		want  []int32

		header string
	}{
		{"C-3,C-1", words, []int32{3, 0}, ""},
		{" New York", words, []int32{1}, ""},
		{write(t, "list.txt", "New York\nC-3\n\n"), words, []int32{1, 3}, ""},
		{write(t, "one.csv", "C-3\n"), words, []int32{3}, ""},
		{write(t, "table.csv", "customer,age\nC-3,40\n\"a, b\",\n"), words, []int32{3, 2}, "customer"},
		{write(t, "list.csv.gz", zipped(t, "name\nC-1\n")), words, []int32{0}, "name"},
		{write(t, "ids.csv", "vertex\n3\n1\n"), words, []int32{3, 1}, ""},
		{"4,2", words, []int32{4, 2}, ""},
		{"3,2", nil, []int32{3, 2}, ""},
		{`"a, b",C-3`, words, []int32{2, 3}, ""},
		{"7,100", numbers, []int32{1, 0}, ""},
		{write(t, "own.csv", "id\n1\n7\n"), numbers, []int32{2, 1}, "id"},
		{write(t, "mask.csv", "0\n1\n1\n0\n"), numbers, []int32{1, 2}, ""},
		{array(t, []int64{1, 0}, 2), numbers, []int32{1, 0}, ""},
	} {
		got, header, err := Vertices(test.list, test.names, max(4, len(test.names)))
		require.NoError(t, err)
		assert.Equal(t, test.want, got, test.list)
		assert.Equal(t, test.header, header, test.list)
	}
	for want, list := range map[string]string{
		`entry 2: no vertex has the name "C-9"`:                         "C-1,C-9",
		`line 3: no vertex has the name "C-9"`:                          write(t, "far.csv", "id\nC-1\nC-9\n"),
		`line 2: "C-1" is given twice, first by line 1`:                 write(t, "twice.txt", "C-1\nC-1\n"),
		`entry 1: vertices 4 and 5 have the name "twin"; give numbers`:  "twin,C-1",
		`no such file or directory, and no vertex has this name`:        "nothere",
		`line 2: no vertex has the name "3"`:                            write(t, "mixed.csv", "C-1\n3\n"),
		`entry 2: vertex 9 is out of the range of 6 vertices`:           "1,9",
		`entry 2: vertex 1 is given twice, first by entry 1: give each`: "1,1",
	} {
		_, _, err := Vertices(list, words, 6)
		assert.Refused(t, err, list+": "+want)
	}
	_, _, err := Vertices("1,x", nil, 6)
	assert.Refused(t, err, `1,x: entry 2: "x" is no number, and the vertices have no names`)
	_, _, err = Vertices("7,99", numbers, 4)
	assert.Refused(t, err, `7,99: entry 2: no vertex has the name "99"`)
}

// TestRowsOfNames: rows without ids follow the names' first appearance, and a note says so; rows with ids do
// not need it.
func TestRowsOfNames(t *testing.T) {
	edges := write(t, "friends.csv", "carol,alice\nalice,bob\n")
	for labels, noted := range map[string]bool{
		"b\na\nb\n":                           true,
		"id,label\nalice,b\nbob,a\ncarol,b\n": false,
	} {
		o := Options{Path: edges, Strings: true, Labels: write(t, "labels.csv", labels)}
		g, err := Read(o)
		require.NoError(t, err)
		want := []string(nil)
		if noted {
			want = []string{fmt.Sprintf("rows of %s are those of the names in the order in which %s first "+
				"has them; a column id, before the others, says whose row each is", o.Labels, edges)}
		}
		assert.Equal(t, want, g.Notes, "labels %q: notes", labels)
	}
}
