package offload

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestFile: pages that were written are read back, and the folder stays empty. Its path may end in a slash.
func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new") + "/"
	f, err := Open(dir)
	require.NoError(t, err)
	a, b := bytes.Repeat([]byte{1}, 8192), bytes.Repeat([]byte{2}, 8192)
	var sums [][]uint32
	for i, data := range [][]byte{a, b} {
		sum, err := f.Write(data, int64(i)*8192)
		require.NoError(t, err)
		sums = append(sums, sum)
	}
	into := make([]byte, 8192)
	for i, want := range [][]byte{a, b} {
		if err := f.Read(into, int64(i)*8192, sums[i]); err != nil || !bytes.Equal(into, want) {
			t.Errorf("%d: %v, %v…", i, err, into[:4])
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	assert.NoError(t, f.Close())
}

// TestDamaged: bytes that have changed on the disk, or are missing, are refused.
func TestDamaged(t *testing.T) {
	f, err := Open(t.TempDir())
	require.NoError(t, err)
	sums, err := f.Write(make([]byte, 4096), 0)
	require.NoError(t, err)
	for what, damage := range map[string]func() error{
		"are not those that were written": func() error {
			_, err := f.file.WriteAt([]byte{1}, 77)
			return err
		},
		"unexpected EOF": func() error { return f.file.Truncate(100) },
	} {
		require.NoError(t, damage())
		err := f.Read(make([]byte, 4096), 0, sums)
		if err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), f.dir) {
			t.Errorf("%v, want %q and the folder", err, what)
		}
		require.NoError(t, f.file.Truncate(0))
		if _, err := f.file.WriteAt(make([]byte, 4096), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFull: a full disk is one line that names the folder and the way out.
func TestFull(t *testing.T) {
	fulldisk.Run(t, func(full func(uint64, func())) {
		f, err := Open(t.TempDir())
		require.NoError(t, err)
		full(4096, func() {
			_, err = f.Write(make([]byte, 8192), 0)
		})
		if err == nil || !strings.Contains(err.Error(), f.dir) ||
			!strings.Contains(err.Error(), "free some room") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
	})
}

// TestNoFolder: a path that is no folder, and a folder that must not be written to, are refused.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	paths := []string{file, filepath.Join(file, "below")}
	if unix.Access("/proc/1", unix.R_OK) == nil {
		paths = append(paths, "/proc/1")
	}
	for _, path := range paths {
		if _, err := Open(path); err == nil || strings.Count(err.Error(), path) != 1 ||
			!strings.Contains(err.Error(), "name a folder") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestCheck: Check finds out whether Open could make a folder, and makes none.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, within := range []string{
		dir, filepath.Join(dir, "a"), filepath.Join(dir, "a") + "/",
		filepath.Join(dir, "a") + "/./",
	} {
		assert.NoError(t, Check(within))
		if _, known, err := Free(within); !known || err != nil {
			t.Errorf("room of %s: %v, %v", within, known, err)
		}
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	for _, path := range []string{file, filepath.Join(file, "in")} {
		if err := Check(path); !refusal.Is(err) {
			t.Errorf("%s: %v, want a refusal", path, err)
		}
	}
}

// TestMissingFolders: a folder whose parent does not exist, and a symbolic link that leads nowhere, are
// refused in a line that says so, and nothing is made.
func TestMissingFolders(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("nowhere", link))
	for path, want := range map[string]string{
		filepath.Join(dir, "a", "b"): "the folder above it does not exist",
		link:                         "is a symbolic link to a folder that does not exist",
	} {
		_, opened := Open(path)
		for _, err := range []error{Check(path), opened} {
			if !refusal.Is(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestNoFiles: the refusal of a folder that takes no files, such as /proc, does not say that it is missing.
func TestNoFiles(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("no /proc")
	}
	if err := Check("/proc"); err == nil || strings.Contains(err.Error(), "above it") ||
		!strings.Contains(err.Error(), "can be written to") {
		t.Error(err)
	}
}
