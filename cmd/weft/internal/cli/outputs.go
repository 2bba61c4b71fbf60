package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"weft/checkpoint"
	"weft/graph/datasets"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/rundir"
)

// CheckFile refuses, before any work, a file that could not be written.
func CheckFile(flag, path string) error {
	dir := filepath.Dir(path)
	folder, noFolder := os.Stat(dir)
	there, err := os.Stat(path)
	_, link := os.Lstat(path)
	switch mark := besideMark(path); {
	case path == "":
		return refusal.Errorf("--%s is missing: name the file to write", flag)
	case path == "-":
		return refusal.Errorf("--%s -: standard output is not written to under this name; name a file, or "+
			"/dev/stdout", flag)
	case err == nil && there.IsDir():
		return refusal.Errorf("--%s %s: a folder; name a file", flag, path)
	case noFolder != nil || !folder.IsDir():
		return refusal.Errorf("--%s %s: there is no folder %s", flag, path, dir)
	case link == nil && errors.Is(err, fs.ErrNotExist):
		return refusal.Errorf("--%s %s: a symbolic link to a file that is not there; remove the link, or "+
			"name another file", flag, path)
	case mark != "":
		return refusal.Errorf("--%s %s: its folder holds %s, and the file may be one of a graph or a run; "+
			"name another folder", flag, path, mark)
	case err == nil:
		return nil
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS); err != nil {
		return refusal.Errorf("--%s %s: the folder %s cannot be written to (%w); name a file elsewhere",
			flag, path, dir, err)
	}
	return nil
}

// Output is a file that a command writes, and the flag that names it.
type Output struct{ Flag, Path string }

// Outputs are all files that a command writes. Those without a path are not asked for.
type Outputs []Output

// Check refuses, before any work, a file that could not be written, that is one of the inputs, or that an
// earlier flag names, too.
func (o Outputs) Check(inputs ...string) error {
	return o.each(func(k int, flag, path string) error {
		if err := cmp.Or(CheckFile(flag, path), checkApart(flag, path, inputs...)); err != nil {
			return err
		}
		for _, other := range o[:k] {
			if other.Path != "" && SameFile(other.Path, path) {
				return refusal.Errorf("--%s %s: the file of --%s; name another", flag, path, other.Flag)
			}
		}
		return nil
	})
}

// CheckApartFromGraph refuses a file of a dataset or of its store, with its partitions, and one of the files
// from which the store was made.
func (o Outputs) CheckApartFromGraph(dataset, store string) error {
	return o.each(func(_ int, flag, path string) error {
		return checkApartFromGraph(flag, path, dataset, store)
	})
}

// each calls check for each file, with its number, until one is refused.
func (o Outputs) each(check func(k int, flag, path string) error) (err error) {
	for k, file := range o {
		if err == nil && file.Path != "" {
			err = check(k, file.Flag, file.Path)
		}
	}
	return err
}

// checkApart refuses an output file that is one of the inputs, under any name or link.
func checkApart(flag, path string, inputs ...string) error {
	out, errOut := os.Stat(path) // for a new file CheckFile has said whether it can be made
	for _, input := range inputs {
		in, errIn := os.Stat(input)
		if errOut == nil && errIn == nil && os.SameFile(out, in) {
			return refusal.Errorf("--%s %s: leads to %s, which is read; name another file", flag, path, input)
		}
	}
	return nil
}

func checkApartFromGraph(flag, path, dataset, store string) error {
	inputs := append(datasets.SourceFiles(dataset), datasets.RecordedFiles(store)...)
	// The folder of the partitions may be a link, which a walk does not follow.
	for _, dir := range []string{store, filepath.Join(store, partition.Folder)} {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue // there are no partitions; reading the store says what is wrong with it
		}
		err = filepath.WalkDir(real, func(file string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				inputs = append(inputs, file)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if SameFile(filepath.Dir(path), filepath.Join(store, partition.Folder)) {
		return refusal.Errorf("--%s %s: its folder holds the partitions of %s; name another folder", flag,
			path, store)
	}
	if err := checkApart(flag, path, inputs...); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && besideMark(target) != "" {
		return refusal.Errorf("--%s %s: leads to %s, whose folder holds %s, and which may be of a graph "+
			"or a run; name another file",
			flag, path, target, besideMark(target))
	}
	return nil
}

// besideMark is the name of the file that marks the folder of a path as a store's, a partition's, a run's or
// a checkpoint's, if the path may be one of its files; else "".
func besideMark(path string) string {
	folder, name := filepath.Split(path)
	any, ofRun := true, slices.Contains(rundir.Files(), name)
	for _, mark := range []struct {
		name string
		own  bool // the path may be one of the files of such a folder
	}{
		{"graph.json", any},
		{"partition.json", any},
		{"run.json", ofRun},
		{"state.json", ofRun},
		{"manifest.json", checkpoint.IsFile(name)},
	} {
		if _, err := os.Stat(filepath.Join(folder, mark.name)); err == nil && mark.own {
			return mark.name
		}
	}
	return ""
}

// SameFile reports whether two names are of one file, which need not exist.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil || errY == nil {
		return errX == nil && errY == nil && os.SameFile(x, y)
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	x, errX = os.Stat(filepath.Dir(a))
	y, errY = os.Stat(filepath.Dir(b))
	return errX == nil && errY == nil && os.SameFile(x, y)
}
