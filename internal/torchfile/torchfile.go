// Package torchfile reads what torch.save writes since PyTorch 1.6: a zip archive of a pickle, and of one
// entry for the bytes of each storage. A tensor in the pickle is a window on a storage: an offset, sizes and
// strides. The pickle is read through an allow-list (internal/pickle), so that nothing in it runs. A window
// is checked against its storage, and a storage against the bytes that are there. The readers of PyG and OGB
// call it.
package torchfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"strings"

	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// WayOut says what to do with a file that holds more than tensors.
const WayOut = `docs/formats.md, "pyg: files of PyTorch Geometric", has the lines that save its tensors alone`

// File is an open file of torch.save.
type File struct {
	// Value is the saved value: a value of a pickle in which tensors are *Tensor and *Sparse.
	Value any
	Size  int64 // of the file, in bytes

	path     string
	file     *os.File
	folder   string // of the archive's entries
	big      bool   // numbers have their most significant byte first
	entries  map[string]*zip.File
	storages map[string]*storage // storages that were named, by key
	readable uint64              // bytes of tensors that may still be read
}

// repeats bounds how often the bytes of a file may be read: a short pickle can name the same storage many
// times.
const repeats = 8

// Open reads the pickle of a file. It may make objects of the given classes, besides PyTorch's tensors.
// Tensors are read when they are asked for, until Close. Open refuses a damaged file, and one that names
// other classes.
func Open(path string, classes ...pickle.Class) (*File, error) {
	file, size, err := regular.Open(path)
	if err != nil {
		return nil, refusal.Errorf("%w; give a file of torch.save", err)
	}
	f := &File{
		Size: size, path: path, file: file, entries: map[string]*zip.File{}, storages: map[string]*storage{},
		readable: repeats * uint64(size),
	}
	if err := f.list(size); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.decode(classes); err != nil {
		f.Close()
		return nil, refusal.In(path, err)
	}
	return f, nil
}

// charge counts bytes that are about to be read.
func (f *File) charge(bytes uint64) error {
	if bytes > f.readable {
		return fmt.Errorf("its tensors share storages, and have more than %d times the bytes of the file: "+
			"save clones of them", repeats)
	}
	f.readable -= bytes
	return nil
}

// Close closes the file. Its tensors cannot be read afterwards.
func (f *File) Close() { _ = f.file.Close() }

// list finds the entries, and the folder in which all of them lie.
func (f *File) list(size int64) error {
	kind := foreign.Of(f.file)
	const wanted = "a file of torch.save, a zip archive with a data.pkl"
	if kind != foreign.Torch && kind != foreign.Zip && kind != foreign.Unknown {
		return kind.Refuse(f.path, wanted)
	}
	z, err := zip.NewReader(f.file, size)
	if err != nil {
		if kind == foreign.Unknown {
			return refusal.Errorf("%s: %w; give %s", f.path, err, wanted)
		}
		return refusal.Damaged("%s: the file is damaged or cut short (%w): fetch or save it again", f.path,
			err)
	}
	found := false
	for _, entry := range z.File {
		f.entries[entry.Name] = entry
		if folder, name, ok := strings.Cut(entry.Name, "/"); ok && name == "data.pkl" {
			f.folder, found = folder, true
		}
	}
	if !found {
		return refusal.Errorf("%s: a zip archive without a data.pkl; give %s", f.path, wanted)
	}
	return nil
}

// decode reads the pickle.
func (f *File) decode(classes []pickle.Class) error {
	if f.entries[f.folder+"/byteorder"] != nil { // since PyTorch 2.1
		order, err := f.content("byteorder")
		if err != nil {
			return err
		}
		f.big = string(order) == "big"
	}
	code, err := f.content("data.pkl")
	if err != nil {
		return err
	}
	names := maps.Clone(globals)
	for _, class := range classes {
		names[string(class)] = class
	}
	f.Value, err = pickle.Dialect{Globals: names, Persistent: f.persistent}.Decode(code)
	var unknown pickle.UnknownError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w; %s", err, WayOut)
	}
	return err
}

// content returns the whole content of an entry. Its checksum must hold.
func (f *File) content(name string) ([]byte, error) {
	entry, err := f.bytes(name)
	if err != nil {
		return nil, err
	}
	if err := memory.Need(entry.Size()); err != nil {
		return nil, err
	}
	content := make([]byte, entry.Size())
	if _, err := io.ReadFull(entry, content); err != nil {
		return nil, fmt.Errorf("entry %.80q: %w", name, err)
	}
	return content, nil
}

// bytes returns the bytes of an entry. All must be in the file, and their checksum must hold.
func (f *File) bytes(name string) (*io.SectionReader, error) {
	entry := f.entries[f.folder+"/"+name]
	if entry == nil {
		return nil, fmt.Errorf("has no entry %.80q: fetch or save it again", name)
	}
	// PyTorch compresses nothing: a tensor lies at its place in the file.
	if entry.Method != zip.Store || entry.UncompressedSize64 != entry.CompressedSize64 ||
		entry.UncompressedSize64 > math.MaxInt64 {
		return nil, fmt.Errorf("entry %.80q is compressed, as torch.save leaves none: save it again", name)
	}
	at, err := entry.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("entry %.80q: %w", name, err)
	}
	section := io.NewSectionReader(f.file, at, int64(entry.UncompressedSize64))
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, section)
	if err == nil && n < section.Size() {
		err = refusal.Damaged("%d bytes, of which %d are there: the file is cut short", section.Size(), n)
	}
	if err == nil && sum.Sum32() != entry.CRC32 {
		err = refusal.Damaged("its checksum differs: the file is damaged; fetch or save it again")
	}
	if err != nil {
		return nil, fmt.Errorf("entry %.80q: %w", name, err)
	}
	_, err = section.Seek(0, io.SeekStart)
	return section, err
}
