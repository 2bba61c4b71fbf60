package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/ui"
	"weft/comm"
	"weft/comm/mpi"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// programVersion is the version of this program, which it sets at its start.
var programVersion string

// ranks is this process's place among those that an MPI launcher started; alone, where none did.
type ranks struct{ launch.Ranks }

// alone is a process that no launcher started.
func alone() ranks { return ranks{launch.Ranks{Comm: comm.Alone()}} }

// asRank does the work of a command as one of the processes that a launcher started, if there was one. err is
// what this rank has found wrong with the request so far: where any rank has found something, all end without
// the work.
func asRank(cmd *cobra.Command, o *setting.Resolved, err error, work func(ranks) error) error {
	r, err := connect(cmd, o, err)
	if err == nil {
		err = work(r)
	}
	if err != nil {
		r.partWithSignals()
	}
	return r.End(err, func(err error) { sayError(os.Stderr, err) })
}

// connect joins the other processes.
func connect(cmd *cobra.Command, o *setting.Resolved, err error) (ranks, error) {
	if !mpi.Launched() {
		refused := checkAlone(environmentNumber("SLURM_STEP_NUM_TASKS"), connectingOption)
		return alone(),
			cmp.Or(launch.ToldByFirst(environmentNumber("SLURM_PROCID"), refused), err)
	}
	if mpi.Rank() > 0 {
		cmd.SetOut(io.Discard)
		cmd.SetErr(&onlyErrors{cmd.ErrOrStderr()})
	}
	s := launch.Start{Rank: mpi.Rank(), Timeout: setting.Defaults().CommTimeout, Found: err}
	if err == nil {
		s.Timeout = o.CommTimeout
		s.Program = launch.Program{Version: programVersion, Rounding: kernel.SIMD()}
		if o.Storage == tensor.BFloat16 {
			s.Program.Rounding += " (bf16 by " + kernel.BFloat16Products() + ")"
		}
		s.Program.Settings, s.Found = sharedSettings(*o)
		s.Found = cmp.Or(checkMesh(o, mpi.Ranks()), s.Found)
	}
	// A launcher whose rank ends while MPI starts may never end itself, so that a signal waits for the start.
	starting, stop := untilSignal(cmd.Context(), func(s os.Signal) {
		fmt.Fprintf(os.Stderr, "weft: rank %d: signal %q during the start of MPI\n", mpi.Rank(), s)
	}, nil)
	defer stop()
	s.Connect = func() (comm.Transport, error) { return mpi.Start(s.Timeout) }
	s.Connected = func(r launch.Ranks) error {
		explainSignals(r.Interrupted)
		return heard(starting, stop) // from then on a signal ends what this rank waits for
	}
	r, err := s.Join()
	return ranks{r}, err
}

// joinsRanks is the annotation of a command whose processes work together where a launcher started them.
const joinsRanks = "ranks"

func joins(cmd *cobra.Command) bool { _, found := cmd.Annotations[joinsRanks]; return found }

// shareMistake ends all ranks with the mistake in the command line of one, which the others may not have:
// they wait for it. Where its command does not join the ranks, each process speaks for itself. A word that
// names no command is taken for one that does.
func shareMistake(cmd *cobra.Command, err error) error {
	if mpi.Launched() && (joins(cmd) || !cmd.HasParent()) {
		return asRank(cmd, nil, refusal.Errorf("%w", err), nil)
	}
	return err
}

// oncePerMachine leaves a command that does not join the ranks to the first process on each machine. The
// others succeed without work: they would print the same, or write the same files at the same time.
func oncePerMachine(cmd *cobra.Command) {
	if mpi.LocalRank() > 0 && !joins(cmd) {
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
	}
}

// checkAlone refuses to be one of several tasks that Slurm started without a way to each other: every one
// would do the whole work. option gives that of srun that connects them, "" where no library of MPI loads. It
// is asked for these alone, as it loads one.
func checkAlone(tasks int, option func() string) error {
	if tasks <= 1 {
		return nil
	}
	connect := option()
	if connect == "" {
		return refusal.Errorf("srun started %d tasks, but no library of MPI loads, and each task would do "+
			"the whole work: install Open MPI, or give srun -n 1", tasks)
	}
	return refusal.Errorf("srun started %d tasks without connecting them, so that each would do the whole "+
		"work: give srun %s for one run of all, or -n 1", tasks, connect)
}

// checkMesh refuses a mesh that is not the number of processes.
func checkMesh(o *setting.Resolved, processes int) error {
	workers := o.Workers
	switch {
	case o.Parallel == "" && processes > 1:
		return refusal.Errorf("the launcher started %d processes, but no mesh says how they share the "+
			"work: give --parallel graph=%d", processes, processes)
	case workers != processes:
		return refusal.Errorf("--parallel %s: a mesh of %s, but the launcher started %s: start "+
			"%d, or give another mesh, as --parallel graph=%d",
			o.Parallel, ui.Counted(workers, "worker", "workers"),
			ui.Counted(processes, "process", "processes"),
			workers, processes)
	}
	return nil
}

// onlyErrors is standard error of a rank other than 0, to which nothing but the error that ends the process
// goes.
type onlyErrors struct{ errors io.Writer }

func (*onlyErrors) Write(p []byte) (int, error) { return len(p), nil }

// sharedSettings are the settings that have to be the same on all ranks.
func sharedSettings(o setting.Resolved) (string, error) {
	o.Threads, o.MemoryLimit = 0, 0
	text, err := o.YAML()
	return string(text), err
}

// decided is what f finds on the first rank, on all ranks.
func decided[T any](r ranks, f func() (T, error)) (found T, err error) {
	err = r.OnFirst(func() (err error) {
		found, err = f()
		return err
	})
	if err != nil {
		return found, err
	}
	return worker.FromFirst(r.Comm, found)
}

// part ends the command with an error that all ranks come to here.
func (r ranks) part(err error) error {
	r.partWithSignals()
	return &launch.Common{Err: err}
}

// partWithSignals is for a rank that is about to take leave of others.
func (r ranks) partWithSignals() {
	if r.Comm.Size() > 1 {
		partWithSignals()
	}
}

// sayWaiting says what this rank waits for after a signal, once it waits for long, and with until what is not
// there before it has.
func (r ranks) sayWaiting(ctx context.Context, s os.Signal, until string) {
	go func() {
		if err := r.AfterSignal(ctx, s); err != nil {
			fmt.Fprintln(os.Stderr, ui.OneLine(fmt.Errorf("%w%s", err, until)))
		}
	}()
}
