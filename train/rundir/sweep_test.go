package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestClaimSweep: one sweep at a time has a folder, which is new, or has the runs of that sweep.
func TestClaimSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "sweep")
	claim := func(text, refused string) *os.File {
		t.Helper()
		f, err := ClaimSweep(dir, []byte(text), []byte("former "+text))
		if refused == "" && err != nil ||
			refused != "" && (!refusal.Is(err) || !strings.Contains(err.Error(), refused)) {
			t.Fatalf("%q: %v, want %q", text, err, refused)
		}
		return f
	}
	end := func(f *os.File) {
		t.Helper()
		require.NoError(t, f.Close())
	}
	first := claim("lr: 1", "")
	claim("lr: 1", "another sweep is at work in the folder; wait for its end, or name another folder")
	end(first)
	end(claim("lr: 1", ""))
	for _, other := range []string{"lr: 2", "lr: 1, hidden: 2", "lr:", ""} {
		claim(other, "holds runs of another sweep, or of this one before its file changed")
	}
	path := filepath.Join(dir, sweepFile)
	require.NoError(t, os.WriteFile(path, []byte("former lr: 3"), 0o666))
	end(claim("lr: 3", ""))
	claim("lr: 1", "holds runs of another sweep, or of this one before its file changed")
	require.NoError(t, os.Truncate(path, 0)) // as one leaves it that is killed at once
	end(claim("lr: 2", ""))
	text, err := os.ReadFile(path)
	assert.Equal(t, "lr: 2", string(text), "%q, %v", text, err)
	require.NoError(t, os.Rename(path, filepath.Join(dir, "notes")))
	claim("lr: 1", "the folder is not empty; name a new one")
	entries, _ := os.ReadDir(dir)
	assert.Len(t, entries, 1, "a folder that is refused")
	dir = filepath.Join(dir, "notes")
	claim("lr: 1", "not a directory; name another folder")
}
