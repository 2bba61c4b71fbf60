// Package tables reads graphs that come as tables, as CSV or Parquet: lists of edges with the ids of their
// ends, and tables of vertices with ids, a label, and columns that become features as package columns says. A
// list without a table may have arrays of features, labels and splits beside it.
//
// A table is read twice, a list of edges with labels more often. The first pass numbers the ids, and finds
// out what each column holds. The second one makes the features, some rows at a time, so that they need not
// fit in memory; ids and labels must.
//
// The command import edges reads by it, and so do append and predict, which are given further tables.
package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// AreParts reports whether a folder that nothing says to be a table looks like one, as Spark, BigQuery and
// Hive write it: a mark _SUCCESS lies in it, or folders NAME=VALUE hold its parts, or the names of these
// begin alike up to a number. Whatever is asked for by name is read as one table, if it is a folder.
func AreParts(folder string) bool { return table.AreParts(folder) }

// Names are the names between commas in a text, as of columns. A name may stand in quotes as a field of a
// table of text does, so that it has commas. Names refuses a quote that is not closed.
func Names(text string) ([]string, error) { return table.Names(text) }

// Options name the tables of a graph and how to read them. Each is a file, or a folder of parts.
type Options struct {
	// Edges are the lists of edges. Each is a relation.
	Edges []string
	// Vertices are the tables of vertices, each a vertex type, as FILE or TYPE=FILE. If there are none, Edges
	// is one list, and Beside has the rest.
	Vertices []string
	Beside
	// Source and Target are the columns of the ends in each list, as COLUMN or TYPE:COLUMN. RELATION: in
	// front makes it the column of that list alone. One column stands for all other lists. None: the column
	// has a known name, as source or from.
	Source, Target []string
	// ID are the columns of the ids in each table. One stands for all tables. None: a column of a known name,
	// as id, else the first.
	ID []string
	// Label is the column of what is learned, COLUMN or TYPE:COLUMN. Text and whole numbers are classes,
	// other numbers values. Empty: nothing is labelled.
	Label string
	// Values says that whole numbers are values, too.
	Values bool
	// LeaveOut are columns of tables that become no features.
	LeaveOut []string
	// EdgeFeatures and EdgeWeights are columns of the only list, of numbers.
	EdgeFeatures []string
	EdgeWeights  string
	// EdgeLabel is the column of a list that is learned of edges, as Label is of vertices: COLUMN of the only
	// list, or RELATION:COLUMN. The list's other columns of numbers, dates and truth values become features,
	// unless EdgeFeatures names some. Empty: edges are not labelled.
	EdgeLabel string
	// EdgeSplits divides the labelled edges; nil: there is no split of them.
	EdgeSplits func(*graph.Frame) error
	// EdgeSplitBy is a further column of the labelled edges, by which a rule divides them, as
	// graph.SplitRule.By has it; of no name: none is kept.
	EdgeSplitBy graph.SplitBy
	// EdgeSplitRule is the rule of EdgeSplitBy, if that names a column.
	EdgeSplitRule graph.SplitRule
	// LabelledEdges makes Add read labels of new edges if a list has the column of the graph's labels.
	LabelledEdges bool
	Choices       columns.Choices
	// Scored is the relation whose new edges are scored and not kept: no relation gets them reversed. Empty:
	// none.
	Scored string
	// Learned is the relation of new edges in a list that has no relation's name. Empty: none.
	Learned string
	// Like is what is known of tables that were read before; nil: nothing.
	Like     *Like
	Progress graph.Progress
}

// Open reads the tables once, and returns the graph. Its vertices are the rows of a table in their order, and
// then the vertices that only edges name, in the order in which they appear. These have no label, and all
// their values are missing. Complaints about a file are refusals that name it, and its line or row.
func Open(o Options) (*streamed.Graph, error) {
	g := &streamed.Graph{
		InMemory: &graph.Graph{
			Types:      make([]graph.VertexType, max(1, len(o.Vertices))),
			Provenance: "edges " + strings.Join(o.Edges, " "),
		},
		Source: o.Edges[0], Progress: o.Progress,
	}
	alone, tables := len(o.Vertices) == 0, o.profiled
	if alone {
		tables = o.noTable
	}
	all, err := tables()
	if err != nil {
		return nil, err
	}
	lists, err := o.edgeLists(all)
	if err != nil {
		return nil, err
	}
	if alone {
		o.standsAlone(lists[0], all[0])
	}
	g.Types, g.Relations = make([]streamed.Type, len(all)), make([]streamed.Relation, len(lists))
	for i, l := range lists {
		if o.Like != nil {
			name := l.name
			if o.untyped() {
				name = graph.RelationName
			}
			if err := l.readLike(&o, name); err != nil {
				return nil, err
			}
		}
		if err := o.takeFeatures(l); err != nil {
			return nil, err
		}
		g.Relations[i] = l.relation(o.EdgeSplits)
		l.made = &g.Relations[i]
	}
	g.Complete = func() error { return o.complete(g, all, lists) }
	return g, nil
}

// profiled are the tables of vertices, read once.
func (o *Options) profiled() ([]*vertexTable, error) {
	if err := o.checkParts(); err != nil {
		return nil, err
	}
	all, err := o.vertexTables()
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		copies, err := table.Copies(t.Path)
		if err != nil {
			return nil, err
		}
		if len(copies) > 0 {
			return nil, refusal.Errorf("%s: holds the same rows as %s, and each vertex has one: remove it, or begin its "+
				"name with _", copies[0][0], copies[0][1])
		}
		if err := t.profile(); err != nil {
			return nil, err
		}
	}
	for _, name := range o.LeaveOut {
		if !slices.ContainsFunc(all, func(t *vertexTable) bool {
			return slices.Contains(t.header, name) ||
				slices.ContainsFunc(t.unread, func(c columns.LeftOut) bool { return c.Name == name })
		}) {
			way := ""
			if slices.ContainsFunc(all[0].header, func(h string) bool { return strings.Contains(h, ",") }) {
				way = `; a name with a comma stands in double quotes, as in --leave-out '"a, b"'`
			}
			return nil, refusal.Errorf("--leave-out %s: no table of vertices has this column; %s%s", name,
				all[0].described(), way)
		}
	}
	return all, nil
}

// checkParts refuses lists of edges in folders NAME=VALUE of one table, as a shell names them by a pattern,
// unless they are given names: each would be a relation.
func (o *Options) checkParts() error {
	first := map[string]string{} // of a table: its first part
	for _, argument := range o.Edges {
		_, path := Named(argument)
		info, err := os.Stat(path)
		whole, is := table.Whole(path, err == nil && info.IsDir())
		switch before, seen := first[whole]; {
		case !is || path != argument:
		case seen:
			return refusal.Errorf("%s and %s: are parts of one table: name its folder, %s, or name relations: "+
				"RELATION=FILE", before, path, whole)
		default:
			first[whole] = path
		}
	}
	return nil
}

// untyped reports whether the graph has one vertex type and one relation, which have no names.
func (o *Options) untyped() bool { return len(o.Vertices) <= 1 && len(o.Edges) == 1 }

// Named divides NAME=FILE. It divides NAME:FILE if FILE is there or standard input, unless a file has that
// name as a whole. An argument without a name has the name of the file, without endings.
func Named(argument string) (name, path string) {
	for _, between := range []string{":", "="} {
		name, path, ok := strings.Cut(argument, between)
		if !ok || name == "" || strings.ContainsAny(name, "/.=") || isThere(argument) {
			continue
		}
		if between == "=" || path == "-" || isThere(path) {
			return name, path
		}
	}
	name, _, _ = strings.Cut(filepath.Base(argument), ".")
	return name, argument
}

// isThere reports whether a path leads to something.
func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// each returns the word of the i-th of n files: a single word is for all, no word is empty.
func each(setting string, words []string, i, n int) (string, error) {
	switch len(words) {
	case 0:
		return "", nil
	case 1:
		return words[0], nil
	case n:
		return words[i], nil
	}
	return "", refusal.Errorf("--%s: %d columns for %d files; give one for all, or one for each in their "+
		"order",
		setting, len(words), n)
}

// complete sets what is known only after all edges have been read.
func (o *Options) complete(g *streamed.Graph, all []*vertexTable, lists []*edgeList) error {
	if alone := lists[0].alone; alone != nil {
		if err := alone.complete(g, o.Values); err != nil {
			return err
		}
	} else if err := o.completeTables(g, all); err != nil {
		return err
	}
	made, way := g.InMemory, ""
	switch {
	case len(lists) > 1:
	case lists[0].label != "" && o.Like == nil && len(o.EdgeFeatures) == 0: // takeFeatures took the features
		way = "; features of edges are numbers, dates or truth values"
	default:
		way = "; an import takes numbers with --edge-weights, and numbers, dates and truth values with --edge-features"
	}
	for i, l := range lists {
		r := &g.Relations[i]
		if l.order != nil {
			r.EndColumns = l.endColumns()
			r.NumberColumns = l.list
		}
		if err := l.completeLabels(r, o.Values || l.values, made); err != nil {
			return err
		}
		r.Name = l.name
		if !o.untyped() {
			r.Source, r.Target = l.ends[0].table.name, l.ends[1].table.name
		} else {
			r.Name = ""
		}
		if l.found {
			made.Notes = append(made.Notes, fmt.Sprintf("%s: the columns with ids of vertices are %s and "+
				"%s, taken for source and target; --source and --target name others", l.Path,
				r.EndColumns[0], r.EndColumns[1]))
		}
		if o.Like != nil {
			l.noteOdd()
		}
		made.Notes = append(made.Notes, l.notes...)
		l.warnOfKinds()
		copies, err := table.Copies(l.Path)
		if err != nil {
			return err
		}
		for _, pair := range copies {
			made.Warnings = append(made.Warnings, fmt.Sprintf("%s: holds the same rows as %s, and each counts twice: "+
				"remove it, or begin its name with _, if it is a copy", pair[0], pair[1]))
		}
		made.Warnings = append(made.Warnings, l.warnings...)
		if len(l.leftOut) > 0 {
			made.Notes = append(made.Notes, l.Path+": columns left out: "+strings.Join(l.leftOut, ", ")+way)
		}
	}
	return nil
}

// completeTables sets the vertices from their tables.
func (o *Options) completeTables(g *streamed.Graph, all []*vertexTable) error {
	made := g.InMemory
	types := make([]graph.VertexType, len(all))
	for i, t := range all {
		t.finish()
		made.Notes = append(made.Notes, t.firstOf(t.notes)...)
		made.Warnings = append(made.Warnings, t.firstOf(t.warnings)...)
		types[i] = graph.VertexType{
			Type: t.name, Frame: graph.Frame{
				Count: len(t.ids.Names), Names: t.ids.Names, Table: &columns.Table{
					Path: filepath.Base(t.Path), ID: t.header[t.id], Columns: t.list, LeftOut: t.leftOut,
				},
			},
		}
		if g.Types[i].Rows = t.features(); g.Types[i].Rows != nil {
			types[i].Features.Columns = t.list.Width()
		}
		if more := len(t.ids.Names) - t.rows; more > 0 {
			first := t.ids.Names[t.rows]
			note := fmt.Sprintf("%d of %d vertices are ends of edges without a row in %s: all their "+
				"values are missing, as of %.40q", more, len(t.ids.Names), t.Path, first)
			if known := t.alike(first); known != "" {
				note += fmt.Sprintf(", where the table has %.40q", known)
			}
			made.Notes = append(made.Notes, note)
		}
		if t.label < 0 || o.Label == "" && !t.labels.any() {
			continue
		}
		values := o.Values || o.Label == "" && o.Like.values // as in the earlier tables
		words, notes, err := t.labels.complete(t.Path, t.header[t.label], "vertices", values)
		if err != nil {
			return err
		}
		if types[i].Labels, err = ofRows(words, t.words, len(t.ids.Names)); err != nil {
			return fmt.Errorf("%s: column %s: %w", t.Path, t.header[t.label], err)
		}
		types[i].Table.Label = t.header[t.label]
		made.Notes = append(made.Notes, notes...)
	}
	made.Types = types
	if o.untyped() {
		made.Types[0].Type = ""
	}
	return nil
}
