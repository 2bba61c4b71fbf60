package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/require"
)

// inFolder makes folders below a new one, each with a file of its own name.
func inFolder(t *testing.T, names ...string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = root.Close() })
	for _, name := range names {
		require.NoError(t,
			errors.Join(root.MkdirAll(name, 0o777),
				root.WriteFile(filepath.Join(name, filepath.Base(name)), nil, 0o666)))
	}
	return root
}

// holds fails unless the folder of that name has the file, alone.
func holds(t *testing.T, root *os.Root, name, file string) {
	t.Helper()
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil || len(entries) != 1 || entries[0].Name() != file {
		t.Errorf("%s has %v, %v, want %q", name, entries, err, file)
	}
}

// A new directory takes the name, and the old one is where Replace says.
func TestReplace(t *testing.T) {
	root := inFolder(t, "hidden/new", "old")
	if old, err := Replace(root, "hidden/new", "old", "hidden/aside"); err != nil || old != "hidden/new" {
		t.Errorf("%q, %v", old, err)
	}
	holds(t, root, "old", "new")
	holds(t, root, "hidden/new", "old")
	_, err := Replace(root, "hidden/new", "none", "hidden/aside")
	assert.NoError(t, err)
	holds(t, root, "none", "old")
}

// Where two names cannot be exchanged, the old directory is renamed first, if there is one. If the new one
// cannot be renamed, it gets its name back.
func TestMoveAside(t *testing.T) {
	root := inFolder(t, "new", "old", "first")
	require.NoError(t, moveAside(root, "first", "none", "aside"))
	holds(t, root, "none", "first")
	require.NoError(t, moveAside(root, "new", "old", "aside"))
	holds(t, root, "old", "new")
	holds(t, root, "aside", "old")
	assert.ErrorIs(t, moveAside(root, "new", "old", "again"), fs.ErrNotExist)
	holds(t, root, "old", "new")
}

// A hidden directory that is locked stays when another process sweeps.
func TestMakeHidden(t *testing.T) {
	root := inFolder(t)
	hidden, dir, lock, err := MakeHidden(root, "name")
	require.NoError(t, err)
	defer dir.Close()
	for _, there := range []bool{true, false} {
		Sweep(root, "name")
		if _, err := root.Lstat(hidden); (err == nil) != there {
			t.Errorf("there %v: %v", there, err)
		}
		_ = lock.Close()
	}
}

// What an image has is replaced in a container, whose file system can move it nowhere.
func TestReplaceOverALowerLayer(t *testing.T) {
	root := inFolder(t, "lower/final", "upper", "work", "merged")
	path := func(name string) string { return filepath.Join(root.Name(), name) }
	layers := "lowerdir=" + path("lower") + ",upperdir=" + path("upper") + ",workdir=" + path("work")
	if err := unix.Mount("overlay", path("merged"), "overlay", 0, layers); err != nil {
		t.Skipf("no file system of layers can be mounted: %v", err)
	}
	defer func() {
		assert.NoError(t, unix.Unmount(path("merged"), 0))
	}()
	merged, err := os.OpenRoot(path("merged"))
	require.NoError(t, err)
	defer merged.Close()
	require.NoError(t, errors.Join(merged.Mkdir("fresh", 0o777), merged.WriteFile("fresh/two", nil, 0o666)))
	_, err = Replace(merged, "fresh", "final", "old")
	require.NoError(t, err)
	left, _ := filepath.Glob(path("merged/final/*"))
	assert.Equal(t, []string{path("merged/final/two")}, left, "left")
}

// TestThere: whatever gives a name brings the folder of the name to disk afterwards. Where that fails the
// error says that the new one is there. Where a file itself cannot be brought to disk, the old one stays.
func TestThere(t *testing.T) {
	fails := errors.New("the disk is gone")
	defer func() { Fsync = (*os.File).Sync }()
	for name, act := range map[string]func(root *os.Root) error{
		"write": func(root *os.Root) error {
			return Write(filepath.Join(root.Name(), "old"), text("new"))
		},
		"write in": func(root *os.Root) error { return WriteIn(root, "old", text("new")) },
		"rename":   func(root *os.Root) error { return Rename(root, "new", "old") },
		"exchange": func(root *os.Root) error { return Exchange(root, "new", "old") },
		"replace":  func(root *os.Root) error { _, err := Replace(root, "new", "old", "aside"); return err },
		"aside":    func(root *os.Root) error { return moveAside(root, "new", "old", "aside") },
	} {
		for _, broken := range []string{"", "folder", "file"} {
			root, folders := inFolder(t), 0
			require.NoError(t, errors.Join(root.WriteFile("old", []byte("old"), 0o666),
				root.WriteFile("new", []byte("new"), 0o666)))
			Fsync = func(f *os.File) error {
				info, err := f.Stat()
				require.NoError(t, err)
				if info.IsDir() {
					folders++
				}
				if broken == "folder" && info.IsDir() || broken == "file" && !info.IsDir() {
					return fails
				}
				return nil
			}
			err, want := act(root), "new"
			switch writes := name == "write" || name == "write in"; {
			case broken == "folder":
				if !errors.Is(err, fails) || !IsThere(err) {
					t.Errorf("%s: %v", name, err)
				}
			case broken == "file" && writes:
				want = "old"
				if !errors.Is(err, fails) || IsThere(err) {
					t.Errorf("%s: %v", name, err)
				}
			default:
				assert.NoError(t, err, name)
			}
			if got, err := root.ReadFile("old"); string(got) != want || (folders > 0) != (want == "new") {
				t.Errorf("%s, broken %q: %q, %v, want %q; the folder was brought to disk %d times", name, broken,
					got, err, want, folders)
			}
		}
	}
}
