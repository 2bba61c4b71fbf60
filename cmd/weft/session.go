package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/datasets"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
)

// session is a job with the graph that a command has opened for it.
type session struct {
	ranks
	job       *train.Job
	of        source
	store     string
	validated *session     // on another graph; nil: on the same
	whole     *graph.Graph // opened beside the partitions; nil: it is not
}

// openSession opens the graph for the mesh of the options: the whole graph for one partition, else its partitions.
// It makes partitions that are not stored. Before that admit may refuse the store, and check the graph. Both
// may be nil.
func openSession(
	parent context.Context, r ranks, of source, o *setting.Resolved, show io.Writer,
	admit func(store string) error,
	check func(*graph.Graph) error,
) (s *session, err error) {
	job := &train.Job{Dataset: of.name, Options: o.Options, Comm: r.Comm}
	s = &session{ranks: r, job: job, of: of}
	if r.Comm.Size() > 1 {
		job.LocalWorkers = mpi.LocalRanks()
		n, err := r.neighbours()
		if err != nil {
			return nil, err
		}
		job.CoreSharers, job.Machines = n.Sharers[r.Rank()], n.Machines
	}
	grid := o.Mesh
	err = r.OnFirst(func() error {
		s.store, err = resolve(parent, of, show)
		if err == nil && admit != nil {
			err = admit(s.store)
		}
		if err != nil || grid.Partitions == 1 {
			return err
		}
		return preparePartition(parent, s, grid.Partitions, show, check)
	})
	if err != nil || job.Graph != nil {
		return s, err
	}
	if !r.First() {
		s.store, err = resolve(parent, of, io.Discard)
	}
	const same = "all machines need the same store, on a shared file system or copied"
	if grid.Partitions == 1 {
		if err == nil {
			job.Graph, err = openDivided(s.store, &o.Options)
		}
		if err := r.Together(err); err != nil || r.Comm.Size() == 1 {
			return s, err
		}
		sum, err := job.Graph.Checksum()
		if err := r.Together(err); err != nil {
			return nil, err
		}
		return s, r.Agree(sum, func(rank int, _, _ string) error {
			return refusal.Errorf("%s: rank %d opens another graph than rank 0: %s", s.store, rank, same)
		})
	}
	var d partition.Description
	if err == nil {
		d, err = storedPartitions(s.store, grid.Partitions, &o.Options)
	}
	if err := r.Together(err); err != nil {
		return nil, err
	}
	job.Parts = &train.Parts{
		Whole: d.Whole, ID: d.ID, Balance: d.Balance,
		Open: func(p int) (*partition.Share, error) { return partition.Open(s.store, d, p) },
	}
	if o.Split.Rule != "" {
		if err := r.Together(s.divideParts()); err != nil {
			return nil, err
		}
	}
	return s, r.Agree(d.ID, func(rank int, _, _ string) error {
		return refusal.Errorf("%s: rank %d finds other partitions here than rank 0: %s with its partitions",
			s.store, rank, same)
	})
}

// divideOnce makes the partitions that no store keeps, once for the plan and the run.
func divideOnce(ctx context.Context, r *setting.Resolved, jobs ...*train.Job) (err error) {
	for _, j := range jobs {
		if j != nil && j.Graph != nil && r.Mesh.Partitions > 1 {
			if j.Parts, err = j.MakeParts(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the graphs of the session. What reads partitions closes them itself.
func (s *session) close() {
	for _, g := range []*graph.Graph{s.job.Graph, s.whole} {
		if g != nil {
			_ = g.Close()
		}
	}
	if s.validated != nil {
		s.validated.close()
	}
}

// graph is the whole graph, which is opened where the job has partitions.
func (s *session) graph() (g *graph.Graph, err error) {
	if s.job.Graph != nil {
		return s.job.Graph, nil
	}
	if s.whole == nil {
		s.whole, err = openDivided(s.store, &s.job.Options)
	}
	return s.whole, err
}

// openDivided opens a store, with the split that the options draw.
func openDivided(store string, o *setting.Options) (g *graph.Graph, err error) {
	if g, err = graph.Open(store); err != nil {
		return nil, err
	}
	if err := o.Divide(g); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// divideParts gives stored partitions the split of the whole graph, which the options draw.
func (s *session) divideParts() error {
	g, err := s.graph()
	if err != nil {
		return about(s.of, err)
	}
	drawn, sizes := graph.Graph{Splits: g.Splits}, graph.SizesOf(g.Splits)
	s.changeParts(func(whole *partition.Whole) { whole.Splits = sizes }, func(v *partition.Values) {
		v.Splits = drawn.Bare(v.IDs).Splits
	})
	return nil
}

// changeParts changes what is known of the whole graph, and the values of each partition once it is open.
func (s *session) changeParts(whole func(*partition.Whole), values func(*partition.Values)) {
	parts := *s.job.Parts
	open := parts.Open
	whole(&parts.Whole)
	parts.Open = func(p int) (*partition.Share, error) {
		share, err := open(p)
		if err != nil {
			return nil, err
		}
		whole(&share.Whole)
		return share, share.Guard(func() error {
			values(&share.Values)
			return nil
		})
	}
	s.job.Parts = &parts
}

// counts are the counts of the whole graph.
func (s *session) counts() partition.Whole { return s.job.Counts() }

// untilSignal is the context of work that keeps nothing where a signal ends it; lost says what.
func (s *session) untilSignal(
	cmd *cobra.Command, lost string, lastWords func(),
) (ctx context.Context, stop func()) {
	return untilSignal(cmd.Context(), func(signal os.Signal) {
		s.sayWaiting(cmd.Context(), signal, lost)
		fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping; interrupt again to stop at once\n", signal)
	}, lastWords)
}

// failed is the error of work on the graph, or interrupted where a signal has ended it.
func (s *session) failed(err, interrupted error) error {
	if err = advised(err); errors.Is(err, context.Canceled) {
		return s.part(interrupted)
	}
	return about(s.of, err)
}

// openValidation gives the job the graph that its model is validated on, if the options name one. Classes are
// numbered as in the graph of the session, and others are refused.
func (s *session) openValidation(ctx context.Context, o *setting.Resolved, show io.Writer) error {
	if o.Validate == "" {
		return nil
	}
	other, err := openSession(ctx, s.ranks, source{name: o.Validate}, o, show, nil, nil)
	if refusal.Is(err) {
		err = fmt.Errorf("--validate %w", err) // which begins with the graph
	}
	if err != nil {
		return err
	}
	s.job.Validate, s.validated = other.job, other
	return s.Together(other.matchClasses(func(g *graph.Graph) error {
		if !g.Labels.There() {
			return refusal.Errorf("--validate %s: it has no labels to compare predictions with", o.Validate)
		}
		unknown, err := learnedClasses{store: s.store}.match(show, o.Validate, g)
		if len(unknown) > 0 {
			return refusal.Errorf("--validate %s: %s none of the %s of the graph to train on; leave their "+
				"vertices unlabelled", o.Validate, classNames(unknown),
				ui.Counted(len(g.Labels.Names), "class", "classes"))
		}
		return err
	}))
}

// storedPartitions are the partitions that rank 0 has found or made.
func storedPartitions(store string, k int, o *setting.Options) (partition.Description, error) {
	d, found, err := findPartitions(store, k, partitionMethod(o))
	if err == nil && !found {
		err = refusal.Errorf("%s: no partition of %d is stored here, but one is where rank 0 runs: all "+
			"machines need the same store, on a shared file system or copied with its partitions", store, k)
	}
	return d, err
}

// findPartitions is partition.Find. If partitions are out of date, its error says how to renew them.
func findPartitions(store string, k int, method string) (d partition.Description, found bool, err error) {
	d, found, err = partition.Find(store, k, method)
	if old := (*partition.OutOfDate)(nil); errors.As(err, &old) && old.Method != partition.DGL {
		err = fmt.Errorf("%w: weft partition %s -k %d --method %s", err, store, old.K, old.Method)
	}
	return d, found, err
}

// preparePartition makes sure that the store has that number of partitions. If nothing can be stored, a
// single process makes them in memory: the job then has the graph.
func preparePartition(parent context.Context, s *session, k int, show io.Writer,
	check func(*graph.Graph) error,
) error {
	store, job := s.store, s.job
	o := &job.Options
	d, found, err := findPartitions(store, k, partitionMethod(o))
	if found && o.Balance != setting.Defaults().Balance && o.Balance != d.Balance {
		return refusal.Errorf("--balance %s: %s is stored, and it balances %s; store another with weft "+
			"partition %s -k %d --method %s --balance %s, or leave it out",
			o.Balance, d.Name, d.Balance, store, k, d.Method, o.Balance)
	}
	if found || err != nil {
		return err
	}
	if o.Partition == partition.File {
		return refusal.Errorf("--partition file: no partition of %d is stored; store one with weft "+
			"partition %s -k %d --method file --file PART", k, store, k)
	}
	if o.Partition == partition.DGL {
		return refuseDGL(store)
	}
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	divided := *g // what is stored are partitions of the graph as it is
	err = o.Divide(&divided)
	if err == nil && check != nil {
		err = check(&divided)
	}
	if err != nil {
		return errors.Join(about(s.of, err), g.Close())
	}
	asked, name := o.Assignment(g, k), ui.Printable(job.Dataset)
	instead := ""
	if partitionMethod(o) == "" {
		instead = insteadOfMetis(g, "--partition")
	}
	readOnly := partition.CheckWritable(store)
	if readOnly != nil && job.Comm.Size() == 1 {
		fmt.Fprintf(show, "%s: dividing it into %d partitions by %s%s\n", name, k, asked.Method, instead)
		fmt.Fprintf(show, "%s: its store cannot be written to, so the partitions are cut in memory "+
			"and not kept\n", name)
		job.Graph = &divided
		return nil
	}
	defer g.Close()
	if readOnly != nil {
		return readOnly
	}
	if err := partition.CheckPlace(store, partition.Name(asked.Method, k)); err != nil {
		return err
	}
	fmt.Fprintf(show, "%s: dividing it into %d partitions by %s, once%s\n", name, k, asked.Method, instead)
	ctx, stop := untilSignal(parent, func(os.Signal) {}, nil)
	defer stop()
	shown := ui.NewStages(show)
	asked.Progress = shown.Show
	a, err := partition.Assign(ctx, &divided, asked)
	if err == nil {
		_, err = partition.Write(store, g, a, shown.Show)
	}
	shown.Erase()
	return cmp.Or(heard(ctx, stop), err)
}

// insteadOfMetis says why a graph is divided by another method than METIS where no flag asks for one; "":
// METIS divides it.
func insteadOfMetis(g *graph.Graph, flag string) string {
	_, why := partition.Auto(g)
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" (%s for %s; %s metis asks for it)", why, ui.Counted(g.Edges(), "edge", "edges"), flag)
}

// refuseDGL says which of DGL's partitions a store has, if those asked for are missing.
func refuseDGL(store string) error {
	all, err := partition.List(store)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Method == partition.DGL {
			return refusal.Errorf("--partition dgl: DGL divided %s into %d partitions; give graph=%d, or "+
				"another --partition", store, d.K, d.K)
		}
	}
	return refusal.Errorf("--partition dgl: %s has no partition of DGL's; weft import dgl stores it with "+
		"a graph that DGL divided", store)
}

// partitionMethod is the method of the partitions to take, "" for any.
func partitionMethod(o *setting.Options) string {
	if o.Partition == setting.Defaults().Partition {
		return ""
	}
	return o.Partition
}

// refuseRun refuses the directory of a run, or of several, in the place of a graph.
func refuseRun(path string) error {
	switch word := refusal.ShellWord(path); {
	case rundir.Is(path):
		return refusal.Errorf("%s: is a run, and no graph; weft train --resume %s continues it, weft "+
			"evaluate %[2]s measures it, and weft inspect %[2]s says where it stands",
			path, word)
	case rundir.First(path) != "":
		return refusal.Errorf("%s: holds runs, and is no graph; weft runs %s compares them", path, word)
	}
	return nil
}

// resolve returns the store of a dataset, or of a graph in a foreign format, which it makes if needed. A
// signal meanwhile removes it.
func resolve(parent context.Context, of source, show io.Writer) (store string, err error) {
	name := of.name
	if err := of.check(); err != nil {
		return name, err
	}
	if name != "" && isStore(name) {
		return name, nil
	}
	dataset := datasets.Named(name)
	r, found := fromSource(of)
	if dataset == nil && !found {
		return name, cmp.Or(refuseRun(name), severalSources(name), datasets.NoGraph(name))
	}
	ctx, stop := untilSignal(parent, func(os.Signal) {}, nil)
	defer stop()
	if found {
		store, err = r.imported(ctx, show)
	} else {
		m := datasets.Maker{
			Import: importDataset, Say: func(line string) { fmt.Fprintln(show, ui.Printable(line)) },
		}
		store, err = m.Store(ctx, dataset)
	}
	return store, cmp.Or(heard(ctx, stop), err)
}
