package partition

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestPartitionsOfOthers: files that weft did not write keep partitions from being replaced, and stay. What a
// removed share left is no such file.
func TestPartitionsOfOthers(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	a := divided(t, g, Options{K: 2, Method: Range})
	name := write(t, store, g, a)
	dir := Directory(store, name)
	restore := restorer(t, dir)
	const foreign, beyond = "not one of weft's files, in a folder that would be replaced",
		"not one of the 2 partitions, in a folder that would be replaced"
	file := func(path string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, path), []byte("mine"), 0o666) }
	}
	folder := func(path string) func() error {
		return func() error { return os.Mkdir(filepath.Join(dir, path), 0o777) }
	}
	replaced := func(path string, by func() error) func() error {
		return func() error { return errors.Join(os.RemoveAll(filepath.Join(dir, path)), by()) }
	}
	for _, c := range []struct {
		path, want string
		add        func() error
	}{
		{"", "", func() error { return nil }},
		{"1", "", func() error { return os.RemoveAll(filepath.Join(dir, "1")) }},
		{"notes.txt", foreign, file("notes.txt")},
		{"notes", foreign, folder("notes")},
		{"01", foreign, folder("01")},
		{"-1", foreign, folder("-1")},
		{strconv.Itoa(MaxPartitions), foreign, folder(strconv.Itoa(MaxPartitions))},
		{"1", foreign, replaced("1", file("1"))},
		{assignmentFile, foreign, replaced(assignmentFile, folder(assignmentFile))},
		{"0/notes.txt", foreign, file("0/notes.txt")},
		{"1/0", foreign, folder("1/0")},
		{"2", beyond, folder("2")},
		{strconv.Itoa(MaxPartitions - 1), beyond, folder(strconv.Itoa(MaxPartitions - 1))},
		{
			"", "without partition.json, so not one that weft made",
			func() error { return os.Remove(filepath.Join(dir, descriptionFile)) },
		},
		{descriptionFile, "damaged", file(descriptionFile)},
	} {
		restore()
		require.NoError(t, c.add())
		for what, err := range map[string]error{
			"CheckPlace": CheckPlace(store, name),
			"CheckOwn":   CheckOwn(store),
		} {
			if c.want == "" && err != nil ||
				c.want != "" &&
					(!refusal.Is(err) || !strings.HasPrefix(err.Error(), filepath.Join(dir, c.path)+": ") ||
						!strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q: %s says %v, want %q", c.path, what, err, c.want)
			}
		}
		if _, err := Write(store, g, a, nil); (err == nil) != (c.want == "") {
			t.Errorf("%q: Write says %v, want %q", c.path, err, c.want)
		}
		if c.want != "" && c.path != "" && !there(filepath.Join(dir, c.path)) {
			t.Errorf("%q is no longer there", c.path)
		}
	}
	restore()
	elsewhere := t.TempDir()
	require.NoError(t, errors.Join(os.RemoveAll(dir), os.Symlink(elsewhere, dir)))
	assert.Refused(t, CheckPlace(store, name), "link", "a link elsewhere")
}

// TestPartitionsWithoutRoom: partitions that do not fit leave those before them.
func TestPartitionsWithoutRoom(t *testing.T) {
	fulldisk.Run(t, func(full func(uint64, func())) {
		store, g := stored(t, made(t, 200, 600, kinds["dense"], 3))
		write(t, store, g, divided(t, g, Options{K: 2, Method: Random, Seed: 1}))
		before, another := find(t, store, 2, ""), divided(t, g, Options{K: 2, Method: Random, Seed: 2})
		full(1000, func() {
			_, err := Write(store, g, another, nil)
			assert.ErrorIs(t, err, unix.EFBIG)
		})
		assert.Equal(t, before.ID, find(t, store, 2, "").ID, "before")
		if entries, err := os.ReadDir(filepath.Join(store, Folder)); err != nil || len(entries) != 1 {
			t.Errorf("left %v, error %v", entries, err)
		}
	})
}
