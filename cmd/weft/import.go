package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/datasets"
	"weft/internal/refusal"
	"weft/partition"
)

// importer reads graphs in one foreign format. Its fields are the values of the format's own flags.
type importer interface {
	format() format
	// flags declares the format's own flags.
	flags(*pflag.FlagSet)
	// read reads the graph. The caller then applies the request's changes to it.
	read(*importRequest) (*imported, error)
}

// streamer is an importer that can also write a store without having the whole graph in memory.
type streamer interface {
	importer
	// open opens the graph, with the request's split; nil if it must be in memory as a whole, by read.
	open(*importRequest) (*streamed.Graph, error)
}

// format describes a foreign format on the command line.
type format struct {
	name    string
	source  string // name of the source in the usage line
	several bool   // there may be several sources of one graph
	short   string
	example string // arguments of an example
}

// sources returns a check of the number of arguments: sources and a store.
func (f *format) sources() cobra.PositionalArgs {
	if f.several {
		return arguments(2, math.MaxInt)
	}
	return arguments(2, 2)
}

// importRequest is the arguments and flags of an import.
type importRequest struct {
	sources  []string
	store    string
	changes  *changes
	flags    *pflag.FlagSet // all flags of the command
	progress graph.Progress
}

// source returns the only source.
func (r *importRequest) source() string { return r.sources[0] }

// files are the files and folders that the graph is read from: the sources, and those that flags name.
func (r *importRequest) files(i importer) (files []string) {
	for _, source := range r.sources {
		of := recognition{format: i.format().name, source: source}
		files = append(files, of.files()...)
	}
	r.flags.Visit(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); name == "file" {
			files = append(files, f.Value.String())
		}
	})
	return files
}

// isBeside reports whether the store is beside its source, where a command that names the source looks for
// it.
func (r *importRequest) isBeside() bool {
	of := recognition{source: r.source()}
	return sameFile(r.store, of.storeBeside())
}

// provenance returns the provenance of a graph: its source, and the flags of the import.
func (r *importRequest) provenance(source string) string {
	if words := changed(r.flags); words != "" {
		source += " (" + words + ")"
	}
	return strings.TrimSpace(source)
}

// imported is a graph that an importer has read.
type imported struct {
	*graph.Graph
	division  *partition.Assignment // how the source divided the vertices; nil: it did not
	symmetric bool                  // the reader has made it so
}

// importers returns the importers of all formats, in the order of the help.
func importers(c *changes) []importer {
	return []importer{
		planetoidImport{},
		new(npzImport), new(pygImport), new(edgesImport), &ogbImport{split: splitOrRule{rule: &c.split}},
		new(rdfImport), new(kgImport), new(ppiImport),
		debianImport{},
		new(dglImport),
	}
}

// importName is the name of the command.
const importName = "import"

func newImport() *cobra.Command {
	c := &changes{}
	cmd := &cobra.Command{
		Use:   importName + " [FORMAT] SOURCE STORE",
		Short: "turn a graph in a foreign format into a store",
		Long: `import reads a graph in a foreign format and writes a store, a directory of NumPy arrays that train reads. Without a FORMAT it
recognizes the source, and says which format it is. An import that fails leaves nothing behind.`,
		Example: `  weft import planetoid data/ind.cora stores/cora
  weft import npz coauthor_physics.npz stores/physics --symmetrize --largest-component --split per-class=20,30 --splits 5
  weft import pyg graph.pt stores/mine
  weft import edges follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20
  weft import rdf aifb.nt.gz stores/aifb --train train.tsv --test test.tsv --entity person --label label_affiliation
  weft import debian /var/lib/apt/lists stores/debian`,
		Annotations:       map[string]string{subcommandWord: "FORMAT"},
		ValidArgsFunction: completeInOrder(completeFiles, completeFolders),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return refusal.Errorf("name the source and the store: weft import [FORMAT] SOURCE STORE")
			}
			if r, found := recognize(args[0]); !found {
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
			r, _ := recognize(args[0])
			fmt.Fprintf(cmd.OutOrStdout(), "%s: importing it as %s does\n", printable(args[0]), printable(r.command(args[1])))
			c := &changes{}
			i, flags, err := r.importer(c)
			cmd.Flags().Visit(func(given *pflag.Flag) {
				if flags.Lookup(given.Name) != nil {
					err = errors.Join(err, flags.Set(given.Name, given.Value.String()))
				}
			})
			if err != nil {
				return err
			}
			return r.lacks(runImport(cmd, i, &importRequest{sources: []string{r.source}, store: args[1], changes: c, flags: flags}))
		},
	}
	c.flags(cmd.PersistentFlags())
	for _, i := range importers(c) {
		cmd.AddCommand(newImportOf(i, c))
	}
	return cmd
}

// unrecognized refuses a first argument of import that is neither a format nor a source of a known one.
func unrecognized(cmd *cobra.Command, argument string) error {
	if err := severalSources(argument); err != nil {
		return err
	}
	if _, err := os.Stat(argument); err == nil {
		return refusal.Errorf("%s: its format is not recognized; name it: weft import FORMAT %[1]s STORE; weft help import lists the formats", argument)
	}
	if strings.ContainsAny(argument, "./") {
		return refusal.Errorf("%s: there is no such file or folder", argument)
	}
	return unknownName(cmd, "format", argument)
}

// newImportOf returns the command of one format.
func newImportOf(i importer, c *changes) *cobra.Command {
	f := i.format()
	cmd := &cobra.Command{
		Use:     f.name + " " + f.source + " STORE",
		Short:   f.short,
		Example: "  weft import " + f.name + " " + f.example,
		Args:    f.sources(),
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			return runImport(cmd, i, &importRequest{sources: args[:last], store: args[last], changes: c, flags: cmd.Flags()})
		},
	}
	cmd.ValidArgsFunction = completeInOrder(completeFiles, completeFolders)
	if f.several {
		cmd.ValidArgsFunction = completeFiles
	}
	i.flags(cmd.Flags())
	return cmd
}

func runImport(cmd *cobra.Command, i importer, r *importRequest) error {
	if err := r.changes.check(r.flags); err != nil {
		return err
	}
	if err := checkNewStore(r.store); err != nil {
		return err
	}
	defer removeOnSignal(cmd.ErrOrStderr(), r.store)()
	files, unseen := datasets.LookAt(r.files(i))
	started := time.Now()
	shown := newStages(cmd.ErrOrStderr())
	r.progress = shown.show
	made, err := makeStore(i, r)
	shown.erase()
	if err == nil && unseen == nil && r.isBeside() { // weft train SOURCE takes it
		err = files.Record(r.store)
	}
	if err != nil {
		return err
	}
	leaks, err := leaksOf(r.store)
	if err != nil {
		return err
	}
	warnings := slices.Concat(made.Warnings, leaks)
	if made.oneClass {
		warnings = append(warnings, oneClass)
	}
	for _, warning := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+warning)
	}
	for _, note := range made.Notes {
		fmt.Fprintln(cmd.OutOrStdout(), note)
	}
	fmt.Fprintln(cmd.OutOrStdout(), storeLine(r.store, made, time.Since(started)))
	fmt.Fprintln(cmd.OutOrStdout(), nextLine(r.store, made.Graph))
	return nil
}

// leaksOf warns of a store whose edges have some that its split of edges holds out.
func leaksOf(store string) (warnings []string, err error) {
	splits, err := graph.OpenEdgeSplits(store)
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
			of := when(len(g.Relations) > 1, " of "+r.FullName())
			warnings = append(warnings, fmt.Sprintf("%s%s of the split pass messages, as they are edges of the graph, too, so that a model sees what it is to predict: leave them out of the graph's edges",
				counted(leaked, "validation or test edge", "validation and test edges"), of))
		}
	}
	return warnings, g.Close()
}

// makeStore imports in a stream where that is possible.
func makeStore(i importer, r *importRequest) (*contents, error) {
	s, streams := i.(streamer)
	if !streams || r.changes.needGraph() {
		return readAndWrite(i, r)
	}
	g, err := s.open(r)
	if err != nil {
		return nil, err
	}
	if g == nil {
		return readAndWrite(i, r)
	}
	defer g.Close()
	g.Symmetrize = g.Symmetrize || r.changes.symmetrize
	g.InMemory.Provenance, g.Progress = r.provenance(g.InMemory.Provenance), r.progress
	w, err := g.Write(r.store)
	if err != nil {
		return nil, err
	}
	return &contents{w.Graph, w.Edges, w.Weighted, w.OneClass}, nil
}

// readAndWrite reads a graph, applies the changes, and writes it.
func readAndWrite(i importer, r *importRequest) (*contents, error) {
	r.progress.Of("reading "+r.source(), 0, 0)
	read, err := i.read(r)
	if err != nil {
		return nil, err
	}
	defer read.Close()
	g, err := r.changes.apply(read)
	if err != nil {
		return nil, err
	}
	g.Provenance = r.provenance(g.Provenance)
	if err := writeStore(r.store, g, read.division, r.progress); err != nil {
		return nil, err
	}
	return contentsOf(g), nil
}

// writeStore writes the store of a graph, with the partitions a unless nil.
func writeStore(store string, g *graph.Graph, a *partition.Assignment, progress graph.Progress) error {
	return g.WriteWith(store, progress, func(store string) error {
		if a == nil {
			return nil
		}
		g, err := graph.Open(store)
		if err != nil {
			return err
		}
		_, err = partition.Write(store, g, a, progress)
		return errors.Join(err, g.Close())
	})
}

// changed lists the flags that were given, by name.
func changed(flags *pflag.FlagSet) string {
	var words []string
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
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

// denseFeatures is the flag --dense-features, of the formats whose features become sparse rows if most values
// are zero.
type denseFeatures struct{ keep bool }

func (d *denseFeatures) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&d.keep, "dense-features", false, "store features dense although most are zero")
}

// check refuses the flag if a graph has no dense features.
func (d *denseFeatures) check(source string, dense bool) error {
	if d.keep && !dense {
		return refusal.Errorf("--dense-features: %s comes without dense features; leave it out", source)
	}
	return nil
}

// checked returns the graph that was read of a source, if it passes check.
func (d *denseFeatures) checked(source string, g *graph.Graph, err error) (*imported, error) {
	dense := func(t graph.VertexType) bool { return t.Features.Dense != nil }
	if err == nil {
		err = d.check(source, slices.ContainsFunc(g.Types(), dense))
	}
	return onlyGraph(g, err)
}

// opened returns the graph that was opened, which will have the request's split if it passes check.
func (d *denseFeatures) opened(r *importRequest, g *streamed.Graph, err error) (*streamed.Graph, error) {
	if g == nil || err != nil {
		return nil, err
	}
	g.Prepare = func() error {
		if err := d.check(r.source(), g.Dense()); err != nil || r.changes.split == "" {
			return err
		}
		return r.changes.makeSplits(g.InMemory)
	}
	return g, nil
}

// onlyGraph returns the result of an importer whose format holds no partitions.
func onlyGraph(g *graph.Graph, err error) (*imported, error) {
	if err != nil {
		return nil, err
	}
	return &imported{Graph: g}, nil
}
