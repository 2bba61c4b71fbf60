package npy

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"weft/internal/refusal"
	"weft/internal/regular"
)

// Mapped is an array whose data stays in its file, mapped read-only. Float32s, Int64s and Int32s are views of
// the file if it has exactly that little-endian type, else converted copies.
//
// A file that is cut after it was mapped makes a later access fault. Read it under debug.SetPanicOnFault.
type Mapped struct {
	Array
	Path    string      // as given to Map
	Info    os.FileInfo // the file's, when it was mapped
	mapping []byte
}

// Map maps the file of that name. The header must account for every byte of the file. Errors name the file.
func Map(path string) (*Mapped, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the mapping outlives the descriptor
	// The header is read, not mapped: a cut file is then an error and not a fault.
	h, length, err := readHeader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	need, err := h.bytes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	have := size - length
	if need > have {
		return nil, fmt.Errorf("%s: %w", path, short(h, need, have))
	}
	if need < have {
		return nil, refusal.Damaged("%s: %d bytes follow the data", path, have-need)
	}
	if size > math.MaxInt {
		return nil, refusal.Errorf("%s: too large to map on this machine", path)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	mapping, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: mapping it: %w", path, err)
	}
	return &Mapped{Array{Header: h, data: mapping[length:]}, path, info, mapping}, nil
}

// Close removes the mapping. Views of it must not be used afterwards.
func (m *Mapped) Close() error {
	if m.mapping == nil {
		return nil
	}
	mapping := m.mapping
	m.mapping, m.data = nil, nil
	return unix.Munmap(mapping)
}
