package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// repository makes one of files, of which each commit has some anew, and returns its folder.
func repository(t *testing.T, commits ...map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	run := func(args ...string) {
		_, err := git(t.Context(), folder, args...)
		require.NoError(t, err)
	}
	run("init", "-q")
	for _, files := range commits {
		for name, text := range files {
			path := filepath.Join(folder, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		}
		run("add", ".")
		run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")
	}
	return folder
}

// The lines of a range are those that its commits have added and that are there now: neither those before it
// nor those after it, nor those that were changed since or are in no commit.
func TestChangedLines(t *testing.T) {
	folder := repository(
		t, map[string]string{"a.go": "1\n2\n3\n", "old.py": "1\n", "gone.py": "1\n"},
		map[string]string{"a.go": "1\nfirst\n2\n3\n", "text.md": "1\n", "b/new.py": "1\n\n2\n"},
		map[string]string{"a.go": "1\nfirst\n2\nsecond\n\t3\n", "gone.py": "2\n"},
		map[string]string{"a.go": "1\nfirst\n2\nthird\n\t3\n"},
	)
	edited := []byte("mine\n1\nfirst\n2\nthird\n\t3\n")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), edited, 0o666))
	require.NoError(t, os.Remove(filepath.Join(folder, "gone.py")))
	for commits, want := range map[string][]line{
		"HEAD~3..HEAD":   {{"a.go", 3}, {"a.go", 5}, {"b/new.py", 1}, {"b/new.py", 2}, {"b/new.py", 3}},
		"HEAD~3..HEAD~1": {{"a.go", 3}, {"b/new.py", 1}, {"b/new.py", 2}, {"b/new.py", 3}},
		"HEAD~2..HEAD":   {{"a.go", 5}},
		"HEAD..HEAD":     nil,
	} {
		lines, err := changedLines(t.Context(), folder, commits)
		require.NoError(t, err)
		got := slices.SortedFunc(maps.Keys(lines), line.compare)
		assert.Equal(t, want, got, commits)
	}
	for _, commits := range []string{"HEAD", "HEAD~1..", "..HEAD"} {
		_, err := changedLines(t.Context(), folder, commits)
		assert.EqualError(t, err, "--range "+commits+": it is FIRST..LAST, such as HEAD~50..HEAD")
	}
	_, err := changedLines(t.Context(), folder, "HEAD~9..HEAD")
	assert.ErrorContains(t, err, "HEAD~9")
}
