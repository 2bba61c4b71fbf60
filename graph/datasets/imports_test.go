package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestKeyOf: a key depends on where a word ends, and stays, as stores in caches are found by it.
func TestKeyOf(t *testing.T) {
	assert.Equal(t, "40bb547d936bbd31", KeyOf("a", "bc"))
	if KeyOf("ab", "c") == KeyOf("a", "bc") {
		t.Error("other words have the same key")
	}
}

// TestImportOf: a source has one place, by its path without links. Nothing is made over a symbolic link.
func TestImportOf(t *testing.T) {
	cache, folder := t.TempDir(), t.TempDir()
	t.Setenv("WEFT_CACHE", cache)
	source, link := filepath.Join(folder, "graph.pt"), filepath.Join(folder, "link.pt")
	require.NoError(t, os.WriteFile(source, nil, 0o666))
	require.NoError(t, os.Symlink(source, link))
	place := func(source string) string {
		t.Helper()
		path, err := ImportOf(source)
		require.NoError(t, err)
		return path
	}
	first := place(source)
	if !strings.HasPrefix(first, filepath.Join(cache, "imports", "graph.pt-")) ||
		filepath.Base(first) != "store" {
		t.Errorf("the place %s", first)
	}
	if place(source) != first || place(link) != first || place(source+"2") == first {
		t.Errorf("%s has the places %s, %s by a link, and another source %s", source, place(source),
			place(link), place(source+"2"))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(cache, "imports")))
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(cache, "imports")))
	_, err := ImportOf(source)
	assert.ErrorContains(t, err, "a symbolic link", "over a link")
}
