package refusal

import (
	"strings"
	"unicode"
)

// ShellWord quotes a path so that a shell takes it for one word, and a command for no flag.
func ShellWord(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return ShellFlag(path)
}

// ShellFlag quotes a word so that a shell reads it as a single word. It may be a flag.
func ShellFlag(path string) string {
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
	}
	if !strings.ContainsFunc(path, odd) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
