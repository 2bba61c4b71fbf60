package npz

import (
	"archive/zip"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"weft/graph/graphtest"
	"weft/graph/streamed/streamedtest"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/require"
)

// Files that are refused, and of which nothing is lost silently.

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
