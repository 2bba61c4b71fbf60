package training

import (
	"fmt"
	"io"
	"os"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/train/rundir"
)

// checkTrace refuses, before any work, a file for the trace that could not be written, is read, or is one of
// the run's. init is that of the weights to start from.
func (t *trainCommand) checkTrace(init string) error {
	if t.trace == "" {
		return nil
	}
	if err := cli.CheckFile("trace", t.trace); err != nil {
		return err
	}
	if info, err := os.Stat(t.trace); err == nil && !info.Mode().IsRegular() {
		return refusal.Errorf("--trace %s: a pipe or a device; name a file", t.trace)
	}
	for _, path := range rundir.Paths(t.out) {
		if t.out != "" && cli.SameFile(t.trace, path) {
			return refusal.Errorf("--trace %s: a file of the run; name another", t.trace)
		}
	}
	return cli.CheckApart("trace", t.trace, t.settings.Config, init)
}

// checkTraceApart refuses a file for the trace that the graph is read from.
func (t *trainCommand) checkTraceApart(dataset, store string) error {
	if t.trace == "" {
		return nil
	}
	return cli.CheckApartFromGraph("trace", t.trace, dataset, store)
}

// writeTrace writes the trace of a run that is complete, if there is one.
func (t *trainCommand) writeTrace(show io.Writer, run *rundir.Run, traced *trace.Trace) error {
	if traced == nil {
		return nil
	}
	s := &run.Summary
	traced.About = map[string]string{
		"weft": run.Versions.Weft, "dataset": s.Dataset, "model": s.Model, "parallel": s.Parallel,
		"run_dir": s.RunDir,
	}
	if err := atomicfile.Write(t.trace, traced.Write); err != nil {
		return fmt.Errorf("%w; the results are in %s", err, t.out)
	}
	spans, lost := 0, 0
	for _, w := range traced.Workers {
		spans, lost = spans+len(w.Events), lost+w.Lost
	}
	left := ""
	if lost > 0 {
		left = fmt.Sprintf(", %s more left out: it keeps the first %s of a worker",
			ui.Count(lost), ui.Count(trace.Most))
	}
	fmt.Fprintf(show, "%s: epoch %s, %s%s\n", t.trace, ui.Count(traced.Epoch),
		ui.Counted(spans, "span", "spans"), left)
	return nil
}
