package arrays

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"weft/internal/foreign"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Archive is an open .npz file, a zip archive whose entries are .npy files, one per key, or a folder of such
// files. Complaints about it are refusals that name the file or folder and the array.
type Archive struct {
	Fields  // of the archive
	Path    string
	folder  string    // the folder of the keys, with a slash behind it; empty: the archive itself
	file    io.Closer // or folder
	entries map[string]opener
	others  []string // names of entries that are no arrays
}

// opener opens an entry. What is really there bounds the size that it claims.
type opener func() (*Entry, error)

// maxEntries bounds the entries of an archive. A graph has about ten; NumPy has no limit.
const maxEntries = 1000

// OpenArchive opens the archive, or the folder of .npy files, of that name. The key of a file in a folder
// below it is the path from there, as for an entry of an archive.
func OpenArchive(path string) (*Archive, error) {
	a := &Archive{Path: path, entries: map[string]opener{}}
	a.Fields = Fields{a}
	list := a.listFile
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		list = a.listFolder
	}
	if err := list(); err != nil {
		return nil, err
	}
	return a, nil
}

// listFile finds the entries of a .npz file.
func (a *Archive) listFile() (err error) {
	file, size, err := regular.Open(a.Path)
	if err != nil {
		return refusal.Errorf("%w; give a .npz file, or a folder of .npy files", err)
	}
	a.file = file
	if err := a.listZip(file, size); err != nil {
		_ = file.Close()
		return err
	}
	return nil
}

func (a *Archive) listZip(file *os.File, size int64) error {
	kind := foreign.Of(file)
	zipped := kind == foreign.Archive || kind == foreign.Zip // the first entry of these is no array
	if kind != foreign.Unknown && !zipped {
		return kind.Refuse(a.Path, "a .npz file, the zip archive of arrays that numpy.savez writes")
	}
	z, err := zip.NewReader(file, size)
	if err != nil {
		// An archive begins with an entry and has its directory at the end.
		if zipped {
			return refusal.Damaged("%s: the .npz file is damaged or cut short (%w): fetch or save it again",
				a.Path, err)
		}
		return refusal.Errorf("%s: %w; give a .npz file, the zip archive of arrays that numpy.savez writes",
			a.Path, err)
	}
	// This one is faster than the standard library's.
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return flate.NewReader(r) })
	if len(z.File) > maxEntries {
		return refusal.Errorf("%s: has %d entries, which is no graph: at most %d are read", a.Path,
			len(z.File), maxEntries)
	}
	for _, f := range z.File {
		compressed := min(f.CompressedSize64, uint64(size))
		err := a.add(f.Name, func() (*Entry, error) {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			return &Entry{ReadCloser: r, Size: int64(min(f.UncompressedSize64, compressed*deflateRatio))}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds the entry of that name.
func (a *Archive) add(name string, open opener) error {
	key, ok := strings.CutSuffix(name, ".npy")
	if !ok {
		a.others = append(a.others, name)
		return nil
	}
	if a.entries[key] != nil {
		return refusal.Errorf("%s: has two arrays %q; save it again with numpy.savez", a.Path, key)
	}
	a.entries[key] = open
	return nil
}

// listFolder finds the files in a folder, and in those within it.
func (a *Archive) listFolder() error {
	folder, err := os.OpenRoot(a.Path)
	if err != nil {
		return refusal.Errorf("%w; give a .npz file, or a folder of .npy files", err)
	}
	a.file = folder
	files := 0
	err = fs.WalkDir(folder.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return refusal.In(a.Path, err)
		}
		if d.IsDir() {
			return nil
		}
		files++
		if files > maxEntries {
			return refusal.Errorf("%s: has more than %d files, which is no graph", a.Path, maxEntries)
		}
		return a.add(name, func() (*Entry, error) {
			file, size, err := regular.OpenIn(folder, name)
			if err != nil {
				return nil, err
			}
			return &Entry{file, size, true}, nil
		})
	})
	if err != nil {
		_ = folder.Close()
	}
	return err
}

// In returns the arrays in a folder of the archive. They are open as long as the archive is.
func (a *Archive) In(folder string) *Archive {
	in := *a
	in.folder, in.Fields = folder+"/", Fields{&in}
	return &in
}

// Key returns the name in the archive of a key.
func (a *Archive) Key(key string) string { return a.folder + key }

// Close closes the file or folder.
func (a *Archive) Close() { _ = a.file.Close() }

// Has reports whether there are arrays of all those keys.
func (a *Archive) Has(keys ...string) bool {
	for _, key := range keys {
		if a.entries[a.Key(key)] == nil {
			return false
		}
	}
	return true
}

// Group reports whether the arrays of a group, all of which have a key, are there. It refuses a part of a
// group, as the contents of the missing ones would be lost silently.
func (a *Archive) Group(keys ...string) (there bool, err error) {
	var here, missing []string
	for _, key := range keys {
		if a.Has(key) {
			here = append(here, a.Key(key))
		} else {
			missing = append(missing, a.Key(key))
		}
	}
	if len(here) > 0 && len(missing) > 0 {
		return false, refusal.Errorf("%s: has the arrays %s without %s: these belong together; fetch or "+
			"save the file again", a.Path, Listed(here), Listed(missing))
	}
	return len(here) > 0, nil
}

// Others names the entries that are no arrays.
func (a *Archive) Others() []string { return a.others }

// Only refuses arrays other than the known ones, as they would be lost silently.
func (a *Archive) Only(known ...string) error {
	for _, key := range a.Names() {
		if !slices.Contains(known, key) {
			return refusal.Errorf("%s: array %.40q is not read beside %q: leave it out; known are %s", a.Path,
				key, known[0], strings.Join(known, ", "))
		}
	}
	return nil
}

// CheckObjects refuses an archive that has arrays of Python objects.
func (a *Archive) CheckObjects() error {
	for _, key := range a.Names() {
		if _, err := a.Header(key); errors.Is(err, npy.ErrObjects) {
			return err
		}
	}
	return nil
}

// Names returns the keys, sorted.
func (a *Archive) Names() []string { return slices.Sorted(maps.Keys(a.entries)) }

// Keys lists the keys, quoted, the first of them where there are many.
func (a *Archive) Keys() string { return Listed(a.Names()) }

// ErrTwoColumns refuses two columns of one name.
func ErrTwoColumns(name string) error {
	return fmt.Errorf("two columns are called %.40q: rename one", name)
}

// Listed spells names in a message: quoted, and only the first if there are many; none for an empty list.
func Listed(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "none"
	}
	quoted := make([]string, min(most, len(names)))
	for k := range quoted {
		quoted[k] = fmt.Sprintf("%.60q", names[k])
	}
	if len(names) > most {
		quoted = append(quoted, "…")
	}
	return strings.Join(quoted, ", ")
}

// deflateRatio is the most that deflate expands: 258 bytes from two bits.
const deflateRatio = 1032

// Count returns how many rows the array of an existing key has. They take bytes of the file: no more than its
// compressed bytes can expand to.
func (a *Archive) Count(key string) (int, error) {
	entry, err := a.Open(key)
	if err != nil {
		return 0, a.Refuse(key, err)
	}
	defer entry.Close()
	b, err := npy.NewBlocks(entry, entry.Size)
	if err != nil {
		return 0, a.Refuse(key, err)
	}
	n, err := CountRows(b.Header)
	return n, a.Refuse(key, err)
}

// Entry is the open entry of an array, its .npy file.
type Entry struct {
	io.ReadCloser
	Size   int64 // in bytes, at most
	Backed bool  // the bytes are there, so that Size is no mere claim
}

// Open opens the entry of an existing key. The size that an entry of a .npz file claims is bounded by what
// its compressed bytes can expand to, and those by the size of the file. Errors do not name the array.
func (a *Archive) Open(key string) (*Entry, error) { return a.entries[a.Key(key)]() }

// Sum compares the checksum of the entry, once all of it has been read.
func (e *Entry) Sum() error {
	if _, err := e.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Header reads the header of the array of an existing key.
func (a *Archive) Header(key string) (npy.Header, error) {
	r, err := a.Open(key)
	if err != nil {
		return npy.Header{}, a.Refuse(key, err)
	}
	defer r.Close()
	h, err := npy.ReadHeader(r)
	return h, a.Refuse(key, err)
}

// Refuse prefixes an error with the file and the array. nil stays nil.
func (a *Archive) Refuse(key string, err error) error {
	return refusal.In(fmt.Sprintf("%s: array %q", a.Path, a.Key(key)), err)
}
