package tensor

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Disk is a store in which matrices rest, in pages of PageSize bytes. Several goroutines may use it at a
// time, for different pages.
type Disk interface {
	// Write writes pages at an offset, and returns the checksum of each.
	Write(pages []byte, offset int64) (sums []uint32, err error)
	// Read reads pages at an offset. It is an error if they do not have these checksums.
	Read(pages []byte, offset int64, sums []uint32) error
}

// DiskFailure is the panic value when the Disk fails during an allocation, or during the use of a matrix.
type DiskFailure struct{ Err error }

func (e DiskFailure) Error() string { return e.Err.Error() }

// Unwrap returns the error of the Disk.
func (e DiskFailure) Unwrap() error { return e.Err }

// onDisk is the tier below memory. When a matrix has left, other matrices get its pages.
type onDisk struct {
	*account
	disk      Disk
	scratches sync.Pool // buffers of scratch
}

func (d *onDisk) write(m *Matrix) (end func() error) {
	return func() (err error) {
		m.rest.sums, err = d.disk.Write(m.memory(), m.rest.offset)
		return err
	}
}

func (d *onDisk) read(m *Matrix) (end func() error) {
	d.supply(m)
	d.trimSpares()
	return func() error {
		if err := unix.Mprotect(m.memory(), unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return err
		}
		adviseHuge(m.data, m.bytes)
		return d.readPages(m.memory(), m.rest)
	}
}

func (d *onDisk) leave(m *Matrix) error {
	err := unix.Mprotect(m.memory(), unix.PROT_NONE)
	if err == nil && !d.addSpare(spare{span{m.data, m.bytes}, m}) {
		err = unix.Madvise(m.memory(), unix.MADV_DONTNEED)
	}
	if err != nil {
		err = fmt.Errorf("memory is not given back: %w", err)
	}
	return err
}

func (d *onDisk) mustHold(m *Matrix) {
	saved := make([]byte, m.bytes)
	if err := d.disk.Read(saved, m.rest.offset, m.rest.sums); err != nil || !bytes.Equal(saved, m.memory()) {
		panic(fmt.Sprintf("tensor: a read-only matrix of %d×%d of %v was changed, or is not read (%v)", m.Rows,
			m.Cols, m.kind, err))
	}
}

func (d *onDisk) copy(m, into *Matrix) error {
	return d.readPages(into.Prefix(1, m.bytes).Bytes(), m.rest)
}

func (d *onDisk) gather(m, into *Matrix, rows []int32) error {
	all := slices.Collect(runs(rows, m.Cols*m.Element.Size()))
	return inParts(len(all), func(from, to int) error { return d.gatherSome(m, into, rows, all[from:to]) })
}

// gatherSome copies the listed rows that begin in these runs of pages.
func (d *onDisk) gatherSome(m, into *Matrix, rows []int32, some []run) error {
	to := into.Bytes()
	row := m.Cols * m.Element.Size()
	buffer, done := d.scratch(max(longestRun, row+2*PageSize))
	defer done()
	for _, r := range some {
		pages := buffer[:r.hi-r.lo]
		err := d.disk.Read(pages, m.rest.offset+int64(r.lo), m.rest.sums[r.lo/PageSize:r.hi/PageSize])
		if err != nil {
			return err
		}
		for k := r.first; k < len(rows) && (int(rows[k])+1)*row <= r.hi; k++ {
			copy(to[k*row:(k+1)*row], pages[int(rows[k])*row-r.lo:])
		}
	}
	return nil
}
