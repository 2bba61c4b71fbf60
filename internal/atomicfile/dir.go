package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Unnamed opens a file without a name in a folder, to write and read. Nothing is left of it, however the
// program ends.
func Unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	f, err = os.CreateTemp(dir, "weft-*") // for a file system without unnamed files
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MakeHidden makes a hidden directory that will have the name in parent. It stays locked against the sweep of
// another process until lock is closed or the process ends.
func MakeHidden(parent *os.Root, name string) (hidden string, dir *os.Root, lock *os.File, err error) {
	hidden, lock, err = hide(parent, name, "directory", func(hidden string) (*os.File, error) {
		if err := parent.Mkdir(hidden, 0o777); err != nil {
			return nil, err
		}
		f, err := parent.Open(hidden)
		if errors.Is(err, fs.ErrNotExist) { // swept already
			return nil, nil
		}
		if err != nil {
			return nil, errors.Join(err, parent.Remove(hidden))
		}
		return f, nil
	})
	if err != nil {
		return "", nil, nil, err
	}
	if dir, err = parent.OpenRoot(hidden); err != nil {
		return "", nil, nil, errors.Join(err, lock.Close(), parent.Remove(hidden))
	}
	return hidden, dir, lock, nil
}

// Replace gives the directory from, in parent, the name to. What had that name is then under from, or under
// aside if the file system cannot exchange two names. A process that is killed between the two renamings
// leaves it there. A directory in a lower layer of a container's file system cannot be moved: Replace removes
// it first. It returns the name of what is left to remove, also with an error There.
func Replace(parent *os.Root, from, to, aside string) (old string, err error) {
	err = Exchange(parent, from, to)
	switch {
	case errors.Is(err, unix.ENOENT): // nothing has the name
		return from, Rename(parent, from, to)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // NFS and others without exchange
		return aside, moveAside(parent, from, to, aside)
	case errors.Is(err, unix.EXDEV): // a directory in a lower layer
		if err := parent.RemoveAll(to); err != nil {
			return "", err
		}
		return from, Rename(parent, from, to)
	}
	return from, err
}

// Exchange exchanges the names of two directories, name and other, at once, with the errors of Rename.
func Exchange(parent *os.Root, name, other string) error {
	return rename(parent, name, other, unix.RENAME_EXCHANGE)
}

// CheckExchange returns an error if the file system of a directory, such as NFS, has no Exchange. It tries
// one beside name.
func CheckExchange(parent *os.Root, name string) error {
	var hidden [2]string
	for i := range hidden {
		made, dir, lock, err := MakeHidden(parent, name)
		if err != nil {
			return err
		}
		defer func() { _ = parent.Remove(made) }()
		defer lock.Close()
		defer dir.Close()
		hidden[i] = made
	}
	err := Exchange(parent, hidden[0], hidden[1])
	if there := (There{}); errors.As(err, &there) {
		return there.Err
	}
	return err
}

// moveAside is Replace without an exchange: for a moment nothing has the name. It also works if nothing had
// the name before: gVisor refuses every exchange, without a look at the names.
func moveAside(parent *os.Root, from, to, aside string) error {
	err := Rename(parent, to, aside)
	if errors.Is(err, unix.ENOENT) {
		return Rename(parent, from, to)
	}
	if err != nil && !IsThere(err) {
		return err
	}
	err = Rename(parent, from, to)
	if err != nil && !IsThere(err) {
		return errors.Join(err, Rename(parent, aside, to))
	}
	return err
}

// Rename renames a file or a directory within parent, and brings the names in parent to disk. An error after
// the renaming is There. Unlike Root.Rename it replaces an empty directory.
func Rename(parent *os.Root, from, to string) error { return rename(parent, from, to, 0) }

// rename is renameat2(2) for Rename. Without flags it is renameat(2), which every file system has.
func rename(parent *os.Root, from, to string, flags uint) error {
	at, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer at.Close()
	fd := int(at.Fd())
	if flags == 0 {
		err = unix.Renameat(fd, from, fd, to)
	} else {
		err = unix.Renameat2(fd, from, fd, to, flags)
	}
	if err != nil {
		return err
	}
	if err := Fsync(at); err != nil {
		return There{err}
	}
	return nil
}
