// Package pyg reads the graphs that PyTorch Geometric (PyG) writes with torch.save: a Data or HeteroData
// object of version 1 or 2, a Batch or a list of these; (data, slices) or (dict, slices, class), as an
// InMemoryDataset saves its graphs; or what their to_dict returns, a dict of tensors. Several graphs become
// one block-diagonal graph, as is a Batch: it has the number of each vertex' graph. Edges are an edge_index,
// or a matrix adj_t (by target) or adj (by source): a SparseTensor of torch_sparse, or a sparse tensor of
// PyTorch. A tensor of a class that PyG derives, as EdgeIndex, is the tensor.
//
// A split of edges for link prediction is in train_edges, val_edges and test_edges (N × 2), and perhaps
// {val,test}_negatives (M × 2) or {val,test}_negative_targets (N × M), of the Data or of each edge type.
//
// Files are untrusted. Nothing in them runs: see internal/pickle and internal/torchfile.
//
// The command import pyg reads by it.
package pyg

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/refusal"
	"weft/internal/torchfile"
)

// Options say how a file is read.
type Options struct {
	// Target is the vertex type whose labels are learned; empty for the only one that has labels.
	Target string
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
	// DivideEdges becomes Divide of the edges' streamed.Frame.
	DivideEdges func(*graph.Frame) error
}

// Open opens the graph in the file of that name, to be read or written in a stream, until it is closed. Edges
// keep their listed order, and ids stay. The graph's Notes name what was left out. Complaints about the file
// are refusals that name it and the tensor. Edges and dense features are read when they are needed. Three
// things are read at once: a list of graphs, edges of several relations in one list, and tensors whose rows
// or columns do not lie one behind the other.
func Open(path string, o Options) (*streamed.Graph, error) {
	f, err := torchfile.Open(path, classes...)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, options: o, size: f.Size}
	return streamed.Opened(func() (*streamed.Graph, error) { return r.graph(f.Value) }, f.Close)
}

// reader reads one file.
type reader struct {
	path    string
	options Options
	size    int64 // of the file, in bytes
	fields  int64 // of all stores
	edges   int   // of all relations
	notes   []string
}

// refusef refuses the file.
func (r *reader) refusef(format string, args ...any) error {
	return refusal.Errorf("%s: %w", r.path, fmt.Errorf(format, args...))
}

// note keeps a note, once.
func (r *reader) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// graph opens the graph in what the file holds.
func (r *reader) graph(value any) (*streamed.Graph, error) {
	s, several, err := r.read(value)
	if err != nil {
		return nil, err
	}
	for _, v := range s.vertices {
		r.leaveWhole(v, several[v.name])
	}
	if !s.typed {
		if s.edges, err = s.edges[0].byType(); err != nil {
			return nil, err
		}
	}
	for _, v := range s.vertices {
		if v.count, err = r.count(v, s.edges); err != nil {
			return nil, err
		}
	}
	first, err := r.target(s)
	if err != nil {
		return nil, err
	}
	order := append([]*store{first},
		slices.DeleteFunc(slices.Clone(s.vertices), func(v *store) bool { return v == first })...)
	mem := &graph.Graph{Provenance: "pyg " + r.path}
	for _, v := range order {
		mem.Types = append(mem.Types, graph.VertexType{Type: v.name, Frame: graph.Frame{Count: v.count}})
	}
	g := &streamed.Graph{InMemory: mem, Source: r.path, Types: make([]streamed.Type, len(order))}
	if err := r.relations(g, s); err != nil {
		return nil, err
	}
	for t, v := range order {
		if err := r.features(g, t, v); err != nil {
			return nil, err
		}
		if t > 0 {
			continue
		}
		if mem.Types[0].Labels, err = r.labels(v); err != nil {
			return nil, err
		}
		if mem.Types[0].Splits, err = v.splits(&mem.Types[0].Labels); err != nil {
			return nil, err
		}
	}
	ofGraphs, err := r.graphsOf(mem, order, several)
	if err != nil {
		return nil, err
	}
	relations := ""
	if n := len(s.edges); s.typed || n > 1 {
		relations = " of " + arrays.Counted(n, "relation")
	}
	r.note("%d edges%s, as the file lists them", r.edges, relations)
	mem.Notes = slices.Concat(r.notes, ofGraphs, s.left())
	return g, nil
}

// read finds the fields in the value of the file, and opens the edges. bounds says where the vertices of
// several graphs begin, nil for one graph.
func (r *reader) read(value any) (s *stores, bounds vertexBounds, err error) {
	if list, ok := value.(*pickle.List); ok && len(list.Items) != 1 {
		return r.joined(list.Items)
	} else if ok {
		value = list.Items[0]
	}
	value, slices, err := r.collated(value)
	if err != nil {
		return nil, nil, err
	}
	if s, err = r.stores(value); err != nil {
		return nil, nil, err
	}
	// The edges come first: a file with n of them has about n vertices at most.
	for _, e := range s.edges {
		if err := e.openEdges(); err != nil {
			return nil, nil, err
		}
		r.edges += int(e.edges.Count)
	}
	if slices == nil {
		return s, nil, nil
	}
	starts, err := r.separate(s, slices)
	return s, vertexBounds{s.vertices[0].name: starts}, err
}

// count returns how many vertices a type has.
func (r *reader) count(v *store, edges []*store) (int, error) {
	n, known, err := r.vertexCount(v, edges)
	if err == nil && !known {
		r.note("%d vertices%s: the largest id of an edge and one", n, v.typeSuffix())
	}
	return n, err
}

// vertexCount returns how many vertices a type has. The type's tensors say so, else the sizes of its edges'
// matrices. Else it is the largest id plus one, and known is false.
func (r *reader) vertexCount(v *store, edges []*store) (n int, known bool, err error) {
	if n, err := v.Vertices(r.edges); n > 0 || err != nil {
		return n, true, err
	}
	for _, e := range edges {
		for end, name := range e.ends {
			if name != v.name {
				continue
			}
			size := e.sizes[end]
			known = known || size > 0
			if size == 0 {
				if size, err = e.largest(end); err != nil {
					return 0, false, err
				}
			}
			n = max(n, size)
		}
	}
	if n == 0 || int64(n) > arrays.MaxVertices(r.edges) {
		return 0, false, r.refusef("%d vertices%s for %d edges: give their number as num_nodes",
			n, v.typeSuffix(), r.edges)
	}
	return n, known, nil
}

// target returns the type whose labels are learned.
func (r *reader) target(s *stores) (*store, error) {
	var labelled, all []*store
	for _, v := range s.vertices {
		all = append(all, v)
		if v.Has("y") || v.Has("train_idx", "train_y") {
			labelled = append(labelled, v)
		}
	}
	listed := func(list []*store) string {
		names := make([]string, len(list))
		for k, v := range list {
			names[k] = v.name
		}
		return arrays.Listed(names)
	}
	if name := r.options.Target; name != "" {
		if !s.typed {
			return nil, r.refusef("--target %q: the graph has one type of vertices; leave it out", name)
		}
		for _, v := range all {
			if v.name == name {
				return v, nil
			}
		}
		return nil, r.refusef("--target %q: its types are %s", name, listed(all))
	}
	switch {
	case len(labelled) > 1:
		return nil, r.refusef("the types %s have labels (y): choose one with --target", listed(labelled))
	case len(labelled) == 1:
		return labelled[0], nil
	}
	return all[0], nil
}

// relations gives the edges to the graph.
func (r *reader) relations(g *streamed.Graph, s *stores) error {
	counts := map[string]int{}
	for _, v := range s.vertices {
		counts[v.name] = v.count
	}
	rows := int64(0)
	for _, e := range s.edges {
		sources, targets := counts[e.ends[0]], counts[e.ends[1]]
		// A relation without edges takes a few bytes of the file, but a row for each vertex.
		rows += int64(max(sources, targets))
		if rows > 1<<24+4*r.size {
			return r.refusef("%d relations of some %d vertices each: too many for a file of %d bytes",
				len(s.edges), targets, r.size)
		}
		split, err := e.EdgeSplit()
		if err != nil {
			return err
		}
		if split != nil && !s.typed && len(s.edges) > 1 {
			return r.refusef("a split of edges (%q and others) does not say which edge_type each edge "+
				"has: save a HeteroData, with lists for each relation", arrays.EdgeSplitKeys[0])
		}
		g.Relations = append(g.Relations, streamed.Relation{
			Source: e.ends[0], Name: e.relation, Target: e.ends[1], Edges: e.edges, EdgeSplit: split,
		})
		if err := r.labelEdges(e, &g.Relations[len(g.Relations)-1]); err != nil {
			return err
		}
	}
	g.TellLabelsApart()
	return nil
}

// splits returns the splits of a type, from masks or lists of vertices. If vertices have no labels, masks may
// be of edges.
func (v *store) splits(labels *graph.Labels) ([]graph.Split, error) {
	if key := v.edgeLabelKey(); key != "" && !labels.There() {
		return nil, nil
	}
	splits, err := v.Splits(arrays.MaskKeys, v.count, labels, arrays.Masks)
	if err != nil || splits != nil {
		return splits, err
	}
	parts := func(a *npy.Array, rows int, _ graph.Noun) ([][]int64, error) { return arrays.Parts(a, rows) }
	return v.Splits(listKeys, v.count, labels, parts)
}

// These name the lists of training, validation and test vertices, and of their labels. PyTorch Geometric's
// Entities has them in place of y and masks of all vertices.
var (
	listKeys  = [3]string{"train_idx", "val_idx", "test_idx"}
	labelKeys = [3]string{"train_y", "val_y", "test_y"}
)

// labels returns the labels of a type: y, or the labels of listed vertices, or none.
func (r *reader) labels(v *store) (graph.Labels, error) {
	const key = "y"
	if !v.Has(key) {
		return r.listedLabels(v)
	}
	return r.labelsAt(v, key, v.count, arrays.WholeLabels)
}

// labelsAt returns the labels of so many rows in the field of a key.
func (r *reader) labelsAt(v *store, key string, rows int,
	read func(a *npy.Array, rows int) (graph.Labels, error),
) (graph.Labels, error) {
	array, err := v.Array(key)
	if err != nil {
		return graph.Labels{}, err
	}
	l, err := read(array, rows)
	if err != nil {
		return l, v.Refuse(key, err)
	}
	if l.Class != nil {
		r.noteFloats(v, key, array)
	}
	return l, v.Rows(key, array.Shape[0], rows)
}

// noteFloats notes that class ids are floats: they may be values to predict.
func (r *reader) noteFloats(v *store, key string, array *npy.Array) {
	if array.Floats() {
		r.note("%s: floats, all of them whole numbers: read as class ids", v.quoted(key))
	}
}

// listedLabels returns the class ids of the vertices in lists; other vertices have none.
func (r *reader) listedLabels(v *store) (graph.Labels, error) {
	var ids []int64
	for part, key := range labelKeys {
		if !v.Has(key, listKeys[part]) {
			continue
		}
		if ids == nil {
			if err := memory.Need(8 * int64(v.count)); err != nil {
				return graph.Labels{}, v.Refuse(key, err)
			}
			ids = slices.Repeat([]int64{-1}, v.count)
		}
		vertices, _, err := arrays.Elements(v.Fields, listKeys[part],
			func(a *npy.Array) ([]int64, error) { return arrays.List(a, 0, v.count) })
		if err != nil {
			return graph.Labels{}, err
		}
		array, err := v.Array(key)
		if err != nil {
			return graph.Labels{}, err
		}
		classes, err := arrays.WholeNumbers(array, graph.VertexNoun)
		if err != nil {
			return graph.Labels{}, v.Refuse(key, err)
		}
		if len(classes) != len(vertices) {
			return graph.Labels{}, v.Refuse(key, fmt.Errorf("has shape %v: it must be one class id for "+
				"each of the %d vertices in %q", array.Shape, len(vertices), listKeys[part]))
		}
		r.noteFloats(v, key, array)
		for k, vertex := range vertices {
			ids[vertex] = classes[k]
		}
	}
	if ids == nil {
		return graph.Labels{}, nil
	}
	l, err := arrays.Classes(ids, len(ids), graph.VertexNoun)
	return l, v.Refuse(labelKeys[0], err)
}

// features gives a type its features, if it has an x.
func (r *reader) features(g *streamed.Graph, vertexType int, v *store) (err error) {
	const key = "x"
	if !v.Has(key) {
		return nil
	}
	var m *arrays.Matrix
	if v.inBlocks(key) {
		m, err = v.Features(key, v.count, r.options.DenseFeatures)
	} else if m, err = v.matrix(key, r.options.DenseFeatures); err == nil {
		err = v.Rows(key, m.Rows, v.count)
	}
	if err != nil {
		return err
	}
	if m.Note != "" {
		r.note("%s: %s", v.quoted(key), m.Note)
		m.Note = ""
	}
	m.Give(g, vertexType)
	return nil
}

// classes are the classes whose objects a file may have. No code of them runs: an object is its attributes.
var classes = []pickle.Class{
	dataClass, heteroClass, batchClass, batchMaker, sparseClass,
	"torch_sparse.storage.SparseStorage",
	"torch_geometric.data.storage.AttrType",
	"torch_geometric.data.storage.BaseStorage",
	"torch_geometric.data.storage.NodeStorage",
	"torch_geometric.data.storage.EdgeStorage",
	"torch_geometric.data.storage.GlobalStorage",
	"torch_geometric.data.data.DataEdgeAttr",
	"torch_geometric.data.data.DataTensorAttr",
	"torch_geometric.data.graph_store.EdgeAttr",
	"torch_geometric.data.graph_store.EdgeLayout",
	"torch_geometric.data.feature_store.TensorAttr",
	"torch_geometric.data.feature_store._FieldStatus",
	"torch_geometric.edge_index.CatMetadata",
	"torch_geometric.edge_index.EdgeIndex",
	"torch_geometric.edge_index.SortOrder",
	"torch_geometric.index.CatMetadata",
	"torch_geometric.index.Index",
}

const (
	dataClass   pickle.Class = "torch_geometric.data.data.Data"
	heteroClass pickle.Class = "torch_geometric.data.hetero_data.HeteroData"
	batchClass  pickle.Class = "torch_geometric.data.batch.Batch"
	batchMaker  pickle.Class = "torch_geometric.data.batch.DynamicInheritanceGetter"
	sparseClass pickle.Class = "torch_sparse.tensor.SparseTensor"
)
