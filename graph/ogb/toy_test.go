package ogb

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

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
	labels := y.labels
	y.labels = nil
	for v := range labels {
		for k := range tasks {
			x := float32((v + k) % 2)
			if labels[v] != labels[v] {
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
		row := y.edgeFeatures[k*e.FeatureColumns : (k+1)*e.FeatureColumns]
		e.Source, e.Target, e.Features = append(e.Source, u), append(e.Target, v), append(e.Features, row...)
		if inverse {
			e.Source, e.Target, e.Features = append(e.Source, v), append(e.Target, u),
				append(e.Features, row...)
		}
	}
	r, err := graph.NewRelation(y.vertices, e)
	require.NoError(t, err)
	g := graph.Of(r)
	if y.features != nil {
		g.Types[0].Features = graph.Features{Columns: y.columns, Dense: y.features}
	}
	if y.tasks > 1 {
		g.Types[0].Labels = graph.Labels{Classes: y.tasks, Multi: y.labels}
	} else {
		g.Types[0].Labels.Classes = 5
		for _, x := range y.labels {
			if x != x {
				x = -1
			}
			g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, int64(x))
		}
	}
	g.Types[0].Arrays = []graph.Array{{Name: "node_year", Columns: 1, Ints: y.years}}
	s := y.splits["time"]
	g.Types[0].Splits = []graph.Split{{Train: s[0], Val: s[1], Test: s[2]}}
	return g
}
