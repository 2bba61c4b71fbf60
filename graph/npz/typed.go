package npz

import (
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// The arrays that list the types of the layout with types: their names, and source, name and target of
// each relation.
const (
	vertexTypesKey = "vertex_types"
	edgeTypesKey   = "edge_types"
)

// The arrays of a type of vertices and of a relation.
var (
	vertexKeys = append([]string{"num_nodes", "x", "y", classNamesKey, arrays.BatchKey}, slices.Concat(arrays.MaskKeys[:], sparseFeatures[:])...)
	edgeKeys   = append([]string{arrays.EdgeIndexKey, "edge_weight", "edge_attr"}, arrays.EdgeSplitKeys...)
)

// part is the arrays of one type, whose keys begin with the path of a folder.
type part struct {
	*arrays.Archive
	folder string
}

func (p part) key(key string) string { return p.folder + "/" + key }

// Has implements arrays.Source.
func (p part) Has(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !p.Archive.Has(p.key(key)) })
}

// Array implements arrays.Source.
func (p part) Array(key string) (*npy.Array, error) { return p.Archive.Array(p.key(key)) }

// Header implements arrays.Source.
func (p part) Header(key string) (npy.Header, error) { return p.Archive.Header(p.key(key)) }

// Open implements arrays.Source.
func (p part) Open(key string) (*arrays.Entry, error) { return p.Archive.Open(p.key(key)) }

// Count implements arrays.Source.
func (p part) Count(key string) (int, error) { return p.Archive.Count(p.key(key)) }

// Matrix implements arrays.Source.
func (p part) Matrix(key string, keepDense bool) (*arrays.Matrix, error) {
	return p.Archive.Matrix(p.key(key), keepDense)
}

// Refuse implements arrays.Source.
func (p part) Refuse(key string, err error) error { return p.Archive.Refuse(p.key(key), err) }

// isTyped reports whether the archive has the layout with types.
func (a *archive) isTyped() bool { return a.Has(vertexTypesKey) || a.Has(edgeTypesKey) }

// typed reads the layout with types. The type that has labels comes first, and the others in their order.
func (a *archive) typed() (*graph.Graph, error) {
	vertices, relations, err := a.types()
	if err != nil {
		return nil, err
	}
	counts, edges, err := a.counts(vertices, relations)
	if err != nil {
		return nil, err
	}
	labelled := -1
	for k, v := range vertices {
		switch {
		case !v.Has("y"):
		case labelled >= 0:
			return nil, refusal.Errorf("%s: the arrays %q and %q are both labels: leave out all but those to learn", a.Path, vertices[labelled].key("y"), v.key("y"))
		default:
			labelled = k
		}
	}
	first := max(labelled, 0)
	g := &graph.Graph{Provenance: "npz " + a.Path}
	total := 0
	for k, r := range relations {
		relation, err := graph.NewBipartite(counts[r.source], counts[r.target], edges[k])
		if err != nil {
			return nil, r.Refuse(arrays.EdgeIndexKey, err)
		}
		total += edges[k].Len()
		relation.Source, relation.Name, relation.Target = vertices[r.source].name, r.name, vertices[r.target].name
		if relation.EdgeSplit, err = (arrays.Fields{Source: r}).EdgeSplit(); err != nil {
			return nil, err
		}
		g.Relations, edges[k] = append(g.Relations, relation), graph.Edges{}
	}
	g.Notes = []string{fmt.Sprintf("%s of %s, as the file lists them", arrays.Counted(total, "edge"), arrays.Counted(len(relations), "relation"))}
	order := append([]int{first}, slices.DeleteFunc(seq(len(vertices)), func(k int) bool { return k == first })...)
	for i, k := range order {
		t, err := a.vertexType(g, vertices[k], counts[k])
		if err != nil {
			return nil, err
		}
		labels, err := a.labels(vertices[k], vertices[k].key(""), counts[k])
		if err != nil {
			return nil, err
		}
		if i == 0 {
			g.Type, g.Count, g.Features, g.Labels = t.Type, t.Count, t.Features, labels
		} else {
			g.Others = append(g.Others, t)
		}
	}
	f := arrays.Fields{Source: vertices[first]}
	if g.Splits, err = f.Splits(arrays.MaskKeys, g.Count, &g.Labels, arrays.Masks); err != nil {
		return nil, err
	}
	if err := a.graphsOf(g, vertices, order, counts); err != nil {
		return nil, err
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Path, err)
	}
	return g, nil
}

// seq are the numbers below n.
func seq(n int) []int {
	all := make([]int, n)
	for k := range all {
		all[k] = k
	}
	return all
}

// vertexPart is a type of vertices.
type vertexPart struct {
	part
	name string
}

// relationPart is a relation, with the numbers of the types that it joins.
type relationPart struct {
	part
	name           string
	source, target int
}

// types reads which types and relations there are, and refuses arrays of others.
func (a *archive) types() (vertices []vertexPart, relations []relationPart, err error) {
	if _, err := a.Group(vertexTypesKey, edgeTypesKey); err != nil {
		return nil, nil, err
	}
	names, err := a.listed(vertexTypesKey, 1)
	if err != nil {
		return nil, nil, err
	}
	ends, err := a.listed(edgeTypesKey, 3)
	if err != nil {
		return nil, nil, err
	}
	known := []string{vertexTypesKey, edgeTypesKey}
	for _, name := range names {
		v := vertexPart{part{a.Archive, "vertices/" + graph.FolderName(name)}, name}
		if slices.ContainsFunc(vertices, func(other vertexPart) bool { return other.name == name }) {
			return nil, nil, refusal.Errorf("%s: array %q has %.60q twice: name each type once", a.Path, vertexTypesKey, name)
		}
		vertices = append(vertices, v)
		for _, key := range vertexKeys {
			known = append(known, v.key(key))
		}
	}
	for k := 0; k < len(ends); k += 3 {
		r := relationPart{part: part{a.Archive, "edges/" + graph.FolderName(strings.Join(ends[k:k+3], "__"))}, name: ends[k+1]}
		for i, to := range []*int{&r.source, &r.target} {
			name := ends[k+2*i]
			if *to = slices.Index(names, name); *to < 0 {
				return nil, nil, refusal.Errorf("%s: array %q joins vertices of the type %.60q, which %q does not list", a.Path, edgeTypesKey, name, vertexTypesKey)
			}
		}
		if !r.Has(arrays.EdgeIndexKey) {
			return nil, nil, refusal.Errorf("%s: has no array %q, the edges of a relation that %q lists", a.Path, r.key(arrays.EdgeIndexKey), edgeTypesKey)
		}
		relations = append(relations, r)
		for _, key := range edgeKeys {
			known = append(known, r.key(key))
		}
	}
	if len(vertices) == 0 || len(relations) == 0 {
		return nil, nil, refusal.Errorf("%s: lists %d types of vertices and %d relations: give at least one of each", a.Path, len(vertices), len(relations))
	}
	for _, key := range a.Names() {
		if !slices.Contains(known, key) {
			return nil, nil, refusal.Errorf("%s: array %.80q is not read: leave it out; a type has %s, and a relation %s", a.Path, key,
				arrays.Listed(vertexKeys), arrays.Listed(edgeKeys))
		}
	}
	return vertices, relations, nil
}

// listed reads a vector of names, or a matrix of so many names in a row.
func (a *archive) listed(key string, columns int) ([]string, error) {
	array, err := a.Array(key)
	if err != nil {
		return nil, err
	}
	if shape := array.Shape; columns == 1 && len(shape) != 1 || columns > 1 && (len(shape) != 2 || shape[1] != columns) {
		return nil, a.Refuse(key, refusal.Errorf("has shape %v: it must be a list of names, with %d for each", shape, columns))
	}
	names, err := array.Strings()
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	return names, nil
}

// counts reads the edges of all relations, and how many vertices each type has: what its arrays say, else the
// largest id of an end and one.
func (a *archive) counts(vertices []vertexPart, relations []relationPart) (counts []int, edges []graph.Edges, err error) {
	total := 0
	for _, r := range relations {
		f := arrays.Fields{Source: r}
		e, err := f.EdgeIndex()
		if err == nil && r.Has("edge_weight") {
			e.Weights, err = f.Weights(e.Len())
		}
		if err == nil && r.Has("edge_attr") {
			err = f.EdgeFeatures(&e)
		}
		if err != nil {
			return nil, nil, err
		}
		edges, total = append(edges, e), total+e.Len()
	}
	for k, v := range vertices {
		n, err := a.rowsOf(v, v.key(""), total)
		if err != nil {
			return nil, nil, err
		}
		if n == 0 {
			for i, r := range relations {
				for end, ids := range [][]int32{edges[i].Source, edges[i].Target} {
					if []int{r.source, r.target}[end] == k && len(ids) > 0 {
						n = max(n, int(slices.Max(ids))+1)
					}
				}
			}
		}
		if n == 0 || int64(n) > arrays.MaxVertices(total) {
			return nil, nil, refusal.Errorf("%s: %d vertices of the type %q for %d edges: give their number as %q", a.Path, n, v.name, total, v.key("num_nodes"))
		}
		counts = append(counts, n)
	}
	claimed, held := int64(0), total // a relation without edges has a row for each vertex all the same
	for _, r := range relations {
		claimed += int64(max(counts[r.source], counts[r.target]))
	}
	for k, v := range vertices {
		if v.Has("x") || v.Has("y") || v.Has("x_indptr") {
			held += counts[k]
		}
	}
	if claimed > arrays.MaxClaims(held) {
		return nil, nil, refusal.Errorf("%s: %d relations of %d vertices in all, with %d edges: too many for what the file holds", a.Path, len(relations), claimed, total)
	}
	return counts, edges, nil
}

// vertexType reads what each type of vertices has. A note about features is the graph's.
func (a *archive) vertexType(g *graph.Graph, v vertexPart, count int) (t graph.VertexType, err error) {
	t = graph.VertexType{Type: v.name, Count: count}
	m, err := a.features(v.key(""), count)
	if m == nil || err != nil {
		return t, err
	}
	t.Features = m.Features
	if m.Note != "" {
		g.Notes = append(g.Notes, fmt.Sprintf("%q: %s", v.key("x"), m.Note))
	}
	return t, nil
}

// graphsOf reads the graph of each vertex, of all types or of none.
func (a *archive) graphsOf(g *graph.Graph, vertices []vertexPart, order, counts []int) error {
	if !slices.ContainsFunc(vertices, func(v vertexPart) bool { return v.Has(arrays.BatchKey) }) {
		return nil
	}
	var all []int64
	for _, k := range order {
		v := vertices[k]
		if !v.Has(arrays.BatchKey) {
			return refusal.Errorf("%s: has no array %q, which other types have: give it to all", a.Path, v.key(arrays.BatchKey))
		}
		ids, err := (arrays.Fields{Source: v}).GraphIDs(counts[k])
		if err != nil {
			return err
		}
		all = append(all, ids...)
	}
	numbers, graphs, err := graph.NumberGraphs(all)
	if err != nil {
		return vertices[order[0]].Refuse(arrays.BatchKey, err)
	}
	for i, k := range order {
		n := counts[k]
		of := numbers[:n:n]
		if numbers = numbers[n:]; i == 0 {
			g.GraphOf, g.Graphs = of, graphs
		} else {
			g.Others[i-1].GraphOf = of
		}
	}
	g.Notes = append(g.Notes, fmt.Sprintf("%s, by %q", arrays.Counted(graphs, "graph"), arrays.BatchKey))
	return nil
}
