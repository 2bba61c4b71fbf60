package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/foreign"
	"weft/internal/realdata"
	"weft/internal/refusal"
	"weft/internal/require"
)

func TestPublishedGraphs(t *testing.T) {
	type facts struct {
		Vertices, Edges, Symmetric, Columns, NonZero, Classes, Splits, Train int
		Metric                                                               string
		// EdgeSum: Σ (source+1)·(target+3), from NumPy
		EdgeSum int64
	}
	for name, want := range map[string]facts{
		"npz/amazon_computers.npz": {
			Vertices: 13752, Edges: 287209, Symmetric: 2 * 245861, Columns: 767, NonZero: 3675081,
			Classes: 10, EdgeSum: 13462436776047,
		},
		"npz/coauthor_physics.npz": {
			Vertices: 34493, Edges: 495924, Symmetric: 2 * 247962, Columns: 8415, NonZero: 1137311,
			Classes: 5, EdgeSum: 146367494062238,
		},
		"npz/minesweeper.npz": {
			Vertices: 10000, Edges: 2 * 39402, Symmetric: 2 * 39402, Columns: 7, NonZero: 70000, Classes: 2,
			Splits: 10, Train: 5000, Metric: "roc-auc", EdgeSum: 2618048818704,
		},
		"map_of_github/edges.npz": {
			Vertices: 689517, Edges: 2348885, Symmetric: 2 * 2348885, EdgeSum: 278481508314319044,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := streamedtest.Read(Open(realdata.File(t, name), Options{}))
			require.NoError(t, err)
			symmetric, err := g.Symmetrize()
			require.NoError(t, err)
			got := facts{
				Vertices: g.Vertices(), Edges: int(g.Edges()), Symmetric: int(symmetric.Edges()),
				Columns: g.Types[0].Features.Columns,
				NonZero: len(g.Types[0].Features.Data) + len(g.Types[0].Features.Dense),
				Classes: g.Labels.Classes, Splits: len(g.Splits), Metric: g.Metric,
			}
			if len(g.Splits) > 0 {
				got.Train = len(g.Splits[0].Train)
			}
			e := g.Relations[0].Edges()
			for k := range e.Len() {
				got.EdgeSum += int64(e.Source[k]+1) * int64(e.Target[k]+3)
			}
			if g.Relations[0].Weights != nil {
				t.Error("has weights, though its values are all one")
			}
			assert.Equal(t, want, got)
		})
	}
}

// entry is an array of an archive: its .npy file.
type entry struct{ key, file string }

// array spells an .npy file of little-endian values.
func array(key, descr, shape string, values any) entry {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	b.Write([]byte{byte(len(dict)), byte(len(dict) >> 8)})
	b.WriteString(dict)
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		panic(err)
	}
	return entry{key, b.String()}
}

// write writes an archive and returns its path.
func write(t testing.TB, entries ...entry) string {
	t.Helper()
	return writeWith(t, func(z *zip.Writer, e entry) (io.Writer, error) {
		return z.Create(e.key + ".npy")
	}, entries...)
}

// writeWith is write with the caller's way to begin an entry.
func writeWith(t testing.TB, begin func(*zip.Writer, entry) (io.Writer, error), entries ...entry) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := begin(z, e)
		require.NoError(t, err)
		_, err = w.Write([]byte(e.file))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return graphtest.File(t, "graph.npz", b.Bytes())
}

// opening opens an archive.
func opening(path string) func() (*streamed.Graph, error) { return openingWith(path, Options{}) }

func openingWith(path string, o Options) func() (*streamed.Graph, error) {
	return func() (*streamed.Graph, error) { return Open(path, o) }
}

// refused fails unless an archive of these arrays is refused with that text.
func refused(t *testing.T, want string, entries ...entry) {
	t.Helper()
	path := write(t, entries...)
	streamedtest.WantRefused(t, opening(path), path+": ", want)
}

func sparse() []entry {
	return []entry{
		array("adj_data", "<f4", "(3,)", []float32{1, 1, 1}),
		array("adj_indices", "<i4", "(3,)", []int32{1, 2, 0}),
		array("adj_indptr", "<i4", "(4,)", []int32{0, 2, 2, 3}),
		array("adj_shape", "<i8", "(2,)", []int64{3, 3}),
		array("attr_data", "<f4", "(4,)", []float32{1, 2, 3, 4}),
		array("attr_indices", "<i4", "(4,)", []int32{3, 1, 3, 0}),
		array("attr_indptr", "<i4", "(4,)", []int32{0, 3, 3, 4}),
		array("attr_shape", "<i8", "(2,)", []int64{3, 5}),
		array("labels", "<i4", "(3,)", []int32{1, 0, -1}),
		array("node_names", "<U2", "(3,)", []int32{'a', 'b', 'c', 0, 'ä', 0}),
		array("class_names", "|O", "(2,)", []byte("\x80\x02cos\nsystem\n")),
	}
}

func heterophilous() []entry {
	return []entry{
		array("node_features", "<f8", "(3, 2)", []float64{1, 2, 3, 4, 5, 6}),
		array("node_labels", "<i8", "(3,)", []int64{1, 0, 1}),
		array("edges", "<i8", "(4, 2)", []int64{0, 1, 1, 0, 2, 2, 1, 2}),
		array("train_masks", "|b1", "(2, 3)", []byte{1, 0, 0, 0, 1, 1}),
		array("val_masks", "|b1", "(2, 3)", []byte{0, 1, 0, 1, 0, 0}),
		array("test_masks", "|b1", "(2, 3)", []byte{0, 0, 1, 0, 0, 0}),
	}
}

func edgeList() []entry {
	return []entry{
		array("edges", "<i4", "(3, 2)", []int32{0, 1, 0, 1, 2, 2}),
		array("num_nodes", "<i8", "()", []int64{4}),
	}
}

func fields() []entry {
	return []entry{
		array("edge_index", "<i8", "(2, 3)", []int64{2, 0, 0, 0, 1, 2}),
		array("edge_weight", "<f4", "(3,)", []float32{2, .5, 1}),
		array("edge_attr", "<f8", "(3, 2)", []float64{1, 2, 3, 4, 5, 6}),
		array("x", "<f4", "(3, 1)", []float32{7, 8, 9}),
		array("y", "<i8", "(3,)", []int64{1, 0, 1}),
		array("train_mask", "|b1", "(3,)", []byte{1, 0, 0}),
		array("val_mask", "|b1", "(3,)", []byte{0, 1, 0}),
		array("test_mask", "|b1", "(3,)", []byte{0, 0, 1}),
	}
}

func TestLayouts(t *testing.T) {
	weighted, dense := sparse(), without(sparse(), attributes[:]...)
	weighted[0] = array("adj_data", "<f4", "(3,)", []float32{.5, 1, 2})
	dense = append(dense, array("attr_matrix", "<f4", "(3, 1)", []float32{7, 8, 9}))
	shape := graph.Relation{Indptr: []int64{0, 1, 2, 3}, Sources: []int32{2, 0, 0}}
	features := graph.Features{
		Columns: 5, Indptr: []int64{0, 2, 2, 3}, Indices: []int32{1, 3, 0}, Data: []float32{2, 4, 4},
	}
	labels, names := graph.Labels{Classes: 2, Class: []int64{1, 0, -1}}, []string{"ab", "c", "ä"}
	for _, c := range []struct {
		name    string
		entries []entry
		want    graph.Graph
	}{
		{"sparse", sparse(), graph.Graph{
			Types:     []graph.VertexType{{Count: len(shape.Indptr) - 1, Features: features, Names: names}},
			Relations: []graph.Relation{shape}, Labels: labels,
		}},
		{"weighted", weighted, graph.Graph{
			Types: []graph.VertexType{{Count: 3, Features: features, Names: names}},
			Relations: []graph.Relation{
				{Indptr: shape.Indptr, Sources: shape.Sources, Weights: []float32{2, .5, 1}},
			},
			Labels: labels,
		}},
		{"dense", dense, graph.Graph{
			Types: []graph.VertexType{{
				Count:    len(shape.Indptr) - 1,
				Features: graph.Features{Columns: 1, Dense: []float32{7, 8, 9}},
				Names:    names,
			}},
			Relations: []graph.Relation{shape},
			Labels:    labels,
		}},
		{"adjacency alone", sparse()[:4], *graph.Of(shape)},
		{"heterophilous", heterophilous(), graph.Graph{
			Types: []graph.VertexType{{
				Count:    3,
				Features: graph.Features{Columns: 2, Dense: []float32{1, 2, 3, 4, 5, 6}},
			}},
			Relations: []graph.Relation{
				{Indptr: []int64{0, 1, 3, 5}, Sources: []int32{1, 0, 2, 1, 2}, Symmetric: true},
			},
			Labels: graph.Labels{Classes: 2, Class: []int64{1, 0, 1}},
			Splits: []graph.Split{
				{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}},
				{Train: []int64{1, 2}, Val: []int64{0}, Test: []int64{}},
			},
			Metric: "roc-auc",
		}},
		{"fields", fields(), graph.Graph{
			Types: []graph.VertexType{{
				Count:    3,
				Features: graph.Features{Columns: 1, Dense: []float32{7, 8, 9}},
			}},
			Relations: []graph.Relation{
				{
					Indptr: shape.Indptr, Sources: shape.Sources, Weights: []float32{2, .5, 1},
					EdgeFeatures: []float32{1, 2, 3, 4, 5, 6}, EdgeColumns: 2,
				},
			},
			Labels: graph.Labels{Classes: 2, Class: []int64{1, 0, 1}},
			Splits: []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}},
		}},
		{
			"masks in columns",
			append(fields()[:1:1], array("train_mask", "|b1", "(3, 2)", []byte{1, 0, 0, 1, 0, 1})),
			graph.Graph{
				Types:     []graph.VertexType{{Count: len(shape.Indptr) - 1}},
				Relations: []graph.Relation{shape}, Splits: []graph.Split{
					{Train: []int64{0}, Val: []int64{}, Test: []int64{}},
					{Train: []int64{1, 2}, Val: []int64{}, Test: []int64{}},
				},
			},
		},
		{
			"no edges",
			[]entry{
				array("edge_index", "<i8", "(2, 0)", []int64{}),
				array("edge_weight", "<f4", "(0,)", []float32{}),
				array("edge_attr", "<f4", "(0, 2)", []float32{}),
				array("num_nodes", "<i8", "()", []int64{3}),
			},
			graph.Graph{
				Types: []graph.VertexType{{Count: 3}},
				Relations: []graph.Relation{{
					Indptr: make([]int64, 4), Sources: []int32{}, Weights: []float32{},
					EdgeFeatures: []float32{}, EdgeColumns: 2,
				}},
			},
		},
		{
			"edge list", edgeList(),
			graph.Graph{
				Types:     []graph.VertexType{{Count: 4}},
				Relations: []graph.Relation{{Indptr: []int64{0, 0, 2, 3, 3}, Sources: []int32{0, 0, 2}}},
			},
		},
	} {
		path := write(t, c.entries...)
		got := streamedtest.Same(t, opening(path))
		c.want.Provenance = "npz " + path
		assert.EqualBy(t, &c.want, got, cmpopts.IgnoreUnexported(graph.Graph{}),
			cmpopts.IgnoreFields(graph.Graph{}, "Notes"))
	}
}

// Pairs of the second layout lead both ways, unless the file's name or the caller says that each is one edge.
func TestDirection(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []entry
		options Options
		edges   int64
		note    string
	}{
		{"graph.npz", heterophilous(), Options{}, 5, "4 edges made undirected: 1 added"},
		{
			"graph_directed.npz", heterophilous(),
			Options{},
			4,
			"4 edges stay directed, as the file's name says",
		},
		{"graph.npz", heterophilous(), Options{AsListed: true}, 4, "4 edges, as the file lists them"},
		{"graph.npz", without(sparse(), "class_names"), Options{}, 3, "3 edges, as the file lists them"},
		{"graph.npz", fields(), Options{}, 3, "3 edges, as the file lists them"},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		require.NoError(t, os.Rename(write(t, c.entries...), path))
		g := streamedtest.Same(t, openingWith(path, c.options))
		assert.Equal(t, c.edges, g.Edges(), "%s, %+v", c.name, c.options)
		assert.Equal(t, []string{c.note}, g.Notes, "%s, %+v", c.name, c.options)
	}
}

// scipy.sparse.save_npz writes one matrix in several ways.
func TestMatrixOfSciPy(t *testing.T) {
	want := graph.Features{
		Columns: 4, Indptr: []int64{0, 2, 2, 3}, Indices: []int32{1, 3, 0}, Data: []float32{2, 4, 5},
	}
	shape, data := array("shape", "<i8", "(2,)", []int64{3, 4}),
		array("data", "<f4", "(3,)", []float32{2, 4, 5})
	format := func(name string) entry { return array("format", "|S3", "()", []byte(name)) }
	for _, entries := range [][]entry{
		{
			format("csr"), shape, array("indptr", "<i4", "(4,)", []int32{0, 2, 2, 3}),
			array("indices", "<i4", "(3,)", []int32{1, 3, 0}), data,
		},
		{
			format("csc"), shape, array("indptr", "<i4", "(5,)", []int32{0, 1, 2, 2, 3}),
			array("indices", "<i4", "(3,)", []int32{2, 0, 0}),
			array("data", "<f4", "(3,)", []float32{5, 2, 4}),
		},
		{
			format("coo"), shape, array("row", "<i4", "(3,)", []int32{0, 0, 2}),
			array("col", "<i4", "(3,)", []int32{1, 3, 0}), data,
		},
	} {
		path := write(t, entries...)
		m, err := ReadMatrix(path)
		require.NoError(t, err)
		if diff := cmp.Diff(want, m.Features); diff != "" || m.Rows != 3 {
			t.Errorf("%d rows (-want +got):\n%s", m.Rows, diff)
		}
		_, err = streamedtest.Read(Open(path, Options{}))
		assert.ErrorContains(t, err, "a sparse matrix of scipy.sparse.save_npz, and no graph", "as a graph")
	}
	for _, c := range []struct {
		entries []entry
		want    string
	}{
		{edgeList(), `holds arrays ("edges", "num_nodes"), no sparse matrix`},
		{[]entry{format("dia"), shape, data}, "none of the formats that are read"},
		{[]entry{array("format", "|S3", "(0,)", []byte{}), shape, data}, "none of the formats that are read"},
		{
			[]entry{
				format("coo"), array("shape", "<i8", "(2,)", []int64{1 << 40, 4}),
				array("row", "<i4", "(1,)", []int32{0}),
				array("col", "<i4", "(1,)", []int32{0}), array("data", "<f4", "(1,)", []float32{1}),
			},
			"save it as a csr_matrix",
		},
		{
			[]entry{
				format("coo"), shape, array("row", "<i4", "(1,)", []int32{3}),
				array("col", "<i4", "(1,)", []int32{0}), array("data", "<f4", "(1,)", []float32{1}),
			},
			"row 3 of a sparse matrix of 3 rows",
		},
	} {
		path := write(t, c.entries...)
		_, err := ReadMatrix(path)
		assert.RefusedFor(t, err, path+": ", c.want)
	}
}

// An archive of one pickle, as graph2gauss publishes, is not taken for one without arrays.
func TestPickledArchive(t *testing.T) {
	refused(t, foreign.Conversion, array("arr_0", "|O", "()", []byte("\x80\x02}")))
}

func TestDamagedIsRefused(t *testing.T) {
	with := func(entries []entry, changed entry) []entry {
		for i := range entries {
			if entries[i].key == changed.key {
				entries[i] = changed
				return entries
			}
		}
		return append(entries, changed)
	}
	for _, c := range []struct {
		entries []entry
		want    string
	}{
		{[]entry{array("x", "<i4", "(1,)", []int32{1})}, `its arrays ("x")`},
		{nil, "its arrays (none)"},
		{append(edgeList(), edgeList()...), "two arrays"},
		{
			with(edgeList(), array("num_nodes", "<i8", "()", []int64{1 << 40})),
			`"num_nodes": is [1099511627776]`,
		},
		{with(edgeList(), array("num_nodes", "<i8", "()", []int64{2})), "2→2"},
		{with(edgeList(), array("edges", "<i4", "(2, 3)", make([]int32, 6))), "E × 2"},
		{with(edgeList(), array("edges", "<i4", "(100000, 2)", []int32{0, 1})), `array "edges"`},
		{with(edgeList(), array("edges", "<f4", "(1, 2)", []int32{0, 1})), "not an integer"},
		{with(edgeList(), array("edges", "<i8", "(1, 2)", []int64{0, 1 << 32})), "exceeds a 32-bit integer"},
		{
			with(edgeList(), array("feat", "<f4", "(4,)", make([]float32, 4))),
			`array "feat" is not read beside "edges": leave it out`,
		},
		{with(fields(), array("edge_index", "<i8", "(3, 2)", make([]int64, 6))), "2 × E"},
		{
			with(fields(), array("edge_attr", "<f4", "(2, 2)", make([]float32, 4))),
			`"edge_attr": has shape [2 2]: it must have a row for each of 3 edges`,
		},
		{
			with(fields(),
				array("edge_attr", "<f4", "(3, 2)", []float32{0, 0, 0, float32(math.NaN()), 0, 0})),
			`"edge_attr": edge 1 of the file has the value NaN in column 1`,
		},
		{
			with(fields(), array("val_mask", "|b1", "(3,)", []byte{1, 1, 0})),
			`: array "val_mask": vertex 0 is also in train_mask`,
		},
		{with(fields(), array("val_mask", "|b1", "(2,)", []byte{1, 1})), `"val_mask": has shape [2]`},
		{
			with(fields(), array("y", "<f4", "(3,)", []float32{0, 0, float32(math.Inf(1))})),
			"label +Inf of vertex 2",
		},
		{with(sparse(), array("adj_shape", "<i8", "(2,)", []int64{3, 4})), "must be square"},
		{with(sparse(), array("adj_shape", "<i8", "(2,)", []int64{1 << 40, 1 << 40})), "at most"},
		{with(sparse(), array("adj_indptr", "<i4", "(4,)", []int32{0, 3, 2, 3})), "do not ascend"},
		{with(sparse(), array("adj_indices", "<i4", "(3,)", []int32{0, 1, 3})), "column 3"},
		{with(sparse(), array("attr_shape", "<i8", "(2,)", []int64{4, 5})), "4 rows"},
		{with(sparse(), array("labels", "<i4", "(2,)", []int32{1, 0})), "2 rows"},
		{with(sparse(), array("labels", "<i4", "(3,)", []int32{1, 0, 100})), "label 100 of vertex 2"},
		{with(sparse(), array("labels", "|O", "(3,)", []byte("cos\nsystem\n"))), "Python objects"},
		{with(sparse(), array("node_names", "<U1", "(2,)", []int32{'a', 'b'})), "2 rows"},
		{
			with(heterophilous(), array("node_features", "<f4", "(1000000000, 0)", []float32{})),
			"not 1000000000",
		},
		{with(heterophilous(), array("val_masks", "|b1", "(1, 3)", []byte{0, 1, 0})), "val_masks"},
		{with(heterophilous(), array("val_masks", "|b1", "(2, 2)", []byte{0, 1, 0, 1})), "val_masks"},
		{with(heterophilous(),
			array("node_features", "<f4", "(3, 1)", []float32{0, float32(math.Inf(1)), 0})), "vertex 1"},
	} {
		refused(t, c.want, c.entries...)
	}
}

// without are the entries but for those keys.
func without(entries []entry, keys ...string) []entry {
	return slices.DeleteFunc(entries, func(e entry) bool { return slices.Contains(keys, e.key) })
}

// No array is lost without a word: a file without one of a group, or with one of another name, is refused, or
// what is not read is named.
func TestNothingIsLostSilently(t *testing.T) {
	for _, group := range [][]string{adjacency[:], attributes[:]} {
		for _, key := range group {
			refused(t, "without \""+key+"\": these belong together", without(sparse(), key)...)
		}
	}
	for _, key := range maskKeys {
		refused(t, "without \""+key+"\": these belong together", without(heterophilous(), key)...)
	}
	refused(t, `has the array "class_names" without "labels"`, without(sparse(), "labels")...)
	unlabelled := write(t, without(sparse(), "labels", "class_names")...)
	if g, err := streamedtest.Read(Open(unlabelled, Options{})); err != nil ||
		!slices.Contains(g.Notes, `no "labels": the vertices cannot be classified`) {
		t.Errorf("without labels: %+v, %v", g, err)
	}
	refused(t, "has features twice",
		append(sparse(), array("attr_matrix", "<f4", "(3, 1)", []float32{7, 8, 9}))...)
	for _, layout := range [][]entry{sparse(), heterophilous(), edgeList(), fields()} {
		for k := range layout {
			renamed := slices.Clone(layout)
			renamed[k].key = "z" + renamed[k].key[1:]
			_, err := streamedtest.Read(Open(write(t, renamed...), Options{}))
			if !refusal.Is(err) || !strings.Contains(err.Error(), layout[k].key) &&
				!strings.Contains(err.Error(), renamed[k].key) {
				t.Errorf("%s called %s: error %v", layout[k].key, renamed[k].key, err)
			}
		}
	}
	for _, c := range []struct {
		entries  []entry
		notes    string
		warnings string
	}{
		{sparse(), `left out: "class_names", which holds Python objects`, ""},
		{
			append(sparse()[:9], array("node_names", "<i4", "(3,)", []int32{1, 2, 3})),
			`left out: "node_names", which is no vector of text`, "",
		},
		{
			append(sparse()[:9], array("attr_names", "<U1", "(5,)", make([]int32, 5))),
			`left out: "attr_names"`, "",
		},
		{
			append(sparse()[:9], entry{"attr_matrix.npx", "."}), "",
			`not read, as they are no arrays (.npy): "attr_matrix.npx"`,
		},
	} {
		path := writeWith(t, func(z *zip.Writer, e entry) (io.Writer, error) {
			if strings.Contains(e.key, ".") {
				return z.Create(e.key)
			}
			return z.Create(e.key + ".npy")
		}, c.entries...)
		g, err := streamedtest.Read(Open(path, Options{}))
		require.NoError(t, err)
		if notes, warnings := strings.Join(g.Notes[1:], ""), strings.Join(g.Warnings, ""); notes != c.notes ||
			strings.TrimPrefix(warnings, path+": ") != c.warnings {
			t.Errorf("notes %q, warnings %q; want %q and %q", notes, warnings, c.notes, c.warnings)
		}
	}
	path := write(t, array("format", "|S3", "()", []byte("csr")),
		array("shape", "<i8", "(2,)", []int64{3, 4}),
		array("data", "<f4", "(0,)", []float32{}), array("x", "<f4", "(0,)", []float32{}))
	_, err := ReadMatrix(path)
	assert.Refused(t, err, `array "x" is not read beside "format"`)
}

// TestSeveralGraphs: batch says which graph a vertex is of, by any numbers.
func TestSeveralGraphs(t *testing.T) {
	edges := []entry{
		array("edges", "<i4", "(2, 2)", []int32{0, 2, 3, 1}),
		array("num_nodes", "<i8", "()", []int64{4}),
	}
	path := write(t, append(edges, array("batch", "<i8", "(4,)", []int64{21, 20, 21, 20}))...)
	g := streamedtest.Same(t, opening(path))
	if g.Graphs != 2 || !slices.Equal(g.Types[0].GraphOf, []int32{1, 0, 1, 0}) ||
		!slices.Contains(g.Notes, `2 graphs, by "batch"`) {
		t.Errorf("%d graphs %v, notes %q", g.Graphs, g.Types[0].GraphOf, g.Notes)
	}
	for want, batch := range map[string]entry{
		`array "batch": has shape [3]: it must be the number of a graph for each of 4 vertices`: array(
			"batch", "<i8", "(3,)", []int64{0, 0, 0}),
		`graph_ids: the edge from vertex 3 of graph 1 leads to vertex 1 of graph 0`: array(
			"batch", "<i8", "(4,)", []int64{0, 0, 0, 1}),
	} {
		refused(t, want, append(edges, batch)...)
	}
}

// TestEdgeSplit: the lists of a split of edges, with negative edges of either form; a part of them is
// refused.
func TestEdgeSplit(t *testing.T) {
	lists := []entry{
		array("train_edges", "<i8", "(2, 2)", []int64{0, 1, 1, 2}),
		array("val_edges", "<i8", "(1, 2)", []int64{2, 0}),
		array("test_edges", "<i4", "(1, 2)", []int32{1, 0}),
	}
	shared := []entry{
		array("val_negatives", "<i8", "(2, 2)", []int64{0, 0, 2, 1}),
		array("test_negatives", "<i8", "(1, 2)", []int64{2, 2}),
	}
	targets := []entry{
		array("val_negative_targets", "<i8", "(1, 3)", []int64{0, 1, 2}),
		array("test_negative_targets", "<i8", "(1, 2)", []int64{2, 2}),
	}
	edges := [3][]int32{{0, 1, 1, 2}, {2, 0}, {1, 0}}
	for _, c := range []struct {
		given []entry
		want  graph.EdgeSplit
	}{
		{nil, graph.EdgeSplit{Edges: edges}},
		{shared, graph.EdgeSplit{
			Edges: edges, Negatives: graph.SharedNegatives, Negative: [3][]int32{nil, {0, 0, 2, 1}, {2, 2}},
		}},
		{targets, graph.EdgeSplit{
			Edges: edges, Negatives: graph.TargetNegatives, Negative: [3][]int32{nil, {0, 1, 2}, {2, 2}},
		}},
	} {
		path := write(t, slices.Concat(edgeList(), lists, c.given)...)
		g := streamedtest.Same(t, opening(path))
		assert.Equal(t, c.want, *g.Relations[0].EdgeSplit)
	}
	for want, entries := range map[string][]entry{
		`"test_edges": is missing`:    slices.Concat(edgeList(), lists[:2]),
		`"val_negatives": is missing`: slices.Concat(edgeList(), lists, shared[1:]),
		`"val_negative_targets": stands beside "val_negatives"`: slices.Concat(edgeList(),
			lists, shared, targets),
		`has shape [3 1]: it must be N × 2`: slices.Concat(edgeList(), lists[1:],
			[]entry{array("train_edges", "<i8", "(3, 1)", []int64{0, 1, 2})}),
		`it must have a row of targets for each of 1 edges`: slices.Concat(edgeList(), lists, targets[:1],
			[]entry{array("test_negative_targets", "<i8", "(2, 1)", []int64{2, 2})}),
		`outside the range`: slices.Concat(edgeList(), lists[1:],
			[]entry{array("train_edges", "<i8", "(1, 2)", []int64{0, 99})}),
	} {
		refused(t, want, entries...)
	}
}

func TestOtherFilesAreRefused(t *testing.T) {
	for _, path := range []string{
		graphtest.File(t, "text.npz", "0 1\n"), filepath.Join(t.TempDir(), "missing.npz"),
	} {
		streamedtest.WantRefused(t, opening(path), path, ".npz file")
	}
}

// What is no array may come first.
func TestOtherEntries(t *testing.T) {
	path := writeWith(t, func(z *zip.Writer, e entry) (io.Writer, error) {
		if e.file == "" {
			return z.Create(e.key)
		}
		return z.Create(e.key + ".npy")
	}, append([]entry{{"readme.txt", ""}}, edgeList()...)...)
	_, err := streamedtest.Read(Open(path, Options{}))
	assert.NoError(t, err)
}

func TestCutFileSaysSo(t *testing.T) {
	path := write(t, edgeList()...)
	require.NoError(t, os.Truncate(path, 200))
	streamedtest.WantRefused(t, opening(path), path, "cut short")
}

// An entry that claims gigabytes, in its header and in the archive's directory, costs what its bytes give.
func TestLyingSizesAllocateLittle(t *testing.T) {
	path := writeWith(t, func(z *zip.Writer, e entry) (io.Writer, error) {
		return z.CreateRaw(&zip.FileHeader{
			Name: e.key + ".npy", CompressedSize64: uint64(len(e.file)), UncompressedSize64: 1 << 32,
		})
	}, array("edges", "<i4", "(400000000, 2)", []int32{0, 1}), edgeList()[1])
	grown := alloctest.Bytes(func() { streamedtest.WantRefused(t, opening(path), path, "") })
	if grown > 2*64<<20 { // read twice
		t.Errorf("%d bytes were allocated for a small file", grown)
	}
}

func FuzzRead(f *testing.F) {
	for _, entries := range [][]entry{sparse(), heterophilous(), edgeList(), fields(), typed()} {
		content, err := os.ReadFile(write(f, entries...))
		require.NoError(f, err)
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		streamedtest.AnyBytes(t, opening(graphtest.File(t, "graph.npz", content)), len(content))
	})
}

// The archive's own checksums stop most mutations of whole files; here the arrays inside one change.
func FuzzArrays(f *testing.F) {
	s := sparse()
	f.Add(s[0].file, s[1].file, s[2].file, s[3].file, s[8].file)
	f.Fuzz(func(t *testing.T, data, indices, indptr, shape, labels string) {
		path := write(t,
			entry{"adj_data", data}, entry{"adj_indices", indices}, entry{"adj_indptr", indptr},
			entry{"adj_shape", shape},
			entry{"attr_data", data}, entry{"attr_indices", indices}, entry{"attr_indptr", indptr},
			entry{"attr_shape", shape},
			entry{"labels", labels})
		streamedtest.AnyBytes(t, opening(path), 2*len(data+indices+indptr+shape+labels))
	})
}

// An archive of little more than zeros is small, and what comes out of it is not.
func TestWithoutMemory(t *testing.T) {
	const rows = 64 << 20
	zeros := array("x", "|u1", "(67108864, 1)", make([]byte, rows))
	path := write(t, fields()[0], zeros)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(48 << 20))
	_, err := streamedtest.Read(Open(path, Options{DenseFeatures: true}))
	assert.RefusedFor(t, err, path+`: array "x": needs `, "")
}

// TestPlanetoid: a file of Planetoid is refused with the format that reads it.
func TestPlanetoid(t *testing.T) {
	const list = "\x80\x02]q\x00."
	prefix := filepath.Join(
		graphtest.Files(t, map[string]string{"ind.cora.x": list, "ind.cora.test.index": list}), "ind.cora")
	want := "weft import planetoid reads the files of Planetoid, by the prefix " + prefix
	for _, suffix := range []string{".x", ".test.index", ""} { // the last is not there
		if _, err := streamedtest.Read(Open(prefix+suffix, Options{})); !refusal.Is(err) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", suffix, err, want)
		}
	}
}

// TestClassNames: classes of the fields have names, which may be more than vertices have.
func TestClassNames(t *testing.T) {
	names := func(shape string, runes ...int32) entry { return array("class_names", "<U1", shape, runes) }
	g, err := streamedtest.Read(Open(write(t, append(fields(), names("(3,)", 'r', 'g', 'b'))...), Options{}))
	require.NoError(t, err)
	if l := g.Labels; l.Classes != 3 || !slices.Equal(l.Names, []string{"r", "g", "b"}) ||
		!slices.Equal(l.Class, []int64{1, 0, 1}) {
		t.Errorf("labels %+v", l)
	}
	for want, entries := range map[string][]entry{
		`array "class_names": has 1 names, and "y" has 2 classes: name each class`:                        append(fields(), names("(1,)", 'r')),
		`array "class_names": the name "r" is there twice`:                                                append(fields(), names("(2,)", 'r', 'r')),
		`array "class_names": there are no labels "y": leave it out`:                                      append(without(fields(), "y"), names("(2,)", 'r', 'g')),
		`array "class_names": labels "y" are not one class id for each vertex, and only these have names`: append(without(fields(), "y"), array("y", "<f4", "(3,)", []float32{.5, 1, 2}), names("(2,)", 'r', 'g')),
	} {
		refused(t, want, entries...)
	}
}

// TestManyTypes: a short file of many names takes as long as it is, and no square of that.
func TestManyTypes(t *testing.T) {
	const n = 100_000
	var names []string
	for k := range n {
		names = append(names, fmt.Sprint(k))
	}
	refused(t, `0 vertices of the type "2" for 2 edges: give their number as`,
		array("vertex_types", "<U5", fmt.Sprintf("(%d,)", n), text(5, names...)),
		array("edge_types", "<U2", "(1, 3)", text(2, "0", "to", "1")),
		array("edges/0__to__1/edge_index", "<i8", "(2, 2)", []int64{0, 1, 1, 0}))
}
