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

	"golang.org/x/sys/unix"

	"weft/internal/refusal"
)

// File is a tensor.Disk in a folder.
type File struct {
	file *os.File
	dir  string
}

// Open returns a File in a folder, which it makes if there is none.
func Open(dir string) (*File, error) {
	offload := refusal.Setting("offload")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, refusal.Errorf("%s %s: %w; name a folder that can be written to", offload, dir, cause(err))
	}
	f, err := unnamed(dir)
	if err != nil {
		return nil, refusal.Errorf("%s %s: %w; name a folder that can be written to", offload, dir, cause(err))
	}
	return &File{file: f, dir: dir}, nil
}

// unnamed opens a file without a name.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	f, err = os.CreateTemp(dir, "weft-*") // of a file system without such files
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// Close gives the disk's room back.
func (f *File) Close() error { return f.file.Close() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements tensor.Disk.
func (f *File) Write(data []byte, offset int64) (sum uint32, err error) {
	if _, err := f.file.WriteAt(data, offset); err != nil {
		return 0, fmt.Errorf("%s %s: %d bytes are not written: %w; free some room there, or name another folder",
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
		return fmt.Errorf("%s %s: %d bytes are not read: %w; is the disk in order?", refusal.Setting("offload"), f.dir, len(into), cause(err))
	}
	if crc32.Checksum(into, castagnoli) != sum {
		return fmt.Errorf("%s %s: %d bytes are not those that were written: is the disk in order?", refusal.Setting("offload"), f.dir, len(into))
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
