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
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"weft/checkpoint"
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/graph"
	"weft/graph/columns"
	"weft/graph/datasets"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/tensor"
	"weft/tensor/offload"
	"weft/train"
	"weft/train/plan"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

type trainCommand struct {
	settings    cli.SettingFlags
	tables      data.TablesGiven
	out         string
	resume      string
	trace       string
	embeddings  string
	json        bool
	showPlan    bool
	seeds       int
	tensorboard string
	splits      string
	cpuProfile  string
	watch       int
	follow      bool
	turns       bool     // --partitions auto: partitions are to be chosen
	offload     string   // where they are to rest
	live        *live    // of the first rank, over several runs
	of          *several // the runs of which this is one; nil: it is the only one
}

// NewTrain makes the command train.
func NewTrain() *cobra.Command {
	t := &trainCommand{}
	cmd := &cobra.Command{
		Use:   "train DATASET|STORE",
		Short: "train a model on a whole graph",
		Long: `train trains a model on a whole graph and writes a run directory: run.yaml (its settings), metrics.jsonl (a line per
epoch), checkpoints/, model.safetensors (the weights of the best epoch), predictions.npy (a row of logits per vertex) and run.json,
written last. --resume continues a run from its last checkpoint, to the same bits as if it had never stopped, or on another mesh.

The best epoch is the first with the highest validation metric, or with --select loss the first with the lowest validation loss.
The results are computed with its weights. Without validation vertices the best epoch is the last one.

With --validate STORE validation and test vertices are those of another store, such as graphs that the model does not see in training.

With --seeds N it trains N times, with the seeds from that of --seed on, and prints the mean and the sample standard deviation (n − 1) of the runs. With
--splits all it trains on each stored split. Each run has a directory below that of --out.

With --task link, link prediction learns edges instead of classes. The model computes an embedding of each vertex, and a decoder scores
an edge from the embeddings of its ends. Validation and test edges that --link-split draws pass no messages. Where the store has a split of edges, its
edges pass messages, whatever the split has. predictions.npy then holds the embeddings.

A signal (SIGINT, SIGTERM, SIGHUP or SIGUSR1) ends the run after the current epoch, with a checkpoint, and keeps the results. A second SIGINT that comes a
second later or more stops at once.`,
		Example: `  weft train debian
  weft train cora --config cora-gcn --seed 3
  weft train stores/mine --model gat --hidden 64 --heads 8 --epochs 500 --patience 50
  weft train stores/mine --model sage --json --out runs/first > runs/first.json
  weft train stores/mine --seeds 10
  weft train stores/minesweeper --splits all
  weft train stores/ppi-train --validate stores/ppi-val
  weft train --resume runs/first --epochs 400
  weft train stores/mine --out runs/long --resume auto --max-time 3h50m`,
		Annotations:       map[string]string{cli.JoinsRanks: ""},
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteGraph),
		Args:              t.tables.Arguments(0, 1),
		RunE:              t.run,
	}
	t.settings.Add(cmd.Flags())
	t.tables.Add(cmd, true)
	cmd.Flags().StringVar(&t.out, "out", "", "run `directory`, new or empty (default: a new folder "+
		"under runs/)")
	cmd.Flags().StringVar(&t.resume, "resume", "", "`run` directory to continue from its last checkpoint; "+
		"auto: that of --out, if a run has begun there")
	cmd.Flags().StringVar(&t.trace, "trace", "", "`file` for a trace of the last epoch of every worker, "+
		"which ui.perfetto.dev shows")
	cmd.Flags().StringVar(&t.embeddings, "embeddings", "",
		inference.EmbeddingsUsage+", with the weights of the best "+
			"epoch")
	cmd.Flags().IntVar(&t.seeds, "seeds", 0, "`number` of runs with one seed each, from --seed on; prints "+
		"their mean and sample standard deviation, n − 1 (default: one run)")
	cmd.Flags().StringVar(&t.splits, "splits", "", "all: a run on each stored split, with each seed")
	cmd.Flags().IntVar(&t.watch, "watch", 0, "`port` of a live page of the run, for browsers on this "+
		"machine; 0 takes a free one (default: no page)")
	cmd.Flags().StringVar(&t.tensorboard, "tensorboard", "", "`folder` for event files of losses, "+
		"metrics, seconds and memory, which TensorBoard shows")
	cmd.Flags().StringVar(&t.cpuProfile, "cpuprofile", "", "`file` for a CPU profile of this process, for "+
		"go tool pprof; the kernels stand in it as calls of C")
	cmd.Flags().BoolVar(&t.json, "json", false, "print the results as one JSON object; progress goes to "+
		"standard error")
	ui.AddQuiet(cmd.Flags())
	cmd.Flags().BoolVar(&t.follow, "follow", false, "print each epoch as a JSON object too, on a line, and "+
		"wait for a line of standard input, unless that has ended: an empty one goes on, stop ends the run "+
		"as a signal does; with --json")
	cmd.Flags().BoolVar(&t.showPlan, "show-plan", false,
		"print what the run would do and need, without training")
	cmd.Flags().BoolVar(&t.showPlan, "explain", false, "the former name of --show-plan")
	cmd.Flags().Lookup("explain").Hidden = true
	return cmd
}

func (t *trainCommand) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("explain") {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: --explain of train is now --show-plan; the next version "+
			"has the new name alone")
	}
	err := t.checkSeveral(cmd.Flags().Changed("seeds"))
	if err == nil {
		err = checkFollow(t.follow, t.json)
	}
	several := t.isSeveral() && !t.showPlan // which is of the first
	var (
		run      *resumption
		settings *setting.Resolved
		auto     bool
	)
	if err == nil && !several {
		run, err = t.findRun(args)
	}
	if err == nil {
		settings, auto, err = t.settle(run)
	}
	return cli.AsRank(cmd, settings, err, func(r cli.Ranks) error {
		if err := run.agree(r); err != nil {
			return err
		}
		stop, err := t.profile(r)
		if err != nil {
			return err
		}
		defer stop()
		if cmd.Flags().Changed("watch") && !t.showPlan {
			if err := r.OnFirst(func() (err error) {
				t.live, err = newLive(t.watch)
				return err
			}); err != nil {
				return err
			}
			defer func() { t.live.close() }()
		}
		if run != nil {
			if len(args) > 0 && run.graph == run.state.Store {
				t.tables = data.TablesGiven{} // the run has the store that was made with them
			}
			return t.resumeRun(cmd, r, run, settings, nil)
		}
		if auto {
			if settings, err = t.choose(cmd, r, args[0], settings); err != nil {
				return err
			}
		}
		if t.turns {
			if settings, err = t.chooseTurns(cmd, r, args[0], settings); err != nil {
				return err
			}
		}
		if several {
			return t.trainSeveral(cmd, r, args, settings)
		}
		return t.train(cmd, r, args[0], settings, nil, nil)
	})
}

// resumeRun continues a run, or tells that it has ended. opened is as for train.
func (t *trainCommand) resumeRun(
	cmd *cobra.Command, r cli.Ranks, run *resumption, settings *setting.Resolved, opened *session.Session,
) (err error) {
	show := ui.ProgressOf(cmd, t.json)
	// Rank 0 decides: the others may see files of the run that a file system has cached
	ended, err := cli.Decided(r, func() (bool, error) {
		done, err := run.finished(settings)
		if done == nil || err != nil {
			return false, err
		}
		if err := run.checkMoved(); err != nil {
			return false, err
		}
		if t.embeddings != "" {
			return false, refusal.Errorf("--embeddings %s: the run has ended; weft predict %s "+
				"--embeddings %[1]s computes them", t.embeddings, run.path)
		}
		fmt.Fprintf(show, "%s: the run has ended: %s\n", ui.Printable(run.path), ui.Printable(done.Reason))
		return true, t.printRun(cmd.OutOrStdout(), show, done)
	})
	if err != nil || ended {
		return err
	}
	settings, err = run.open(r, settings, cmd.ErrOrStderr())
	if run.dir != nil {
		defer func() {
			if run.dir != nil { // nothing was done
				run.dir.Discard()
			}
		}()
	}
	if run.from != nil {
		defer func() { err = errors.Join(err, run.from.Close()) }()
	}
	if err := r.Together(err); err != nil {
		return err
	}
	return t.train(cmd, r, run.graph, settings, run, opened)
}

// source is the graph of that name. Labels of tables are divided as data.DefaultSplit says, unless a rule is
// given.
func (t *trainCommand) source(dataset string) data.Source {
	s := t.tables.Of(dataset)
	s.Train = "weft train"
	o, err := t.settings.Merge()
	s.Label = err == nil && o.Task == task.Vertex && o.EdgeLabel == ""
	if err == nil {
		s.DivideBy(o.Split.Rule)
	}
	return s
}

// open opens the graphs of a run.
func (t *trainCommand) open(
	cmd *cobra.Command, r cli.Ranks, dataset string, settings *setting.Resolved, show io.Writer,
) (*session.Session, error) {
	id := "" // of the store, before it is opened
	admit := func(store string) error {
		err := t.eachFile(func(flag, path string) error {
			return cli.CheckApartFromGraph(flag, path, dataset, store)
		})
		if err == nil && !t.showPlan {
			id, _ = graph.ID(store) // who opens a store says what is wrong with it
		}
		return err
	}
	of := t.source(dataset)
	s, err := session.Open(cmd.Context(), r, of, settings, show,
		session.Opening{Admit: admit, Check: settings.CheckGraph, Dry: t.showPlan})
	if err != nil {
		return nil, err
	}
	err = s.OpenValidation(cmd.Context(), settings, cmd.ErrOrStderr())
	if err == nil && !t.showPlan {
		err = s.Hold(id)
	}
	if err == nil {
		err = warnSkewed(cmd.ErrOrStderr(), s, &settings.Options)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// train begins a run, or continues one. opened is that of several runs; nil: the graph is to be opened.
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
	one, store := *opened.Job, opened.Store
	job := &one
	if t.of != nil {
		job.Options = settings.Options // with a seed and a split of its own
	}
	of, err := columnsOfStart(settings, run)
	if err == nil {
		err = data.TrainedOn(job, of, settings.Init, dataset, cmd.ErrOrStderr())
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
	said, err := t.plan(cmd, r, dataset, job, settings, opened)
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
	// Here, as no signal may end a process that has begun a folder
	ctx, stop := UntilStopped(cmd.Context(), r, &made, store, progress)
	defer stop()
	dir, events, err := t.directory(cmd, r, run, started, job, said.Plan, opened)
	made.Store(dir)
	defer func() { events.close() }()
	if err := r.Together(err); err != nil {
		return err
	}
	if job.Checkpoints.Path, err = r.SharedPath(filepath.Join(t.out, rundir.Checkpoints)); err != nil {
		return err
	}
	job.Checkpoints.Spare = said.ResultBytes
	warn := func(format string, args ...any) { progress.Warn(cmd.ErrOrStderr(), format, args...) }
	job.Started, job.Checkpoints.OnSaved = ui.ProcessStart, func(s train.Saved) {
		if s.Err != nil && !dir.Gone() { // else the run says so itself
			warn("no checkpoint of epoch %d: %v; the run goes on", s.Epoch, s.Err)
		}
	}
	if said.Card != nil && settings.Workers > 1 {
		fmt.Fprintf(show, "--device %s: %s\n", settings.Device, said.Card)
	}
	fmt.Fprintf(show, "%s: needs %s for tensors and %s for the graph\n", ui.Printable(job.Dataset),
		eachWorker(said.PeakTensorBytes), ui.Megabytes(slices.Max(said.GraphBytes)))
	if settings.EvalEvery == setting.AutoEvery && settings.OwnPass() == "" && !said.Workers[0].Later {
		fmt.Fprintln(show, planning.ReadEvaluations)
	}
	if said.Limited() {
		fmt.Fprintln(show, said.Recomputed())
	}
	if states := said.EdgeStates(); states != nil && states.Kept < states.Of {
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
		result, err = dir.Record(ctx, job, said.Plan, cli.Version)
	} else {
		result, err = job.RunPlanned(ctx, said.Plan)
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
	if result.Interrupted() && (!stopped || t.of == nil) { // of several runs the others go on
		return r.Part(t.interrupted(result, &settings.Options))
	}
	return nil
}

// warnOutdated says that the files which the store of a run was made of have changed.
func warnOutdated(warnings io.Writer, store string) {
	if changed := datasets.Outdated(store); len(changed) > 0 {
		fmt.Fprintf(warnings, "weft: warning: %s: has changed since the run began, which continues on the "+
			"graph as it was\n", ui.Printable(refusal.List(changed, 3)))
	}
}

// columnsOfStart are the columns of what training starts from: of the checkpoint that a run continues from,
// or of initial weights; nil: none, or none are known.
func columnsOfStart(settings *setting.Resolved, run *resumption) (columns.ByType, error) {
	switch {
	case run != nil && run.from != nil:
		return run.record.Columns, nil
	case settings.Init != "":
		return rundir.ColumnsOf(settings.Init)
	}
	return nil, nil
}

// checkFirst makes the checks that need no graph.
func (t *trainCommand) checkFirst(cmd *cobra.Command, r cli.Ranks, settings *setting.Resolved,
	run *resumption,
) error {
	if run == nil || run.from == nil {
		err := cli.CheckInit(settings.Init)
		if settings.Program.Path != "" && settings.Init == "" && !t.showPlan {
			err = refusal.Errorf("--program %s: a program has no initial values; give those of the model: "+
				"--init FILE.safetensors", settings.Program)
		}
		if err := r.Together(err); err != nil {
			return err
		}
	}
	if folder := settings.OffloadFolder(); folder != "" {
		if err := r.Together(offload.Check(folder)); err != nil {
			return err
		}
	}
	if settings.DeviceMessages && !t.showPlan {
		if err := r.Together(train.CheckMessages(r.Comm)); err != nil {
			return err
		}
	}
	cli.WarnUnused(cmd.ErrOrStderr(), settings)
	return r.OnFirst(func() error {
		if run == nil && !t.showPlan {
			if err := rundir.CheckNew(t.out); err != nil {
				return err
			}
		}
		return t.checkBeside(settings)
	})
}

// plan plans the job, prints the plan with --show-plan, and refuses a run for which memory or the disk is too
// small.
func (t *trainCommand) plan(cmd *cobra.Command, r cli.Ranks, dataset string, job *train.Job,
	settings *setting.Resolved, opened *session.Session,
) (said planning.Planned, err error) {
	var made plan.Plan
	if err = session.DivideOnce(cmd.Context(), settings, job, job.Validate); err == nil {
		shown := ui.NewStages(ui.BesideResults(cmd))
		if r.First() {
			shown.Show("planning the run", 0, 0)
		}
		made, err = job.PlanWith(cmd.Context(), plan.Asks{Range: t.showPlan})
		shown.Erase()
	}
	if err := r.Together(data.About(t.source(dataset), session.Advised(err))); err != nil {
		return said, err
	}
	said = planning.PlanOf(job, settings, &made)
	for _, line := range said.Warnings() {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+line)
	}
	if t.showPlan {
		if err := said.Print(cmd.OutOrStdout(), t.json); err != nil {
			return said, err
		}
	}
	exceeds := cmp.Or(made.CheckLimit(settings.MemoryLimit),
		checkMachine(&made, &settings.Options, job.LocalWorkers))
	if exceeds != nil && !t.turns {
		exceeds = wayOut(cmd, job, settings, opened, &made, exceeds)
	}
	return said, r.Together(cmp.Or(exceeds,
		made.CheckHost(settings.HostMemoryLimit, job.LocalWorkers),
		checkDisk(&made, settings.OffloadFolder(), job.LocalWorkers),
		cli.CheckFiles((settings.Mesh.Workers()+r.Comm.Size()-1)/r.Comm.Size())))
}

// directory makes the directory of a planned run, or continues in that of run, and opens what follows the run
// besides. It does so on the first rank alone.
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
		e, err = t.newEvents(cmd.ErrOrStderr()) // its folder may be that of the run
	}
	if err != nil {
		dir.Discard()
	}
	return dir, e, err
}

// interrupted is the error of a run that stopped before its end and has results.
func (t *trainCommand) interrupted(result *train.Result, o *setting.Options) error {
	err := fmt.Errorf("%w after epoch %d; the results so far are in %s", launch.ErrInterrupted,
		result.Epochs, t.out)
	if result.Ended == train.EndedTime {
		err = fmt.Errorf("--max-time %s: %w", o.MaxTime, err)
	}
	if o.CheckpointEvery != (setting.Interval{}) && t.of == nil {
		err = fmt.Errorf("%w; continue with weft train --resume %s", err, t.out)
	}
	return err
}

// checkpoints say where the run keeps its checkpoints, and which it continues from. It refuses to continue on
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
	job.Dataset = cmp.Or(run.state.Dataset, job.Dataset) // a state that was lost names none
	if c.From = run.from; c.From == nil {
		return c, nil
	}
	return c, s.OnFirst(func() error {
		return run.checkStore(s)
	})
}

// failed is the error of a run that has come to no result. dir is nil on ranks other than 0.
func (t *trainCommand) failed(dataset, store string, dir *rundir.Dir, err error) error {
	switch {
	case dir == nil:
	case !dir.Worked() && (refusal.Is(err) || errors.Is(err, launch.ErrInterrupted)):
		dir.Discard()
		err = data.About(t.source(dataset), err)
	default:
		if !dir.Gone() {
			err = errors.Join(err, dir.Fail(err))
		}
		err = incomplete(dir, store, err)
		if refusal.Is(err) { // the work has failed, whatever the error is of
			err = errors.New(err.Error())
		}
	}
	return err
}

// printRun prints the results of a run: for programs, or for the eye.
func (t *trainCommand) printRun(out, show io.Writer, run *rundir.Run) error {
	if t.of != nil {
		t.of.add(show, run)
		return nil
	}
	if !t.json {
		printResults(out, run)
		return nil
	}
	if err := ui.PrintJSON(out, run.Summary); err != nil {
		return fmt.Errorf("%w; the results are in %s", err, t.out)
	}
	return nil
}

// incomplete says what is left of a run that failed, and what can be done with it.
func incomplete(dir *rundir.Dir, store string, err error) error {
	kept := dir.Results()
	epochs, unread := checkpoint.Epochs(filepath.Join(dir.Path, rundir.Checkpoints))
	continues := len(epochs) > 0 || unread != nil
	switch {
	case dir.Gone():
		return fmt.Errorf("%w; nothing of the run is kept", err)
	case len(kept) > 0:
		err = fmt.Errorf("%w; %s is incomplete, but has %s of the best epoch: weft predict --init "+
			"%[2]s/%[4]s --config %[2]s/run.yaml %[5]s --out FILE",
			err, dir.Path, strings.Join(kept, " and "), kept[0], store)
	case continues:
	case errors.As(err, new(*train.Diverged)):
		err = fmt.Errorf("%w; %s is incomplete: remove it, or name another folder with --out", err, dir.Path)
	default:
		err = fmt.Errorf("%w; %s is incomplete: begin the run again with weft train --resume %[2]s, "+
			"or remove it", err, dir.Path)
	}
	if continues {
		err = fmt.Errorf("%w; continue the run with weft train --resume %s", err, dir.Path)
	}
	return err
}

// unfinished says what a signal may leave of a run. dir is nil on ranks other than 0.
func unfinished(dir *rundir.Dir) string {
	if dir == nil {
		return ""
	}
	return fmt.Sprintf("; %s is incomplete until it has a run.json", dir.Path)
}

// UntilStopped is the context of a run, which the first signal ends after its epoch. made holds nil on ranks
// other than 0, and until the directory is there.
func UntilStopped(parent context.Context, r cli.Ranks, made *atomic.Pointer[rundir.Dir], store string,
	progress *ui.Progress,
) (ctx context.Context, stop func()) {
	return cli.UntilSignal(parent, func(s os.Signal) {
		r.SayWaiting(parent, s, unfinished(made.Load()))
		progress.Say("weft: %s: finishing the epoch and keeping the results; interrupt again to stop at once",
			s)
	}, func() {
		progress.End()
		switch dir := made.Load(); {
		case dir != nil:
			fmt.Fprintln(os.Stderr, ui.OneLine(abandoned(dir, store)))
		case r.First():
			fmt.Fprintln(os.Stderr, ui.OneLine(launch.ErrInterrupted))
		}
	})
}

// abandoned says what is left of a run that a second interrupt ended: all, where the first came too late to
// matter.
func abandoned(dir *rundir.Dir, store string) error {
	if _, err := os.Stat(filepath.Join(dir.Path, "run.json")); err == nil {
		return fmt.Errorf("%w; the results are in %s", launch.ErrInterrupted, dir.Path)
	}
	return incomplete(dir, store, launch.ErrInterrupted)
}

// checkMachine refuses a plan without a memory limit, of which the workers on this machine (0: all) need more
// than it has.
func checkMachine(p *plan.Plan, o *setting.Options, here int) error {
	machine, all := cli.MachineMemory(), int64(0)
	for worker, tensors := range p.PeakTensorBytes {
		all += tensors + p.GraphBytes[worker]
	}
	if here > 0 {
		all = all / int64(len(p.PeakTensorBytes)) * int64(here)
	}
	if o.MemoryLimit == 0 && !o.OnCard() && machine > 0 && all > machine {
		return refusal.Errorf("the run would need %s, and this machine has %s of memory; take %s, or try "+
			"all the same with a --memory-limit",
			setting.Bytes(all).RoundedUp(), ui.Megabytes(machine), p.Resting())
	}
	return nil
}

// checkDisk refuses a folder whose disk has less room than what rests there of the workers on this machine;
// here as for checkMachine.
func checkDisk(p *plan.Plan, dir string, here int) error {
	rests := resting(p, here)
	if dir == "" || rests == 0 {
		return nil
	}
	free, known, err := offload.Free(dir)
	if err != nil {
		return refusal.Errorf("--offload %s: %w", dir, err)
	}
	if known && free < rests {
		return refusal.Errorf("--offload %s: %s would rest there at the peak, but only %s are free; free "+
			"some room there, name another folder, or raise --memory-limit", dir,
			setting.Bytes(rests).RoundedUp(), ui.Megabytes(free))
	}
	return nil
}

// resting is what rests on disk of the workers on this machine (0: all).
func resting(p *plan.Plan, here int) int64 {
	if here > 0 {
		return p.DiskBytes() / int64(len(p.Workers)) * int64(here)
	}
	return p.DiskBytes()
}

// checkResults refuses a run directory whose disk has less room than the results take, beside what rests
// there; here as for checkMachine.
func checkResults(p *plan.Plan, out, rests string, here int) error {
	free, known, err := atomicfile.Free(out)
	if err != nil || !known {
		return err
	}
	needs, beside := p.ResultBytes, ""
	if rests != "" && resting(p, here) > 0 && offload.OnDiskOf(rests, out) {
		needs += resting(p, here)
		beside = ", beside the " + ui.Megabytes(resting(p, here)) + " that rest on that disk"
	}
	if free < needs {
		return refusal.Errorf("--out %s: weights and predictions take %s there%s, and %s are free; free "+
			"some room there, or name a folder on another disk", out, ui.Megabytes(p.ResultBytes), beside,
			ui.Megabytes(free))
	}
	return nil
}

// eachWorker is the largest of the workers' amounts.
func eachWorker(bytes []int64) string {
	if len(bytes) == 1 {
		return ui.Megabytes(bytes[0])
	}
	return fmt.Sprintf("at most %s on each of %d workers", ui.Megabytes(slices.Max(bytes)), len(bytes))
}

// printResults draws the results for the eye.
func printResults(out io.Writer, run *rundir.Run) {
	s := &run.Summary
	t := ui.NewTable(out)
	vertices, features := ui.Counted(s.Graph.Vertices, "vertex", "vertices"),
		ui.Counted(s.Graph.Features, "feature", "features")
	if others := s.Graph.Others; others > 0 {
		vertices += fmt.Sprintf(" of %s types", ui.Count(1+others))
	}
	if s.Graph.Features == 0 {
		features = "no features"
	}
	labels := ui.Counted(s.Graph.Classes, "class", "classes")
	if s.Graph.Values > 0 {
		labels = data.ValuesToPredict(s.Graph.Values)
	}
	t.Row("model", fmt.Sprintf("%s on %s: %s, %s, %s, %s", s.Model, s.Dataset,
		vertices, ui.Counted(s.Graph.Edges, "edge", "edges"), features, labels))
	if v := s.Validation; v != nil {
		t.Row("validated", fmt.Sprintf("on %s: %s, %s", run.Settings["validate"],
			ui.Counted(v.Vertices, "vertex", "vertices"), ui.Counted(v.Edges, "edge", "edges")))
	}
	t.Row("epochs", fmt.Sprintf("%s, best %s; ended: %s", ui.Count(s.EpochsRun), ui.Count(s.BestEpoch),
		run.Reason))
	if l := s.Links; l != nil {
		t.Row("edges", data.Sizes(l.TrainEdges, l.ValEdges, l.TestEdges))
		for _, r := range ui.LinkRows(l.Val, l.Test) {
			t.Row(r.Name, ui.ValAndTest(r.Name, r.Val, r.Test))
		}
	} else {
		t.Row(s.Metric, fmt.Sprintf("train %s  %s", ui.Measured(s.Metric, s.Train),
			ui.ValAndTest(s.Metric, s.Val, s.Test)))
	}
	t.Row("time", fmt.Sprintf("%s an epoch, %s in all", ui.Duration(ui.Seconds(s.EpochSecondsMedian)),
		ui.Duration(run.Finished.Sub(run.Started))))
	t.Row("memory", fmt.Sprintf("%s tensors, %s graph, %s resident at the peak",
		ui.Megabytes(slices.Max(s.PeakTensorBytes)), ui.Megabytes(slices.Max(s.GraphBytes)),
		ui.Megabytes(s.PeakRSSBytes)))
	if s.Device != nil {
		t.Row("device", ui.Used(s.Device))
	}
	if moved := s.Disk; moved != (tensor.Moved{}) {
		t.Row("disk", fmt.Sprintf("%s written and %s read an epoch", ui.Megabytes(moved.Written),
			ui.Megabytes(moved.Read)))
	}
	if s.Workers > 1 {
		t.Row("workers", fmt.Sprintf("%d (%s): %s of rows and gradients between them an epoch, each "+
			"waiting at most %s of it",
			s.Workers, s.Parallel, ui.Megabytes(s.Communication.Halo.Bytes+s.Communication.Layout.Bytes+
				s.Communication.Stage.Bytes+s.Communication.Links.Bytes),
			ui.Percent(s.WaitShare)))
		busiest := []string{fmt.Sprintf("sends %.2f", worker.Imbalance(s.SentBytes))}
		if slices.Max(s.EdgeColumns) > 0 {
			busiest = slices.Insert(busiest, 0,
				fmt.Sprintf("aggregates %.2f", worker.Imbalance(s.EdgeColumns)))
		}
		if late := run.Settings["halo-delay"]; late != "" && late != "0" {
			t.Row("halo", "an epoch late, which makes training approximate")
		}
		t.Row("balance", fmt.Sprintf("the busiest worker %s times the mean", strings.Join(busiest, " and ")))
	}
	if len(s.Stages) > 0 {
		bubble, waited, all := 0.0, 0.0, 0.0
		for _, stage := range s.Stages {
			bubble, waited = bubble+stage.Bubble, waited+stage.Wait
			all += stage.Compute + stage.Bubble + stage.Wait
		}
		all = max(all, 1e-9)
		t.Row("stages", fmt.Sprintf("the busiest computes %.2f times the mean; %s of their time goes by "+
			"while the pipeline fills and drains, %s in other waits",
			s.StageImbalance, ui.Percent(bubble/all), ui.Percent(waited/all)))
		for k, stage := range s.Stages {
			t.Row(fmt.Sprintf("stage %d", k), fmt.Sprintf("%s: computes %s, idle %s while it fills and "+
				"drains and %s otherwise, sends %s",
				planning.Who(&stage.Stage), ui.Duration(ui.Seconds(stage.Compute)),
				ui.Duration(ui.Seconds(stage.Bubble)),
				ui.Duration(ui.Seconds(stage.Wait)), ui.Megabytes(stage.Sent)))
		}
	}
	t.Row("run", filepath.Clean(s.RunDir))
	t.Flush()
}
