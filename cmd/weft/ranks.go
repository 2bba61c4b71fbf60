package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/comm/mpi"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/train"
)

// ranks is this process's place among those that an MPI launcher started. Rank 0 speaks for all.
type ranks struct {
	comm *comm.Comm // nil: this process is alone
}

// connect joins the processes that a launcher started with this one, if there was one. err is what this rank has found wrong with
// the request so far: where any rank has found something, all end.
func connect(cmd *cobra.Command, o *train.Options, err error) (ranks, error) {
	if !mpi.Launched() {
		alone := checkAlone(environmentNumber("SLURM_STEP_NUM_TASKS"), findSlurm().Connect)
		return ranks{}, cmp.Or(spokenFor(environmentNumber("SLURM_PROCID"), alone), err)
	}
	if mpi.Rank() > 0 {
		cmd.SetOut(io.Discard)
		cmd.SetErr(&onlyErrors{cmd.ErrOrStderr()})
	}
	timeout := train.Defaults().CommTimeout
	if err == nil {
		timeout = o.CommTimeout
		err = checkMesh(o, mpi.Ranks())
	}
	// A launcher whose rank ends while MPI starts may never end itself, so that a signal waits for the start.
	ctx, stop := untilSignal(cmd.Context(), func(s os.Signal) {
		fmt.Fprintf(os.Stderr, "weft: rank %d: signal %q during the start of MPI\n", mpi.Rank(), s)
	}, nil)
	t, failed := mpi.Start(timeout)
	if failed != nil {
		stop()
		said := cmp.Or(err, failed)
		if refusal.Is(failed) { // on every rank
			said = spokenFor(mpi.Rank(), said)
		}
		return ranks{}, said
	}
	r := ranks{comm.New(t, timeout)}
	explainSignals(r.explain)
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	stop()
	if err := r.together(err); err != nil {
		return r, err
	}
	return r, r.agreeOnProgram(o)
}

// joinsRanks is the annotation of a command whose processes work together where a launcher started them.
const joinsRanks = "ranks"

// shareMistake ends all ranks with the mistake in the command line of one, which the others may not have:
// they wait for it. Where its command does not join the ranks, each process speaks for itself. A word that
// names no command is taken for one that does.
func shareMistake(cmd *cobra.Command, err error) error {
	if _, joins := cmd.Annotations[joinsRanks]; mpi.Launched() && (joins || !cmd.HasParent()) {
		_, err = connect(cmd, nil, refusal.Errorf("%w", err))
	}
	return err
}

// checkAlone refuses to be one of several tasks that Slurm started without a way to each other: every one would do the whole work. connect
// is the option of srun that connects them, "" where this program has no MPI.
func checkAlone(tasks int, connect string) error {
	switch {
	case tasks <= 1:
		return nil
	case connect == "":
		return refusal.Errorf("srun started %d tasks, of which each would do the whole work, as this weft was built without MPI: "+
			"build it with make build where Open MPI is installed, or give srun -n 1", tasks)
	}
	return refusal.Errorf("srun started %d tasks without connecting them, so that each would do the whole work: "+
		"give srun %s for one run of all, or -n 1", tasks, connect)
}

// checkMesh refuses a mesh that is not the number of processes.
func checkMesh(o *train.Options, processes int) error {
	workers, err := o.Workers()
	switch {
	case err != nil:
		return err
	case o.Parallel == "" && processes > 1:
		return refusal.Errorf("the launcher started %d processes, but no mesh says how they share the work: give --parallel graph=%d", processes, processes)
	case workers != processes:
		return refusal.Errorf("--parallel %s: a mesh of %s, but the launcher started %s; the numbers must be equal",
			o.Parallel, counted(workers, "worker", "workers"), counted(processes, "process", "processes"))
	}
	return nil
}

// onlyErrors is standard error of a rank other than 0, to which nothing but the error that ends the process goes.
type onlyErrors struct{ errors io.Writer }

func (*onlyErrors) Write(p []byte) (int, error) { return len(p), nil }

// spoken is an error that another rank prints.
type spoken struct{ error }

func (s spoken) Unwrap() error { return s.error }

// spokenFor is err for a rank, of a fault that every rank finds.
func spokenFor(rank int, err error) error {
	if err == nil || rank == 0 {
		return err
	}
	return spoken{err}
}

func (r ranks) first() bool { return r.rank() == 0 }

func (r ranks) rank() int {
	if r.comm == nil {
		return 0
	}
	return r.comm.Rank()
}

// gather is every rank's text.
func (r ranks) gather(mine string) ([]string, error) {
	lengths, err := comm.Gather(r.comm, comm.Setup, int64(len(mine)))
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, len(lengths))
	for k := range parts {
		parts[k] = make([]byte, lengths[k])
	}
	if err := r.comm.AllGather(comm.Setup, []byte(mine), parts); err != nil {
		return nil, err
	}
	texts := make([]string, len(parts))
	for k, part := range parts {
		texts[k] = string(part)
	}
	return texts, nil
}

// agree refuses ranks of which one differs from rank 0 in something that has to be the same on all; differs is the error.
func (r ranks) agree(mine string, differs func(rank int, theirs, first string) error) error {
	if r.comm == nil {
		return nil
	}
	all, err := r.gather(mine)
	if err != nil {
		return err
	}
	for k, theirs := range all {
		if theirs != all[0] {
			return r.part(differs(k, theirs, all[0]))
		}
	}
	return nil
}

// agreeOnProgram refuses ranks that would not compute the same.
func (r ranks) agreeOnProgram(o *train.Options) error {
	err := r.agree(version, func(rank int, theirs, first string) error {
		return refusal.Errorf("rank %d is weft %s and rank 0 weft %s: start the same program on all machines", rank, theirs, first)
	})
	if err != nil {
		return err
	}
	err = r.agree(kernel.SIMD(), func(rank int, theirs, first string) error {
		return refusal.Errorf("rank %d computes with %s and rank 0 with %s, which round differently: set WEFT_SIMD to the one that all machines have, for all ranks",
			rank, theirs, first)
	})
	if err != nil {
		return err
	}
	settings, err := sharedSettings(*o)
	if err := r.together(err); err != nil {
		return err
	}
	return r.agree(settings, func(rank int, _, _ string) error {
		return refusal.Errorf("rank %d has other settings than rank 0: give all ranks the same flags and the same --config file", rank)
	})
}

// sharedSettings are the settings that have to be the same on all ranks.
func sharedSettings(o train.Options) (string, error) {
	o.Threads, o.MemoryLimit = 0, 0
	text, err := o.YAML()
	return string(text), err
}

// together ends a step that every rank makes by itself: where it failed on any, the command ends on all, with the error of the
// lowest one.
func (r ranks) together(err error) error {
	if r.comm == nil {
		return err
	}
	mine := ""
	if err != nil {
		mine = string([]byte{byte(statusOf(err, true))}) + err.Error()
	}
	all, failed := r.gather(mine)
	if failed != nil {
		return failed
	}
	for k, theirs := range all {
		if theirs == "" {
			continue
		}
		shared := errors.New(theirs[1:])
		if k > 0 {
			shared = fmt.Errorf("rank %d: %w", k, shared)
		}
		switch theirs[0] {
		case exitRefused:
			shared = refusal.Errorf("%w", shared)
		case exitInterrupted:
			shared = errInterrupted
		}
		return r.part(shared)
	}
	return nil
}

// part ends the command on all ranks with an error that all have come to. Rank 0 prints it before any of them ends: when the first
// does, a launcher ends the others. MPI is not finalised, for which the ranks would need a launcher that is not ending them already.
func (r ranks) part(err error) error {
	if r.comm == nil {
		return err
	}
	partWithSignals()
	if r.first() {
		fmt.Fprintln(os.Stderr, oneLine(err))
	}
	if failed := r.comm.Barrier(comm.Setup); failed != nil {
		return failed
	}
	return spoken{err}
}

// onFirst runs f on rank 0 while the others wait for it, however long it takes.
func (r ranks) onFirst(f func() error) error {
	if r.comm == nil {
		return f()
	}
	failed, err := r.comm.OnFirst(f)
	if err != nil {
		return err
	}
	return r.together(failed)
}

// partOrFail ends the command with the error of a job: together where all ranks have come to it and can still reach each other.
func (r ranks) partOrFail(err error) error {
	if common := (*train.Common)(nil); errors.As(err, &common) {
		return r.part(err)
	}
	if refusal.Is(err) {
		return spokenFor(r.rank(), err) // what makes no sense makes none on any
	}
	return err
}

// end takes leave of the other ranks.
func (r ranks) end() error {
	if r.comm == nil {
		return nil
	}
	return r.comm.Close()
}

// sayWaiting says what this rank waits for after a signal, once it waits for long: a launcher sends one to
// all ranks when one of them has died, and leaves them a second or more. Where all live they go on, and wait
// for moments only. until says what is not there before they have.
func (r ranks) sayWaiting(s os.Signal, until string) {
	if r.comm == nil {
		return
	}
	const long, often = 250 * time.Millisecond, 50 * time.Millisecond
	go func() {
		for ; ; time.Sleep(often) {
			if what, lasted := r.comm.Waiting(); lasted >= long {
				fmt.Fprintln(os.Stderr, oneLine(fmt.Errorf("%w%s", r.during(s, what, lasted), until)))
				return
			}
		}
	}()
}

// explain is the error of a rank that a signal ends at once.
func (r ranks) explain(s os.Signal) error {
	what, lasted := r.comm.Waiting()
	if what == "" {
		return fmt.Errorf("rank %d: %w", r.rank(), errInterrupted)
	}
	return r.during(s, what, lasted)
}

func (r ranks) during(s os.Signal, what string, lasted time.Duration) error {
	return fmt.Errorf("rank %d: signal %q during %s, for %s", r.rank(), s, what, lasted.Round(time.Millisecond))
}

// largest is the largest of the ranks' numbers.
func (r ranks) largest(n int64) (int64, error) {
	if r.comm == nil {
		return n, nil
	}
	all, err := comm.Gather(r.comm, comm.Setup, n)
	if err != nil {
		return 0, err
	}
	return slices.Max(all), nil
}
