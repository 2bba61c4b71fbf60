package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"weft/graph"
	"weft/graph/internal/table"
	"weft/internal/cache"
)

// importsFolder is below the cache's root. It has stores of files and folders that were imported on the way
// to another command.
const importsFolder = "imports"

// KeyOf is a short name for words, such as the flags of an import.
func KeyOf(words ...string) string {
	key := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return fmt.Sprintf("%x", key[:8])
}

// keyEnding is the end of a name to which KeyOf was added.
var keyEnding = regexp.MustCompile(`\.[0-9a-f]{16}$`)

// WithoutKey is the base NAME of NAME.KEY, where KEY is one of KeyOf.
func WithoutKey(name string) (base string, keyed bool) {
	at := keyEnding.FindStringIndex(name)
	if at == nil {
		return name, false
	}
	return name[:at[0]], true
}

// BesideTable is the path, of a table's file or folder, to which the name of its store is added. Among
// folders NAME=VALUE, as Hive has them, a store would be read as a part. So the store of TABLE/NAME=VALUE,
// and of what lies in it, is beside TABLE, at TABLE.NAME=VALUE.
func BesideTable(path string, folder bool) string {
	whole, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	all, is := table.Whole(whole, folder)
	if !is || all == filepath.Dir(all) {
		return path
	}
	sibling := all + strings.ReplaceAll(whole[len(all):], string(filepath.Separator), ".")
	if filepath.IsAbs(path) {
		return sibling
	}
	here, err := filepath.Abs(".")
	if err == nil {
		sibling, err = filepath.Rel(here, sibling)
	}
	if err != nil {
		return path
	}
	return sibling
}

// ImportOf is the place in the cache for the store of a source, by its path and the flags of the import. The
// store is there, or can be made there.
func ImportOf(source string, flags ...string) (store string, err error) {
	root := cache.Root()
	if root == "" {
		return "", errors.New("there is no place for a cache (set WEFT_CACHE to a folder)")
	}
	path, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // a prefix of files is no path itself
		path = real
	}
	key := KeyOf(append([]string{path}, flags...)...)
	place := filepath.Join(importsFolder, fmt.Sprintf("%.60s-%s", filepath.Base(path), key), "store")
	if err := graph.CheckPlace(root, place); err != nil {
		return "", err
	}
	store = filepath.Join(root, place)
	return store, os.MkdirAll(filepath.Dir(store), 0o777)
}
