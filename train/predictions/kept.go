package predictions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weft/comm"
	"weft/internal/atomicfile"
	"weft/train/worker"
)

// Kept are rows in a file on disk that has no name, so that nothing is left of it however the program ends.
type Kept struct {
	file    *os.File
	dir     string
	columns int
	rows    int   // how many rows have passed by
	err     error // the first one
}

// Keep creates the file in the folder of a path. For a pipe or a device it takes the folder for temporary
// files.
func Keep(path string) (*Kept, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(path); path == "" || err == nil && !info.Mode().IsRegular() {
		dir = os.TempDir()
	}
	file, err := atomicfile.Unnamed(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Kept{file: file, dir: dir}, nil
}

// Close gives the disk's room back.
func (k *Kept) Close() error { return k.file.Close() }

// Watch returns the rows. It keeps them as they pass by. Err tells whether that worked.
func (k *Kept) Watch(rows worker.Rows) worker.Rows {
	each := rows.Each
	k.columns = rows.Columns
	rows.Each = func(yield func([]float32) bool) {
		at := 0
		for batch := range each {
			k.write(at, batch)
			if k.err != nil || !yield(batch) {
				return
			}
			at += len(batch) / rows.Columns
			k.rows = at
		}
	}
	return rows
}

// Err is the first error of the disk.
func (k *Kept) Err() error { return k.err }

// write writes rows from a number on.
func (k *Kept) write(at int, rows []float32) {
	if k.err == nil && len(rows) > 0 {
		_, err := k.file.WriteAt(comm.Bytes(rows), k.offset(at))
		k.fail("written", len(rows), err)
	}
}

// read reads a row.
func (k *Kept) read(at int, into []float32) error {
	if k.err == nil && len(into) > 0 {
		_, err := k.file.ReadAt(comm.Bytes(into), k.offset(at))
		k.fail("read", len(into), err)
	}
	return k.err
}

func (k *Kept) offset(row int) int64 { return 4 * int64(row) * int64(k.columns) }

// fail notes an error after so many numbers, without the name that the file does not have.
func (k *Kept) fail(done string, numbers int, err error) {
	if err == nil {
		return
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	k.err = fmt.Errorf("%s: %d bytes are not %s: %w; free some room there, or name a file elsewhere",
		k.dir, 4*numbers, done, err)
}
