package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph/columns"
	"weft/graph/datasets"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/plan"
	"weft/train/rundir"
	"weft/train/setting"
)

// train begins a run, or continues one. opened is the session of several runs; nil: the graph must be opened.
func (t *trainCommand) train(
	cmd *cobra.Command, r cli.Ranks, dataset string, settings *setting.Resolved, run *resumption,
	opened *session.Session,
) error {
	if err := t.checkFirst(cmd, r, settings, run); err != nil {
		return err
	}
	show := ui.ProgressOf(cmd, t.json)
	if opened == nil {
		var err error
		if opened, err = t.open(cmd, r, dataset, settings, show); err != nil {
			return err
		}
		defer opened.Close()
	}
	clone, store := *opened.Job, opened.Store
	job := &clone
	if t.group != nil {
		job.Options = settings.Options // with a seed and a split of its own
	}
	byType, err := columnsOfStart(settings, run)
	if err == nil {
		err = data.TrainedOn(job, byType, settings.Init, dataset, cmd.ErrOrStderr())
	}
	if err := r.Together(err); err != nil {
		return err
	}
	if job.Checkpoints, err = t.checkpoints(opened, job, run); err != nil {
		return err
	}
	embedded, err := t.takeEmbeddings(opened, job, settings)
	if err != nil {
		return err
	}
	t.settings.SayDevice(show)
	if run != nil {
		if r.First() {
			warnOutdated(cmd.ErrOrStderr(), store)
		}
		fmt.Fprintln(show, ui.Printable(run.line(settings.Epochs)))
		if was := run.before.Device; run.from != nil && was.IsCard() != settings.OnCard() {
			fmt.Fprintf(show, "--device %s: the run was on %s, so that its numbers are the same up to rounding, "+
				"and not to the bit\n", settings.Device, was)
		}
	}
	planned, err := t.plan(cmd, r, dataset, job, settings, opened)
	if err != nil || t.showPlan {
		return err
	}
	folder := settings.OffloadFolder()
	if _, err := os.Lstat(folder); folder != "" && errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(show, "--offload %s: there is no such folder; the run makes it\n", ui.Printable(folder))
	}
	started := time.Now()
	progress := ui.NewProgress(show, &settings.Options)
	defer progress.End()
	var made atomic.Pointer[rundir.Dir]
	// This begins here, as no signal may end a process that has begun a folder.
	ctx, stop := UntilStopped(cmd.Context(), r, &made, store, progress)
	defer stop()
	dir, events, err := t.directory(cmd, r, run, started, job, planned.Plan, opened)
	made.Store(dir)
	defer func() { events.close() }()
	if err := r.Together(err); err != nil {
		return err
	}
	if job.Checkpoints.Path, err = r.SharedPath(filepath.Join(t.out, rundir.Checkpoints)); err != nil {
		return err
	}
	job.Checkpoints.KeepFree = planned.ResultBytes
	warn := func(format string, args ...any) { progress.Warn(cmd.ErrOrStderr(), format, args...) }
	job.Started, job.Checkpoints.OnSaved = ui.ProcessStart, func(s train.Saved) {
		if s.Err != nil && !dir.Gone() { // otherwise the run itself says so
			warn("no checkpoint of epoch %d: %v; the run goes on", s.Epoch, s.Err)
		}
	}
	if planned.Cards != nil && settings.Workers > 1 {
		fmt.Fprintf(show, "--device %s: %s\n", settings.Device, planned.Cards)
	}
	fmt.Fprintf(show, "%s: needs %s for tensors and %s for the graph\n", ui.Printable(job.Dataset),
		eachWorker(planned.PeakTensorBytes), ui.Megabytes(slices.Max(planned.GraphBytes)))
	if settings.EvalEvery == setting.AutoEvery && planned.Workers[0].OwnPass == "" {
		fmt.Fprintln(show, planning.ReadEvaluations)
	}
	if planned.Limited() {
		fmt.Fprintln(show, planned.Recomputed())
	}
	if states := planned.EdgeStates(); states != nil && states.Kept < states.Total {
		fmt.Fprintln(show, states)
	}
	job.Trace = t.trace != ""
	if t.live != nil {
		t.live.begin(t.out)
		t.live.tell(&job.Options, progress.Remaining)
		t.live.reportTo(warn)
		fmt.Fprintf(show, "%s: live at %s\n", ui.Printable(t.out), t.live.url())
	}
	follower, signalled := newFollower(cmd, t.follow), ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	job.OnEpoch = func(e train.Epoch) {
		progress.Epoch(e)
		events.epoch(e)
		t.live.epoch(e)
		if follower.epoch(e) {
			cancel()
		}
	}
	var result *train.Result
	if dir != nil {
		result, err = dir.Record(ctx, job, planned.Plan, cli.Version)
	} else {
		result, err = job.RunPlanned(ctx, planned.Plan)
	}
	progress.End()
	if result == nil {
		t.live.end("the run has failed: " + fmt.Sprint(err))
		return t.failed(dataset, store, dir, session.Advised(err))
	}
	if err != nil {
		err = incomplete(dir, store, err)
	}
	if err := r.Together(err); err != nil {
		return err
	}
	resident, err := r.Largest(cli.PeakResident())
	if err != nil {
		return err
	}
	stopped, err := cli.Decided(r, func() (bool, error) {
		return result.Ended == train.EndedSignal && follower.hasStopped() && signalled.Err() == nil, nil
	})
	if err != nil {
		return err
	}
	err = r.OnFirst(func() error {
		t.out = dir.Path
		run := rundir.NewRun(cli.Version, store, started, job, result)
		run.Summary.PeakRSSBytes = resident
		run.ClassNames, run.GraphID = opened.Stored.ClassNames(settings.EdgeLabel), opened.Stored.ID
		if stopped {
			run.Reason = "stopped by a callback"
		}
		err := calibrated(&run, filepath.Join(dir.Path, rundir.Predictions), opened.Stored, &settings.Options)
		if err == nil {
			err = dir.Finish(&run)
		}
		if err != nil {
			return incomplete(dir, store, err)
		}
		t.live.end(fmt.Sprintf("ended: %s; %s", run.Reason, best(&run)))
		printed, written := t.printRun(cmd.OutOrStdout(), show, &run), t.writeTrace(show, &run, result.Trace)
		return cmp.Or(printed, written, embedded())
	})
	if err != nil {
		return err
	}
	if result.Diverged != nil {
		return r.Part(fmt.Errorf("%w; the results of epoch %d, the best before, are in %s", result.Diverged,
			result.BestEpoch, t.out))
	}
	if result.Interrupted() && (!stopped ||
		t.group == nil) { // when one of several runs ends, the others go on
		return r.Part(t.interrupted(result, &settings.Options))
	}
	return nil
}

// warnOutdated warns that the files have changed from which the store of a run was made.
func warnOutdated(warnings io.Writer, store string) {
	if changed := datasets.Outdated(store); len(changed) > 0 {
		fmt.Fprintf(warnings, "weft: warning: %s: has changed since the run began, which continues on the "+
			"graph as it was\n", ui.Printable(refusal.List(changed, 3)))
	}
}

// columnsOfStart are the columns of what training starts from: of the checkpoint from which a run continues,
// or of initial weights; nil: there are none, or they are unknown.
func columnsOfStart(settings *setting.Resolved, run *resumption) (columns.ByType, error) {
	switch {
	case run != nil && run.from != nil:
		return run.record.Columns, nil
	case settings.Init != "":
		return rundir.ColumnsOf(settings.Init)
	}
	return nil, nil
}

// plan plans the job, prints the plan with --show-plan, and refuses a run for which memory or the disk is too
// small.
func (t *trainCommand) plan(cmd *cobra.Command, r cli.Ranks, dataset string, job *train.Job,
	settings *setting.Resolved, opened *session.Session,
) (planned planning.Planned, err error) {
	var made plan.Plan
	if err = session.DivideOnce(cmd.Context(), settings, job, job.Validate); err == nil {
		shown := ui.NewPhases(ui.BesideResults(cmd))
		if r.First() {
			shown.Show("planning the run", 0, 0)
		}
		made, err = job.PlanWith(cmd.Context(), plan.Asks{Range: t.showPlan})
		shown.Erase()
	}
	if err := r.Together(data.About(t.source(dataset), session.Advised(err))); err != nil {
		return planned, err
	}
	planned = planning.PlanOf(job, settings, &made)
	for _, line := range planned.Warnings() {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+line)
	}
	if t.showPlan {
		if err := planned.Print(cmd.OutOrStdout(), t.json); err != nil {
			return planned, err
		}
	}
	exceeds := cmp.Or(made.CheckLimit(settings.MemoryLimit),
		checkMachine(&made, &settings.Options, job.LocalWorkers))
	if exceeds != nil && !t.turns {
		exceeds = wayOut(cmd, job, settings, opened, &made, exceeds)
	}
	return planned, r.Together(cmp.Or(exceeds,
		made.CheckHost(settings.HostMemoryLimit, job.LocalWorkers),
		checkDisk(&made, settings.OffloadFolder(), job.LocalWorkers),
		cli.CheckFiles((settings.Mesh.Workers()+r.Comm.Size()-1)/r.Comm.Size())))
}

// checkpoints say where the run keeps its checkpoints, and from which it continues. It refuses to continue on
// a graph that has changed.
func (t *trainCommand) checkpoints(s *session.Session, job *train.Job, run *resumption) (*train.Checkpoints,
	error,
) {
	c := &train.Checkpoints{Version: cli.Version}
	if s.Stored != nil {
		c.Store = s.Stored.Checksum
	}
	if job.Parts != nil {
		c.Partition = job.Parts.ID
	}
	if run == nil {
		return c, nil
	}
	job.Dataset = cmp.Or(run.state.Dataset, job.Dataset) // a lost state names no dataset
	if c.From = run.from; c.From == nil {
		return c, nil
	}
	return c, s.OnFirst(func() error {
		return run.checkStore(s)
	})
}

// directory makes the directory of a planned run, or continues in that of run. It also opens what follows the
// run. It does so only on the first rank.
func (t *trainCommand) directory(cmd *cobra.Command, r cli.Ranks, run *resumption, started time.Time,
	job *train.Job, planned *plan.Plan, opened *session.Session,
) (dir *rundir.Dir, e *events, err error) {
	if !r.First() {
		return nil, nil, nil
	}
	if run != nil {
		dir, run.dir = run.dir, nil
		err = dir.Continue(started, job, cli.Version, opened.Store)
	} else {
		dir, err = rundir.New(t.out, started, job, cli.Version, opened.Store)
	}
	if err != nil {
		return dir, nil, err
	}
	dir.Needs, t.out = planned.ResultBytes, dir.Path
	if whole, unknown := filepath.Abs(dir.Path); unknown == nil {
		for _, store := range opened.Stores() {
			err = errors.Join(err, datasets.NoteRun(store, whole))
		}
	}
	if err != nil {
		dir.Discard()
		return dir, nil, err
	}
	err = checkResults(planned, dir.Path, job.Options.OffloadFolder(), job.LocalWorkers)
	if err == nil {
		e, err = t.newEvents(cmd.ErrOrStderr()) // its folder may be the run's
	}
	if err != nil {
		dir.Discard()
	}
	return dir, e, err
}
