package tables

import (
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/internal/refusal"
)

// reversed is the number of the relation that Scored names; −1: none.
func (o *Options) reversed(g *graph.Graph) int {
	return slices.IndexFunc(g.Relations, func(r graph.Relation) bool {
		return o.Scored != "" && r.Name == o.Scored
	})
}

// Add reads tables of new vertices and lists of new edges of a graph. An id that the graph has stands for its
// vertex; if vertices have no names, ids are numbers from 0. If the graph's vertices came from a table,
// columns become features as for the graph or, with Like, for a model, and a new id in edges alone is a
// vertex without values. Otherwise all vertices must be the graph's. Add reads labels if Label names the
// column of the graph's labels and the new table has it, and labels of edges as LabelledEdges says. Tables
// and lists have the names of types and relations; an untyped graph has one of each. If the graph has the
// reverse of a relation, as graph.ReverseRelations adds it, the reverse gets the relation's new edges
// reversed, unless it has a list of its own or Scored names the relation. Complaints are refusals.
func Add(o Options, g *graph.Graph) (*appended.Addition, error) {
	types := g.Types
	all := make([]*vertexTable, len(types))
	for i := range types {
		var err error
		if all[i], err = o.tableOf(&types[i]); err != nil {
			return nil, err
		}
	}
	for _, argument := range o.Vertices {
		if err := o.addVertices(argument, g, all); err != nil {
			return nil, err
		}
	}
	made := &appended.Addition{
		Edges: make([]graph.Edges, len(g.Relations)), Frames: make([]graph.Frame, len(g.Relations)),
	}
	if err := o.addEdges(g, all, made); err != nil {
		return nil, err
	}
	made.AddReverses(g, o.reversed(g))
	for i, t := range all {
		rows := appended.NewVertices{Count: t.all() - t.before}
		if rows.Count == 0 {
			made.Types = append(made.Types, rows)
			continue
		}
		rows.Names = t.ids.Names[t.before:]
		if o.Like == nil {
			rows.Table = t.continued(types[i].Table)
		}
		if source := t.features(); source != nil {
			var err error
			if rows.Features.Dense, err = source.Read(rows.Count); err != nil {
				return nil, err
			}
			rows.Features.Columns = source.Columns
		}
		made.Types = append(made.Types, rows)
		made.Notes = append(made.Notes, t.notesOn(types[i].Table)...)
		if t.label >= 0 {
			words, err := t.labels.like(&g.Types[0].Labels)
			if err == nil {
				made.Labels, err = ofRows(words, t.words, rows.Count)
			}
			if err != nil {
				return nil, refusal.Errorf("%s: column %s: %w", t.Path, t.header[t.label], err)
			}
		}
	}
	return made, nil
}

// tableOf is a table that adds to the vertices of a type.
func (o *Options) tableOf(t *graph.VertexType) (*vertexTable, error) {
	made := o.newTable(*t)
	made.ofGraph, made.fixed, made.numbered = true, t.Table == nil, t.Names == nil
	if made.fixed && made.numbered {
		return made, nil
	}
	if len(t.Names) != t.Count {
		return nil, refusal.Errorf("the vertices of %s come from a table, and have no ids: import it again",
			t.Name())
	}
	if t.Table != nil {
		made.like = append(columns.List{}, t.Table.Columns...) // not nil
		made.asked, made.Path = t.Table.ID, t.Table.Path
		if o.Like != nil && o.Like.Columns[t.Name()] != nil {
			made.like = o.Like.Columns[t.Name()]
		}
		made.list = made.like // for vertices without a row
	}
	for _, name := range t.Names {
		if _, err := made.ids.Number([]byte(name)); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// addVertices reads the ids of a table of new vertices, and what its columns hold.
func (o *Options) addVertices(argument string, g *graph.Graph, all []*vertexTable) error {
	name, path := Named(argument)
	i := slices.IndexFunc(all, func(t *vertexTable) bool { return t.name == name || len(all) == 1 })
	switch {
	case i < 0 && path == argument:
		return refusal.Errorf("%s: of which vertex type are its rows? The graph has %s: name one, as in "+
			"--add-vertices %s=TABLE", path, typesOf(all), all[0].name)
	case i < 0:
		return refusal.Errorf("%s: the graph has no vertex type %s, but %s: name one of these, as in --add-vertices "+
			"%s=TABLE", path, name, typesOf(all), all[0].name)
	case all[i].hasTable:
		return refusal.Errorf("%s: a second table of new vertices of %s; give one", path, all[i].name)
	case all[i].fixed:
		return refusal.Errorf("%s: %w", path, all[i].noTable())
	}
	t := all[i]
	label := g.Types[i].Table.Label
	t.Path, t.hasTable = path, true
	if o.Label != label {
		t.leaveOut = []string{label}
	}
	if err := t.readHeader(); err != nil {
		return err
	}
	t.label = slices.Index(t.header, label)
	return t.profile()
}

// noTable refuses new vertices of a type whose vertices come from no table.
func (t *vertexTable) noTable() error {
	return refusal.Errorf("new vertices are added to those that weft import edges has made with "+
		"--vertices-from, whose columns and ids are known, and the vertices of %s come from no table: add "+
		"edges between these alone, or import all again", t.name)
}

// continued is the graph's table with what the new vertices add to its counts.
func (t *vertexTable) continued(was *columns.Table) *columns.Table {
	table := *was
	table.Columns = slices.Clone(was.Columns)
	for i := range table.Columns {
		c := &table.Columns[i]
		c.Missing += int64(t.all() - t.before - t.rows)
		if !t.hasTable {
			continue
		}
		more := &t.list[i]
		c.Missing, c.Other, c.Counts = c.Missing+more.Missing, c.Other+more.Other, slices.Clone(c.Counts)
		for k := range c.Counts {
			c.Counts[k] += more.Counts[k]
		}
	}
	return &table
}

// notesOn says which columns of the table are not in the features of the graph.
func (t *vertexTable) notesOn(was *columns.Table) (notes []string) {
	if more := t.all() - t.before - t.rows; more > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d new vertices are ends of edges without a row: all their "+
			"values are missing", more, t.all()-t.before))
	}
	if !t.hasTable {
		return notes
	}
	for i := range t.list {
		if c := &t.list[i]; c.Other > 0 {
			notes = append(notes, fmt.Sprintf("%s: column %s: values that are not known in %d of %d "+
				"rows, which count as other", t.Path, c.Name, c.Other, t.rows))
		}
	}
	notes = append(notes, t.firstOf(t.notes)...)
	var out []string
	for _, column := range t.leftOut {
		if !slices.ContainsFunc(was.LeftOut, func(c columns.LeftOut) bool { return c.Name == column.Name }) {
			out = append(out, column.Name)
		}
	}
	if len(out) > 0 {
		notes = append(notes, fmt.Sprintf("%s: columns that are not used: %s", t.Path, strings.Join(out, ", ")))
	}
	return notes
}

// meant returns the number of the relation of a list that is named by its file alone: the one whose labels
// are learned, or the only one that is not the reverse of another. −1: there is none, or there are several.
func (o *Options) meant(relations []graph.Relation) int {
	if o.Learned != "" {
		return slices.IndexFunc(relations, func(r graph.Relation) bool { return r.Name == o.Learned })
	}
	found := -1
	for i := range relations {
		source, name, target, ok := relations[i].ReverseOf()
		if ok && slices.ContainsFunc(relations, func(r graph.Relation) bool {
			s, n, t := r.Ends()
			return s == source && n == name && t == target
		}) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// addEdges reads the lists of new edges, by relation.
func (o *Options) addEdges(g *graph.Graph, all []*vertexTable, made *appended.Addition) error {
	lists, err := o.edgeLists(all)
	if err != nil {
		return err
	}
	for _, l := range lists {
		i := slices.IndexFunc(g.Relations, func(r graph.Relation) bool {
			return r.Name == l.name || len(g.Relations) == 1
		})
		if i < 0 && slices.Contains(o.Edges, l.Path) { // the list has only its file's name
			i = o.meant(g.Relations)
		}
		if i < 0 {
			var names []string
			for k := range g.Relations {
				names = append(names, g.Relations[k].Name)
			}
			return refusal.Errorf("%s: the graph has no relation %s, but %s; give RELATION=%s", l.Path, l.name,
				arrays.Listed(names), l.Path)
		}
		r := &g.Relations[i]
		if made.Edges[i].Len() > 0 {
			return refusal.Errorf("%s: a second list of new edges; give one for each relation", l.Path)
		}
		l.know(columnsOf(r))
		if r.Weights != nil && !l.weighted {
			return refusal.Errorf("%s: the edges of the graph have weights; name their column with "+
				"--edge-weights", l.Path)
		}
		source, target, err := g.Joins(r)
		if err != nil {
			return err
		}
		l.ends[0].table, l.ends[1].table = all[source], all[target]
		if n := l.features(); n != r.Features.Columns {
			return refusal.Errorf("%s: the edges of the graph have %s, and these %s: name their "+
				"columns with --edge-features", l.Path, arrays.Counted(r.Features.Columns, "feature"),
				arrays.Counted(n, "feature"))
		}
		if r.HasLabels() && o.LabelledEdges {
			l.label, l.optional = r.Labels.Column, true
			l.by = splitByOf(r)
		}
		edges := l.edges()
		if made.Edges[i], err = edges.Read(nil); err != nil {
			return err
		}
		if l.label != "" {
			if made.Frames[i], err = l.takeLabels(&made.Edges[i], &r.Frame); err != nil {
				return err
			}
		}
		l.noteOdd()
		made.Notes = append(made.Notes, l.notes...)
	}
	return nil
}
