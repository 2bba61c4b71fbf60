package datasets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/graph/generate"
)

// TestImportOf: a source has one place as long as its path, size and time are the same. A store of it from
// before is removed, and what is no store stays. Nothing is made over a symbolic link.
func TestImportOf(t *testing.T) {
	cache, now := t.TempDir(), time.Now()
	t.Setenv("WEFT_CACHE", cache)
	source := filepath.Join(t.TempDir(), "graph.pt")
	place := func(bytes int64, changed time.Time) string {
		t.Helper()
		path, err := ImportOf(source, bytes, changed)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := place(7, now)
	if first != place(7, now) || !strings.HasPrefix(first, filepath.Join(cache, "imports", "graph.pt-")) {
		t.Errorf("places %s and %s", first, place(7, now))
	}
	if other, err := ImportOf(source+"2", 7, now); err != nil || filepath.Dir(other) == filepath.Dir(first) {
		t.Errorf("another source has %s, %v", other, err)
	}
	g, err := generate.Graph(generate.Options{Kind: generate.SBM, Vertices: 20, Degree: 2, Features: 2, Classes: 2})
	if err == nil {
		err = g.Write(first)
	}
	kept := filepath.Join(filepath.Dir(first), "notes")
	if err == nil {
		err = os.Mkdir(kept, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	second := place(7, now.Add(1))
	if _, err := os.Stat(first); second == first || err == nil {
		t.Errorf("the store of before is there: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(cache, "imports")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(cache, "imports")); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportOf(source, 7, now); err == nil || !strings.Contains(err.Error(), "a symbolic link") {
		t.Errorf("over a link: %v", err)
	}
}
