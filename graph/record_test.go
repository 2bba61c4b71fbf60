package graph

import (
	"crypto/sha256"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/regular"
	"weft/internal/require"
)

// large is a store that is large enough for a record, and the path of its features.
func large(t *testing.T) (dir, features string) {
	t.Helper()
	const vertices, columns = 3000, 100
	g := &Graph{
		Types: []VertexType{{
			Frame: Frame{
				Count:    vertices,
				Features: Features{Columns: columns, Dense: make([]float32, vertices*columns)},
			},
		}},
		Relations: []Relation{{Indptr: make([]int64, vertices+1)}},
	}
	for v := range vertices {
		g.Relations[0].Sources = append(g.Relations[0].Sources, int32(v))
		g.Relations[0].Indptr[v+1] = int64(v + 1)
	}
	dir = stored(t, g)
	return dir, filepath.Join(dir, featuresFile)
}

// overwrite writes bytes into a file, from the end of it.
func overwrite(t *testing.T, path string, data ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	_, err = f.WriteAt(data, info.Size()-int64(len(data)))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// notANumber is a little-endian float32 that no features may have.
var notANumber = []byte{0, 0, 0xc0, 0x7f}

func refusedBy(t *testing.T, err error, path string) {
	t.Helper()
	assert.RefusedFor(t, err, path+": ", "", "want a refusal that names %s", path)
}

// TestRecordOfChecks: what was checked when it was written is not checked again. What has changed since is.
func TestRecordOfChecks(t *testing.T) {
	dir, features := large(t)
	info, err := os.Stat(features)
	require.NoError(t, err)
	open := func() error {
		g, err := Open(dir)
		if err == nil {
			err = g.Close()
		}
		return err
	}
	// Somebody writes to a file: it has another time.
	overwrite(t, features, notANumber...)
	refusedBy(t, open(), features)
	// The disk changes it, beneath the file system: only the checksums tell.
	require.NoError(t, os.Chtimes(features, info.ModTime(), info.ModTime()))
	assert.NoError(t, open(), "checked again")
	refusedBy(t, CheckSums(dir, "it", nil), features)
	// Without the record, all is checked.
	record := filepath.Join(dir, checkedFile)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	for name, change := range map[string]string{
		"no record":                "",
		"damaged":                  string(text[:len(text)/2]),
		"of another version":       strings.Replace(string(text), `"checks": 1`, `"checks": 0`, 1),
		"without the description":  strings.Replace(string(text), descriptionFile, "other.json", 1),
		"without the damaged file": strings.Replace(string(text), featuresFile, "other.npy", 1),
	} {
		require.NoError(t, os.WriteFile(record, []byte(change), 0o666))
		if change == "" {
			require.NoError(t, os.Remove(record))
		}
		t.Run(name, func(t *testing.T) { refusedBy(t, open(), features) })
	}
}

// TestSums: the record has the checksums of the files, which another program gives, too.
func TestSums(t *testing.T) {
	dir, _ := large(t)
	files, err := Files(dir)
	require.NoError(t, err)
	sums := Sums(dir)
	for _, name := range files {
		sum, err := regular.SHA256(filepath.Join(dir, name), func(int) {})
		if err != nil || sums[name] != sum {
			t.Errorf("%s: recorded %q, is %q, %v", name, sums[name], sum, err)
		}
	}
	if err := CheckSums(dir, "it", nil); err != nil || len(sums) != len(files) {
		t.Errorf("%d of %d files, %v", len(sums), len(files), err)
	}
}

// TestFlippedBits: what a disk changes beneath the file system, where it would lead out of an array, is
// refused when the graph is opened, though its file has the size and the time of the record.
func TestFlippedBits(t *testing.T) {
	const vertices = 30_000
	g := &Graph{
		Types: []VertexType{{
			Frame: Frame{Count: vertices, Features: Features{
				Columns: 3, Indptr: make([]int64, vertices+1), Indices: make([]int32, 2*vertices),
				Data: make([]float32, 2*vertices),
			}, Labels: Labels{Classes: 3, Class: make([]int64, vertices)}, Splits: []Split{
				{Train: []int64{3, 4, 5}, Val: []int64{6}, Test: []int64{7, 8}},
			}},
		}},
		Relations: []Relation{{Indptr: make([]int64, vertices+1), Sources: make([]int32, 5*vertices)}},
	}
	p := &Part{
		Graph: g, Whole: []int{2 * vertices}, Out: []Relation{g.Relations[0]},
		IDs: [][]int32{make([]int32, vertices)},
	}
	for v := range vertices {
		g.Relations[0].Indptr[v+1], g.Types[0].Features.Indptr[v+1] = int64(5*v+5), int64(2*v+2)
		g.Types[0].Features.Indices[2*v+1], p.IDs[0][v] = 2, int32(2*v)
	}
	for k := range g.Relations[0].Sources {
		g.Relations[0].Sources[k] = int32(k % 5)
	}
	p.Out[0].Indptr = g.Relations[0].Indptr
	whole := stored(t, g)
	parts := filepath.Join(t.TempDir(), "parts")
	folder(t, parts, map[string]*Part{"0": p})
	flipped := 0
	for dir, open := range map[string]func(dir string) error{
		whole: func(dir string) error {
			g, err := Open(dir)
			if err == nil {
				err = g.Close()
			}
			return err
		},
		filepath.Join(parts, "0"): func(dir string) error {
			p, err := OpenPart(dir)
			if err == nil {
				err = p.Graph.Close()
			}
			return err
		},
	} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.npy"))
		require.NoError(t, err)
		for _, path := range paths {
			if name := filepath.Base(path); name == featuresDataFile {
				continue
			}
			info, err := os.Stat(path)
			require.NoError(t, err)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, bit := range []byte{0x80, 0x40} { // the sign of the last number, and far out of range
				overwrite(t, path, data[len(data)-1]^bit)
				require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
				refusedBy(t, open(dir), path)
				flipped++
			}
			overwrite(t, path, data[len(data)-1])
			require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}
		assert.NoError(t, open(dir), "with the bytes that were written")
	}
	assert.Equal(t, 2*(8+11), flipped, "bits flipped")
}

// TestAscend compares the check of edges with the one that finds what is wrong.
func TestAscend(t *testing.T) {
	ends := []int32{math.MinInt32, -1, 0, 1, 2, 3, 4, math.MaxInt32}
	for _, a := range ends {
		for _, b := range ends {
			for _, c := range ends {
				for _, ids := range [][]int32{nil, {a}, {a, b}, {a, b, c}} {
					if got, want := ascend(ids, 4), firstMisplaced(ids, 4, 0) < 0; got != want {
						t.Errorf("%v: %v, want %v", ids, got, want)
					}
				}
			}
		}
	}
}

// TestSymmetryIsRecorded: that edges are symmetric is known from the record, is not tested again, and is no
// more believed once a file has changed.
func TestSymmetryIsRecorded(t *testing.T) {
	const vertices = 200_000
	// 0 → the last
	g := Of(Relation{Indptr: make([]int64, vertices+1), Sources: []int32{0}, Symmetric: true})
	g.Relations[0].Indptr[vertices] = 1
	dir := stored(t, g)
	known := func(want bool) {
		t.Helper()
		g, err := Open(dir)
		require.NoError(t, err)
		defer g.Close()
		if s := summarize(t, g); g.Relations[0].Symmetric != want || s.Symmetric != want {
			t.Errorf("known to be symmetric: %v; inspected: %v; want %v",
				g.Relations[0].Symmetric, s.Symmetric, want)
		}
	}
	known(true)
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(dir, indicesFile), later, later))
	known(false)
	kept, err := g.Relations[0].Where(func(int64, int32, int32) bool { return true })
	if err != nil || kept.Symmetric {
		t.Errorf("some of the edges are known to be symmetric, %v", err)
	}
}

// TestSumOfACutFile writes what is mapped of a file that was cut: the fault is the caller's.
func TestSumOfACutFile(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	require.NoError(t, os.WriteFile(source, make([]byte, 1<<16), 0o666))
	from, err := os.Open(source)
	require.NoError(t, err)
	defer from.Close()
	content, err := unix.Mmap(int(from.Fd()), 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { _ = unix.Munmap(content) }()
	require.NoError(t, os.Truncate(source, 0))
	f, err := os.Create(filepath.Join(dir, "copy"))
	require.NoError(t, err)
	defer f.Close()
	err = guard(source, importAgain, func() error {
		_, err := (&summed{f: f, hash: sha256.New(), tell: func(int) {}}).Write(content)
		return err
	})
	assert.ErrorContains(t, err, source+": a file was cut")
}

// TestChecksum: graphs that differ in an element of one array, or in where one array ends and the next
// begins, have different checksums, and equal graphs the same. What no training reads does not count.
func TestChecksum(t *testing.T) {
	made := func() *Graph {
		cites := must(NewRelation(3, Edges{
			Source: []int32{0, 1, 2}, Target: []int32{1, 2, 2}, Weights: []float32{1, 2, 3},
			Features: []float32{4, 5, 6}, FeatureColumns: 1,
		}))
		cites.Source, cites.Name, cites.Target = "paper", "cites", "paper"
		cites.EdgeSplit = &EdgeSplit{
			Edges: [3][]int32{{0, 1}, {1, 2}, {2, 2}}, Negative: [3][]int32{nil, {0, 2}, {1, 1}},
		}
		writes := must(NewBipartite(2, 3, Edges{Source: []int32{0, 1}, Target: []int32{0, 2}}))
		writes.Source, writes.Name, writes.Target = "author", "writes", "paper"
		return &Graph{
			Types: []VertexType{{
				Type: "paper",
				Frame: Frame{
					Count: 3, Features: Features{Columns: 1, Dense: []float32{1, 2, 3}},
					Labels: Labels{Classes: 2, Class: []int64{0, 1, 1}},
					Splits: []Split{{Train: []int64{0, 1}, Test: []int64{2}}},
				},
				GraphOf: []int32{0, 0, 0},
			}, {Type: "author", Frame: Frame{Count: 2, Features: Features{
				Columns: 3, Indptr: []int64{0, 1, 2}, Indices: []int32{2, 0}, Data: []float32{7, 8},
			}}}},
			Graphs:    1,
			Relations: []Relation{cites, writes},
		}
	}
	want := must(made().Checksum())
	for name, c := range map[string]struct {
		change func(g *Graph)
		counts bool
	}{
		"nothing":                     {func(*Graph) {}, false},
		"an edge's source":            {func(g *Graph) { g.Relations[0].Sources[0]++ }, true},
		"an edge's target":            {func(g *Graph) { g.Relations[0].Indptr[1]++ }, true},
		"a weight":                    {func(g *Graph) { g.Relations[0].Weights[1] = 5 }, true},
		"a feature of an edge":        {func(g *Graph) { g.Relations[0].Features.Dense[2] = 5 }, true},
		"an edge of another relation": {func(g *Graph) { g.Relations[1].Sources[1] = 0 }, true},
		"a relation's name":           {func(g *Graph) { g.Relations[1].Name = "wrote" }, true},
		"a relation's source":         {func(g *Graph) { g.Relations[1].Source = "paper" }, true},
		"a relation's target":         {func(g *Graph) { g.Relations[1].Target = "author" }, true},
		"the order of relations": {func(g *Graph) {
			g.Relations[0], g.Relations[1] = g.Relations[1], g.Relations[0]
		}, true},
		"a training edge":            {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[0][0] = 1 }, true},
		"a validation edge":          {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[1][1] = 1 }, true},
		"a test edge":                {func(g *Graph) { g.Relations[0].EdgeSplit.Edges[2][0] = 0 }, true},
		"a negative validation edge": {func(g *Graph) { g.Relations[0].EdgeSplit.Negative[1][0] = 1 }, true},
		"a negative test edge":       {func(g *Graph) { g.Relations[0].EdgeSplit.Negative[2][1] = 0 }, true},
		"no split of edges":          {func(g *Graph) { g.Relations[0].EdgeSplit = nil }, true},
		"a feature":                  {func(g *Graph) { g.Types[0].Features.Dense[2] = 0 }, true},
		"a sparse feature":           {func(g *Graph) { g.Types[1].Features.Data[0] = 9 }, true},
		"a sparse feature's column":  {func(g *Graph) { g.Types[1].Features.Indices[1] = 1 }, true},
		"a sparse feature's row":     {func(g *Graph) { g.Types[1].Features.Indptr[1] = 2 }, true},
		"a class":                    {func(g *Graph) { g.Types[0].Labels.Class[0] = 1 }, true},
		"a label of several":         {func(g *Graph) { g.Types[0].Labels.Multi = []float32{1} }, true},
		"a value":                    {func(g *Graph) { g.Types[0].Labels.Values = []float32{1} }, true},
		"a split, whose ends move": {func(g *Graph) {
			g.Types[0].Splits[0] = Split{Train: []int64{0}, Val: []int64{1}, Test: []int64{2}}
		}, true},
		"another split": {
			func(g *Graph) { g.Types[0].Splits = append(g.Types[0].Splits, Split{}) }, true,
		},
		"the graph of a vertex": {func(g *Graph) { g.Types[0].GraphOf[2] = 1 }, true},
		"no graphs":             {func(g *Graph) { g.Types[0].GraphOf = nil }, true},
		"names of vertices and classes": {func(g *Graph) {
			g.Types[0].Names, g.Types[0].Labels.Names = []string{"a", "b", "c"}, []string{"x", "y"}
		}, false},
		"notes": {func(g *Graph) { g.Notes, g.Provenance = []string{"note"}, "elsewhere" }, false},
	} {
		g := made()
		c.change(g)
		if changed := must(g.Checksum()) != want; changed != c.counts {
			t.Errorf("another one of %s: another checksum %v, want %v", name, changed, c.counts)
		}
	}
	// Sums of graphs without edge features stay, as checkpoints have them
	plain := three()
	plain.Types[0].GraphOf = nil
	assert.Equal(t, "38 49308d89 14 af457e6f 0 af457e6f 0 af457e6f 0 af457e6f 0 "+
		"af457e6f 0 af457e6f 30 ce6ae2ef 0 ce6ae2ef 0 ce6ae2ef ", must(plain.Checksum()))
}
