package edgesort

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"weft/internal/memory"
)

// batches hold batches of edges, as words of 32 bits. The first batches are in memory outside Go's heap,
// because on the heap they would let as much garbage pile up. The others are in a file.
type batches struct {
	kept []byte // as many bytes as were asked for, or none
	file *os.File
	end  int64 // where the next batch goes: into kept, or behind its length into the file
}

// Kept is how many bytes of edges should wait in memory, if so many sorters have edges at a time.
func Kept(sorters int) int64 {
	const most, share = 1 << 30, 16
	return min(most, memory.Left()/share) / int64(sorters)
}

func newBatches(file *os.File, most int64) *batches {
	b := &batches{file: file}
	if most > 0 {
		// If the system gives no memory, all goes to the file.
		b.kept, _ = unix.Mmap(-1, 0, int(most), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	}
	return b
}

func (b *batches) close() {
	if b.kept != nil {
		_ = unix.Munmap(b.kept)
		b.kept = nil
	}
}

// write writes a batch, and returns where.
func (b *batches) write(words []uint32) (at int64, err error) {
	data := wordsAsBytes(words)
	if left := int64(len(b.kept)) - b.end; left > 0 && left < int64(len(data)) {
		b.end = int64(len(b.kept)) // what is left is too small for the batch
	}
	at = b.end
	if at < int64(len(b.kept)) {
		copy(b.kept[at:], data)
	} else if _, err := b.file.WriteAt(data, at-int64(len(b.kept))); err != nil {
		return 0, fmt.Errorf("writing edges that wait to be sorted: %w", err)
	}
	b.end += int64(len(data))
	return at, nil
}

// read reads the batch that was written there.
func (b *batches) read(words []uint32, at int64) error {
	data := wordsAsBytes(words)
	if at < int64(len(b.kept)) {
		copy(data, b.kept[at:])
		return nil
	}
	if _, err := b.file.ReadAt(data, at-int64(len(b.kept))); err != nil {
		return fmt.Errorf("reading edges that wait to be sorted: %w", err)
	}
	return nil
}

// wordsAsBytes returns the memory of words as bytes.
func wordsAsBytes(words []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), wordBytes*len(words))
}
