// Package atomicfile writes files that appear under their name only when they are complete and on disk.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write makes the file of that name hold what write writes. On an error the name is as it was before and nothing is left
// beside it. Errors name the file.
func Write(path string, write func(io.Writer) error) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	// Not os.CreateTemp, whose files only their owner can read: this one gets the permissions that any new file gets.
	f, err := os.OpenFile(filepath.Join(dir, Hidden(name)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Hidden is a name, different each time, for what will be called name when it is complete.
func Hidden(name string) string { return fmt.Sprintf(".%s.%016x.tmp", name, rand.Uint64()) }

// SyncDir brings the names in a directory to disk, so that a rename survives a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
