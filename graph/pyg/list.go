package pyg

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/torchfile"
)

// rowFields are the fields with a row for each vertex, or for each edge, that are joined along their rows.
var rowFields = []string{"x", "y", "train_mask", "val_mask", "test_mask", "edge_type"}

// joined makes one store of the graphs of a list, as Batch.from_data_list of PyG: fields are joined along
// their rows, and edges count their ends over all vertices. It returns the bounds of each graph's vertices.
func (r *reader) joined(items []any) (*stores, []int64, error) {
	if len(items) == 0 {
		return nil, nil, r.refusef("a list of 0 values: give Data objects")
	}
	all := &store{reader: r, key: "edge_index", fields: map[string]any{}, used: map[string]bool{}}
	bounds := []int64{0}
	for k, item := range items {
		s, vertices, err := r.item(item)
		if err == nil {
			err = all.join(s, bounds[k], k)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w (graph %d of a list of %d, counted from 0)", err, k, len(items))
		}
		bounds = append(bounds, bounds[k]+int64(vertices))
		// A graph may claim vertices that take no bytes of the file.
		if bounds[k+1] > r.size+arrays.MaxVertices(r.edges) {
			return nil, nil, r.refusef("%d vertices or more in %d graphs with %d edges: give the vertices features", bounds[k+1], k+1, r.edges)
		}
	}
	if !all.Has("x") && !all.Has("y") {
		all.fields["num_nodes"] = bounds[len(items)]
	}
	return &stores{vertices: []*store{all}, edges: []*store{all}}, bounds, nil
}

// item reads the fields and edges of a graph of a list, and how many vertices it has.
func (r *reader) item(value any) (*store, int, error) {
	all, err := r.stores(value)
	if err != nil {
		return nil, 0, err
	}
	if all.typed {
		return nil, 0, r.refusef("a graph with types of vertices and edges: several graphs are read that have one of each, and of others one at a time, as %s",
			`torch.save(graphs[0], "graph.pt")`)
	}
	s := all.edges[0]
	if s.Has(arrays.BatchKey) {
		return nil, 0, r.refusef("a batch of several graphs: give the graphs apart, or one batch of all")
	}
	if s.list, err = s.read(); err != nil {
		return nil, 0, err
	}
	r.edges += s.list.Len()
	labels := s.fields["y"] // may be that of the graph as a whole
	s.fields["y"] = nil
	n, known, err := r.vertexCount(s, all.edges)
	s.fields["y"] = labels
	if err != nil {
		return nil, 0, err
	}
	if !known {
		r.note("the vertices of some graphs: the largest id of an edge and one")
	}
	return s, n, nil
}

// join adds the k-th graph of a list, whose vertices follow so many others.
func (all *store) join(s *store, before int64, k int) error {
	e, more := &all.list, &s.list
	if more.Len() > 0 {
		if e.Len() > 0 && ((e.Weights == nil) != (more.Weights == nil) || e.FeatureColumns != more.FeatureColumns) {
			return s.Refuse(s.key, errors.New("its edges have weights or features, and those of the graphs before have others, or none: give all edges the same"))
		}
		if err := memory.Need(int64(more.Len()) * int64(8+4+4*more.FeatureColumns)); err != nil {
			return err
		}
		for i, source := range more.Source {
			e.Source, e.Target = append(e.Source, int32(before)+source), append(e.Target, int32(before)+more.Target[i])
		}
		e.Weights, e.Features, e.FeatureColumns = append(e.Weights, more.Weights...), append(e.Features, more.Features...), more.FeatureColumns
	}
	for _, key := range s.keys {
		if s.fields[key] == nil || key == "num_nodes" {
			continue
		}
		if _, known := all.fields[key]; !known {
			all.keys, all.fields[key] = append(all.keys, key), s.fields[key]
		}
		all.used[key] = all.used[key] || s.used[key]
	}
	for _, key := range rowFields {
		joined, some := all.fields[key].(*rows)
		switch {
		case !s.Has(key) && !all.Has(key):
			continue
		case s.Has(key) != (some || k == 0):
			return s.Refuse(key, errors.New("one of this graph and the graphs before has it, and the other has not: give it to all"))
		case k == 0:
			joined = &rows{}
		}
		part, ok := s.fields[key].(torchfile.Dense)
		if !ok {
			return s.Refuse(key, fmt.Errorf("is %s, no tensor", kind(s.fields[key])))
		}
		n, err := s.Count(key)
		if shape := shapeOf(part); shape != nil && len(shape) == 0 { // a number for the graph
			n, err = 1, nil
		}
		if err != nil {
			return err
		}
		joined.parts, joined.count = append(joined.parts, part), joined.count+n
		all.fields[key] = joined
	}
	return nil
}

// shapeOf is the shape of what has one, else nil.
func shapeOf(value any) []int {
	switch v := value.(type) {
	case *torchfile.Tensor:
		return v.Shape
	case *pickle.Array:
		return v.Shape
	}
	return nil
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
		if h.Descr != all.Descr || !slices.Equal(h.Shape[1:], all.Shape[1:]) || h.Fortran && len(h.Shape) > 1 {
			return nil, 0, fmt.Errorf("of graph %d is of type %s and shape %v, and that of graph 0 of type %s with rows of shape %v: save all alike",
				k, h.Descr, h.Shape, all.Descr, all.Shape[1:])
		}
		data = append(data, from)
	}
	all.Fortran = false
	return all.Stream(io.MultiReader(data...))
}
