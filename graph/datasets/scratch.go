package datasets

import (
	"errors"
	"os"
)

// remove deletes a folder in which somebody may still be writing.
func remove(dir string) {
	for range 5 {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

// Writable says why nothing can be created in a folder; nil: it can. It tries, as permissions do not tell
// all.
func Writable(folder string) error {
	made, err := os.MkdirTemp(folder, ".weft-")
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	if err != nil {
		return err
	}
	return os.Remove(made)
}
