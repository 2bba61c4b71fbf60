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

// checkedOut are the files of the checkout that match one of the patterns: those that git tracks, and new
// ones that it does not ignore.
func checkedOut(t *testing.T, patterns ...string) []string {
	t.Helper()
	listing := []string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}
	list := exec.Command("git", append(listing, patterns...)...)
	list.Dir = filepath.Join("..", "..")
	files, err := list.Output()
	if err != nil {
		t.Skip("not a checkout of git: ", err)
	}
	return strings.Fields(string(files))
}

// longLiteral is a literal that a line may hold whole, however long the line is.
var longLiteral = regexp.MustCompile("^([^/\"`]|\"(\\\\.|[^\"\\\\])*\"|`[^`]*`)*?(\"(\\\\.|[^\"\\\\]){30,}\"|`[^`]{30,}`)")

const columns = 110 // of a line

// TestLines: a line of Go, C, CUDA or Python has at most 110 columns, a tab taking four, but for long literals
// of others than Python.
func TestLines(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, path := range checkedOut(t, "*.go", "*.c", "*.h", "*.cc", "*.cu", "*.cuh", "*.py") {
		if strings.HasPrefix(path, "kernel/") && strings.HasSuffix(path, ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		number, raw := 0, false
		for line := range strings.Lines(string(text)) {
			number++
			within := raw
			raw = raw != (strings.HasSuffix(path, ".go") && strings.Count(line, "`")%2 == 1)
			line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")
			literal := within || raw || longLiteral.MatchString(line) || strings.Contains(line, "//nolint")
			literal = literal && !strings.HasSuffix(path, ".py")
			if n := utf8.RuneCountInString(line); n > columns && !literal {
				t.Errorf("%s:%d: a line of %d columns", path, number, n)
			}
		}
	}
}

// pythonText is a comment or a string of Python.
var pythonText = regexp.MustCompile(`#[^\n]*|(?s:""".*?"""|'''.*?''')|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'`)

// public is where callers of the package see that name: weft.Graph.of, run.embeddings(of="conv2"), and the
// attribute of an explanation.
var public = regexp.MustCompile(`Graph\.of\b|\bdef of\(cls, data: Data|embeddings\(of=|\b(?:why|made)\.of\b|` +
	`\bof: str \| None = None, \*\*settings|\blayer = of\b`)

var nameOf = regexp.MustCompile(`\bof\b`)

// TestPythonNames: no name in Python is the word of, which says nothing, but those that callers see.
func TestPythonNames(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, path := range checkedOut(t, "*.py") {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		code := pythonText.ReplaceAllStringFunc(string(text), func(text string) string {
			return strings.Repeat("\n", strings.Count(text, "\n"))
		})
		number := 0
		for line := range strings.Lines(code) {
			number++
			if nameOf.MatchString(public.ReplaceAllString(line, "")) {
				t.Errorf("%s:%d: a name is of; say what it is", path, number)
			}
		}
	}
}

// TestLinesOfDocuments: so has a line of a document, but in tables and in code. A page of docs/ has at most
// 600 lines.
func TestLinesOfDocuments(t *testing.T) {
	var documents []string
	for _, folder := range []string{"docs", "docs/tutorials"} {
		within, err := filepath.Glob(filepath.Join("..", "..", folder, "*.md"))
		require.NoError(t, err)
		if len(within) == 0 {
			t.Errorf("there are no documents in %s", folder)
		}
		documents = append(documents, within...)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		documents = append(documents, filepath.Join("..", "..", name))
	}
	for _, path := range documents {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		number, code := 0, false
		for line := range strings.SplitSeq(string(text), "\n") {
			number++
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if n := utf8.RuneCountInString(line); n > columns && !code && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: a line of %d columns", path, number, n)
			}
		}
		if number > 600 && strings.Contains(path, "docs") {
			t.Errorf("%s has %d lines; divide it by what a reader wants to do", path, number)
		}
	}
}

// named is a page that a source names, and the section of it where that stands behind the page.
var named = regexp.MustCompile(`docs/([a-z/-]+\.md)(?:, "([^"]+)",)?|` + "``([a-z-]+\\.md)``")

// TestNamedPages: each page of docs/ that an error, a help text, a docstring or a comment names is there, with
// the section that it names.
func TestNamedPages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, sections := 0, 0
	for _, path := range checkedOut(t, "*.go", "*.py", "*.txtar", "*.c", "*.h", "*.cuh", "*.cc", "scripts",
		"Makefile", "CONTRIBUTING.md") {
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			page, err := os.ReadFile(filepath.Join(root, "docs", name[1]+name[3]))
			if pages++; err != nil {
				t.Errorf("%s names %s: %v", path, name[0], err)
			}
			if name[2] == "" {
				continue
			}
			if sections++; !strings.Contains(string(page), "\n## "+name[2]+"\n") {
				t.Errorf("%s names the section %q, which %s lacks", path, name[2], name[1])
			}
		}
	}
	if pages < 20 || sections < 3 {
		t.Errorf("%d pages and %d sections are named", pages, sections)
	}
}
