package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The process that runs, or worker 0 of several, locks metrics.jsonl until it ends, however that is. The lock
// belongs to an open file description (fcntl(2)): others can ask whether it is held without taking it. So a
// command that looks at a run never keeps a run from beginning.
func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK} }

// lock locks a run's metrics.jsonl. A run that holds it makes it fail with errHeld; a file system without
// locks with another error.
func lock(metrics *os.File) error {
	err := unix.FcntlFlock(metrics.Fd(), unix.F_OFD_SETLK, wholeFile())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errHeld
	}
	return err
}

var errHeld = errors.New("the run is under way")

// held reports whether a run that has not ended holds the directory. It fails where the file system cannot
// tell.
func held(dir string) (bool, error) {
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

// isHeld reports whether a run is known to hold the directory.
func isHeld(dir string) bool {
	is, err := held(dir)
	return is && err == nil
}
