package npz

import (
	"archive/zip"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// archive is an open .npz file: a zip archive whose entries are .npy files, one per key.
type archive struct {
	path    string
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
	z, err := zip.NewReader(a.file, a.size)
	if err != nil {
		// An archive begins with an entry and has its directory at the end.
		var magic [4]byte
		if _, begins := a.file.ReadAt(magic[:], 0); begins == nil && string(magic[:]) == "PK\x03\x04" {
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

// array reads the array of a key that exists. The size that the entry claims is capped by what its compressed bytes can
// expand to, and those by the size of the file; the memory grows with the bytes that come.
func (a *archive) array(key string) (*npy.Array, error) {
	f := a.entries[key]
	compressed := min(f.CompressedSize64, uint64(a.size))
	r, err := f.Open()
	if err != nil {
		return nil, a.refuse(key, err)
	}
	defer r.Close()
	array, err := npy.Read(r, int64(min(f.UncompressedSize64, compressed*deflateRatio)))
	if err != nil {
		return nil, a.refuse(key, err)
	}
	// The checksum is compared at the end of the entry.
	if _, err := r.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return nil, a.refuse(key, err)
	}
	return array, nil
}

// refuse puts the file and the array before an error.
func (a *archive) refuse(key string, err error) error {
	return refusal.Errorf("%s: array %q: %w", a.path, key, err)
}
