package graph

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
)

// Folder is a store that is being written, or a directory of parts of a graph with their description. It
// appears under its name only when it is complete and on disk. Until then it is a hidden directory beside its
// final path. The first error stays: every later step does nothing and returns it.
type Folder struct {
	name   string   // path of the store, as the caller spells it
	final  string   // its final path, absolute
	parent *os.Root // the directory that final is in
	// hidden is the name of the hidden directory in parent; empty once it is renamed or removed.
	hidden string
	dir    *os.Root // the hidden directory
	over   bool     // a directory at the final path may be replaced
	sub    string   // the directory in dir to which files are written; empty: dir itself
	made   []string // missing directories above it that were made, outermost first
	lock   *os.File // dir, under a lock that ends with the process
	open   []*arrayFile
	// written are the files so far that are in no record, by their names in dir.
	written  map[string]FileRecord
	progress Progress
	sent     int64 // bytes of arrays that have been written
	all      int64 // bytes of arrays that count for progress
	// completing receives the error of an array that is brought to disk while others are made.
	completing chan error
	err        error
}

// inUse lists the stores that are being written. Its lock is held while their directories are made, renamed
// or removed.
var inUse struct {
	sync.Mutex
	folders []*Folder
}

// RemoveStaging removes the unfinished stores of this process, and calls end. Goroutines that begin or
// complete a store meanwhile wait, so that a process that end ends reports no error of theirs.
func RemoveStaging(end func()) {
	inUse.Lock()
	defer inUse.Unlock()
	for _, s := range inUse.folders {
		_ = s.remove()
	}
	end()
}

// stage makes the hidden directory of a new store. It refuses a path that no store can have.
func stage(dir string) (*Folder, error) {
	final, err := finalPath(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(final)
	switch {
	case err == nil && len(entries) > 0:
		return nil, refusal.Errorf("%s: exists and is not empty; remove it or choose another place", dir)
	case errors.Is(err, unix.ENAMETOOLONG):
		return nil, refusal.Errorf("%s: %w; choose a shorter one", dir, unix.ENAMETOOLONG)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, refusal.Errorf("%s: exists and is not an empty directory; remove it or choose another "+
			"place", dir)
	}
	s := &Folder{name: dir, final: final}
	return s, s.begin(func() (*os.Root, error) { return os.OpenRoot(filepath.Dir(final)) })
}

// CreateFolder begins the directory of that name, a path below the directory within. It follows no symbolic
// link on that path. What is there under the name stays until Commit replaces it.
func CreateFolder(within, name string) (*Folder, error) {
	if err := CheckPlace(within, name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return nil, refusal.Errorf("%w", err)
	}
	defer root.Close()
	final, err := filepath.Abs(filepath.Join(within, name))
	if err != nil {
		return nil, err
	}
	s := &Folder{name: filepath.Join(within, name), final: final, over: true}
	return s, s.begin(func() (*os.Root, error) { return root.OpenRoot(filepath.Dir(name)) })
}

// CheckPlace refuses a path below the directory within if an element of it is not a directory, as a symbolic
// link could lead out of within. It accepts missing elements.
func CheckPlace(within, path string) error {
	at := within
	for element := range strings.SplitSeq(filepath.Clean(path), string(filepath.Separator)) {
		at = filepath.Join(at, element)
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return refusal.Errorf("%w", err)
		case info.Mode()&fs.ModeSymlink != 0:
			return refusal.Errorf("%s: a symbolic link, and weft writes through none here, as it could "+
				"lead anywhere; remove the link", at)
		case !info.IsDir():
			return refusal.Errorf("%s: not a folder, where weft makes one; move it elsewhere or remove it",
				at)
		}
	}
	return nil
}

// finalPath returns the absolute path of a store, after following symbolic links.
func finalPath(dir string) (string, error) {
	final, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(final)
	if err == nil {
		return real, nil
	}
	if _, err := os.Lstat(final); err == nil {
		return "", refusal.Errorf("%s: a symbolic link to nothing; remove it or choose another place", dir)
	}
	return final, nil
}

// begin makes the hidden directory. openParent opens the directory above it, which begin makes if it is
// missing.
func (s *Folder) begin(openParent func() (*os.Root, error)) (err error) {
	inUse.Lock()
	defer inUse.Unlock()
	if err := s.makeParents(); err != nil {
		return refusal.Errorf("%s: %w; choose another place", s.name, err)
	}
	if s.parent, err = openParent(); err == nil {
		atomicfile.Sweep(s.parent, filepath.Base(s.final))
		if s.hidden, s.dir, s.lock, err = atomicfile.MakeHidden(s.parent,
			filepath.Base(s.final)); err != nil {
			_ = s.parent.Close()
		}
	}
	if err != nil {
		s.removeParents()
		if reason := (*fs.PathError)(nil); errors.As(err, &reason) &&
			(errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) {
			return refusal.Errorf("%s: its folder cannot be written to (%w); choose another place", s.name,
				reason.Err)
		}
		return fmt.Errorf("%s: %w", s.name, err)
	}
	inUse.folders = append(inUse.folders, s)
	return nil
}

// makeParents makes the directories above the store that are missing.
func (s *Folder) makeParents() error {
	var missing []string
	for dir := filepath.Dir(s.final); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		err := os.Mkdir(dir, 0o777)
		if errors.Is(err, fs.ErrExist) { // another process made it meanwhile
			continue
		}
		if err != nil {
			s.removeParents()
			return err
		}
		s.made = append(s.made, dir)
	}
	return nil
}

// removeParents removes the directories that makeParents made, if they are empty.
func (s *Folder) removeParents() {
	for _, dir := range slices.Backward(s.made) {
		_ = os.Remove(dir)
	}
	s.made = nil
}

// failure returns the first error, with the name of the store.
func (s *Folder) failure() error {
	if s.err == nil {
		return nil
	}
	return fmt.Errorf("%s: writing it: %w", s.name, s.err)
}

// take keeps the first error.
func (s *Folder) take(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Abort removes the hidden directory. After Commit it does nothing, so it can be deferred.
func (s *Folder) Abort() error {
	for _, a := range s.open {
		_ = a.f.Close()
	}
	s.open = nil
	s.completed()
	if s.hidden == "" {
		return nil
	}
	inUse.Lock()
	defer inUse.Unlock()
	err := s.remove()
	s.leave()
	return err
}

// remove removes the hidden directory and the parents that were made for it.
func (s *Folder) remove() (err error) {
	if s.hidden != "" {
		err = s.parent.RemoveAll(s.hidden)
	}
	s.removeParents()
	return err
}

// leave closes the folder's files once its directory is removed or has its final name. The caller holds the
// lock of inUse.
func (s *Folder) leave() {
	s.hidden = ""
	_ = errors.Join(s.lock.Close(), s.dir.Close(), s.parent.Close())
	inUse.folders = slices.DeleteFunc(inUse.folders, func(t *Folder) bool { return s == t })
}

// AddInt32s writes an array of one dimension.
func (s *Folder) AddInt32s(file string, values []int32) error {
	save(s, file, values, len(values))
	return s.failure()
}

// AddJSON writes a value as JSON.
func (s *Folder) AddJSON(file string, value any) error {
	s.json(file, value)
	return s.failure()
}

// Commit brings everything to disk and gives the directory its final name. After an error other than
// atomicfile.There the name is as it was before.
func (s *Folder) Commit() error { return s.commitWith(func(string) error { return nil }) }

// commitWith is Commit. Before the directory has its name, it calls add with the path of the complete
// directory.
func (s *Folder) commitWith(add func(store string) error) error {
	if s.err == nil {
		s.err = add(s.dir.Name())
	}
	s.completed()
	if s.err == nil {
		s.err = atomicfile.SyncDir(s.dir.Name())
	}
	for _, dir := range slices.Backward(s.made) {
		if s.err == nil {
			s.err = atomicfile.SyncDir(filepath.Dir(dir))
		}
	}
	if s.err == nil {
		s.err = s.rename()
	}
	return s.failure()
}

// within makes a directory and has write write files into it. Directories above it may exist. The empty path
// is the directory to which files go anyway.
func (s *Folder) within(dir string, write func()) {
	if s.err != nil || dir == "" {
		write()
		return
	}
	outside := s.sub
	s.sub = filepath.Join(outside, dir)
	s.mkdir()
	write()
	for at := s.sub; at != outside && s.err == nil; at = strings.TrimPrefix(filepath.Dir(at), ".") {
		s.err = atomicfile.SyncDir(filepath.Join(s.dir.Name(), at))
	}
	s.sub = outside
}

// mkdir makes the directory to which files go.
func (s *Folder) mkdir() {
	inUse.Lock()
	defer inUse.Unlock()
	s.err = s.dir.MkdirAll(s.sub, 0o777)
}

// rename gives the hidden directory its final name.
func (s *Folder) rename() error {
	inUse.Lock()
	defer inUse.Unlock()
	err := atomicfile.Rename(s.parent, s.hidden, filepath.Base(s.final))
	if s.over && (errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY)) {
		return s.replace()
	}
	switch {
	case errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR):
		return refusal.Errorf("another process made it meanwhile; use that one, or choose another place")
	case err == nil || atomicfile.IsThere(err):
		s.leave()
	}
	return err
}

// replace gives the hidden directory its final name and removes what had that name. The lock of inUse is
// held. A process that is killed between the two leaves the old directory under a hidden name, where the next
// sweep finds it; see atomicfile.Replace.
func (s *Folder) replace() error {
	final := filepath.Base(s.final)
	old, err := atomicfile.Replace(s.parent, s.hidden, final, atomicfile.Hidden(final))
	if err != nil && !atomicfile.IsThere(err) {
		return fmt.Errorf("replacing the one that is there: %w", err)
	}
	if left := s.parent.RemoveAll(old); err == nil && left != nil {
		err = atomicfile.There{Err: left}
	}
	s.leave()
	return err
}

// create creates a file of the store.
func (s *Folder) create(name string) (*os.File, error) {
	inUse.Lock()
	defer inUse.Unlock()
	return s.dir.Create(filepath.Join(s.sub, name))
}

// completed waits until all complete arrays are on disk.
func (s *Folder) completed() {
	if s.completing != nil {
		s.take(<-s.completing)
		s.completing = nil
	}
}
