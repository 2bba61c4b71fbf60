// Package realdata leads tests to the published graphs on this machine. The graphs are not in the repository:
// a test that needs a missing one skips.
package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Folder returns the folder of the published graphs: WEFT_TEST_DATA of the environment, else ../shared/data
// beside the repository.
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

// File returns the path of a file below the folder.
func File(t testing.TB, elements ...string) string {
	t.Helper()
	path := filepath.Join(Folder(t), filepath.Join(elements...))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("a published graph is not here: %v", err)
	}
	return path
}

// repository returns the folder of go.mod, above the folder where the test runs.
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
