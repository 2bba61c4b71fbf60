package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"weft/graph"
	"weft/internal/atomicfile"
	"weft/internal/cache"
	"weft/internal/refusal"
)

// PipedFile is the name of the copy of a pipe, in a folder of its own.
const PipedFile = "piped.csv" // a Parquet file is recognized by its bytes

// Piped keeps the bytes of a pipe in a file of the cache, as a table may be read several times. It returns
// the file's path, which is the same for the same bytes. name is the pipe's name. The copy is never there in
// part.
func Piped(pipe io.Reader, name string) (path string, err error) {
	root := cache.Root()
	if root == "" {
		return "", refusal.Errorf("%s: there is no place for a copy of what it gives: set WEFT_CACHE to a folder", name)
	}
	folder := filepath.Join(root, importsFolder)
	if err := graph.CheckPlace(root, importsFolder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	all, err := atomicfile.Unnamed(folder)
	if err != nil {
		return "", fmt.Errorf("%s: a copy of what it gives: %w", name, err)
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(all, sum), pipe)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: a copy of what it gives in %s: %w", name, folder, err)
	case n == 0:
		return "", refusal.Errorf("%s: gives nothing; the command before it may have failed", name)
	}
	if _, err := all.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	place := filepath.Join(importsFolder, fmt.Sprintf("piped-%.16x", sum.Sum(nil)))
	if err := graph.CheckPlace(root, place); err != nil {
		return "", err
	}
	path = filepath.Join(root, place, PipedFile)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return path, atomicfile.Write(path, func(w io.Writer) error {
		_, err := io.Copy(w, all)
		return err
	})
}

// LeavePiped removes a folder of the cache that holds nothing but the copy of a pipe.
func LeavePiped(folder string) error {
	if filepath.Dir(folder) != filepath.Join(cache.Root(), importsFolder) {
		return nil
	}
	rest, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || len(rest) != 1 || rest[0].Name() != PipedFile:
		return err
	}
	return os.RemoveAll(folder)
}
