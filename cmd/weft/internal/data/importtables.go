package data

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/columns"
	"weft/graph/streamed"
	"weft/graph/tables"
	"weft/internal/refusal"
	"weft/train/rundir"
)

// mostCategories is how many values a column of text may have to become features, unless a flag says
// otherwise.
const mostCategories = 50

// ColumnsOfFlag is the flag that names what the tables are read like.
const ColumnsOfFlag = "columns-of"

// EdgeLabelFlag is the flag that names the column that is learned of edges.
const EdgeLabelFlag = "edge-label"

// valuesFlag is the flag that makes whole numbers values to predict.
const valuesFlag = "values"

// edgeFlags declares the flags of the columns of lists of edges.
func edgeFlags(flags *pflag.FlagSet, o *tables.Options) {
	flags.StringArrayVar(&o.Source, "source", nil,
		"`column` of the list of edges with the sources' ids (default: one called source, src, from, …); of one "+
			"of several relations RELATION:COLUMN")
	flags.StringArrayVar(&o.Target, "target", nil, "`column` of the list of edges with the targets' ids")
	flags.StringVar(&o.EdgeWeights, "edge-weights", "", "`column` of the list of edges with their weights")
	cli.NamesVar(flags, &o.EdgeFeatures, "edge-features", "`columns` of the list of edges that are "+
		"features of the edges, as a,b")
}

// tableFlags declares the flags of lists of edges and tables of vertices, which set the options, and of what
// these are read like.
func tableFlags(flags *pflag.FlagSet, o *tables.Options, columnsOf *string) {
	flags.StringArrayVar(&o.Vertices, "vertices-from", nil,
		"`file` (CSV or Parquet): a table of vertices with ids and columns that become features; repeated, "+
			"or as TYPE=FILE or TYPE:FILE, for several vertex types")
	flags.StringArrayVar(&o.ID, "id", nil,
		"`column` of the ids in the table of vertices (default: a column called id, else the first)")
	flags.StringVar(&o.Label, "label", "",
		"`column` of the table of vertices to learn: classes, or values to predict where numbers "+
			"have a fraction")
	edgeFlags(flags, o)
	flags.StringVar(&o.EdgeLabel, EdgeLabelFlag, "",
		"`column` of the list of edges to learn, as --label of vertices, of one of several relations "+
			"RELATION:COLUMN; its other columns of numbers, dates and truth values are then features of the edges, but "+
			"for the one by which --split divides them")
	flags.BoolVar(&o.Values, valuesFlag, false,
		"labels are values to predict, also if they are whole numbers, which else are classes")
	cli.NamesVar(flags, &o.LeaveOut, "leave-out", "`columns` of the tables of vertices that become no features, as a,b")
	flags.StringVar(columnsOf, ColumnsOfFlag, "",
		"`file`: a run, its weights, or a store made of tables, whose tables these are read as; predict and "+
			"evaluate do so with the run's")
	flags.IntVar(&o.Choices.Most, "categories", mostCategories,
		"a column of text with at most so many values becomes a feature for each value")
	flags.BoolVar(&o.Choices.Cyclic, "cyclic-dates", false,
		"dates also become sine and cosine of year, week and, with times, day")
}

// besideTables are flags of lists of edges for what tables of vertices can have instead.
var besideTables = []string{
	"features", "labels", "train", "val", "test", "vertices", "string-ids", "first-id",
}

// ofVertices are flags of tables that have no use for a list of edges alone.
var ofVertices = []string{
	"id", "label", "leave-out", "categories", "cyclic-dates", ColumnsOfFlag,
}

// checkTables refuses flags of tables if there is no table.
func checkTables(flags *pflag.FlagSet, o *tables.Options) error {
	if len(o.Vertices) > 0 {
		if o.Choices.Most < 1 {
			return refusal.Errorf("--categories %d: give at least 1; --leave-out leaves columns out",
				o.Choices.Most)
		}
		for _, name := range besideTables {
			if f := flags.Lookup(name); f != nil && f.Changed {
				return refusal.Errorf("--%s: the table of --vertices-from has the vertices, their "+
					"features and labels; leave one of the two out", name)
			}
		}
		return nil
	}
	for _, name := range ofVertices {
		if f := flags.Lookup(name); f != nil && f.Changed {
			return withoutTable(name)
		}
	}
	return nil
}

// likeOf says how the tables of a run, of its weights or of a store were read; nil: path is empty.
func likeOf(path string) (l *tables.Like, err error) {
	if path == "" {
		return nil, nil
	}
	store, weights := path, ""
	l = &tables.Like{}
	if !cli.IsStore(path) {
		if weights, store, err = weightsOf(path, l); err != nil {
			return nil, err
		}
	}
	if cli.IsStore(store) {
		g, err := graph.Open(store)
		if err != nil {
			return nil, err
		}
		defer g.Close()
		l = tables.LikeGraph(g)
	}
	if weights != "" {
		trained, err := rundir.ColumnsOf(weights)
		if err != nil {
			return nil, err
		}
		l.Know(trained)
	}
	if l.Columns == nil {
		return nil, refusal.Errorf("--%s %s: its features do not come from tables; leave it out",
			ColumnsOfFlag, path)
	}
	return l, nil
}

// weightsOf is the file of weights of a run, and the store on which it trained; or a file of weights, and the
// store of the run in which it lies, if it does. If the store is not there, weightsOf sets in l what edges
// need.
func weightsOf(path string, l *tables.Like) (weights, store string, err error) {
	dir := path
	if !rundir.Is(dir) {
		dir = filepath.Dir(path)
	}
	run, o, own, err := rundir.Read(dir)
	if dir != path && !cli.SameFile(path, own) { // also if there is no run
		l.EdgesUnknown = path + " are weights alone"
		return path, "", nil
	}
	if err != nil {
		return "", "", err
	}
	l.EdgesUnknown = fmt.Sprintf("the graph of %s was made in memory", dir)
	if run.Store != "" {
		l.EdgesUnknown = fmt.Sprintf("%s, the store of %s, is not there", run.Store, dir)
	}
	l.EdgeFeatures, l.EdgeWeights = o.UsesEdgeFeatures(), run.Summary.Graph.Weighted
	return own, run.Store, nil
}

// withoutTable is the refusal of a flag about tables of vertices, if there is none.
func withoutTable(flag string) error {
	return refusal.Errorf("--%s is about tables of vertices: give one with --vertices-from%s", flag,
		ui.When(flag == "label", ", or learn a column of the edges with --"+EdgeLabelFlag))
}

// columnTable prints what became of the columns of a graph's tables.
func columnTable(out io.Writer, w *streamed.Written) {
	types := w.Types
	for _, typ := range types {
		if typ.Table == nil {
			continue
		}
		name := ""
		if len(types) > 1 {
			name = typ.Name() + ": "
		}
		t := ui.NewTable(out)
		t.Row("column of "+name+typ.Table.Path, "became", "missing")
		t.Row(typ.Table.ID, "the id", "")
		if typ.Table.Label != "" {
			n := w.Unlabelled
			t.Row(typ.Table.Label, "the label: "+learned(&w.Types[0].Labels), ui.When(n > 0, ui.Count(n)))
		}
		const most = 30 // most columns that are printed, of those that are used and of others
		all, left := typ.Table.Columns, typ.Table.LeftOut
		for i := range all[:min(most, len(all))] {
			c := &all[i]
			t.Row(c.Name, becomes(c), ui.When(c.Missing > 0, ui.Count(c.Missing)))
		}
		if more := len(all) - most; more > 0 {
			t.Row(fmt.Sprintf("and %d more", more), "features", "")
		}
		for _, c := range left[:min(most, len(left))] {
			t.Row(c.Name, "left out: "+c.Why, "")
		}
		if more := len(left) - most; more > 0 {
			t.Row(fmt.Sprintf("and %d more", more), "left out", "")
		}
		t.Flush()
	}
}

// learned says what the labels of a table are.
func learned(l *graph.Labels) string {
	if l.Continuous() {
		return "a number"
	}
	return ui.Counted(l.Classes, "class", "classes") + ui.When(l.Names != nil, ": "+firstOf(l.Names))
}

// firstOf lists the first words.
func firstOf(words []string) string {
	const most = 5
	return strings.Join(words[:min(most, len(words))], ", ") + ui.When(len(words) > most, ", …")
}

// becomes says which features a column became.
func becomes(c *columns.Column) string {
	text := map[columns.Kind]string{
		columns.Number: "a number", columns.Boolean: "0 and 1", columns.Date: "days since 1970",
		columns.Category: ui.Counted(len(c.Categories), "category", "categories"),
	}[c.Kind]
	text += ui.When(c.Kind == columns.Category, ": "+firstOf(c.Categories))
	text += ui.When(c.Offset != 0, fmt.Sprintf(", less %.8g, as float32 would round it", c.Offset))
	text += ui.When(c.Order != "", fmt.Sprintf(", the %s first", c.Order))
	for _, cycle := range c.Cycles {
		text += fmt.Sprintf(", sine and cosine of the %s", cycle)
	}
	if c.Gaps {
		text += ui.When(c.Kind == columns.Category, "; missing is one, too") +
			ui.When(c.Kind != columns.Category,
				fmt.Sprintf("; where missing the mean, %.4g, and a mark", c.Offset+float64(c.Mean)))
	}
	if c.Other > 0 {
		text += fmt.Sprintf("; %s of other values", ui.Counted(c.Other, "row", "rows"))
	}
	return text
}
