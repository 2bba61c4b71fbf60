package datasets

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/graph/internal/table"
	"weft/internal/atomicfile"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/internal/regular"
)

const (
	// RunsFile is the file, in a store of sources, that lists the runs trained on the store.
	RunsFile = "runs.txt"
	// sourcesFile is the file of a store that records from which files it was made.
	sourcesFile   = "sources.json"
	sourcesFormat = 1
	maxSources    = 256 << 20 // bytes
)

// Sources are the files from which a store is made, as they are at one moment.
type Sources []sourceFile

// sourceFile distinguishes a file from any other that has its name at another time. Other bytes of the same
// size and time have another time of change. A file that is moved to the name of another, or to which a link
// leads, has another inode or path. The device does not count, as its number differs between machines that
// share a file system.
type sourceFile struct {
	// Path has no symbolic links. It is absolute; in a record it is relative to the folder of the store if
	// the file is below that folder, so that both can be moved.
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Modified int64  `json:"modified"` // nanoseconds since 1970, as Changed
	Changed  int64  `json:"changed"`  // when bytes, name or permissions last changed (ctime)
	Inode    uint64 `json:"inode"`
	// Folder says that this is a folder that was named. All of its files follow. No other field is set.
	Folder bool `json:"folder,omitempty"`
}

// record is the contents of sourcesFile.
type record struct {
	Format int     `json:"format"`
	Files  Sources `json:"files"`
}

// LookAt looks at files, and at folders with all files in them, except stores that were made of some. It
// follows symbolic links. In folders it leaves out links that lead to nothing.
func LookAt(paths []string) (s Sources, err error) {
	folders := map[string]bool{} // a link may lead back to a folder
	var add func(path string, named bool) error
	add = func(path string, named bool) error {
		info, err := os.Stat(path)
		if err != nil {
			return refusal.Errorf("%s: %w", path, errors.Unwrap(err))
		}
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			if _, _, unread := regular.Open(path); unread != nil {
				err = unread // as for a pipe, whose link /dev/fd/3 leads to no name
			}
			return err
		}
		if !info.IsDir() {
			s = append(s, sourceOf(real, info))
			return nil
		}
		if folders[real] {
			return nil
		}
		folders[real] = true
		if !named && table.IsStore(path) {
			return nil
		}
		if named {
			s = append(s, sourceFile{Path: real, Folder: true})
		}
		entries, err := os.ReadDir(path)
		for _, e := range entries {
			if wrong := add(filepath.Join(path, e.Name()), false); !errors.Is(wrong, fs.ErrNotExist) {
				err = errors.Join(err, wrong)
			}
		}
		return err
	}
	for _, path := range paths {
		err = errors.Join(err, add(path, true))
	}
	return s, err
}

func sourceOf(path string, info fs.FileInfo) sourceFile {
	f := sourceFile{Path: path, Bytes: info.Size(), Modified: info.ModTime().UnixNano()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		f.Changed = system.Ctim.Nano()
		f.Inode = system.Ino
	}
	return f
}

// Record writes into a store that it was made from these files.
func (s Sources) Record(store string) error { return s.recordIn(folderOf(store), store) }

// recordIn is Record for a store that will be in a folder.
func (s Sources) recordIn(folder, store string) error {
	files := slices.Clone(s)
	for i := range files {
		if below, err := filepath.Rel(folder, files[i].Path); err == nil && filepath.IsLocal(below) {
			files[i].Path = below
		}
	}
	text, err := json.Marshal(record{sourcesFormat, files})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(store, sourcesFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// folderOf is the folder that holds a store, without symbolic links.
func folderOf(store string) string {
	if real, err := filepath.EvalSymlinks(store); err == nil {
		store = real
	}
	if whole, err := filepath.Abs(store); err == nil {
		store = whole
	}
	return filepath.Dir(store)
}

// OfSources reports whether the store has a record of the files from which it was made, so that it is made
// again when they change.
func OfSources(store string) bool {
	_, err := os.Lstat(filepath.Join(store, sourcesFile))
	return err == nil
}

// Outdated lists the source files of a store that have changed since it was made, and the new files in its
// source folders. A file that is gone does not count.
func Outdated(store string) (changed []string) {
	then, _ := recordOf(store) // a missing or damaged record tells nothing
	for _, f := range then {
		if f.Folder {
			now, _ := LookAt([]string{f.Path}) // as far as the file can be read
			for _, is := range now {
				if !slices.ContainsFunc(then, func(was sourceFile) bool { return was.Path == is.Path }) {
					changed = append(changed, is.Path)
				}
			}
			continue
		}
		if info, err := os.Stat(f.Path); err == nil && sourceOf(f.Path, info) != f {
			changed = append(changed, f.Path)
		}
	}
	return changed
}

// NoteRun notes in a store of sources that the run in a folder is trained on it. If the store cannot be
// written to, nothing is noted, and the store is not kept for the run.
func NoteRun(store, run string) error {
	if !OfSources(store) || slices.Contains(NotedRuns(store), run) {
		return nil
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND | unix.O_NOFOLLOW
	f, err := os.OpenFile(filepath.Join(store, RunsFile), flags, 0o666)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(run + "\n")
	return errors.Join(err, f.Close())
}

// NotedRuns are the folders of the runs that a store notes. They may be gone.
func NotedRuns(store string) []string {
	text, err := document.Read(filepath.Join(store, RunsFile), maxSources)
	if err != nil {
		return nil // such a store notes none
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// recordOf reads the record of a store, with the absolute paths of the files.
func recordOf(store string) (Sources, error) {
	var then record
	text, err := document.Read(filepath.Join(store, sourcesFile), maxSources)
	if err == nil {
		err = document.StrictJSON(text, sourcesFormat, &then)
	}
	for i := range then.Files {
		if f := &then.Files[i]; !filepath.IsAbs(f.Path) {
			f.Path = filepath.Join(folderOf(store), f.Path)
		}
	}
	return then.Files, err
}

// RecordedFiles are the files and folders from which a store was made, as far as it records them. What the
// command named comes first.
func RecordedFiles(store string) (files []string) {
	recorded, _ := recordOf(store) // a missing or damaged record tells nothing
	for _, f := range recorded {
		files = append(files, f.Path)
	}
	return files
}

// Made reports whether the store was made from these files as they are. Other files that it was made from,
// such as those of an import with flags, must not have changed either. A store without a record, from an
// earlier version, must be younger than the files.
func (s Sources) Made(store string) bool {
	made, err := os.Stat(filepath.Join(store, "graph.json"))
	if err != nil {
		return false
	}
	if !OfSources(store) {
		return !slices.ContainsFunc(s, func(f sourceFile) bool {
			return !f.Folder && f.Modified >= made.ModTime().UnixNano()
		})
	}
	then, err := recordOf(store)
	if err != nil {
		return false // a damaged record tells nothing
	}
	recorded := map[string]sourceFile{}
	for _, f := range then {
		recorded[f.Path] = f
	}
	for _, f := range s {
		if !f.Folder && recorded[f.Path] != f {
			return false
		}
	}
	for path, f := range recorded { // also the files of flags, and files that are gone
		if f.Folder {
			continue // its files follow
		}
		if info, err := os.Stat(path); err != nil || sourceOf(path, info) != f {
			return false
		}
	}
	return true
}
