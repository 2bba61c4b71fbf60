package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestReadProfile: what was written is read again. Lists that do not fit each other are refused, and a run
// without profile has none.
func TestReadProfile(t *testing.T) {
	d := newDir(t, filepath.Join(t.TempDir(), "run"))
	run := smallRun()
	require.NoError(t, d.Finish(run))
	read, err := ReadProfile(d.Path)
	require.NoError(t, err)
	assert.Equal(t, run.Profile, read)
	path := d.file(profileFile)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for old, damaged := range map[string]string{
		`"sent_to":[[0]]`:            `"sent_to":[[0,1]]`,
		`"layers":[-1,0]`:            `"layers":[-1,1]`, // of one layer
		`"seconds":[0,1]`:            `"seconds":[0]`,
		`"wait":[1]`:                 `"wait":[]`,
		`"peaks":[[2]]`:              `"peaks":[[2,3,4]]`,
		`peaks":[[2]]`:               `peaks":[[]]`,
		`"bytes":[[1,2],[3,0]]`:      `"bytes":[[1,2]]`,
		`"worker":0`:                 `"worker":1`,
		`"format":1`:                 `"format":2`,
		`"parts":["rest","forward"]`: `"parts":[]`,
		`"workers":[`:                `"workers":{`,
	} {
		changed := strings.Replace(string(text), old, damaged, 1)
		if changed == string(text) {
			t.Errorf("%s is not in %s", old, text)
		}
		require.NoError(t, os.WriteFile(path, []byte(changed), 0o666))
		p, err := ReadProfile(d.Path)
		assert.ErrorContains(t, err, profileFile, "%s: %+v", damaged, p)
	}
	require.NoError(t, os.Remove(path))
	if p, err := ReadProfile(d.Path); p != nil || err != nil {
		t.Errorf("without one: %+v, %v", p, err)
	}
}
