package npz

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// The arrays that list the types, in the layout with types: their names, and source, name and target of each
// relation.
const (
	vertexTypesKey = "vertex_types"
	edgeTypesKey   = "edge_types"
)

// sparseFeatures are the arrays of features in the form of a SciPy csr_matrix.
var sparseFeatures = [...]string{"x_data", "x_indices", "x_indptr", "x_shape"}

// The arrays of a type of vertices and of a relation.
var (
	vertexKeys = append([]string{"num_nodes", "x", "y", classNamesKey, arrays.BatchKey},
		slices.Concat(arrays.MaskKeys[:], sparseFeatures[:])...)
	edgeKeys = slices.Concat([]string{arrays.EdgeIndexKey, "edge_weight", "edge_attr"}, edgeLabelKeys,
		arrays.EdgeSplitKeys)
)

// vertexType is the arrays of a type of vertices. Without types there is one, whose name is empty.
type vertexType struct {
	*arrays.Archive
	name  string
	count int
}

// relation is the arrays of a relation, with the numbers of the types that it joins.
type relation struct {
	*arrays.Archive
	name           string
	source, target int
	key            string // of the edges
}

// isTyped reports whether the archive has the layout with types.
func (a *archive) isTyped() bool { return a.Has(vertexTypesKey) || a.Has(edgeTypesKey) }

// fields opens the layouts whose arrays have the names of PyTorch Geometric, perhaps except for the list of
// edges. The type that has labels comes first, and the others follow in their order.
func (a *archive) fields() (*streamed.Graph, error) {
	list := a.oneType
	if a.isTyped() {
		list = a.types
	}
	vertices, relations, err := list()
	if err != nil {
		return nil, err
	}
	g := &streamed.Graph{
		InMemory: &graph.Graph{}, Source: a.Path,
		Types: make([]streamed.Type, len(vertices)),
	}
	total, labelled := 0, -1
	for k, r := range relations {
		made := streamed.Relation{
			Source: vertices[r.source].name, Name: r.name,
			Target: vertices[r.target].name,
		}
		if made.Edges, err = r.Edges(r.key); err != nil {
			return nil, err
		}
		if !a.isTyped() {
			made.Refuse = func(err error) error { return refusal.In(a.Path, err) }
		}
		if made.EdgeSplit, err = r.EdgeSplit(); err != nil {
			return nil, err
		}
		if err := a.label(&r, &made); err != nil {
			return nil, err
		}
		if made.Frame != nil {
			if labelled >= 0 {
				return nil, refusal.Errorf("%s: the arrays %q and %q are both labels of edges: leave out all but those "+
					"to learn", a.Path, relations[labelled].Key(edgeLabelsKey), r.Key(edgeLabelsKey))
			}
			labelled = k
		}
		g.Relations = append(g.Relations, made)
		total += int(made.Count)
	}
	if err := a.count(vertices, relations, g.Relations, total); err != nil {
		return nil, err
	}
	return g, a.giveVertices(g, vertices, total)
}

// oneType are the arrays of a graph without types. It refuses any other arrays.
func (a *archive) oneType() ([]vertexType, []relation, error) {
	key := "edges"
	if a.Has(arrays.EdgeIndexKey) {
		key = arrays.EdgeIndexKey
	}
	known := append([]string{key}, slices.Concat(vertexKeys, edgeKeys[1:])...)
	return []vertexType{{Archive: a.Archive}}, []relation{{Archive: a.Archive, key: key}}, a.Only(known...)
}

// types reads which types and relations there are, and refuses arrays of others.
func (a *archive) types() (vertices []vertexType, relations []relation, err error) {
	if _, err := a.Group(vertexTypesKey, edgeTypesKey); err != nil {
		return nil, nil, err
	}
	names, err := listed(a.Archive, vertexTypesKey, 1)
	if err != nil {
		return nil, nil, err
	}
	ends, err := listed(a.Archive, edgeTypesKey, 3)
	if err != nil {
		return nil, nil, err
	}
	known, numbers := map[string]bool{vertexTypesKey: true, edgeTypesKey: true}, map[string]int{}
	for k, name := range names {
		if _, twice := numbers[name]; twice {
			return nil, nil, refusal.Errorf("%s: array %q has %.60q twice: name each type once", a.Path,
				vertexTypesKey, name)
		}
		numbers[name] = k
		v := vertexType{Archive: a.In("vertices/" + graph.FolderName(name)), name: name}
		vertices = append(vertices, v)
		for _, key := range vertexKeys {
			known[v.Key(key)] = true
		}
	}
	for triple := range slices.Chunk(ends, 3) {
		folder := "edges/" + graph.FolderName(strings.Join(triple, "__"))
		r := relation{Archive: a.In(folder), name: triple[1], key: arrays.EdgeIndexKey}
		for i, to := range []*int{&r.source, &r.target} {
			end := triple[2*i]
			at, listed := numbers[end]
			if *to = at; !listed {
				return nil, nil, refusal.Errorf("%s: array %q joins vertices of the type %.60q, which %q "+
					"does not list", a.Path, edgeTypesKey, end, vertexTypesKey)
			}
		}
		if !r.Has(r.key) {
			return nil, nil, refusal.Errorf("%s: has no array %q, the edges of a relation that %q lists",
				a.Path, r.Key(r.key), edgeTypesKey)
		}
		relations = append(relations, r)
		for _, key := range edgeKeys {
			known[r.Key(key)] = true
		}
	}
	if len(vertices) == 0 || len(relations) == 0 {
		return nil, nil, refusal.Errorf("%s: lists %d types of vertices and %d relations: give at least "+
			"one of each", a.Path, len(vertices), len(relations))
	}
	for _, key := range a.Names() {
		if !known[key] {
			return nil, nil, refusal.Errorf("%s: array %.80q is not read: leave it out; a type has %s, and "+
				"a relation %s", a.Path, key, arrays.Listed(vertexKeys), arrays.Listed(edgeKeys))
		}
	}
	return vertices, relations, nil
}

// listed reads a vector of names, or a matrix of so many names in a row.
func listed(a *arrays.Archive, key string, columns int) ([]string, error) {
	names, shape, err := arrays.Elements(a.Fields, key, (*npy.Array).Strings)
	if err == nil &&
		(columns == 1 && len(shape) != 1 || columns > 1 && (len(shape) != 2 || shape[1] != columns)) {
		err = a.Refuse(key,
			refusal.Errorf("has shape %v: it must be a list of names, with %d for each", shape, columns))
	}
	return names, err
}

// count sets how many vertices each type has: what its arrays say, or else the largest id of an end plus one.
// edges are the relations' edges, total in all.
func (a *archive) count(vertices []vertexType, relations []relation, edges []streamed.Relation,
	total int,
) (err error) {
	rows := total // rows in the file
	for k := range vertices {
		v := &vertices[k]
		if v.count, err = v.Vertices(total); err != nil {
			return err
		}
		if v.count == 0 && v.Has("x_indptr") {
			if v.count, err = v.Count("x_indptr"); err != nil {
				return err
			}
			v.count--
		}
		if v.count == 0 {
			if err := a.countByEdges(vertices, k, relations, edges, total); err != nil {
				return err
			}
		}
		if v.Has("x") || v.Has("y") || v.Has("x_indptr") {
			rows += v.count
		}
	}
	claimed := int64(0) // even a relation without edges has a row for each vertex
	for _, r := range relations {
		claimed += int64(max(vertices[r.source].count, vertices[r.target].count))
	}
	if claimed > arrays.MaxClaims(rows) {
		return refusal.Errorf("%s: %d relations of %d vertices in all, with %d edges: too many for what "+
			"the file holds", a.Path, len(relations), claimed, total)
	}
	return nil
}

// countByEdges sets how many vertices type k has: the largest id of an end plus one.
func (a *archive) countByEdges(vertices []vertexType, k int, relations []relation,
	edges []streamed.Relation, total int,
) error {
	v, largest := &vertices[k], int32(-1)
	for i, r := range relations { // fewer than a thousand, as each has an array
		if r.source != k && r.target != k {
			continue
		}
		source, target, err := edges[i].Largest()
		if err != nil {
			return err
		}
		if r.source == k {
			largest = max(largest, source)
		}
		if r.target == k {
			largest = max(largest, target)
		}
	}
	v.count = int(largest) + 1
	switch {
	case v.count > 0 && int64(v.count) <= arrays.MaxVertices(total):
		return nil
	case a.isTyped():
		return refusal.Errorf("%s: %d vertices of the type %q for %d edges: give their number as %q", a.Path,
			v.count, v.name, total, v.Key("num_nodes"))
	}
	return refusal.Errorf("%s: the largest id of %d edges is %d: give the number of vertices as num_nodes",
		a.Path, total, largest)
}

// giveVertices gives the graph, which has so many edges, what its types of vertices have, in their order: the
// type with labels first.
func (a *archive) giveVertices(g *streamed.Graph, vertices []vertexType, edges int) error {
	first, mem := -1, g.InMemory
	for k, v := range vertices {
		switch {
		case !v.Has("y"):
		case first >= 0:
			return refusal.Errorf("%s: the arrays %q and %q are both labels: leave out all but those to "+
				"learn", a.Path, vertices[first].Key("y"), v.Key("y"))
		default:
			first = k
		}
	}
	own := vertices[max(first, 0)]
	vertices = append([]vertexType{own}, slices.Delete(slices.Clone(vertices), max(first, 0),
		max(first, 0)+1)...)
	for _, v := range vertices {
		mem.Types = append(mem.Types, graph.VertexType{Type: v.name, Frame: graph.Frame{Count: v.count}})
	}
	mem.Notes = []string{fmt.Sprintf("%d edges, as the file lists them", edges)}
	if a.isTyped() {
		mem.Notes[0] = fmt.Sprintf("%s of %s, as the file lists them",
			arrays.Counted(edges, "edge"), arrays.Counted(len(g.Relations), "relation"))
	}
	if err := a.giveGraphs(mem, vertices); err != nil {
		return err
	}
	for t, v := range vertices {
		m, err := a.featuresOf(v)
		if err != nil {
			return err
		}
		if m.Note != "" && a.isTyped() {
			m.Note = fmt.Sprintf("%q: %s", v.Key("x"), m.Note)
		}
		m.Give(g, t)
		labels, err := a.labels(v)
		if err != nil {
			return err
		}
		if t == 0 {
			mem.Types[0].Labels = labels
		}
	}
	var err error
	mem.Types[0].Splits, err = own.Splits(arrays.MaskKeys, mem.Types[0].Count, &mem.Types[0].Labels,
		arrays.Masks)
	return err
}

// giveGraphs sets to which graph each vertex belongs, if the types have that.
func (a *archive) giveGraphs(g *graph.Graph, vertices []vertexType) error {
	if !slices.ContainsFunc(vertices, func(v vertexType) bool { return v.Has(arrays.BatchKey) }) {
		return nil
	}
	ids := make([][]int64, len(vertices))
	for t, v := range vertices {
		if !v.Has(arrays.BatchKey) {
			return refusal.Errorf("%s: has no array %q, which other types have: give it to all", a.Path,
				v.Key(arrays.BatchKey))
		}
		var err error
		if ids[t], err = v.GraphIDs(v.count); err != nil {
			return err
		}
	}
	if err := arrays.GiveGraphs(g, ids); err != nil {
		return vertices[0].Refuse(arrays.BatchKey, err)
	}
	g.Notes = append(g.Notes, arrays.GraphsNote(g.Graphs))
	return nil
}

// featuresOf opens the features of a type, dense or sparse, if it has some.
func (a *archive) featuresOf(v vertexType) (*arrays.Matrix, error) {
	sparse, err := v.Group(sparseFeatures[:]...)
	switch {
	case err != nil:
		return nil, err
	case sparse && v.Has("x"):
		return nil, refusal.Errorf("%s: has features twice, as %q and as %q: leave one out", a.Path,
			v.Key("x"), v.Key(sparseFeatures[0]))
	case sparse:
		return readSparseFeatures(v.Archive, "x_", v.count)
	case v.Has("x"):
		return v.Features("x", v.count, a.options.DenseFeatures)
	}
	return &arrays.Matrix{}, nil
}

// labels reads the labels of a type; none, if there are none.
func (a *archive) labels(v vertexType) (l graph.Labels, err error) {
	if v.Has("y") {
		return namedLabels(v.Archive, "y", classNamesKey, v.count, graph.VertexNoun)
	}
	if v.Has(classNamesKey) {
		return l, v.Refuse(classNamesKey, refusal.Errorf("there are no labels %q: leave it out", v.Key("y")))
	}
	return l, nil
}

// namedLabels reads the labels of rows from the array of a key, and the names of their classes if they are
// there. There may be more names than rows have classes.
func namedLabels(a *arrays.Archive, key, namesKey string, rows int, row graph.Noun) (
	l graph.Labels, err error,
) {
	if l, err = a.Labels(key, rows, row); err != nil || !a.Has(namesKey) {
		return l, err
	}
	names, err := listed(a, namesKey, 1)
	switch {
	case err != nil:
		return l, err
	case l.Class == nil:
		return l, a.Refuse(namesKey, refusal.Errorf("labels %q are not one class id for each %s, and only "+
			"these have names: leave it out", a.Key(key), row.One))
	case len(names) < l.Classes:
		return l, a.Refuse(namesKey, refusal.Errorf("has %d names, and %q has %d classes: name each class",
			len(names), a.Key(key), l.Classes))
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		if !utf8.ValidString(name) || known[name] {
			return l, a.Refuse(namesKey, refusal.Errorf("the name %.40q is there twice, or is not UTF-8: give "+
				"each class a name of its own", name))
		}
		known[name] = true
	}
	l.Classes, l.Names = len(names), names
	return l, nil
}
