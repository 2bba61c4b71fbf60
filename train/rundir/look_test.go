package rundir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/checkpoint"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train"
	"weft/train/metric"
	"weft/train/setting"
)

// lookAt is Look at a run that has a directory.
func lookAt(t *testing.T, dir string) *Standing {
	t.Helper()
	s, err := Look(dir)
	require.NoError(t, err)
	return s
}

// appendTo appends to a file of a run.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	require.NoError(t, err)
}

// TestLook: where a run stands while it goes on, once it is killed, and once it has ended. The best epoch is
// the first with the highest validation metric, or the lowest validation loss if the run selects that.
func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		selects string
		best    int
	}{"metric": {setting.SelectMetric, 2}, "loss": {setting.SelectLoss, 3}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run")
			o := train.Defaults()
			o.Epochs, o.Select = 9, c.selects
			d, err := New(path, time.Now(), &train.Job{Dataset: "cora", Options: o}, "test", "g")
			require.NoError(t, err)
			if s := lookAt(t, path); s.Status != Running || s.EpochsRun != 0 || s.BestEpoch != 0 ||
				s.Checkpoint != nil || s.PID != os.Getpid() {
				t.Errorf("at the start %+v", s)
			}
			for _, e := range []train.Epoch{
				{Epoch: 1, Scores: metric.Scores{Val: .25, ValLoss: 4}, Evaluated: true},
				{Epoch: 2, Scores: metric.Scores{Val: .75, ValLoss: 3}, Evaluated: true},
				{Epoch: 3, Scores: metric.Scores{Val: .5, ValLoss: 2}, Evaluated: true},
				{Epoch: 4},
			} {
				e.Metric = "macro-f1"
				require.NoError(t, d.Epoch(e))
			}
			appendTo(t, d.file(metricsFile), `{"epoch":5,"lo`)
			s := lookAt(t, path)
			if s.Status != Running || s.EpochsRun != 4 || s.Epochs != 9 || s.BestEpoch != c.best ||
				s.Metric != "macro-f1" || s.Damaged != nil {
				t.Errorf("under way %+v", s)
			}
			if again, err := Reopen(path); err == nil {
				again.Discard()
				t.Error("a run under way is opened again")
			}
			require.NoError(t, d.metrics.Close()) // as a process's end does
			if s := lookAt(t, path); s.Status != Killed || s.EpochsRun != 4 {
				t.Errorf("killed %+v", s)
			}
			require.NoError(t, d.Fail(errors.New("rank 2 died")))
			if s := lookAt(t, path); s.Status != Failed || s.Reason != "rank 2 died" || s.Hostname != "" {
				t.Errorf("failed %+v", s)
			}
			appendTo(t, d.file(metricsFile), "ss\n")
			if s := lookAt(t, path); s.EpochsRun != 4 || len(s.Damaged) != 1 ||
				!strings.Contains(s.Damaged[0], "metrics.jsonl: line 5: ") {
				t.Errorf("damaged %+v", s)
			}
		})
	}
}

// TestLookAtARunKilledAtItsEnd: a run that was killed after it wrote run.json has ended, though its state
// says that it is under way.
func TestLookAtARunKilledAtItsEnd(t *testing.T) {
	d := newDir(t, t.TempDir())
	require.NoError(t, d.writeJSON(runFile, smallRun()))
	assert.Equal(t, Running, lookAt(t, d.Path).Status, "under way")
	require.NoError(t, d.metrics.Close()) // as a process's end does
	if s := lookAt(t, d.Path); s.Status != Finished || s.Reason != "all 0 epochs are done" {
		t.Errorf("ended %+v", s)
	}
}

// TestLookMissesResults: a run that has ended without run.json is damaged.
func TestLookMissesResults(t *testing.T) {
	d := newDir(t, t.TempDir())
	require.NoError(t, d.Finish(smallRun()))
	assert.Empty(t, lookAt(t, d.Path).Damaged, "whole")
	require.NoError(t, os.Remove(filepath.Join(d.Path, runFile)))
	if s := lookAt(t, d.Path); len(s.Damaged) != 1 ||
		!strings.Contains(s.Damaged[0], "run.json: is missing") {
		t.Errorf("without run.json: %q", s.Damaged)
	}
}

// TestLookRefusesDamage: a state that cannot be read is refused in one line that names the file.
func TestLookRefusesDamage(t *testing.T) {
	for text, want := range map[string]string{
		`half`:                           "state.json: damaged: ",
		`{"format":7}`:                   "state.json: format version 7, ",
		`{"format":1}`:                   `state.json: damaged: unknown status ""`,
		`{"format":1,"status":"killed"}`: `state.json: damaged: unknown status "killed"`,
		`{"format":1,"status":"finished","settings":{"epochs":"many"}}`: "epochs many: ",
		`{"format":1,"status":"finished","settings":{"epoch":"3"}}`:     "the setting epoch 3, ",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o666))
		if _, err := Look(dir); !Is(dir) || !refusal.Is(err) || !strings.Contains(err.Error(), dir) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if dir := t.TempDir(); Is(dir) {
		t.Error("an empty folder is a run")
	}
}

// TestLookKeepsNobodyOut: a run locks its directory while others look whether one is under way.
func TestLookKeepsNobodyOut(t *testing.T) {
	path := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan error)
	go func() {
		for ctx.Err() == nil {
			if _, err := isLocked(path); err != nil {
				looked <- err
				return
			}
		}
		looked <- nil
	}()
	for range 2000 {
		f, err := os.Create(filepath.Join(path, metricsFile))
		require.NoError(t, err)
		if err := errors.Join(lock(f), f.Close()); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	assert.NoError(t, <-looked)
}

// TestLookAtResults: run.json has the word on a run that has ended. One without state.json, of an earlier
// version, is known by it.
func TestLookAtResults(t *testing.T) {
	o := train.Defaults()
	o.Epochs = 1000
	ctx, cancel := context.WithCancelCause(t.Context())
	path := filepath.Join(t.TempDir(), "run")
	job := &train.Job{Graph: small(t), Dataset: "cora", Options: o, OnEpoch: func(e train.Epoch) {
		if e.Epoch == 3 {
			cancel(launch.ErrInterrupted)
		}
	}}
	job.Checkpoints = &train.Checkpoints{Path: filepath.Join(path, Checkpoints)}
	d, started := newDir(t, path), time.Now()
	result, err := d.Record(ctx, job, nil, "v1")
	require.NoError(t, err)
	run := NewRun("v1", "", started, job, result)
	require.NoError(t, d.Finish(&run))
	check := func(what string) *Standing {
		t.Helper()
		s := lookAt(t, path)
		if s.Status != Interrupted || s.Ended != train.EndedSignal || s.EpochsRun != result.Epochs ||
			s.BestEpoch != result.BestEpoch ||
			float64(s.Val) != result.Val || s.Metric != "accuracy" || s.Model != "sage" {
			t.Errorf("%s: %+v", what, s)
		}
		return s
	}
	last := check("with all files").Checkpoint
	if last == nil || last.Epoch != result.Epochs || last.Bytes == 0 ||
		last.Written.Before(started.Add(-time.Hour)) {
		t.Fatalf("checkpoint %+v", last)
	}
	require.NoError(t, os.Truncate(filepath.Join(last.Path, "worker-0.safetensors"), 100))
	if s := check("cut"); s.Checkpoint != nil || len(s.Damaged) != 1 ||
		!strings.Contains(s.Damaged[0], "worker-0.safetensors: damaged: 100 bytes") {
		t.Errorf("a checkpoint that was cut: %+v", s)
	}
	require.NoError(t, os.Remove(filepath.Join(path, stateFile)))
	check("without state.json")
	if left, err := checkpoint.Epochs(filepath.Join(path, Checkpoints)); err != nil || len(left) != 1 {
		t.Errorf("looking left the checkpoints %d, %v", left, err)
	}
}

// TestStateHasAbsolutePaths: whoever continues a run may be in another folder.
func TestStateHasAbsolutePaths(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	job := &train.Job{Options: train.Defaults()}
	for dir, want := range map[string]string{
		"disk/a":   filepath.Join(here, "disk/a"),
		"/scratch": "/scratch", "": "",
	} {
		job.Options.Offload = dir
		if s := begins(job, "v1", "stores/mine", time.Now()); s.Settings["offload"] != want ||
			s.Store != filepath.Join(here, "stores/mine") {
			t.Errorf("--offload %q: offload %q, store %q", dir, s.Settings["offload"], s.Store)
		}
	}
}
