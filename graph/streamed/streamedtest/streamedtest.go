// Package streamedtest compares graphs that are written in a stream with those in memory, in the tests of
// readers.
package streamedtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// Equal writes a graph in a stream, and fails unless the store and what Write says of it are those of whole.
func Equal(t testing.TB, g *streamed.Graph, whole *graph.Graph) *streamed.Written {
	t.Helper()
	dir := t.TempDir()
	inStream, inMemory := filepath.Join(dir, "stream"), filepath.Join(dir, "memory")
	w, err := g.Write(inStream)
	if err == nil {
		err = whole.Write(inMemory)
	}
	require.NoError(t, err)
	stores := [2]map[string]string{Files(t, inMemory), Files(t, inStream)}
	for _, files := range stores { // their record has the times of files, and no sums of those that grew
		if record, there := files["checked.json"]; there {
			files["checked.json"] = regexp.MustCompile(`,?\n +"(modified|sha256)": "[^"]*"`).
				ReplaceAllString(record, "")
		}
	}
	if diff := cmp.Diff(stores[0], stores[1]); diff != "" {
		t.Errorf("the store written in a stream is another one than that of the graph in memory (-memory "+
			"+stream):\n%.3000s", diff)
	}
	expected := *whole // the rows of labels and features, and edges, are in the store alone
	expected.Relations = w.Relations
	rows := cmpopts.IgnoreFields(graph.Labels{}, "Class", "Multi", "Values")
	features := cmpopts.IgnoreFields(graph.Features{}, "Dense", "Indptr", "Indices", "Data")
	arrays := cmpopts.IgnoreFields(graph.VertexType{}, "Arrays")
	assert.EqualBy(t, &expected, w.Graph, rows, features, arrays, cmpopts.IgnoreUnexported(graph.Graph{}),
		cmpopts.EquateEmpty())
	want := streamed.WrittenOf(whole)
	if w.Edges != want.Edges || w.Weighted != want.Weighted ||
		w.OneClass != want.OneClass || w.Doubt != want.Doubt ||
		w.Vertices() != whole.Vertices() ||
		w.Types[0].Features.Sparse() != whole.Types[0].Features.Sparse() ||
		w.Types[0].Labels.There() != whole.Types[0].Labels.There() {
		t.Errorf("%d vertices, %d edges, weighted %v, one class %v, sparse features %v; want %d, "+
			"%d, %v, %v, %v", w.Vertices(), w.Edges, w.Weighted, w.OneClass, w.Types[0].Features.Sparse(),
			whole.Vertices(), want.Edges, want.Weighted, want.OneClass, whole.Types[0].Features.Sparse())
	}
	return w
}

// Same reads the graph that open opens into memory, and compares it by Equal with what a stream writes.
func Same(t testing.TB, open func() (*streamed.Graph, error)) *graph.Graph {
	t.Helper()
	whole, err := Read(open())
	require.NoError(t, err)
	g, err := open()
	require.NoError(t, err)
	defer g.Close()
	Equal(t, g, whole)
	return whole
}

// Both compares by Equal the graph that open opens, as it is and with each edge both ways, with the one that
// is read into memory. Where vertices have labels, both are divided by a rule. It returns what was written
// last.
func Both(t testing.TB, open func(symmetrize bool) (*streamed.Graph, error)) (w *streamed.Written) {
	t.Helper()
	for _, symmetrize := range []bool{false, true} {
		whole, err := Read(open(symmetrize))
		require.NoError(t, err)
		g, err := open(symmetrize)
		require.NoError(t, err)
		if g == nil {
			t.Fatal("not in a stream")
		}
		defer g.Close()
		if symmetrize {
			g.Symmetrize = true
			whole, err = whole.Symmetrize()
			require.NoError(t, err)
		}
		if rule := "random:50/25/25"; whole.Types[0].Labels.There() {
			g.Prepare = func() error { return g.InMemory.MakeSplits(rule, 2, 7) }
			require.NoError(t, whole.MakeSplits(rule, 2, 7))
		}
		w = Equal(t, g, whole)
	}
	return w
}

// Files are the contents of the files below a directory, by name.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(data)
		return err
	})
	require.NoError(t, err)
	return files
}

// Refused writes a graph that open opens, and fails unless it is refused in the words of want, and leaves
// nothing behind. It does nothing if open returns no graph.
func Refused(t testing.TB, open func() (*streamed.Graph, error), want error) {
	t.Helper()
	dir := t.TempDir()
	g, err := open()
	if g == nil && err == nil {
		return
	}
	if err == nil {
		defer g.Close()
		_, err = g.Write(filepath.Join(dir, "store"))
	}
	assert.EqualRefusal(t, err, want.Error(), "in a stream, want that of the graph in memory, %v", want)
	assert.Empty(t, Files(t, dir), "left")
}

// Try writes a graph that open opens, of any bytes. It fails unless it is refused where the graph in memory
// was refused, and only there. It does nothing if open returns no graph.
func Try(t testing.TB, open func() (*streamed.Graph, error), inMemory error) {
	t.Helper()
	g, err := open()
	if g == nil && err == nil {
		return
	}
	if err == nil {
		defer g.Close()
		_, err = g.Write(filepath.Join(t.TempDir(), "store"))
	}
	if err != nil && !refusal.Is(err) || (err == nil) != (inMemory == nil) {
		t.Errorf("in a stream: error %v, in memory %v", err, inMemory)
	}
}

// BeyondMemory writes a graph of so many edges where this process has only so many bytes left. Read must
// refuse it then.
func BeyondMemory(t testing.TB, left int64, edges int64, open func() (*streamed.Graph, error)) {
	t.Helper()
	for range 2 { // pools keep what they have for one collection
		runtime.GC()
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(now.Sys-now.HeapIdle) + left))
	opened := func() *streamed.Graph {
		g, err := open()
		require.NoError(t, err)
		return g
	}
	whole := opened()
	_, err := whole.Read()
	assert.Refused(t, err, " needs ", "read")
	whole.Close()
	g := opened()
	defer g.Close()
	w, err := g.Write(filepath.Join(t.TempDir(), "store"))
	require.NoError(t, err, "%+v edges", w)
	assert.Equal(t, edges, w.Edges, "%+v edges", w)
}

// WantRefused fails unless the graph that open opens is refused in one line that begins with the path and has
// the text, and in the same words when it is written in a stream.
func WantRefused(t testing.TB, open func() (*streamed.Graph, error), path, want string) {
	t.Helper()
	_, err := Read(open())
	if !refusal.Is(err) || !strings.HasPrefix(err.Error(), path) || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want a refusal in one line with %s and %q", err, path, want)
		return
	}
	Refused(t, open, err)
}

// Read reads a graph that was opened into memory, and closes it.
func Read(g *streamed.Graph, err error) (*graph.Graph, error) {
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return g.Read()
}

// AnyBytes reads and writes the graph that open opens, whose files have so many bytes, of any value. It is
// whole, or refused; and it allocates no more than the files can ask for.
func AnyBytes(t testing.TB, open func() (*streamed.Graph, error), bytes int) {
	t.Helper()
	Try(t, open, anyBytes(t, open, bytes))
}

// anyBytes is AnyBytes without writing the graph. It returns why it is refused.
func anyBytes(t testing.TB, open func() (*streamed.Graph, error), bytes int) error {
	t.Helper()
	var g *graph.Graph
	var err error
	alloctest.Reading(t, bytes, func() { g, err = Read(open()) })
	if err != nil && !refusal.Is(err) {
		t.Errorf("%v is not a refusal", err)
	}
	if err == nil {
		assert.NoError(t, g.Check())
	}
	return err
}

// Damaged opens a file that is cut at many places, which must be refused, and one in which single bytes are
// others, from so many bytes on.
func Damaged(t testing.TB, content []byte, from int, open func(path string) func() (*streamed.Graph, error)) {
	t.Helper()
	dir := t.TempDir()
	files := 0
	write := func(content []byte) func() (*streamed.Graph, error) {
		path := filepath.Join(dir, fmt.Sprint(files)) // writing over a file waits for the disk
		files++
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return open(path)
	}
	for n := from; n < len(content); n += 1 + n/64 {
		WantRefused(t, write(content[:n]), dir, "")
	}
	for at := from; at < len(content); at += 17 {
		changed := slices.Clone(content)
		changed[at] ^= 0x55
		if open := write(changed); anyBytes(t, open, len(content)) != nil {
			Try(t, open, refusal.Errorf("damaged"))
		}
	}
}
