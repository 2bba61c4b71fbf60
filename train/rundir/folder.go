package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train/setting"
)

// Which folder a run may use.

// refuseOut is the refusal of out as a run's folder.
func refuseOut(out, format string, args ...any) error {
	return refusal.Errorf("--out %s: "+format, append([]any{out}, args...)...)
}

// CheckNew refuses, before any work, a folder that New would refuse. An empty out stands for a new folder
// under runs/.
func CheckNew(out string) error {
	if out == "" {
		out = filepath.Join("runs", "new") // the folder has no name yet
	} else if _, err := os.Lstat(out); err == nil {
		return checkFolder(out)
	}
	for parent := filepath.Dir(out); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if errors.Is(err, fs.ErrNotExist) && parent != filepath.Dir(parent) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = unix.Faccessat(unix.AT_FDCWD, parent, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		}
		if err != nil {
			return refuseOut(out, "%s: %s; name another folder", parent, reason(err))
		}
		return nil
	}
}

func makeDir(out string, now time.Time, dataset, model string) (*Dir, error) {
	if out == "" {
		name := now.Format("20060102-150405") + "-" + fileName(dataset) + "-" + fileName(model)
		return makeNamed(filepath.Join("runs", name))
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return nil, refuseOut(out, "%w; name another folder", err)
	}
	err := os.Mkdir(out, 0o777)
	if err == nil {
		return &Dir{Path: out, created: true}, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, refuseOut(out, "%s; name another folder", reason(err))
	}
	if err := checkFolder(out); err != nil {
		return nil, err
	}
	return &Dir{Path: out}, nil
}

// checkFolder refuses an existing folder that is not empty.
func checkFolder(out string) error {
	all, err := os.ReadDir(out)
	entries := slices.DeleteFunc(slices.Clone(all), leftover)
	if hardlyBegun(entries) {
		entries = nil
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuseOut(out, "a symbolic link to nothing; remove it, or name another folder")
	case err != nil:
		return refuseOut(out, "%s; name another folder", reason(err))
	case isHeld(out):
		return refuseOut(out, "another run is under way in the folder; name a new one")
	case len(entries) > 0 && canContinue(out):
		return refuseOut(out, "the folder holds a run that can continue: weft train --resume %s; or "+
			"name a new folder", out)
	case len(entries) > 0:
		holds := entries[0].Name()
		for _, e := range all {
			if leftover(e) {
				holds += ", and " + e.Name() + " of a run that was killed"
			}
		}
		return refuseOut(out, "the folder is not empty (it holds %s); name a new one", holds)
	}
	return nil
}

// leftover reports whether an entry of a folder is a half-written file that a killed run left. The next run
// there removes it when it writes that file.
func leftover(e fs.DirEntry) bool {
	return e.Type().IsRegular() &&
		slices.ContainsFunc(Files(), func(name string) bool { return atomicfile.IsHidden(e.Name(), name) })
}

// hardlyBegun reports whether a folder holds only what a run leaves that was killed before it had a state: an
// empty metrics.jsonl, and run.yaml at most.
func hardlyBegun(entries []fs.DirEntry) bool {
	begun := false
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			return false
		case e.Name() == metricsFile && info.Size() == 0:
			begun = true
		case !slices.Contains(append(setting.KeptNames(), configFile, unreadFile), e.Name()):
			return false
		}
	}
	return begun
}

// canContinue reports whether a folder holds a run that is not under way, and has work left to do.
func canContinue(dir string) bool {
	s, err := lookState(dir)
	return err == nil && (s.Status == Interrupted || s.Status == Killed || s.Status == Failed)
}

// makeNamed makes a folder of that name. Names of runs that start within the same second get a number behind
// it.
func makeNamed(base string) (*Dir, error) {
	err := os.MkdirAll(filepath.Dir(base), 0o777)
	for path, n := base, 2; err == nil; n++ {
		if err = os.Mkdir(path, 0o777); err == nil {
			return &Dir{Path: path, created: true}, nil
		}
		if errors.Is(err, fs.ErrExist) {
			path = fmt.Sprintf("%s-%d", base, n)
			err = nil
		}
	}
	return nil, refusal.Errorf("a run's folder goes under runs/ here: %w; choose another place with --out",
		err)
}

// fileName makes a dataset's name or path fit for a file name.
func fileName(dataset string) string {
	keep := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}
	name := strings.Trim(strings.Map(keep, filepath.Base(dataset)), ".-")
	if name == "" {
		return "graph"
	}
	return name[:min(len(name), 60)]
}
