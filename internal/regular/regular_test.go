package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	for path, want := range map[string]string{
		dir: "is a directory", pipe: "is a named pipe",
		os.DevNull: "is a device",
	} {
		_, err := ReadFile(path)
		assert.Refused(t, err, path+": "+want, path)
	}
	if _, err := ReadFile(filepath.Join(dir, "missing")); !refusal.Is(err) ||
		!errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: error %v", err)
	}
	if text, err := ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}

// A file that exceeds the memory is refused before it is read.
func TestReadFileWithoutMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o666))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	if content, err := ReadFile(path); err != nil || string(content) != "content" {
		t.Fatalf("%q, error %v", content, err)
	}
	require.NoError(t, os.Truncate(path, 1<<30)) // the rest takes no room on the disk
	_, err := ReadFile(path)
	assert.RefusedFor(t, err, path+": needs 1.1 GB", "")
}

// A file is opened within a folder over no link that leads out of it.
func TestWithinAFolder(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "folder")
	require.NoError(t, errors.Join(os.Mkdir(dir, 0o700),
		os.WriteFile(filepath.Join(parent, "outside"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600),
		os.Symlink("file", filepath.Join(dir, "within")),
		os.Symlink("../outside", filepath.Join(dir, "out")),
		os.Symlink("nowhere", filepath.Join(dir, "dangling")), os.Mkdir(filepath.Join(dir, "sub"), 0o700),
	))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, name := range []string{"file", "within"} {
		f, size, err := OpenIn(root, name)
		require.NoError(t, err)
		require.Equal(t, int64(len("text")), size, name)
		assert.NoError(t, f.Close())
	}
	for name, want := range map[string]string{
		"out":      "a link leads out of the folder " + dir,
		"dangling": "no such file", "missing": "no such file", "sub": "is a directory",
	} {
		_, _, err := OpenIn(root, name)
		assert.RefusedFor(t, err, filepath.Join(dir, name)+": "+want, "", "%s, want %q", name, want)
	}
}

// TestTooManyFiles: where this process may open no more files, the file is not at fault, and no way out is
// given that would remove or replace it.
func TestTooManyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	for _, number := range []error{unix.EMFILE, unix.ENFILE} {
		none := func(string) (*os.File, error) {
			return nil, &os.PathError{Op: "open", Path: path, Err: number}
		}
		_, _, err := open(path, path, os.Stat, none)
		if want := path + ": " + number.Error() + "; allow this process more (ulimit -n)"; err == nil ||
			err.Error() != want || !errors.Is(err, number) {
			t.Errorf("%v, want %s", err, want)
		}
		if advised := refusal.Advise(err, "remove it"); refusal.Is(err) || advised.Error() != err.Error() {
			t.Errorf("%v is a refusal, or advised to be %v", err, advised)
		}
	}
	_, _, err := Open(path + "2")
	assert.EqualRefusal(t, refusal.Advise(err, "fetch it"), err.Error()+"; fetch it",
		"a file that is not there")
}
