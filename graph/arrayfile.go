package graph

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"

	"weft/internal/npy"
)

// save writes an array.
func save[T element](s *Folder, file string, elements []T, shape ...int) {
	a := newArray[T](s, file, shape...)
	put(a, elements)
	a.close()
}

// arrayFile is an array of a store that is being written. Its errors go to the folder.
type arrayFile struct {
	s       *Folder
	name    string // in the folder's directory
	f       *os.File
	hash    hash.Hash // of what has been written
	b       *bufio.Writer
	w       *npy.Writer
	growing bool // the first size of its shape is npy.Growing
}

// newArray begins an array. After an error it returns nil, whose methods do nothing.
func newArray[T element](s *Folder, file string, shape ...int) *arrayFile {
	if s.err != nil {
		return nil
	}
	var f *os.File
	if f, s.err = s.create(file); s.err != nil {
		return nil
	}
	a := &arrayFile{
		s: s, name: filepath.Join(s.sub, file), f: f, hash: sha256.New(),
		growing: shape[0] == npy.Growing,
	}
	a.b = bufio.NewWriterSize(&summed{f: f, hash: a.hash, tell: s.tell}, bufferFor(shape))
	s.open = append(s.open, a)
	a.w, s.err = npy.NewWriter(a.b, npy.Descr[T](), shape...)
	s.sent -= int64(a.b.Buffered()) // the header does not count in s.all
	return a
}

// bufferFor is how many bytes of an array are written at a time. A small array takes few, as a graph of many
// relations has thousands of arrays.
func bufferFor(shape []int) int {
	const most, header = 1 << 20, 1 << 10
	bytes := 8
	for _, n := range shape {
		if n < 0 || n > most/bytes { // npy.Growing stands for any number
			return most
		}
		bytes *= max(n, 1)
	}
	return min(most, bytes+header)
}

// put appends elements to an array.
func put[T element](a *arrayFile, elements []T) {
	if a == nil || a.s.err != nil {
		return
	}
	if err := npy.Write(a.w, elements); err != nil {
		a.s.err = fmt.Errorf("%s: %w", filepath.Base(a.name), err)
	}
}

// tell reports that so many more bytes of arrays have been written.
func (s *Folder) tell(bytes int) {
	s.sent += int64(bytes)
	done := s.sent
	if s.all > 0 { // s.all does not count splits
		done = min(done, s.all)
	}
	s.progress.Report("writing", done, s.all)
}

// close checks that the array is complete. It is on disk after Folder.completed.
func (a *arrayFile) close() {
	if a == nil || a.s.err != nil {
		return
	}
	a.s.open = slices.DeleteFunc(a.s.open, func(b *arrayFile) bool { return a == b })
	if err := errors.Join(a.w.Close(), a.b.Flush(), a.announce()); err != nil {
		a.s.err = fmt.Errorf("%s: %w", filepath.Base(a.name), errors.Join(err, a.f.Close()))
		return
	}
	a.s.completed()
	done := make(chan error, 1)
	a.s.completing = done
	go func() {
		err := a.s.complete(a.name, a.f, a.sum())
		if err != nil {
			err = fmt.Errorf("%s: %w", filepath.Base(a.name), err)
		}
		done <- err
	}()
}

// sum returns the checksum of the file. It is nil for a growing array, whose header has changed.
func (a *arrayFile) sum() []byte {
	if a.growing {
		return nil
	}
	return a.hash.Sum(nil)
}

// announce writes the final header of a growing array, whose number of rows is known only now.
func (a *arrayFile) announce() error {
	if !a.growing {
		return nil
	}
	header, err := a.w.FinalHeader()
	if err == nil {
		_, err = a.f.WriteAt(header, 0)
	}
	return err
}
