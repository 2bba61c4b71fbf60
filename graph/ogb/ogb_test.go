package ogb

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

var nan = float32(math.NaN())

// toy is a graph as a folder holds it.
type toy struct {
	vertices, columns, edgeColumns, tasks int
	source, target                        []int64
	features, edgeFeatures, labels        []float32
	years                                 []int64
	splits                                map[string][3][]int64
}

// newToy draws a graph with duplicate edges, self loops and vertices without a label.
func newToy(vertices, edges int) *toy {
	random := rand.New(rand.NewPCG(1, 2))
	y := &toy{vertices: vertices, columns: 3, edgeColumns: 2, tasks: 1}
	for range edges {
		y.source, y.target = append(y.source, random.Int64N(int64(vertices))),
			append(y.target, random.Int64N(int64(vertices)))
		y.edgeFeatures = append(y.edgeFeatures, random.Float32(), random.Float32())
	}
	split := [3][]int64{}
	for v := range vertices {
		y.features = append(y.features, random.Float32()-.5, float32(random.NormFloat64()), float32(v))
		label := nan
		if v%7 != 3 {
			label = float32(random.IntN(5))
			split[v%3] = append(split[v%3], int64(v))
		}
		y.labels = append(y.labels, label)
		y.years = append(y.years, 1990+random.Int64N(30))
	}
	y.splits = map[string][3][]int64{"time": split}
	return y
}

// several makes the labels ones of so many tasks.
func (y *toy) several(tasks int) *toy {
	y.tasks = tasks
	one := y.labels
	y.labels = nil
	for v := range one {
		for k := range tasks {
			x := float32((v + k) % 2)
			if one[v] != one[v] {
				x = nan
			}
			y.labels = append(y.labels, x)
		}
	}
	return y
}

func gzipped(t testing.TB, path, text string) {
	t.Helper()
	write(t, path, []byte(graphtest.Zipped(t, text)))
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// rowsOf spells a matrix; what is missing is an empty field.
func rowsOf(values []float32, columns int) string {
	var b strings.Builder
	for k, x := range values {
		if x == x {
			b.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32))
		}
		if k%columns == columns-1 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(',')
		}
	}
	return b.String()
}

func ints(ids []int64) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintln(&b, id)
	}
	return b.String()
}

func (y *toy) writeSplits(t testing.TB, folder string) {
	t.Helper()
	for name, split := range y.splits {
		for part, file := range []string{"train", "valid", "test"} {
			gzipped(t, filepath.Join(folder, "split", name, file+textSuffix), ints(split[part]))
		}
	}
}

// text writes the layout of text into a folder of that name, and returns its path.
func (y *toy) text(t testing.TB, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	raw := func(name, text string) { gzipped(t, filepath.Join(folder, "raw", name+textSuffix), text) }
	var edges strings.Builder
	for k := range y.source {
		fmt.Fprintf(&edges, "%d,%d\n", y.source[k], y.target[k])
	}
	raw("edge", edges.String())
	raw("num-node-list", fmt.Sprintln(y.vertices))
	raw("num-edge-list", fmt.Sprintln(len(y.source)))
	raw("node-label", rowsOf(y.labels, y.tasks))
	raw("node_year", ints(y.years))
	raw("edge_kind", "1\n")
	if y.features != nil {
		raw(nodeFeatures, rowsOf(y.features, y.columns))
	}
	if y.edgeFeatures != nil {
		raw(edgeFeatures, rowsOf(y.edgeFeatures, y.edgeColumns))
	}
	y.writeSplits(t, folder)
	return folder
}

// entry is an array of an archive.
type entry struct {
	key     string
	data    any
	shape   []int
	fortran bool // the columns lie one after the other
}

// archive spells an archive of arrays.
func archive(t testing.TB, method uint16, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.key + ".npy", Method: method})
		require.NoError(t, err)
		var array bytes.Buffer
		require.NoError(t, npytest.Write(&array, e.data, e.shape...))
		text := array.Bytes()
		if e.fortran {
			text = bytes.Replace(text, []byte("False"), []byte("True "), 1)
		}
		_, err = w.Write(text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// binary writes the layout of archives into a folder of that name, and returns its path.
func (y *toy) binary(t testing.TB, name string, method uint16) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	entries := []entry{
		{edgeIndex, slices.Concat(y.source, y.target), []int{2, len(y.source)}, false},
		{"num_nodes_list", []int64{int64(y.vertices)}, []int{1}, false},
		{"num_edges_list", []int64{int64(len(y.source))}, []int{1}, false},
		{"node_year", y.years, []int{y.vertices, 1}, false},
	}
	if y.features != nil {
		entries = append(entries, entry{"node_feat", y.features, []int{y.vertices, y.columns}, false})
	}
	if y.edgeFeatures != nil {
		entries = append(entries,
			entry{"edge_feat", y.edgeFeatures, []int{len(y.source), y.edgeColumns}, false})
	}
	write(t, filepath.Join(folder, "raw", "data.npz"), archive(t, method, entries...))
	write(t, filepath.Join(folder, "raw", "node-label.npz"),
		archive(t, method, entry{"node_label", y.labels, []int{y.vertices, y.tasks}, false}))
	y.writeSplits(t, folder)
	return folder
}

// want is the graph of the toy, made by other means; inverse says that inverse edges are added.
func (y *toy) want(t testing.TB, inverse bool) *graph.Graph {
	t.Helper()
	e := graph.Edges{}
	if y.edgeFeatures != nil {
		e.FeatureColumns = y.edgeColumns
	}
	for k := range y.source {
		u, v := int32(y.source[k]), int32(y.target[k])
		of := y.edgeFeatures[k*e.FeatureColumns : (k+1)*e.FeatureColumns]
		e.Source, e.Target, e.Features = append(e.Source, u), append(e.Target, v), append(e.Features, of...)
		if inverse {
			e.Source, e.Target, e.Features = append(e.Source, v), append(e.Target, u),
				append(e.Features, of...)
		}
	}
	r, err := graph.NewRelation(y.vertices, e)
	require.NoError(t, err)
	g := graph.Of(r)
	if y.features != nil {
		g.Types[0].Features = graph.Features{Columns: y.columns, Dense: y.features}
	}
	if y.tasks > 1 {
		g.Labels = graph.Labels{Classes: y.tasks, Multi: y.labels}
	} else {
		g.Labels.Classes = 5
		for _, x := range y.labels {
			if x != x {
				x = -1
			}
			g.Labels.Class = append(g.Labels.Class, int64(x))
		}
	}
	g.Types[0].Arrays = []graph.Array{{Name: "node_year", Columns: 1, Ints: y.years}}
	s := y.splits["time"]
	g.Splits = []graph.Split{{Train: s[0], Val: s[1], Test: s[2]}}
	return g
}

// check reads and writes a folder, and wants g of both.
func check(t *testing.T, o Options, g *graph.Graph) *graph.Graph {
	t.Helper()
	read, err := streamedtest.Read(Open(o))
	require.NoError(t, err)
	ignore := cmpopts.IgnoreFields(graph.Graph{}, "Notes", "Metric", "Provenance")
	if diff := cmp.Diff(g, read, cmpopts.IgnoreUnexported(graph.Graph{}), ignore, cmpopts.EquateEmpty(),
		cmpopts.EquateNaNs()); diff != "" {
		t.Fatalf("read (-want +got):\n%s", diff)
	}
	one, err := Open(o)
	require.NoError(t, err)
	defer one.Close()
	return streamedtest.Equal(t, one, read).Graph
}

// Text and archives, stored and compressed, hold the same graph.
func TestLayouts(t *testing.T) {
	plain := newToy(200, 1500)
	for name, folder := range map[string]string{
		"text":    plain.text(t, "ogbn_arxiv"),
		"stored":  plain.binary(t, "ogbn_papers100M", zip.Store),
		"deflate": plain.binary(t, "ogbn-papers100M_pyg", zip.Deflate),
	} {
		t.Run(name, func(t *testing.T) {
			s := check(t, Options{Folder: folder}, plain.want(t, false))
			if !strings.Contains(s.Notes[0], "1500 edges, without inverse ones, as OGB's loader "+
				"does for ogbn_") ||
				s.Notes[1] != `kept as arrays, which no model reads: "node_year"` ||
				name == "text" && s.Notes[2] != `not read: "edge_kind"` {
				t.Errorf("notes %q", s.Notes)
			}
		})
	}
}

// The two ends of an edge may lie together.
func TestEdgesInFortranOrder(t *testing.T) {
	y := newToy(30, 200_000)
	y.edgeFeatures = nil
	folder := y.binary(t, "ogbn_arxiv", zip.Store)
	var ends []int64
	for k := range y.source {
		ends = append(ends, y.source[k], y.target[k])
	}
	write(t, filepath.Join(folder, "raw", "data.npz"), archive(t, zip.Deflate,
		entry{edgeIndex, ends, []int{2, len(y.source)}, true},
		entry{"num_nodes_list", []int64{30}, []int{1}, false},
		entry{"num_edges_list", []int64{200_000}, []int{1}, false},
		entry{"node_feat", y.features, []int{30, 3}, false}, entry{"node_year", y.years, []int{30}, false}))
	check(t, Options{Folder: folder}, y.want(t, false))
}

// Inverse edges are added to the graphs that OGB's loader adds them to, or as asked; each lies behind its
// edge.
func TestInverseEdges(t *testing.T) {
	y := newToy(50, 400)
	for _, c := range []struct {
		folder  string
		asked   Inverse
		inverse bool
		metric  string
		note    string
	}{
		{"ogbn_products", ByName, true, "accuracy", "400 edges, and the inverse of each, as OGB's loader " +
			"does for ogbn_products"},
		{"ogbn_proteins", ByName, true, "roc-auc", "for ogbn_proteins"},
		{"ogbn_proteins", Leave, false, "roc-auc", "400 edges, without inverse ones, as " +
			"--inverse-edges asks for"},
		{
			"ogbn_arxiv", Add, true, "accuracy",
			"400 edges, and the inverse of each, as --inverse-edges asks for",
		},
		{
			"mine", ByName, false, "",
			`as the folder lists them: "mine" is none of OGB's names (--inverse-edges adds inverse edges)`,
		},
	} {
		for _, folder := range []string{y.text(t, c.folder), y.binary(t, c.folder, zip.Deflate)} {
			s := check(t, Options{Folder: folder, Inverse: c.asked}, y.want(t, c.inverse))
			assert.Contains(t, s.Notes[0], c.note, "%s: notes %q", c.folder, s.Notes)
			assert.Equal(t, c.metric, s.Metric, "%s: metric", c.folder)
		}
	}
}

// What the stream leaves out and adds is what graph.Symmetrize does.
func TestSymmetrize(t *testing.T) {
	y := newToy(60, 900)
	for _, asked := range []Inverse{Leave, Add} {
		for _, features := range [][]float32{y.edgeFeatures, nil} {
			part := *y
			part.edgeFeatures = features
			want, err := part.want(t, asked == Add).Symmetrize()
			require.NoError(t, err)
			s := check(t, Options{Folder: part.text(t, "mine"), Inverse: asked, Symmetrize: true}, want)
			assert.Equal(t, want.Notes[0], s.Notes[len(s.Notes)-1], "note")
		}
	}
}

// Features of vertices are made from those of the edges into them.
func TestFeaturesFromEdges(t *testing.T) {
	y := newToy(40, 100)
	y.features = nil
	for _, kind := range []string{Mean, Sum} {
		g := y.want(t, true)
		r := &g.Relations[0]
		g.Types[0].Features = graph.Features{Columns: 2, Dense: make([]float32, 2*40)}
		for v := range 40 {
			for c := range 2 {
				sum, n := 0., r.Indptr[v+1]-r.Indptr[v]
				for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
					sum += float64(r.EdgeFeatures[2*k+int64(c)])
				}
				if kind == Mean {
					sum /= float64(max(n, 1))
				}
				g.Types[0].Features.Dense[2*v+c] = float32(sum)
			}
		}
		check(t, Options{Folder: y.text(t, "ogbn_proteins"), FromEdges: kind}, g)
	}
	s := check(t, Options{Folder: y.text(t, "ogbn_proteins")}, y.want(t, true))
	if !slices.Contains(s.Notes, "no features of vertices; --features-from-edges mean makes them of the 2 "+
		"that edges have") {
		t.Errorf("notes %q", s.Notes)
	}
}

// Arrays that are none of integers are of floats; the species of proteins have a name of their own.
func TestArrays(t *testing.T) {
	y := newToy(5, 10)
	folder := y.text(t, "ogbn_proteins")
	gzipped(t, filepath.Join(folder, "raw", "species.csv.gz"), "3702\n4932\n\n511145\n9606\n")
	gzipped(t, filepath.Join(folder, "raw", "node_large.csv.gz"), "1,2\n3,4\n5,6\n7,8\n9,16777216\n")
	want := y.want(t, true)
	want.Types[0].Arrays = []graph.Array{
		{Name: "node_large", Columns: 2, Floats: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 16777216}},
		want.Types[0].Arrays[0],
		{Name: "node_species", Columns: 1, Floats: []float32{3702, 4932, nan, 511145, 9606}},
	}
	check(t, Options{Folder: folder}, want)
}

func TestSeveralTasks(t *testing.T) {
	y := newToy(40, 100).several(4)
	for k := 0; k < len(y.labels); k += 7 { // of vertices that keep others
		y.labels[k] = nan
	}
	for _, folder := range []string{y.text(t, "ogbn_proteins"), y.binary(t, "ogbn_proteins", zip.Store)} {
		check(t, Options{Folder: folder}, y.want(t, true))
	}
}

// The ways in which a label can be missing, and a number be spelled.
func TestSpellings(t *testing.T) {
	y := newToy(5, 4)
	y.features, y.edgeFeatures = nil, nil
	y.labels = []float32{nan, nan, nan, 2, 4}
	y.splits = map[string][3][]int64{"time": {{4}, {}, {3}}}
	folder := y.text(t, "ogbn_arxiv")
	gzipped(t, filepath.Join(folder, "raw", "node-label.csv.gz"), "\nnan\r\n\"\"\n2.0\r\n4")
	gzipped(t, filepath.Join(folder, "raw", "edge.csv.gz"),
		fmt.Sprintf("%d,%d\r\n\n%d,%d\n%d,%d\n%d,%d", y.source[0], y.target[0],
			y.source[1], y.target[1], y.source[2], y.target[2], y.source[3], y.target[3]))
	gzipped(t, filepath.Join(folder, "raw", "node-feat.csv.gz"),
		"1,-0.5\n1e-3,-2.5E+2\n123456789012345678901234567890,.5\n-0,0.1000000000000000055\n\n 1,+3\n")
	_, err := streamedtest.Read(Open(Options{Folder: folder}))
	assert.ErrorContains(t, err, `node-feat.csv.gz:6: " 1" is not a number`)
	gzipped(t, filepath.Join(folder, "raw", "node-feat.csv.gz"),
		"1,-0.5\n1e-3,-2.5E+2\n123456789012345678901234567890,.5\n-0,0.1000000000000000055\n\n1,+3\n")
	want := y.want(t, false)
	want.Types[0].Features = graph.Features{
		Columns: 2,
		Dense: []float32{
			1, -.5, 1e-3, -250, 123456789012345678901234567890, .5,
			float32(math.Copysign(0, -1)), .1, 1, 3,
		},
	}
	check(t, Options{Folder: folder}, want)
}

// One split is taken as it is, of several the one that is named; a rule takes the place of all.
func TestSplits(t *testing.T) {
	y := newToy(20, 50)
	folder := y.text(t, "ogbn_arxiv")
	check(t, Options{Folder: folder, Split: "time"}, y.want(t, false))
	s := y.splits["time"]
	y.splits["random"] = [3][]int64{s[1], s[2], s[0]}
	folder = y.text(t, "ogbn_arxiv")
	check(t, Options{Folder: folder, Split: "time"}, y.want(t, false))
	for split, want := range map[string]string{
		"":     `has the splits "random", "time": choose one with --split`,
		"tmie": `none of that name, but "random", "time"`,
	} {
		_, err := streamedtest.Read(Open(Options{Folder: folder, Split: split}))
		assert.Refused(t, err, want, "split %q", split)
	}
	ruled := y.want(t, false)
	require.NoError(t, ruled.MakeSplits("random:50/25/25", 2, 7))
	y.splits = nil
	check(t, Options{Folder: y.text(t, "ogbn_arxiv"), Rule: &Rule{"random:50/25/25", 2, 7}}, ruled)
}

// spoil damages a folder.
type spoil func(t *testing.T, folder string)

// remove removes a file or folder.
func remove(file string) spoil {
	return func(t *testing.T, folder string) {
		require.NoError(t, os.RemoveAll(filepath.Join(folder, file)))
	}
}

// textOf puts another text into a file.
func textOf(file, content string) spoil {
	return func(t *testing.T, folder string) { gzipped(t, filepath.Join(folder, file+textSuffix), content) }
}

// arraysOf puts other arrays into an archive.
func arraysOf(file string, entries ...entry) spoil {
	return func(t *testing.T, folder string) {
		write(t, filepath.Join(folder, file), archive(t, zip.Store, entries...))
	}
}

// file puts a file without content there.
func file(name string) spoil {
	return func(t *testing.T, folder string) { write(t, filepath.Join(folder, name), nil) }
}

// all does one after another.
func all(spoils ...spoil) spoil {
	return func(t *testing.T, folder string) {
		for _, s := range spoils {
			s(t, folder)
		}
	}
}

// damage is what is wrong with a folder, and what is said of it.
type damage struct {
	spoil spoil
	want  string
}

// refuseAll fails unless folders are refused for each of the damages.
func refuseAll(t *testing.T, folder func(t testing.TB) string, damages []damage) {
	t.Helper()
	for _, c := range damages {
		t.Run(c.want, func(t *testing.T) {
			f := folder(t)
			c.spoil(t, f)
			refuse(t, Options{Folder: f}, c.want)
		})
	}
}

// refuse fails unless a folder is refused.
func refuse(t *testing.T, o Options, want string) {
	t.Helper()
	streamedtest.WantRefused(t, func() (*streamed.Graph, error) { return Open(o) }, "", want)
}

func TestDamagedFoldersAreRefused(t *testing.T) {
	bytesOf := func(file string, change func([]byte) []byte) spoil {
		return func(t *testing.T, folder string) {
			data, err := os.ReadFile(filepath.Join(folder, file))
			require.NoError(t, err)
			write(t, filepath.Join(folder, file), change(data))
		}
	}
	half := func(b []byte) []byte { return b[:len(b)/2] }
	arrays := func(entries ...entry) spoil { return arraysOf("raw/data.npz", entries...) }
	sizes := []entry{
		{"num_nodes_list", []int64{10}, []int{1}, false},
		{"num_edges_list", []int64{3}, []int{1}, false},
	}
	edges := func(ids any, rows, columns int, more ...entry) []entry {
		return slices.Concat(sizes, []entry{{edgeIndex, ids, []int{rows, columns}, false}}, more)
	}
	nans := slices.Repeat([]float32{nan}, 10)
	y := newToy(10, 3)
	y.features = y.features[:30]
	text := func(t testing.TB) string { return y.text(t, "ogbn_arxiv") }
	binary := func(t testing.TB) string { return y.binary(t, "ogbn_arxiv", zip.Store) }
	refuseAll(t, text, []damage{
		{remove("."), "no such folder; give a folder that OGB's downloader left"},
		{remove("raw"), "raw: has neither edge.csv.gz nor data.npz, nor triplet-type-list.csv.gz"},
		{remove("raw/edge.csv.gz"), "edge.csv.gz: no such file or directory; fetch the folder again"},
		{remove("raw/num-node-list.csv.gz"), "num-node-list.csv.gz: no such file"},
		{remove("raw/num-edge-list.csv.gz"), "num-edge-list.csv.gz: no such file"},
		{remove("raw/node-label.csv.gz"), "node-label.csv.gz: no such file"},
		{remove("split"), "has no folder of a split"},
		{remove("split/time/test.csv.gz"), "test.csv.gz: no such file"},
		{textOf("raw/num-node-list", "5\n5\n"), "holds 2 graphs"},
		{textOf("raw/num-node-list", "ten\n"), `"ten" is no count`},
		{textOf("raw/num-node-list", "0\n"), "announces 0 vertices"},
		{textOf("raw/num-node-list", "2147483648\n"), "announces 2147483648 vertices"},
		{textOf("raw/num-edge-list", "-1\n"), "-1 edges, where"},
		{textOf("raw/num-node-list", "11\n"), "node-label.csv.gz:10: the last row, where 11 are announced"},
		{textOf("raw/num-node-list", "9\n"), "more rows than the 9 announced"},
		{textOf("raw/num-edge-list", "2\n"), "edge.csv.gz: more edges than the 2 announced"},
		{
			textOf("raw/num-edge-list", "1000000000000\n"),
			"edge.csv.gz: 3 edges, where 1000000000000 are announced",
		},
		{textOf("raw/edge-feat", "1,2\n1,2\n"), "edge-feat.csv.gz:2: the last row, where 3"},
		{textOf("raw/edge-feat", "1,2\n1,2\n1,2\n1,2\n"), "edge-feat.csv.gz:4: more rows than the 3"},
		{textOf("raw/node-feat", "1\n2\n"), "node-feat.csv.gz:2: the last row, where 10"},
		{textOf("raw/node-feat", "1,2\n2\n"), "node-feat.csv.gz:2: 1 columns, where the lines before have 2"},
		{textOf("raw/node-feat", "1,2\n2,\n"), "node-feat.csv.gz:2: column 1 is NaN"},
		{textOf("raw/node-feat", "x,y\n2,3\n"), `node-feat.csv.gz:1: "x" is not a number`},
		{textOf("raw/edge", "0,1\n1,10\n2,3\n"), "edge.csv.gz:2: 10 is out of the range of 10"},
		{textOf("raw/edge", "0,1\n-1,1\n"), `edge.csv.gz:2: "-1" is not an id`},
		{textOf("raw/edge", "0,1\n1,18446744073709551616\n"), `"18446744073709551616" is not an id`},
		{textOf("raw/edge", "0,1,2\n"), "edge.csv.gz:1: 3 columns, where there are 2"},
		{
			textOf("raw/node-label", strings.Repeat("1.5\n", 10)),
			"node-label.csv.gz:1: the label 1.5 is no class",
		},
		{textOf("raw/node-label", strings.Repeat("10\n", 10)), "label 10 of vertex 0: classes run from 0"},
		{textOf("raw/node-label", strings.Repeat("0,2\n", 10)), "the label of task 1 is 2"},
		{textOf("split/time/valid", "10\n"), "valid.csv.gz:1: 10 is out of the range of 10"},
		{textOf("split/time/valid", "1\n1\n"), "vertex 1 is given twice"},
		{textOf("split/time/valid", "0\n"), "vertex 0 is also in"},
		{textOf("split/time/valid", "3\n"), "vertex 3 has no label"},
		{textOf("split/time/valid", strings.Repeat("1\n", 100)), "more ids than the 10 vertices"},
		{
			file("split/time/split_dict.pt"),
			"split_dict.pt: zip: not a valid zip file; give a file of torch.save",
		},
		{
			bytesOf("raw/edge.csv.gz", func(b []byte) []byte {
				return append(b, "xxxxxxxxxxxxxxxxxxxxxxxx"...)
			}),
			"the file is damaged or cut short; fetch the folder again",
		},
		{
			bytesOf("raw/edge.csv.gz", func([]byte) []byte { return []byte("0,1\n1,2\n2,3\n") }),
			"edge.csv.gz: a damaged gzip file: gzip: invalid header; fetch the folder again",
		},
		{bytesOf("raw/edge.csv.gz", half), "the file is damaged or cut short; fetch the folder again"},
		{
			func(t *testing.T, folder string) {
				remove("raw/edge.csv.gz")(t, folder)
				require.NoError(t, os.Mkdir(filepath.Join(folder, "raw/edge.csv.gz"), 0o755))
			},
			"is a directory, not a file",
		},
		{
			textOf("raw/node_year", "old\n"),
			`node_year.csv.gz:1: "old" is not a number (node_year may be left out of the folder)`,
		},
		{textOf("raw/node_year", "1\n"), "node_year.csv.gz:1: the last row, where 10"},
	})
	refuseAll(t, binary, []damage{
		{bytesOf("raw/data.npz", half), "data.npz: the .npz file is damaged"},
		{bytesOf("raw/node-label.npz", half), "node-label.npz: the .npz file is damaged"},
		{bytesOf("raw/data.npz", func(b []byte) []byte {
			b[bytes.Index(b, []byte("node_feat.npy"))+200] ^= 1
			return b
		}), "checksum"},
		{remove("raw/node-label.npz"), "node-label.npz: no such file"},
		{arrays(sizes...), `has no array "edge_index"`},
		{arrays(edges(make([]int64, 6), 3, 2)...), "has shape [3 2]: it must be 2 × E"},
		{arrays(edges([]int64{0, 1, 2, 3, 10, 4}, 2, 3)...), "element 4, 10, is out of the range of 10"},
		{arrays(edges([]int64{0, 1, 2, 3}, 2, 2)...), "2 edges, where 3 are announced"},
		{
			arrays(edges(make([]float32, 6), 2, 3)...),
			`array "edge_index": dtype "<f4" is not an integer`,
		},
		{
			arrays(edges(make([]int64, 6), 2, 3,
				entry{"node_feat", make([]float32, 8), []int{2, 2, 2}, false})...),
			"has shape [2 2 2], where a matrix is expected",
		},
		{
			arrays(edges(make([]int64, 6), 2, 3, entry{"node_feat", nans, []int{10, 1}, false})...),
			`array "node_feat": row 0: column 0 is NaN`,
		},
	})
	whole := text(t)
	refuse(t, Options{Folder: whole, FromEdges: Mean},
		"has features of its vertices; leave --features-from-edges out")
	refuse(t, Options{Folder: whole, FromEdges: "max"}, `features-from-edges "max": give mean or sum`)
	remove("raw/edge-feat.csv.gz")(t, whole)
	refuse(t, Options{Folder: whole, FromEdges: Sum}, "has features of its vertices")
}
