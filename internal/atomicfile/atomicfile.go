// Package atomicfile writes files that appear under their name only when they are complete and on disk.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Write makes the file of that name hold what write writes. On an error the name is as it was before and nothing is left
// beside it. A file that is there keeps its permissions, and a symbolic link goes on leading to it. A device or a pipe is never
// replaced: it takes the bytes as they come. Errors name the file.
func Write(path string, write func(io.Writer) error) error {
	target, there, err := find(path)
	switch {
	case err != nil:
	case there != nil && !there.Mode().IsRegular():
		err = stream(path, write)
	default:
		err = replace(target, there, write)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// find follows symbolic links from path to the regular file that they lead to, and says what is there; nil: nothing yet.
func find(path string) (target string, there fs.FileInfo, err error) {
	there, err = os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return "", nil, errors.New("a symbolic link to a file that is not there")
		}
		return path, nil, nil
	}
	if err != nil || !there.Mode().IsRegular() {
		return path, there, err
	}
	target, err = filepath.EvalSymlinks(path)
	return target, there, err
}

// stream writes into a device or a pipe that is there.
func stream(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// replace writes a new file and gives it the name, and the permissions of the file that it replaces, if there is one.
func replace(path string, old fs.FileInfo, write func(io.Writer) error) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	// Not os.CreateTemp, whose files only their owner can read: this one gets the permissions that any new file gets.
	f, err := os.OpenFile(filepath.Join(dir, Hidden(name)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
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

// IsHidden reports whether file is a name that Hidden gives for name.
func IsHidden(file, name string) bool {
	id, ok := strings.CutPrefix(file, "."+name+".")
	id, tmp := strings.CutSuffix(id, ".tmp")
	return ok && tmp && len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}

// SyncDir brings the names in a directory to disk, so that a rename survives a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
