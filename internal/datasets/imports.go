package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weft/graph"
)

// importsFolder is below the cache's root: stores of files and folders that were imported on the way to
// another command.
const importsFolder = "imports"

// ImportOf is the place in the cache for the store of a source, by its path, the bytes of its files and when
// they changed last. It is there, or can be made there. Stores of the same path before it changed are
// removed, if they are that and nothing else.
func ImportOf(source string, bytes int64, changed time.Time) (store string, err error) {
	root := CacheRoot()
	if root == "" {
		return "", errors.New("there is no place for a cache (set WEFT_CACHE to a folder)")
	}
	path, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // the files of a prefix have none of their own
		path = real
	}
	key := sha256.Sum256([]byte(path))
	folder := filepath.Join(importsFolder, fmt.Sprintf("%.60s-%x", filepath.Base(path), key[:8]))
	name := fmt.Sprintf("%d-%d", bytes, changed.UnixNano())
	if err := graph.CheckPlace(root, filepath.Join(folder, name)); err != nil {
		return "", err
	}
	folder = filepath.Join(root, folder)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		old := filepath.Join(folder, e.Name())
		if _, made := os.Stat(filepath.Join(old, "graph.json")); made == nil && e.Name() != name && CheckOwn(old) == nil {
			if err := os.RemoveAll(old); err != nil {
				return "", err
			}
		}
	}
	return filepath.Join(folder, name), nil
}
