package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/graph/streamed"
	"weft/graph/streamed/streamedtest"
	"weft/internal/assert"
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
				Classes: g.Types[0].Labels.Classes, Splits: len(g.Types[0].Splits), Metric: g.Metric,
			}
			if len(g.Types[0].Splits) > 0 {
				got.Train = len(g.Types[0].Splits[0].Train)
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
			Types: []graph.VertexType{
				{
					Frame: graph.Frame{
						Count: len(shape.Indptr) - 1, Features: features, Names: names, Labels: labels,
					},
				},
			},
			Relations: []graph.Relation{shape},
		}},
		{"weighted", weighted, graph.Graph{
			Types: []graph.VertexType{
				{Frame: graph.Frame{Count: 3, Features: features, Names: names, Labels: labels}},
			},
			Relations: []graph.Relation{
				{Indptr: shape.Indptr, Sources: shape.Sources, Weights: []float32{2, .5, 1}},
			},
		}},
		{"dense", dense, graph.Graph{
			Types: []graph.VertexType{{
				Frame: graph.Frame{
					Count:    len(shape.Indptr) - 1,
					Features: graph.Features{Columns: 1, Dense: []float32{7, 8, 9}}, Names: names,
					Labels: labels,
				},
			}},
			Relations: []graph.Relation{shape},
		}},
		{"adjacency alone", sparse()[:4], *graph.Of(shape)},
		{"heterophilous", heterophilous(), graph.Graph{
			Types: []graph.VertexType{{
				Frame: graph.Frame{Count: 3, Features: graph.Features{
					Columns: 2, Dense: []float32{1, 2, 3, 4, 5, 6},
				}, Labels: graph.Labels{Classes: 2, Class: []int64{1, 0, 1}}, Splits: []graph.Split{
					{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}},
					{Train: []int64{1, 2}, Val: []int64{0}, Test: []int64{}},
				}},
			}},
			Relations: []graph.Relation{
				{Indptr: []int64{0, 1, 3, 5}, Sources: []int32{1, 0, 2, 1, 2}, Symmetric: true},
			},
			Metric: "roc-auc",
		}},
		{"fields", fields(), graph.Graph{
			Types: []graph.VertexType{{
				Frame: graph.Frame{
					Count: 3, Features: graph.Features{Columns: 1, Dense: []float32{7, 8, 9}},
					Labels: graph.Labels{Classes: 2, Class: []int64{1, 0, 1}},
					Splits: []graph.Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}},
				},
			}},
			Relations: []graph.Relation{
				{
					Indptr: shape.Indptr, Sources: shape.Sources, Weights: []float32{2, .5, 1},
					Frame: graph.Frame{
						Features: graph.Features{Dense: []float32{1, 2, 3, 4, 5, 6}, Columns: 2},
					},
				},
			},
		}},
		{
			"masks in columns",
			append(fields()[:1:1], array("train_mask", "|b1", "(3, 2)", []byte{1, 0, 0, 1, 0, 1})),
			graph.Graph{
				Types: []graph.VertexType{{Frame: graph.Frame{
					Count: len(shape.Indptr) - 1, Splits: []graph.Split{
						{Train: []int64{0}, Val: []int64{}, Test: []int64{}},
						{Train: []int64{1, 2}, Val: []int64{}, Test: []int64{}},
					},
				}}},
				Relations: []graph.Relation{shape},
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
				Types: []graph.VertexType{{Frame: graph.Frame{Count: 3}}},
				Relations: []graph.Relation{{
					Indptr: make([]int64, 4), Sources: []int32{}, Weights: []float32{},
					Frame: graph.Frame{Features: graph.Features{Dense: []float32{}, Columns: 2}},
				}},
			},
		},
		{
			"edge list", edgeList(),
			graph.Graph{
				Types:     []graph.VertexType{{Frame: graph.Frame{Count: 4}}},
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
		negatives []entry
		want      graph.EdgeSplit
	}{
		{nil, graph.EdgeSplit{Edges: edges}},
		{shared, graph.EdgeSplit{
			Edges: edges, Negatives: graph.SharedNegatives, Negative: [3][]int32{nil, {0, 0, 2, 1}, {2, 2}},
		}},
		{targets, graph.EdgeSplit{
			Edges: edges, Negatives: graph.TargetNegatives, Negative: [3][]int32{nil, {0, 1, 2}, {2, 2}},
		}},
	} {
		path := write(t, slices.Concat(edgeList(), lists, c.negatives)...)
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
	if l := g.Types[0].Labels; l.Classes != 3 || !slices.Equal(l.Names, []string{"r", "g", "b"}) ||
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
