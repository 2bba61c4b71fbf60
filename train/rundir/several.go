package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/internal/atomicfile"
	"weft/internal/tfevents"
)

// A folder with the directories of several runs.

// severalFile is in a folder with the directories of several runs: what they came to together.
const severalFile = "seeds.json"

// MakeFolder makes a folder for the directories of several runs, and returns its path, and whether it is new.
// An empty out means a new folder under runs/, as for New. Otherwise out must be new or empty, unless the
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

// First is the directory of a run in a folder, the first by name, and empty if there is none.
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

// IsBeside reports whether a file or folder may stand beside the directories of several runs and is none
// itself: what the runs came to, the file of a sweep, event files.
func IsBeside(path string) bool {
	name := filepath.Base(path)
	if name == severalFile || name == sweepFile || strings.HasPrefix(name, tfevents.Prefix) {
		return true
	}
	events, _ := filepath.Glob(filepath.Join(path, tfevents.Prefix+"*")) // a folder with a bracket has none
	return len(events) > 0
}

// WriteSeveral writes what several runs came to together, as JSON, into the folder of their directories.
func WriteSeveral(folder string, text []byte) error {
	return atomicfile.Write(filepath.Join(folder, severalFile), writing(text))
}
