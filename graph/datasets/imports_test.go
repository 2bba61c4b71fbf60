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

// TestBesideTable: what lies in folders NAME=VALUE is beside the table, whose folder is the topmost that has
// another name.
func TestBesideTable(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "calls", "day=1", "hour=2"), 0o777))
	t.Chdir(filepath.Join(folder, "calls", "day=1"))
	for _, c := range []struct {
		path   string
		folder bool
		want   string
	}{
		{"/a/calls/day=1", true, "/a/calls.day=1"},
		{"/a/calls/day=1/hour=2", true, "/a/calls.day=1.hour=2"},
		{"/a/calls/day=1/hour=2/0.csv", false, "/a/calls.day=1.hour=2.0.csv"},
		{"b/calls/day=1", true, "b/calls.day=1"},
		{"hour=2", true, "../../calls.day=1.hour=2"},
		{"0.csv", false, "../../calls.day=1.0.csv"},
		{"/a/calls", true, "/a/calls"},
		{"/a/calls/=1", true, "/a/calls/=1"},
		{"/a/calls/k=1.csv", false, "/a/calls/k=1.csv"},
		{"/a/day=1/more/0.csv", false, "/a/day=1/more/0.csv"},
		{"/day=1", true, "/day=1"},
	} {
		if c.path == "b/calls/day=1" {
			t.Chdir(folder)
		} else if !filepath.IsAbs(c.path) {
			t.Chdir(filepath.Join(folder, "calls", "day=1"))
		}
		assert.Equal(t, c.want, BesideTable(c.path, c.folder))
	}
}
