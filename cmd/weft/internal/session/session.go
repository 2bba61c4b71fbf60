package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/tensor"
	"weft/train"
	"weft/train/setting"
)

// Session is a job with the graph that a command has opened for it.
type Session struct {
	cli.Ranks
	Job       *train.Job
	Source    data.Source
	Store     string
	Validated *Session     // the session of the validation graph; nil: it is the same graph
	Stored    *Stored      // what Hold keeps, on the first rank; nil: it was not called
	whole     *graph.Graph // the whole graph, opened in addition to the partitions; nil: it is not
	dry       bool         // Opening.Dry
}

// Opening says how a session is opened.
type Opening struct {
	Admit func(store string) error // may refuse the store, before partitions are made; nil: it refuses none
	Check func(*graph.Graph) error // may refuse the graph, before partitions are made; nil: it refuses none
	// Apart says that each process has the graph and divides it in memory.
	Apart bool
	// Dry says that the session is for a plan. If a large graph has no stored partitions, they are streamed,
	// and not kept.
	Dry bool
}

// Open opens the graph for the mesh of the options: the whole graph for one partition, else its partitions.
// If there are no stored ones, it makes them.
func Open(
	parent context.Context, r cli.Ranks, source data.Source, o *setting.Resolved, show io.Writer, how Opening,
) (s *Session, err error) {
	job := &train.Job{Dataset: source.Name, Options: o.Options, Comm: r.Comm}
	s = &Session{Ranks: r, Job: job, Source: source, dry: how.Dry}
	if err := s.place(); err != nil {
		return nil, err
	}
	grid := o.Mesh
	err = r.OnFirst(func() error {
		s.Store, err = data.Resolve(parent, source, show)
		if err == nil && how.Admit != nil {
			err = how.Admit(s.Store)
		}
		if err != nil || grid.Partitions == 1 || how.Apart {
			return err
		}
		return s.preparePartition(parent, how, grid.Partitions, show)
	})
	if err != nil || job.Graph != nil {
		return s, err
	}
	if !r.First() {
		s.Store, err = data.Resolve(parent, source, io.Discard)
	}
	const same = "all machines need the same store, on a shared file system or copied"
	if grid.Partitions == 1 || how.Apart {
		if err == nil {
			job.Graph, err = openDivided(s.Store, &o.Options)
		}
		if err := r.Together(err); err != nil || r.Comm.Size() == 1 {
			return s, err
		}
		sum, err := job.Graph.Checksum()
		if err := r.Together(err); err != nil {
			return nil, err
		}
		return s, r.Agree(sum, func(rank int, _, _ string) error {
			return refusal.Errorf("%s: rank %d opens another graph than rank 0: %s", s.Store, rank, same)
		})
	}
	var d partition.Description
	if err == nil {
		d, err = storedPartitions(s.Store, grid.Partitions, &o.Options)
	}
	if err := r.Together(err); err != nil {
		return nil, err
	}
	job.Parts = &train.Parts{
		Whole: d.Whole, ID: d.ID, Balance: d.Balance,
		Open: func(p int) (*partition.Share, error) { return partition.Open(s.Store, d, p) },
	}
	if o.Split.Rule != "" {
		if err := r.Together(s.divideParts()); err != nil {
			return nil, err
		}
	}
	return s, r.Agree(d.ID, func(rank int, _, _ string) error {
		return refusal.Errorf("%s: rank %d finds other partitions here than rank 0: %s with its partitions",
			s.Store, rank, same)
	})
}

// InMemory is a session of a graph in memory, which all processes have.
func InMemory(r cli.Ranks, g *graph.Graph, o *setting.Resolved) (*Session, error) {
	s := &Session{Ranks: r, Job: &train.Job{Options: o.Options, Comm: r.Comm, Graph: g}}
	return s, s.place()
}

// place tells the job which of its workers are on which machine.
func (s *Session) place() error {
	if s.Comm.Size() == 1 {
		return nil
	}
	n, err := s.Neighbours()
	if err != nil {
		return err
	}
	s.Job.LocalWorkers, s.Job.LocalRank = mpi.LocalRanks(), mpi.LocalRank()
	s.Job.CoreSharers, s.Job.Machines = n.Sharers[s.Rank()], n.Machines
	return nil
}

// DivideOnce makes, once for the plan and the run, the partitions that no store keeps.
func DivideOnce(ctx context.Context, r *setting.Resolved, jobs ...*train.Job) (err error) {
	for _, j := range jobs {
		if j != nil && j.Graph != nil && r.Mesh.Partitions > 1 {
			if j.Parts, err = j.MakeParts(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the graphs of the session. Whoever reads partitions closes them itself.
func (s *Session) Close() {
	for _, g := range []*graph.Graph{s.Job.Graph, s.whole} {
		if g != nil {
			_ = g.Close()
		}
	}
	if s.Stored != nil {
		_ = s.Stored.close()
	}
	if s.Validated != nil {
		s.Validated.Close()
	}
}

// Graph is the whole graph. If the job has partitions, it is opened for this.
func (s *Session) Graph() (g *graph.Graph, err error) {
	if s.Job.Graph != nil {
		return s.Job.Graph, nil
	}
	if s.whole == nil {
		s.whole, err = openDivided(s.Store, &s.Job.Options)
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

// divideParts gives stored partitions the split that the options draw for the whole graph.
func (s *Session) divideParts() error {
	g, err := s.Graph()
	if err != nil {
		return data.About(s.Source, err)
	}
	if s.Job.Options.EdgeLabel != "" {
		labels := partition.WholeOf(g).Frames
		parts := *s.Job.Parts
		open := parts.Open
		parts.Whole.Frames = labels
		parts.Open = func(p int) (*partition.Share, error) {
			share, err := open(p)
			if err == nil {
				share.Whole.Frames = labels
				share.LabelledBy(g)
			}
			return share, err
		}
		s.Job.Parts = &parts
		return nil
	}
	sizes := graph.SizesOf(g.Types[0].Splits)
	s.changeParts(func(whole *partition.Whole) { whole.Splits = sizes }, func(v *partition.Values) {
		v.Splits = graph.SplitsOf(g.Types[0].Splits, v.IDs)
	})
	return nil
}

// changeParts changes what is known about the whole graph, and the values of each partition once it is open.
func (s *Session) changeParts(whole func(*partition.Whole), values func(*partition.Values)) {
	parts := *s.Job.Parts
	open := parts.Open
	whole(&parts.Whole)
	parts.Open = func(p int) (*partition.Share, error) {
		share, err := open(p)
		if err != nil {
			return nil, err
		}
		whole(&share.Whole)
		return share, share.Guard(func() error {
			values(&share.Types[0])
			return nil
		})
	}
	s.Job.Parts = &parts
}

// Counts are the counts of the whole graph.
func (s *Session) Counts() partition.Whole { return s.Job.Counts() }

// UntilSignal is the context of work that keeps nothing if a signal ends it; lost says what is lost.
func (s *Session) UntilSignal(
	cmd *cobra.Command, lost string, lastWords func(),
) (ctx context.Context, stop func()) {
	return cli.UntilSignal(cmd.Context(), func(signal os.Signal) {
		s.SayWaiting(cmd.Context(), signal, lost)
		fmt.Fprintf(cmd.ErrOrStderr(), "weft: %s: stopping; interrupt again to stop at once\n", signal)
	}, lastWords)
}

// Failed is the error of work on the graph; it is interrupted if a signal has ended the work.
func (s *Session) Failed(err, interrupted error) error {
	if errors.Is(err, context.Canceled) {
		return s.Part(interrupted)
	}
	if s.Job.Options.OnCard() && errors.As(err, &tensor.OutOfMemory{}) {
		return fmt.Errorf("--device %s: %w; take --device %s", s.Job.Options.Device, err, setting.CPU)
	}
	return data.About(s.Source, Advised(err))
}

// OpenValidation gives the job the validation graph, if the options name one. Its classes are numbered as in
// the graph of the session. It refuses other classes.
func (s *Session) OpenValidation(ctx context.Context, o *setting.Resolved, show io.Writer) error {
	if o.Validate == "" {
		return nil
	}
	other, err := Open(ctx, s.Ranks, data.Source{Name: o.Validate}, o, show, Opening{Dry: s.dry})
	if refusal.Is(err) {
		err = fmt.Errorf("--validate %w", err) // the error begins with the graph
	}
	if err != nil {
		return err
	}
	s.Job.Validate, s.Validated = other.Job, other
	return s.Together(other.matchClasses(func(g *graph.Graph) error {
		if !g.Types[0].Labels.There() {
			return refusal.Errorf("--validate %s: it has no labels to compare predictions with", o.Validate)
		}
		unknown, err := learnedClasses{Store: s.Store}.match(show, o.Validate, g, graph.Target{})
		if len(unknown) > 0 {
			return refusal.Errorf("--validate %s: %s none of the %s of the graph to train on; leave their "+
				"vertices unlabelled", o.Validate, classNames(unknown),
				ui.Counted(len(g.Types[0].Labels.Names), "class", "classes"))
		}
		return err
	}))
}

// storedPartitions are the partitions that rank 0 has found or made.
func storedPartitions(store string, k int, o *setting.Options) (partition.Description, error) {
	d, found, err := data.FindPartitions(store, k, PartitionMethod(o))
	if err == nil && !found {
		err = refusal.Errorf("%s: no partition of %d is stored here, but one is where rank 0 runs: all "+
			"machines need the same store, on a shared file system or copied with its partitions", store, k)
	}
	return d, err
}

// preparePartition makes sure that the store has that number of partitions. If nothing can be stored, a
// single process makes them in memory, and the job has the graph.
func (s *Session) preparePartition(parent context.Context, how Opening, k int, show io.Writer) error {
	store, job := s.Store, s.Job
	o := &job.Options
	d, found, err := data.FindPartitions(store, k, PartitionMethod(o))
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
	divided := g.Copy() // the stored partitions are of the graph as it is
	err = o.Divide(divided)
	if err == nil && how.Check != nil {
		err = how.Check(divided)
	}
	if err != nil {
		return errors.Join(data.About(s.Source, err), g.Close())
	}
	asked, name := o.Assignment(g, k), ui.Printable(job.Dataset)
	instead := ""
	if PartitionMethod(o) == "" {
		instead = data.InsteadOfMetis(g, "--partition")
		if how.Dry && asked.Method == partition.Metis && partition.Slow(g) && job.Comm.Size() == 1 {
			fmt.Fprintf(show, "%s: planning with %d partitions by %s, which are not kept; a run divides it by %s, "+
				"and may take a little less\n", name, k, partition.Stream, partition.Metis)
			job.Graph, o.Partition = divided, partition.Stream
			return nil
		}
	}
	readOnly := partition.CheckWritable(store)
	if readOnly != nil && job.Comm.Size() == 1 {
		fmt.Fprintf(show, "%s: dividing it into %d partitions by %s%s\n", name, k, asked.Method, instead)
		fmt.Fprintf(show, "%s: its store cannot be written to, so the partitions are cut in memory "+
			"and not kept\n", name)
		job.Graph = divided
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
	ctx, stop := cli.UntilSignal(parent, func(os.Signal) {}, nil)
	defer stop()
	shown := ui.NewPhases(show)
	asked.Progress = shown.Show
	a, err := partition.Assign(ctx, divided, asked)
	if err == nil {
		_, err = partition.Write(store, g, a, shown.Show)
	}
	shown.Erase()
	return cmp.Or(cli.Heard(ctx, stop), err)
}

// refuseDGL says which of DGL's partitions a store has, if the wanted ones are missing.
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

// PartitionMethod is the method of the partitions to take; "": any.
func PartitionMethod(o *setting.Options) string {
	if o.Partition == setting.Defaults().Partition {
		return ""
	}
	return o.Partition
}

// Advised adds to an error of refused memory how to find out what is needed.
func Advised(err error) error {
	if errors.As(err, &tensor.OutOfMemory{}) {
		return fmt.Errorf("%w; see what the run needs with weft train --show-plan", err)
	}
	return err
}
