package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// Each kind of planted file is refused by its name and place, and what only looks like one is not.
func TestRefused(t *testing.T) {
	// A header of PE lies where the four bytes at 0x3c say.
	program := make([]byte, 0x60)
	copy(program, "MZ")
	binary.LittleEndian.PutUint32(program[0x3c:], 0x40)
	copy(program[0x40:], "PE\x00\x00\x64\x86")
	program = append(program, make([]byte, 64)...)
	// This file has no markers.
	ours, theirs := strings.Repeat("<", 7)+" HEAD\n", strings.Repeat(">", 7)+" theirs\n"
	for _, c := range []struct{ name, content, want string }{
		{"ours.md", "a\nb\n" + ours, "ours.md:3: a conflict marker: resolve the conflict"},
		{"theirs.md", theirs, "theirs.md:1: a conflict marker: resolve the conflict"},
		{"title.rst", "Title x\n=======\n", ""},
		{"quoted.md", "git writes " + ours, ""},
		{"eight.md", "<" + ours, ""},
		{"one.bin", strings.Repeat("x", 1e6), ""},
		{"large.bin", strings.Repeat("x", 1e6+1), "large.bin: 1000001 bytes, and a tracked file has at " +
			"most 1000000: remove it by git rm --cached"},
		{"folder/weft", "\x7fELF\x02\x01", "folder/weft: a program (ELF): remove it by git rm --cached, " +
			"and name it in .gitignore"},
		{"mac", "\xcf\xfa\xed\xfe\x07", "mac: a program (Mach-O): remove it by git rm --cached, and name " +
			"it in .gitignore"},
		{"mac32", "\xce\xfa\xed\xfe\x07", "mac32: a program (Mach-O): remove it by git rm --cached, and " +
			"name it in .gitignore"},
		{"powerpc", "\xfe\xed\xfa\xce", "powerpc: a program (Mach-O): remove it by git rm --cached, and " +
			"name it in .gitignore"},
		{"powerpc64", "\xfe\xed\xfa\xcf", "powerpc64: a program (Mach-O): remove it by git rm --cached, " +
			"and name it in .gitignore"},
		{"fat", "\xca\xfe\xba\xbe\x00", "fat: a program (Mach-O): remove it by git rm --cached, and name " +
			"it in .gitignore"},
		{"fat64", "\xca\xfe\xba\xbf\x00", "fat64: a program (Mach-O): remove it by git rm --cached, and " +
			"name it in .gitignore"},
		{"weft.exe", string(program), "weft.exe: a program (PE): remove it by git rm --cached, and name " +
			"it in .gitignore"},
		{"initials.txt", "MZ wrote this.\n", ""},
		{"script", "#!/bin/sh\n", ""},
		{"empty", "", ""},
		{"two words.bin", "\x7fELF", "two words.bin: a program (ELF): remove it by git rm --cached, and " +
			"name it in .gitignore"},
	} {
		folder := repository(t, c.name, c.content)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got, err := refused(folder); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, want)
		}
	}
}

// What git does not track may be anything, and what was removed is nothing; without git the check fails.
func TestTrackedAlone(t *testing.T) {
	folder := repository(t, "kept", "text\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "built"), []byte("\x7fELF"), 0o777))
	require.NoError(t, os.Remove(filepath.Join(folder, "kept")))
	if got, err := refused(folder); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	_, err := refused(filepath.Join(folder, "nowhere"))
	assert.Error(t, err, "no error without a repository")
}

// `make test` makes the check, and stops where a file is refused.
func TestMakefileRefuses(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	require.NoError(t, err)
	_, target, _ := bytes.Cut(makefile, []byte("\ntest:"))
	target, _, _ = bytes.Cut(target, []byte("\n\n"))
	if !bytes.Contains(target, []byte("\n\t$(GO) run ./scripts/tracked\n")) {
		t.Errorf("the target test is %s", target)
	}
}

// repository makes one that tracks a file.
func repository(t *testing.T, name, content string) string {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		git := exec.Command("git", args...)
		git.Dir = folder
		out, err := git.CombinedOutput()
		require.NoError(t, err, "git %s: %s", args, out)
	}
	return folder
}
