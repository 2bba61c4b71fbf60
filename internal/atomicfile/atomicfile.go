// Package atomicfile writes files that appear under their name only when they are complete and on disk. So a
// reader never sees part of a file, and an earlier file stays if writing fails. All code that writes results
// calls it.
package atomicfile

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Write makes the file of that name hold what write writes. On an error other than There, the name is as it
// was before and nothing is left beside it. An existing file keeps its permissions, and a symbolic link still
// leads to it. A device or a pipe is never replaced: it takes the bytes as they come. Errors name the file.
func Write(path string, write func(io.Writer) error) error {
	target, there, err := find(path)
	switch {
	case err != nil:
	case there != nil && !there.Mode().IsRegular():
		err = stream(path, write)
	default:
		var dir *os.Root
		if dir, err = os.OpenRoot(filepath.Dir(target)); err == nil {
			defer dir.Close()
			err = replace(dir, filepath.Base(target), there, write)
		}
	}
	return named(path, err)
}

// WriteIn is Write for a name in a directory. It follows no link: it replaces whatever has the name.
func WriteIn(dir *os.Root, name string, write func(io.Writer) error) error {
	return named(filepath.Join(dir.Name(), name), replace(dir, name, nil, write))
}

// named puts the file's name in front of an error, in place of the temporary one.
func named(path string, err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) &&
		IsHidden(filepath.Base(failed.Path), filepath.Base(path)) {
		err = failed.Err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// find follows symbolic links from path to the regular file that they lead to, and says what is there; nil:
// nothing yet.
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

// replace writes a new file and gives it the name, and the permissions of the file that it replaces, if any.
// It removes the leftovers of processes that were killed while they wrote the file.
func replace(dir *os.Root, name string, old fs.FileInfo, write func(io.Writer) error) (err error) {
	Sweep(dir, name)
	f, hidden, err := create(dir, name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = dir.Remove(hidden)
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
	if err := Fsync(f); err != nil {
		return err
	}
	if err := Rename(dir, hidden, name); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return There{err}
	}
	return nil
}

// create makes the temporary file of a name and locks it, against the sweep of another process.
func create(dir *os.Root, name string) (f *os.File, hidden string, err error) {
	hidden, f, err = hide(dir, name, "file", func(hidden string) (*os.File, error) {
		// os.CreateTemp makes files that only their owner can read. This one gets the permissions of any new
		// file.
		return dir.OpenFile(hidden, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	})
	return f, hidden, err
}

// hide calls make to make and open a file or directory with a hidden name, and locks it. If make returns nil,
// another process swept the file before it was open.
func hide(
	dir *os.Root, name, what string, make func(hidden string) (*os.File, error),
) (hidden string, f *os.File, err error) {
	const attempts = 10
	for range attempts {
		hidden = Hidden(name)
		if f, err = make(hidden); err != nil {
			return "", nil, err
		}
		if f == nil {
			continue
		}
		// On a file system without locks no sweep removes the file either.
		swept := errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
		if _, err := dir.Lstat(hidden); !swept && err == nil {
			return hidden, f, nil
		}
		_ = f.Close()
	}
	return "", nil, errors.New("other processes keep removing its temporary " + what)
}

// Sweep removes what processes that were killed or lost power have left of a name in dir: the files and
// folders of its hidden names that no process has locked.
func Sweep(dir *os.Root, name string) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if !IsHidden(e.Name(), name) || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		access := os.O_RDWR // NFS locks no file that is open only to read
		if e.IsDir() {
			access = os.O_RDONLY
		}
		f, err := dir.OpenFile(e.Name(), access, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = dir.RemoveAll(e.Name())
		}
		_ = f.Close()
	}
}

// Hidden returns a name, different each time, for a file that will be called name when it is complete. It
// fits file systems wherever name does.
func Hidden(name string) string { return fmt.Sprintf("%s%016x.tmp", prefix(name), rand.Uint64()) }

// prefix returns how every hidden name of name begins. If name is long, a hash replaces its end.
func prefix(name string) string {
	// Bytes, on every common file system of Linux
	const longest, added = 255, len(".") + len(".0123456789abcdef.tmp")
	if len(name) > longest-added {
		h := fnv.New64a()
		h.Write([]byte(name))
		end := longest - added - 16
		for !utf8.RuneStart(name[end]) {
			end--
		}
		name = fmt.Sprintf("%s%016x", name[:end], h.Sum64())
	}
	return "." + name + "."
}

// IsHidden reports whether file is a name that Hidden gives for name.
func IsHidden(file, name string) bool {
	id, ok := strings.CutPrefix(file, prefix(name))
	id, tmp := strings.CutSuffix(id, ".tmp")
	return ok && tmp && len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
}

// Free returns the bytes that are free on the disk of a folder. known is false on a file system that counts
// no blocks.
func Free(dir string) (bytes int64, known bool, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, false, err
	}
	return int64(disk.Bavail) * disk.Bsize, disk.Blocks > 0, nil
}

// SyncDir brings the names in a directory to disk, so that a rename survives a power cut.
func SyncDir(dir string) error { return syncDir(os.Open(dir)) }

// SyncRoot is SyncDir of an open directory.
func SyncRoot(dir *os.Root) error { return syncDir(dir.Open(".")) }

func syncDir(d *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(Fsync(d), d.Close())
}

// Fsync brings a file, or the names in a directory, to disk. Tests replace it.
var Fsync = (*os.File).Sync

// There is an error after a file or a directory got its name: the new one is there and complete, and the name
// no longer leads to the one that it replaces.
type There struct{ Err error }

func (t There) Error() string {
	return "it is there and complete; what came after that failed: " + t.Err.Error()
}

func (t There) Unwrap() error { return t.Err }

// IsThere reports whether an error is There.
func IsThere(err error) bool { return errors.As(err, new(There)) }
