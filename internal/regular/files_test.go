package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
)

// TestTooManyFiles: where this process may open no more files, the file is not at fault, and no way out is
// given that would remove or replace it.
func TestTooManyFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	for _, number := range []error{unix.EMFILE, unix.ENFILE} {
		none := func(string) (*os.File, error) {
			return nil, &os.PathError{Op: "open", Path: path, Err: number}
		}
		_, _, err := open(path, path, os.Stat, none)
		if want := path + ": " + number.Error() + "; allow this process more (ulimit -n)"; err == nil ||
			err.Error() != want || !errors.Is(err, number) {
			t.Errorf("%v, want %s", err, want)
		}
		if advised := refusal.Advise(err, "remove it"); refusal.Is(err) || advised.Error() != err.Error() {
			t.Errorf("%v is a refusal, or advised to be %v", err, advised)
		}
	}
	_, _, err := Open(path + "2")
	assert.EqualRefusal(t, refusal.Advise(err, "fetch it"), err.Error()+"; fetch it",
		"a file that is not there")
}
