// Package offload keeps matrices in a file while they are not at work (tensor.Disk). The file has no name, so
// that nothing is left of it however the program ends.
package offload

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
)

// File is a tensor.Disk in a folder.
type File struct {
	file *os.File
	dir  string
}

// Open returns a File in a folder, which it makes if there is none. The folder above it must exist.
func Open(dir string) (*File, error) {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, refused(dir, err)
	}
	f, err := atomicfile.Unnamed(dir)
	if err != nil {
		return nil, refused(dir, err)
	}
	return &File{file: f, dir: dir}, nil
}

// Check refuses a folder that Open cannot make or write to. It makes none.
func Check(dir string) error {
	f, err := atomicfile.Unnamed(existing(dir))
	if err != nil {
		return refused(dir, err)
	}
	return f.Close()
}

// Free is the number of bytes that the disk of a folder has left, also before Open makes the folder. known is
// false on a file system that does not say.
func Free(dir string) (bytes int64, known bool, err error) { return atomicfile.Free(existing(dir)) }

// existing is the folder, or the one above it if it does not exist.
func existing(dir string) string {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return filepath.Dir(filepath.Clean(dir))
	}
	return dir
}

func refused(dir string, err error) error {
	if _, none := os.Stat(dir); errors.Is(none, fs.ErrNotExist) {
		if _, linked := os.Readlink(dir); linked == nil {
			return refusal.Errorf("{offload} %s: is a symbolic link to a folder that does not exist; make "+
				"that folder, or name another", dir)
		}
		return refusal.Errorf("{offload} %s: the folder above it does not exist; make that first, or name "+
			"another", dir)
	}
	return refusal.Errorf("{offload} %s: %w; name a folder that can be written to", dir, cause(err))
}

// Close gives the disk's room back.
func (f *File) Close() error { return f.file.Close() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements tensor.Disk.
func (f *File) Write(data []byte, offset int64) (sum uint32, err error) {
	if _, err := f.file.WriteAt(data, offset); err != nil {
		return 0, fmt.Errorf("%s %s: %d bytes are not written: %w; free some room there, or name "+
			"another folder",
			refusal.Setting("offload"), f.dir, len(data), cause(err))
	}
	return crc32.Checksum(data, castagnoli), nil
}

// Read implements tensor.Disk.
func (f *File) Read(into []byte, offset int64, sum uint32) error {
	if _, err := f.file.ReadAt(into, offset); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s %s: %d bytes are not read: %w; check the disk", refusal.Setting("offload"),
			f.dir, len(into), cause(err))
	}
	if crc32.Checksum(into, castagnoli) != sum {
		return fmt.Errorf("%s %s: %d bytes are not those that were written; check the disk",
			refusal.Setting("offload"), f.dir, len(into))
	}
	return nil
}

// cause is the system's error without the name of the file, which it has not.
func cause(err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err
	}
	return err
}
