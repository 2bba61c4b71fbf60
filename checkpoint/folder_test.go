package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestContinueFrom: after a killed run, the last two checkpoints up to the epoch stay, and everything else
// goes.
func TestContinueFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	folder, err := OpenFolder(path)
	require.NoError(t, err)
	defer folder.Close()
	for _, left := range []string{name(1), name(2), name(4), name(5), unfinished(3), unfinished(6)} {
		require.NoError(t, os.Mkdir(filepath.Join(path, left), 0o777))
	}
	for _, c := range []struct {
		epoch int
		want  []int
	}{{5, []int{5, 4}}, {4, []int{4}}, {0, nil}} {
		require.NoError(t, folder.ContinueFrom(c.epoch))
		entries, err := os.ReadDir(path)
		require.NoError(t, err)
		if got, err := Epochs(path); err != nil || !slices.Equal(got, c.want) || len(entries) != len(got) {
			t.Errorf("after epoch %d: %d of %d entries, want %d", c.epoch, got, len(entries), c.want)
		}
	}
}

// TestNoRoom: a disk that is too full for a checkpoint is refused, in megabytes.
func TestNoRoom(t *testing.T) {
	f, err := OpenFolder(t.TempDir())
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, f.Close())
	}()
	assert.NoError(t, f.CheckRoom(1))
	if err := f.CheckRoom(9e18); err == nil ||
		!strings.Contains(err.Error(), " MB left, and a checkpoint and the results take 9000000000000.0 MB") {
		t.Error(err)
	}
}

// TestFolderIsNoLink: a link or a file in place of the folder is refused, and nothing behind it changes.
func TestFolderIsNoLink(t *testing.T) {
	base := t.TempDir()
	other, file, link := filepath.Join(base, "other"), filepath.Join(base, "file"),
		filepath.Join(base, "link")
	require.NoError(t, os.MkdirAll(filepath.Join(other, name(3)), 0o777))
	require.NoError(t, os.WriteFile(file, nil, 0o666))
	require.NoError(t, os.Symlink(other, link))
	for _, path := range []string{link, file} {
		if _, err := OpenFolder(path); !refusal.Is(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("OpenFolder(%s): %v, want a refusal that names it", path, err)
		}
		if all, err := Epochs(path); !refusal.Is(err) || len(all) > 0 {
			t.Errorf("Epochs(%s): %d, %v, want a refusal", path, all, err)
		}
	}
	if all, err := Epochs(other); err != nil || !slices.Equal(all, []int{3}) {
		t.Errorf("the folder behind the link has %d, %v", all, err)
	}
}

// TestFolderInAnother: if another folder has taken the place of the one above, it is left alone.
func TestFolderInAnother(t *testing.T) {
	base := t.TempDir()
	run, moved := filepath.Join(base, "run"), filepath.Join(base, "moved")
	require.NoError(t, os.Mkdir(run, 0o777))
	above, err := os.OpenRoot(run)
	require.NoError(t, err)
	defer above.Close()
	require.NoError(t, errors.Join(os.Rename(run, moved), os.Mkdir(run, 0o777)))
	folder, err := OpenFolderIn(above, filepath.Join(run, "checkpoints"))
	require.NoError(t, err)
	defer folder.Close()
	if there, err := os.ReadDir(run); err != nil || len(there) > 0 {
		t.Errorf("%v is made in the other folder, %v", there, err)
	}
	if info, err := os.Stat(filepath.Join(moved, "checkpoints")); err != nil || !info.IsDir() {
		t.Errorf("no folder where the first one is now: %v", err)
	}
}

// TestPartsAreOnDisk: a worker's file is on disk when Write returns, so that a machine that fails leaves no
// checkpoint with a part missing.
func TestPartsAreOnDisk(t *testing.T) {
	dir := t.TempDir()
	dirty := func(f *os.File) uint64 {
		t.Helper()
		var pages unix.Cachestat_t
		if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &pages, 0); err != nil {
			t.Skipf("the system does not say which pages are on disk: %v", err) // Linux before 6.5
		}
		return pages.Dirty + pages.Writeback
	}
	written, err := os.Create(filepath.Join(dir, "other"))
	require.NoError(t, err)
	defer written.Close()
	if _, err := written.Write(make([]byte, 1<<16)); err != nil {
		t.Fatal(err)
	}
	before := dirty(written)
	require.NoError(t, written.Sync())
	if after := dirty(written); before == 0 || after > 0 {
		t.Skipf("%s: the file system does not say which pages are on disk: %d are not, and after fsync %d",
			dir, before, after)
	}
	f, err := OpenFolder(filepath.Join(dir, "checkpoints"))
	require.NoError(t, err)
	defer f.Close()
	file, err := f.Write(1, 0, []Array{{Name: "m", Shape: []int{1 << 14}, Floats: make([]float32, 1<<14)}},
		nil)
	require.NoError(t, err)
	part, err := os.Open(filepath.Join(dir, "checkpoints", unfinished(1), file.Name))
	require.NoError(t, err)
	defer part.Close()
	if n := dirty(part); n > 0 {
		t.Errorf("%d pages of the file are not on disk", n)
	}
}
