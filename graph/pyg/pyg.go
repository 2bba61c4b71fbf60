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
}

// Read reads the graph in the file of that name. Edges stay as they are listed, and ids as they are. The
// graph's Notes name what was left out. Complaints about the file are refusals that name it and the tensor.
func Read(path string, o Options) (*graph.Graph, error) {
	f, err := torchfile.Open(path, classes...)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &reader{path: path, options: o, size: f.Size}
	g, err := r.graph(f.Value)
	if err != nil {
		return nil, err
	}
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// Open opens the graph of Read, to be written in a stream, until it is closed. It returns nil if the file
// must be read into memory as a whole: unless it has one graph, or a Batch, of one type of vertices and one
// relation, whose edge_index, edge_weight and edge_attr, or compressed rows of adj_t or adj, lie in it one
// number behind the other.
func Open(path string, o Options) (*streamed.Graph, error) {
	f, err := torchfile.Open(path, classes...)
	if err != nil {
		return nil, err
	}
	r := &reader{path: path, options: o, size: f.Size, stream: &streamed.Graph{
		Source: path, Release: f.Close, Relations: make([]streamed.Relation, 1), Types: make([]streamed.Type, 1),
	}}
	if r.stream.InMemory, err = r.graph(f.Value); err != nil || r.stream.InMemory == nil {
		f.Close()
		return nil, err
	}
	return r.stream, nil
}

// reader reads one file.
type reader struct {
	path    string
	options Options
	size    int64 // of the file, in bytes
	fields  int64 // of all stores
	edges   int   // of all relations
	notes   []string
	// stream takes edges and dense features, which are read when they are needed; nil: they are read.
	stream *streamed.Graph
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

// graph makes the graph of what the file holds; nil if that cannot be read in a stream, as it should be.
func (r *reader) graph(value any) (*graph.Graph, error) {
	s, several, err := r.read(value)
	if s == nil || err != nil {
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
	g := &graph.Graph{Type: first.name, Count: first.count}
	if err := r.relations(g, s); err != nil {
		return nil, err
	}
	if err := r.first(g, first); err != nil {
		return nil, err
	}
	for _, v := range s.vertices {
		if v == first {
			continue
		}
		other := graph.VertexType{Type: v.name, Count: v.count}
		if other.Features, err = r.features(v); err != nil {
			return nil, err
		}
		g.Others = append(g.Others, other)
	}
	if err := r.graphsOf(g, s, first, several); err != nil {
		return nil, err
	}
	of := ""
	if n := len(s.edges); s.typed || n > 1 {
		of = " of " + arrays.Counted(n, "relation")
	}
	r.note("%d edges%s, as the file lists them", r.edges, of)
	g.Notes = slices.Concat(r.notes, g.Notes, s.left())
	g.Provenance = "pyg " + r.path
	return g, nil
}

// read finds the fields in what the file holds, and reads the edges. bounds are those of several graphs, nil
// for one. There are no stores if they cannot be read in a stream, as they should be.
func (r *reader) read(value any) (s *stores, bounds vertexBounds, err error) {
	if list, ok := value.(*pickle.List); ok && len(list.Items) != 1 {
		if r.stream != nil {
			return nil, nil, nil
		}
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
	if r.stream != nil {
		if slices != nil {
			return nil, nil, nil
		}
		list, ok, err := s.edgesInBlocks()
		if !ok || err != nil {
			return nil, nil, err
		}
		r.stream.Relations[0].Edges, r.edges = list, int(list.Count)
		return s, nil, nil
	}
	// Edges first: a file with n of them may have some n vertices, and not many more.
	for _, e := range s.edges {
		if e.list, err = e.read(); err != nil {
			return nil, nil, err
		}
		r.edges += e.list.Len()
	}
	if slices == nil {
		return s, nil, nil
	}
	of, err := r.separate(s, slices)
	return s, vertexBounds{s.vertices[0].name: of}, err
}

// count returns how many vertices a type has.
func (r *reader) count(v *store, edges []*store) (int, error) {
	n, known, err := r.vertexCount(v, edges)
	if err == nil && !known {
		r.note("%d vertices%s: the largest id of an edge and one", n, v.of())
	}
	return n, err
}

// vertexCount returns how many vertices a type has: what its tensors say, else the sizes of its edges'
// matrices, else the largest id plus one, which is not known to be right.
func (r *reader) vertexCount(v *store, edges []*store) (n int, known bool, err error) {
	if n, err := (arrays.Fields{Source: v}).Vertices(r.edges); n > 0 || err != nil {
		return n, true, err
	}
	if r.stream != nil {
		e := edges[0]
		n, known, edges = max(e.sizes[0], e.sizes[1]), e.sizes[0] > 0 || e.sizes[1] > 0, nil
		if !known {
			source, target, err := r.stream.Relations[0].Largest()
			largest := max(source, target)
			if err != nil {
				return 0, false, err
			}
			n = int(largest) + 1
		}
	}
	for _, e := range edges {
		for end, ids := range [][]int32{e.list.Source, e.list.Target} {
			if e.ends[end] != v.name {
				continue
			}
			n, known = max(n, e.sizes[end]), known || e.sizes[end] > 0
			if len(ids) > 0 {
				n = max(n, int(slices.Max(ids))+1)
			}
		}
	}
	if n == 0 || int64(n) > arrays.MaxVertices(r.edges) {
		return 0, false, r.refusef("%d vertices%s for %d edges: give their number as num_nodes", n, v.of(), r.edges)
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
	listed := func(of []*store) string {
		names := make([]string, len(of))
		for k, v := range of {
			names[k] = v.name
		}
		return arrays.Listed(names)
	}
	setting := refusal.Setting("target")
	if name := r.options.Target; name != "" {
		if !s.typed {
			return nil, r.refusef("%s %q: the graph has one type of vertices; leave it out", setting, name)
		}
		for _, v := range all {
			if v.name == name {
				return v, nil
			}
		}
		return nil, r.refusef("%s %q: its types are %s", setting, name, listed(all))
	}
	switch {
	case len(labelled) > 1:
		return nil, r.refusef("the types %s have labels (y): choose one with %s", listed(labelled), setting)
	case len(labelled) == 1:
		return labelled[0], nil
	}
	return all[0], nil
}

// relations gives the edges to the graph.
func (r *reader) relations(g *graph.Graph, s *stores) error {
	counts := map[string]int{}
	for _, v := range s.vertices {
		counts[v.name] = v.count
	}
	rows := int64(0)
	for _, e := range s.edges {
		sources, targets := counts[e.ends[0]], counts[e.ends[1]]
		// A relation without edges costs the file a few bytes, and a row for each vertex.
		if rows += int64(max(sources, targets)); rows > 1<<24+4*r.size {
			return r.refusef("%d relations of some %d vertices each: too many for a file of %d bytes", len(s.edges), targets, r.size)
		}
		if r.stream != nil {
			var err error
			r.stream.Relations[0].EdgeSplit, err = arrays.Fields{Source: e}.EdgeSplit()
			return err
		}
		relation, err := graph.NewBipartite(sources, targets, e.list)
		if err != nil {
			return e.Refuse(e.key, err)
		}
		relation.Source, relation.Name, relation.Target = e.ends[0], e.relation, e.ends[1]
		if relation.EdgeSplit, err = (arrays.Fields{Source: e}).EdgeSplit(); err != nil {
			return err
		}
		if relation.EdgeSplit != nil && !s.typed && len(s.edges) > 1 {
			return r.refusef("a split of edges (%q and others) does not say which edge_type each edge has: save a HeteroData, with lists for each relation", arrays.EdgeSplitKeys[0])
		}
		g.Relations = append(g.Relations, relation)
		e.list = graph.Edges{}
	}
	return nil
}

// first gives the graph what its first type has.
func (r *reader) first(g *graph.Graph, v *store) error {
	var err error
	if g.Features, err = r.features(v); err != nil {
		return err
	}
	if g.Labels, err = r.labels(v); err != nil {
		return err
	}
	f := arrays.Fields{Source: v}
	if g.Splits, err = f.Splits(arrays.MaskKeys, v.count, &g.Labels, arrays.Masks); err != nil || g.Splits != nil {
		return err
	}
	g.Splits, err = f.Splits(listKeys, v.count, &g.Labels, arrays.Parts)
	return err
}

// The names of the lists of training, validation and test vertices, and of their labels, as PyTorch
// Geometric's Entities has them where y and masks of all vertices would be.
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
	array, err := v.Array(key)
	if err != nil {
		return graph.Labels{}, err
	}
	l, err := arrays.WholeLabels(array, v.count)
	if err != nil {
		return l, v.Refuse(key, err)
	}
	if l.Class != nil {
		r.noteFloats(v, key, array)
	}
	return l, arrays.Fields{Source: v}.Rows(key, array.Shape[0], v.count)
}

// noteFloats says that class ids are floats: they might have been meant as numbers to be predicted.
func (r *reader) noteFloats(v *store, key string, array *npy.Array) {
	if array.Floats() {
		r.note("%s: floats, all of them whole numbers: read as class ids", v.quoted(key))
	}
}

// listedLabels are class ids of the vertices in lists; the others have none.
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
		list, err := v.Array(listKeys[part])
		if err != nil {
			return graph.Labels{}, err
		}
		vertices, err := arrays.List(list, v.count)
		if err != nil {
			return graph.Labels{}, v.Refuse(listKeys[part], err)
		}
		array, err := v.Array(key)
		if err != nil {
			return graph.Labels{}, err
		}
		classes, err := arrays.WholeNumbers(array)
		if err != nil {
			return graph.Labels{}, v.Refuse(key, err)
		}
		if len(classes) != len(vertices) {
			return graph.Labels{}, v.Refuse(key, fmt.Errorf("has shape %v: it must be one class id for each of the %d vertices in %q",
				array.Shape, len(vertices), listKeys[part]))
		}
		r.noteFloats(v, key, array)
		for k, vertex := range vertices {
			ids[vertex] = classes[k]
		}
	}
	if ids == nil {
		return graph.Labels{}, nil
	}
	l, err := arrays.Classes(ids, len(ids))
	if err != nil {
		return l, v.Refuse(labelKeys[0], err)
	}
	return l, nil
}

// features returns the features of a type, none if it has no x, or they are read when they are needed.
func (r *reader) features(v *store) (graph.Features, error) {
	if !v.Has("x") {
		return graph.Features{}, nil
	}
	if r.stream != nil && v.inBlocks("x") {
		f := arrays.Fields{Source: v}
		rows, n, err := f.DenseRows("x", r.options.DenseFeatures)
		if err != nil {
			return graph.Features{}, err
		}
		if r.stream.Types[0].Rows = rows; rows != nil {
			return graph.Features{}, f.Rows("x", n, v.count)
		}
	}
	m, err := (arrays.Fields{Source: v}).Features("x", v.count, r.options.DenseFeatures)
	if err != nil {
		return graph.Features{}, err
	}
	if m.Note != "" {
		r.note("%s: %s", v.quoted("x"), m.Note)
	}
	return m.Features, nil
}

// classes are those of which a file may have objects. Nothing of them runs: an object is its attributes.
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
