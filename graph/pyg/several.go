package pyg

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/pickle"
	"weft/internal/torchfile"
)

// These are the ways out of values that are not read.
const (
	oneOfThem = `save one of them, torch.save(dataset[0], "graph.pt")`
	asBatch   = `save them as one, torch.save(Batch.from_data_list(list(dataset)), "graphs.pt")`
)

// collated takes apart what an InMemoryDataset saves: (data, slices) or (data, slices, class). data has all
// graphs one after another; slices say where each begins, nil for one graph. Any other value is its own data.
func (r *reader) collated(value any) (data any, slices *pickle.Dict, err error) {
	v, ok := value.(pickle.Tuple)
	if !ok {
		return value, nil, nil
	}
	if len(v) != 2 && len(v) != 3 {
		return nil, nil, r.refusef("a tuple of %d values: give a Data or HeteroData object, or its to_dict()",
			len(v))
	}
	if !isBounds(v[1], 3) {
		return nil, nil, r.refusef("a tuple of %d graphs or other values, which a data set does not have: "+
			"save one graph, or a list of them", len(v))
	}
	if n := divided(v[1], 2); n > 1 {
		if slices, ok = v[1].(*pickle.Dict); !ok {
			return nil, nil, r.refusef("a data set of %d graphs without slices: %s", n, oneOfThem)
		}
	}
	return v[0], slices, nil
}

// isBounds reports whether a value may be slices: vectors and numbers, or dicts of them down to a depth.
func isBounds(value any, depth int) bool {
	switch s := value.(type) {
	case nil, int64, *pickle.List:
		return true
	case *torchfile.Tensor, *pickle.Array:
		return len(shapeOf(s)) == 1
	case *pickle.Dict:
		return depth > 0 &&
			!slices.ContainsFunc(s.Items, func(item pickle.Item) bool {
				return !isBounds(item.Value, depth-1)
			})
	}
	return false
}

// divided returns how many graphs slices divide a data set into: a vector of slices has a bound for each
// graph and one more. Typed graphs have their vectors in dicts of dicts.
func divided(bounds any, depth int) int {
	n := 1
	switch s := bounds.(type) {
	case *pickle.Dict:
		for _, item := range s.Items[:min(len(s.Items), maxFields)] {
			if depth > 0 {
				n = max(n, divided(item.Value, depth-1))
			}
		}
	case *torchfile.Tensor:
		if len(s.Shape) == 1 {
			n = s.Shape[0] - 1
		}
	case *pickle.List:
		n = len(s.Items) - 1
	}
	return n
}

// separate numbers the vertices of several graphs, each counted from 0, one graph after another. It returns
// where the vertices of each graph begin and where the last end.
func (r *reader) separate(s *stores, slices *pickle.Dict) ([]int64, error) {
	e := s.edges[0]
	if s.typed || e.key != "edge_index" {
		return nil, r.refusef("a data set of %d graphs with several types, or without an edge_index: %s",
			divided(slices, 2), oneOfThem)
	}
	if err := e.readEdges(); err != nil {
		return nil, err
	}
	edges, err := r.bounds(e, slices, "edge_index", e.list.Len())
	if err != nil {
		return nil, err
	}
	vertices, err := r.ofVertices(e, slices, len(edges)-1)
	if err != nil {
		return nil, err
	}
	for k, first := range vertices[:len(edges)-1] {
		for i := edges[k]; i < edges[k+1]; i++ {
			for _, end := range []*int32{&e.list.Source[i], &e.list.Target[i]} {
				if *end < 0 || int64(*end) >= vertices[k+1]-first {
					return nil, e.Refuse(e.key, fmt.Errorf("vertex %d of graph %d, which has %d vertices: "+
						"save it again", *end, k, vertices[k+1]-first))
				}
				*end += int32(first)
			}
		}
	}
	e.setEdges(e.list)
	return vertices, nil
}

// ofVertices returns the bounds of the vertices: the bounds of their features, else from the numbers of
// vertices that PyG saves beside.
func (r *reader) ofVertices(e *store, slices *pickle.Dict, graphs int) ([]int64, error) {
	const counts = "_num_nodes"
	if e.Has("x") {
		rows, err := e.Count("x")
		if err != nil {
			return nil, err
		}
		return r.bounds(e, slices, "x", rows)
	}
	list, ok := e.fields[counts].(*pickle.List)
	if !ok || len(list.Items) != graphs {
		return nil, r.refusef("a data set of %d graphs without x or the numbers of their vertices: %s",
			graphs, asBatch)
	}
	e.used[counts] = true
	bounds := []int64{0}
	for k, item := range list.Items {
		n, ok := item.(int64)
		if !ok || n < 1 || bounds[k]+n > arrays.MaxVertices(e.list.Len()) {
			return nil, e.Refuse(counts,
				fmt.Errorf("graph %d has %v vertices: give the vertices features", k, item))
		}
		bounds = append(bounds, bounds[k]+n)
	}
	return bounds, nil
}

// bounds reads the slices of a field with so many rows: they ascend from 0 to the number of rows.
func (r *reader) bounds(e *store, slices *pickle.Dict, key string, rows int) ([]int64, error) {
	value, _ := slices.Get(key)
	t, ok := value.(*torchfile.Tensor)
	if !ok || len(t.Shape) != 1 || t.Shape[0] != divided(slices, 1)+1 {
		return nil, e.Refuse(key, fmt.Errorf("has no slices for %d graphs: save it again",
			divided(slices, 1)))
	}
	array, err := torchfile.Array(t)
	if err != nil {
		return nil, e.Refuse(key, err)
	}
	bounds, err := array.Int64s()
	if err != nil {
		return nil, e.Refuse(key, err)
	}
	before := int64(0)
	for _, at := range bounds {
		if at < before {
			return nil, e.Refuse(key, fmt.Errorf("its slices do not ascend: save it again"))
		}
		before = at
	}
	if bounds[0] != 0 || before != int64(rows) {
		return nil, e.Refuse(key, fmt.Errorf("its slices go from %d to %d, and it has %d rows: save it again",
			bounds[0], before, rows))
	}
	return bounds, nil
}

// graphsOf tells g the graph of each vertex of its types: from the bounds of several graphs, else from batch.
// It returns notes.
func (r *reader) graphsOf(g *graph.Graph, types []*store, bounds vertexBounds) (notes []string, err error) {
	if bounds == nil && !types[0].Has(arrays.BatchKey) {
		return nil, nil
	}
	ids := make([][]int64, len(types))
	for t, v := range types {
		if ids[t], err = r.graphIDs(v, bounds[v.name]); err != nil {
			return nil, err
		}
	}
	if err := arrays.GiveGraphs(g, ids); err != nil {
		return nil, types[0].Refuse(arrays.BatchKey, err)
	}
	if bounds == nil {
		notes = []string{arrays.GraphsNote(g.Graphs)}
	}
	return notes, nil
}

// graphIDs returns the graph of each vertex of a type.
func (r *reader) graphIDs(v *store, bounds []int64) (ids []int64, err error) {
	if bounds == nil {
		v.used["ptr"] = true // ptr says the same
		if !v.Has(arrays.BatchKey) {
			return nil, r.refusef("vertices%s without %q, which others have: save it again",
				v.typeSuffix(), arrays.BatchKey)
		}
		return v.GraphIDs(v.count)
	}
	if v.count != int(bounds[len(bounds)-1]) {
		return nil, r.refusef("%d vertices%s, and its graphs have %d: save it again", v.count, v.typeSuffix(),
			bounds[len(bounds)-1])
	}
	if err := memory.Need(2 * 8 * int64(v.count)); err != nil {
		return nil, err
	}
	ids = make([]int64, 0, v.count)
	for k, from := range bounds[:len(bounds)-1] {
		if from == bounds[k+1] && v.name == "" {
			return nil, r.refusef("graph %d has no vertex: leave it out", k)
		}
		ids = append(ids, slices.Repeat([]int64{int64(k)}, int(bounds[k+1]-from))...)
	}
	return ids, nil
}

// leaveWhole leaves out labels of whole graphs. bounds say where the vertices of each graph begin, nil if
// only the field tells.
func (r *reader) leaveWhole(v *store, bounds []int64) {
	const key = "y"
	vertices := 0
	switch {
	case bounds != nil:
		vertices = int(bounds[len(bounds)-1])
	case v.Has(arrays.BatchKey):
		vertices, _ = v.Count(arrays.BatchKey)
	}
	if vertices == 0 || !v.Has(key) {
		return
	}
	if labels, err := v.Count(key); err == nil && labels < vertices {
		r.note("labels of whole graphs left out: %s", v.quoted(key))
		v.used[key], v.fields[key] = true, nil
	}
}
