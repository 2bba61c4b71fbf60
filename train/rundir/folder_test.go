package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train"
)

func TestRunDirRefusesOthersFiles(t *testing.T) {
	dir := t.TempDir()
	full, file, empty := filepath.Join(dir, "full"), filepath.Join(dir, "file"), filepath.Join(dir, "empty")
	for _, d := range []string{full, empty} {
		require.NoError(t, os.Mkdir(d, 0o777))
	}
	for _, f := range []string{file, filepath.Join(full, "x")} {
		require.NoError(t, os.WriteFile(f, nil, 0o666))
	}
	job := &train.Job{Dataset: "cora", Options: train.Defaults()}
	for _, out := range []string{full, file, filepath.Join(file, "below")} {
		_, err := New(out, time.Now(), job, "test", "g")
		assert.Refused(t, err, "--out "+out, out)
	}
	_, err := New(empty, time.Now(), job, "test", "g")
	assert.NoError(t, err, "an empty folder is refused")
}

func TestRunDirNames(t *testing.T) {
	t.Chdir(t.TempDir())
	o := train.Defaults()
	o.Model = "gat"
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, suffix := range []string{"", "-2", "-3"} {
		want := "runs/20260203-040506-my-graph.v2-gat" + suffix
		d, err := New("", at, &train.Job{Dataset: "/data/my graph.v2", Options: o}, "test", "g")
		require.NoError(t, err)
		assert.Equal(t, want, d.Path, d)
	}
	for dataset, want := range map[string]string{
		"/": "graph", "..": "graph", "": "graph", "Ünter": "nter",
		strings.Repeat("a", 300): strings.Repeat("a", 60),
	} {
		assert.Equal(t, want, fileName(dataset), "%q", dataset)
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "new"), dir} {
		d := newDir(t, path)
		d.Discard()
		_, err := d.root.Lstat(".")
		assert.ErrorIs(t, err, fs.ErrClosed, "%s is still open", d.Path)
	}
	if left := names(t, dir); left != nil {
		t.Errorf("left %v", left)
	}
}

// A run whose results cannot be written says so in one line and is not taken for a complete one.
func TestRunDirThatCannotBeWritten(t *testing.T) {
	for name, obstruct := range map[string]func(d *Dir) error{
		"metrics":     func(d *Dir) error { return d.metrics.Close() },
		"weights":     func(d *Dir) error { return os.MkdirAll(d.file("model.safetensors/x"), 0o777) },
		"predictions": func(d *Dir) error { return os.MkdirAll(d.file("predictions.npy/x"), 0o777) },
	} {
		d := newDir(t, filepath.Join(t.TempDir(), "run"))
		require.NoError(t, obstruct(d))
		err := d.Weights("v1", nil, smallWeights)
		if err == nil {
			err = d.Predictions(smallLogits())
		}
		if err == nil {
			err = d.Finish(smallRun())
		}
		if err == nil || refusal.Is(err) || !strings.HasPrefix(err.Error(), "run directory "+d.Path) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		_, err = os.Stat(d.file(runFile))
		assert.Error(t, err, "%s: run.json marks the run as complete", name)
	}
	d := newDir(t, filepath.Join(t.TempDir(), "run"))
	require.NoError(t, d.metrics.Close())
	if err := d.Epoch(train.Epoch{Epoch: 1}); err == nil ||
		!strings.HasPrefix(err.Error(), "run directory "+d.Path) {
		t.Errorf("an epoch that cannot be recorded: %v", err)
	}
}

// TestRunDirFollowsNoLinks: what is written into a run replaces a link and leaves what it leads to alone.
func TestRunDirFollowsNoLinks(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("mine"), 0o666))
	d, err := New(filepath.Join(dir, "run"), time.Now(), ofProgram(t), "test", "g")
	require.NoError(t, err)
	for _, name := range []string{weightsFile, Predictions, runFile} {
		require.NoError(t, os.Symlink("../precious", d.file(name)))
	}
	require.NoError(t, errors.Join(d.Weights("v1", nil, smallWeights), d.Predictions(smallLogits()),
		d.Finish(smallRun())))
	if text, err := os.ReadFile(precious); err != nil || string(text) != "mine" {
		t.Errorf("the file that the links led to holds %q, %v", text, err)
	}
	for _, name := range Files() {
		if info, err := os.Lstat(d.file(name)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is no file of its own: %v", name, err)
		}
	}
}

// TestRunDirIsGone: a run whose directory does not lead to its files any more says so at the next epoch.
func TestRunDirIsGone(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed": os.RemoveAll,
		"moved":   func(path string) error { return os.Rename(path, path+"-moved") },
		"emptied": func(path string) error {
			return errors.Join(os.Remove(filepath.Join(path, metricsFile)),
				os.Remove(filepath.Join(path, configFile)), os.Remove(filepath.Join(path, stateFile)))
		},
		"replaced": func(path string) error {
			return errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o666))
		},
		"another's": func(path string) error {
			return errors.Join(os.Rename(path, path+"-moved"), os.Mkdir(path, 0o777),
				os.WriteFile(filepath.Join(path, metricsFile), nil, 0o666))
		},
	} {
		d := newDir(t, filepath.Join(t.TempDir(), "run"))
		require.NoError(t, errors.Join(d.Epoch(train.Epoch{Epoch: 1}), d.Weights("v1", nil, smallWeights)))
		require.NoError(t, remove(d.Path))
		if err := d.Epoch(train.Epoch{Epoch: 2}); err == nil || !d.Gone() ||
			!strings.Contains(err.Error(), "removed or replaced") {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Weights("v1", nil, smallWeights); err == nil || len(d.Results()) > 0 {
			t.Errorf("%s: weights were written, %v, of which are kept %v", name, err, d.Results())
		}
		if err := d.fail(fmt.Errorf("between two looks: %w", fs.ErrNotExist)); !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunDirWithoutMetrics: a run whose metrics.jsonl is removed, replaced or cut says so at the next epoch,
// and keeps its results.
func TestRunDirWithoutMetrics(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+"-moved"), os.WriteFile(path, []byte("{}"), 0o666))
		},
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o777)) },
		"cut":      func(path string) error { return os.Truncate(path, 5) },
	} {
		d := newDir(t, filepath.Join(t.TempDir(), "run"))
		require.NoError(t, d.Epoch(train.Epoch{Epoch: 1}))
		require.NoError(t, damage(d.file(metricsFile)))
		if err := d.Epoch(train.Epoch{Epoch: 2}); !errors.Is(err, errChanged) || d.Gone() {
			t.Errorf("%s: %v", name, err)
		}
		assert.NoError(t, d.Weights("v1", nil, smallWeights))
		assert.Equal(t, []string{weightsFile}, d.Results(), name)
	}
}

// TestDiscardKeepsEpochs: what an epoch has made stays.
func TestDiscardKeepsEpochs(t *testing.T) {
	d := newDir(t, filepath.Join(t.TempDir(), "run"))
	require.NoError(t, d.Epoch(train.Epoch{Epoch: 1}))
	d.Discard()
	assert.Equal(t, []string{metricsFile, configFile, stateFile}, names(t, d.Path))
}

// TestFinishRestoresSettings: settings that were damaged while the run went on are written again.
func TestFinishRestoresSettings(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove,
		"rubbish": func(path string) error { return os.WriteFile(path, []byte("{"), 0o666) },
	} {
		d := newDir(t, filepath.Join(t.TempDir(), "run"))
		want, err := os.ReadFile(d.file(configFile))
		require.NoError(t, errors.Join(err, damage(d.file(configFile))))
		require.NoError(t, errors.Join(d.Weights("v1", nil, smallWeights), d.Predictions(smallLogits()),
			d.Finish(smallRun())))
		now, err := os.ReadFile(d.file(configFile))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(now), name)
	}
}

// TestRunDirOfAKilledRun: temporary files of a run that was killed, which a shell's * does not match, do not
// keep the next run from the folder, and are removed by it.
func TestRunDirOfAKilledRun(t *testing.T) {
	dir := t.TempDir()
	left := []string{atomicfile.Hidden(Predictions), atomicfile.Hidden(runFile)}
	for _, name := range left {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o666))
	}
	d := newDir(t, dir)
	require.NoError(t, errors.Join(d.Weights("v1", nil, smallWeights), d.Predictions(smallLogits()),
		d.Finish(smallRun())))
	for _, name := range left {
		_, err := os.Lstat(filepath.Join(dir, name))
		assert.ErrorIs(t, err, fs.ErrNotExist, "%s is still there", name)
	}
}

// TestRunDirOfARunThatHardlyBegan: what a run leaves that is killed before it has a state keeps no other from
// the folder, unless it is alive.
func TestRunDirOfARunThatHardlyBegan(t *testing.T) {
	dir, job := t.TempDir(), &train.Job{Dataset: "cora", Options: train.Defaults()}
	first := &Dir{Path: dir}
	settings, err := job.Options.Resolve()
	require.NoError(t, err)
	require.NoError(t, first.begin(settings))
	require.NoError(t, first.root.Remove(stateFile))
	_, err = New(dir, time.Now(), job, "test", "g")
	assert.Refused(t, err, "another run is under way", "beside a run that begins")
	require.NoError(t, first.metrics.Close()) // as a process's end does
	d := newDir(t, dir)
	assert.NoError(t, d.Epoch(train.Epoch{Epoch: 1}))
	assert.Equal(t, []string{metricsFile, configFile, stateFile}, names(t, dir))
	require.NoError(t, errors.Join(d.metrics.Close(), d.root.Remove(stateFile)))
	_, err = New(dir, time.Now(), job, "test", "g")
	assert.Refused(t, err, "not empty (it holds metrics.jsonl)", "over the epochs of a run")
}

// TestDiscardLeavesAnother: of two runs that found the same folder empty, the second takes nothing of the
// first with it.
func TestDiscardLeavesAnother(t *testing.T) {
	dir := t.TempDir()
	first := newDir(t, dir)
	second := &Dir{Path: dir}
	assert.Error(t, second.begin(nil), "two runs in one folder")
	second.Discard()
	assert.NoError(t, first.Epoch(train.Epoch{Epoch: 1}))
	assert.Equal(t, []string{metricsFile, configFile, stateFile}, names(t, dir))
}

// TestFileNameKeeps: letters, digits and -, _ and . stay in a name, up to the ends of their ranges, and what
// stands beside them in ASCII does not.
func TestFileNameKeeps(t *testing.T) {
	for dataset, want := range map[string]string{
		"azAZ09-_.b":       "azAZ09-_.b",
		"x`{@[:!x":         "x------x",
		"a+b,c=d":          "a-b-c-d",
		".hidden.":         "hidden",
		"/data/papers.npz": "papers.npz",
	} {
		assert.Equal(t, want, fileName(dataset), "%q", dataset)
	}
}
