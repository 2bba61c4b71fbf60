package tables

import (
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

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/internal/assert"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

func array(t testing.TB, data any, shape ...int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "array.npy")
	require.NoError(t, npytest.WriteFile(path, data, shape...))
	return path
}

// list is a list of edges alone, and how it is read.
type list struct {
	Path, EdgeWeights, Features, Labels, Train, Val, Test string
	EdgeFeatures                                          []string
	Values, Strings, DenseFeatures                        bool
	Vertices, FirstID                                     int
	Ends                                                  [2]string
}

func openList(l list) (*streamed.Graph, error) {
	o := Options{
		Edges: []string{l.Path}, EdgeWeights: l.EdgeWeights, EdgeFeatures: l.EdgeFeatures, Values: l.Values,
		Beside: Beside{
			Features: l.Features, Labels: l.Labels, DenseFeatures: l.DenseFeatures, Train: l.Train,
			Val: l.Val, Test: l.Test, Count: l.Vertices, FirstID: l.FirstID, Strings: l.Strings,
		},
	}
	if l.Ends[0] != "" {
		o.Source, o.Target = l.Ends[:1], l.Ends[1:]
	}
	return Open(o)
}

func readList(l list) (*graph.Graph, error) {
	g, err := openList(l)
	if err != nil {
		return nil, err
	}
	return g.Read()
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
	path := graphtest.File(t, file, r.content)
	got, err := readList(list{Path: path, Strings: r.strings})
	require.NoError(t, err, r.name)
	all := &graph.Graph{
		Types:     []graph.VertexType{{Frame: graph.Frame{Count: len(r.want.Indptr) - 1, Names: r.names}}},
		Relations: []graph.Relation{r.want}, Provenance: "edges " + path,
	}
	assert.EqualBy(t, all, got, cmpopts.IgnoreUnexported(graph.Graph{}),
		cmpopts.IgnoreFields(graph.Graph{}, "Notes"),
		cmpopts.IgnoreFields(graph.Relation{}, "EndColumns", "NumberColumns"))
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
		{"gzip", graphtest.Zipped(t, "0 1\n2 0\n0 1\n"), false, want, nil},
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

// TestEdgeColumns: columns that are named have the weights and features, also dates, in text and in Parquet.
// The graph remembers them. Others are left out, and named.
func TestEdgeColumns(t *testing.T) {
	const text = "size,payer,note,weight,when,payee\n1,0,10,.5,1970-01-03,1\n2,2,20,-.25,1970-01-02,0\n" +
		"3,0,30,3,1970-01-05,1\n"
	numbers := func(names ...string) (made columns.List) {
		for _, name := range names {
			made = append(made, columns.Column{Name: name, Kind: columns.Number})
		}
		return made
	}
	whole := tableOf(t, []featuredEdge{{1, 0, 10, .5, 1}, {2, 2, 20, -.25, 0}, {3, 0, 30, 3, 1}})
	dated := append(numbers("weight", "note"), columns.Column{Name: "when", Kind: columns.Date})
	for name, c := range map[string]struct {
		l                 list
		weights, features []float32
		numbers           columns.List
		leftOut           string
	}{
		"named.csv": {
			list{EdgeWeights: "size", EdgeFeatures: []string{"note"}},
			[]float32{2, 1, 3},
			[]float32{20, 10, 30},
			numbers("size", "note"), "weight, when",
		},
		"dated.csv": {
			list{EdgeFeatures: []string{"note", "when"}},
			[]float32{-.25, .5, 3},
			[]float32{20, 1, 10, 2, 30, 4},
			dated, "size",
		},
		"no weight.csv": {
			list{EdgeFeatures: []string{"weight"}},
			nil,
			[]float32{-.25, .5, 3},
			numbers("weight"),
			"size, note, when",
		},
		"names.csv": {
			list{Strings: true}, []float32{.5, -.25, 3}, nil, numbers("weight"), "size, note, when",
		},
		"e.parquet": {
			list{EdgeFeatures: []string{"note", "size"}},
			[]float32{-.25, .5, 3},
			[]float32{20, 2, 10, 1, 30, 3},
			numbers("weight", "note", "size"), "",
		},
	} {
		ends, content := [2]string{"payer", "payee"}, text
		if name == "e.parquet" {
			ends, content = [2]string{"src", "dst"}, whole
		}
		c.l.Path, c.l.Ends = graphtest.File(t, name, content), ends
		g, err := readList(c.l)
		require.NoError(t, err, name)
		r := g.Relations[0]
		if name == "names.csv" { // the first vertex is another one
			c.weights = r.Weights
		}
		assert.Equal(t, c.weights, r.Weights, name)
		assert.Equal(t, c.features, r.Features.Dense, name)
		assert.EqualBy(t, c.numbers, r.NumberColumns, cmpopts.IgnoreFields(columns.Column{}, "Mean"))
		assert.Equal(t, ends, r.EndColumns, name)
		var notes []string
		if c.leftOut != "" {
			notes = []string{c.l.Path + ": columns left out: " + c.leftOut + way}
		}
		assert.Equal(t, notes, g.Notes, name)
	}
	for _, c := range []struct{ content, want string }{
		{"0,1,2\n", "e.csv:1: there is no header, and --edge-features needs the names of columns"},
		{"src,dst\n0,1\n", `e.csv:1: there is no further column size, which --edge-features asks for`},
		{"src,dst,size\n0,1\n", "e.csv:2: 2 columns, where the first line has 3"},
		{"src,dst,size\n0,1,big\n", `e.csv:2: column size: "big" is no finite number`},
		{"src,dst,size\n0,1,inf\n", `column size: "inf" is no finite number`},
		{"src,from,dst,size\n0,1,2,3\n", `columns "src" and "from" have one meaning: name one with --source`},
		{
			"weight,Weight,src,dst,size\n1,1,0,1,2\n",
			`columns "weight" and "Weight" have one meaning: name one with --edge-weights`,
		},
		{tableOf(t, []plainEdge{{0, 1}}), "there is no further column size"},
		{tableOf(t, []textFeature{{0, 1, "big"}}), `row 1: column size: "big" is no finite number`},
	} {
		_, err := readList(list{Path: graphtest.File(t, "e.csv", c.content), EdgeFeatures: []string{"size"}})
		assert.Refused(t, err, c.want, "%q", c.content)
	}
}

// TestPipe: a list that is read once may come from a pipe.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	go func() { _ = os.WriteFile(path, []byte("0,1\n1,2\n"), 0o600) }()
	g, err := readList(list{Path: path})
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 1}, g.Relations[0].Sources)

	_, err = Open(Options{Edges: []string{path}, EdgeLabel: "y"}) // which is read twice
	assert.Refused(t, err, "is a named pipe, not a file")
	go func() { _ = os.WriteFile(path, []byte("source,target,day\n0,1,2024-01-31\n"), 0o600) }()
	_, err = readList(list{Path: path, EdgeFeatures: []string{"day"}})
	assert.Refused(t, err, "is a named pipe, not a file")
}

func TestArraysBeside(t *testing.T) {
	nan := float32(math.NaN())
	o := list{
		Path:     graphtest.File(t, "e.csv", "0,1\n2,0\n"),
		Features: array(t, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 4, 2),
		Labels:   array(t, []int64{1, 0, -1, 2}, 4), Train: array(t, []int64{3, 0}, 2),
		Test: array(t, []bool{false, true, false, false}, 4),
	}
	got, err := readList(o)
	require.NoError(t, err)
	want := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{ // vertex 3 has a row of features and no edge
				Count: 4, Features: graph.Features{Columns: 2, Dense: []float32{1, 2, 3, 4, 5, 6, 7, 8}},
				Labels: graph.Labels{Classes: 3, Class: []int64{1, 0, -1, 2}},
				Splits: []graph.Split{{Train: []int64{0, 3}, Val: []int64{}, Test: []int64{1}}},
			},
		}},
		Relations:  []graph.Relation{{Indptr: []int64{0, 1, 2, 2, 2}, Sources: []int32{2, 0}}},
		Provenance: "edges " + o.Path,
		Notes: []string{"whole numbers of " + o.Labels + " taken for 3 classes of 4 vertices; --values " +
			"takes them for values to predict"},
	}
	assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(graph.Graph{}))

	got, err = readList(list{
		Path: o.Path, Vertices: 3, Labels: array(t, []float32{1, 0, nan, nan, 1, 1}, 3, 2),
	})
	require.NoError(t, err)
	multi := graph.Labels{Classes: 2, Multi: []float32{1, 0, nan, nan, 1, 1}}
	if diff := cmp.Diff(multi, got.Types[0].Labels,
		cmpopts.EquateNaNs()); diff != "" || !got.Types[0].Labels.MultiLabel() {
		t.Errorf("label matrix (-want +got):\n%s", diff)
	}

	got, err = readList(list{Path: o.Path, Vertices: 5_000_000})
	require.NoError(t, err)
	assert.Equal(t, 5_000_000, got.Vertices())
}

func TestDamagedIsRefused(t *testing.T) {
	edges := graphtest.File(t, "e.txt", "0 1\n2 0\n")
	file := func(content string) list { return list{Path: graphtest.File(t, "edges.csv", content)} }
	named := func(content string) list {
		return list{Path: graphtest.File(t, "edges.csv", content), Strings: true}
	}
	for _, c := range []struct {
		o    list
		want string
	}{
		{list{Path: "missing.csv"}, "missing.csv"},
		{list{Path: t.TempDir()}, "is a folder without a file of a table"},
		{file(""), "has no edge"},
		{file("# only\nsource,target\n"), "has no edge"},
		{file("0,1\n2\n"), "edges.csv:2: 1 column, where the first line has 2"},
		{file("0,1\n\n2,3,4\n"), "edges.csv:3: 3 columns, where the first line has 2"},
		{file("0,1,2,3,4\n"), "edges.csv:1: 5 columns, where an edge has a source, a target and"},
		{file("0,1\n0,x\n"), `edges.csv:2: target: "x" is not a vertex id`},
		{file("0,1\n0,-1\n"), `"-1" is not`},
		{file("0.5,1\n"), `"0.5" is not`},
		{file("0,2147483647\n"), `"2147483647" is not`},
		{file("0,99999999999999999999\n"), "is not a vertex id"},
		{file("0,\n"), "edges.csv:1: target: the id is empty"},
		{file("0,2000000000\n"), "vertex 2000000000 (line 1) with only 1 edges"},
		{file("0,1,x\n"), `edges.csv:1: column weight: "x" is no finite number`},
		{file("0,1,nan\n"), "no finite number"},
		{file("0,1,1e99\n"), "no finite number"},
		{file("%%MatrixMarket matrix coordinate\n3 3 1\n1 2\n"), "counts from 1"},
		{file(strings.Repeat("1", 1<<20+1)), "edges.csv:1: the line is longer"},
		{file("0\x001\n"), "edges.csv: is no text: give a list of edges"},
		{file("\xff\xfe0\x00,\x001\x00"), "edges.csv: is UTF-16: convert the file, as with iconv"},
		{file(graphtest.Zipped(t, strings.Repeat("0 1\n2 0\n", 1000))[:40]), "damaged or cut short"},
		{file("\x1f\x8b\x00\x00"), "gzip"},
		{file("PAR1"), "Parquet"},
		{list{Path: graphtest.File(t, "e.parquet", "0 1\n")}, "does not start as a Parquet file"},
		{file("weight,target\n0,1\n"), `the columns are "weight", "target", and which are the ends of an edge?`},
		{file("payer,payee\n0,1\n"), "Name them with --source and --target; if this line is an edge between names"},
		{file("source\n0\n"), "there is one column"},
		{named("person,friend\na,b\nb,c\nc,a\n"), `edges.csv:1: "person" and "friend" do not come back`},
		{named("a,b\nb,caf\xe9\n"), `edges.csv:2: target: the id "caf\xe9" is not UTF-8`},
		{list{Path: edges, Strings: true, Labels: array(t, []int64{0, 1, 0}, 3)}, "leave --string-ids out"},
		{named("a,\n"), "edges.csv:1: target: the id is empty"},
		{list{Path: edges, Vertices: 2}, "e.txt:2: source: vertex 2 is out of the range"},
		{list{Path: edges, Vertices: -1}, "vertices -1"},
		{list{Path: edges, Vertices: 3, Strings: true}, "leave --vertices out"},
		{list{Path: edges, Features: array(t, []float32{1, 2}, 2, 1)}, "has 3 vertices"},
		{list{Path: edges, Features: array(t, []float32{1, 2, 3}, 3)}, "give a matrix"},
		{list{Path: edges, Features: array(t, []float32{}, 1<<30, 0)}, "no values"},
		{list{Path: edges, Features: "missing.npy"}, "missing.npy"},
		{list{Path: edges, Labels: array(t, []int64{0, 1, -2}, 3)}, "label -2 of vertex 2"},
		{
			list{Path: edges, Labels: array(t, []float32{0, 1, float32(math.Inf(1))}, 3, 1)},
			"label +Inf of vertex 2",
		},
		{list{Path: edges, Features: graphtest.File(t, "x.csv", "1,2\n3\n")}, "x.csv:2: 1 columns"},
		{list{Path: edges, Features: graphtest.File(t, "x.csv", "1\n2\n")}, "x.csv: has 2 rows, the graph of "},
		{
			list{
				Path: edges,
				Features: graphtest.File(t, "x.csv.gz",
					graphtest.Zipped(t, strings.Repeat("1,2\n", 1000))[:20]),
			},
			"damaged or cut short",
		},
		{
			list{
				Path: edges, Vertices: 3,
				Labels: graphtest.File(t, "y.csv.gz", graphtest.Zipped(t, strings.Repeat("1\n", 1000))),
			},
			"y.csv.gz:4: more than 3 rows",
		},
		{list{Path: edges, Train: graphtest.File(t, "train.csv", "0\n\n")}, "vertex -1 is out of the range"},
		{list{Path: edges, Val: array(t, []int64{0}, 1)}, "give --train beside --val and --test"},
		{list{Path: edges, Train: array(t, []int64{0, 3}, 2)}, "vertex 3 is out of the range"},
		{list{Path: edges, Train: array(t, []int64{1, 1}, 2)}, "given twice"},
		{
			list{Path: edges, Labels: array(t, []int64{0, 1, -1}, 3), Train: array(t, []int64{2}, 1)},
			"array.npy: vertex 2 has no label: leave it out",
		},
		{list{Path: edges, Train: array(t, []bool{true}, 1)}, "1 truth values"},
		{
			list{Path: edges, Train: array(t, []int64{0}, 1), Test: array(t, []int64{1, 0}, 2)},
			"array.npy: vertex 0 is also in ",
		},
	} {
		_, err := readList(c.o)
		assert.Refused(t, err, c.want, "%+v", c.o)
	}
}

// A column of class ids is a vector, and bytes of 0 and 1 are a mask.
func TestColumnsAndMasks(t *testing.T) {
	g, err := readList(list{
		Path: graphtest.File(t, "e.csv", "0,1\n2,0\n"), Labels: array(t, []int64{1, 0, -1}, 3, 1),
		Train: array(t, []uint8{0, 1, 0}, 3),
	})
	require.NoError(t, err)
	assert.Equal(t, graph.Labels{Classes: 2, Class: []int64{1, 0, -1}}, g.Types[0].Labels)
	assert.Equal(t, []int64{1}, g.Types[0].Splits[0].Train)
}

// Lists that exceed the memory are refused, whatever the size of the file.
func TestWithoutMemory(t *testing.T) {
	const edges, names = 4 << 20, 300_000
	named := &strings.Builder{}
	for k := range names {
		fmt.Fprintf(named, "the name of vertex %d\tx\n", k)
	}
	lists := []list{
		{Path: graphtest.File(t, "edges.gz", graphtest.Zipped(t, strings.Repeat("0 1\n", edges)))},
		{Path: graphtest.File(t, "edges.parquet", tableOf(t, make([]struct{ Src, Dst int32 }, edges)))},
		{Path: graphtest.File(t, "names.tsv", named.String()), Strings: true},
	}
	for range 2 { // pools keep what they have for one collection
		runtime.GC()
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(now.Sys-now.HeapIdle) + 12<<20))
	for _, o := range lists {
		_, err := readList(o)
		assert.RefusedFor(t, err, o.Path+":", " needs ", filepath.Base(o.Path))
	}
}

// Masks with a column for each split, as PyTorch Geometric has them, make as many splits.
func TestMasksOfSeveralSplits(t *testing.T) {
	edges := graphtest.File(t, "e.csv", "0,1\n1,2\n2,3\n")
	train := array(t, []bool{true, false, false, true, false, false, false, false}, 4, 2)
	val := array(t, []uint8{0, 1, 0, 0, 1, 0, 0, 0}, 4, 2)
	test := array(t, []bool{false, false, true, false, false, true, true, true}, 4, 2)
	g, err := readList(list{Path: edges, Train: train, Val: val, Test: test})
	require.NoError(t, err)
	want := []graph.Split{
		{Train: []int64{0}, Val: []int64{2}, Test: []int64{1, 3}},
		{Train: []int64{1}, Val: []int64{0}, Test: []int64{2, 3}},
	}
	assert.Equal(t, want, g.Types[0].Splits)
	g, err = readList(list{Path: edges, Train: train, Test: test})
	require.NoError(t, err)
	want[0].Val, want[1].Val = []int64{}, []int64{}
	assert.Equal(t, want, g.Types[0].Splits, "without validation")
	g, err = readList(list{Path: edges, Train: train, Test: array(t, []int64{2}, 1)})
	require.NoError(t, err)
	want[0].Test, want[1].Test = []int64{2}, []int64{2}
	assert.Equal(t, want, g.Types[0].Splits, "one list for all splits")
	three := array(t, make([]bool, 12), 4, 3)
	for name, c := range map[string]struct {
		o    list
		want string
	}{
		"three beside two": {
			list{Path: edges, Train: train, Val: three}, "2 splits, where " + three + " has 3",
		},
		"a row per split": {
			list{Path: edges, Train: array(t, make([]bool, 8), 2, 4)},
			"has shape [2 4]: a mask has 4 values, true for the vertices of its part, or a row ",
		},
		"no split":     {list{Path: edges, Train: array(t, []bool{}, 4, 0)}, "has shape [4 0], no split"},
		"in two parts": {list{Path: edges, Train: train, Val: train}, "vertex 0 is also in "},
		"numbers": {
			list{Path: edges, Train: array(t, []int64{0, 1, 2, 3, 0, 1, 2, 3}, 4, 2)},
			"element 2, 2, is not a truth value",
		},
	} {
		_, err := readList(c.o)
		assert.Refused(t, err, c.want, name)
	}
}

// TestVertices: a list keeps its order, in each kind of file; what is wrong with one is said by its entry.
func TestVertices(t *testing.T) {
	for path, want := range map[string][]int32{
		array(t, []int64{7, 0, 3}, 3): {7, 0, 3},
		array(t, []bool{false, true, false, true, false, false, false, false}, 8): {1, 3},
		graphtest.File(t, "list.csv", "id\n5\n2\n"):                               {5, 2},
		graphtest.File(t, "list.csv.gz", graphtest.Zipped(t, "4\n6\n1\n")):        {4, 6, 1},
		graphtest.File(t, "one.csv", "3\n"):                                       {3},
	} {
		got, _, err := Vertices(path, nil, 8)
		require.NoError(t, err)
		assert.Equal(t, want, got, path)
	}
	for want, path := range map[string]string{
		"entry 2: vertex 8 is out of the range of 8 vertices":                                             graphtest.File(t, "far.csv", "1\n8\n"),
		"entry 1: vertex -1 is out of the range of 8 vertices":                                            array(t, []int64{-1}, 1),
		"entry 2: vertex -1 is out of the range of 8 vertices: leave empty lines out, and give ids below": graphtest.File(t, "gap.csv", "1\n\n"),
		"entry 4: vertex 5 is given twice, first by entry 1":                                              graphtest.File(t, "twice.csv", "5\n3\n2\n5\n"),
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
		{graphtest.File(t, "list.txt", "New York\nC-3\n\n"), words, []int32{1, 3}, ""},
		{graphtest.File(t, "one.csv", "C-3\n"), words, []int32{3}, ""},
		{
			graphtest.File(t, "table.csv", "customer,age\nC-3,40\n\"a, b\",\n"),
			words,
			[]int32{3, 2},
			"customer",
		},
		{graphtest.File(t, "list.csv.gz", graphtest.Zipped(t, "name\nC-1\n")), words, []int32{0}, "name"},
		{graphtest.File(t, "ids.csv", "vertex\n3\n1\n"), words, []int32{3, 1}, ""},
		{"4,2", words, []int32{4, 2}, ""},
		{"3,2", nil, []int32{3, 2}, ""},
		{`"a, b",C-3`, words, []int32{2, 3}, ""},
		{"7,100", numbers, []int32{1, 0}, ""},
		{graphtest.File(t, "own.csv", "id\n1\n7\n"), numbers, []int32{2, 1}, "id"},
		{graphtest.File(t, "mask.csv", "0\n1\n1\n0\n"), numbers, []int32{1, 2}, ""},
		{array(t, []int64{1, 0}, 2), numbers, []int32{1, 0}, ""},
		{graphtest.File(t, "unnamed.csv", "\"\"\n\"3\"\n\"1\"\n"), nil, []int32{3, 1}, ""},
	} {
		got, header, err := Vertices(test.list, test.names, max(4, len(test.names)))
		require.NoError(t, err)
		assert.Equal(t, test.want, got, test.list)
		assert.Equal(t, test.header, header, test.list)
	}
	for want, list := range map[string]string{
		`entry 2: no vertex has the name "C-9"`:                         "C-1,C-9",
		`line 3: no vertex has the name "C-9"`:                          graphtest.File(t, "far.csv", "id\nC-1\nC-9\n"),
		`line 2: "C-1" is given twice, first by line 1`:                 graphtest.File(t, "twice.txt", "C-1\nC-1\n"),
		`entry 1: vertices 4 and 5 have the name "twin"; give numbers`:  "twin,C-1",
		`no such file or directory, and no vertex has this name`:        "nothere",
		`line 2: no vertex has the name "3"`:                            graphtest.File(t, "mixed.csv", "C-1\n3\n"),
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
	edges := graphtest.File(t, "friends.csv", "carol,alice\nalice,bob\n")
	for labels, noted := range map[string]bool{
		"b\na\nb\n":                           true,
		"id,label\nalice,b\nbob,a\ncarol,b\n": false,
	} {
		o := list{Path: edges, Strings: true, Labels: graphtest.File(t, "labels.csv", labels)}
		g, err := readList(o)
		require.NoError(t, err)
		want := []string(nil)
		if noted {
			want = []string{fmt.Sprintf("rows of %s are those of the names in the order in which %s first "+
				"has them; a column id, before the others, says whose row each is", o.Labels, edges)}
		}
		assert.Equal(t, want, g.Notes, "labels %q: notes", labels)
	}
}
