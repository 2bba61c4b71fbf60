package datasets

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"weft/internal/atomicfile"
)

// makeScratch makes a folder to work in on what will have the name, locked for as long as this process lives
// or until unlock.
func makeScratch(parent, name string) (path string, unlock func(), err error) {
	path = filepath.Join(parent, atomicfile.Hidden(name))
	if err := os.Mkdir(path, 0o777); err != nil {
		return "", nil, err
	}
	if unlock, err = lock(path); err != nil {
		unlock = func() {} // a file system without locks, where sweep removes nothing
	}
	return path, unlock, nil
}

// lock takes the lock of a folder, or fails at once where another process has it.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// sweep removes the folders of that name that killed processes left: no process has them locked, and none has
// just made them.
func sweep(parent, name string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !atomicfile.IsHidden(e.Name(), name) {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		if unlock, err := lock(dir); err == nil {
			remove(dir)
			unlock()
		}
	}
}

// remove deletes a folder in which somebody may still be writing.
func remove(dir string) {
	for range 5 {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

// Writable says why no folder can be made in a folder; nil: one can. It tries, as permissions do not tell
// all.
func Writable(folder string) error {
	made, err := os.MkdirTemp(folder, ".weft-")
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if err != nil {
		return err
	}
	return os.Remove(made)
}
