package tables

import (
	"slices"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/internal/names"
	"weft/internal/refusal"
)

// Addition is what tables append to a graph, and the ids of the new vertices by type.
type Addition struct {
	appended.Addition
	Names [][]string
}

// Add reads tables of new vertices and lists of new edges of a graph that comes from tables. Ids that the
// graph has are its vertices. Columns become features as they did for the graph. A new id that only edges
// have is a vertex without values. The names of tables and lists are those of types and relations, of which
// an untyped graph has one each. Complaints are refusals.
func Add(o Options, g *graph.Graph) (*Addition, error) {
	types := g.Types()
	all := make([]*vertexTable, len(types))
	for i := range types {
		t := &types[i]
		if t.Table == nil || len(t.Names) != t.Count {
			return nil, refusal.Errorf("vertices and edges are added to a graph that weft import edges has "+
				"made with {vertices-from}, whose columns and ids are known; the vertices of %s come from "+
				"no table", t.Type)
		}
		made := &vertexTable{
			name: t.Type, ids: names.NewTable(), before: t.Count, like: t.Table.Columns, label: -1,
			asked: t.Table.ID, path: t.Table.Path, progress: o.Progress,
		}
		for _, name := range t.Names {
			if _, err := made.ids.Number([]byte(name)); err != nil {
				return nil, err
			}
		}
		made.list = made.like // of vertices without a row
		all[i] = made
	}
	for _, argument := range o.Vertices {
		name, path := Named(argument)
		i := slices.IndexFunc(all, func(t *vertexTable) bool { return t.name == name || !g.Typed() })
		switch {
		case i < 0:
			return nil, refusal.Errorf("%s: the graph has no vertex type %s; give TYPE=%s", path, name, path)
		case all[i].given:
			return nil, refusal.Errorf("%s: a second table of new vertices of %s; give one", path,
				all[i].name)
		}
		t := all[i]
		t.path, t.given = path, true
		if types[i].Table.Label != "" {
			t.leaveOut = []string{types[i].Table.Label}
		}
		if err := t.readHeader(); err != nil {
			return nil, err
		}
		if err := t.profile(); err != nil {
			return nil, err
		}
	}
	made := &Addition{Addition: appended.Addition{Edges: make([]graph.Edges, len(g.Relations))}}
	if err := o.addEdges(g, all, made.Edges); err != nil {
		return nil, err
	}
	for i, t := range all {
		rows := appended.Rows{Count: len(t.ids.Names) - t.before}
		if rows.Features.Columns = types[i].Features.Columns; rows.Count > 0 && rows.Features.Columns > 0 {
			err := t.features(func(values []float32) error {
				rows.Features.Dense = append(rows.Features.Dense, values...)
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		made.Types, made.Names = append(made.Types, rows), append(made.Names, t.ids.Names[t.before:])
	}
	return made, nil
}

// addEdges reads the lists of new edges, by relation.
func (o *Options) addEdges(g *graph.Graph, all []*vertexTable, edges []graph.Edges) error {
	lists, err := o.edgeLists(all)
	if err != nil {
		return err
	}
	for _, l := range lists {
		i := slices.IndexFunc(g.Relations, func(r graph.Relation) bool {
			return r.Name == l.name || !g.Typed()
		})
		if i < 0 {
			return refusal.Errorf("%s: the graph has no relation %s; give RELATION=%s", l.path, l.name,
				l.path)
		}
		r := &g.Relations[i]
		if edges[i].Len() > 0 {
			return refusal.Errorf("%s: a second list of new edges; give one for each relation", l.path)
		}
		if r.Weights != nil && !l.weighted {
			return refusal.Errorf("%s: the edges of the graph have weights; name their column with "+
				"{edge-weights}", l.path)
		}
		source, target, err := g.Joins(r)
		if err != nil {
			return err
		}
		l.ends[0].of, l.ends[1].of = all[source], all[target]
		of := l.edges()
		if edges[i], err = of.Read(nil); err != nil {
			return err
		}
	}
	return nil
}
