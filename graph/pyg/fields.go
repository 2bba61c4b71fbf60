package pyg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/torchfile"
)

// Has reports whether there are fields of all those keys.
func (s *store) Has(keys ...string) bool {
	for _, key := range keys {
		if s.fields[key] == nil {
			return false
		}
	}
	return true
}

// headerOf describes a tensor or an array of NumPy; ok is false for any other value.
func headerOf(value any) (h npy.Header, ok bool) {
	switch v := value.(type) {
	case *torchfile.Tensor:
		return npy.Header{Shape: v.Shape}, true
	case *pickle.Array:
		return npy.Header{Descr: v.Dtype, Fortran: v.Fortran, Shape: v.Shape}, true
	}
	return h, false
}

// Header describes the field of a key that exists: a tensor or an array of NumPy.
func (s *store) Header(key string) (npy.Header, error) {
	s.used[key] = true
	h, ok := headerOf(s.fields[key])
	if !ok {
		return h, s.Refuse(key, fmt.Errorf("is %s, no tensor", kind(s.fields[key])))
	}
	return h, nil
}

// Open opens the field of a key that exists: a tensor, an array of NumPy or a number.
func (s *store) Open(key string) (*arrays.Entry, error) {
	s.used[key] = true
	value := s.fields[key]
	if list, ok := value.(*pickle.List); ok && len(list.Items) == 1 { // num_nodes of data sets in version 1
		value = list.Items[0]
	}
	var r io.Reader
	var size int64
	var err error
	switch v := value.(type) {
	case int64:
		number := binary.LittleEndian.AppendUint64(nil, uint64(v))
		r, size, err = npy.Header{Descr: "<i8", Shape: []int{1}}.Stream(bytes.NewReader(number))
	case *torchfile.Tensor:
		r, size, err = v.OpenInBlocks(s.opened[key])
	case torchfile.Dense:
		r, size, err = v.Open()
	default:
		err = noTensor(v)
	}
	if err != nil {
		return nil, err
	}
	s.opened[key] = true
	return &arrays.Entry{ReadCloser: io.NopCloser(r), Size: size, Backed: true}, nil
}

// inBlocks reports whether the field of a key, if it is there, can be read in blocks.
func (s *store) inBlocks(key string) bool {
	switch v := s.fields[key].(type) {
	case nil, *pickle.Array:
		return true
	case *torchfile.Tensor:
		return v.InBlocks()
	}
	return false
}

// Count returns how many rows the field of a key that exists has. Each row takes bytes of the file.
func (s *store) Count(key string) (int, error) {
	if joined, ok := s.fields[key].(*rows); ok {
		return joined.count, nil
	}
	h, ok := headerOf(s.fields[key])
	if !ok {
		m, err := sparse(s.fields[key])
		if err != nil {
			return 0, s.Refuse(key, err)
		}
		return m.Rows, nil
	}
	n, err := arrays.CountRows(h)
	if err == nil && int64(n) > s.reader.size { // an expanded tensor has more rows than bytes
		err = fmt.Errorf("has %d rows in a file of %d bytes: save it after .clone()", n, s.reader.size)
	}
	return n, s.Refuse(key, err)
}

// matrix reads features from the field of a key that exists and is not in blocks.
func (s *store) matrix(key string, keepDense bool) (m *arrays.Matrix, err error) {
	if _, dense := s.fields[key].(torchfile.Dense); dense {
		var e *arrays.Entry
		if e, err = s.Open(key); err == nil {
			m, err = arrays.ReadMatrix(e, keepDense)
		}
	} else {
		s.used[key] = true
		var c *arrays.CSR
		if c, err = sparse(s.fields[key]); err == nil {
			m, err = c.Matrix()
		}
	}
	return m, s.Refuse(key, err)
}

// openEdges finds the edges of a store, with their weights and features.
func (s *store) openEdges() (err error) {
	switch {
	case s.Has(arrays.EdgeIndexKey):
		s.key = arrays.EdgeIndexKey
	case s.Has("adj_t"):
		s.key = "adj_t"
	case s.Has("adj"):
		s.key = "adj"
	default:
		names := s.left()
		return s.reader.refusef("has no edges%s (edge_index, adj_t or adj): its fields are %.400s", s.typeSuffix(),
			fmt.Sprint(names[:min(len(names), 20)]))
	}
	if _, dense := s.fields[s.key].(torchfile.Dense); dense && s.key == arrays.EdgeIndexKey {
		s.edges, err = s.Edges(s.key)
		return err
	}
	if err := s.openMatrix(); err != nil || s.key != "adj_t" {
		return err
	}
	s.edges = s.edges.Transposed()
	s.sizes[0], s.sizes[1] = s.sizes[1], s.sizes[0]
	return nil
}

// openMatrix finds the edges of the matrix under the store's key, one from row to column for each value.
// Compressed rows are read when they are needed.
func (s *store) openMatrix() (err error) {
	s.used[s.key] = true
	refuse := func(err error) error { return s.Refuse(s.key, err) }
	if p, ok := compressed(s.fields[s.key]); ok && s.key != arrays.EdgeIndexKey {
		s.sizes = [2]int{int(p.rows), int(p.columns)}
		s.edges, err = s.compressedEdges(p, refuse)
		return err
	}
	m, err := sparse(s.fields[s.key])
	if err != nil {
		return refuse(err)
	}
	s.sizes = [2]int{m.Rows, m.Columns}
	list, err := m.Edges()
	if err != nil {
		return refuse(err)
	}
	if s.key == arrays.EdgeIndexKey && list.Weights == nil {
		s.edges, err = s.EdgesAt(list, refuse)
		return err
	}
	s.setEdges(list) // other fields of edges may have another order
	return nil
}

// setEdges makes a list in memory the edges of the store.
func (s *store) setEdges(list graph.Edges) {
	s.edges = streamed.Listed(list, func(err error) error { return s.Refuse(s.key, err) })
}

// readEdges reads the edges of a store into its list.
func (s *store) readEdges() (err error) {
	if s.edges.Each == nil {
		if err := s.openEdges(); err != nil {
			return err
		}
	}
	if s.list, err = s.edges.Read(nil); err == nil {
		s.setEdges(s.list)
	}
	return err
}

// largest returns the largest id of the sources or targets, plus one.
func (s *store) largest(end int) (int, error) {
	if s.ids == nil {
		source, target, err := s.edges.Largest()
		if err != nil {
			return 0, err
		}
		s.ids = &[2]int{int(source) + 1, int(target) + 1}
	}
	return s.ids[end], nil
}

// edgeTypeKey is the name of the edges' relations.
const edgeTypeKey = "edge_type"

// byType divides the edges by edge_type, where there is one, into a relation for each type that occurs, by
// its number.
func (s *store) byType() ([]*store, error) {
	const key = edgeTypeKey
	if s.key != arrays.EdgeIndexKey || !s.Has(key) {
		return []*store{s}, nil
	}
	kinds, shape, err := arrays.Elements(s.Fields, key, (*npy.Array).Int32s)
	if err != nil {
		return nil, err
	}
	if len(shape) != 1 || int64(len(kinds)) != s.edges.Count {
		return nil, s.Refuse(key, fmt.Errorf("has shape %v: it must be one number for each of %d edges",
			shape, s.edges.Count))
	}
	counts := map[int32]int{}
	for _, kind := range kinds {
		counts[kind]++
		if len(counts) > maxStores {
			return nil, s.Refuse(key,
				fmt.Errorf("more than %d types of edges: at most so many are read", maxStores))
		}
	}
	if err := memory.Need(int64(len(kinds)) * int64(4+4+4*s.edges.Columns+4)); err != nil {
		return nil, s.Refuse(key, err)
	}
	lists, at := map[int32]*graph.Edges{}, 0
	for kind, n := range counts {
		lists[kind] = &graph.Edges{
			Source: make([]int32, 0, n), Target: make([]int32, 0, n), FeatureColumns: s.edges.Columns,
			Features: make([]float32, 0, n*s.edges.Columns),
		}
	}
	err = s.edges.Each(func(e graph.Edges) error {
		for k := range e.Source {
			lists[kinds[at+k]].Append(&e, k)
		}
		at += e.Len()
		return nil
	})
	if err != nil {
		return nil, err
	}
	var relations []*store
	for _, kind := range slices.Sorted(maps.Keys(lists)) {
		r := *s
		r.relation = strconv.Itoa(int(kind))
		r.setEdges(*lists[kind])
		relations = append(relations, &r)
	}
	return relations, nil
}
