package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/debian"
	"weft/graph/edgelist"
	"weft/graph/npz"
	"weft/graph/planetoid"
	"weft/graph/pyg"
	"weft/graph/rdf"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train/setting"
)

// format is a foreign format that import reads.
type format struct {
	name, source   string // the command line's words
	short, example string
	flags          func(*pflag.FlagSet)
	read           func(source string) (*graph.Graph, error)
	// stream writes the store without the whole graph in memory; nil: the format is always read.
	stream func(streamTo) (*contents, error)
	// named takes the value of --split that is no rule but the name of one of the source's splits; nil: all
	// are rules.
	named   *string
	readAll func(sources []string) (*graph.Graph, error) // in place of read, where a graph may have several sources
	// division is how the source divided the graph that was read, which may be nil; nil: it never does.
	division func() *partition.Assignment
}

// streamTo is what is to be written from where.
type streamTo struct {
	source, store string
	words         string // the flags that were given, in brackets
	progress      func(stage string, done, all int64)
}

// sources accepts the sources of a graph and its store.
func (f *format) sources() cobra.PositionalArgs {
	if f.readAll != nil {
		return arguments(2, math.MaxInt)
	}
	return arguments(2, 2)
}

func (f *format) readFrom(sources []string) (*graph.Graph, error) {
	if f.readAll != nil {
		return f.readAll(sources)
	}
	return f.read(sources[0])
}

// nameSplit takes the value of --split for the name of one of the source's splits where it is no rule. Given
// is for the only one, which the reader takes anyway.
func (f *format) nameSplit(c *changes) {
	switch {
	case f.named == nil || strings.ContainsAny(c.split, ":="):
	case c.split == "given":
		c.split = ""
	default:
		*f.named, c.split = c.split, ""
	}
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
  weft import pyg graph.pt stores/mine
  weft import edges follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20
  weft import rdf aifb.nt.gz stores/aifb --train train.tsv --test test.tsv --entity person --label label_affiliation
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
			Args:    f.sources(),
			RunE: func(cmd *cobra.Command, args []string) error {
				last := len(args) - 1
				return runImport(cmd, f, args[:last], args[last], c)
			},
		}
		sub.ValidArgsFunction = completeInOrder(completeFiles, completeFolders)
		if f.readAll != nil {
			sub.ValidArgsFunction = completeFiles
		}
		if f.flags != nil {
			f.flags(sub.Flags())
		}
		cmd.AddCommand(sub)
	}
	return cmd
}

func formats(c *changes) []format {
	var list edgelist.Options
	var triples rdf.Options
	var directed, denseFeatures bool
	var target string
	storage := func(flags *pflag.FlagSet) {
		flags.BoolVar(&denseFeatures, "dense-features", false, "keep features dense of which few are not zero")
	}
	// checked refuses --dense-features where it had no effect.
	checked := func(source string, g *graph.Graph, err error) (*graph.Graph, error) {
		dense := func(t graph.VertexType) bool { return t.Features.Dense != nil }
		if err == nil && denseFeatures && !slices.ContainsFunc(g.Types(), dense) {
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
			name: "pyg", source: "FILE", short: "a Data or HeteroData of PyTorch Geometric, or a data set of one, as torch.save writes it",
			example: "graph.pt stores/mine",
			flags: func(flags *pflag.FlagSet) {
				flags.StringVar(&target, "target", "", "the vertex `type` whose labels are learned, where several have labels")
				storage(flags)
			},
			read: func(source string) (*graph.Graph, error) {
				g, err := pyg.Read(source, pyg.Options{Target: target, DenseFeatures: denseFeatures})
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
		new(ogbImport).format(c),
		{
			name: "rdf", source: "FILE...", short: "triples in N-Triples, plain or gzip, with tables of labels: one relation for each predicate, and one back",
			example: "mutag_stripped.nt.gz stores/mutag --train trainingSet.tsv --test testSet.tsv --entity bond --label label_mutagenic",
			flags: func(flags *pflag.FlagSet) {
				flags.StringVar(&triples.Train, "train", "", "`file` of entities that train and their labels: a table, its columns between tabs and named in the first line")
				flags.StringVar(&triples.Val, "val", "", "`file`, the same: entities that validate (default: none; training then takes the last epoch)")
				flags.StringVar(&triples.Test, "test", "", "`file`, the same: entities that test")
				flags.StringVar(&triples.Entity, "entity", "", "`column` of these tables with the entities' IRIs")
				flags.StringVar(&triples.Label, "label", "", "`column` of these tables with their classes")
				flags.StringArrayVar(&triples.Without, "without-predicate", nil, "`IRI` of a predicate whose triples are left out, as those that give the label away; may be repeated")
			},
			readAll: func(sources []string) (*graph.Graph, error) {
				triples.Paths = sources
				return rdf.Read(triples)
			},
		},
		{
			name: "debian", source: "DIR", short: "a Debian machine's package index, as apt-get update leaves it",
			example: debian.Lists + " stores/debian",
			read: func(source string) (*graph.Graph, error) {
				return debian.Read(source, debian.Options{Seed: c.seed})
			},
		},
		dglFormat(c, storage, checked, &denseFeatures),
	}
}

func runImport(cmd *cobra.Command, f format, sources []string, store string, c *changes) error {
	words := ""
	if list := changed(cmd); list != "" {
		words = " (" + list + ")"
	}
	f.nameSplit(c)
	if err := c.check(cmd.Flags()); err != nil {
		return err
	}
	if err := checkNewStore(store); err != nil {
		return err
	}
	defer removeOnSignal(cmd.ErrOrStderr(), store)()
	started := time.Now()
	var made *contents
	var err error
	if f.stream != nil && !c.needGraph() {
		shown := newStages(cmd.ErrOrStderr())
		made, err = f.stream(streamTo{sources[0], store, words, shown.show})
		shown.erase()
	} else {
		made, err = f.readAndWrite(sources, store, words, c)
	}
	if err != nil {
		return err
	}
	if made.oneClass {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+oneClass)
	}
	for _, note := range made.Notes {
		fmt.Fprintln(cmd.OutOrStdout(), note)
	}
	fmt.Fprintln(cmd.OutOrStdout(), storeLine(store, made, time.Since(started)))
	fmt.Fprintln(cmd.OutOrStdout(), nextLine(store, made.Graph))
	return nil
}

// readAndWrite reads a graph, changes it and writes it.
func (f *format) readAndWrite(sources []string, store, words string, c *changes) (*contents, error) {
	g, err := f.readFrom(sources)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if g, err = c.apply(g); err != nil {
		return nil, err
	}
	g.Provenance = strings.TrimSpace(g.Provenance + words)
	if err := f.write(g, store); err != nil {
		return nil, err
	}
	return contentsOf(g), nil
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

// needGraph reports whether a change is asked for that takes the whole graph in memory.
func (c *changes) needGraph() bool {
	return c.largest || c.selfLoops || c.reverse || c.randomFeatures != 0
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

// contents is what there is to say of a new store.
type contents struct {
	*graph.Graph // of a streamed one, what is known without features, labels and edges
	edges        int64
	oneClass     bool // all labels are the same
}

func contentsOf(g *graph.Graph) *contents { return &contents{g, g.Edges(), g.Labels.OneClass()} }

// storeLine says in one line what a new store holds.
func storeLine(store string, c *contents, took time.Duration) string {
	features := "no features"
	if c.Features.Columns > 0 {
		features = count(c.Features.Columns) + " features"
		if c.Features.Sparse() {
			features += " (sparse)"
		}
	}
	splits := "no split"
	if n := len(c.Splits); n > 0 {
		s := c.Splits[0]
		splits = fmt.Sprintf("split %s/%s/%s", count(len(s.Train)), count(len(s.Val)), count(len(s.Test)))
		if n > 1 {
			splits = fmt.Sprintf("%d splits, the first %s", n, strings.TrimPrefix(splits, "split "))
		}
	}
	edges := count(c.edges) + " edges"
	if slices.ContainsFunc(c.Relations, func(r graph.Relation) bool { return r.Weights != nil }) {
		edges += " (weighted)"
	}
	if n := len(c.Relations); n > 1 {
		edges += fmt.Sprintf(" of %s relations", count(n))
	}
	vertices := count(c.Vertices()) + " vertices"
	if n := len(c.Types()); n > 1 {
		vertices += fmt.Sprintf(" of %s types", count(n))
	}
	return fmt.Sprintf("%s: %s, %s, %s, %s classes, %s, in %s", store, vertices, edges, features, count(c.Labels.Classes), splits, duration(took))
}

// nextLine is the command that trains on a new store, with a model that fits, or what the store lacks for it.
func nextLine(store string, g *graph.Graph) string {
	o := setting.Defaults()
	lacks := func(t graph.VertexType) bool { return t.Features.Columns == 0 }
	if g.Typed() && slices.ContainsFunc(g.Types(), lacks) {
		o.Model = "rgcn" // learns what the types lack
	}
	r, err := o.Resolve()
	if err == nil {
		err = r.CheckGraph(g)
	}
	if err != nil {
		return fmt.Sprintf("before training: %v", err)
	}
	return fmt.Sprintf("next: weft train %s --model %s", shellWord(store), o.Model)
}

// shellWord spells a path as a shell takes it for one word, and a command for no flag.
func shellWord(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	odd := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
	}
	if !strings.ContainsFunc(path, odd) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
