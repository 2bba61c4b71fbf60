package npy

import "golang.org/x/sys/unix"

// Unload gives back the memory of the mapped pages in this process. The system reads a page from the file
// again when it is used.
func (m *Mapped) Unload() {
	if m.mapping != nil {
		_ = unix.Madvise(m.mapping, unix.MADV_DONTNEED) // advice: where it fails, the pages stay
	}
}
