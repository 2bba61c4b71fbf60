package checkpoint

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestContinueFrom: of what a killed run leaves, the last two checkpoints up to the epoch stay.
func TestContinueFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	folder, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for _, left := range []string{name(1), name(2), name(4), name(5), unfinished(3), unfinished(6)} {
		if err := os.Mkdir(filepath.Join(path, left), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		epoch int
		want  []int
	}{{5, []int{5, 4}}, {4, []int{4}}, {0, nil}} {
		if err := folder.ContinueFrom(c.epoch); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Epochs(path); err != nil || !slices.Equal(got, c.want) || len(entries) != len(got) {
			t.Errorf("after epoch %d: %d of %d entries, want %d", c.epoch, got, len(entries), c.want)
		}
	}
}
