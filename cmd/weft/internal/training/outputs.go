package training

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/pprof"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
)

// outputs are the files that are written in addition to those of the run.
func (t *trainCommand) outputs() cli.Outputs {
	return cli.Outputs{
		{Flag: "trace", Path: t.trace},
		{Flag: "embeddings", Path: t.embeddings},
		{Flag: "cpuprofile", Path: t.cpuProfile},
	}
}

// checkBeside refuses, before any work, such a file if it could not be written, is an input, or is another
// file of the run.
func (t *trainCommand) checkBeside(settings *setting.Resolved) error {
	inputs := []string{t.settings.Config}
	for _, file := range settings.Files() {
		inputs = append(append(inputs, file.Path), rundir.Paths(file.Path)...) // that of --init may be a run
	}
	if err := t.outputs().Check(inputs...); err != nil {
		return err
	}
	for _, file := range t.outputs() {
		for _, other := range rundir.Paths(t.out) {
			if t.out != "" && file.Path != "" && cli.SameFile(file.Path, other) {
				return refusal.Errorf("--%s %s: a file of the run; name another", file.Flag, file.Path)
			}
		}
	}
	switch info, noFile := os.Stat(t.trace); {
	case noFile == nil && !info.Mode().IsRegular():
		return refusal.Errorf("--trace %s: a pipe or a device; name a file", t.trace)
	case t.embeddings == "":
		return nil
	case settings.Program.Program != nil:
		return refusal.Errorf("--embeddings %s: the model is a program, and weft predict RUN --embeddings FILE "+
			"computes them; leave it out", t.embeddings)
	}
	return predictions.CheckEnding("embeddings", t.embeddings)
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

// profile begins the CPU profile for which --cpuprofile asks, on the first rank. stop ends it, and
// writes it unless the run was refused before its graph was open.
func (t *trainCommand) profile(r cli.Ranks) (stop func(), err error) {
	stop = func() {}
	if t.cpuProfile == "" {
		return stop, nil
	}
	err = r.OnFirst(func() error {
		if err := cli.CheckFile("cpuprofile", t.cpuProfile); err != nil {
			return err
		}
		var profile bytes.Buffer
		if err := pprof.StartCPUProfile(&profile); err != nil {
			return err
		}
		stop = func() {
			pprof.StopCPUProfile()
			if !t.admitted {
				return
			}
			if err := atomicfile.Write(t.cpuProfile, func(to io.Writer) error {
				_, err := profile.WriteTo(to)
				return err
			}); err != nil {
				fmt.Fprintf(os.Stderr, "weft: warning: --cpuprofile %v\n", err)
			}
		}
		return nil
	})
	return stop, err
}

// takeEmbeddings has the job's embeddings written. The function that it returns says whether they were. As
// the results of the run do not depend on them, an error waits until the results are there.
func (t *trainCommand) takeEmbeddings(s *session.Session, job *train.Job, o *setting.Resolved) (func() error,
	error,
) {
	if t.embeddings == "" {
		return func() error { return nil }, nil
	}
	var table predictions.Table
	err := s.OnFirst(func() error {
		g, err := s.Graph()
		if err == nil {
			table, err = inference.EmbeddingsOf(o, g, true)
		}
		return err
	})
	var written error
	job.OnEmbeddings = func(rows train.Rows) error {
		if written = predictions.Write(t.embeddings, rows, table); written != nil {
			for range rows.Each { // read the rest
			}
		}
		return nil
	}
	return func() error {
		if written != nil {
			return fmt.Errorf("%w; the results are in %s, and weft predict %[2]s --embeddings FILE "+
				"writes them",
				written, t.out)
		}
		return nil
	}, err
}
