package machine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// counter measures how often it was asked to measure, and keeps that in a cache.
type counter struct {
	Cache
	measured int
	warned   []string
}

func newCounter(folder string) *counter {
	c := &counter{Cache: Cache{Folder: folder}}
	c.Warn = func(why error) { c.warned = append(c.warned, strings.TrimPrefix(why.Error(), folder)) }
	return c
}

func (c *counter) number(t *testing.T, key string) (number int, unkept error) {
	t.Helper()
	value, unkept, err := Kept(c.Cache, []byte(key), func(kept map[string]int) bool {
		return kept["number"] > 0
	}, func() (map[string]int, error) {
		c.measured++
		return map[string]int{"number": c.measured}, nil
	})
	require.NoError(t, err)
	return value["number"], unkept
}

// TestKept: each key is measured once in each folder. Without a folder nothing is kept, and an error is never
// kept.
func TestKept(t *testing.T) {
	here, elsewhere := newCounter(filepath.Join(t.TempDir(), "new", "here")), newCounter(t.TempDir())
	elsewhere.measured = 10
	for i, ask := range []struct {
		*counter
		key  string
		want int
	}{
		{here, "a", 1},
		{here, "a", 1},
		{here, "b", 2},
		{elsewhere, "a", 11},
		{here, "a", 1},
		{elsewhere, "a", 11},
		{newCounter(""), "a", 1},
	} {
		number, unkept := ask.number(t, ask.key)
		assert.Equal(t, ask.want, number, i)
		assert.NoError(t, unkept, i)
		assert.Empty(t, ask.warned, i)
	}
	fails := errors.New("it fails")
	any := func(int) bool { return true }
	_, _, err := Kept(here.Cache, []byte("c"), any, func() (int, error) { return 0, fails })
	assert.ErrorIs(t, err, fails)
	number, _ := here.number(t, "c")
	assert.Equal(t, 3, number)
}

// TestDamaged: a damaged file is replaced, with a warning. If no file can be made, the measurement is
// returned, with another warning.
func TestDamaged(t *testing.T) {
	c := newCounter(t.TempDir())
	_, unkept := c.number(t, "a")
	require.NoError(t, unkept)
	files, err := filepath.Glob(filepath.Join(c.Folder, "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	const replaced = "; they are measured again, and the file is replaced"
	for text, want := range map[string]string{
		"": ": damaged", `{"number":`: ": damaged", "\x89PNG\r\n\x1a\n": ": damaged", "[]": ": damaged",
		"null": ": damaged", "{}": ": damaged", `{"number":-1}`: ": damaged",
		strings.Repeat(" ", mostBytes+1): ": longer than the 1048576 bytes that such a file may have",
	} {
		require.NoError(t, os.WriteFile(files[0], []byte(text), 0o666))
		before := c.measured
		c.warned = nil
		for range 2 { // the second round finds what the first has kept
			number, unkept := c.number(t, "a")
			assert.NoError(t, unkept)
			assert.Equal(t, before+1, number, "%.20q", text)
		}
		assert.Equal(t, []string{"/" + filepath.Base(files[0]) + want + replaced}, c.warned, "%.20q", text)
	}
	c.Folder = files[0] // a file instead of a folder
	c.warned = nil
	_, unkept = c.number(t, "b")
	if unkept == nil || errors.Is(unkept, fs.ErrNotExist) {
		t.Errorf("kept in a file: %v", unkept)
	}
	require.Len(t, c.warned, 1)
	assert.Contains(t, c.warned[0], "not kept: ")
}
