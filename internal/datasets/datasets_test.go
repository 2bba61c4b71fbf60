package datasets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/require"
)

// tiny is a dataset that is read from one file, with what makes its store and counts how often.
func tiny(t *testing.T) (d *Dataset, file string, m *Maker, reads *int) {
	t.Helper()
	t.Setenv("WEFT_CACHE", t.TempDir())
	file, reads = filepath.Join(t.TempDir(), "tiny"), new(int)
	d = &Dataset{
		Name: "tiny",
		source: source{path: func() string {
			return file
		}, files: func() []string { return []string{file} }, get: "make a file"},
	}
	m = &Maker{
		Import: func(store string, i Import) error {
			if i.Source != file {
				t.Errorf("imported from %s", i.Source)
			}
			*reads++
			return generate.Write(store, generate.Options{
				Kind: generate.SBM, Vertices: 20, Degree: 2,
				Features: 2, Classes: 2,
			})
		},
		Say: func(string) {},
	}
	return d, file, m, reads
}

func TestStoreIsMadeWhenItsSourceChanges(t *testing.T) {
	d, file, m, reads := tiny(t)
	if _, err := m.Store(t.Context(), d); err == nil || !refusal.Is(err) ||
		!strings.Contains(err.Error(), "make a file") {
		t.Fatalf("without its source: %v", err)
	}
	step := func(what string, want int) {
		t.Helper()
		store, err := m.Store(t.Context(), d)
		if err != nil || *reads != want {
			t.Fatalf("%s: %v, read %d times, want %d", what, err, *reads, want)
		}
		g, err := graph.Open(store)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
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
	if missing := d.Missing(); missing != "" {
		t.Errorf("a dataset with a store misses %q", missing)
	}
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	require.NoError(t, os.Truncate(filepath.Join(d.cached(), "graph.json"), 5))
	step("damaged store", 3)
}

func TestTwoAtOnce(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	d := synthetic("two", "", generate.Options{
		Kind: generate.Uniform, Vertices: 1000, Degree: 5,
		Features: 4, Classes: 2,
	})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			m := Maker{Say: func(string) {}}
			if _, err := m.Store(t.Context(), &d); err != nil {
				t.Error(err)
			}
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
	m := Maker{Say: func(string) {}}
	store, err := m.Resolve(t.Context(), "sbm-8k")
	if err != nil || store == "sbm-8k" {
		t.Errorf("%s, %v", store, err)
	}
	require.NoError(t, os.CopyFS("sbm-8k", os.DirFS(store)))
	if store, err := m.Resolve(t.Context(), "sbm-8k"); store != "sbm-8k" || err != nil {
		t.Errorf("a store of that name is passed over: %s, %v", store, err)
	}
	for _, argument := range []string{"nosuch", "cora"} {
		if _, err := m.Resolve(t.Context(), argument); err == nil || !refusal.Is(err) ||
			!strings.HasPrefix(err.Error(), argument+":") {
			t.Errorf("%q: %v", argument, err)
		}
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range All() {
		if seen[d.Name] || d.Name == "" || d.About == "" || d.Origin == "" ||
			(d.make != nil) == (d.format != "") {
			t.Errorf("dataset %q is incomplete or stands twice", d.Name)
		}
		seen[d.Name] = true
	}
}

// A store whose making is interrupted leaves nothing, and what a killed process left goes away next time.
func TestInterrupted(t *testing.T) {
	d, file, m, _ := tiny(t)
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
	m.Import = func(string, Import) error {
		cancel(stopped)
		<-done
		return errors.New("too late")
	}
	defer close(done)
	if _, err := m.Store(ctx, d); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, ".*")); !slices.Equal(left,
		slices.Sorted(slices.Values(append(others, busy)))) {
		t.Errorf("left %v, want what another process works in and what is not weft's", left)
	}
	root, err := os.OpenRoot(parent)
	require.NoError(t, errors.Join(err, lock.Close()))
	defer root.Close()
	atomicfile.Sweep(root, d.Name)
	if left, _ := filepath.Glob(filepath.Join(parent, ".*")); !slices.Equal(left, others) {
		t.Errorf("left %v", left)
	}
}
