// Package data makes, describes and opens graphs: the commands import, append, generate, partition and
// inspect, and the graphs that other commands name.
package data

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/datasets"
	"weft/graph/streamed"
	"weft/graph/tables"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/partition"
)

type appendCommand struct {
	tables tables.Options
	store  string
	out    string // the new version; empty: it replaces the store

	added      *appended.Addition
	written    *streamed.Written
	repeated   int64                   // new edges between vertices that edges of the store join already
	partitions []partition.Description // partitions of the store, which the new version lacks
}

// NewAppend makes the command append.
func NewAppend() *cobra.Command {
	a := &appendCommand{}
	cmd := &cobra.Command{
		Use:   "append STORE --add-edges FILE | --add-vertices TABLE",
		Short: "add new vertices and edges to a store",
		Long: `append writes a new version of a store, with the rows of a table as new vertices and with new edges. When it is complete it takes the
store's place at once, and whoever reads the old version goes on with it. An append that fails, is interrupted or is killed leaves the
store as it was. With --out the store stays, and the new version is another one.

Columns of the table become features as they did when the store was imported, with the same means and categories. New vertices have the
ids that follow, and are in no split. They have labels where the table has the store's column of labels, and so have new edges of a store
whose edges have labels. Edges join ids of the store and new ones. Vertices whose store comes from no table cannot be added, but edges can, by the vertices' names or numbers.

Runs that were trained on the store predict on the new version as they are. Partitions are not part of it.`,
		Example: `  weft append stores/payments --add-vertices new-customers.csv --add-edges new-payments.csv --source payer --target payee
  weft append stores/payments --add-edges new-payments.csv --out stores/payments-2
  weft append stores/shop --add-vertices customer=new.csv --add-edges buys=orders.csv --add-edges sees=visits.csv`,
		Args:              cli.Arguments(1, 1),
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteFolders),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.store = args[0]
			return a.run(cmd)
		},
	}
	flags := cmd.Flags()
	AdditionFlags(flags, &a.tables)
	flags.StringVar(&a.out, "out", "", "`directory` for the new version; the store stays (default: the new "+
		"version takes its place)")
	ui.AddQuiet(flags)
	return cmd
}

func (a *appendCommand) run(cmd *cobra.Command) error {
	o := &a.tables
	if _, err := os.Stat(filepath.Join(a.store, "run.json")); err == nil {
		return refusal.Errorf("%s: a run, and not a store; append to the store that weft inspect %s names, or "+
			"predict what is new without keeping it: weft predict %[2]s --add-vertices TABLE --add-edges FILE",
			a.store, refusal.ShellWord(a.store))
	}
	if info, err := os.Stat(a.store); err == nil && info.Mode().IsRegular() {
		return refusal.Errorf("%s: a file, and not a store; make a store of it by weft import %s STORE, with "+
			"the flags that weft train had, and append to that", a.store, refusal.ShellWord(a.store))
	}
	if len(o.Edges)+len(o.Vertices) == 0 {
		return refusal.Errorf("%s: say what to append, with --add-edges FILE, --add-vertices TABLE or both",
			a.store)
	}
	if err := CheckEdgeFlags(o); err != nil {
		return err
	}
	place, err := filepath.Abs(cmp.Or(a.out, a.store)) // a relative path leads elsewhere from an old version
	if err != nil {
		return err
	}
	left := a.out == "" && cli.SameFile(a.store, ".")
	started, shown := time.Now(), ui.NewPhases(ui.BesideResults(cmd))
	o.Progress = shown.Show
	err = a.append(cmd, place)
	shown.Erase()
	if err != nil {
		return err
	}
	say := func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
	edges := 0
	for i, t := range a.written.Types {
		if rows := a.added.Types[i]; rows.Count > 0 {
			say(ui.Counted(rows.Count, "new vertex", "new vertices") +
				ui.When(len(a.written.Types) > 1, " of "+t.Name()))
		}
	}
	for i := range a.added.Edges {
		edges += a.added.Edges[i].Len()
	}
	say(ui.Counted(edges, "new edge", "new edges") + ui.When(a.repeated > 0, fmt.Sprintf(
		", of which %s join vertices that an edge of the store joins already", ui.Count(a.repeated))))
	for _, note := range append(a.added.Reversed, a.added.Notes...) {
		say(note)
	}
	warnings, err := leaksOf(place)
	if err != nil {
		return err
	}
	for _, warning := range append(warnings, OneWays(a.written.Graph, a.added.Edges)...) {
		fmt.Fprintln(cmd.ErrOrStderr(), "weft: warning: "+warning)
	}
	made := cmp.Or(a.out, a.store)
	say(storeLine(made, a.written, time.Since(started)))
	if left {
		say(`the shell is still in the old version, which is removed: cd "$PWD" enters the new one`)
	}
	for _, d := range a.partitions {
		say(fmt.Sprintf("partitions %s: are those of the graph before, and left out; weft partition %s -k %d%s "+
			"makes new ones", d.Name, refusal.ShellWord(made), d.K,
			ui.When(d.Method != partition.File && d.Method != partition.DGL, " --method "+d.Method)))
	}
	return nil
}

// append makes the new version at a place.
func (a *appendCommand) append(cmd *cobra.Command, place string) error {
	if a.out != "" {
		if err := checkNewStore(a.out); err != nil {
			return err
		}
		defer cli.RemoveOnSignal(cmd.ErrOrStderr(), a.out)()
		return a.write(a.out)
	}
	ctx, stop := cli.UntilSignal(cmd.Context(), func(os.Signal) {}, nil)
	defer stop()
	m := datasets.Making{
		Name: ui.Printable(a.store), Store: place, Replaceable: a.replaceable, Make: a.write,
		Say: func(line string) { fmt.Fprintln(ui.BesideResults(cmd), line) },
	}
	err := m.Renew(ctx)
	if err != nil && !refusal.Is(err) && !atomicfile.IsThere(err) {
		err = fmt.Errorf("%w; %s stays as it was", err, a.store)
	}
	return err
}

// replaceable refuses a store that no new version may replace.
func (a *appendCommand) replaceable() error {
	err := datasets.CheckOwn(a.store)
	switch {
	case err != nil:
		return fmt.Errorf("%w, or name another place for the new version with --out", err)
	case datasets.OfSources(a.store):
		return refusal.Errorf("%s: weft train makes this store of its source, and makes it again when that "+
			"changes, without what is appended: name another place for the new version with --out", a.store)
	}
	return nil
}

// appendedMark marks, in the provenance of a store, that something was appended.
const appendedMark = "; appended to, last "

// write reads the store and the additions, and writes the new version.
func (a *appendCommand) write(store string) error {
	a.tables.Progress.Report("reading "+ui.Printable(a.store), 0, 0)
	g, err := graph.Open(a.store)
	if err != nil {
		return err
	}
	if a.partitions, err = partition.List(a.store); err != nil {
		return errors.Join(err, g.Close())
	}
	if table := g.Types[0].Table; table != nil {
		a.tables.Label = table.Label
	}
	id, err := graph.ID(a.store)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	g.Earlier = append(g.Earlier, id)
	before, _, _ := strings.Cut(g.Provenance, appendedMark)
	var files []string
	for _, argument := range append(a.tables.Vertices, a.tables.Edges...) {
		_, path := tables.Named(argument)
		files = append(files, filepath.Base(path))
	}
	a.tables.LabelledEdges = true
	err = g.Guard(func() error {
		if a.added, err = tables.Add(a.tables, g); err != nil {
			return err
		}
		with, err := appended.On(g).With(a.added)
		if err != nil {
			return err
		}
		a.repeated = with.Repeated()
		a.written, err = with.Write(store, before+appendedMark+strings.Join(files, " "), a.tables.Progress)
		return err
	})
	return errors.Join(err, g.Close()) // written is read for names and counts alone
}

// AdditionFlags declares the flags of tables that add to a graph.
func AdditionFlags(flags *pflag.FlagSet, o *tables.Options) {
	flags.StringArrayVar(&o.Vertices, "add-vertices", nil, "`file` (CSV or Parquet) of new vertices, with "+
		"the columns of the table that the store was made of; TYPE=FILE or TYPE:FILE for several vertex types")
	flags.StringArrayVar(&o.Edges, "add-edges", nil, "`file` of new edges, by the ids of their ends; "+
		"RELATION=FILE for several relations")
	edgeFlags(flags, o)
}

// CheckEdgeFlags refuses flags of new edges if there are none.
func CheckEdgeFlags(o *tables.Options) error {
	columns := len(o.Source) + len(o.Target) + len(o.EdgeWeights) + len(o.EdgeFeatures)
	if columns == 0 || len(o.Edges) > 0 {
		return nil
	}
	return refusal.Errorf("--source, --target, --edge-weights and --edge-features name columns of new edges: " +
		"give a list of these with --add-edges")
}

// OneWays warns of new edges without their reverse, if the import of the graph has stored each edge in both
// directions. edges are the new edges by relation.
func OneWays(g *graph.Graph, edges []graph.Edges) (warnings []string) {
	if ImportedWith(g.Provenance, symmetrizeFlag) && oneWay(&edges[0]) {
		warnings = append(warnings, "the store was imported with --symmetrize, and new edges are added as they are "+
			"listed: list each in both directions, too")
	}
	return warnings
}

// oneWay reports whether the reverse of some edge is missing, or not there equally often.
func oneWay(e *graph.Edges) bool {
	more := map[[2]int32]int{}
	for k, u := range e.Source {
		more[[2]int32{u, e.Target[k]}]++
		more[[2]int32{e.Target[k], u}]--
	}
	for _, n := range more {
		if n != 0 {
			return true
		}
	}
	return false
}
