package npz

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/internal/foreign"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// archive is an open .npz file: a zip archive whose entries are .npy files, one per key.
type archive struct {
	path    string
	options Options
	size    int64
	file    *os.File
	entries map[string]*zip.File
}

// maxEntries bounds the entries of an archive. A graph has about ten; NumPy has no limit.
const maxEntries = 1000

func open(path string) (*archive, error) {
	file, size, err := regular.Open(path)
	if err != nil {
		return nil, refusal.Errorf("%w; give a .npz file", err)
	}
	a := &archive{path: path, size: size, file: file, entries: map[string]*zip.File{}}
	if err := a.list(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return a, nil
}

func (a *archive) list() error {
	start := make([]byte, foreign.Head)
	n, _ := a.file.ReadAt(start, 0) // an error comes again
	kind := foreign.Recognize(start[:n])
	zipped := kind == foreign.Archive || kind == foreign.Zip // whose first entry is no array
	if kind != foreign.Unknown && !zipped {
		return kind.Refuse(a.path, "a .npz file, the zip archive of arrays that numpy.savez writes")
	}
	z, err := zip.NewReader(a.file, a.size)
	if err != nil {
		// An archive begins with an entry and has its directory at the end.
		if zipped {
			return refusal.Errorf("%s: the .npz file is damaged or cut short (%w): fetch or save it again", a.path, err)
		}
		return refusal.Errorf("%s: %w; give a .npz file, the zip archive of arrays that numpy.savez writes", a.path, err)
	}
	if len(z.File) > maxEntries {
		return refusal.Errorf("%s: has %d entries, which is no graph: at most %d are read", a.path, len(z.File), maxEntries)
	}
	for _, f := range z.File {
		key, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue
		}
		if a.entries[key] != nil {
			return refusal.Errorf("%s: has two arrays %q; save it again with numpy.savez", a.path, key)
		}
		a.entries[key] = f
	}
	return nil
}

func (a *archive) close() { _ = a.file.Close() }

func (a *archive) has(keys ...string) bool {
	for _, key := range keys {
		if a.entries[key] == nil {
			return false
		}
	}
	return true
}

// only refuses arrays beside the known ones, which would be lost without a word.
func (a *archive) only(known ...string) error {
	for _, key := range slices.Sorted(maps.Keys(a.entries)) {
		if !slices.Contains(known, key) {
			return refusal.Errorf("%s: array %.40q is not read beside %q: leave it out; known are %s", a.path, key, known[0],
				strings.Join(known, ", "))
		}
	}
	return nil
}

// checkObjects refuses an archive that has arrays of Python objects.
func (a *archive) checkObjects() error {
	for _, key := range slices.Sorted(maps.Keys(a.entries)) {
		r, err := a.entries[key].Open()
		if err != nil {
			return a.refuse(key, err)
		}
		_, err = npy.ReadHeader(r)
		_ = r.Close()
		if errors.Is(err, npy.ErrObjects) {
			return a.refuse(key, err)
		}
	}
	return nil
}

// keys lists the keys, sorted, the first of them where there are many.
func (a *archive) keys() string {
	const most = 20
	var keys []string
	for key := range a.entries {
		keys = append(keys, fmt.Sprintf("%.40q", key))
	}
	slices.Sort(keys)
	if len(keys) > most {
		keys = append(keys[:most], "…")
	}
	if len(keys) == 0 {
		return "none"
	}
	return strings.Join(keys, ", ")
}

// deflateRatio is the most that deflate expands: 258 bytes from two bits.
const deflateRatio = 1032

// array reads the array of a key that exists. The size that the entry claims is capped by what its compressed
// bytes can expand to, and those by the size of the file; the memory grows with the bytes that come.
func (a *archive) array(key string) (array *npy.Array, err error) {
	err = a.read(key, func(r io.Reader, size int64) (err error) {
		array, err = npy.Read(r, size)
		return err
	})
	return array, err
}

// matrix reads features from the array of a key that exists.
func (a *archive) matrix(key string, keepDense bool) (m *arrays.Matrix, err error) {
	err = a.read(key, func(r io.Reader, size int64) (err error) {
		m, err = arrays.ReadMatrix(r, size, false, keepDense)
		return err
	})
	return m, err
}

// read calls f with the entry of a key that exists.
func (a *archive) read(key string, f func(r io.Reader, size int64) error) error {
	entry := a.entries[key]
	compressed := min(entry.CompressedSize64, uint64(a.size))
	r, err := entry.Open()
	if err != nil {
		return a.refuse(key, err)
	}
	defer r.Close()
	if err := f(r, int64(min(entry.UncompressedSize64, compressed*deflateRatio))); err != nil {
		return a.refuse(key, err)
	}
	// The checksum is compared at the end of the entry.
	if _, err := r.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return a.refuse(key, err)
	}
	return nil
}

// refuse puts the file and the array before an error.
func (a *archive) refuse(key string, err error) error {
	return refusal.Errorf("%s: array %q: %w", a.path, key, err)
}
