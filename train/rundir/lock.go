package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// wholeFile is the lock of a whole file. The process that runs, or worker 0 of several, locks metrics.jsonl
// until it ends, in whatever way. The lock belongs to an open file description (fcntl(2)), so that others can
// ask whether it is held without taking it: a command that looks at a run never keeps a run from beginning.
func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// lock locks a run's metrics.jsonl. It fails with errHeld if a run holds the lock, and with another error on
// a file system without locks.
func lock(metrics *os.File) error {
	err := unix.FcntlFlock(metrics.Fd(), unix.F_OFD_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errHeld
	}
	return err
}

var errHeld = errors.New("the run is under way")

// isLocked reports whether a run that has not ended holds the directory. It fails if the file system cannot
// tell.
func isLocked(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, metricsFile), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	now := wholeFile()
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, now)
	return now.Type != unix.F_UNLCK, err
}

// isHeld reports whether a run holds the directory, as far as is known.
func isHeld(dir string) bool {
	is, err := isLocked(dir)
	return is && err == nil
}
