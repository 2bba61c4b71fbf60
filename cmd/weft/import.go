package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/debian"
	"weft/graph/edgelist"
	"weft/graph/npz"
	"weft/graph/planetoid"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
)

// format is a foreign format that import reads.
type format struct {
	name, source   string // the command line's words
	short, example string
	flags          func(*pflag.FlagSet)
	read           func(source string) (*graph.Graph, error)
	division       func() *partition.Assignment // of the graph that was read; nil, or returning nil: there is none
}

// changes are what import does to a graph after reading it.
type changes struct {
	symmetrize, selfLoops, largest bool
	reverse                        bool // relations
	split                          string
	splits                         int
	randomFeatures                 int
	seed                           uint64
}

func (c *changes) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&c.symmetrize, "symmetrize", false, "store each edge both ways")
	flags.BoolVar(&c.reverse, "reverse-relations", false, "add to each relation one that leads back, rev_NAME")
	flags.BoolVar(&c.selfLoops, "self-loops", false, "give each vertex an edge to itself")
	flags.BoolVar(&c.largest, "largest-component", false, "keep the largest connected component only")
	flags.StringVar(&c.split, "split", "", "`rule`: given, random:60/20/20, per-class=20,30 or per-class=20,=500,=1000, where = counts in all (default: the source's own)")
	flags.IntVar(&c.splits, "splits", 1, "number of splits made by the rule")
	flags.IntVar(&c.randomFeatures, "random-features", 0, "replace the features by so many columns of normal noise")
	flags.Uint64Var(&c.seed, "seed", 0, "seed of random splits and features")
}

func newImport() *cobra.Command {
	c := &changes{}
	cmd := &cobra.Command{
		Use:   "import FORMAT SOURCE STORE",
		Short: "turn a graph in a foreign format into a store",
		Long: `import reads a graph in a foreign format and writes a store, a directory of NumPy arrays that train reads.
Nothing is left behind when it fails.`,
		Example: `  weft import planetoid data/ind.cora stores/cora
  weft import npz coauthor_physics.npz stores/physics --symmetrize --largest-component --split per-class=20,30 --splits 5
  weft import edges follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20
  weft import debian /var/lib/apt/lists stores/debian`,
		Annotations: map[string]string{subcommandWord: "FORMAT"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return refusal.Errorf("name the format: weft import FORMAT SOURCE STORE")
			}
			return unknownName(cmd, "format", args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.flags(cmd.PersistentFlags())
	for _, f := range formats(c) {
		sub := &cobra.Command{
			Use:     f.name + " " + f.source + " STORE",
			Short:   f.short,
			Example: "  weft import " + f.name + " " + f.example,
			Args:    arguments(2, 2),
			RunE:    func(cmd *cobra.Command, args []string) error { return runImport(cmd, f, args[0], args[1], c) },
		}
		sub.ValidArgsFunction = completeInOrder(completeFiles, completeFolders)
		if f.flags != nil {
			f.flags(sub.Flags())
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

func formats(c *changes) []format {
	var list edgelist.Options
	var directed, denseFeatures bool
	storage := func(flags *pflag.FlagSet) {
		flags.BoolVar(&denseFeatures, "dense-features", false, "keep features dense of which few are not zero")
	}
	// checked refuses --dense-features where it had no effect.
	checked := func(source string, g *graph.Graph, err error) (*graph.Graph, error) {
		if err == nil && denseFeatures && g.Features.Dense == nil {
			return nil, refusal.Errorf("--dense-features: %s comes without dense features; leave it out", source)
		}
		return g, err
	}
	return []format{
		{
			name: "planetoid", source: "PREFIX", short: "citation graphs as published with Planetoid: PREFIX.x, PREFIX.graph, …",
			example: "data/ind.cora stores/cora", read: planetoid.Read,
		},
		{
			name: "npz", source: "FILE", short: "a graph in one .npz file, as of gnn-benchmark and of the heterophilous datasets",
			example: "amazon_computers.npz stores/computers --symmetrize --largest-component --split per-class=20,30",
			flags: func(flags *pflag.FlagSet) {
				flags.BoolVar(&directed, "directed", false, "keep the edges as the file lists them; a file named ..._directed.npz is read so")
				storage(flags)
			},
			read: func(source string) (*graph.Graph, error) {
				if directed && c.symmetrize {
					return nil, refusal.Errorf("--directed and --symmetrize: give one of the two")
				}
				g, err := npz.Read(source, npz.Options{AsListed: directed || c.symmetrize, DenseFeatures: denseFeatures})
				return checked(source, g, err)
			},
		},
		{
			name: "edges", source: "FILE", short: "an edge list (CSV, TSV or Parquet) with .npy or CSV features, labels and splits",
			example: "follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20",
			flags: func(flags *pflag.FlagSet) {
				flags.StringVar(&list.Features, "features", "", "`file` (.npy, CSV, .csv.gz; .npz of scipy.sparse): a row of features per vertex")
				flags.StringVar(&list.Labels, "labels", "", "`file` (.npy, CSV, .csv.gz): a class per vertex, or a 0/1 matrix")
				flags.StringVar(&list.Train, "train", "", "`file` (the same): vertices that train: ids, a mask, or masks (a column per split)")
				flags.StringVar(&list.Val, "val", "", "`file`: vertices that validate")
				flags.StringVar(&list.Test, "test", "", "`file`: vertices that test")
				storage(flags)
				flags.IntVar(&list.Vertices, "vertices", 0, "number of vertices (default: the largest id and one)")
				flags.BoolVar(&list.Strings, "string-ids", false, "vertices are named by any text; rows of arrays follow the names' first appearance")
			},
			read: func(source string) (*graph.Graph, error) {
				list.Path, list.DenseFeatures = source, denseFeatures
				g, err := edgelist.Read(list)
				return checked(source, g, err)
			},
		},
		{
			name: "debian", source: "DIR", short: "a Debian machine's package index, as apt-get update leaves it",
			example: debian.Lists + " stores/debian",
			read: func(source string) (*graph.Graph, error) {
				return debian.Read(source, debian.Options{Seed: c.seed})
			},
		},
		dglFormat(c),
	}
}

func runImport(cmd *cobra.Command, f format, source, store string, c *changes) error {
	if err := c.check(cmd.Flags()); err != nil {
		return err
	}
	if err := checkNewStore(store); err != nil {
		return err
	}
	defer removeOnSignal(cmd.ErrOrStderr(), store)()
	started := time.Now()
	g, err := f.read(source)
	if err != nil {
		return err
	}
	defer g.Close()
	if g, err = c.apply(g); err != nil {
		return err
	}
	if g.Labels.OneClass() {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+train.OneClass)
	}
	if words := changed(cmd); words != "" {
		g.Provenance = strings.TrimSpace(g.Provenance + " (" + words + ")")
	}
	var a *partition.Assignment
	if f.division != nil {
		a = f.division()
	}
	if err := writeStore(g, store, a); err != nil {
		return err
	}
	for _, note := range g.Notes {
		fmt.Fprintln(cmd.OutOrStdout(), note)
	}
	fmt.Fprintln(cmd.OutOrStdout(), storeLine(store, g, time.Since(started)))
	return nil
}

// writeStore writes a store, with the partitions that the graph came with unless a is nil.
func writeStore(g *graph.Graph, store string, a *partition.Assignment) error {
	if a == nil {
		return g.Write(store)
	}
	return g.WriteWith(store, func(store string) error {
		g, err := graph.Open(store)
		if err != nil {
			return err
		}
		_, err = partition.Write(store, g, a)
		return errors.Join(err, g.Close())
	})
}

// removeOnSignal makes the first signal that ends a process remove what is there of the store that is being
// written and end the process, until stop is called.
func removeOnSignal(stderr io.Writer, store string) (stop func()) {
	attend := func(handle func(os.Signal)) {
		interrupts.mu.Lock()
		defer interrupts.mu.Unlock()
		interrupts.attended = handle
	}
	attend(func(os.Signal) {
		graph.RemoveStaging()
		fmt.Fprintln(stderr, oneLine(fmt.Errorf("interrupted; %s is not written", store)))
		os.Exit(exitInterrupted)
	})
	watchSignals()
	return func() { attend(nil) }
}

// check refuses flags that make no sense, before the source is read.
func (c *changes) check(flags *pflag.FlagSet) error {
	if flags.Changed("random-features") && c.randomFeatures < 1 {
		return refusal.Errorf("--random-features %d: give at least 1 column", c.randomFeatures)
	}
	if f := flags.Lookup("vertices"); f != nil && f.Changed && f.Value.String() == "0" {
		return refusal.Errorf("--vertices 0: a graph has at least one; give their number, or leave --vertices out for the largest id and one")
	}
	if c.split == "" && flags.Changed("splits") {
		return refusal.Errorf("--splits %d: say by which rule with --split", c.splits)
	}
	if c.split != "" {
		if _, err := graph.ParseSplit(c.split); err != nil {
			return err
		}
	}
	return nil
}

func (c *changes) apply(g *graph.Graph) (_ *graph.Graph, err error) {
	for _, change := range []struct {
		flag  string
		asked bool
		apply func(*graph.Graph) (*graph.Graph, error)
	}{
		{"symmetrize", c.symmetrize, (*graph.Graph).Symmetrize},
		{"largest-component", c.largest, (*graph.Graph).LargestComponent},
		{"self-loops", c.selfLoops, (*graph.Graph).AddSelfLoops},
		{"reverse-relations", c.reverse, (*graph.Graph).ReverseRelations},
	} {
		if !change.asked {
			continue
		}
		if g, err = change.apply(g); err != nil {
			return nil, fmt.Errorf("--%s: %w", change.flag, err)
		}
	}
	if c.randomFeatures != 0 {
		if g, err = g.RandomFeatures(c.randomFeatures, c.seed); err != nil {
			return nil, err
		}
	}
	if c.split != "" {
		if err := g.MakeSplits(c.split, c.splits, c.seed); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// changed lists the flags that were given, by name.
func changed(cmd *cobra.Command) string {
	var words []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		word := "--" + f.Name
		if f.Value.Type() != "bool" {
			word += " " + f.Value.String()
		}
		words = append(words, word)
	})
	slices.Sort(words)
	return strings.Join(words, " ")
}

// checkNewStore refuses a place for a store where something is already.
func checkNewStore(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refusal.Errorf("%s: %w; choose a shorter one", path, syscall.ENAMETOOLONG)
	case err != nil:
		return refusal.Errorf("%s: a store is a folder, and this is something else: %w", path, err)
	case len(entries) > 0:
		return refusal.Errorf("%s: the folder is not empty; remove it or name another", path)
	}
	return nil
}

// storeLine says in one line what a new store holds.
func storeLine(store string, g *graph.Graph, took time.Duration) string {
	features := "no features"
	if g.Features.Columns > 0 {
		features = count(g.Features.Columns) + " features"
		if g.Features.Sparse() {
			features += " (sparse)"
		}
	}
	splits := "no split"
	if n := len(g.Splits); n > 0 {
		s := g.Splits[0]
		splits = fmt.Sprintf("split %s/%s/%s", count(len(s.Train)), count(len(s.Val)), count(len(s.Test)))
		if n > 1 {
			splits = fmt.Sprintf("%d splits, the first %s", n, strings.TrimPrefix(splits, "split "))
		}
	}
	edges := count(g.Edges()) + " edges"
	if g.Relations[0].Weights != nil {
		edges += " (weighted)"
	}
	return fmt.Sprintf("%s: %s vertices, %s, %s, %s classes, %s, in %s", store, count(g.Vertices()), edges, features, count(g.Labels.Classes), splits, duration(took))
}
