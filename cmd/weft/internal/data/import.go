package data

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/datasets"
	"weft/graph/streamed"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/rundir"
)

// importRequest is the arguments and flags of an import.
type importRequest struct {
	format   string
	sources  []string
	store    string
	reader   reader
	changes  *changes
	flags    *pflag.FlagSet // all flags of the command
	progress graph.Progress
	dataset  *datasets.Import // the dataset whose store is made; nil: none
}

// source returns the only source.
func (r *importRequest) source() string { return r.sources[0] }

// files are the files and folders from which the graph is read: the sources, and those that flags name.
func (r *importRequest) files() (files []string) {
	for _, source := range r.sources {
		files = append(files, formatNamed(r.format).filesOf(source)...)
	}
	r.flags.Visit(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); name != "file" {
			return
		}
		if _, several := f.Value.(pflag.SliceValue); several {
			for _, argument := range valuesOf(f) {
				_, path := tables.Named(argument)
				files = append(files, path)
			}
			return
		}
		path := f.Value.String()
		if f.Name == ColumnsOfFlag && rundir.Is(path) {
			path, _, _ = weightsOf(path, new(tables.Like)) // reading it says what is wrong
		}
		files = append(files, path)
	})
	return files
}

// isBeside reports whether the store is beside its source, where a command that names the source looks for
// it.
func (r *importRequest) isBeside() bool {
	recognized := recognition{Format: r.format, source: r.source()}
	return cli.SameFile(r.store, recognized.storeBeside())
}

// provenance returns the provenance of a graph: its source, and the flags of the import.
func (r *importRequest) provenance(source string) string {
	words := changed(r.flags)
	if r.dataset != nil {
		words = strings.Join(r.dataset.Flags, " ") // in their own order
	}
	if words != "" {
		source += " (" + words + ")"
	}
	return strings.TrimSpace(source)
}

// checkDense refuses --dense-features if the graph has no dense features.
func (r *importRequest) checkDense(dense bool) error {
	if f := r.flags.Lookup("dense-features"); f != nil && f.Value.String() == "true" && !dense {
		return refusal.Errorf("--dense-features: %s comes without dense features; leave it out", r.source())
	}
	return nil
}

// ImportName is the name of the command.
const ImportName = "import"

// NewImport makes the command import.
func NewImport() *cobra.Command {
	c := &changes{}
	cmd := &cobra.Command{
		Use:   ImportName + " [FORMAT] SOURCE STORE",
		Short: "turn a graph in a foreign format into a store",
		Long: `import reads a graph in a foreign format and writes a store, a directory of NumPy arrays that train reads. Without a FORMAT it
recognizes the source, and says which format it is. An import that fails leaves nothing behind.`,
		Example: `  weft import planetoid data/ind.cora stores/cora
  weft import npz coauthor_physics.npz stores/physics --symmetrize --largest-component --split per-class=20,30 --splits 5
  weft import pyg graph.pt stores/mine
  weft import edges follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20
  weft import rdf aifb.nt.gz stores/aifb --train train.tsv --test test.tsv --entity person --label label_affiliation
  weft import debian /var/lib/apt/lists stores/debian`,
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteFiles, cli.CompleteFolders),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return refusal.Errorf("name the source and the store: weft import [FORMAT] SOURCE STORE")
			}
			if r, found := Recognize(args[0]); !found {
				return unrecognized(cmd, args[0])
			} else if len(args) != 2 {
				return refusal.Errorf("%s: name the store to make of it: %s", args[0], r.command("STORE"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			r, _ := Recognize(args[0])
			fmt.Fprintf(cmd.OutOrStdout(), "%s: importing it as %s does\n", ui.Printable(args[0]),
				ui.Printable(r.command(args[1])))
			request, err := r.request(args[1], cmd.Flags())
			if err != nil {
				return err
			}
			return r.lacks(request.run(cmd))
		},
	}
	c.flags(cmd.PersistentFlags())
	ui.AddQuiet(cmd.PersistentFlags())
	for _, f := range formats {
		cmd.AddCommand(newImportOf(f, c))
	}
	return cmd
}

// unrecognized refuses a first argument of import that is neither a format nor a source of a known format.
func unrecognized(cmd *cobra.Command, argument string) error {
	if err := severalSources(argument); err != nil {
		return err
	}
	if _, err := os.Stat(argument); err == nil {
		return refusal.Errorf("%s: its format is not recognized; name it: weft import FORMAT %[1]s STORE; "+
			"weft help import lists the formats", argument)
	}
	if strings.ContainsAny(argument, "./") {
		return refusal.Errorf("%s: there is no such file or folder", argument)
	}
	return cli.UnknownName(cmd, "format", argument)
}

// storeNamed says, if there is only a source, that the store to make from it is missing.
func storeNamed(otherwise cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return refusal.Errorf("%s: name the store to make of it: %s %s STORE", args[0], cmd.CommandPath(),
				refusal.ShellWord(args[0]))
		}
		return otherwise(cmd, args)
	}
}

// newImportOf returns the command of one format.
func newImportOf(f format, c *changes) *cobra.Command {
	cmd := &cobra.Command{
		Use:               f.name + " " + f.source + " STORE",
		Short:             f.short,
		Example:           "  weft import " + f.name + " " + f.example,
		Args:              cli.Arguments(2, 2),
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteFiles, cli.CompleteFolders),
	}
	if f.several {
		cmd.Args, cmd.ValidArgsFunction = cli.Arguments(2, math.MaxInt), cli.CompleteFiles
	}
	cmd.Args = storeNamed(cmd.Args)
	reader := f.flags(cmd.Flags(), c)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		last := len(args) - 1
		if reader.tables != nil {
			var piped copies
			defer func() {
				if err != nil {
					err = piped.failed(err)
				} else {
					err = piped.leave()
				}
			}()
			if err := piped.ofImport(cmd.Flags(), args[:last]); err != nil {
				return err
			}
		}
		r := &importRequest{
			format: f.name, sources: args[:last], store: args[last], reader: reader, changes: c,
			flags: cmd.Flags(),
		}
		return r.run(cmd)
	}
	return cmd
}

// run imports, and says what the store holds.
func (r *importRequest) run(cmd *cobra.Command) error {
	if err := r.changes.check(r.flags); err != nil {
		return err
	}
	if err := checkNewStore(r.store); err != nil {
		return err
	}
	defer cli.RemoveOnSignal(cmd.ErrOrStderr(), r.store)()
	files, unseen := datasets.LookAt(r.files())
	started := time.Now()
	shown := ui.NewPhases(ui.BesideResults(cmd))
	r.progress = shown.Show
	made, err := r.makeStore()
	shown.Erase()
	if err == nil && unseen == nil && r.isBeside() { // weft train SOURCE takes it
		err = files.Record(r.store)
	}
	if err != nil {
		return r.leadOn(err, "weft import "+EdgesFormat, r.store)
	}
	if made.OneClass {
		made.Warnings = append(made.Warnings, OneClass)
	}
	out := cmd.OutOrStdout()
	if err := describeStore(r.store, made, time.Since(started), cmd.ErrOrStderr(), out); err != nil {
		return err
	}
	fmt.Fprintln(out, cmp.Or(r.nextLabelled(), nextLine(r.store, made)))
	return nil
}

// leaksOf warns of a store that has edges which its split of edges holds out.
func leaksOf(store string) (warnings []string, err error) {
	splits, err := graph.OpenRelations(store)
	if err != nil {
		return nil, err
	}
	there := slices.ContainsFunc(splits.Relations, func(r graph.Relation) bool { return r.EdgeSplit != nil })
	if err := splits.Close(); err != nil || !there {
		return nil, err
	}
	g, err := graph.Open(store)
	if err != nil {
		return nil, err
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		if leaked := r.Leaked(); leaked > 0 {
			suffix := ui.When(len(g.Relations) > 1, " of "+r.FullName())
			warnings = append(warnings, fmt.Sprintf("%s%s of the split pass messages, as they are edges "+
				"of the graph, too, so that a model sees what it is to predict: leave them out of the "+
				"graph's edges",
				ui.Counted(leaked, "validation or test edge", "validation and test edges"), suffix))
		}
	}
	return warnings, g.Close()
}

// makeStore imports the graph, in a stream unless a change needs it in memory.
func (r *importRequest) makeStore() (*streamed.Written, error) {
	if r.reader.prepare != nil {
		if err := r.reader.prepare(); err != nil {
			return nil, err
		}
	}
	r.progress.Report("reading "+r.source(), 0, 0)
	g, err := r.reader.open(r)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if r.changes.needGraph() {
		if g, err = r.change(g); err != nil {
			return nil, err
		}
	} else {
		g.Symmetrize = g.Symmetrize || r.changes.symmetrize
		g.Prepare = func() error { return r.prepare(g) }
	}
	g.InMemory.Provenance, g.Progress = r.provenance(g.InMemory.Provenance), r.progress
	if r.dataset != nil && r.dataset.Metric != "" {
		g.InMemory.Metric = r.dataset.Metric
	}
	return g.Write(r.store)
}

// prepare makes the splits that were asked for.
func (r *importRequest) prepare(g *streamed.Graph) error {
	if err := r.checkDense(g.Dense()); err != nil || r.changes.split == "" {
		return err
	}
	return r.changes.makeSplits(g.InMemory)
}

// change reads a graph into memory, and applies the changes.
func (r *importRequest) change(g *streamed.Graph) (*streamed.Graph, error) {
	whole, err := g.Read()
	if err != nil {
		return nil, err
	}
	dense := func(t graph.VertexType) bool { return t.Features.Dense != nil }
	if err := r.checkDense(slices.ContainsFunc(whole.Types, dense)); err != nil {
		return nil, err
	}
	if whole, err = r.changes.apply(whole, g.Symmetrize); err != nil {
		return nil, err
	}
	changed := streamed.Of(whole, g.Source)
	changed.Add = g.Add
	return changed, nil
}

// writePartitions writes the partitions of a store.
func writePartitions(store string, a *partition.Assignment, progress graph.Progress) error {
	g, err := graph.Open(store)
	if err != nil {
		return err
	}
	_, err = partition.Write(store, g, a, progress)
	return errors.Join(err, g.Close())
}

// changed lists the given flags that change the store, by name.
func changed(flags *pflag.FlagSet) string {
	var words []string
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == ui.QuietFlag {
			return
		}
		for _, value := range valuesOf(f) {
			word := "--" + f.Name
			if f.Value.Type() != "bool" {
				word += " " + value
			} else if value == "false" {
				word += "=false"
			}
			words = append(words, word)
		}
	})
	slices.Sort(words)
	return strings.Join(words, " ")
}

// ImportedWith reports whether a graph of that provenance was imported with a flag.
func ImportedWith(provenance, flag string) bool {
	return slices.ContainsFunc(strings.Fields(provenance), func(word string) bool {
		return strings.Trim(word, "();") == "--"+flag
	})
}

// OneClass is the warning about a graph whose labels are all one class.
const OneClass = "all labels of the graph are one class, so there is nothing to learn"
