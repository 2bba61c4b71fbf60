package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"weft/internal/refusal"
)

// flaw is an inconsistency in the array that is stored in that file.
type flaw struct{ file, reason string }

func (f flaw) Error() string { return strings.TrimSuffix(f.file, ".npy") + ": " + f.reason }

func flawf(file, format string, args ...any) error { return flaw{file, fmt.Sprintf(format, args...)} }

// depth says how much is checked.
type depth int

const (
	// indices checks what leads to elements of arrays: counts, ids and their order, classes, splits. It is
	// checked whenever a graph is opened, so that no disk that changes them makes a kernel leave an array.
	indices depth = iota
	// everything checks indices, and the values of features, weights and labels.
	everything
	// announced checks everything but edges, and but dense features and labels of classes that are not there
	// yet.
	announced
)

// Check reports the first inconsistency of a graph as a refusal that names the array. A graph that passes
// keeps every kernel within its arrays: counts agree, ids are in range and ascend, features and weights are
// finite, classes exist, and the parts of a split are disjoint and labelled. It takes one pass over the
// arrays and allocates nothing.
func (g *Graph) Check() error {
	if err := g.check(everything); err != nil {
		return refusal.Errorf("%w", err)
	}
	return nil
}

// CheckAnnounced refuses an inconsistent graph whose edges and dense features, or labels of classes, come
// later.
func (g *Graph) CheckAnnounced() error {
	if err := g.check(announced); err != nil {
		return refusal.Errorf("%w", err)
	}
	return nil
}

func (g *Graph) check(d depth) error {
	var whole []int
	for _, t := range g.Types {
		whole = append(whole, t.Count)
	}
	return g.checkWithin(whole, d)
}

// checkWithin checks a graph whose in-neighbours are numbered over a whole, which has so many vertices of
// each type.
func (g *Graph) checkWithin(whole []int, d depth) error {
	if err := g.CheckLists(); err != nil {
		return flaw{descriptionFile, err.Error()}
	}
	if err := checkVertexCount(g.Vertices()); err != nil {
		return flaw{indptrFile, err.Error()}
	}
	if err := checkMetric(g.Metric); err != nil {
		return err
	}
	types := g.Types
	if g.Typed() {
		if err := describe(g).check(whole); err != nil {
			return flaw{descriptionFile, err.Error()}
		}
	} else {
		_, name, _ := g.Relations[0].Ends()
		if err := cmp.Or(checkName("type", types[0].Name()), checkName("relation", name)); err != nil {
			return flaw{descriptionFile, err.Error()}
		}
	}
	for i := range types {
		if err := types[i].check(d); err != nil {
			return inFolder(g.layout().vertices(types[i].Name()), err)
		}
	}
	for i := range g.Relations {
		r := &g.Relations[i]
		s, t, err := g.Joins(r)
		if err != nil {
			return err
		}
		if err := r.checkOfEdges(); err != nil {
			return inFolder(g.layout().edges(r.Ends()), err)
		}
		if d != announced {
			err = r.check(inEdges, types[t].Count, whole[s], d, g.Unload)
		}
		if err == nil {
			err = r.EdgeSplit.check(whole[s], types[t].Count)
		}
		if err == nil {
			err = r.checkLabels(len(r.Sources), d)
		}
		if err != nil {
			return inFolder(g.layout().edges(r.Ends()), err)
		}
	}
	if err := g.checkEdgeSplits(); err != nil {
		return err
	}
	if err := g.checkGraphs(d); err != nil {
		return err
	}
	err := g.Types[0].Labels.check(types[0].Count, maxClasses(whole[0]), d)
	if err == nil { // splits are compared with the labels
		err = types[0].checkSplits(types[0].Count)
	}
	return inFolder(g.layout().vertices(types[0].Name()), err)
}

// CheckLists refuses a graph that lists no vertex type or no relation.
func (g *Graph) CheckLists() error {
	if len(g.Types) > 0 && len(g.Relations) > 0 {
		return nil
	}
	return refusal.Errorf("the graph has %d vertex types and %d relations, and needs one of each; a relation "+
		"may have no edges", len(g.Types), len(g.Relations))
}

// Joins returns the numbers of the vertex types that a relation joins.
func (g *Graph) Joins(r *Relation) (source, target int, err error) {
	types := g.Types
	from, name, to := r.Ends()
	at := func(name string) int {
		return slices.IndexFunc(types, func(t VertexType) bool { return t.Name() == name })
	}
	source, target = at(from), at(to)
	if source < 0 || target < 0 {
		return 0, 0, flawf(descriptionFile, "relation %q joins %q to %q, which are not both among the "+
			"vertex types", name, from, to)
	}
	return source, target, nil
}

// inFolder adds to a flaw that it is in a directory below the store's.
func inFolder(dir string, err error) error {
	var f flaw
	if !errors.As(err, &f) {
		return err
	}
	f.file = filepath.Join(dir, f.file)
	return f
}

// check checks what every vertex type may have.
func (t *VertexType) check(d depth) error {
	if t.Names != nil && len(t.Names) != t.Count {
		return flawf(namesFile, "%d names for %d vertices", len(t.Names), t.Count)
	}
	if t.Table != nil {
		if err := t.Table.Columns.Check(t.Features.Columns); err != nil {
			return flawf(descriptionFile, "%v", err)
		}
	}
	if err := checkArrays(t.Arrays, t.Count); err != nil {
		return err
	}
	return t.Features.check(t.Count, d)
}

// checkVertexCount refuses more vertices than have ids in the int32 of the stored in-neighbours.
func checkVertexCount(vertices int) error {
	if vertices < 0 {
		return refusal.Errorf("%d vertices", vertices)
	}
	if vertices > math.MaxInt32 {
		return refusal.Errorf("%d vertices, where at most %d can be numbered in 32 bits",
			vertices, math.MaxInt32)
	}
	return nil
}

// check checks rows for so many vertices, whose other ends are numbered over whole vertices. Errors name the
// files. unload gives back the pages of mapped files now and then.
func (r *Relation) check(files relationFiles, vertices, whole int, d depth, unload func()) error {
	if err := checkIndptr(files.indptr, r.Indptr, vertices, len(r.Sources)); err != nil {
		return err
	}
	return r.checkRows(files, 0, 0, whole, d, unload)
}

// checkRows checks the rows of a batch. vertex and edge are the numbers of its first vertex and edge.
func (r *Relation) checkRows(files relationFiles, vertex int, edge int64, whole int, d depth,
	unload func(),
) error {
	checked, edges := int64(0), len(r.Sources)
	for v := range r.rows() {
		if r.Indptr[v]-checked > passedEdges {
			unload()
			checked = r.Indptr[v]
		}
		if err := checkRow(files, vertex+v, r.Sources[r.Indptr[v]:r.Indptr[v+1]], whole); err != nil {
			return err
		}
	}
	if r.Weights != nil && len(r.Weights) != edges {
		return flawf(files.weights, "%d weights for %d edges", len(r.Weights), edges)
	}
	if r.Features.Columns > math.MaxInt32 || !fills(len(r.Features.Dense), edges, r.Features.Columns) {
		return flawf(files.features, "%d values for %d edges × %d columns", len(r.Features.Dense),
			edges, r.Features.Columns)
	}
	if r.NumberColumns != nil {
		numbers := r.Features.Columns
		if r.Weights != nil {
			numbers++
		}
		if err := r.NumberColumns.Check(numbers); err != nil {
			return flawf(descriptionFile, "%v", err)
		}
	}
	if d == indices {
		return nil
	}
	if k := NotFinite(r.Weights); k >= 0 {
		return flawf(files.weights, "the weight of edge %d is %v", edge+int64(k), r.Weights[k])
	}
	if k := NotFinite(r.Features.Dense); k >= 0 {
		return flawf(files.features, "edge %d has the value %v in column %d",
			edge+int64(k/r.Features.Columns), r.Features.Dense[k], k%r.Features.Columns)
	}
	return nil
}

// checkRow checks the neighbours of vertex v, which are numbered over whole vertices.
func checkRow(files relationFiles, v int, neighbours []int32, whole int) error {
	if !ascend(neighbours, int32(whole)) {
		k := firstMisplaced(neighbours, int32(whole), 0)
		return flawf(files.indices, "%s of vertex %d: %s", files.neighbours, v,
			misplaced(neighbours, k, int32(whole)))
	}
	return nil
}

func (f *Features) check(vertices int, d depth) error {
	switch {
	case f.Columns < 0 || f.Columns > math.MaxInt32:
		return flawf(featuresFile, "%d columns", f.Columns)
	case f.Dense != nil && (f.Sparse() || f.Indices != nil || f.Data != nil):
		return flawf(featuresFile, "the features are both dense and sparse")
	case d == announced && f.Dense == nil && !f.Sparse():
		return nil
	case !f.Sparse():
		if !fills(len(f.Dense), vertices, f.Columns) {
			return flawf(featuresFile, "%d values for %d vertices × %d columns", len(f.Dense),
				vertices, f.Columns)
		}
		if d == indices {
			return nil
		}
		return checkFeatureRows(0, f.Dense, f.Columns)
	case f.Columns == 0:
		return flawf(featuresIndicesFile, "sparse features without columns")
	}
	if err := checkIndptr(featuresIndptrFile, f.Indptr, vertices, len(f.Indices)); err != nil {
		return err
	}
	for v := range vertices {
		row := f.Indices[f.Indptr[v]:f.Indptr[v+1]]
		if k := firstMisplaced(row, int32(f.Columns), 1); k >= 0 {
			return flawf(featuresIndicesFile, "columns of vertex %d: %s", v,
				misplaced(row, k, int32(f.Columns)))
		}
	}
	if len(f.Data) != len(f.Indices) {
		return flawf(featuresDataFile, "%d values for %d columns stored", len(f.Data), len(f.Indices))
	}
	if d == indices {
		return nil
	}
	if k := NotFinite(f.Data); k >= 0 {
		return flawf(featuresDataFile, "stored value %d is %v", k, f.Data[k])
	}
	return nil
}

// checkFeatureRows checks rows of dense features. The first row belongs to vertex first.
func checkFeatureRows(first int, rows []float32, columns int) error {
	if k := NotFinite(rows); k >= 0 {
		return flawf(featuresFile, "vertex %d has the value %v in column %d", first+k/columns,
			rows[k], k%columns)
	}
	return nil
}
