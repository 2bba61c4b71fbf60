package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"weft/train"
	"weft/train/rundir"
)

// isStore reports whether a folder is a store.
func isStore(path string) bool {
	_, err := os.Lstat(filepath.Join(path, "graph.json"))
	return err == nil
}

// inspectedRun is what inspect prints of a run.
type inspectedRun struct {
	*rundir.Standing
	Continue string `json:"continue,omitempty"` // the command
}

// continues is the command that continues a run, "" if there is none: the run is under way or has ended, it
// is of an earlier version, or its graph was made in memory.
func continues(s *rundir.Standing) string {
	if s.Status == rundir.Running || s.Status == rundir.Finished || s.Ended == train.EndedDiverged ||
		s.Store == "" || !s.Resumable {
		return ""
	}
	return "weft train --resume " + s.RunDir
}

// print draws where a run stands for the eye.
func (s *inspectedRun) print(out io.Writer) {
	ago := func(t time.Time) string { return duration(max(0, time.Since(t))) + " ago" }
	t := newTable(out)
	t.row("run", s.RunDir)
	status := describe(string(s.Status), s.Reason)
	switch s.Status {
	case rundir.Running:
		status = fmt.Sprintf("running, process %d on %s", s.PID, s.Host)
	case rundir.Killed:
		status = fmt.Sprintf("killed: process %d on %s ended without saying why", s.PID, s.Host)
		if here, err := os.Hostname(); err != nil || here != s.Host {
			status += ", unless the file system's locks do not reach this machine"
		}
	}
	t.row("status", status)
	t.row("model", describe(s.Model+" on "+s.Dataset, s.Parallel))
	t.row("epochs", fmt.Sprintf("%s of %s%s", count(s.EpochsRun), count(s.Epochs),
		when(!s.Updated.IsZero(), ", the last line written "+ago(s.Updated))))
	if s.BestEpoch > 0 {
		t.row("best", fmt.Sprintf("epoch %s: %s train %s  %s", count(s.BestEpoch), s.Metric,
			measured(s.Metric, s.Train), valAndTest(s.Metric, s.Val, s.Test)))
	}
	checkpoint := "none"
	if c := s.Checkpoint; c != nil {
		checkpoint = fmt.Sprintf("epoch %s, %s, written %s", count(c.Epoch),
			megabytes(c.Bytes), ago(c.Written))
	}
	t.row("checkpoint", checkpoint)
	t.row("started", fmt.Sprintf("%s, %s", s.Started.Local().Format(time.DateTime), ago(s.Started)))
	for _, fault := range s.Damaged {
		t.row("damaged", fault)
	}
	switch {
	case s.Continue != "":
		t.row("continue", s.Continue+when(s.Checkpoint == nil, ", which begins again"))
	case s.Status == rundir.Finished && s.Store != "" && s.Resumable:
		t.row("more", fmt.Sprintf("weft train --resume %s --epochs N, with N above %s",
			s.RunDir, count(s.Epochs)))
	}
	t.flush()
}
