// Package npz reads the graphs that are published as NumPy archives, in three layouts:
//
//   - sparse adjacency (Shchur et al., "Pitfalls of Graph Neural Network Evaluation", 2018; the Amazon, Coauthor and citation
//     graphs of PyTorch Geometric): adj_{data,indices,indptr,shape}, attr_{data,indices,indptr,shape} or a dense attr_matrix,
//     and labels, all but the first four optional;
//   - heterophilous graphs (Platonov et al., "A critical look at the evaluation of GNNs under heterophily", ICLR 2023):
//     node_features, node_labels, edges [E,2] and {train,val,test}_masks, one row per split;
//   - a plain edge list: edges [E,2] and num_nodes.
//
// Files are untrusted: nothing is allocated for a size that is only claimed, and arrays of Python objects are never read.
package npz

import (
	"fmt"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Read reads the archive of that name. The edges of the first and the third layout stay as they are listed, u→v for an entry at
// row u and column v, and for a pair (u, v); those of the second, where a pair stands once for both directions, lead both
// ways, each once. An adjacency whose values are all one is unweighted. Complaints about the file are refusals that name it and
// the array.
func Read(path string) (*graph.Graph, error) {
	a, err := open(path)
	if err != nil {
		return nil, err
	}
	defer a.close()
	read := a.edgeList
	switch {
	case a.has("adj_data", "adj_indices", "adj_indptr", "adj_shape"):
		read = a.sparseAdjacency
	case a.has("edges", "node_features", "node_labels"):
		read = a.heterophilous
	case a.has("edges", "num_nodes"):
	default:
		return nil, refusal.Errorf("%s: its arrays (%s) have none of the layouts that are read: adj_{data,indices,indptr,shape} with "+
			"attr_{data,indices,indptr,shape} or attr_matrix, and labels; node_features, node_labels, edges and {train,val,test}_masks; "+
			"edges and num_nodes", path, a.keys())
	}
	g, err := read()
	if err != nil {
		return nil, err
	}
	g.Provenance = "npz " + path
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// sparseAdjacency reads the first layout.
func (a *archive) sparseAdjacency() (*graph.Graph, error) {
	adjacency, err := a.csr("adj")
	if err != nil {
		return nil, err
	}
	vertices := adjacency.Rows
	if adjacency.Columns != vertices || vertices == 0 {
		return nil, refusal.Errorf("%s: an adjacency of %d × %d: it must be square, and not empty",
			a.path, vertices, adjacency.Columns)
	}
	e := graph.Edges{Source: make([]int32, 0, len(adjacency.Indices)), Target: adjacency.Indices}
	for u := range vertices {
		for range adjacency.Indptr[u+1] - adjacency.Indptr[u] {
			e.Source = append(e.Source, int32(u))
		}
	}
	for _, w := range adjacency.Data {
		if w != 1 {
			e.Weights = adjacency.Data
			break
		}
	}
	g, err := a.graph(vertices, e)
	if err != nil {
		return nil, err
	}
	switch {
	case a.has("attr_data", "attr_indices", "attr_indptr", "attr_shape"):
		m, err := a.csr("attr")
		if err != nil {
			return nil, err
		}
		if err := a.rows("attr_shape", m.Rows, vertices); err != nil {
			return nil, err
		}
		g.Features = m.Features()
	case a.has("attr_matrix"):
		if g.Features, err = a.dense("attr_matrix", vertices); err != nil {
			return nil, err
		}
	}
	if a.has("labels") {
		if g.Labels, err = a.labels("labels", vertices); err != nil {
			return nil, err
		}
	}
	if g.Names, err = a.names("node_names", vertices); err != nil {
		return nil, err
	}
	g.Labels.Names, err = a.names("class_names", g.Labels.Classes)
	return g, err
}

// heterophilous reads the second layout. Its binary graphs are published as areas under the ROC curve.
func (a *archive) heterophilous() (*graph.Graph, error) {
	features, err := a.array("node_features")
	if err != nil {
		return nil, err
	}
	vertices := 0
	if len(features.Shape) > 0 {
		vertices = features.Shape[0]
	}
	// Labels are read first: rows of features may be empty, and then any number of them takes no bytes.
	labels, err := a.labels("node_labels", vertices)
	if err != nil {
		return nil, err
	}
	if vertices == 0 {
		return nil, refusal.Errorf("%s: array %q has no vertex", a.path, "node_features")
	}
	e, err := a.edges()
	if err != nil {
		return nil, err
	}
	g, err := a.graph(vertices, e)
	if err != nil {
		return nil, err
	}
	g = g.Symmetrize()
	g.Labels = labels
	if g.Features, err = arrays.Dense(features); err != nil {
		return nil, a.refuse("node_features", err)
	}
	if g.Labels.Classes == 2 && !g.Labels.MultiLabel() {
		g.Metric = "roc-auc"
	}
	g.Splits, err = a.splits(vertices)
	return g, err
}

// edgeList reads the third layout.
func (a *archive) edgeList() (*graph.Graph, error) {
	count, err := a.array("num_nodes")
	if err != nil {
		return nil, err
	}
	n, err := count.Int64s()
	if err != nil {
		return nil, a.refuse("num_nodes", err)
	}
	e, err := a.edges()
	if err != nil {
		return nil, err
	}
	if len(n) != 1 || n[0] <= 0 || n[0] > arrays.MaxVertices(e.Len()) {
		return nil, refusal.Errorf("%s: num_nodes is %.60s: it must be one number, from 1 to %d for %d edges",
			a.path, fmt.Sprint(n[:min(len(n), 4)]), arrays.MaxVertices(e.Len()), e.Len())
	}
	return a.graph(int(n[0]), e)
}

// graph makes a graph of edges that the archive lists.
func (a *archive) graph(vertices int, e graph.Edges) (*graph.Graph, error) {
	relation, err := graph.NewRelation(vertices, e)
	if err != nil {
		return nil, refusal.Errorf("%s: %w", a.path, err)
	}
	return &graph.Graph{Relation: relation}, nil
}

// edges reads the pairs of the array "edges".
func (a *archive) edges() (graph.Edges, error) {
	array, err := a.array("edges")
	if err != nil {
		return graph.Edges{}, err
	}
	if len(array.Shape) != 2 || array.Shape[1] != 2 {
		return graph.Edges{}, refusal.Errorf("%s: array %q has shape %v: it must be E × 2, source and target",
			a.path, "edges", array.Shape)
	}
	pairs, err := array.Int32s()
	if err != nil {
		return graph.Edges{}, a.refuse("edges", err)
	}
	e := graph.Edges{Source: make([]int32, len(pairs)/2), Target: make([]int32, len(pairs)/2)}
	for k := range e.Source {
		e.Source[k], e.Target[k] = pairs[2*k], pairs[2*k+1]
	}
	return e, nil
}

// csr reads the sparse matrix of four arrays.
func (a *archive) csr(prefix string) (*arrays.CSR, error) {
	shape, err := a.array(prefix + "_shape")
	if err != nil {
		return nil, err
	}
	dims, err := shape.Int64s()
	if err != nil {
		return nil, a.refuse(prefix+"_shape", err)
	}
	if len(dims) != 2 {
		return nil, refusal.Errorf("%s: array %q has %d values: a matrix has two dimensions", a.path, prefix+"_shape", len(dims))
	}
	var parts [3]*npy.Array
	for i, part := range []string{"_indptr", "_indices", "_data"} {
		if parts[i], err = a.array(prefix + part); err != nil {
			return nil, err
		}
	}
	m, err := arrays.NewCSR(dims[0], dims[1], parts[0], parts[1], parts[2])
	if err != nil {
		return nil, refusal.Errorf("%s: arrays %q: %w", a.path, prefix+"_…", err)
	}
	return m, nil
}

func (a *archive) dense(key string, vertices int) (graph.Features, error) {
	array, err := a.array(key)
	if err != nil {
		return graph.Features{}, err
	}
	f, err := arrays.Dense(array)
	if err != nil {
		return f, a.refuse(key, err)
	}
	return f, a.rows(key, array.Shape[0], vertices)
}

func (a *archive) labels(key string, vertices int) (graph.Labels, error) {
	array, err := a.array(key)
	if err != nil {
		return graph.Labels{}, err
	}
	l, err := arrays.Labels(array)
	if err != nil {
		return l, a.refuse(key, err)
	}
	return l, a.rows(key, array.Shape[0], vertices)
}

// rows refuses an array with another number of rows than it must have.
func (a *archive) rows(key string, rows, want int) error {
	if rows != want {
		return refusal.Errorf("%s: array %q has %d rows, not %d", a.path, key, rows, want)
	}
	return nil
}

// names reads an optional vector of text. Where NumPy stored numbers, or Python objects, which are pickles, there are no names:
// nothing depends on them.
func (a *archive) names(key string, want int) ([]string, error) {
	if !a.has(key) || want == 0 {
		return nil, nil
	}
	r, err := a.entries[key].Open()
	if err != nil {
		return nil, a.refuse(key, err)
	}
	defer r.Close()
	h, err := npy.ReadHeader(r)
	if err != nil || len(h.Shape) != 1 || !strings.ContainsAny(h.Descr, "SU") {
		return nil, nil
	}
	if err := a.rows(key, h.Shape[0], want); err != nil {
		return nil, err
	}
	array, err := a.array(key)
	if err != nil {
		return nil, err
	}
	names, err := array.Strings()
	if err != nil {
		return nil, a.refuse(key, err)
	}
	return names, nil
}

// splits reads the masks: V truth values, or one row of them per split.
func (a *archive) splits(vertices int) ([]graph.Split, error) {
	keys := []string{"train_masks", "val_masks", "test_masks"}
	if !a.has(keys...) {
		return nil, nil
	}
	var splits []graph.Split
	for part, key := range keys {
		array, err := a.array(key)
		if err != nil {
			return nil, err
		}
		rows, columns := 1, 0
		switch len(array.Shape) {
		case 1:
			columns = array.Shape[0]
		case 2:
			rows, columns = array.Shape[0], array.Shape[1]
		}
		if columns != vertices || part > 0 && rows != len(splits) {
			return nil, refusal.Errorf("%s: array %q has shape %v: each mask has a row per split, with %d values",
				a.path, key, array.Shape, vertices)
		}
		marks, err := array.Bools()
		if err != nil {
			return nil, a.refuse(key, err)
		}
		if part == 0 {
			splits = make([]graph.Split, rows)
		}
		for k := range splits {
			ids := arrays.Marked(marks[k*vertices : (k+1)*vertices])
			switch part {
			case 0:
				splits[k].Train = ids
			case 1:
				splits[k].Val = ids
			case 2:
				splits[k].Test = ids
			}
		}
	}
	return splits, nil
}
