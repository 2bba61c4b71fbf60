package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
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
