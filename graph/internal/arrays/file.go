package arrays

import (
	"bufio"
	"fmt"
	"os"

	"weft/internal/foreign"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// File is an open file of numbers.
type File struct {
	Kind foreign.Kind

	path string
	size int64
	file *os.File
	r    *bufio.Reader
}

// Open opens a file of numbers. It does not check whether it is one.
func Open(path string) (*File, error) {
	file, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, size: size, file: file, r: bufio.NewReader(file)}
	start, _ := f.r.Peek(foreign.Head) // an error comes again
	f.Kind = foreign.Recognize(start)
	return f, nil
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) { return f.r.Read(p) }

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// ReadFile reads the numbers of a file: an array of numpy.save, or text, plain or gzip, with a row to each
// line. Text has at most most rows. Errors name the file.
func ReadFile(path string, most int64) (*npy.Array, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Kind == foreign.Array {
		a, err := npy.Read(f.r, f.size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return a, nil
	}
	return f.text(most).all()
}

// Matrix reads features from an array of numpy.save. Errors name the file.
func (f *File) Matrix(keepDense bool) (*Matrix, error) {
	m, err := ReadMatrix(f.entry(), keepDense)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return m, nil
}

// Features opens features in an array of numpy.save, or reads them from text of at most most rows. Text may
// have a first column of ids, which key resolves. Errors name the file.
func (f *File) Features(most int64, keepDense bool, key *Key) (*Matrix, error) {
	if f.Kind == foreign.Array {
		again := func() (*Entry, error) {
			f, err := Open(f.path)
			if err != nil {
				return nil, err
			}
			return f.entry(), nil
		}
		return OpenMatrix(again, keepDense, func(err error) error {
			return refusal.In(f.path, err)
		})
	}
	t := f.text(most)
	t.key = key
	return t.matrix(keepDense)
}

// entry is the file as the entry of an array.
func (f *File) entry() *Entry { return &Entry{f, f.size, true} }

// text is the file as a table of text of at most so many rows.
func (f *File) text(most int64) *numbers { return &numbers{path: f.path, size: f.size, most: most} }
