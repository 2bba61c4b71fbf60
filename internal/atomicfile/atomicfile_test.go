package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"weft/internal/assert"
	"weft/internal/require"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		require.NoError(t, err, "the file holds %q", got)
		assert.Equal(t, want, string(got), "the file holds %q", got)
		entries, _ := os.ReadDir(dir)
		assert.Len(t, entries, 1, "left behind")
	}
	for _, text := range []string{"first", "second"} {
		require.NoError(t, Write(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}))
		holds(text)
	}
	fails := errors.New("half way")
	err := Write(path, func(w io.Writer) error { _, _ = io.WriteString(w, "third"); return fails })
	if !errors.Is(err, fails) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	holds("second")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o400 == 0 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestWriteNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "no", "such")
	assert.ErrorContains(t, Write(path, func(io.Writer) error {
		return nil
	}), path)
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// A link goes on leading to the file, which keeps its permissions.
func TestWriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link)))
	require.NoError(t, Write(link, text("new")))
	if got, err := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	require.NoError(t, errors.Join(os.Remove(file)))
	assert.ErrorContains(t, Write(link, text("new")), "link", "a link to nothing")
}

// What is no file is written to, and never replaced.
func TestWriteIntoAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan string)
	go func() {
		got, _ := os.ReadFile(path)
		read <- string(got)
	}()
	require.NoError(t, Write(path, text("through")))
	assert.Equal(t, "through", <-read, "read")
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v, %v", info, err)
	}
}

// TestWriteIn: a link in the directory is replaced, and what it leads to is left alone.
func TestWriteIn(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	require.NoError(t, errors.Join(os.WriteFile(filepath.Join(dir, "other"), []byte("old"), 0o666),
		os.Symlink("other", filepath.Join(dir, "file"))))
	require.NoError(t, WriteIn(root, "file", text("new")))
	for name, want := range map[string]string{"file": "new", "other": "old"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestErrorsNameTheFile: and not the temporary one, under which it is written.
func TestErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	err := Write(path, func(w io.Writer) error {
		f := w.(*os.File)
		return &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	})
	assert.EqualError(t, err, path+": no space left on device")
}

// TestWriteSweeps: what a process that was killed has left of the file goes with the next write; what another
// process is writing stays.
func TestWriteSweeps(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	left, other, folder := Hidden("file"), Hidden("other"), Hidden("file")
	for _, name := range []string{left, other} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o666))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, folder, "full"), 0o777))
	busy, name, err := create(root, "file")
	require.NoError(t, err)
	defer busy.Close()
	require.NoError(t, Write(filepath.Join(dir, "file"), text("new")))
	for name, stays := range map[string]bool{
		left: false, folder: false, other: true,
		name: true, "file": true,
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v, stays: %v", name, err, stays)
		}
	}
}

// TestLongNames: a name that the file system takes is written, and hidden names tell from each other what
// they are for.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, letter := range []string{"a", "ü", "漢"} {
		for length := 200; length <= 255; length++ {
			name := strings.Repeat(letter, length/len(letter))
			name += strings.Repeat("x", length-len(name))
			hidden := Hidden(name)
			if len(hidden) > 255 || !utf8.ValidString(hidden) || hidden == Hidden(name) ||
				!IsHidden(hidden, name) {
				t.Errorf("%d bytes: %q", length, hidden)
			}
			for _, other := range []string{name[:length-1] + "y", name[1:], name + "x"} {
				if IsHidden(hidden, other) {
					t.Errorf("%q is taken for one of %q", hidden, other)
				}
			}
		}
		name := strings.Repeat(letter, 255/len(letter))
		assert.NoError(t, Write(filepath.Join(dir, name), text("new")))
	}
}
