package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/require"
)

// write writes a file, and makes sure that its time of change is another than before: the clock of a file
// system may stand still for some milliseconds.
func write(t *testing.T, path, text string) {
	t.Helper()
	changed := func() int64 {
		s, err := LookAt([]string{path})
		if err != nil {
			return 0
		}
		return s[0].Changed
	}
	for before := changed(); ; {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		if changed() != before {
			return
		}
	}
}

// small writes a store of so many vertices.
func small(vertices int) func(store string) error {
	return func(store string) error {
		return generate.Write(store, generate.Options{
			Kind: generate.SBM, Vertices: vertices, Degree: 2, Features: 2, Classes: 2,
		})
	}
}

// vertices is the number of vertices of a store.
func vertices(t *testing.T, store string) int {
	t.Helper()
	g, err := graph.Open(store)
	require.NoError(t, err)
	defer g.Close()
	return g.Vertices()
}

// TestMade: whatever changes a source, the store is not made of it any more; what changes nothing is passed
// over.
func TestMade(t *testing.T) {
	type at struct{ dir, file, store string }
	do := func(errs ...error) {
		t.Helper()
		require.NoError(t, errors.Join(errs...))
	}
	keepTime := func(path string, change func()) {
		info, err := os.Stat(path)
		do(err)
		change()
		do(os.Chtimes(path, info.ModTime(), info.ModTime()))
	}
	for name, c := range map[string]struct {
		change func(at)
		made   bool
	}{
		"nothing":                 {func(at) {}, true},
		"read":                    {func(a at) { _, err := os.ReadFile(a.file); do(err) }, true},
		"other bytes, size, time": {func(a at) { write(t, a.file, "longer") }, false},
		"the same size and time": {func(a at) {
			keepTime(a.file, func() { write(t, a.file, "two") })
		}, false},
		"another time":         {func(a at) { write(t, a.file, "one") }, false},
		"an older file, moved": {func(a at) { do(os.Rename(filepath.Join(a.dir, "older"), a.file)) }, false},
		"a link that leads to one": {func(a at) {
			do(os.Remove(a.file), os.Symlink(filepath.Join(a.dir, "older"), a.file))
		}, false},
		"gone": {func(a at) { do(os.Remove(a.file)) }, false},
		"another file in a folder": {func(a at) {
			write(t, filepath.Join(a.dir, "folder", "more"), "")
		}, false},
		"one fewer in a folder": {func(a at) {
			do(os.Remove(filepath.Join(a.dir, "folder", "in", "it")))
		}, false},
		"a folder's file": {func(a at) {
			write(t, filepath.Join(a.dir, "folder", "in", "it"), "4")
		}, false},
		"the file of a flag": {func(a at) { write(t, filepath.Join(a.dir, "flag"), "5") }, false},
		"no store":           {func(a at) { do(os.RemoveAll(a.store)) }, false},
		"a damaged record": {func(a at) {
			do(os.Truncate(filepath.Join(a.store, sourcesFile), 20))
		}, false},
		"no record": {func(a at) { do(os.Remove(filepath.Join(a.store, sourcesFile))) }, true},
		"no record, and younger": {func(a at) {
			do(os.Remove(filepath.Join(a.store, sourcesFile)))
			info, err := os.Stat(filepath.Join(a.store, "graph.json"))
			do(err, os.Chtimes(a.file, info.ModTime(), info.ModTime()))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := at{dir: t.TempDir()}
			a.file, a.store = filepath.Join(a.dir, "file"), filepath.Join(a.dir, "store")
			folder := filepath.Join(a.dir, "folder")
			do(os.MkdirAll(filepath.Join(folder, "in"), 0o777),
				os.Symlink("..", filepath.Join(folder, "in", "loop")))
			write(t, filepath.Join(a.dir, "older"), "old")
			for _, path := range []string{
				a.file, filepath.Join(a.dir, "flag"),
				filepath.Join(folder, "in", "it"),
			} {
				write(t, path, "one")
			}
			do(os.Symlink("it", filepath.Join(folder, "in", "link")),
				os.Symlink("absent", filepath.Join(folder, "in", "broken")))
			sources, err := LookAt([]string{a.file, folder, filepath.Join(a.dir, "flag")})
			do(err, os.Mkdir(a.store, 0o777), sources.Record(a.store))
			write(t, filepath.Join(a.store, "graph.json"), "{}")
			c.change(a)
			now, err := LookAt([]string{a.file, folder})
			if made := err == nil && now.Made(a.store); made != c.made {
				t.Errorf("made of the sources as they are: %v, want %v", made, c.made)
			}
		})
	}
}

// TestSourceFile: each of what tells a file from others is that of the system, and counts by itself.
func TestSourceFile(t *testing.T) {
	dir := t.TempDir()
	path, link, store := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "store")
	write(t, path, "text")
	var stat syscall.Stat_t
	require.NoError(t, errors.Join(os.Symlink("file", link), os.Mkdir(store, 0o777),
		os.Chtimes(path, time.Unix(1, 2), time.Unix(3, 4)), syscall.Stat(path, &stat)))
	write(t, filepath.Join(store, "graph.json"), "{}")
	now, err := LookAt([]string{link})
	if want := (sourceFile{path, 4, 3e9 + 4, stat.Ctim.Nano(), stat.Ino, false}); err != nil ||
		len(now) != 1 || now[0] != want {
		t.Fatalf("%+v, %v, want %+v", now, err, want)
	}
	for name, change := range map[string]func(f *sourceFile){
		"path": func(f *sourceFile) {
			f.Path += "2"
		}, "bytes": func(f *sourceFile) { f.Bytes++ }, "modified": func(f *sourceFile) { f.Modified++ },
		"changed": func(f *sourceFile) {
			f.Changed++
		}, "inode": func(f *sourceFile) { f.Inode++ }, "": func(*sourceFile) {},
	} {
		then := slices.Clone(now)
		change(&then[0])
		require.NoError(t, then.Record(store))
		if made := now.Made(store); made != (name == "") {
			t.Errorf("another %s: made of the file: %v", name, made)
		}
	}
}

// TestMakingWaits: while one process makes a store the others wait, say so after a while, and take that
// store. Time passes where all wait.
func TestMakingWaits(t *testing.T) {
	dir := t.TempDir()
	source, store := filepath.Join(dir, "graph"), filepath.Join(dir, "graph.weft")
	write(t, source, "")
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		begun, finish, ends := make(chan bool), make(chan bool), make(chan error)
		makes := 0
		first := Making{
			Name: "graph", Store: store, Sources: []string{source},
			Replaceable: func() error { return CheckOwn(store) },
			Make: func(store string) error {
				makes++
				close(begun)
				<-finish
				return small(20)(store)
			},
			Say: func(string) {},
		}
		go func() { ends <- first.Do(t.Context()) }()
		<-begun
		second := first
		second.Say = func(line string) { lines = append(lines, line) }
		ctx, cancel := context.WithCancelCause(t.Context())
		third, stopped := first, errors.New("stopped")
		go func() { ends <- second.Do(t.Context()) }()
		thirdEnds := make(chan error)
		go func() { thirdEnds <- third.Do(ctx) }()
		for range 3 * lockPauses {
			synctest.Wait()
			time.Sleep(lockPause)
		}
		cancel(stopped)
		assert.ErrorIs(t, <-thirdEnds, stopped, "one that is stopped while it waits")
		close(finish)
		require.NoError(t, errors.Join(<-ends, <-ends))
		if want := []string{"graph: another process makes its store; waiting for it"}; makes != 1 ||
			!slices.Equal(lines, want) {
			t.Errorf("made %d times, and the second said %q", makes, lines)
		}
	})
	assert.Equal(t, 20, vertices(t, store), "vertices")
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); left != nil {
		t.Errorf("left %v", left)
	}
}

// TestMakingFails: where a changed source cannot be read, the store of before stays and the error says so, by
// the store's own path. After it was mended the store is replaced, for whoever opens it then.
func TestMakingFails(t *testing.T) {
	dir := t.TempDir()
	source, store := filepath.Join(dir, "graph"), filepath.Join(dir, "graph.weft")
	making := func(make func(string) error) error {
		m := Making{Name: "graph", Store: store, Sources: []string{source}, Make: make, Say: func(string) {}}
		m.Replaceable = func() error { return CheckOwn(store) }
		return m.Do(t.Context())
	}
	write(t, source, "1")
	bad := errors.New("line 1: no")
	failing := func(store string) error { return errors.Join(errors.New(store), bad) }
	if err := making(failing); !errors.Is(err, bad) || err.Error() != store+"\nline 1: no" {
		t.Errorf("without an earlier store: %v", err)
	}
	require.NoError(t, making(small(20)))
	before, err := graph.Open(store)
	require.NoError(t, err)
	defer before.Close()
	write(t, source, "2")
	if err := making(failing); !errors.Is(err, bad) ||
		!strings.HasSuffix(err.Error(), "no; "+store+" stays, as it was made before the change") {
		t.Errorf("with an earlier store: %v", err)
	}
	assert.Equal(t, 20, vertices(t, store), "vertices after a failure")
	panics := func(string) error { panic("a fault") }
	if err := making(panics); err == nil || !strings.HasPrefix(err.Error(), "internal error: a fault") {
		t.Errorf("a panic: %v", err)
	}
	require.NoError(t, making(small(30)))
	if n := vertices(t,
		store); n != 30 || before.Vertices() != 20 || len(before.Types[0].Labels.Class) != 20 {
		t.Errorf("%d vertices, and %d for who had it open", n, before.Vertices())
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); left != nil {
		t.Errorf("left %v", left)
	}
}

// TestLeftBehind: work that goes on after a signal, and writes files again in place of those that were
// removed, leaves nothing when it ends.
func TestLeftBehind(t *testing.T) {
	dir, stopped := t.TempDir(), errors.New("stopped")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		goOn := make(chan bool)
		m := Making{
			Name: "graph", Store: filepath.Join(dir, "graph"), Replaceable: func() error { return nil },
			Make: func(store string) error {
				cancel(stopped)
				<-goOn
				return small(20)(store)
			},
			Say: func(string) {},
		}
		assert.ErrorIs(t, m.Do(ctx), stopped)
		synctest.Wait() // what does not wait for the work is done before it
		close(goOn)
		synctest.Wait()
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestThereAfterAll: where the folder cannot be brought to disk once the new store has its name, the error
// says that the store is there, and it is.
func TestThereAfterAll(t *testing.T) {
	store, fails, made := filepath.Join(t.TempDir(), "graph"), errors.New("the disk is gone"), false
	defer func() { atomicfile.Fsync = (*os.File).Sync }()
	atomicfile.Fsync = func(f *os.File) error {
		if made {
			return fails
		}
		return f.Sync()
	}
	m := Making{
		Name: "graph", Store: store, Say: func(string) {},
		Replaceable: func() error { return CheckOwn(store) },
	}
	for i, act := range []func(context.Context) error{m.Do, m.Renew} {
		made = false
		m.Make = func(fresh string) error {
			defer func() { made = true }()
			return small(20 + 10*i)(fresh)
		}
		err := act(t.Context())
		if !errors.Is(err, fails) || !atomicfile.IsThere(err) || refusal.Is(err) {
			t.Errorf("%v", err)
		}
		assert.Equal(t, 20+10*i, vertices(t, store), "vertices")
	}
}

// TestRenew: each new version is made of the one before, by one process at a time; who has an old one open
// keeps it. An error leaves the store, and so does a place that may not be replaced.
func TestRenew(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "graph")
	require.NoError(t, small(20)(store))
	before, err := graph.Open(store)
	require.NoError(t, err)
	defer before.Close()
	m := Making{Name: "graph", Store: store, Say: func(string) {}}
	m.Replaceable = func() error { return CheckOwn(store) }
	m.Make = func(fresh string) error { return small(vertices(t, store) + 10)(fresh) }
	const times = 3
	ends := make(chan error, times)
	for range times {
		go func() { ends <- m.Renew(t.Context()) }()
	}
	for range times {
		require.NoError(t, <-ends)
	}
	assert.Equal(t, 20+times*10, vertices(t, store), "vertices")
	assert.Equal(t, 20, len(before.Types[0].Labels.Class), "vertices for who had it open")
	bad := errors.New("no")
	failing := m
	failing.Make = func(fresh string) error { return fmt.Errorf("%s: %w", fresh, bad) }
	if err := failing.Renew(t.Context()); !errors.Is(err, bad) || err.Error() != store+": no" {
		t.Errorf("an error: %v", err)
	}
	write(t, filepath.Join(store, "notes"), "1")
	assert.ErrorContains(t, m.Renew(t.Context()), "notes: not one of weft's files", "with notes")
	assert.Equal(t, 20+times*10, vertices(t, store), "vertices in the end")
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); left != nil {
		t.Errorf("left %v", left)
	}
}

// TestChangesWhileMaking: who changes the source while the store is made has it made again. What gets into
// the store's place meanwhile is not replaced, if it is not weft's.
func TestChangesWhileMaking(t *testing.T) {
	dir := t.TempDir()
	source, store := filepath.Join(dir, "graph"), filepath.Join(dir, "graph.weft")
	write(t, source, "1")
	m := Making{
		Name: "graph", Store: store, Sources: []string{source},
		Replaceable: func() error { return CheckOwn(store) }, Say: func(string) {},
	}
	m.Make = func(store string) error {
		write(t, source, "2")
		return small(20)(store)
	}
	require.NoError(t, m.Do(t.Context()))
	if made, err := m.Made(); made || err != nil {
		t.Errorf("made of the source as it was: %v, %v", made, err)
	}
	m.Make = func(fresh string) error {
		write(t, filepath.Join(store, "notes"), "mine")
		return small(30)(fresh)
	}
	assert.ErrorContains(t, m.Do(t.Context()), "notes: not one of weft's files", "with notes")
	assert.Equal(t, 20, vertices(t, store), "vertices")
}

// TestDamagedStore: a store that cannot be read is made again, unless there is something else in it.
func TestDamagedStore(t *testing.T) {
	dir := t.TempDir()
	source, store := filepath.Join(dir, "graph"), filepath.Join(dir, "graph.weft")
	write(t, source, "1")
	m := Making{
		Name: "graph", Store: store, Sources: []string{source},
		Replaceable: func() error { return CheckOwn(store) }, Make: small(20), Say: func(string) {},
	}
	for range 2 {
		require.NoError(t, m.Do(t.Context()))
		assert.Equal(t, 20, vertices(t, store), "vertices")
		require.NoError(t, os.Truncate(filepath.Join(store, "graph.json"), 2))
	}
	record := filepath.Join(store, sourcesFile)
	require.NoError(t, errors.Join(os.Remove(record), os.Symlink(source, record)))
	assert.ErrorContains(t, m.Do(t.Context()), sourcesFile+": not one of weft's files",
		"with a link in the place of the record")
}

// TestMakingThroughALink: a link to an empty folder, as on another disk, stays, and the store is there.
func TestMakingThroughALink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	store := filepath.Join(dir, "graph.weft")
	require.NoError(t, os.Symlink(elsewhere, store))
	m := Making{Name: "graph", Store: store, Replaceable: func() error {
		return nil
	}, Make: small(20), Say: func(string) {}}
	require.NoError(t, m.Do(t.Context()))
	to, err := os.Readlink(store)
	assert.Equal(t, elsewhere, to, "the link leads to, %v", err)
	assert.Equal(t, 20, vertices(t, elsewhere), "vertices")
}

// TestOutdated: a store is out of date where a file that it was made of has changed, or a folder has got one.
// What the command named is the first of its sources.
func TestOutdated(t *testing.T) {
	dir := t.TempDir()
	store, parts, flag := filepath.Join(dir, "store"), filepath.Join(dir, "parts"), filepath.Join(dir, "flag")
	day := filepath.Join(parts, "day=1")
	require.NoError(t, errors.Join(os.Mkdir(store, 0o777), os.MkdirAll(day, 0o777)))
	write(t, filepath.Join(day, "a"), "one")
	write(t, flag, "one")
	now, err := LookAt([]string{parts, flag})
	require.NoError(t, err)
	require.NoError(t, now.Record(store))
	assert.Equal(t, parts, RecordedFiles(store)[0])
	assert.Equal(t, nil, Outdated(store))
	write(t, filepath.Join(day, "b"), "two")
	assert.Equal(t, []string{filepath.Join(day, "b")}, Outdated(store))
	write(t, flag, "three")
	assert.Equal(t, []string{filepath.Join(day, "b"), flag}, Outdated(store))
}
