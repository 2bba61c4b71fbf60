package npy

import "golang.org/x/sys/unix"

// Unload gives the memory back that the mapped pages take in this process. They are read from the file again
// when they are used.
func (m *Mapped) Unload() {
	if m.mapping != nil {
		_ = unix.Madvise(m.mapping, unix.MADV_DONTNEED) // advice: where it fails, the pages stay
	}
}
