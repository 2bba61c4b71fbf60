package pyg

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/torchfile"
)

// rowFields are the fields with a row for each vertex, or, the last, for each edge. They are joined along
// their rows.
var rowFields = []string{"x", "y", "train_mask", "val_mask", "test_mask", "edge_type"}

// edgeFields are the fields that item reads.
var edgeFields = []string{"edge_index", "edge_weight", "edge_attr", "adj_t", "adj", "num_nodes"}

// vertexBounds says, by type, where the vertices of each of several graphs begin, and where the last end.
type vertexBounds map[string][]int64

// joined joins the stores of a list's graphs into the stores of one graph, as Batch.from_data_list of PyG
// does. Fields are joined along their rows, and edges count their ends over all vertices of a type. Fields
// without rows are left out.
func (r *reader) joined(items []any) (*stores, vertexBounds, error) {
	if len(items) == 0 {
		return nil, nil, r.refusef("a list of 0 values: give Data objects")
	}
	var all *stores
	bounds, total := vertexBounds{}, int64(0)
	for k, item := range items {
		s, err := r.item(item)
		if err == nil && k == 0 {
			all = r.emptied(s)
		}
		if err == nil {
			err = all.join(s, bounds, k)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w (graph %d of a list of %d, counted from 0)", err, k, len(items))
		}
		for _, v := range s.vertices {
			total += int64(v.count)
		}
		// A graph may claim vertices that take no bytes of the file.
		if total > r.size+arrays.MaxVertices(r.edges) {
			return nil, nil, r.refusef("%d vertices or more in %d graphs with %d edges: give the "+
				"vertices features", total, k+1, r.edges)
		}
	}
	for _, e := range all.edges {
		e.setEdges(e.list)
	}
	for _, v := range all.vertices {
		if !v.Has("x") && !v.Has("y") {
			v.fields["num_nodes"] = bounds[v.name][len(items)]
		}
	}
	return all, bounds, nil
}

// item reads the fields and edges of a graph of a list, and counts its vertices of each type.
func (r *reader) item(value any) (*stores, error) {
	s, err := r.stores(value)
	if err != nil {
		return nil, err
	}
	for _, e := range s.edges {
		if e.Has(arrays.EdgeSplitKeys[0]) {
			return nil, e.Refuse(arrays.EdgeSplitKeys[0],
				errors.New("a split of edges is that of one graph: leave it out"))
		}
		if err := e.readEdges(); err != nil {
			return nil, err
		}
		r.edges += e.list.Len()
	}
	for _, v := range s.vertices {
		if v.Has(arrays.BatchKey) {
			return nil, r.refusef("a batch of several graphs: give the graphs apart, or one batch of all")
		}
		if s.typed && v.empty() {
			continue
		}
		labels := v.fields["y"] // it may be a label of the whole graph
		v.fields["y"] = nil
		count, known, err := r.vertexCount(v, s.edges)
		v.count = count
		v.fields["y"] = labels
		if err != nil {
			return nil, err
		}
		if !known {
			r.note("the vertices%s of some graphs: the largest id of an edge and one", v.typeSuffix())
		}
	}
	return s, nil
}

// empty reports whether a graph says that it has no vertex of the type.
func (s *store) empty() bool {
	if n, known := s.fields["num_nodes"].(int64); known {
		return n == 0
	}
	shape := shapeOf(s.fields["x"])
	return len(shape) > 0 && shape[0] == 0
}

// emptied makes stores of the same types without fields.
func (r *reader) emptied(s *stores) *stores {
	empty := func(original *store) *store {
		e := newStore(r, original.name, map[string]any{})
		e.relation, e.ends, e.key = original.relation, original.ends, arrays.EdgeIndexKey
		return e
	}
	all := &stores{typed: s.typed}
	for _, v := range s.vertices {
		all.vertices = append(all.vertices, empty(v))
	}
	if !s.typed {
		all.edges = all.vertices
		return all
	}
	for _, e := range s.edges {
		all.edges = append(all.edges, empty(e))
	}
	return all
}

// join adds the k-th graph of a list. Its vertices follow the vertices of the graphs before.
func (s *stores) join(more *stores, bounds vertexBounds, k int) error {
	alike := s.typed == more.typed && len(s.vertices) == len(more.vertices) && len(s.edges) == len(more.edges)
	vertices := make(map[string]*store, len(more.vertices))
	for _, v := range slices.Backward(more.vertices) { // of equal names the first counts
		vertices[v.name] = v
	}
	type edgeType struct {
		ends     [2]string
		relation string
	}
	edges := make(map[edgeType]*store, len(more.edges))
	for _, e := range slices.Backward(more.edges) {
		edges[edgeType{e.ends, e.relation}] = e
	}
	for _, v := range s.vertices {
		from := vertices[v.name]
		alike = alike && from != nil
		if !alike {
			break
		}
		if err := v.joinRows(from, k); err != nil {
			return err
		}
		if k == 0 {
			bounds[v.name] = []int64{0}
		}
		bounds[v.name] = append(bounds[v.name], bounds[v.name][k]+int64(from.count))
	}
	for _, e := range s.edges {
		from := edges[edgeType{e.ends, e.relation}]
		alike = alike && from != nil
		if !alike {
			return e.reader.refusef("a graph with other types than the first of a list: give graphs of " +
				"the same types of vertices and edges")
		}
		if err := e.joinEdges(from,
			[2]int64{bounds[e.ends[0]][k], bounds[e.ends[1]][k]}); err != nil {
			return err
		}
		if s.typed {
			e.drop(from)
		}
	}
	s.global = more.global
	return nil
}

// joinEdges adds edges. before is how many sources and targets come before theirs.
func (s *store) joinEdges(from *store, before [2]int64) error {
	e, more := &s.list, &from.list
	if more.Len() == 0 {
		return nil
	}
	if e.Len() > 0 &&
		((e.Weights == nil) != (more.Weights == nil) || e.FeatureColumns != more.FeatureColumns) {
		return from.Refuse(from.key, errors.New("its edges have weights or features, and those of the "+
			"graphs before have others, or none: give all edges the same"))
	}
	if err := memory.Need(int64(more.Len()) * int64(8+4+4*more.FeatureColumns)); err != nil {
		return err
	}
	for i, source := range more.Source {
		e.Source, e.Target = append(e.Source, int32(before[0])+source),
			append(e.Target, int32(before[1])+more.Target[i])
	}
	e.Weights, e.Features, e.FeatureColumns = append(e.Weights, more.Weights...),
		append(e.Features, more.Features...), more.FeatureColumns
	return nil
}

// joinRows adds the rows of the fields of the k-th graph.
func (s *store) joinRows(from *store, k int) error {
	for _, key := range rowFields {
		joined, some := s.fields[key].(*rows)
		switch {
		case !from.Has(key) && !some:
			continue
		case from.Has(key) != (some || k == 0):
			return from.Refuse(key, errors.New("one of this graph and the graphs before has it, and the "+
				"other has not: give it to all"))
		case k == 0:
			joined = &rows{}
			s.keys = append(s.keys, key)
		}
		part, ok := from.fields[key].(torchfile.Dense)
		if !ok {
			return from.Refuse(key, noTensor(from.fields[key]))
		}
		n := 1
		shape := shapeOf(part) // a number has one row
		switch {
		case len(shape) > 0 && shape[0] == 0 && from.empty():
			n = 0
		case len(shape) > 0:
			var err error
			if n, err = from.Count(key); err != nil {
				return err
			}
		}
		joined.parts = append(joined.parts, part)
		joined.count = joined.count + n
		s.fields[key] = joined
	}
	s.drop(from)
	return nil
}

// drop notes the fields that are not joined.
func (s *store) drop(from *store) {
	for _, key := range from.keys {
		if from.fields[key] != nil && !slices.Contains(rowFields, key) && !slices.Contains(edgeFields, key) &&
			!slices.Contains(s.dropped, key) {
			s.dropped = append(s.dropped, key)
		}
	}
}

// shapeOf returns the shape of a tensor or array, nil for other values.
func shapeOf(value any) []int {
	h, _ := headerOf(value)
	return h.Shape
}

// rows are tensors that are joined along their rows.
type rows struct {
	parts []torchfile.Dense
	count int // of rows
}

// Open implements torchfile.Dense.
func (r *rows) Open() (io.Reader, int64, error) {
	var all npy.Header
	var data []io.Reader
	for k, part := range r.parts {
		from, _, err := part.Open()
		if err != nil {
			return nil, 0, err
		}
		h, err := npy.ReadHeader(from)
		if err != nil {
			return nil, 0, err
		}
		if len(h.Shape) == 0 {
			h.Shape = []int{1}
		}
		if k == 0 {
			all = h
			all.Shape = slices.Clone(h.Shape)
			all.Shape[0] = r.count
		}
		if h.Descr != all.Descr || !slices.Equal(h.Shape[1:], all.Shape[1:]) ||
			h.Fortran && len(h.Shape) > 1 {
			return nil, 0, fmt.Errorf("of graph %d is of type %s and shape %v, and that of graph 0 of "+
				"type %s with rows of shape %v: save all alike",
				k, h.Descr, h.Shape, all.Descr, all.Shape[1:])
		}
		data = append(data, from)
	}
	all.Fortran = false
	return all.Stream(io.MultiReader(data...))
}
