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
			assert.Equal(t, file, i.Source, "imported from")
			*reads++
			return generate.Write(store, generate.Options{
				Kind: generate.SBM, Vertices: 20, Degree: 2, Features: 2, Classes: 2,
			})
		},
		Say: func(string) {},
	}
	return d, file, m, reads
}

func TestStoreIsMadeWhenItsSourceChanges(t *testing.T) {
	d, file, m, reads := tiny(t)
	_, err := m.Store(t.Context(), d)
	assert.Refused(t, err, "make a file", "without its source")
	step := func(what string, want int) {
		t.Helper()
		store, err := m.Store(t.Context(), d)
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
			m := Maker{Say: func(string) {}}
			_, err := m.Store(t.Context(), &d)
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	if v, e, known := d.Size(); v != 1000 || e != 5000 || !known {
		t.Errorf("%d vertices, %d edges, known %v", v, e, known)
	}
}

func TestNotHere(t *testing.T) {
	t.Setenv("WEFT_CACHE", t.TempDir())
	t.Setenv(dataVariable, "")
	m := Maker{Say: func(string) {}}
	_, missing := m.Store(t.Context(), Named("cora"))
	for argument, err := range map[string]error{"nosuch": NoGraph("nosuch"), "cora": missing} {
		assert.RefusedFor(t, err, argument+":", "", argument)
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
	foreign, linked, link := filepath.Join(parent, ".tiny-mine"), t.TempDir(),
		filepath.Join(parent, atomicfile.Hidden(d.Name))
	require.NoError(t, errors.Join(os.Mkdir(foreign, 0o777), os.Chtimes(foreign, before, before),
		os.Symlink(linked, link), os.Chtimes(linked, before, before)))
	others := []string{foreign, link}
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
	_, err = m.Store(ctx, d)
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
