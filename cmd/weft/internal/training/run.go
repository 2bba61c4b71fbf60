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

// training is one training: what it was asked for, and what its steps make.
type training struct {
	t        *trainCommand
	cmd      *cobra.Command
	ranks    cli.Ranks
	dataset  string
	settings *setting.Resolved
	run      *resumption      // nil: the run begins
	opened   *session.Session // nil until the graph is open
	show     io.Writer

	job      *train.Job
	embedded func() error // writes the embeddings
	planned  planning.Planned
	started  time.Time
	progress *ui.Progress
	made     atomic.Pointer[rundir.Dir]
	dir      *rundir.Dir // nil on all ranks but the first
	events   *events
	ctx      context.Context // of the signals that stop the run
	follower *follower
	result   *train.Result
	ends     []func() // in the order of what they end
}

// train begins a run, or continues one. opened is the session of several runs; nil: the graph must be opened.
func (t *trainCommand) train(
	cmd *cobra.Command, r cli.Ranks, dataset string, settings *setting.Resolved, run *resumption,
	opened *session.Session,
) error {
	w := &training{t: t, cmd: cmd, ranks: r, dataset: dataset, settings: settings, run: run, opened: opened}
	defer func() {
		for _, end := range w.ends {
			defer end()
		}
	}()
	steps := []func() error{w.check, w.open, w.start, w.plan}
	if !t.showPlan {
		steps = append(steps, w.makeDirectory, w.describe, w.compute, w.finish)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *training) check() error {
	w.show = ui.ProgressOf(w.cmd, w.t.json)
	return w.t.checkFirst(w.cmd, w.ranks, w.settings, w.run)
}

func (w *training) open() (err error) {
	if w.opened == nil {
		if w.opened, err = w.t.open(w.cmd, w.ranks, w.dataset, w.settings, w.show); err == nil {
			w.ends = append(w.ends, func() { w.opened.Close() })
		}
	}
	return err
}

// start makes the job, with what training starts from, and says how a run continues.
func (w *training) start() error {
	clone, run, settings := *w.opened.Job, w.run, w.settings
	job := &clone
	w.job = job
	if w.t.group != nil {
		job.Options = settings.Options // with a seed and a split of its own
	}
	byType, err := columnsOfStart(settings, run)
	if err == nil {
		err = data.TrainedOn(job, byType, settings.Init, w.dataset, w.cmd.ErrOrStderr())
	}
	if err := w.ranks.Together(err); err != nil {
		return err
	}
	if job.Checkpoints, err = w.t.checkpoints(w.opened, job, run); err != nil {
		return err
	}
	if w.embedded, err = w.t.takeEmbeddings(w.opened, job, settings); err != nil {
		return err
	}
	w.t.settings.SayDevice(w.show)
	if run == nil {
		return nil
	}
	if w.ranks.First() {
		warnOutdated(w.cmd.ErrOrStderr(), w.opened.Store)
	}
	fmt.Fprintln(w.show, ui.Printable(run.line(settings.Epochs)))
	if was := run.before.Device; run.from != nil && was.IsCard() != settings.OnCard() {
		fmt.Fprintf(w.show, "--device %s: the run was on %s, so that its numbers are the same up to rounding, "+
			"and not to the bit\n", settings.Device, was)
	}
	return nil
}

func (w *training) plan() (err error) {
	w.planned, err = w.t.plan(w.cmd, w.ranks, w.dataset, w.job, w.settings, w.opened)
	return err
}

// makeDirectory makes the directory of the run. No signal may end a process that has begun one.
func (w *training) makeDirectory() (err error) {
	folder, job, store := w.settings.OffloadFolder(), w.job, w.opened.Store
	if _, err := os.Lstat(folder); folder != "" && errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w.show, "--offload %s: there is no such folder; the run makes it\n", ui.Printable(folder))
	}
	w.started, w.progress = time.Now(), ui.NewProgress(w.show, &w.settings.Options)
	ctx, stop := UntilStopped(w.cmd.Context(), w.ranks, &w.made, store, w.progress)
	w.ctx, w.ends = ctx, append(w.ends, w.progress.End, stop, func() { w.events.close() })
	w.dir, w.events, err = w.t.directory(w.cmd, w.ranks, w.run, w.started, job, w.planned.Plan, w.opened)
	w.made.Store(w.dir)
	if err := w.ranks.Together(err); err != nil {
		return err
	}
	job.Checkpoints.Path, err = w.ranks.SharedPath(filepath.Join(w.t.out, rundir.Checkpoints))
	return err
}

// describe says what the run needs and does, and where it can be followed.
func (w *training) describe() error {
	show, settings, planned := w.show, w.settings, &w.planned
	if planned.Cards != nil && settings.Workers > 1 {
		fmt.Fprintf(show, "--device %s: %s\n", settings.Device, planned.Cards)
	}
	fmt.Fprintf(show, "%s: needs %s for tensors and %s for the graph\n", ui.Printable(w.job.Dataset),
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
	if live := w.t.live; live != nil {
		live.begin(w.t.out)
		live.tell(&w.job.Options, w.progress.Remaining)
		live.reportTo(w.warn)
		fmt.Fprintf(show, "%s: live at %s\n", ui.Printable(w.t.out), live.url())
	}
	return nil
}

func (w *training) warn(format string, args ...any) {
	w.progress.Warn(w.cmd.ErrOrStderr(), format, args...)
}

// compute trains, until the run ends or is stopped.
func (w *training) compute() (err error) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.ends = append(w.ends, cancel)
	job, dir := w.job, w.dir
	w.follower = newFollower(w.cmd, w.t.follow)
	job.Trace, job.Started = w.t.trace != "", ui.ProcessStart
	job.Checkpoints.KeepFree = w.planned.ResultBytes
	job.Checkpoints.OnSaved = func(s train.Saved) {
		if s.Err != nil && !dir.Gone() { // otherwise the run itself says so
			w.warn("no checkpoint of epoch %d: %v; the run goes on", s.Epoch, s.Err)
		}
	}
	job.OnEpoch = func(e train.Epoch) {
		w.progress.Epoch(e)
		w.events.epoch(e)
		w.t.live.epoch(e)
		if w.follower.epoch(e) {
			cancel()
		}
	}
	if dir != nil {
		w.result, err = dir.Record(ctx, job, w.planned.Plan, cli.Version)
	} else {
		w.result, err = job.RunPlanned(ctx, w.planned.Plan)
	}
	w.progress.End()
	if w.result == nil {
		w.t.live.end("the run has failed: " + fmt.Sprint(err))
		return w.t.failed(w.dataset, w.opened.Store, dir, session.Advised(err))
	}
	if err != nil {
		err = incomplete(dir, w.opened.Store, err)
	}
	return w.ranks.Together(err)
}

// finish writes and prints the results. It is an error if the run diverged or was interrupted.
func (w *training) finish() error {
	t, r, result := w.t, w.ranks, w.result
	resident, err := r.Largest(cli.PeakResident())
	if err != nil {
		return err
	}
	stopped, err := cli.Decided(r, func() (bool, error) {
		return result.Ended == train.EndedSignal && w.follower.hasStopped() && w.ctx.Err() == nil, nil
	})
	if err != nil {
		return err
	}
	if err := r.OnFirst(func() error { return w.write(resident, stopped) }); err != nil {
		return err
	}
	if result.Diverged != nil {
		return r.Part(fmt.Errorf("%w; the results of epoch %d, the best before, are in %s", result.Diverged,
			result.BestEpoch, t.out))
	}
	if result.Interrupted() && (!stopped ||
		t.group == nil) { // when one of several runs ends, the others go on
		return r.Part(t.interrupted(result, &w.settings.Options))
	}
	return nil
}

// write writes and prints the results on the first rank. resident are the bytes of the largest process, and
// stopped says that a callback ended the run.
func (w *training) write(resident int64, stopped bool) error {
	t, dir, stored := w.t, w.dir, w.opened.Stored
	t.out = dir.Path
	run := rundir.NewRun(cli.Version, w.opened.Store, w.started, w.job, w.result)
	run.Summary.PeakRSSBytes = resident
	run.ClassNames, run.GraphID = stored.ClassNames(w.settings.EdgeLabel), stored.ID
	if stopped {
		run.Reason = "stopped by a callback"
	}
	err := calibrated(&run, filepath.Join(dir.Path, rundir.Predictions), stored, &w.settings.Options)
	if err == nil {
		err = dir.Finish(&run)
	}
	if err != nil {
		return incomplete(dir, w.opened.Store, err)
	}
	t.live.end(fmt.Sprintf("ended: %s; %s", run.Reason, best(&run)))
	printed := t.printRun(w.cmd.OutOrStdout(), w.show, &run)
	return cmp.Or(printed, t.writeTrace(w.show, &run, w.result.Trace), w.embedded())
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
