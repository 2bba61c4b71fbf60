package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/realdata"
)

// TestPrefixIsImportedOnce: the store beside the files of a prefix, whose names begin as its own does, is
// none of them, so that it is made once.
func TestPrefixIsImportedOnce(t *testing.T) {
	from, folder := realdata.File(t, "planetoid"), t.TempDir()
	for _, part := range []string{"x", "y", "tx", "ty", "allx", "ally", "graph", "test.index"} {
		content, err := os.ReadFile(filepath.Join(from, "ind.cora."+part))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "ind.cora."+part), content, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	prefix := filepath.Join(folder, "ind.cora")
	for _, said := range []string{"importing it once", ""} {
		r, found := fromSource(prefix)
		if !found || r.format != "planetoid" {
			t.Fatalf("recognized as %+v, %v", r, found)
		}
		var show bytes.Buffer
		store, err := r.imported(&show)
		if err != nil || store != prefix+".weft" {
			t.Fatalf("%s, %v", store, err)
		}
		if first, _, _ := strings.Cut(show.String(), ","); !strings.Contains(first, said) || said == "" && first != "" {
			t.Errorf("said %q, want %q", &show, said)
		}
	}
}
