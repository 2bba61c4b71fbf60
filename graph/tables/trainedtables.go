package tables

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// Like says how tables were read before, so that others are read alike. Columns have their earlier names
// unless Options name others. A table need not have the label.
type Like struct {
	// Columns are the columns that became features, by vertex type. A type without a name is
	// graph.VertexName.
	Columns   columns.ByType
	ids       map[string]string      // the columns of ids, by vertex type
	label     string                 // the column that is learned, of labelType
	labelType string                 // the vertex type with labels
	edges     map[string]edgeColumns // by relation
	values    bool                   // labels are values
	// EdgesUnknown says why the columns of edges are not known; "": they are. EdgeFeatures and EdgeWeights
	// say that a model reads features or weights.
	EdgesUnknown              string
	EdgeFeatures, EdgeWeights bool
}

// LikeGraph says how the tables of a graph were read. Its Columns are nil if there was none.
func LikeGraph(g *graph.Graph) *Like {
	l := &Like{
		ids: map[string]string{}, edges: map[string]edgeColumns{}, values: g.Types[0].Labels.Continuous(),
	}
	for i, t := range g.Types {
		if t.Table == nil {
			continue
		}
		if l.Columns == nil {
			l.Columns = columns.ByType{}
		}
		l.Columns[t.Name()] = t.Table.Columns
		l.ids[t.Name()] = t.Table.ID
		if i == 0 {
			l.labelType, l.label = t.Name(), t.Table.Label
		}
	}
	for i := range g.Relations {
		_, name, _ := g.Relations[i].Ends()
		l.edges[name] = columnsOf(&g.Relations[i])
	}
	return l
}

// Know takes the columns, by vertex type, on which a model's weights were trained, if these have some.
func (l *Like) Know(trained columns.ByType) {
	if trained == nil {
		return
	}
	if l.Columns == nil {
		l.Columns = columns.ByType{}
	}
	maps.Copy(l.Columns, trained)
}

// table says how a table of vertices of a type was read before. If there was one table and there is one now,
// it is that one, whatever its type. table refuses a type that was not there.
func (l *Like) table(t *vertexTable, typ string, only bool) error {
	if l == nil {
		return nil
	}
	like, there := l.Columns[typ]
	if only && !there && len(l.Columns) == 1 {
		for typ, like = range l.Columns {
			there = true
		}
	}
	t.like = append(columns.List{}, like...) // not nil
	switch types := slices.Sorted(maps.Keys(l.Columns)); {
	case there:
	case only && len(types) > 1:
		return refusal.Errorf("--vertices-from %s: is one table, and its columns are to be like those of %s: give a "+
			"table of each, --vertices-from %s=TABLE", t.Path, strings.Join(types, ", "),
			strings.Join(types, "=TABLE --vertices-from "))
	default:
		return refusal.Errorf("--vertices-from %s: there was no vertex type %s, whose columns these are to "+
			"be like; give TYPE=%[1]s, where TYPE is one of %[3]s", t.Path, typ, strings.Join(types, ", "))
	}
	t.known = l.ids[typ]
	if l.labelType == typ {
		t.knownLabel = l.label
	}
	return nil
}

// readLike reads the list as the relation of that name was read then. It takes the relation's columns of
// numbers. It also takes its columns of labels and of their split, where the list has these and no others are
// asked for. It refuses a list whose columns of numbers the model reads and nothing names.
func (l *edgeList) readLike(o *Options, relation string) error {
	like := o.Like
	switch {
	case like.EdgesUnknown == "":
	case (l.label != "" || like.EdgeFeatures) && len(o.EdgeFeatures) == 0:
		return refusal.Errorf("%s: %s, so that the columns that are features of edges are not known: name them with "+
			"--edge-features, in the order of then, or give the store of then with --columns-of", l.Path, like.EdgesUnknown)
	case like.EdgeWeights && !l.weighted:
		return refusal.Errorf("%s: %s, so that the column of the weights of edges is not known: name it with "+
			"--edge-weights, or give the store of then with --columns-of", l.Path, like.EdgesUnknown)
	}
	was := like.edges[relation]
	l.know(was)
	if was.label == "" || o.EdgeLabel != "" && was.label != l.label {
		return nil
	}
	if err := l.Each(func(all []table.Column) ([]int, error) {
		l.header = namesOf(all)
		return nil, errEnough
	}, nil); !errors.Is(err, errEnough) {
		return err
	}
	lacks := func(name string) bool { return !slices.Contains(l.header, name) }
	names, err := labelNames(was.label, l.header)
	if err != nil || slices.ContainsFunc(names, lacks) {
		return err
	}
	l.label, l.values = was.label, was.values
	if l.by.Column == "" && !lacks(was.by.Column) {
		l.by = was.by
	}
	return nil
}
