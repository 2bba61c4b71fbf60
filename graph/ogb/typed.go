package ogb

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// typedLayout is one of the forms in which a graph of several types lies in raw/.
type typedLayout interface {
	name() string // the folder
	// types lists the vertex types and how many vertices each has.
	types() ([]graph.VertexType, error)
	// relations lists the relations.
	relations() ([]triplet, error)
	// edges opens the edges of a relation, whose ends must lie within so many vertices, and says how many
	// they are.
	edges(r triplet, within ends) (list edges, count int64, err error)
	// edgeFeatures opens those of a relation, and features those of a vertex type; nil where there are none.
	edgeFeatures(r triplet) (matrix, error)
	features(vertexType string) (matrix, error)
	// labelled lists the vertex types that have labels.
	labelled() ([]string, error)
	labels(vertexType string) (matrix, error)
	// more lists the arrays of a vertex type besides features and labels, which array opens.
	more(vertexType string) []string
	array(vertexType, name string) (matrix, error)
	// checkLists refuses arrays of other types and relations than these, which would not be read.
	checkLists(types []string, relations []triplet) error
	// unread lists the names of what is not read.
	unread(types []string, relations []triplet) []string
	close()
}

// triplet names a relation by its source type, its own name, and its target type.
type triplet [3]string

// String returns the relation's name in folders and archives.
func (t triplet) String() string { return strings.Join(t[:], "___") }

// namesOf returns the relations' names in folders and archives.
func namesOf(relations []triplet) (names []string) {
	for _, r := range relations {
		names = append(names, r.String())
	}
	return names
}

// checkListed refuses the first of the names, of things in that place, that a list does not have: what it
// names would be lost without a word.
func checkListed(place string, names, listed []string, list string) error {
	for _, name := range names {
		if !slices.Contains(listed, name) {
			return refusal.Errorf("%s: %.100q is not in %s, which lists %s; %s", place, name, list, arrays.Listed(listed), fetchAgain)
		}
	}
	return nil
}

// checkName refuses what is no name of a folder, before it is part of a path.
func checkName(where, name string) error {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return refusal.Errorf("%s: %.60q is no name of a type; %s", where, name, fetchAgain)
	}
	return nil
}

// readTyped reads a graph of several types into memory. Its first type is the one that has labels.
func readTyped(l typedLayout, o Options) (*graph.Graph, error) {
	for flag, asked := range map[string]bool{"inverse-edges": o.Inverse == Add, "features-from-edges": o.FromEdges != ""} {
		if asked {
			return nil, refusal.Errorf("%s: %s has several types of vertices, and this is for graphs of one; leave it out (%s adds reverse relations)",
				refusal.Setting(flag), o.Folder, refusal.Setting("reverse-relations"))
		}
	}
	if o.Rule == nil {
		if path, err := o.splitFolder(); err == nil && isLinkSplit(path) {
			return nil, refusal.Errorf("%s: %s", path, ofTriples)
		}
	}
	t := &typed{typedLayout: l, Options: o, counts: map[string]int{}}
	g := &graph.Graph{Metric: known[nameOf(o.Folder)].metric, Provenance: o.provenance()}
	if err := t.readTypes(g); err != nil {
		return nil, err
	}
	if err := t.readRelations(g); err != nil {
		return nil, err
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Folder, err)
	}
	if !o.Symmetrize {
		return g, nil
	}
	g, err := g.Symmetrize()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", refusal.Setting("symmetrize"), err)
	}
	return g, nil
}

// typed is a folder of several types that is being read.
type typed struct {
	typedLayout
	Options
	counts map[string]int // of vertices, by type
}

// readTypes reads the vertices of all types, with labels and splits.
func (t *typed) readTypes(g *graph.Graph) error {
	types, err := t.types()
	if err != nil {
		return err
	}
	// As OGB's loader has them, and the same from text and from archives
	slices.SortFunc(types, func(a, b graph.VertexType) int { return strings.Compare(a.Type, b.Type) })
	labelled, err := t.labelled()
	if err != nil {
		return err
	}
	if len(labelled) != 1 {
		return refusal.Errorf("%s: the types that have labels are %d (%s), where graphs are read that have labels of one",
			t.name(), len(labelled), arrays.Listed(labelled))
	}
	first := slices.IndexFunc(types, func(v graph.VertexType) bool { return v.Type == labelled[0] })
	if first < 0 {
		return refusal.Errorf("%s: %.60q has labels and is no vertex type; %s", t.name(), labelled[0], fetchAgain)
	}
	var kept []string
	for k := range types {
		v := &types[k]
		if _, twice := t.counts[v.Type]; twice || v.Count < 0 || v.Count > math.MaxInt32 {
			return refusal.Errorf("%s: the vertex type %.60q has %d vertices, or stands twice; %s", t.name(), v.Type, v.Count, fetchAgain)
		}
		t.counts[v.Type] = v.Count
		if v.Features, err = t.readFeatures(v); err != nil {
			return err
		}
		for _, name := range t.more(v.Type) {
			a, err := newArray(name, v.Count, func() (matrix, error) { return t.array(v.Type, name) })
			if err != nil {
				return err
			}
			read, err := a.Read(v.Count)
			if err != nil {
				return err
			}
			v.Arrays = append(v.Arrays, read)
			kept = append(kept, fmt.Sprintf("%q of %.80q", name, v.Type))
		}
	}
	g.Notes = append(g.Notes, sayKept(kept)...)
	own := types[first]
	g.Type, g.Count, g.Features, g.Arrays = own.Type, own.Count, own.Features, own.Arrays
	g.Others = slices.Delete(types, first, first+1)
	if g.Labels, err = t.readLabels(own); err != nil {
		return err
	}
	g.Splits, err = t.readSplits(own.Type, own.Count, &g.Labels)
	return err
}

func (t *typed) readLabels(v graph.VertexType) (graph.Labels, error) {
	m, err := t.labels(v.Type)
	if err != nil {
		return graph.Labels{}, err
	}
	defer m.close()
	return labelsOf(m, v.Count)
}

// readFeatures reads the features of a type, if it has some.
func (t *typed) readFeatures(v *graph.VertexType) (f graph.Features, err error) {
	m, err := t.features(v.Type)
	if m == nil || err != nil {
		return f, err
	}
	defer m.close()
	rows := &whole{matrix: m, want: int64(v.Count), finite: true}
	f.Columns = m.width()
	f.Dense, err = rows.collect()
	return f, err
}

// readRelations reads the edges of all relations.
func (t *typed) readRelations(g *graph.Graph) error {
	all, err := t.relations()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return refusal.Errorf("%s: lists no relation; %s", t.name(), fetchAgain)
	}
	slices.SortFunc(all, func(a, b triplet) int { return slices.Compare(a[:], b[:]) })
	types := slices.Collect(maps.Keys(t.counts))
	if err := t.checkLists(types, all); err != nil {
		return err
	}
	lists, edges := make([]graph.Edges, len(all)), 0
	for k, r := range all {
		if lists[k], err = t.readEdges(r); err != nil {
			return err
		}
		edges += lists[k].Len()
	}
	if err := t.checkClaims(g, all, edges); err != nil {
		return err
	}
	for k, r := range all {
		relation, err := graph.NewBipartite(t.counts[r[0]], t.counts[r[2]], lists[k])
		if err != nil {
			return refusal.Errorf("%s: relation %.100q: %w", t.name(), r, err)
		}
		relation.Source, relation.Name, relation.Target = r[0], r[1], r[2]
		g.Relations = append(g.Relations, relation)
		lists[k] = graph.Edges{}
	}
	g.Notes = append(g.Notes, fmt.Sprintf("%s of %s, without inverse ones (%s adds reverse relations)",
		arrays.Counted(edges, "edge"), arrays.Counted(len(all), "relation"), refusal.Setting("reverse-relations")))
	notes, warnings := sayUnread(t.name(), t.unread(types, all))
	g.Notes, g.Warnings = append(g.Notes, notes...), append(g.Warnings, warnings...)
	return nil
}

// checkClaims refuses vertices that are only claimed: no row of features or labels confirms them, and each of
// the relations, which have so many edges, takes memory for those of the types that it joins.
func (t *typed) checkClaims(g *graph.Graph, relations []triplet, edges int) error {
	rows, taken := g.Count, 0 // the first type has labels
	for _, v := range g.Others {
		if v.Features.Columns > 0 {
			rows += v.Count
		} else if most := arrays.MaxVertices(edges); int64(v.Count) > most {
			return refusal.Errorf("%s: %d vertices of the type %.60q with only %d edges: at most %d are read", t.name(), v.Count, v.Type, edges, most)
		}
	}
	for _, r := range relations {
		taken += max(t.counts[r[0]], t.counts[r[2]])
	}
	if most := arrays.MaxClaims(edges + rows); int64(taken) > most {
		return refusal.Errorf("%s: %d vertices, counted once for each of %d relations, with only %d edges and %d rows of features and labels: at most %d are read",
			t.name(), taken, len(relations), edges, rows, most)
	}
	return nil
}

// readEdges reads the edges of a relation into memory.
func (t *typed) readEdges(r triplet) (e graph.Edges, err error) {
	for _, end := range []string{r[0], r[2]} {
		if _, isType := t.counts[end]; !isType {
			return e, refusal.Errorf("%s: the relation %.100q joins the type %.60q, which there is none of; %s", t.name(), r, end, fetchAgain)
		}
	}
	list, count, err := t.edges(r, ends{t.counts[r[0]], t.counts[r[2]]})
	if err != nil {
		return e, err
	}
	features, err := t.edgeFeatures(r)
	if err != nil {
		list.close()
		return e, err
	}
	l := newEdgeList(list, features, count)
	defer l.close()
	listed := streamed.Edges{Count: l.stored(), Columns: l.columns(), Each: l.eachStored, Refuse: l.refuse}
	return listed.Read(t.Progress)
}
