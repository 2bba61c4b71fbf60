package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/train"
	"weft/train/setting"
)

// What an epoch writes, and checks that the directory is still the run's and has room for its results.

// Epoch appends the line of an epoch to metrics.jsonl. It fails if the directory has been removed or
// replaced, cannot be written to, or has no more room for the results.
func (d *Dir) Epoch(e train.Epoch) error {
	d.worked = true
	return d.each(d.checkMetrics, func() error { return d.line(e) }, d.check)
}

func (d *Dir) line(e train.Epoch) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Metric != d.state.Metric {
		d.state.Metric = e.Metric
		if err := d.writeState(); err != nil {
			return err
		}
	}
	return d.append(append(text, '\n'))
}

// check says why the results could not be written now; nil: they could. It takes about three system calls.
func (d *Dir) check() error {
	if d.Gone() {
		return errGone
	}
	if err := unix.Faccessat(unix.AT_FDCWD, d.Path, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		if d.Gone() { // the folder has gone in the meantime
			return errGone
		}
		return fmt.Errorf("it cannot be written to any more: %w", err)
	}
	free, known, err := atomicfile.Free(d.Path)
	if err != nil {
		return err
	}
	if known && free < d.Needs {
		return fmt.Errorf("its disk has %s left, and weights and predictions take %s",
			setting.Bytes(free).Rounded(), setting.Bytes(d.Needs).Rounded())
	}
	return nil
}

// append adds a line to metrics.jsonl, by one write, so that a reader never sees half of it. If the line does
// not fit, nothing of it stays.
func (d *Dir) append(line []byte) error {
	n, err := d.metrics.Write(line)
	if n == 0 || err == nil {
		return err
	}
	end, failed := d.metrics.Seek(int64(-n), io.SeekCurrent)
	if failed == nil {
		failed = d.metrics.Truncate(end)
	}
	return errors.Join(err, failed)
}

var errGone = errors.New("it was removed or replaced while the run went on")

// errChanged is about metrics.jsonl alone.
var errChanged = errors.New(metricsFile + " was removed, replaced or cut while the run went on")

// Gone reports whether the path no longer leads to the run's files: the folder is removed or renamed, or is
// being removed.
func (d *Dir) Gone() bool {
	there, err := os.Lstat(d.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	opened, err := d.root.Stat(".")
	if err != nil || !os.SameFile(there, opened) {
		return true
	}
	return !slices.ContainsFunc([]string{metricsFile, stateFile, configFile}, func(name string) bool {
		_, err := d.root.Lstat(name)
		return err == nil
	})
}

// checkMetrics says that metrics.jsonl is another file than the run's, or has another length; nil: neither.
func (d *Dir) checkMetrics() error {
	there, err := d.root.Lstat(metricsFile)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	opened, err := d.metrics.Stat()
	if err != nil {
		return err
	}
	end, err := d.metrics.Seek(0, io.SeekCurrent)
	switch {
	case err != nil || !gone && os.SameFile(there, opened) && opened.Size() == end:
		return err
	case d.Gone():
		return errGone
	}
	return errChanged
}
