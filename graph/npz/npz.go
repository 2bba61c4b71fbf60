// Package npz reads the graphs that are published as NumPy archives, in four layouts:
//
//   - sparse adjacency (Shchur et al., "Pitfalls of Graph Neural Network Evaluation", 2018; the Amazon,
//     Coauthor and citation graphs of PyTorch Geometric): adj_{data,indices,indptr,shape},
//     attr_{data,indices,indptr,shape} or a dense attr_matrix, and labels, all but the first four optional;
//   - heterophilous graphs (Platonov et al., "A critical look at the evaluation of GNNs under heterophily",
//     ICLR 2023): node_features, node_labels, edges [E,2] and {train,val,test}_masks, one row per split;
//   - the fields of a Data object of PyTorch Geometric: edge_index [2,E] and, where there are, edge_weight,
//     edge_attr, num_nodes, x, y, class_names, the names of the classes, {train,val,test}_mask, of V values
//     or V × splits, and batch, the number of each vertex' graph, where several graphs are one;
//     and labels of edges: edge_y, edge_class_names and edge_{train,val,test}_mask, as those of vertices;
//     and for link prediction {train,val,test}_edges [N,2] with {val,test}_negatives [M,2] or
//     {val,test}_negative_targets [N,M];
//   - a plain edge list: edges [E,2] and num_nodes, and the same beside them;
//   - those fields of each type of a typed graph: vertex_types and edge_types list the types, and the fields
//     have the path vertices/TYPE or edges/SOURCE__RELATION__TARGET before their names.
//
// A folder of .npy files is read as an archive of them is: in blocks, without a copy or a checksum.
//
// Files are untrusted: nothing is allocated for a size that is only claimed, and arrays of Python objects are
// never read.
//
// The command import npz reads archives by it.
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
	"weft/graph/streamed"
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
	// DivideEdges is Divide of streamed.Frame, for labels of edges.
	DivideEdges func(*graph.Frame) error
}

// archive is an open file and how it is read.
type archive struct {
	*arrays.Archive
	options Options
}

// The arrays of the first layout that belong together, and arrays that are known and not read: names of
// columns, and where the graph comes from.
var (
	adjacency  = [...]string{"adj_data", "adj_indices", "adj_indptr", "adj_shape"}
	attributes = [...]string{"attr_data", "attr_indices", "attr_indptr", "attr_shape"}
	unread     = [...]string{"attr_names", "metadata", "idx_to_node", "idx_to_attr", "idx_to_class"}
)

// classNamesKey is the name of the names of classes.
const classNamesKey = "class_names"

// maskKeys are the names of the masks in the second layout.
var maskKeys = [3]string{"train_masks", "val_masks", "test_masks"}

// Open opens the archive of that name, to be read or written in a stream, until it is closed. The edges of
// all layouts but the second stay as they are listed, u→v for an entry at row u and column v, and for a pair
// (u, v). In the second layout a pair is published once for both directions, so its edges lead both ways,
// each once; they stay as they are listed if the file's name ends in _directed, and with AsListed. The
// graph's Notes say which it was. An adjacency whose values are all one is unweighted. Complaints about the
// file are refusals that name it and the array.
func Open(path string, o Options) (*streamed.Graph, error) {
	a, err := openArchive(path, o)
	if err != nil {
		return nil, err
	}
	return streamed.Opened(a.open, a.Close)
}

func openArchive(path string, o Options) (*archive, error) {
	file, err := arrays.OpenArchive(path)
	// ind.NAME.x
	if parts := strings.Split(filepath.Base(path), "."); err != nil && parts[0] == "ind" && len(parts) > 1 {
		return nil, refusal.Errorf("%w; weft import planetoid reads the files of Planetoid, by the prefix %s",
			err, filepath.Join(filepath.Dir(path), "ind."+parts[1]))
	}
	if err != nil {
		return nil, err
	}
	return &archive{file, o}, nil
}

// open opens the graph in the layout that the archive has.
func (a *archive) open() (*streamed.Graph, error) {
	sparse, err := a.Group(adjacency[:]...)
	if err != nil {
		return nil, err
	}
	open := a.fields
	switch {
	case a.isTyped():
	case sparse:
		open = a.sparseAdjacency
	case a.Has("edges", "node_features", "node_labels"):
		open = a.heterophilous
	case a.Has(arrays.EdgeIndexKey), a.Has("edges", "num_nodes"):
	default:
		if isMatrix(a.Archive) {
			return nil, refusal.Errorf("%s: is a sparse matrix of scipy.sparse.save_npz, and no graph: "+
				"give it as --features of import edges, or save an adjacency under the names "+
				"adj_{data,indices,indptr,shape}", a.Path)
		}
		if err := a.CheckObjects(); err != nil {
			return nil, err
		}
		return nil, refusal.Errorf("%s: its arrays (%s) have none of the layouts that are read: "+
			"adj_{data,indices,indptr,shape} with attr_{data,indices,indptr,shape} or attr_matrix, and "+
			"labels; node_features, node_labels, edges and {train,val,test}_masks; edge_index, x, y and "+
			"{train,val,test}_mask; edges and num_nodes; vertex_types and edge_types with the same "+
			"of each type", a.Path, a.Keys())
	}
	g, err := open()
	if err != nil {
		return nil, err
	}
	g.InMemory.Provenance = "npz " + a.Path
	if others := a.Others(); len(others) > 0 {
		g.InMemory.Warnings = append(g.InMemory.Warnings,
			fmt.Sprintf("%s: not read, as they are no arrays (.npy): %s", a.Path, arrays.Listed(others)))
	}
	return g, nil
}

// sparseAdjacency opens the first layout.
func (a *archive) sparseAdjacency() (*streamed.Graph, error) {
	attributed, err := a.checkSparse()
	if err != nil {
		return nil, err
	}
	rows, columns, err := readShape(a.Archive, "adj_")
	if err != nil {
		return nil, err
	}
	e, err := a.CSREdges(rows, columns, [3]string{"adj_indptr", "adj_indices", "adj_data"},
		func(err error) error { return refuseMatrix(a.Archive, "adj_", err) })
	if err != nil {
		return nil, err
	}
	if columns != rows || rows == 0 {
		return nil, refusal.Errorf("%s: an adjacency of %d × %d: it must be square, and not empty",
			a.Path, rows, columns)
	}
	vertices := int(rows)
	g := a.graph(vertices, e)
	mem := g.InMemory
	features := &arrays.Matrix{}
	switch {
	case attributed:
		features, err = readSparseFeatures(a.Archive, "attr_", vertices)
	case a.Has("attr_matrix"):
		features, err = a.Features("attr_matrix", vertices, a.options.DenseFeatures)
	}
	if err != nil {
		return nil, err
	}
	features.Give(g, 0)
	if a.Has("labels") {
		if mem.Types[0].Labels, err = a.Labels("labels", vertices, graph.VertexNoun); err != nil {
			return nil, err
		}
	} else {
		mem.Notes = append(mem.Notes, `no "labels": the vertices cannot be classified`)
	}
	if mem.Types[0].Names, err = a.names(mem, "node_names", vertices); err != nil {
		return nil, err
	}
	if mem.Types[0].Labels.Names, err = a.names(mem, classNamesKey, mem.Types[0].Labels.Classes); err != nil {
		return nil, err
	}
	for _, key := range unread {
		if a.Has(key) {
			mem.Notes = append(mem.Notes, fmt.Sprintf("left out: %q", key))
		}
	}
	return g, nil
}

// checkSparse refuses arrays that the first layout does not have, and arrays without the others of their
// group. It reports whether there are sparse attributes.
func (a *archive) checkSparse() (attributed bool, err error) {
	known := slices.Concat(adjacency[:], attributes[:],
		[]string{"attr_matrix", "labels", "node_names", classNamesKey}, unread[:])
	if err := a.Only(known...); err != nil {
		return false, err
	}
	if attributed, err = a.Group(attributes[:]...); err != nil {
		return false, err
	}
	if attributed && a.Has("attr_matrix") {
		return false, refusal.Errorf("%s: has features twice, as attr_data and as attr_matrix: leave one out",
			a.Path)
	}
	if a.Has(classNamesKey) && !a.Has("labels") {
		return false, refusal.Errorf("%s: has the array \"class_names\" without \"labels\": fetch or save "+
			"the file again", a.Path)
	}
	return attributed, nil
}

// namedDirected reports whether the name of the file says that a pair is one edge, as of
// chameleon_filtered_directed.npz.
func (a *archive) namedDirected() bool {
	return strings.HasSuffix(strings.TrimSuffix(filepath.Base(a.Path), ".npz"), "_directed")
}

// heterophilous opens the second layout. Results on its graphs with two classes are published as the area
// under the ROC curve.
func (a *archive) heterophilous() (*streamed.Graph, error) {
	if err := a.Only(append([]string{"node_features", "node_labels", "edges"},
		maskKeys[:]...)...); err != nil {
		return nil, err
	}
	divided, err := a.Group(maskKeys[:]...)
	if err != nil {
		return nil, err
	}
	features, err := a.Features("node_features", arrays.AnyRows, a.options.DenseFeatures)
	if err != nil {
		return nil, err
	}
	vertices := features.Rows
	// Labels are read first: rows of features may be empty, and any number of empty rows takes no bytes.
	labels, err := a.Labels("node_labels", vertices, graph.VertexNoun)
	if err != nil {
		return nil, err
	}
	if vertices == 0 {
		return nil, refusal.Errorf("%s: array %q has no vertex", a.Path, "node_features")
	}
	e, err := a.Edges("edges")
	if err != nil {
		return nil, err
	}
	g := a.graph(vertices, e)
	mem := g.InMemory
	switch {
	case a.options.AsListed:
	case a.namedDirected():
		mem.Notes = []string{fmt.Sprintf("%d edges stay directed, as the file's name says", e.Count)}
	default:
		mem.Notes, g.Symmetrize = nil, true
	}
	features.Give(g, 0)
	mem.Types[0].Labels = labels
	if mem.Types[0].Labels.Classes == 2 && !mem.Types[0].Labels.MultiLabel() {
		mem.Metric = "roc-auc"
	}
	if divided {
		mem.Types[0].Splits, err = a.Splits(maskKeys, vertices, &mem.Types[0].Labels, arrays.MaskRows)
	}
	return g, err
}

// graph makes a graph of one type and of edges that the archive lists.
func (a *archive) graph(vertices int, e streamed.Edges) *streamed.Graph {
	e.Refuse = func(err error) error { return refusal.In(a.Path, err) }
	notes := []string{fmt.Sprintf("%d edges, as the file lists them", e.Count)}
	return &streamed.Graph{
		InMemory: &graph.Graph{
			Types: []graph.VertexType{{Frame: graph.Frame{Count: vertices}}}, Notes: notes,
		},
		Source:    a.Path,
		Relations: []streamed.Relation{{Edges: e}}, Types: make([]streamed.Type, 1),
	}
}

// names reads an optional vector of text. If NumPy stored numbers, or Python objects, which are pickles,
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
	names, _, err := arrays.Elements(a.Fields, key, (*npy.Array).Strings)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !utf8.ValidString(name) {
			return nil, refusal.Errorf("%s: array %q: the name %.40q is not UTF-8: save it as text", a.Path,
				key, name)
		}
	}
	return names, nil
}
