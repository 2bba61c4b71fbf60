package datasets

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"weft/internal/atomicfile"
)

// scratch makes a folder to work in, locked for as long as this process lives or until unlock.
func (d *Dataset) scratch(parent string) (path string, unlock func(), err error) {
	path = filepath.Join(parent, atomicfile.Hidden(d.Name))
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

// sweep removes the folders that killed processes left: no process has them locked, and none has just made
// them.
func (d *Dataset) sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !atomicfile.IsHidden(e.Name(), d.Name) {
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
