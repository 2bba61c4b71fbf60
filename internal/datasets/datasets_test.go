package datasets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/realdata"
	"weft/internal/require"
)

// tiny is a dataset that is read from one file and counts how often.
func tiny(t *testing.T) (d *Dataset, file string, reads *int) {
	t.Helper()
	t.Setenv("WEFT_CACHE", t.TempDir())
	file, reads = filepath.Join(t.TempDir(), "tiny"), new(int)
	d = &Dataset{
		Name: "tiny",
		source: source{path: func() string {
			return file
		}, files: func() []string { return []string{file} }, get: "make a file"},
		read: func(string) (*graph.Graph, error) {
			*reads++
			return generate.Graph(generate.Options{
				Kind: generate.SBM, Vertices: 20, Degree: 2, Features: 2, Classes: 2,
			})
		},
	}
	return d, file, reads
}

func quiet(string) {}

func TestStoreIsMadeWhenItsSourceChanges(t *testing.T) {
	d, file, reads := tiny(t)
	_, err := d.Store(t.Context(), quiet)
	assert.Refused(t, err, "make a file", "without its source")
	step := func(what string, want int) {
		t.Helper()
		store, err := d.Store(t.Context(), quiet)
		require.NoError(t, err)
		require.Equal(t, want, *reads, what)
		g, err := graph.Open(store)
		require.NoError(t, err, what)
		assert.NoError(t, g.Close())
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(store), ".*")); left != nil {
			t.Fatalf("%s: left %v", what, left)
		}
	}
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	step("first use", 1)
	step("second use", 1)
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(file, later, later))
	step("newer source", 2)
	require.NoError(t, os.Remove(file))
	step("source gone", 2)
	assert.Equal(t, "", d.Missing(), "a dataset with a store misses")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	require.NoError(t, os.Truncate(filepath.Join(d.cached(), "graph.json"), 5))
	step("damaged store", 3)
}

func TestTwoAtOnce(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	d := synthetic("two", "", generate.Options{
		Kind: generate.Uniform, Vertices: 1000, Degree: 5, Features: 4, Classes: 2,
	})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			_, err := d.Store(t.Context(), quiet)
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	if v, e, known := d.Size(); v != 1000 || e != 5000 || !known {
		t.Errorf("%d vertices, %d edges, known %v", v, e, known)
	}
}

func TestResolve(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	t.Setenv(dataVariable, "")
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("sbm-8k", 0o777))
	// A folder of that name that is no store does not hide the dataset
	store, err := Resolve(t.Context(), "sbm-8k", quiet)
	if err != nil || store == "sbm-8k" {
		t.Errorf("%s, %v", store, err)
	}
	require.NoError(t, os.CopyFS("sbm-8k", os.DirFS(store)))
	if store, err := Resolve(t.Context(), "sbm-8k", quiet); store != "sbm-8k" || err != nil {
		t.Errorf("a store of that name is passed over: %s, %v", store, err)
	}
	for _, argument := range []string{"nosuch", "cora"} {
		_, err := Resolve(t.Context(), argument, quiet)
		assert.RefusedFor(t, err, argument+":", "", "%q", argument)
	}
}

// TestPublished reads the published datasets that are here and compares their sizes with the literature's.
func TestPublished(t *testing.T) {
	t.Setenv(dataVariable, realdata.Folder(t))
	t.Setenv("WEFT_CACHE", t.TempDir())
	type sizes struct {
		Vertices                            int
		Edges                               int64
		Features, Classes, Splits, TrainSet int
		Metric                              string
	}
	want := map[string]sizes{
		"cora":        {2708, 10556, 1433, 7, 1, 140, ""},
		"citeseer":    {3327, 9104, 3703, 6, 1, 120, ""},
		"computers":   {13381, 491556, 767, 10, 5, 200, ""},
		"minesweeper": {10000, 78804, 7, 2, 10, 5000, "roc-auc"},
		"mutag":       {23644, 2 * 74227, 0, 2, 1, 272, ""},
	}
	for _, d := range All() {
		expected, known := want[d.Name]
		if !known {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			if missing := d.Missing(); missing != "" {
				t.Skipf("a published graph is not here: %s", missing)
			}
			store, err := d.Store(t.Context(), quiet)
			require.NoError(t, err)
			g, err := graph.Open(store)
			require.NoError(t, err)
			defer g.Close()
			got := sizes{
				g.Vertices(), g.Edges(), g.Features.Columns, g.Labels.Classes, len(g.Splits),
				len(g.Splits[0].Train), g.Metric,
			}
			assert.Equal(t, expected, got)
			if d.vertices > 0 && (d.vertices != got.Vertices || d.edges != got.Edges) {
				t.Errorf("listed with %d vertices and %d edges", d.vertices, d.edges)
			}
		})
	}
}

// hasOneOrigin reports whether there is one way, and not two, to come to the graph.
func (d *Dataset) hasOneOrigin() bool {
	ways := 0
	for _, there := range []bool{d.make != nil, d.read != nil, d.stream != nil} {
		if there {
			ways++
		}
	}
	return ways == 1
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range All() {
		if seen[d.Name] || d.Name == "" || d.About == "" || d.Origin == "" || !d.hasOneOrigin() {
			t.Errorf("dataset %q is incomplete or stands twice", d.Name)
		}
		seen[d.Name] = true
	}
}

// A store whose making is interrupted leaves nothing, and what a killed process left goes away next time.
func TestInterrupted(t *testing.T) {
	d, file, _ := tiny(t)
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	parent := filepath.Dir(d.cached())
	stale, busy := filepath.Join(parent, atomicfile.Hidden(d.Name)),
		filepath.Join(parent, atomicfile.Hidden(d.Name))
	before := time.Now().Add(-time.Hour)
	for _, dir := range []string{stale, busy} {
		require.NoError(t, errors.Join(os.MkdirAll(dir, 0o777), os.Chtimes(dir, before, before)))
	}
	mine, linked, link := filepath.Join(parent, ".tiny-mine"), t.TempDir(),
		filepath.Join(parent, atomicfile.Hidden(d.Name))
	require.NoError(t, errors.Join(os.Mkdir(mine, 0o777), os.Chtimes(mine, before, before),
		os.Symlink(linked, link), os.Chtimes(linked, before, before)))
	others := []string{mine, link}
	slices.Sort(others)
	lock, err := os.Open(busy)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped, done := errors.New("stopped"), make(chan struct{})
	d.read = func(string) (*graph.Graph, error) {
		cancel(stopped)
		<-done
		return nil, errors.New("too late")
	}
	defer close(done)
	_, err = d.Store(ctx, quiet)
	assert.ErrorIs(t, err, stopped)
	left, _ := filepath.Glob(filepath.Join(parent, ".*"))
	assert.Equal(t, slices.Sorted(slices.Values(append(others, busy))), left, "left")
	root, err := os.OpenRoot(parent)
	require.NoError(t, errors.Join(err, lock.Close()))
	defer root.Close()
	atomicfile.Sweep(root, d.Name)
	if left, _ := filepath.Glob(filepath.Join(parent, ".*")); !slices.Equal(left, others) {
		t.Errorf("left %v", left)
	}
}
