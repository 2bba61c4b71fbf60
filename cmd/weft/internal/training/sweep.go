package training

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/reports"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/internal/regular"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/sweep"
	"weft/train/task"
)

type sweepCommand struct {
	out     string
	jobs    int
	maxTime string
	json    bool
	follow  bool
	claimed *os.File // locks the folder

	mu       sync.Mutex // guards the following fields
	follower *follower
	tables   data.TablesGiven
}

// NewSweep makes the command sweep.
func NewSweep() *cobra.Command {
	c := &sweepCommand{}
	cmd := &cobra.Command{
		Use:   "sweep FILE.yaml [DATASET|STORE]",
		Short: "train with many settings, and find the best by validation",
		Long: `sweep trains with each combination of settings that a file asks for, and prints what weft runs does: the best by validation first.
The file has the names of weft train's flags:

  dataset: stores/cora            # or on the command line
  config: cora-gcn                # a file or a name, optional, for all runs
  settings: {epochs: 100}         # of all runs
  seeds: 3                        # runs of each combination
  grid:                           # every combination; or instead of it
    lr: [0.01, 0.005]
    hidden: [16, 64]
  random:                         # so many combinations, drawn
    runs: 20
    seed: 1
    settings:
      lr: {log-uniform: [1e-4, 1e-1]}
      dropout: {uniform: [0, 0.7]}
      layers: {integers: [2, 4]}
      hidden: [16, 32, 64]

With seeds the table has a row for each combination, with the mean and the sample standard deviation (n − 1) of its runs.

Each combination has a folder below that of --out. A sweep that was interrupted, or whose --max-time is over, goes on with the same command:
runs that have ended stay as they are, and others continue from their last checkpoint. A max-time among the settings is of each combination.`,
		Example: "  weft sweep sweep.yaml stores/cora\n  weft sweep sweep.yaml --jobs 2 --out " +
			"runs/sweep --max-time 3h50m",
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteFiles, cli.CompleteGraph),
		Args:              c.tables.Arguments(1, 2),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.tables.Add(cmd, true)
	cmd.Flags().StringVar(&c.out, "out", "", "`folder` of the runs (default: runs/sweep-FILE)")
	cmd.Flags().IntVar(&c.jobs, "jobs", 1, "`number` of runs beside each other, which share the cores")
	cmd.Flags().StringVar(&c.maxTime, "max-time", "", "`time` as in 3h50m, or 3:50:00 as in Slurm, after "+
		"which the sweep interrupts the runs under way, and begins no others (default: no limit)")
	cmd.Flags().BoolVar(&c.json, "json", false, "print the runs as one JSON object; progress goes to "+
		"standard error")
	cmd.Flags().BoolVar(&c.follow, "follow", false, "print each epoch of each run as weft train --follow "+
		"does, with the run's folder as run_dir, and wait for the answer: stop ends that run; with --json")
	ui.AddQuiet(cmd.Flags())
	return cmd
}

func (c *sweepCommand) run(cmd *cobra.Command, args []string) error {
	if mpi.Launched() {
		return refusal.Errorf("sweep: starts its runs itself; start it without a launcher")
	}
	if c.jobs < 1 {
		return refusal.Errorf("--jobs %d: a number from 1", c.jobs)
	}
	if err := checkFollow(c.follow, c.json); err != nil {
		return err
	}
	limit, err := setting.ParseTime(cmp.Or(c.maxTime, "0"))
	if err != nil {
		return refusal.Errorf("--max-time %s: %w", c.maxTime, err)
	}
	s, err := sweep.Read(args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		s.Dataset = args[1]
	}
	if s.Dataset == "" {
		return refusal.Errorf("%s: names no dataset; give one: weft sweep %[1]s STORE", args[0])
	}
	learnEdges(s, cmd.Flags().Lookup(data.EdgeLabelFlag).Value.String())
	if c.out == "" {
		c.out = filepath.Join("runs", "sweep-"+strings.TrimSuffix(filepath.Base(args[0]),
			filepath.Ext(args[0])))
	}
	show := ui.ProgressOf(cmd, c.json)
	if tables := c.source(args[0], s); len(tables.Flags) > 0 { // all runs read one store
		if s.Dataset, err = data.Resolve(cmd.Context(), tables, show); err != nil {
			return err
		}
	}
	if err := c.claim(s); err != nil {
		return err
	}
	defer c.claimed.Close()
	ctx, stop := cli.UntilSignal(cmd.Context(), func(signal os.Signal) {
		fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: the runs under way keep their results; interrupt again "+
			"to stop at once\n", signal)
	}, func() {})
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, ui.ProcessStart.Add(limit))
		defer cancel()
	}
	c.follower = newFollower(cmd, c.follow)
	failed := c.trainAll(ctx, show, s)
	if err := ctx.Err(); err != nil {
		over := ui.When(errors.Is(err, context.DeadlineExceeded), "--max-time "+c.maxTime+": ")
		return fmt.Errorf("%s%w; the same command goes on: it leaves runs in %s that have ended as they are",
			over, launch.ErrInterrupted, c.out)
	}
	if err := c.print(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.Seeds > 1); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d failed, as said above", ui.Counted(failed, "combination", "combinations"),
			len(s.Combinations))
	}
	return nil
}

// source is the graph of all runs, as for weft train.
func (c *sweepCommand) source(file string, s *sweep.Sweep) data.Source {
	source := c.tables.Source(s.Dataset)
	source.Train = "weft sweep " + refusal.ShellWord(file)
	links, split := false, false
	for _, combination := range s.Combinations {
		for _, a := range combination {
			links = links || a.Setting == "task" && a.Value == task.Link
			split = split || a.Setting == "split"
		}
	}
	source.Label = !links && !source.Given(data.EdgeLabelFlag)
	if !split {
		source.DivideBy("")
	}
	return source
}

// learnEdges has all runs learn the column of --edge-label, if their settings name none.
func learnEdges(s *sweep.Sweep, column string) {
	for k, combination := range s.Combinations {
		named := func(a sweep.Assignment) bool { return a.Setting == data.EdgeLabelFlag }
		if column != "" && !slices.ContainsFunc(combination, named) {
			all := sweep.Assignment{Setting: data.EdgeLabelFlag, Value: column, Shared: true}
			s.Combinations[k] = append(sweep.Combination{all}, combination...)
		}
	}
}

// claim claims the folder of the runs for a sweep. The sweep's identity has checksums of the files that it
// names, and not their folders, if it names them by their whole path: they may lie elsewhere the next time.
func (c *sweepCommand) claim(s *sweep.Sweep) error {
	graph, err := contentsOfStore(s.Dataset)
	if err != nil {
		return err
	}
	about := func(graph string, rest []byte) []byte { return append([]byte("# of "+graph+"\n"), rest...) }
	text, files := s.Text, ""
	for _, f := range s.Files {
		sum, err := contentsOf(f.Path)
		if err != nil {
			return fmt.Errorf("--%s %w", f.Setting, err)
		}
		what := cmp.Or(map[string]string{"program": "the program", "init": "the initial weights"}[f.Setting],
			"--"+f.Setting)
		files += fmt.Sprintf("# %s of %s: %s\n", what, f.Model, sum)
		if filepath.IsAbs(f.Path) {
			text = bytes.ReplaceAll(text, []byte(f.Path), []byte(filepath.Base(f.Path)))
		}
	}
	c.claimed, err = rundir.ClaimSweep(c.out, about(graph, append([]byte(files), text...)),
		about(graph, s.Text), about(s.Dataset, s.Text))
	return err
}

// contentsOf is a checksum of a file's contents, or the name of a dataset as in contentsOfStore.
func contentsOf(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return contentsOfStore(path)
	}
	return regular.SHA256(path, func(int) {})
}

// contentsOfStore names a store by its contents, wherever it lies. Any other dataset keeps its name.
func contentsOfStore(dataset string) (string, error) {
	if !cli.IsStore(dataset) {
		return dataset, nil
	}
	sum, err := checksum(dataset)
	return "a graph with the checksum " + sum, err
}

// trainAll trains with each combination, several at a time, until ctx ends. It returns how many failed.
func (c *sweepCommand) trainAll(ctx context.Context, show io.Writer, s *sweep.Sweep) (failed int) {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		slots = make(chan struct{}, c.jobs)
		done  int
	)
	for k, combination := range s.Combinations {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			message, err := c.train(ctx, s, k, combination)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			done++
			outcome := "in " + ui.Duration(time.Since(began))
			switch {
			case errors.Is(err, errStopped):
				outcome = "stopped by a callback " + outcome
			case err != nil:
				failed++
				outcome = "failed: " + message
			}
			fmt.Fprintf(show, "%d of %d: %s: %s: %s\n", done, len(s.Combinations), c.name(k), combination,
				ui.Printable(outcome))
		})
	}
	group.Wait()
	return failed
}

// name is the name of a combination's folder.
func (c *sweepCommand) name(k int) string { return fmt.Sprintf("run-%04d", k) }

// train trains with one combination in a process of its own. message is the last line of its errors.
func (c *sweepCommand) train(ctx context.Context, s *sweep.Sweep, k int,
	combination sweep.Combination,
) (message string, err error) {
	program, err := os.Executable()
	if err != nil {
		return err.Error(), err
	}
	args := append([]string{"train", s.Dataset}, combination.Flags()...)
	if s.Config != "" {
		args = append(args, "--config", s.Config)
	}
	if s.Seeds > 0 {
		args = append(args, "--seeds", fmt.Sprint(s.Seeds))
	}
	threads := slices.ContainsFunc(combination,
		func(a sweep.Assignment) bool { return a.Setting == "threads" })
	if c.jobs > 1 && !threads {
		args = append(args, "--threads", fmt.Sprint(max(1, cores.Count()/c.jobs)))
	}
	out := filepath.Join(c.out, c.name(k))
	args = append(args, "--out", out, "--resume", resumeAuto, "--json")
	if c.follow {
		args = append(args, "--follow")
	}
	// The kernel kills the run when this thread ends, which is at the end of this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	run := exec.CommandContext(ctx, program, args...)
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	// The next sweep begins only when the runs of a killed one have ended, too.
	run.ExtraFiles = []*os.File{c.claimed}
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // the run then keeps its results
	var errs bytes.Buffer
	run.Stderr = &errs
	answers, err := run.StdinPipe()
	if err != nil {
		return err.Error(), err
	}
	epochs, err := run.StdoutPipe()
	if err != nil {
		return err.Error(), err
	}
	if err = run.Start(); err != nil {
		return err.Error(), err
	}
	stopped := c.relay(out, epochs, answers)
	err = run.Wait()
	if stopped && run.ProcessState.ExitCode() == cli.ExitInterrupted {
		err = errStopped
	}
	lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "weft: "), err
}

// errStopped is the error of a run that an answer has ended.
var errStopped = errors.New("stopped by a callback")

// relay passes the epochs that a run prints to the follower, with the run's folder, and each answer back. It
// reports whether an answer has ended the run.
func (c *sweepCommand) relay(folder string, epochs io.Reader, answers io.Writer) (stopped bool) {
	name, err := json.Marshal(folder)
	for lines := bufio.NewReader(epochs); err == nil; {
		var line []byte
		line, err = lines.ReadBytes('\n')
		epoch, is := bytes.CutSuffix(line, []byte("}\n"))
		if is && bytes.HasPrefix(epoch, []byte(`{"epoch":`)) {
			answer := "\n"
			if c.tell(json.RawMessage(fmt.Appendf(epoch, `,"run_dir":%s}`, name))) {
				answer, stopped = "stop\n", true
			}
			_, _ = io.WriteString(answers, answer) // a run that has ended tells why by its status
		}
	}
	return stopped
}

// tell tells the follower an epoch of one of the runs. It takes one at a time.
func (c *sweepCommand) tell(epoch json.RawMessage) (stops bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.follower.epoch(epoch)
}

// print prints the runs, the best by validation first.
func (c *sweepCommand) print(out, errs io.Writer, repeated bool) error {
	all, err := reports.ListRuns(c.out, errs, rundir.Better)
	if err != nil || len(all.Runs) == 0 && !c.json {
		return err
	}
	if repeated {
		all.Repeat(true)
	}
	return ui.Show(out, all, c.json)
}
