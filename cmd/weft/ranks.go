package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weft/comm"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/datasets"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
)

// ranks is this process's place among those that an MPI launcher started. Rank 0 speaks for all.
type ranks struct {
	comm *comm.Comm // nil: this process is alone
}

// connect joins the processes that a launcher started with this one, if there was one.
func connect(cmd *cobra.Command, o *train.Options) (ranks, error) {
	if !mpi.Launched() {
		return ranks{}, nil
	}
	if mpi.Rank() > 0 {
		cmd.SetOut(io.Discard)
		cmd.SetErr(&onlyErrors{cmd.ErrOrStderr()})
	}
	if err := checkMesh(o, mpi.Ranks()); err != nil {
		return ranks{}, spokenFor(mpi.Rank(), err)
	}
	t, err := mpi.Start()
	if err != nil {
		return ranks{}, spokenFor(mpi.Rank(), err)
	}
	return ranks{comm.New(t, o.CommTimeout)}, nil
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

// together ends a step that every rank makes by itself: where it failed on any, it fails on all, with the error of the lowest one.
func (r ranks) together(err error) error {
	if r.comm == nil {
		return err
	}
	n := r.comm.Size()
	mine := []int64{exitDone, 0}
	var text []byte
	if err != nil {
		text = []byte(err.Error())
		mine = []int64{int64(statusOf(err, true)), int64(len(text))}
	}
	all, parts := make([]int64, 2*n), make([][]byte, n)
	for k := range parts {
		parts[k] = comm.Bytes(all[2*k : 2*k+2])
	}
	if err := r.comm.AllGather(comm.Setup, comm.Bytes(mine), parts); err != nil {
		return err
	}
	for k := range n {
		if all[2*k] == exitDone {
			continue
		}
		theirs := make([]byte, all[2*k+1])
		copy(theirs, text)
		if err := r.comm.Broadcast(comm.Setup, theirs, k); err != nil {
			return err
		}
		shared := errors.New(string(theirs))
		if k > 0 {
			shared = fmt.Errorf("rank %d: %w", k, shared)
		}
		switch all[2*k] {
		case exitRefused:
			shared = refusal.Errorf("%w", shared)
		case exitInterrupted:
			shared = errInterrupted
		}
		return spokenFor(r.comm.Rank(), shared)
	}
	return nil
}

// onFirst runs f on rank 0 while the others wait for it, however long it takes.
func (r ranks) onFirst(timeout time.Duration, f func() error) error {
	if r.comm == nil {
		return f()
	}
	const working, done = 0, 1
	state := []byte{working}
	if !r.first() {
		for state[0] == working {
			if err := r.comm.Broadcast(comm.Setup, state, 0); err != nil {
				return err
			}
		}
		return r.together(nil)
	}
	result := make(chan error, 1)
	go func() { result <- f() }()
	tick := time.NewTicker(max(timeout/4, time.Millisecond))
	defer tick.Stop()
	for state[0] == working {
		var failed error
		select {
		case failed = <-result:
			state[0] = done
		case <-tick.C:
		}
		if err := r.comm.Broadcast(comm.Setup, state, 0); err != nil {
			return err
		}
		if state[0] == done {
			return r.together(failed)
		}
	}
	return nil
}

// end takes leave of the other ranks.
func (r ranks) end() error {
	if r.comm == nil {
		return nil
	}
	return r.comm.Close()
}

// sayWaiting says what this rank waits for when a signal comes: a launcher sends one to all when one of them has died.
func (r ranks) sayWaiting(s os.Signal) {
	if r.comm == nil {
		return
	}
	if wait := r.comm.Waiting(); wait != "" {
		fmt.Fprintf(os.Stderr, "weft: rank %d: %s during %s\n", r.rank(), s, wait)
	}
}

// largest is the largest of the ranks' numbers.
func (r ranks) largest(n int64) (int64, error) {
	if r.comm == nil {
		return n, nil
	}
	all := make([]float64, r.comm.Size())
	all[r.comm.Rank()] = float64(n)
	err := r.comm.SumDoubles(comm.Setup, all)
	for _, x := range all {
		n = max(n, int64(x))
	}
	return n, err
}

// openJob opens the graph for the workers that the options ask for: whole for one, by its partitions for several. They are made if
// they are not stored.
func (r ranks) openJob(parent context.Context, dataset string, o train.Options, show io.Writer) (job *train.Job, store string, err error) {
	job = &train.Job{Dataset: dataset, Options: o, Comm: r.comm}
	if r.comm != nil {
		job.LocalWorkers = mpi.LocalRanks()
	}
	workers, err := o.Workers()
	if err != nil {
		return nil, "", err
	}
	if workers == 1 {
		job.Graph, store, err = openDataset(parent, dataset, show)
		return job, store, err
	}
	err = r.onFirst(o.CommTimeout, func() error {
		store, err = resolve(parent, dataset, show)
		if err != nil {
			return err
		}
		return preparePartition(parent, store, job, workers, show)
	})
	if err != nil || job.Graph != nil {
		return job, store, err
	}
	if !r.first() {
		store, err = resolve(parent, dataset, io.Discard)
	}
	var d partition.Description
	if err == nil {
		d, _, err = partition.Find(store, workers, partitionMethod(&o))
	}
	job.Parts = &train.Parts{Whole: d.Whole, Open: func(p int) (*partition.Share, error) { return partition.Open(store, d, p) }}
	return job, store, r.together(err)
}

// preparePartition makes sure that the store holds partitions for so many workers. Where nothing can be stored, a single process cuts
// them in its memory: the job then has the graph.
func preparePartition(parent context.Context, store string, job *train.Job, workers int, show io.Writer) error {
	o := &job.Options
	_, found, err := partition.Find(store, workers, partitionMethod(o))
	if found || err != nil {
		return err
	}
	if o.Partition == partition.File {
		return refusal.Errorf("--partition file: no partition of %d is stored; store one with weft partition %s -k %d --method file --file PART", workers, store, workers)
	}
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	asked := o.Assignment(workers)
	fmt.Fprintf(show, "%s: dividing it into %d partitions by %s, once\n", job.Dataset, workers, asked.Method)
	if err := partition.CheckWritable(store); err != nil && job.Comm == nil {
		fmt.Fprintf(show, "%s: its store cannot be written to, so the partitions are cut in memory and not kept\n", job.Dataset)
		job.Graph = g
		return nil
	}
	defer g.Close()
	ctx, stop := untilSignal(parent, func(os.Signal) {})
	defer stop()
	a, err := partition.Assign(ctx, g, asked)
	if err == nil {
		_, err = partition.Write(store, g, a)
	}
	return err
}

// partitionMethod is the method of the partitions to take, "" for any.
func partitionMethod(o *train.Options) string {
	if o.Partition == train.Defaults().Partition {
		return ""
	}
	return o.Partition
}

// resolve is the store of a dataset. A signal while it is made leaves none.
func resolve(parent context.Context, name string, show io.Writer) (store string, err error) {
	ctx, stop := untilSignal(parent, func(os.Signal) {})
	defer stop()
	store, err = datasets.Resolve(ctx, name, func(line string) { fmt.Fprintln(show, line) })
	if ctx.Err() != nil {
		return "", errInterrupted
	}
	return store, err
}
