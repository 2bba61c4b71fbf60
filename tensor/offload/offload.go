// Package offload implements tensor.Disk: it keeps matrices at rest in a file. The file has no name, so that
// nothing is left of it however the program ends. Package train opens it for runs with --offload.
package offload

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/tensor"
)

// File is a tensor.Disk in a folder.
type File struct {
	file *os.File
	dir  string
}

// Open returns a File in a folder. It makes the folder if there is none; the folder above it must exist.
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

// Check refuses a folder that Open could not make or write to. It makes no folder.
func Check(dir string) error {
	f, err := atomicfile.Unnamed(existing(dir))
	if err != nil {
		return refused(dir, err)
	}
	return f.Close()
}

// Free returns the number of bytes that the disk of a folder has left, also before Open makes the folder.
// known is false on a file system that does not tell.
func Free(dir string) (bytes int64, known bool, err error) { return atomicfile.Free(existing(dir)) }

// OnDiskOf reports whether a folder is on the same disk as another, which exists. It works also before Open
// makes the folder.
func OnDiskOf(dir, other string) bool {
	var a, b unix.Stat_t
	return unix.Stat(existing(dir), &a) == nil && unix.Stat(other, &b) == nil && a.Dev == b.Dev
}

// existing returns the folder, or the folder above it if it does not exist.
func existing(dir string) string {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return filepath.Dir(filepath.Clean(dir))
	}
	return dir
}

func refused(dir string, err error) error {
	if _, none := os.Stat(dir); errors.Is(none, fs.ErrNotExist) {
		if _, linked := os.Readlink(dir); linked == nil {
			return refusal.Errorf("--offload %s: is a symbolic link to a folder that does not exist; make "+
				"that folder, or name another", dir)
		}
		return refusal.Errorf("--offload %s: the folder above it does not exist; make that first, or name "+
			"another", dir)
	}
	return refusal.Errorf("--offload %s: %w; name a folder that can be written to", dir, cause(err))
}

// Close gives the space on the disk back.
func (f *File) Close() error { return f.file.Close() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// piece is the number of bytes that are moved before their checksums are computed: so few that a processor's
// cache still holds them.
const piece = 64 * tensor.PageSize

// Write implements tensor.Disk.
func (f *File) Write(pages []byte, offset int64) (sums []uint32, err error) {
	sums = make([]uint32, 0, len(pages)/tensor.PageSize)
	for some := range slices.Chunk(pages, piece) {
		if _, err := f.file.WriteAt(some, offset); err != nil {
			return nil, fmt.Errorf("--offload %s: %d bytes are not written: %w; free some room there, or "+
				"name another folder", f.dir, len(some), cause(err))
		}
		for page := range slices.Chunk(some, tensor.PageSize) {
			sums = append(sums, crc32.Checksum(page, castagnoli))
		}
		offset += int64(len(some))
	}
	return sums, nil
}

// Read implements tensor.Disk.
func (f *File) Read(pages []byte, offset int64, sums []uint32) error {
	for some := range slices.Chunk(pages, piece) {
		if _, err := f.file.ReadAt(some, offset); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("--offload %s: %d bytes are not read: %w; check the disk",
				f.dir, len(some), cause(err))
		}
		for page := range slices.Chunk(some, tensor.PageSize) {
			if crc32.Checksum(page, castagnoli) != sums[0] {
				return fmt.Errorf("--offload %s: %d bytes are not those that were written; check the disk",
					f.dir, len(page))
			}
			sums = sums[1:]
		}
		offset += int64(len(some))
	}
	return nil
}

// cause returns the system's error without a file name, because the file has none.
func cause(err error) error {
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err
	}
	return err
}
