package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/internal/require"
)

// longLiteral is a literal that a line may hold whole, however long the line is.
var longLiteral = regexp.MustCompile("^([^/\"`]|\"(\\\\.|[^\"\\\\])*\"|`[^`]*`)*?(\"(\\\\.|[^\"\\\\]){30,}\"|`[^`]{30,}`)")

// TestLines: a line of Go has at most 110 columns, a tab taking four, but for long literals.
func TestLines(t *testing.T) {
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
		number, raw := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			within := raw
			raw = raw != (strings.Count(line, "`")%2 == 1)
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")
			literal := within || raw || longLiteral.MatchString(line) || strings.Contains(line, "//nolint")
			if n := utf8.RuneCountInString(line); n > columns && !literal {
				t.Errorf("%s:%d: a line of %d columns", path, number, n)
			}
		}
	}
}
