package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/internal/require"
)

// TestCommentLines: a line of a comment has at most 110 columns, a tab taking four.
func TestCommentLines(t *testing.T) {
	const columns = 110
	root := filepath.Join("..", "..")
	list := exec.Command("git", "ls-files", "*.go")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	for path := range strings.FieldsSeq(string(files)) {
		if strings.HasPrefix(path, "kernel/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")
			if n := utf8.RuneCountInString(line); n > columns && strings.HasPrefix(strings.TrimSpace(line), "//") {
				t.Errorf("%s:%d: a comment of %d columns", path, number, n)
			}
		}
	}
}
