package graphtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"weft/internal/require"
)

// Files writes files, perhaps in folders, into a new folder, and returns its path.
func Files[T string | []byte](t testing.TB, files map[string]T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	}
	return dir
}

// File writes a file into a new folder, and returns its path.
func File[T string | []byte](t testing.TB, name string, content T) string {
	t.Helper()
	return filepath.Join(Files(t, map[string]T{name: content}), name)
}

// Zipped compresses a text by gzip.
func Zipped(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}
