package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/atomicfile"
	"weft/internal/tfevents"
)

// A folder with the directories of several runs, which differ in their seeds.

// severalFile has the results of several runs together, in the folder of their directories.
const severalFile = "seeds.json"

// MakeFolder makes a folder for the directories of several runs. It returns its path, and whether it is new.
// An empty out stands for a new folder under runs/, as in New. Any other out must be new or empty, unless the
// runs in it continue.
func MakeFolder(out string, now time.Time, dataset, model string,
	continues bool,
) (path string, created bool, err error) {
	if out != "" && continues {
		_, missing := os.Lstat(out)
		if err := os.MkdirAll(out, 0o777); err != nil {
			return "", false, refuseOut(out, "%w; name another folder", err)
		}
		return out, missing != nil, nil
	}
	if First(out) != "" {
		return "", false, refuseOut(out, "the folder holds runs; continue them with --resume auto, or name "+
			"a new folder")
	}
	d, err := makeDir(out, now, dataset, model)
	if err != nil {
		return "", false, err
	}
	return d.Path, d.created, nil
}

// First is the first directory of a run in a folder, by name; "": there is none.
func First(folder string) string {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if dir := filepath.Join(folder, e.Name()); Is(dir) {
			return dir
		}
	}
	return ""
}

// IsBeside reports whether a path, which is not a run's directory, may stand beside the directories of
// several runs: results of the runs together, the file of a sweep, or event files.
func IsBeside(path string) bool {
	name := filepath.Base(path)
	if name == severalFile || name == sweepFile || strings.HasPrefix(name, tfevents.Prefix) {
		return true
	}
	events, _ := filepath.Glob(filepath.Join(path, tfevents.Prefix+"*")) // none if it has a bracket
	return len(events) > 0
}

// WriteSeveral writes the results of several runs together, as JSON, into the folder of their directories.
func WriteSeveral(folder string, text []byte) error {
	return atomicfile.Write(filepath.Join(folder, severalFile), writing(text))
}
