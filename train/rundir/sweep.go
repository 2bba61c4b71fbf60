package rundir

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sweepFile is the copy of a sweep's file in the folder of its runs.
const sweepFile = "sweep.yaml"

// ClaimSweep makes the folder of a sweep's runs, or finds it with runs of the same sweep: one that was begun
// with the same text, or with one of former, which earlier versions wrote. A line "# what: checksum" of the
// text tells what else the sweep depends on. The returned file is locked until no process has it open.
// ClaimSweep refuses the folder of another sweep, or of a sweep that is at work.
func ClaimSweep(folder string, text []byte, former ...[]byte) (*os.File, error) {
	fail := func(err error) error { return refuseOut(folder, "%w; name another folder", err) }
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, fail(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fail(err)
	}
	if len(entries) > 0 &&
		!slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sweepFile }) {
		return nil, refuseOut(folder, "the folder is not empty; name a new one")
	}
	f, err := os.OpenFile(filepath.Join(folder, sweepFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fail(err)
	}
	if err := claimSweep(f, folder, text, former); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// claimSweep locks a sweep's file. It writes the text if the file is new, which is empty.
func claimSweep(f *os.File, folder string, text []byte, former [][]byte) error {
	if errors.Is(lock(f), errHeld) { // a file system without locks cannot tell
		return refuseOut(folder, "another sweep is at work in the folder; wait for its end, or name "+
			"another folder")
	}
	longest := len(text) + len(slices.Concat(former...))
	was, err := io.ReadAll(io.LimitReader(f, int64(longest)+1))
	is := func(content []byte) bool { return bytes.Equal(was, content) }
	if err != nil || is(text) || len(was) > 0 && slices.ContainsFunc(former, is) {
		return err
	}
	if what := changed(was, text); what != "" {
		return refuseOut(folder, "the folder holds runs of this sweep before %s changed; take the former, or "+
			"name another folder", what)
	}
	if len(was) > 0 {
		return refuseOut(folder, "the folder holds runs of another sweep, or of this one before its file "+
			"changed; name another folder")
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync()); err != nil {
		return errors.Join(err, f.Truncate(0))
	}
	return nil
}

// changed names a dependency of which two texts of a sweep have different checksums; "": there is none.
func changed(was, is []byte) string {
	for line := range bytes.Lines(is) {
		what, _, found := bytes.Cut(line, []byte(": "))
		if found && bytes.HasPrefix(what, []byte("# ")) && !bytes.Contains(was, line) &&
			bytes.Contains(was, append(what, ": "...)) {
			return string(what[len("# "):])
		}
	}
	return ""
}
