package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"weft/internal/assert"
	"weft/internal/npy/npytest"
	"weft/internal/require"
)

var nan = float32(math.NaN())

// dense is a small directed graph with a self loop, a duplicate edge and an isolated vertex, and with
// everything optional that goes with dense features and one class per vertex.
func dense() *Graph {
	return &Graph{
		Types: []VertexType{{
			Frame: Frame{Count: 4, Features: Features{
				Columns: 3, Dense: []float32{1, 0, 2, 0, 0, 0, 3, 4, 5, 0, 6, 0},
			}, Names: []string{"a", "b", "", "ü"}, Labels: Labels{
				Classes: 2, Class: []int64{0, 1, -1, 1},
				Names: []string{"red", "black & <white>\n"},
			}, Splits: []Split{{Train: []int64{0}, Val: []int64{1}, Test: []int64{3}}}},
		}},
		Relations: []Relation{{
			Indptr: []int64{0, 2, 5, 5, 6}, Sources: []int32{0, 1, 0, 0, 3, 1},
			Weights: []float32{1, .5, 2, 0, -1, 3},
			Frame: Frame{
				Features: Features{Dense: []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, Columns: 2},
			},
		}},
		Metric:     "macro-f1",
		Provenance: "made by hand",
	}
}

// sparse is a graph with sparse features, several labels per vertex and splits of different sizes.
func sparse() *Graph {
	return &Graph{
		Types: []VertexType{{
			Frame: Frame{Count: 3, Features: Features{
				Columns: 5, Indptr: []int64{0, 2, 2, 3}, Indices: []int32{0, 4, 2}, Data: []float32{1, 2, 3},
			}, Labels: Labels{Classes: 2, Multi: []float32{1, 0, 1, 1, nan, nan}}, Splits: []Split{
				{Train: []int64{0}, Val: []int64{}, Test: []int64{1}},
				{Train: []int64{0, 1}},
				{Test: []int64{0, 1}},
			}},
		}},
		Relations: []Relation{{Indptr: []int64{0, 1, 2, 4}, Sources: []int32{1, 2, 0, 1}}},
	}
}

// stored writes a graph to a new store.
func stored(t testing.TB, g *Graph) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	require.NoError(t, g.Write(dir))
	return dir
}

// same compares two graphs; arrays that are nil and empty are the same.
func same(a, b *Graph) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(Graph{}), cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

func TestRoundTrip(t *testing.T) {
	for name, g := range map[string]*Graph{
		"dense":  dense(),
		"sparse": sparse(),
		"bare": {
			Types:     []VertexType{{Frame: Frame{Count: 2}}},
			Relations: []Relation{{Indptr: []int64{0, 0, 1}, Sources: []int32{0}}},
		},
		"no edges": {
			Types: []VertexType{
				{Frame: Frame{Count: 1, Features: Features{Columns: 1, Dense: []float32{7}}}},
			},
			Relations: []Relation{{Indptr: []int64{0, 0}}},
		},
		"no vertices": {Types: []VertexType{{}}, Relations: []Relation{{Indptr: []int64{0}}}},
		"empty arrays": {
			Types:     []VertexType{{Frame: Frame{Names: []string{}, Labels: Labels{Class: []int64{}}}}},
			Relations: []Relation{{Indptr: []int64{0}, Sources: []int32{}, Weights: []float32{}}},
		},
		"empty sparse": {
			Types: []VertexType{
				{Frame: Frame{Count: 1, Features: Features{Columns: 3, Indptr: []int64{0, 0}}}},
			},
			Relations: []Relation{{Indptr: []int64{0, 0}}},
		},
		"empty splits": {
			Types:     []VertexType{{Frame: Frame{Count: 1, Splits: []Split{{}, {}}}}},
			Relations: []Relation{{Indptr: []int64{0, 0}}},
		},
		"no labels": {
			Types:     []VertexType{{Frame: Frame{Count: 1, Splits: []Split{{Train: []int64{0}}}}}},
			Relations: []Relation{{Indptr: []int64{0, 0}}},
		},
		"unlabelled": {
			Types:     []VertexType{{Frame: Frame{Count: 1, Labels: Labels{Class: []int64{-1}}}}},
			Relations: []Relation{{Indptr: []int64{0, 0}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := stored(t, g)
			got, err := Open(dir)
			require.NoError(t, err)
			defer got.Close()
			assert.Equal(t, "", same(g, got))
			if g.Types[0].Features.Sparse() != got.Types[0].Features.Sparse() ||
				g.Types[0].Labels.MultiLabel() != got.Types[0].Labels.MultiLabel() ||
				(g.Types[0].Labels.Class == nil) != (got.Types[0].Labels.Class == nil) ||
				(g.Relations[0].Weights == nil) != (got.Relations[0].Weights == nil) {
				t.Error("an array that was there is not, or the other way round")
			}
		})
	}
}

func TestRoundTripOfAnyGraph(t *testing.T) {
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.IntRange(1, 6).Draw(t, "vertices")
		ids := rapid.SliceOfN(rapid.Int32Range(0, int32(v-1)), 0, 12)
		e := Edges{Source: ids.Draw(t, "sources")}
		e.Target = rapid.SliceOfN(rapid.Int32Range(0, int32(v-1)), e.Len(), e.Len()).Draw(t, "targets")
		r, err := NewRelation(v, e)
		require.NoError(t, err)
		g := &Graph{
			Types: []VertexType{{Frame: Frame{Count: v, Labels: Labels{
				Classes: 3, Class: rapid.SliceOfN(rapid.Int64Range(-1, 2), v, v).Draw(t, "class"),
			}}}}, Relations: []Relation{r},
		}
		for range rapid.IntRange(0, 3).Draw(t, "splits") {
			var s Split
			for id := range int64(v) {
				if part := rapid.IntRange(0, 3).Draw(t, "part"); part < 3 && g.Types[0].Labels.Labelled(id) {
					*s.Parts()[part] = append(*s.Parts()[part], id)
				}
			}
			g.Types[0].Splits = append(g.Types[0].Splits, s)
		}
		dir := filepath.Join(parent, "store")
		defer os.RemoveAll(dir)
		require.NoError(t, g.Write(dir))
		got, err := Open(dir)
		require.NoError(t, err)
		defer got.Close()
		require.Equal(t, "", same(g, got))
	})
}

// TestLongDescriptions: what a store is described by can be read again, or is not written.
func TestLongDescriptions(t *testing.T) {
	g := dense()
	g.Types[0].Splits = slices.Repeat(g.Types[0].Splits, 20_000)
	dir := stored(t, g)
	if info, err := os.Stat(filepath.Join(dir, "graph.json")); err != nil || info.Size() < 1<<20 {
		t.Errorf("graph.json is shorter than 1 MiB: %v, %v", info, err)
	}
	opened, err := Open(dir)
	require.NoError(t, err)
	assert.NoError(t, opened.Close())
	g.Types[0].Splits = slices.Repeat(g.Types[0].Splits, 4)
	parent := t.TempDir()
	err = g.Write(filepath.Join(parent, "store"))
	assert.Refused(t, err, "1 vertex types, 1 relations and 80000 splits takes ")
	assert.Empty(t, left(t, parent), "it leaves")
}

// Opened arrays must be views of the files, not copies.
func TestOpenMaps(t *testing.T) {
	dir := stored(t, dense())
	g, err := Open(dir)
	require.NoError(t, err)
	defer g.Close()
	f, err := os.OpenFile(filepath.Join(dir, featuresFile), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	// 4 as a float32, behind a header of 128 bytes
	_, err = f.WriteAt([]byte{0, 0, 0x80, 0x40}, 128)
	require.NoError(t, err)
	assert.Equal(t, 4, g.Types[0].Features.Dense[0], "the features do not follow their file")
	if err := g.Close(); err != nil || g.Close() != nil {
		t.Error("closing twice fails")
	}
}

// damage is one way in which a store can be wrong.
type damage struct {
	do   func(dir string) error
	file string // the file that the refusal must name
	want string // a part of the reason
}

// array replaces an array of the store.
func array(file string, data any, shape ...int) func(string) error {
	return func(dir string) error { return npytest.WriteFile(filepath.Join(dir, file), data, shape...) }
}

// text replaces a part of a file.
func text(file, old, new string) func(string) error {
	return func(dir string) error {
		path := filepath.Join(dir, file)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(b, []byte(old)) {
			return errors.New("nothing to replace in " + file)
		}
		return os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(new), 1), 0o644)
	}
}

// cut keeps a part of a file.
func cut(file string, share float64) func(string) error {
	return func(dir string) error {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		return os.Truncate(filepath.Join(dir, file), int64(float64(info.Size())*share))
	}
}

func remove(file string) func(string) error {
	return func(dir string) error { return os.Remove(filepath.Join(dir, file)) }
}

func refuses(t *testing.T, make func() *Graph, cases []damage) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.file+" "+c.want, func(t *testing.T) {
			dir := stored(t, make())
			require.NoError(t, c.do(dir))
			_, err := Open(dir)
			for _, part := range []string{filepath.Join(dir, c.file) + ":", c.want, "import it again"} {
				assert.Refused(t, err, part)
			}
		})
	}
}

func TestDamagedStoreIsRefused(t *testing.T) {
	cases := []damage{
		{cut("graph.json", .2), "graph.json", "unexpected end of JSON"},
		{cut("graph.json", 0), "graph.json", "unexpected end of JSON"},
		{cut("graph.json", 1<<30), "graph.json", "longer than the 4194304 bytes"},
		{array("graph.json", []int32{1}), "graph.json", "damaged"},
		{text("graph.json", `"format": 1`, `"format": 2`), "graph.json", "format version 2"},
		{text("graph.json", `"format"`, `"size": 7, "format"`), "graph.json", `unknown field "size"`},
		{text("graph.json", `"relations": [`, `"relations": [{},`), "graph.json", `a relation is called ""`},
		{text("graph.json", `"source": "vertex"`, `"source": "author"`), "graph.json", `"author"`},
		{text("graph.json", `"count": 4`, `"count": -4`), "graph.json", "-4 vertices"},
		{text("graph.json", `"count": 4`, `"count": 2147483648`), "graph.json", "2147483648 vertices"},
		{text("graph.json", `"count": 4`, `"count": 99999999999999999999`), "graph.json", "count"},
		{text("graph.json", `"count": 6`, `"count": -6`), "graph.json", "-6 edges"},
		{text("graph.json", `"dtype": "int32"`, `"dtype": "int64"`), "graph.json", `"int64"`},
		{text("graph.json", `"layout": "dense"`, `"layout": "ragged"`), "graph.json", `"ragged"`},
		{text("graph.json", `"kind": "class"`, `"kind": "several"`), "graph.json", `"several"`},
		{text("graph.json", `"classes": 2`, `"classes": 99999999999`), "graph.json", "99999999999 classes"},
		{text("graph.json", `"train": 1`, `"train": 9`), "graph.json", "9 of 4"},
		{text("graph.json", "macro-f1", "f-macro1"), "graph.json", `"f-macro1"`},
		{text("graph.json", `"count": 4`, `"count": 5`), "features.npy", "[4 3]"},
		{text("graph.json", `"count": 6`, `"count": 7`), "indices.npy", "[6]"},
		{text("graph.json", `"val": 1`, `"val": 2`), "val.npy", "[1]"},
		{
			text("graph.json", `"count": 6`, `"number_columns": [{"name": "w", "kind": "number"}], "count": 6`),
			"graph.json", "the columns have 1 features, and 3 are there",
		},
		{cut("indices.npy", .5), "indices.npy", "ends inside"},
		{cut("indices.npy", .95), "indices.npy", "cut short"},
		{array("indices.npy", []int64{0, 1, 0, 0, 3, 1}), "indices.npy", "<i8"},
		{
			array("indices.npy", []int32{0, 1, 0, 0, 4, 1}), "indices.npy",
			"vertex 1: id 4 is outside the range of 4",
		},
		{array("indices.npy", []int32{-1, 1, 0, 0, 3, 1}), "indices.npy", "id -1"},
		{array("indices.npy", []int32{1, 0, 0, 0, 3, 1}), "indices.npy", "id 0 follows 1"},
		{array("indptr.npy", []int64{0, 5, 2, 5, 6}), "indptr.npy", "below the one before"},
		{array("indptr.npy", []int64{0, 2, 1 << 40, 5, 6}), "indptr.npy", "below the one before"},
		{array("indptr.npy", []int64{1, 2, 5, 5, 6}), "indptr.npy", "starts at 1"},
		{array("indptr.npy", []int64{0, 2, 5, 5, 5}), "indptr.npy", "ends at 5"},
		{array("indptr.npy", []int64{0, 2, 5, 5, 9}), "indptr.npy", "ends at 9"},
		{array("indptr.npy", []int64{0, 2, 5, 6}), "indptr.npy", "[4]"},
		{array("edge_weight.npy", []float32{1, nan, 1, 1, 1, 1}), "edge_weight.npy", "edge 1 is NaN"},
		{array("edge_weight.npy", []float32{1}), "edge_weight.npy", "[1]"},
		{
			array("edge_features.npy", append(make([]float32, 11), float32(math.Inf(-1))), 6, 2),
			"edge_features.npy", "edge 5 has the value -Inf in column 1",
		},
		{cut("features.npy", .9), "features.npy", "cut short"},
		{
			array("features.npy", append(make([]float32, 11), nan), 4, 3), "features.npy",
			"vertex 3 has the value NaN in column 2",
		},
		{array("features.npy", make([]float32, 12), 3, 4), "features.npy", "[3 4]"},
		{
			func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "labels.npy"), []byte("hello"), 0o644)
			},
			"labels.npy", "ends inside",
		},
		{array("labels.npy", []int64{0, 2, -1, 1}), "labels.npy", "vertex 1 has class 2"},
		{array("labels.npy", []int64{0, 1, -2, 1}), "labels.npy", "vertex 2 has class -2"},
		{array("labels.npy", []float32{0, 1, 1, 1}), "labels.npy", "<f4"},
		{array("test.npy", []int64{4}), "test.npy", "id 4 is outside"},
		{array("test.npy", []int64{-1}), "test.npy", "id -1 is outside"},
		{array("test.npy", []int64{2}), "test.npy", "vertex 2 has no label"},
		{array("test.npy", []int64{0}), "train.npy", "vertex 0 is also in test.npy"},
		{array("val.npy", []int64{0}), "val.npy", "vertex 0 is also in train.npy"},
		{array("test.npy", []int64{1}), "test.npy", "vertex 1 is also in val.npy"},
		{array("names.json", []int32{1}), "names.json", "not a list"},
		{
			func(dir string) error {
				return os.WriteFile(filepath.Join(dir, "names.json"), []byte("null"), 0o644)
			},
			"names.json", "not a list",
		},
		{cut("names.json", 1<<30), "names.json", "not a list of names: more follows"},
		{text("names.json", `"a",`, `"a","a",`), "names.json", "more than 4"},
		{text("names.json", `"a",`, ""), "names.json", "3 names for 4"},
		{text("class_names.json", `"red",`, ""), "class_names.json", "1 names for 2"},
	}
	for _, file := range []string{
		"indptr.npy", "indices.npy", "edge_weight.npy", "edge_features.npy", "features.npy", "labels.npy",
		"train.npy", "val.npy", "test.npy", "names.json", "class_names.json",
	} {
		cases = append(cases, damage{remove(file), file, "missing"})
	}
	refuses(t, dense, cases)
}

func TestDamagedSparseStoreIsRefused(t *testing.T) {
	refuses(t, sparse, []damage{
		{remove("features_indptr.npy"), "features_indptr.npy", "missing"},
		{remove("features_indices.npy"), "features_indices.npy", "missing"},
		{remove("features_data.npy"), "features_data.npy", "missing"},
		{array("features_indptr.npy", []int64{0, 3, 2, 3}), "features_indptr.npy", "below"},
		{array("features_indices.npy", []int32{0, 5, 2}), "features_indices.npy", "id 5 is outside"},
		{array("features_indices.npy", []int32{4, 4, 2}), "features_indices.npy", "id 4 stands twice"},
		{
			array("features_data.npy", []float32{1, 2, float32(math.Inf(1))}), "features_data.npy",
			"value 2 is +Inf",
		},
		{
			array("labels.npy", []float32{1, 0, 1, 2, nan, nan}, 3, 2), "labels.npy",
			"vertex 1 has the value 2 for class 1",
		},
		{array("test.npy", []int64{1, -1, -1, -1, 0, 2}, 3, 2), "test.npy", "split 2: vertex 2 has no label"},
		{array("train.npy", []int64{0, 1, 0, 1, -1, -1}, 3, 2), "train.npy", "split 0 has more"},
		{array("train.npy", []int64{0, -1, 1, 1, -1, -1}, 3, 2), "train.npy", "split 1: id 1 stands twice"},
		{array("train.npy", []int64{0, -1, 1, 0, -1, -1}, 3, 2), "train.npy", "split 1: id 0 follows 1"},
	})
}

func TestNoStoreIsNamed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	for _, path := range []string{filepath.Join(dir, "nosuch"), dir, file} {
		_, err := Open(path)
		assert.RefusedFor(t, err, path+": ", "import or generate one", path)
	}
}

// TestSameEdges: a copy of an opened graph has its edges, until it is given others.
func TestSameEdges(t *testing.T) {
	dir := stored(t, typed())
	g, err := Open(dir)
	require.NoError(t, err)
	copied, changed := g.Copy(), g.Copy()
	const last = 2 // of the relations with edges
	changed.Relations[last].Sources = slices.Clone(g.Relations[last].Sources)
	weighted := g.Copy()
	weighted.Relations[last].Weights = make([]float32, len(g.Relations[last].Sources))
	again, err := Open(dir)
	require.NoError(t, err)
	defer again.Close()
	for name, c := range map[string]struct {
		as   *Graph
		want bool
	}{
		"a copy": {copied, true}, "other sources": {changed, false}, "other weights": {weighted, false},
		"opened again": {again, false},
	} {
		assert.Equal(t, c.want, g.SameEdges(c.as), name)
	}
	made := typed()
	assert.Equal(t, false, made.SameEdges(made.Copy()), "in memory")
	require.NoError(t, g.Close())
	assert.Equal(t, false, again.SameEdges(copied), "closed")
}

// A file that is cut while it is mapped must become an error.
func TestGuard(t *testing.T) {
	const vertices = 1 << 14 // several pages
	g := Of(Relation{Indptr: make([]int64, vertices+1)})
	dir := stored(t, g)
	g, err := Open(dir)
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, os.Truncate(filepath.Join(dir, indptrFile), 64))
	assert.ErrorContains(t, g.Guard(g.Check), dir)
	want := errors.New("as it was")
	assert.ErrorIs(t, g.Guard(func() error { return want }), want)
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("another panic became %v", r)
		}
	}()
	_ = g.Guard(func() error { panic("mine") })
}

// FuzzOpen changes graph.json and one array of a store at a time. What opens must pass every walk over its
// arrays.
func FuzzOpen(f *testing.F) {
	f.Add(uint8(0), []byte(`{"format": 1}`))
	f.Add(uint8(1), []byte("\x93NUMPY\x01\x00"))
	f.Add(uint8(2), []byte("hello"))
	good := map[bool]string{false: stored(f, dense()), true: stored(f, typed())}
	for _, dir := range []string{good[false], stored(f, sparse()), good[true]} {
		for k, c := range fuzzed {
			if b, err := os.ReadFile(filepath.Join(dir, c.file)); err == nil {
				f.Add(uint8(k), b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		dir, c := t.TempDir(), fuzzed[int(which)%len(fuzzed)]
		require.NoError(t, os.CopyFS(dir, os.DirFS(good[c.typed])))
		require.NoError(t, os.WriteFile(filepath.Join(dir, c.file), content, 0o644))
		g, err := Open(dir)
		if err != nil {
			assert.Refused(t, err, dir)
			return
		}
		defer g.Close()
		_, err = json.Marshal(summarize(t, g))
		require.NoError(t, err)
	})
}

// fuzzed are the files that FuzzOpen changes, of a store of one type or of several.
var fuzzed = []struct {
	typed bool
	file  string
}{
	{false, descriptionFile},
	{false, indptrFile},
	{false, indicesFile},
	{false, labelsFile},
	{false, splitFiles[0]},
	{false, namesFile},
	{false, featuresFile},
	{true, descriptionFile},
	{true, "edges/author__writes__paper/indptr.npy"},
	{true, "edges/author__writes__paper/indices.npy"},
	{true, "vertices/paper/labels.npy"},
	{true, "vertices/author/features_indices.npy"},
}
