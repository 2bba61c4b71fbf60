package training

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weft/checkpoint"
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
)

// resumption is a run that continues.
type resumption struct {
	path   string // the path of its directory
	graph  string // a dataset or a store
	state  rundir.State
	before setting.Options // the options with which it ran last
	from   *checkpoint.Checkpoint
	record train.Record // the record in from
	dir    *rundir.Dir  // on rank 0
}

const resumeAuto = "auto"

// findRun finds the run that --resume names; nil: a new run begins. With auto it is the run in the directory
// that --out names, if there is one.
func (t *trainCommand) findRun(args []string) (r *resumption, err error) {
	switch {
	case t.resume == "" && len(args) == 0:
		return nil, refusal.Errorf("a new run needs a dataset; the command is: weft train DATASET|STORE, " +
			"or weft train --resume RUN")
	case t.resume == "":
		return nil, nil
	case t.showPlan:
		return nil, refusal.Errorf("--show-plan: plans new runs; leave out --resume")
	case t.settings.Config != "" && t.resume != resumeAuto:
		return nil, refusal.Errorf("--config %s: a run that continues has its settings; leave it out",
			t.settings.Config)
	case t.resume == resumeAuto && (t.out == "" || len(args) == 0):
		return nil, refusal.Errorf("--resume auto: continues the run in --out, or begins it; give DATASET " +
			"and --out RUN, or --resume RUN")
	case t.resume != resumeAuto && t.out != "":
		return nil, refusal.Errorf("--out %s: the run continues in %s; leave it out", t.out, t.resume)
	}
	r = &resumption{path: t.resume}
	if t.resume == resumeAuto {
		r.path = t.out
		if !rundir.Begun(r.path) {
			return nil, nil
		}
	}
	if r.state, err = rundir.LastState(r.path); err != nil {
		return nil, err
	}
	if r.before, err = setting.FromTexts(r.state.Settings); err != nil {
		return nil, refusal.Errorf("%s: %w", r.path, err)
	}
	if err := r.before.ReadKept(r.path); err != nil {
		return nil, err
	}
	if t.resume != resumeAuto {
		t.settings.Base = &r.before
	}
	other := "leave it out"
	if t.resume == resumeAuto {
		other = "another --out"
	}
	if len(args) == 0 {
		r.graph = r.state.Store
		return r, nil
	}
	return r, r.findGraph(t.source(args[0]), other)
}

// resumeRun continues a run, or says that it has ended. opened is as in train.
func (t *trainCommand) resumeRun(
	cmd *cobra.Command, r cli.Ranks, run *resumption, settings *setting.Resolved, opened *session.Session,
) (err error) {
	show := ui.ProgressOf(cmd, t.json)
	// Rank 0 decides: the others may see files of the run that a file system has cached.
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
			if run.dir != nil { // nothing has been done
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

// findGraph finds the graph on which to continue: the graph of the run, which a given graph must be, too. If
// it is gone, the given graph says where it is now, or is a store with the same contents; checksums tell
// whether it is the same. other says what to do in place of giving that graph.
func (r *resumption) findGraph(source data.Source, other string) error {
	r.graph = r.state.Store
	if !cli.IsFolder(r.graph) {
		r.graph = source.Name
		return nil
	}
	list, found := data.FromSource(source)
	switch {
	case found && list.Format == data.EdgesFormat && source.Name == r.state.Dataset && !list.Made(r.graph):
		return refusal.Errorf("%s: the run in %s was begun with other tables, or other flags of tables; "+
			"give those, or %s", source.Name, r.path, other)
	case source.Name != r.state.Dataset && !cli.SameFile(source.Name, r.graph) &&
		!sameStores(source.Name, r.graph):
		return refusal.Errorf("%s: the run in %s is of another graph, %s; give that, or %s%s", source.Name,
			r.path, r.graph, other, r.init())
	}
	return nil
}

// init says how a run on another graph begins with the weights of this one, if it has any.
func (r *resumption) init() string {
	if _, err := os.Stat(filepath.Join(r.path, setting.WeightsFile)); err != nil {
		return ""
	}
	return "; --init " + refusal.ShellWord(r.path) + " begins a new run with its weights"
}

// sameStores reports whether two paths are of stores of one graph.
func sameStores(a, b string) bool {
	if !cli.IsStore(a) || !cli.IsStore(b) {
		return false
	}
	sum, err := checksum(a)
	if err != nil {
		return false // the error comes again
	}
	other, err := checksum(b)
	return err == nil && sum == other
}

// checkMoved refuses a graph, given in place of one that is gone, if the run's last checkpoint is of other
// contents.
func (r *resumption) checkMoved() (err error) {
	folder := filepath.Join(r.path, rundir.Checkpoints)
	epochs, err := checkpoint.Epochs(folder)
	if err != nil || len(epochs) == 0 || r.graph == r.state.Store || !cli.IsStore(r.graph) {
		return err
	}
	last, err := checkpoint.Read(folder, epochs[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, last.Close()) }()
	var record train.Record
	if err := last.State(&record); err != nil {
		return err
	}
	sum, err := checksum(r.graph)
	same := sum == record.Store || r.before.Validate != "" && strings.HasPrefix(record.Store, sum)
	if err == nil && !same {
		err = refusal.Errorf("%s: the run in %s is of another graph; give that, or begin a new run in "+
			"another folder%s", r.graph, r.path, r.init())
	}
	return err
}

// agree fails if the ranks have found different runs; nil: a new run.
func (r *resumption) agree(all cli.Ranks) error {
	identity, path := "", ""
	if r != nil {
		identity, path = r.state.Started.String()+r.state.Store, r.path
	}
	return all.Agree(identity, func(rank int, _, _ string) error {
		return refusal.Errorf("--resume %s: rank %d finds another run than rank 0: the machines of all "+
			"workers need the folder of the run, on a shared file system", path, rank)
	})
}

// finished returns the record of the run if it has ended and these settings leave nothing to do.
func (r *resumption) finished(o *setting.Resolved) (*rundir.Run, error) {
	run, _, _, err := rundir.Read(r.path)
	if err != nil || run.Interrupted {
		return nil, nil //nolint:nilerr // a run without a whole record goes on, and writes one
	}
	if err := r.continues(o); err != nil {
		return nil, err
	}
	if run.Diverged {
		return nil, refusal.Errorf("%s: the run ended: %s; it would end so again: begin a run with other "+
			"settings in another folder", r.path, run.Reason)
	}
	if done := run.Summary.EpochsRun; o.Epochs < done {
		return nil, r.tooFew(o, done)
	}
	if o.Epochs != r.before.Epochs && run.Ended == train.EndedEpochs ||
		o.Patience != r.before.Patience && run.Ended == train.EndedPatience {
		return nil, nil
	}
	run.Summary.RunDir = r.path // the directory may have been moved
	return &run, nil
}

// checkGraph refuses a run whose graph is gone.
func (r *resumption) checkGraph() error {
	if r.graph == "" && r.state.Lost != nil {
		return refusal.Errorf("%w; its last checkpoint can continue, on the graph of the run: weft train STORE --resume %s",
			r.state.Lost, refusal.ShellWord(r.path))
	}
	if r.graph == "" {
		return refusal.Errorf("%s: the graph of the run was made in memory; the program that made it can "+
			"continue the run", r.path)
	}
	if _, err := os.Stat(r.graph); err != nil && r.graph == r.state.Store {
		return refusal.Errorf("%s: the graph of the run, %s, is not there; restore it, or say where it "+
			"is: weft train STORE --resume %[1]s", r.path, r.graph)
	}
	return nil
}

// open takes hold of the run's directory, and opens its last whole checkpoint, if there is one. It returns
// the settings with which the run continues.
func (r *resumption) open(ranks cli.Ranks, o *setting.Resolved,
	stderr io.Writer,
) (settings *setting.Resolved, err error) {
	err = ranks.OnFirst(func() error {
		if err := r.checkGraph(); err != nil {
			return err
		}
		r.dir, err = rundir.Reopen(r.path)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.from, err = train.OpenLast(ranks.Ranks, filepath.Join(r.path, rundir.Checkpoints), func(err error) {
		fmt.Fprintln(stderr, ui.OneLine(fmt.Errorf("%w; trying the checkpoint before", err)))
	})
	if err != nil {
		return nil, err
	}
	return r.settings(o)
}

// settings checks the settings with which the run is to continue. Three settings stay as they were unless
// they are given: the number of chunks of a pipeline, which states of edges are kept, and the partitions, if
// they are still stored.
func (r *resumption) settings(o *setting.Resolved) (settings *setting.Resolved, err error) {
	if r.from == nil {
		return o, r.continues(o)
	}
	record := &r.record
	if err := r.from.State(record); err != nil {
		return nil, err
	}
	before, err := setting.FromTexts(record.Settings)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", r.from.Path, err)
	}
	changed, m := o.Options, record.Mesh
	if o.Chunks == 0 && o.Mesh.Stages > 1 && m.Stages > 1 {
		changed.Chunks = before.Chunks
	}
	changed.KeepEdgeStates = cmp.Or(o.KeepEdgeStates, before.KeepEdgeStates)
	if m.Partitions > 1 && m.Partitions == o.Mesh.Partitions && session.PartitionMethod(&changed) == "" {
		method, err := r.methodOf(record.Partition)
		if err != nil {
			return nil, err
		}
		changed.Partition = cmp.Or(method, changed.Partition)
	}
	if o, err = changed.Resolve(); err != nil {
		return nil, err
	}
	if r.from.Epoch > o.Epochs {
		return nil, r.tooFew(o, r.from.Epoch)
	}
	return o, o.CheckContinues(&before, m)
}

// methodOf is the method of the stored partitions with an id; "": there are none.
func (r *resumption) methodOf(id string) (string, error) {
	all, err := partition.List(r.graph)
	for _, d := range all {
		if d.ID == id {
			return d.Method, err
		}
	}
	return "", err
}

// line says where the run continues, of epochs epochs.
func (r *resumption) line(epochs int) string {
	if r.from == nil {
		return r.path + ": no checkpoint; the run begins again"
	}
	return fmt.Sprintf("%s: continues after epoch %s of %s", r.path, ui.Count(r.from.Epoch), ui.Count(epochs))
}

// tooFew refuses settings with fewer epochs than the run has done.
func (r *resumption) tooFew(o *setting.Resolved, done int) error {
	return refusal.Errorf("--epochs %d: the run in %s has done %d; give more",
		o.Epochs, r.path, done)
}

// continues refuses settings that differ from the run's and may not change.
func (r *resumption) continues(o *setting.Resolved) error {
	before, err := r.before.Resolve()
	if err != nil {
		return nil //nolint:nilerr // a file that it names may be gone
	}
	return o.CheckContinues(&r.before, before.Mesh)
}

// checkStore refuses graphs that have changed: the training graph and, if there is one, the validation graph.
func (r *resumption) checkStore(s *session.Session) error {
	now, err := s.Stored.Checksum()
	if err == nil && now != r.record.Store {
		err = refusal.Errorf("%s: the graph has changed since %s was written; restore it, or begin a new "+
			"run in another folder, from its weights with --init %s", strings.Join(s.Stores(), " or "), r.from.Path,
			refusal.ShellWord(r.path))
	}
	return err
}

// checksum is the checksum of the graphs in some stores.
func checksum(stores ...string) (string, error) {
	var sums []string
	for _, store := range stores {
		g, err := graph.Open(store)
		if err != nil {
			return "", err
		}
		sum, err := g.Checksum()
		if err := errors.Join(err, g.Close()); err != nil {
			return "", err
		}
		sums = append(sums, sum)
	}
	return strings.Join(sums, " "), nil
}
