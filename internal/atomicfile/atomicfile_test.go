package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("the file holds %q, %v, want %q", got, err, want)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Errorf("left behind: %v", entries)
		}
	}
	for _, text := range []string{"first", "second"} {
		if err := Write(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
			t.Fatal(err)
		}
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
	if err := Write(path, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// A link goes on leading to the file, which keeps its permissions.
func TestWriteThroughALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, text("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, text("new")); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a link to nothing: %v", err)
	}
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
	if err := Write(path, text("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("read %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is gone: %v, %v", info, err)
	}
}
