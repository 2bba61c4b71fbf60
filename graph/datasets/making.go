package datasets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/comm/launch"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
)

// Making is how a store is made from files: once, by one process at a time, and again when they have changed.
type Making struct {
	Name    string   // the graph's name, for Say
	Store   string   // the store's path
	Sources []string // the files and folders from which it is made; none: a recipe
	// Used reports whether a store is to be kept when the sources have changed. The new store is then made
	// beside it. nil: none is kept.
	Used func(store string) bool
	// Replaceable refuses a store, or whatever else is at the path, that may not be replaced. It accepts a
	// path where nothing is.
	Replaceable func() error
	// Make reads the sources and writes the store, under another path.
	Make func(store string) error
	Say  func(line string) // takes lines about what takes long
}

// Made reports whether the store is there, made of the sources as they are. The error is about a source. If
// the store is made, Store is its path; else Store is a path for a new store, which no other store has.
func (m *Making) Made() (bool, error) {
	sources, err := LookAt(m.Sources)
	if err != nil {
		return false, err
	}
	first := m.Store
	stores := Versions(first)
	for _, store := range stores {
		if sources.Made(store) {
			m.Store = store
			return true, nil
		}
	}
	for n := 1; ; n++ {
		m.Store = version(first, n)
		if !slices.Contains(stores, m.Store) || m.Used == nil || !m.Used(m.Store) {
			return false, nil
		}
	}
}

// version is the path of the n-th version, from 1, of a store that is made of sources: STORE, STORE-2, …, or
// for FILE.weft FILE.2.weft.
func version(store string, n int) string {
	if n == 1 {
		return store
	}
	if base, cut := strings.CutSuffix(store, ".weft"); cut {
		return fmt.Sprintf("%s.%d.weft", base, n)
	}
	return fmt.Sprintf("%s-%d", store, n)
}

// Versions are the paths of the existing versions of a store, the first version first.
func Versions(store string) (stores []string) {
	entries, _ := os.ReadDir(filepath.Dir(store)) // a folder that cannot be read has none
	pattern := filepath.Base(version(store, math.MaxInt))
	before, after, _ := strings.Cut(pattern, strconv.Itoa(math.MaxInt))
	var numbers []int
	for _, e := range entries {
		digits, begins := strings.CutPrefix(e.Name(), before)
		digits, ends := strings.CutSuffix(digits, after)
		n, err := strconv.Atoi(digits)
		switch {
		case e.Name() == filepath.Base(store):
			numbers = append(numbers, 1)
		case begins && ends && err == nil && n > 1 && e.Name() == filepath.Base(version(store, n)):
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		stores = append(stores, version(store, n))
	}
	return stores
}

// Do makes the store, unless another process makes it meanwhile, for which it waits. It replaces an existing
// store once the new one is complete; whoever has the old one open keeps it. If ctx is cancelled, or an error
// other than atomicfile.There occurs, nothing changes.
func (m *Making) Do(ctx context.Context) error {
	return m.alone(ctx, func(parent *os.Root, name string) error {
		// Look at the sources before they are read: a change meanwhile makes the record wrong.
		sources, err := LookAt(m.Sources)
		if err != nil || sources.Made(m.Store) && opens(m.Store) {
			return err
		}
		err = m.make(ctx, parent, name, sources, func(hidden string) error {
			_, err := atomicfile.Replace(parent, filepath.Join(hidden, fresh), name,
				filepath.Join(hidden, "old"))
			if err != nil && !atomicfile.IsThere(err) && sources.Made(m.Store) {
				return nil // another process has made it
			}
			return err
		})
		_, there := os.Stat(filepath.Join(m.Store, "graph.json"))
		if errors.As(err, new(elsewhere)) && there == nil {
			err = fmt.Errorf("%w; %s stays, as it was made before the change", err, m.Store)
		}
		return err
	})
}

// Renew replaces the store by a new version, which Make makes from it. Other processes that do so wait. A
// process that is killed at any time leaves the one or the other. After an error other than atomicfile.There
// the store is as it was. Renew refuses a file system that cannot do that.
func (m *Making) Renew(ctx context.Context) error {
	exchanged := func(err error) error {
		switch {
		case atomicfile.IsThere(err): // the exchange is done
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
			err = refusal.Errorf("its folder cannot be written to (%w); name another place with --out", err)
		case err != nil:
			err = refusal.Errorf("the file system cannot exchange two folders at once (%w); leave the store "+
				"as it is, and name another place with --out", err)
		}
		return err
	}
	return m.alone(ctx, func(parent *os.Root, name string) error {
		if err := exchanged(atomicfile.CheckExchange(parent, name)); err != nil {
			return fmt.Errorf("%s: %w", m.Store, err)
		}
		return m.make(ctx, parent, name, nil, func(hidden string) error {
			return exchanged(atomicfile.Exchange(parent, filepath.Join(hidden, fresh), name))
		})
	})
}

// alone calls work with the folder that holds the store, and its name there, while no other process does.
func (m *Making) alone(ctx context.Context, work func(parent *os.Root, name string) error) error {
	final := m.Store
	if real, err := filepath.EvalSymlinks(final); err == nil { // a link may lead to an empty folder elsewhere
		final = real
	}
	folder, name := filepath.Dir(final), filepath.Base(final)
	unlock, err := m.lock(ctx, folder, name)
	if err != nil {
		return err
	}
	defer unlock()
	parent, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer parent.Close()
	return work(parent, name)
}

// fresh is the name of a new store in a hidden folder.
const fresh = "new"

// make makes the store in a hidden folder, and calls put to give it its name.
func (m *Making) make(ctx context.Context, parent *os.Root, name string, sources Sources,
	put func(hidden string) error,
) error {
	if err := m.Replaceable(); err != nil {
		return err
	}
	atomicfile.Sweep(parent, name)
	hidden, scratch, release, err := atomicfile.MakeHidden(parent, name)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Store, err)
	}
	clean := func() {
		remove(scratch.Name())
		_ = errors.Join(scratch.Close(), release.Close())
	}
	path := filepath.Join(scratch.Name(), fresh)
	made := make(chan struct{})
	go func() {
		defer close(made)
		defer func() {
			if fault := recover(); fault != nil {
				err = launch.Recovered(fault, "")
			}
		}()
		err = m.Make(path)
		if err == nil && len(m.Sources) > 0 {
			err = sources.recordIn(folderOf(scratch.Name()), path)
		}
	}()
	select {
	case <-made:
	case <-ctx.Done():
		// The work is left behind, with nowhere to put its result. What it writes after this goes when it
		// ends or, after the end of the process, with the next sweep.
		remove(scratch.Name())
		go func() {
			<-made
			clean()
		}()
		return context.Cause(ctx)
	}
	defer clean()
	if err != nil {
		return elsewhere{err, path, m.Store}
	}
	if err := m.Replaceable(); err != nil { // again, as making it takes a while
		return err
	}
	if err := put(hidden); err != nil {
		return fmt.Errorf("%s: %w", m.Store, err)
	}
	return nil
}

// How the wait for another process that makes the store goes: how long between two looks, and after how many
// looks Say is called.
const (
	lockPause  = 50 * time.Millisecond
	lockPauses = 20
)

// lock takes the lock of a store, once no other process has it. If no lock can be had, as on a file system
// without locks, several processes may make the store at once, and the last one stays.
func (m *Making) lock(ctx context.Context, folder, name string) (unlock func(), err error) {
	key := sha256.Sum256([]byte(name)) // a name may be as long as a file system allows
	path := filepath.Join(folder, fmt.Sprintf(".weft-%x.lock", key[:8]))
	for pauses := 0; ; pauses++ {
		unlock, busy := tryLock(path)
		if !busy {
			return unlock, nil
		}
		if pauses == lockPauses {
			m.Say(m.Name + ": another process makes its store; waiting for it")
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock takes a lock: a file that exists as long as a process holds the lock. busy says that another
// process holds it.
func tryLock(path string) (unlock func(), busy bool) {
	// NFS does not lock a file that is open only for reading.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return func() {}, false
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || !isFile(f, path) { // its owner may have removed it meanwhile
		_ = f.Close()
		return nil, true
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close()
	}, false
}

// isFile reports whether an open file is the one at path.
func isFile(f *os.File, path string) bool {
	open, err := f.Stat()
	there, gone := os.Stat(path)
	return err == nil && gone == nil && os.SameFile(open, there)
}

// elsewhere is an error about a store that is made under another path than the final one. Its text has the
// final path.
type elsewhere struct {
	error
	path, final string
}

func (e elsewhere) Unwrap() error { return e.error }

func (e elsewhere) Error() string { return strings.ReplaceAll(e.error.Error(), e.path, e.final) }
