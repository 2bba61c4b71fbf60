package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/document"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// checkedFile is the record of a directory's files, of a store or a part, when they had passed all checks.
// The code that writes the files checks them and writes the record. Open and OpenPart do not check values
// again if each file has the size and the time of the record. A file that anybody wrote to has another time,
// as has a copy without its times: then all files are checked as if there were no record. A change beneath
// the file system, as on a failing disk, keeps size and time. Open and OpenPart then find values that would
// lead out of an array, and CheckSums finds all by the checksums.
const checkedFile = "checked.json"

const (
	// checksVersion counts the versions of the checks of a graph and of a part. A record of another version
	// does not count.
	checksVersion = 1
	// Files up to so many bytes have no record: their check takes no time.
	alwaysChecked = 1 << 20
	maxRecord     = 64 << 20 // bytes of checked.json: a record of each file of maxTypes types
)

// record is checked.json.
type record struct {
	Format int          `json:"format"`
	Checks int          `json:"checks"`
	Files  []FileRecord `json:"files"`
	// Symmetric lists the relations with Relation.Symmetric, by their places in graph.json.
	Symmetric []int `json:"symmetric,omitempty"`
}

// FileRecord identifies a file by its size and time in the file system, and by its bytes.
type FileRecord struct {
	Name     string    `json:"name"` // within the directory
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	SHA256   string    `json:"sha256,omitempty"` // empty: not known
}

// is reports whether a file has the size and the time of the record.
func (f *FileRecord) is(info os.FileInfo) bool {
	return info.Size() == f.Bytes && info.ModTime().Equal(f.Modified)
}

// readRecord reads the record of the files in dir, without files that have changed. It returns an empty
// record if it can read none.
func readRecord(dir string) *record {
	text, err := document.Read(filepath.Join(dir, checkedFile), maxRecord)
	if err != nil {
		return &record{}
	}
	r := &record{}
	if err := document.StrictJSON(text, formatVersion, r); err != nil || r.Checks != checksVersion {
		return &record{}
	}
	r.Files = slices.DeleteFunc(r.Files, func(f FileRecord) bool {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		return err != nil || !f.is(info)
	})
	return r
}

// depth returns how much of the mapped files is to be checked, from the record in dir of checked files, with
// graph.json. If the files have passed all checks, depth sets in the relations, in the order of graph.json,
// what else the record knows of them.
func (m *mappings) depth(dir string, relations ...[]Relation) depth {
	recorded := map[string]FileRecord{}
	r := readRecord(dir)
	for _, f := range r.Files {
		recorded[filepath.Join(dir, f.Name)] = f
	}
	if _, ok := recorded[filepath.Join(dir, descriptionFile)]; !ok {
		return everything
	}
	for _, a := range m.arrays {
		f, ok := recorded[a.Path]
		if !ok || !f.is(a.Info) {
			return everything
		}
	}
	place := 0
	for _, list := range relations {
		for i := range list {
			list[i].Symmetric = slices.Contains(r.Symmetric, place)
			place++
		}
	}
	return indices
}

// symmetric returns the places of relations that are known to be symmetric.
func symmetric(lists ...[]Relation) (places []int) {
	for place, r := range slices.Concat(lists...) {
		if r.Symmetric {
			places = append(places, place)
		}
	}
	return places
}

// Sums returns the SHA-256 checksums, in hexadecimal, of the files of the store or part in dir, by name. It
// leaves out files whose size or time has changed since they were written.
func Sums(dir string) map[string]string {
	sums := map[string]string{}
	for _, f := range readRecord(dir).Files {
		if f.SHA256 != "" {
			sums[f.Name] = f.SHA256
		}
	}
	return sums
}

// CheckSums reads the files that Sums knows, and refuses one whose bytes have changed since they were
// written. items names the files to progress, which counts bytes.
func CheckSums(dir, items string, progress Progress) error {
	files := slices.DeleteFunc(readRecord(dir).Files, func(f FileRecord) bool { return f.SHA256 == "" })
	read, all := int64(0), int64(0)
	for _, f := range files {
		all += f.Bytes
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		sum, err := regular.SHA256(path, func(bytes int) {
			read += int64(bytes)
			progress.Report("checking the bytes of "+items, read, all)
		})
		if err != nil {
			return err
		}
		if sum != f.SHA256 {
			return refusal.Damaged("%s: damaged: its bytes are not those that were written, by their "+
				"checksum; make it again", path)
		}
	}
	return nil
}

// Identify lists the files of the store in dir with their checksums, graph.json first. It reads the files
// that the store has no record of.
func Identify(dir string) (files []FileRecord, err error) {
	names, err := Files(dir)
	if err != nil {
		return nil, err
	}
	sums := Sums(dir)
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		digest := sums[name]
		if digest == "" {
			if digest, err = regular.SHA256(path, func(int) {}); err != nil {
				return nil, err
			}
		}
		files = append(files, FileRecord{name, info.Size(), info.ModTime().UTC(), digest})
	}
	return files, nil
}

// ID identifies the contents of the store in dir. A copy has the same ID. A store with another vertex, edge,
// feature, label, name or split has another. ID reads the files that the store has no record of.
func ID(dir string) (string, error) {
	files, err := Identify(dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, f := range files {
		if f.Name != descriptionFile { // graph.json also says how the store was made
			fmt.Fprintf(h, "%s %s\n", f.Name, f.SHA256)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// IsVersion reports whether the store in dir is the one of an ID, perhaps with vertices or edges appended
// since. same says that nothing was appended.
func IsVersion(dir, id string) (is, same bool, err error) {
	now, err := ID(dir)
	if err != nil || now == id {
		return err == nil, err == nil, err
	}
	d, err := readDescription(dir)
	if err != nil {
		return false, false, err
	}
	return slices.Contains(d.Earlier, id), false, nil
}

// Changed reports whether a file of the store in dir differs from the record. It compares the sizes, and the
// bytes if only the times differ, as after the store was copied.
func (f *FileRecord) Changed(dir string) (bool, error) {
	path := filepath.Join(dir, f.Name)
	info, err := os.Stat(path)
	var failed *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, refusal.Errorf("%s: missing, though %s lists it; %s", path,
			descriptionFile, importAgain)
	case errors.As(err, &failed):
		return false, refusal.Errorf("%s: %w; %s", path, failed.Err, importAgain)
	case err != nil:
		return false, err
	case info.Size() != f.Bytes:
		return true, nil
	case f.is(info):
		return false, nil
	}
	digest, err := regular.SHA256(path, func(int) {})
	return err == nil && digest != f.SHA256, err
}

// record writes checked.json beside graph.json, in the directory that files go to, if the files are large
// enough. symmetric are the places in graph.json of relations that are known to be symmetric.
func (s *Folder) record(symmetric []int) {
	s.completed()
	r, bytes := record{Format: formatVersion, Checks: checksVersion, Symmetric: symmetric}, int64(0)
	for path, f := range s.written {
		if name, err := filepath.Rel(filepath.Join(".", s.sub), path); err == nil && name != ".." &&
			!strings.HasPrefix(name, "../") {
			f.Name = name
			r.Files = append(r.Files, f)
			bytes += f.Bytes
			delete(s.written, path)
		}
	}
	if bytes <= alwaysChecked {
		return
	}
	slices.SortFunc(r.Files, func(a, b FileRecord) int { return strings.Compare(a.Name, b.Name) })
	s.json(checkedFile, r)
}

// summed writes a file and its checksum at once. It makes the system write to disk early, so that the end
// waits for little.
type summed struct {
	f       *os.File
	hash    hash.Hash
	tell    func(bytes int) // gets the number of bytes written
	at      int64           // bytes written
	flushed int64           // bytes of these that are on their way to disk
}

// flushedBytes go to disk at a time.
const flushedBytes = 16 << 20

// Write writes and sums at once. If data of a mapped file were cut, it faults, and the caller handles that,
// as Guard does.
func (w *summed) Write(data []byte) (n int, err error) {
	done := make(chan any)
	go func() {
		debug.SetPanicOnFault(true)
		defer func() { done <- recover() }()
		w.hash.Write(data)
	}()
	n, err = w.f.Write(data)
	err = reason(err)
	w.at += int64(n)
	if w.at-w.flushed >= flushedBytes {
		// This is advice: Sync reports errors.
		_ = unix.SyncFileRange(int(w.f.Fd()), w.flushed, w.at-w.flushed, unix.SYNC_FILE_RANGE_WRITE)
		w.flushed = w.at
	}
	if fault := <-done; fault != nil {
		panic(fault)
	}
	w.tell(n)
	return n, err
}

// reason returns why a file could not be written, without its hidden path.
func reason(err error) error {
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// complete brings a file to disk, notes it for the record and closes it. name is relative to the folder's
// directory.
func (s *Folder) complete(name string, f *os.File, sum []byte) error {
	synced := f.Sync()
	info, err := f.Stat()
	if err := errors.Join(synced, err, f.Close()); err != nil {
		return err
	}
	if s.written == nil {
		s.written = map[string]FileRecord{}
	}
	s.written[name] = FileRecord{"", info.Size(), info.ModTime().UTC(), hex.EncodeToString(sum)}
	return nil
}
