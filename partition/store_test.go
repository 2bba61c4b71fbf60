package partition

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/npy"
	"weft/internal/require"
)

// stored writes a graph to a new store and opens it.
func stored(t testing.TB, g *graph.Graph) (store string, opened *graph.Graph) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	require.NoError(t, g.Write(store))
	opened, err := graph.Open(store)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, opened.Close())
	})
	return store, opened
}

func divided(t testing.TB, g *graph.Graph, o Options) *Assignment {
	t.Helper()
	a, err := Assign(context.Background(), g, o)
	require.NoError(t, err)
	return a
}

func write(t testing.TB, store string, g *graph.Graph, a *Assignment) string {
	t.Helper()
	name, err := Write(store, g, a, nil)
	require.NoError(t, err)
	return name
}

func find(t testing.TB, store string, k int, method string) Description {
	t.Helper()
	d, found, err := Find(store, k, method)
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	return d
}

// TestRoundTrip: stored shares equal the shares in memory.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		store, g := stored(t, made(t, 40, 150, k, 3))
		for _, o := range []Options{{K: 1, Method: Range}, {K: 3, Method: Random, Seed: 9}} {
			t.Run(fmt.Sprint(name, "/", o.Method, o.Balance, o.K), func(t *testing.T) {
				a := divided(t, g, o)
				checkStored(t, store, g, a, write(t, store, g, a))
			})
		}
		// Empty partitions.
		a := &Assignment{K: 5, Parts: slices.Repeat([]int32{3}, 40), Method: File}
		checkStored(t, store, g, a, write(t, store, g, a))
	}
	for _, name := range []string{"plain", "dense"} { // without and with weights, which need not be symmetric
		made := made(t, 40, 150, kinds[name], 3)
		e := made.Relations[0].Edges()
		e.Source, e.Target = slices.Concat(e.Source, e.Target), slices.Concat(e.Target, e.Source)
		for i := range e.Weights {
			e.Weights = append(e.Weights, float32(i))
		}
		e.Features = append(e.Features, e.Features...)
		var err error
		made.Relations[0], err = graph.NewRelation(40, e)
		require.NoError(t, err)
		store, g := stored(t, made)
		a := divided(t, g, Options{K: 3, Method: Random, Seed: 9})
		g.Relations[0].Symmetric = true // as the record of a larger store says
		name := write(t, store, g, a)
		g.Relations[0].Symmetric = false
		checkStored(t, store, g, a, name)
	}
	store, g := stored(t, made(t, 3, 0, kinds["bare"], 3)) // no edges
	a := divided(t, g, Options{K: 2, Method: Range})
	checkStored(t, store, g, a, write(t, store, g, a))
}

func checkStored(t *testing.T, store string, g *graph.Graph, a *Assignment, name string) {
	t.Helper()
	d := find(t, store, a.K, a.Method)
	if d.Name != name || d.K != a.K || d.Method != a.Method || d.Balance != a.Balance || d.Written.IsZero() {
		t.Errorf("%s: found %+v", name, d)
	}
	want, err := Split(g, a)
	require.NoError(t, err)
	for p := range a.K {
		got, err := Open(store, d, p)
		require.NoError(t, err)
		assert.Equal(t, "", same(want[p], got), "%s, share %d", name, p)
		v, expected := &got.Types[0], &want[p].Types[0]
		assert.Equal(t, expected.Features.Sparse(), v.Features.Sparse(), "%s, share %d", name, p)
		assert.Equal(t, expected.Labels.MultiLabel(), v.Labels.MultiLabel(), "%s, share %d", name, p)
		assert.NoError(t, got.Close())
	}
	mapped, err := npy.Map(filepath.Join(store, "partitions", name, "assignment.npy"))
	require.NoError(t, err)
	defer mapped.Close()
	if ids, err := mapped.Int32s(); err != nil || !slices.Equal(ids, a.Parts) {
		t.Errorf("assignment %v, error %v; want %v", ids, err, a.Parts)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	if all, err := List(store); err != nil || len(all) != 0 {
		t.Errorf("nothing is stored: %v, error %v", all, err)
	}
	if _, found, err := Find(store, 2, ""); err != nil || found {
		t.Errorf("nothing is stored: found %v, error %v", found, err)
	}
	for _, o := range []Options{
		{K: 2, Method: Range},
		{K: 2, Method: Random},
		{K: 3, Method: Random},
		{K: 2, Method: Range},
	} {
		write(t, store, g, divided(t, g, o))
	}
	all, err := List(store)
	require.NoError(t, err)
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	assert.Equal(t, []string{"random-2", "random-3", "range-2"}, names, "listed")
	assert.Equal(t, "range-2", find(t, store, 2, "").Name, "the last of 2")
	assert.Equal(t, "random-2", find(t, store, 2, Random).Name, "the last random one of 2")
	if _, found, err := Find(store, 3, Range); found || err != nil {
		t.Errorf("found %v, error %v", found, err)
	}
}

// Each share is mapped on its own: the whole graph's arrays and other shares may be missing.
func TestOpenReadsItsShareAlone(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
	d := find(t, store, 2, "")
	entries, err := os.ReadDir(store)
	require.NoError(t, err)
	for _, e := range entries {
		if !e.IsDir() {
			require.NoError(t, os.Remove(filepath.Join(store, e.Name())))
		}
	}
	require.NoError(t, os.RemoveAll(filepath.Join(store, "partitions", "random-2", "1")))
	s, err := Open(store, d, 0)
	require.NoError(t, err)
	assert.NoError(t, s.Close())
	_, err = graph.Open(filepath.Join(store, "partitions", "random-2", "0"))
	assert.Refused(t, err, "one share", "opened as a store")
	for _, p := range []int{-1, 2} {
		_, err := Open(store, d, p)
		assert.Refused(t, err, "it has those from 0 to 1", "partition %d", p)
	}
}

// TestOpenAfterAnotherOfItsTime: partitions that replaced those found are refused, though the record has the
// inode, size and time of theirs.
func TestOpenAfterAnotherOfItsTime(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
	d := find(t, store, 2, "")
	path := filepath.Join(Directory(store, d.Name), descriptionFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	another := strings.Map(func(digit rune) rune { return 'f' - digit%2 }, d.ID)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), d.ID, another)), 0o666))
	require.NoError(t, os.Chtimes(path, time.Time{}, d.file.ModTime()))
	s, err := Open(store, d, 0)
	assert.Refused(t, err, "replaced while it was being read", "share %v", s)
}

// TestFindPassesByOthers: damaged partitions of another method do no harm.
func TestFindPassesByOthers(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Range}))
	require.NoError(t, os.WriteFile(filepath.Join(Directory(store, "random-2"), descriptionFile),
		[]byte("{"), 0o666))
	find(t, store, 2, Range)
	_, _, err := Find(store, 2, "")
	assert.Refused(t, err, "", "of any method")
}

func TestWriteRefusesAnotherGraph(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	other, err := g.RandomFeatures(3, 1)
	require.NoError(t, err)
	a := divided(t, g, Options{K: 2, Method: Range})
	_, err = Write(store, other, a, nil)
	assert.Refused(t, err, "not the one in this store")
	a.Parts[3] = 2
	_, err = Write(store, g, a, nil)
	assert.Refused(t, err, "")
	_, err = os.Stat(filepath.Join(store, "partitions"))
	assert.ErrorIs(t, err, os.ErrNotExist, "something was written")
}

func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["bare"], 3))
	require.NoError(t, os.Chmod(store, 0o555))
	defer func() {
		assert.NoError(t, os.Chmod(store, 0o755))
	}()
	if os.Geteuid() == 0 { // root may write anywhere: this thread looks at files as another user
		require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(store)), 0o755))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, unix.Setfsuid(65534))
		defer func() {
			assert.NoError(t, unix.Setfsuid(0))
		}()
	}
	_, err := Write(store, g, &Assignment{K: 1, Parts: make([]int32, 20), Method: Range}, nil)
	assert.RefusedFor(t, err, store+": cannot be written to", "")
}

// TestManyClasses: a share may have fewer vertices than the graph has classes.
func TestManyClasses(t *testing.T) {
	t.Parallel()
	g := made(t, 3000, 100, kinds["plain"], 3)
	g.Types[0].Labels = graph.Labels{Classes: 3000, Class: make([]int64, 3000)}
	store, opened := stored(t, g)
	a := &Assignment{K: 2, Parts: make([]int32, 3000), Method: File}
	a.Parts[7] = 1
	write(t, store, opened, a)
	s, err := Open(store, find(t, store, 2, ""), 1)
	require.NoError(t, err)
	assert.NoError(t, s.Close())
}

// TestOpenIsNotByPairs: opening a share does not read the counts of all pairs of partitions again if the
// partitions are those found. So opening all K takes K² steps, not K³.
func TestOpenIsNotByPairs(t *testing.T) {
	store, g := stored(t, made(t, 60, 300, kinds["bare"], 3))
	allocations := func(k int) float64 {
		write(t, store, g, divided(t, g, Options{K: k, Method: Random}))
		d := find(t, store, k, Random)
		return testing.AllocsPerRun(3, func() {
			s, err := Open(store, d, 1)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
	few, many := allocations(2), allocations(20)
	if many > 1.5*few {
		t.Errorf("opening one of 20 partitions makes %v allocations, one of 2 makes %v", many, few)
	}
}

// placesOf reads the order of both stored partitions.
func placesOf(t *testing.T, store string) error {
	d := find(t, store, 2, "")
	for p := range 2 {
		s, err := Open(store, d, p)
		require.NoError(t, err)
		defer s.Close()
		if _, err := s.Places(0); err != nil {
			return err
		}
	}
	return nil
}

// TestSharesKnowSymmetry: shares of a graph whose edges are known to be symmetric know it in both directions,
// stored or in memory.
func TestSharesKnowSymmetry(t *testing.T) {
	const n = 200_000
	pair := graph.Edges{Source: []int32{0, n - 1}, Target: []int32{n - 1, 0}}
	r, err := graph.NewRelation(n, pair)
	require.NoError(t, err)
	for _, known := range []bool{true, false} {
		r.Symmetric = known
		store, g := stored(t, graph.Of(r))
		a := divided(t, g, Options{K: 2, Method: Range})
		write(t, store, g, a)
		shares, err := Split(g, a)
		require.NoError(t, err)
		opened, err := Open(store, find(t, store, 2, ""), 0)
		require.NoError(t, err)
		for _, s := range append(shares, opened) {
			if r := s.Edges.Relations[0]; r.In.Symmetric != known || r.Out.Symmetric != known {
				t.Errorf("known to be symmetric: in %v, out %v, want %v", r.In.Symmetric,
					r.Out.Symmetric, known)
			}
		}
		assert.NoError(t, opened.Close())
	}
}
