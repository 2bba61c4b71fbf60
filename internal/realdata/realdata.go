// Package realdata leads tests to the published graphs on this machine. The graphs are no part of the
// repository: a test that needs them skips where they are not.
package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Folder is the folder of the published graphs: the one that the environment names by WEFT_TEST_DATA, else
// ../shared/data beside the repository.
func Folder(t testing.TB) string {
	t.Helper()
	folder := os.Getenv("WEFT_TEST_DATA")
	if folder == "" {
		folder = filepath.Join(repository(t), "..", "shared", "data")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the published graphs are not here: %v; name their folder by WEFT_TEST_DATA", err)
	}
	return folder
}

// File is the path of a file below the folder.
func File(t testing.TB, elements ...string) string {
	t.Helper()
	path := filepath.Join(Folder(t), filepath.Join(elements...))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("a published graph is not here: %v", err)
	}
	return path
}

// repository is the folder that holds go.mod, found by walking up from where the test runs.
func repository(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			t.Fatal("no go.mod above the folder that the test runs in")
		}
		folder = parent
	}
}
