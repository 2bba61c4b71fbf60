package data

import (
	"fmt"
	"io"
	"os"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/train"
	"weft/train/rundir"
)

// inspectedRun is what inspect prints of a run.
type inspectedRun struct {
	*rundir.Standing
	Continue string `json:"continue,omitempty"` // the command that continues the run
}

// continues is the command that continues a run. It is "" if the run is under way or has ended, is of an
// earlier version, or has a graph that was made in memory.
func continues(s *rundir.Standing) string {
	if s.Status == rundir.Running || s.Status == rundir.Finished || s.Ended == train.EndedDiverged ||
		s.Store == "" || !s.Resumable {
		return ""
	}
	return "weft train --resume " + s.RunDir
}

// Print draws where a run stands for the eye.
func (s *inspectedRun) Print(out io.Writer) {
	ago := func(t time.Time) string { return ui.Duration(max(0, time.Since(t))) + " ago" }
	t := ui.NewTable(out)
	t.Row("run", s.RunDir)
	status := ui.Joined(string(s.Status), s.Reason)
	switch s.Status {
	case rundir.Running:
		status = fmt.Sprintf("running, process %d on %s", s.PID, s.Hostname)
	case rundir.Killed:
		status = fmt.Sprintf("killed: process %d on %s ended without saying why", s.PID, s.Hostname)
		if here, err := os.Hostname(); err != nil || here != s.Hostname {
			status += ", unless the file system's locks do not reach this machine"
		}
	}
	t.Row("status", status)
	t.Row("model", ui.Joined(s.Model+" on "+s.Dataset, s.Parallel))
	t.Row("epochs", fmt.Sprintf("%s of %s%s", ui.Count(s.EpochsRun), ui.Count(s.Epochs),
		ui.When(!s.Updated.IsZero(), ", the last line written "+ago(s.Updated))))
	if s.BestEpoch > 0 {
		t.Row("best", fmt.Sprintf("epoch %s: %s train %s  %s", ui.Count(s.BestEpoch), s.Metric,
			ui.Measured(s.Metric, s.Train), ui.ValAndTest(s.Metric, s.Val, s.Test)))
	}
	checkpoint := "none"
	if c := s.Checkpoint; c != nil {
		checkpoint = fmt.Sprintf("epoch %s, %s, written %s", ui.Count(c.Epoch),
			ui.Megabytes(c.Bytes), ago(c.Written))
	}
	t.Row("checkpoint", checkpoint)
	t.Row("started", fmt.Sprintf("%s, %s", s.Started.Local().Format(time.DateTime), ago(s.Started)))
	for _, fault := range s.Damaged {
		t.Row("damaged", fault)
	}
	switch {
	case s.Continue != "":
		t.Row("continue", s.Continue+ui.When(s.Checkpoint == nil, ", which begins again"))
	case s.Status == rundir.Finished && s.Store != "" && s.Resumable:
		t.Row("more", fmt.Sprintf("weft train --resume %s --epochs N, with N above %s; on a graph that has "+
			"changed weft train %s --init %[1]s", s.RunDir, ui.Count(s.Epochs), s.Store))
	}
	t.Flush()
}
