package machine

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"weft/internal/atomicfile"
	"weft/internal/document"
)

// Cache keeps measurements, each in a file of its own.
type Cache struct {
	Folder string // for one program on one machine; "": nothing is kept
	// Warn is called with the reason why a measurement of the folder is made again, or is not kept. It may be
	// nil.
	Warn func(why error)
}

// mostBytes bounds the size of a file.
const mostBytes = 1 << 20

// Kept returns the measurement that was kept under a key. The key has everything that it depends on besides
// the program and the machine. If there is none, or if it is not possible, Kept measures and keeps the
// result.
func Kept[T any](c Cache, key []byte, possible func(T) bool, measure func() (T, error),
) (value T, unkept, err error) {
	if c.Folder == "" {
		value, err = measure()
		return value, nil, err
	}
	path := filepath.Join(c.Folder, fmt.Sprintf("%x.json", sha256.Sum256(key)))
	text, err := document.Read(path, mostBytes)
	if err == nil {
		if json.Unmarshal(text, &value) == nil && possible(value) {
			return value, nil, nil
		}
		err = fmt.Errorf("%s: damaged", path)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) { // keep will say why
		c.warn(fmt.Errorf("%w; they are measured again, and the file is replaced", err))
	}
	if value, err = measure(); err != nil {
		return value, nil, err
	}
	unkept = keep(path, value)
	if unkept != nil {
		c.warn(fmt.Errorf("not kept: %w", unkept))
	}
	return value, unkept, nil
}

func (c Cache) warn(why error) {
	if c.Warn != nil {
		c.Warn(why)
	}
}

func keep(path string, value any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(value) })
}
