package data

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/datasets"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/train/rundir"
)

// Source is what a command names as its graph: a store, a dataset, or a file or folder that is imported on
// the way, with the flags of tables that were given for it.
type Source struct {
	Name  string
	Lists []string // FILE or RELATION=FILE: several lists of edges, the first of which is Name; nil: one
	Flags []*pflag.Flag
	Split string // the split that the import makes; "": none
	Train string // the command's name, if it trains; else ""
	Label bool   // the command learns the labels of vertices
	Like  string // a run or weights whose tables these resemble; "": none, or a flag says so
}

// DefaultSplit is the split of tables that are trained on without an import.
const DefaultSplit = "random:60/20/20"

// Given reports whether the flag of that name was given.
func (s Source) Given(name string) bool {
	return slices.ContainsFunc(s.Flags, func(f *pflag.Flag) bool { return f.Name == name })
}

// AddingAs is the source with edges added as the import of a graph of that provenance has added them. A given
// flag stays, and so does a graph that is no list of edges.
func (s Source) AddingAs(provenance string) Source {
	if !s.tables() && !s.IsList() {
		return s
	}
	flags := pflag.NewFlagSet(ImportName, pflag.ContinueOnError)
	for _, name := range []string{symmetrizeFlag, selfLoopsFlag, reverseFlag} {
		if ImportedWith(provenance, name) && !s.Given(name) {
			flags.Bool(name, true, "")
			s.Flags = append(slices.Clip(s.Flags), flags.Lookup(name))
		}
	}
	return s
}

// IsList reports whether the source is a list of edges, or a folder of its part files.
func (s Source) IsList() bool {
	if s.Name == "" || cli.IsStore(s.Name) {
		return false
	}
	r, found := Recognize(s.Name)
	return found && r.Format == EdgesFormat
}

// tables reports whether flags say that a folder is the part files of one list of edges.
func (s Source) tables() bool {
	return slices.ContainsFunc([]string{"vertices-from", "source", "target"}, s.Given)
}

// DivideBy makes the import divide the labels that flags name, as DefaultSplit says, unless each run draws a
// split by a rule. The columns by which a rule divides edges are columns of the tables.
func (s *Source) DivideBy(rule string) {
	labelled := s.Given("label") || s.Given(EdgeLabelFlag)
	if parsed, err := graph.ParseSplit(rule); err == nil && parsed.By().Column != "" && labelled {
		s.Split = rule
	} else if rule == "" && labelled {
		s.Split = DefaultSplit
	}
}

// TablesGiven are the flags of tables, on a command that takes a list of edges in place of a store.
type TablesGiven struct {
	Flags *pflag.FlagSet // the flags of tables; nil: the command has none
	all   *pflag.FlagSet // all flags of the command, which may have the same flag for another list of edges
	lists []string       // lists of edges, if the command was given several
	from  int            // the first argument that may be one of them, or the graph
}

// tablesHeading is the heading of the flags of tables in the help of other commands than import.
const tablesHeading = "Tables (a list of edges in the place of a store)"

// Add adds the flags to a command. Its help lists them if shown is set. If several lists of edges stand in
// place of the graph, which is the last argument, the command runs with the first of them.
func (t *TablesGiven) Add(cmd *cobra.Command, shown bool) {
	flags, run := cmd.Flags(), cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		var piped copies
		defer func() {
			if err != nil { // otherwise a store made of them exists
				err = piped.failed(err)
			}
		}()
		if err := piped.ofTables(cmd.Flags(), args[min(t.from, len(args)):]); err != nil { // these are lists
			return err
		}
		return run(cmd, args[:len(args)-max(0, len(t.lists)-1)])
	}
	t.Flags = pflag.NewFlagSet(ImportName, pflag.ContinueOnError)
	tableFlags(t.Flags, new(tables.Options), new(string))
	new(changes).edgeFlags(t.Flags)
	t.Flags.VisitAll(func(f *pflag.Flag) {
		f.Annotations, f.Hidden = map[string][]string{cli.FlagGroup: {tablesHeading}}, !shown
	})
	flags.AddFlagSet(t.Flags)
	t.all = flags
}

// Source returns the graph of that name, to be read with the flags. Without flags the graph is read as it is.
func (t *TablesGiven) Source(name string) Source {
	s := Source{Name: name}
	if t.lists != nil && name == t.lists[0] {
		s.Lists = t.lists
		_, s.Name = tables.Named(name)
		name = s.Name
	}
	if t.Flags != nil {
		made := name != "" && (cli.IsStore(name) || datasets.Named(name) != nil)
		if !made && name != "" {
			r, found := Recognize(name)
			made = found && r.Format != EdgesFormat
		}
		t.Flags.VisitAll(func(f *pflag.Flag) {
			// A store has labels of edges by their name, and so have files of other formats.
			if flag := t.all.Lookup(f.Name); flag.Changed && (!made || f.Name != EdgeLabelFlag) {
				s.Flags = append(s.Flags, flag)
			}
		})
	}
	return s
}

// check refuses flags of tables for anything but a list of edges, and several lists without tables.
func (s Source) check() error {
	if len(s.Lists) > 1 && !s.Given("vertices-from") {
		return tables.SeveralAlone(s.Lists[1])
	}
	if len(s.Flags) == 0 {
		return nil
	}
	if s.Given("label") && s.Given(EdgeLabelFlag) {
		return refusal.Errorf("--label: is of vertices, and --%s learns edges: leave one of them out", EdgeLabelFlag)
	}
	flag := s.Flags[0].Name
	if cli.IsStore(s.Name) || datasets.Named(s.Name) != nil {
		return refusal.Errorf("--%s: tells how to read tables, and %s is made already: leave it "+
			"out, or name a list of edges%s", flag, s.Name, ui.When(flag == "edge-features",
			"; a model uses the features of the edges with --use-edge-features"))
	}
	if r, found := Recognize(s.Name); found && r.Format != EdgesFormat {
		return refusal.Errorf("--%s: is for a list of edges as CSV or Parquet, and %s is imported as %s: "+
			"leave it out", flag, s.Name, r.Format)
	}
	if s.Given(valuesFlag) && !s.Given("label") && !s.Given(EdgeLabelFlag) {
		return refusal.Errorf("--%s: says how labels are read: name their column with --label or --%s, or leave it out",
			valuesFlag, EdgeLabelFlag)
	}
	if s.Given("vertices-from") {
		return nil
	}
	for _, name := range ofVertices {
		if s.Given(name) {
			return withoutTable(name)
		}
	}
	return nil
}

// Arguments accepts between low and high positional arguments, the last of which is a graph. Several lists of
// edges may stand in its place, or one with the name of its relation.
func (t *TablesGiven) Arguments(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		t.from = high - 1
		if last := args[min(t.from, len(args)):]; t.areLists(last) {
			t.lists, high = last, len(args)
		}
		return cli.Arguments(low, high)(cmd, args)
	}
}

// areLists reports whether arguments name lists of edges in the form of an import, and no other graph.
func (t *TablesGiven) areLists(arguments []string) bool {
	hasVertices := t.Source("").Given("vertices-from")
	for _, argument := range arguments {
		_, path := tables.Named(argument)
		if len(arguments) == 1 && path == argument || cli.IsStore(path) || datasets.Named(path) != nil {
			return false
		}
		if r, found := Recognize(path); found && r.Format != EdgesFormat || !found && !hasVertices {
			return false
		}
	}
	return len(arguments) > 0
}

// addTo adds the flags to the import of a source.
func (s Source) addTo(r *recognition) {
	for _, f := range s.Flags {
		for _, value := range valuesOf(f) {
			r.flags = append(r.flags, "--"+f.Name+"="+value)
			if name, _ := pflag.UnquoteUsage(f); name == "file" {
				value = s.placed(value)
			}
			r.supplied = append(r.supplied, "--"+f.Name+"="+value)
		}
	}
	if s.Like != "" {
		word := "--" + ColumnsOfFlag + "="
		r.flags, r.supplied = append(r.flags, word+s.Like), append(r.supplied, word+s.placed(s.Like))
	}
	if s.Lists != nil {
		r.lists = s.Lists
		var placed []string
		for _, list := range s.Lists {
			placed = append(placed, s.placed(list))
		}
		r.supplied = append(r.supplied, strings.Join(placed, "\n"))
	}
	if s.Split != "" {
		word := "--split=" + s.Split
		r.flags, r.supplied = append(r.flags, word), append(r.supplied, word)
	}
	slices.Sort(r.supplied)
	r.train, r.label = s.Train, s.Label
}

// valuesOf are the values of a flag, each in the form that the flag takes. A flag that is repeated has
// several.
func valuesOf(f *pflag.Flag) []string {
	switch several := f.Value.(type) {
	case *cli.Names:
		return several.Quoted()
	case pflag.SliceValue:
		return slices.Clone(several.GetSlice())
	}
	return []string{f.Value.String()}
}

// placed is FILE or TYPE=FILE with the place of the file. It is relative to the folder of the source if the
// file is below that folder, so that both can be moved. Otherwise it is the absolute path, if there is one.
func (s Source) placed(argument string) string {
	_, path := tables.Named(argument)
	begin := strings.TrimSuffix(argument, path)
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	folder, err := filepath.Abs(filepath.Dir(s.Name))
	if err != nil {
		return begin + path
	}
	if below, err := filepath.Rel(folder, path); err == nil && filepath.IsLocal(below) {
		path = below
	}
	return begin + path
}

// refuseRun refuses the directory of a run, or of several runs, in place of a graph.
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

// Resolve returns the store of a dataset, or of a graph in a foreign format. It makes the store if needed. A
// signal meanwhile removes it.
func Resolve(parent context.Context, source Source, show io.Writer) (store string, err error) {
	name := source.Name
	if err := source.check(); err != nil {
		return name, err
	}
	if name != "" && cli.IsStore(name) {
		return name, nil
	}
	dataset := datasets.Named(name)
	r, found := FromSource(source)
	if dataset == nil && !found {
		return name, cmp.Or(refuseRun(name), severalSources(name), datasets.NoGraph(name))
	}
	ctx, stop := cli.UntilSignal(parent, func(os.Signal) {}, nil)
	defer stop()
	if found {
		store, err = r.imported(ctx, show)
	} else {
		m := datasets.Maker{
			Import: importDataset,
			Used:   used,
			Say:    func(line string) { fmt.Fprintln(show, ui.Printable(line)) },
		}
		store, err = m.Store(ctx, dataset)
	}
	return store, cmp.Or(cli.Heard(ctx, stop), err)
}

// OpenDataset opens a dataset by its name or a store by its path, and says where the store is. Before that,
// admit, which may be nil, may refuse the store.
func OpenDataset(parent context.Context, source Source, show io.Writer, admit func(store string) error,
) (g *graph.Graph, store string, err error) {
	store, err = Resolve(parent, source, show)
	if err == nil && admit != nil {
		err = admit(store)
	}
	if err != nil {
		return nil, "", err
	}
	g, err = graph.Open(store)
	return g, store, err
}

// About prefixes a refusal about the graph with the graph's name.
func About(source Source, err error) error {
	if !refusal.Is(err) || !refusal.Graph.In(err) {
		return err
	}
	if r, found := FromSource(source); found {
		err = r.lacks(err)
	}
	return fmt.Errorf("%s: %w", source.Name, err)
}
