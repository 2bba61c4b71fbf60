package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportOf: a source has one place, by its path without links. Nothing is made over a symbolic link.
func TestImportOf(t *testing.T) {
	cache, folder := t.TempDir(), t.TempDir()
	t.Setenv("WEFT_CACHE", cache)
	source, link := filepath.Join(folder, "graph.pt"), filepath.Join(folder, "link.pt")
	if err := os.WriteFile(source, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
	place := func(source string) string {
		t.Helper()
		path, err := ImportOf(source)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := place(source)
	if !strings.HasPrefix(first, filepath.Join(cache, "imports", "graph.pt-")) || filepath.Base(first) != "store" {
		t.Errorf("the place %s", first)
	}
	if place(source) != first || place(link) != first || place(source+"2") == first {
		t.Errorf("%s has the places %s, %s by a link, and another source %s", source, place(source), place(link), place(source+"2"))
	}
	if err := os.RemoveAll(filepath.Join(cache, "imports")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(cache, "imports")); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportOf(source); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("over a link: %v", err)
	}
}
