// Package npz reads the graphs that are published as NumPy archives, in four layouts:
//
//   - sparse adjacency (Shchur et al., "Pitfalls of Graph Neural Network Evaluation", 2018; the Amazon,
//     Coauthor and citation graphs of PyTorch Geometric): adj_{data,indices,indptr,shape},
//     attr_{data,indices,indptr,shape} or a dense attr_matrix, and labels, all but the first four optional;
//   - heterophilous graphs (Platonov et al., "A critical look at the evaluation of GNNs under heterophily",
//     ICLR 2023): node_features, node_labels, edges [E,2] and {train,val,test}_masks, one row per split;
//   - the fields of a Data object of PyTorch Geometric: edge_index [2,E] and, where there are, edge_weight,
//     edge_attr, num_nodes, x, y, {train,val,test}_mask, of V values or V × splits, and batch, the number of
//     each vertex' graph, where several graphs are one;
//     and for link prediction {train,val,test}_edges [N,2] with {val,test}_negatives [M,2] or
//     {val,test}_negative_targets [N,M];
//   - a plain edge list: edges [E,2] and num_nodes, and the same beside them.
//
// Files are untrusted: nothing is allocated for a size that is only claimed, and arrays of Python objects are
// never read.
package npz

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Options say how an archive is read.
type Options struct {
	// AsListed keeps the edges of every layout as they are listed.
	AsListed bool
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
}

// archive is an open file and how it is read.
type archive struct {
	*arrays.Archive
	arrays.Fields // of the archive
	options       Options
}

// The arrays of the first layout that belong together, and those that are known and not read: what columns
// are called, and where the graph is from.
var (
	adjacency  = [...]string{"adj_data", "adj_indices", "adj_indptr", "adj_shape"}
	attributes = [...]string{"attr_data", "attr_indices", "attr_indptr", "attr_shape"}
	unread     = [...]string{"attr_names", "metadata", "idx_to_node", "idx_to_attr", "idx_to_class"}
)

// maskKeys are the names of the masks in the second layout.
var maskKeys = [3]string{"train_masks", "val_masks", "test_masks"}

// Read reads the archive of that name. The edges of all layouts but the second stay as they are listed, u→v
// for an entry at row u and column v, and for a pair (u, v). Those of the second lead both ways, each once,
// as a pair is published once for both directions; they too stay as they are listed in a file whose name ends
// in _directed, and with AsListed. The graph's Notes say which it was. An adjacency whose values are all one
// is unweighted. Complaints about the file are refusals that name it and the array.
func Read(path string, o Options) (*graph.Graph, error) {
	file, err := arrays.OpenArchive(path)
	if parts := strings.Split(filepath.Base(path), "."); err != nil && parts[0] == "ind" && len(parts) > 1 { // ind.NAME.x
		return nil, refusal.Errorf("%w; weft import planetoid reads the files of Planetoid, by the prefix %s", err,
			filepath.Join(filepath.Dir(path), "ind."+parts[1]))
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	a := &archive{file, arrays.Fields{Source: file}, o}
	sparse, err := a.Group(adjacency[:]...)
	if err != nil {
		return nil, err
	}
	read := a.plain
	switch {
	case sparse:
		read = a.sparseAdjacency
	case a.Has("edges", "node_features", "node_labels"):
		read = a.heterophilous
	case a.Has("edge_index"), a.Has("edges", "num_nodes"):
	default:
		if a.isMatrix() {
			return nil, refusal.Errorf("%s: is a sparse matrix of scipy.sparse.save_npz, and no graph: give it as %s of import edges, "+
				"or save an adjacency under the names adj_{data,indices,indptr,shape}", path, refusal.Setting("features"))
		}
		if err := a.CheckObjects(); err != nil {
			return nil, err
		}
		return nil, refusal.Errorf("%s: its arrays (%s) have none of the layouts that are read: adj_{data,indices,indptr,shape} with "+
			"attr_{data,indices,indptr,shape} or attr_matrix, and labels; node_features, node_labels, edges and {train,val,test}_masks; "+
			"edge_index, x, y and {train,val,test}_mask; edges and num_nodes", path, a.Keys())
	}
	g, err := read()
	if err != nil {
		return nil, err
	}
	g.Provenance = "npz " + path
	if others := a.Others(); len(others) > 0 {
		g.Warnings = append(g.Warnings, fmt.Sprintf("%s: not read, as they are no arrays (.npy): %s", path, arrays.Listed(others)))
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// sparseAdjacency reads the first layout.
func (a *archive) sparseAdjacency() (*graph.Graph, error) {
	attributed, err := a.checkSparse()
	if err != nil {
		return nil, err
	}
	m, err := a.sparse("adj_", csr)
	if err != nil {
		return nil, err
	}
	vertices := m.Rows
	if m.Columns != vertices || vertices == 0 {
		return nil, refusal.Errorf("%s: an adjacency of %d × %d: it must be square, and not empty",
			a.Path, vertices, m.Columns)
	}
	e, err := m.Edges()
	if err != nil {
		return nil, refusal.Errorf("%s: %w", a.Path, err)
	}
	g, err := a.graph(vertices, e)
	if err != nil {
		return nil, err
	}
	switch {
	case attributed:
		m, err := a.sparse("attr_", csr)
		if err != nil {
			return nil, err
		}
		if err := a.Rows("attr_shape", m.Rows, vertices); err != nil {
			return nil, err
		}
		if g.Features, err = m.Features(); err != nil {
			return nil, a.Refuse("attr_indices", err)
		}
	case a.Has("attr_matrix"):
		if err = a.features(g, "attr_matrix"); err != nil {
			return nil, err
		}
	}
	if a.Has("labels") {
		if g.Labels, err = a.Labels("labels", vertices); err != nil {
			return nil, err
		}
	} else {
		g.Notes = append(g.Notes, `no "labels": the vertices cannot be classified`)
	}
	if g.Names, err = a.names(g, "node_names", vertices); err != nil {
		return nil, err
	}
	if g.Labels.Names, err = a.names(g, "class_names", g.Labels.Classes); err != nil {
		return nil, err
	}
	for _, key := range unread {
		if a.Has(key) {
			g.Notes = append(g.Notes, fmt.Sprintf("left out: %q", key))
		}
	}
	return g, nil
}

// checkSparse refuses arrays that the first layout does not have, and those without the others of their
// group, and reports whether there are sparse attributes.
func (a *archive) checkSparse() (attributed bool, err error) {
	known := slices.Concat(adjacency[:], attributes[:], []string{"attr_matrix", "labels", "node_names", "class_names"}, unread[:])
	if err := a.Only(known...); err != nil {
		return false, err
	}
	if attributed, err = a.Group(attributes[:]...); err != nil {
		return false, err
	}
	if attributed && a.Has("attr_matrix") {
		return false, refusal.Errorf("%s: has features twice, as attr_data and as attr_matrix: leave one out", a.Path)
	}
	if a.Has("class_names") && !a.Has("labels") {
		return false, refusal.Errorf("%s: has the array \"class_names\" without \"labels\": fetch or save the file again", a.Path)
	}
	return attributed, nil
}

// namedDirected reports whether the name of the file says that a pair is one edge, as of
// chameleon_filtered_directed.npz.
func (a *archive) namedDirected() bool {
	return strings.HasSuffix(strings.TrimSuffix(filepath.Base(a.Path), ".npz"), "_directed")
}

// heterophilous reads the second layout. Its binary graphs are published as areas under the ROC curve.
func (a *archive) heterophilous() (*graph.Graph, error) {
	if err := a.Only(append([]string{"node_features", "node_labels", "edges"}, maskKeys[:]...)...); err != nil {
		return nil, err
	}
	divided, err := a.Group(maskKeys[:]...)
	if err != nil {
		return nil, err
	}
	features, err := a.Matrix("node_features", a.options.DenseFeatures)
	if err != nil {
		return nil, err
	}
	vertices := features.Rows
	// Labels are read first: rows of features may be empty, and then any number of them takes no bytes.
	labels, err := a.Labels("node_labels", vertices)
	if err != nil {
		return nil, err
	}
	if vertices == 0 {
		return nil, refusal.Errorf("%s: array %q has no vertex", a.Path, "node_features")
	}
	e, err := a.edges("edges")
	if err != nil {
		return nil, err
	}
	g, err := a.graph(vertices, e)
	if err != nil {
		return nil, err
	}
	switch {
	case a.options.AsListed:
	case a.namedDirected():
		g.Notes = []string{fmt.Sprintf("%d edges stay directed, as the file's name says", e.Len())}
	default:
		g.Notes = nil
		if g, err = g.Symmetrize(); err != nil {
			return nil, refusal.Errorf("%s: %w", a.Path, err)
		}
	}
	g.Labels = labels
	features.Of(g)
	if g.Labels.Classes == 2 && !g.Labels.MultiLabel() {
		g.Metric = "roc-auc"
	}
	if divided {
		g.Splits, err = a.Splits(maskKeys, vertices, &g.Labels, masks)
	}
	return g, err
}

// plain reads the layouts whose edges are a list and whose other arrays have the names of PyTorch Geometric.
func (a *archive) plain() (*graph.Graph, error) {
	key := "edges"
	if a.Has("edge_index") {
		key = "edge_index"
	}
	if err := a.Only(append([]string{key, "edge_weight", "edge_attr", "num_nodes", "x", "y", arrays.BatchKey}, slices.Concat(arrays.MaskKeys[:], arrays.EdgeSplitKeys)...)...); err != nil {
		return nil, err
	}
	e, err := a.edges(key)
	if err != nil {
		return nil, err
	}
	if a.Has("edge_weight") {
		if e.Weights, err = a.Weights(e.Len()); err != nil {
			return nil, err
		}
	}
	if a.Has("edge_attr") {
		if err := a.EdgeFeatures(&e); err != nil {
			return nil, err
		}
	}
	vertices, err := a.vertices(&e)
	if err != nil {
		return nil, err
	}
	g, err := a.graph(vertices, e)
	if err != nil {
		return nil, err
	}
	if err := a.Graphs(g, vertices); err != nil {
		return nil, err
	}
	if g.Relations[0].EdgeSplit, err = a.EdgeSplit(); err != nil {
		return nil, err
	}
	if a.Has("x") {
		if err = a.features(g, "x"); err != nil {
			return nil, err
		}
	}
	if a.Has("y") {
		if g.Labels, err = a.Labels("y", vertices); err != nil {
			return nil, err
		}
	}
	g.Splits, err = a.Splits(arrays.MaskKeys, vertices, &g.Labels, arrays.Masks)
	return g, err
}

// vertices returns V: what the arrays say, else the largest id plus one.
func (a *archive) vertices(e *graph.Edges) (int, error) {
	if n, err := a.Vertices(e.Len()); n > 0 || err != nil {
		return n, err
	}
	largest := e.Largest()
	if largest < 0 || int64(largest) >= arrays.MaxVertices(e.Len()) {
		return 0, refusal.Errorf("%s: the largest id of %d edges is %d: give the number of vertices as num_nodes", a.Path, e.Len(), largest)
	}
	return int(largest) + 1, nil
}

// graph makes a graph of edges that the archive lists.
func (a *archive) graph(vertices int, e graph.Edges) (*graph.Graph, error) {
	relation, err := graph.NewRelation(vertices, e)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", a.Path, err)
	}
	return &graph.Graph{Relations: []graph.Relation{relation}, Notes: []string{fmt.Sprintf("%d edges, as the file lists them", e.Len())}}, nil
}

// edges reads the pairs of an array, E × 2 or, as PyTorch Geometric has them, 2 × E.
func (a *archive) edges(key string) (graph.Edges, error) {
	if key == "edge_index" {
		return a.EdgeIndex()
	}
	array, err := a.Array(key)
	if err != nil {
		return graph.Edges{}, err
	}
	if len(array.Shape) != 2 || array.Shape[1] != 2 {
		return graph.Edges{}, a.Refuse(key, refusal.Errorf("has shape %v: it must be E × 2, source and target", array.Shape))
	}
	ids, err := array.Int32s()
	if err != nil {
		return graph.Edges{}, a.Refuse(key, err)
	}
	n := len(ids) / 2
	if err := memory.Need(2 * 4 * int64(n)); err != nil {
		return graph.Edges{}, a.Refuse(key, err)
	}
	e := graph.Edges{Source: make([]int32, n), Target: make([]int32, n)}
	for k := range e.Source {
		e.Source[k], e.Target[k] = ids[2*k], ids[2*k+1]
	}
	return e, nil
}

// features reads the features of a graph whose vertices are known.
func (a *archive) features(g *graph.Graph, key string) error {
	m, err := a.Features(key, g.Vertices(), a.options.DenseFeatures)
	if err != nil {
		return err
	}
	m.Of(g)
	return nil
}

// names reads an optional vector of text. Where NumPy stored numbers, or Python objects, which are pickles,
// there are no names, and a note says so: nothing depends on them.
func (a *archive) names(g *graph.Graph, key string, want int) ([]string, error) {
	if !a.Has(key) {
		return nil, nil
	}
	h, err := a.Header(key)
	switch {
	case errors.Is(err, npy.ErrObjects):
		g.Notes = append(g.Notes, fmt.Sprintf("left out: %q, which holds Python objects", key))
		return nil, nil
	case err != nil:
		return nil, err
	case len(h.Shape) != 1 || !strings.ContainsAny(h.Descr, "SU"):
		g.Notes = append(g.Notes, fmt.Sprintf("left out: %q, which is no vector of text", key))
		return nil, nil
	}
	if err := a.Rows(key, h.Shape[0], want); err != nil {
		return nil, err
	}
	array, err := a.Array(key)
	if err != nil {
		return nil, err
	}
	names, err := array.Strings()
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return nil, refusal.Errorf("%s: array %q: the name %.40q is not UTF-8: save it as text", a.Path, key, name)
		}
	}
	return names, nil
}

// masks takes V truth values apart, or one row of them per split. It returns the vertices of each split.
func masks(array *npy.Array, vertices int) ([][]int64, error) {
	rows, columns := 1, 0
	switch len(array.Shape) {
	case 1:
		columns = array.Shape[0]
	case 2:
		rows, columns = array.Shape[0], array.Shape[1]
	}
	if columns != vertices {
		return nil, refusal.Errorf("has shape %v: each mask has a row per split, with %d values", array.Shape, vertices)
	}
	marks, err := array.Bools()
	if err != nil {
		return nil, err
	}
	if err := arrays.CheckSplits(rows); err != nil {
		return nil, err
	}
	ids := make([][]int64, rows)
	for k := range ids {
		if ids[k], err = arrays.Marked(marks[k*vertices : (k+1)*vertices]); err != nil {
			return nil, err
		}
	}
	return ids, nil
}
