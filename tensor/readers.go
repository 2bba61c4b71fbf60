package tensor

import (
	"cmp"
	"sync"

	"weft/internal/cores"
)

// As many goroutines as there are cores read a matrix. A page that the system has in memory costs a core as
// much as a kernel does, and a disk serves several requests at a time.

// inParts calls read for about equal parts of 0…n−1, at the same time. It returns an error of a call that
// failed.
func inParts(n int, read func(from, to int) error) (err error) {
	var mu sync.Mutex
	cores.Divide(n, func(from, to int) {
		if failed := read(from, to); failed != nil {
			mu.Lock()
			defer mu.Unlock()
			err = cmp.Or(err, failed)
		}
	})
	return err
}

// leastParted is the least number of bytes that are read in parts.
const leastParted = 1 << 20

// readPages reads all pages of a matrix at rest.
func (d *onDisk) readPages(pages []byte, r *rest) error {
	if len(pages) < leastParted {
		return d.disk.Read(pages, r.offset, r.sums)
	}
	return inParts(len(pages)/PageSize, func(from, to int) error {
		lo, hi := from*PageSize, to*PageSize
		return d.disk.Read(pages[lo:hi], r.offset+int64(lo), r.sums[from:to])
	})
}

// scratch returns memory for so many bytes that are read and not kept. done takes it back.
func (d *onDisk) scratch(bytes int) (memory []byte, done func()) {
	kept, _ := d.scratches.Get().(*[]byte)
	if kept == nil || len(*kept) < bytes {
		kept = new([]byte)
		*kept = make([]byte, bytes)
	}
	return *kept, func() { d.scratches.Put(kept) }
}
