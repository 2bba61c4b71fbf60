package arrays

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Source is arrays with names, in a file of some format. Complaints are refusals that name the file and the
// array.
type Source interface {
	// Has reports whether there are arrays of all those keys.
	Has(keys ...string) bool
	// Header reads the header of the array of an existing key.
	Header(key string) (npy.Header, error)
	// Open opens the array of an existing key, to be read as a .npy file. Its errors do not name the array.
	Open(key string) (*Entry, error)
	// Count is how many rows the array of an existing key has. All of them take bytes of the file.
	Count(key string) (int, error)
	// Refuse prefixes an error with the file and the array. nil stays nil.
	Refuse(key string, err error) error
}

// Fields reads the parts of a graph from arrays of its vertices and edges. Unless a key is given, it takes
// the names of PyTorch Geometric.
type Fields struct{ Source }

// Array reads the array of a key that exists. The memory grows with the bytes that come.
func (f Fields) Array(key string) (a *npy.Array, err error) {
	e, err := f.Open(key)
	if err == nil {
		defer e.Close()
		a, err = npy.Read(e, e.Size)
	}
	if err == nil {
		err = e.Sum()
	}
	return a, f.Refuse(key, err)
}

// Elements reads the array of a key that exists as values of a kind, and returns its shape.
func Elements[T any](f Fields, key string,
	convert func(*npy.Array) ([]T, error),
) (values []T, shape []int, err error) {
	a, err := f.Array(key)
	if err != nil {
		return nil, nil, err
	}
	values, err = convert(a)
	return values, a.Shape, f.Refuse(key, err)
}

// Vertices returns V: num_nodes, or else the number of rows of y or x; 0: none of these is there. Vertices
// cost a file nothing, so the number of edges bounds num_nodes.
func (f Fields) Vertices(edges int) (int, error) {
	if f.Has("num_nodes") {
		n, _, err := Elements(f, "num_nodes", (*npy.Array).Int64s)
		if err != nil {
			return 0, err
		}
		if len(n) != 1 || n[0] <= 0 || n[0] > MaxVertices(edges) {
			return 0, f.refusef("num_nodes", "is %.60s: it must be one number, from 1 to %d for %d edges",
				fmt.Sprint(n[:min(len(n), 4)]), MaxVertices(edges), edges)
		}
		return int(n[0]), nil
	}
	n := 0
	for _, key := range []string{"y", "x"} {
		if !f.Has(key) {
			continue
		}
		rows, err := f.Count(key)
		if err != nil {
			return 0, err
		}
		if n > 0 && rows != n {
			return 0, f.refusef(key, "has %d rows, and \"y\" has %d", rows, n)
		}
		n = rows
	}
	return n, nil
}

// EdgeIndexKey is the name of the edges, 2 × E, sources above targets.
const EdgeIndexKey = "edge_index"

// The names of the edges' weights and features.
const (
	weightsKey      = "edge_weight"
	edgeFeaturesKey = "edge_attr"
)

// countEdges returns how many edges an array of that shape has: 2 × E under EdgeIndexKey, E × 2 under any
// other.
func (f Fields) countEdges(key string, shape []int) (int, error) {
	switch {
	case key == EdgeIndexKey && len(shape) == 2 && shape[0] == 2:
		return shape[1], nil
	case key == EdgeIndexKey:
		return 0, f.refusef(key, "has shape %v: it must be 2 × E, source and target", shape)
	case len(shape) == 2 && shape[1] == 2:
		return shape[0], nil
	}
	return 0, f.refusef(key, "has shape %v: it must be E × 2, source and target", shape)
}

// checkFiniteWeights refuses weights that are not finite. The first weight is that of edge first.
func (f Fields) checkFiniteWeights(w []float32, first int) error {
	if k := graph.NotFinite(w); k >= 0 {
		return f.refusef(weightsKey, "edge %d of the file has the weight %v", first+k, w[k])
	}
	return nil
}

// edgeColumns returns how many features an edge has in an array of that shape.
func (f Fields) edgeColumns(shape []int, edges int) (int, error) {
	switch n := len(shape); {
	case n < 1 || n > 2 || shape[0] != edges:
		return 0, f.refusef(edgeFeaturesKey, "has shape %v: it must have a row for each of %d edges", shape,
			edges)
	case n == 1:
		return 1, nil
	}
	return shape[1], nil
}

// checkEdgeFeatures refuses features that are not finite. The first row is that of edge first.
func (f Fields) checkEdgeFeatures(rows []float32, columns, first int) error {
	if k := graph.NotFinite(rows); k >= 0 {
		return f.refusef(edgeFeaturesKey, "edge %d of the file has the value %v in column %d",
			first+k/columns, rows[k], k%columns)
	}
	return nil
}

// AnyRows stands for any number of vertices.
const AnyRows = -1

// Features opens the features of vertices vertices. If they stay dense and can be read in blocks, they are
// read when they are needed, and otherwise at once.
func (f Fields) Features(key string, vertices int, keepDense bool) (*Matrix, error) {
	refuse := func(err error) error { return f.Refuse(key, err) }
	m, err := OpenMatrix(func() (*Entry, error) { return f.Open(key) }, keepDense, refuse)
	if err != nil || vertices == AnyRows {
		return m, err
	}
	return m, f.Rows(key, m.Rows, vertices)
}

// Labels reads the labels of so many rows.
func (f Fields) Labels(key string, rows int, row graph.Noun) (graph.Labels, error) {
	array, err := f.Array(key)
	if err != nil {
		return graph.Labels{}, err
	}
	l, err := Labels(array, row)
	if err != nil {
		return l, f.Refuse(key, err)
	}
	return l, f.Rows(key, array.Shape[0], rows)
}

// BatchKey is the name of the ids of the vertices' graphs, if several are stored as one.
const BatchKey = "batch"

// GiveGraphs sets to which graph each vertex belongs, from ids of graphs: whole numbers, for the vertices of
// each type in turn, equal for the vertices of a graph.
func GiveGraphs(g *graph.Graph, ids [][]int64) (err error) {
	var all []int32
	if all, g.Graphs, err = graph.NumberGraphs(slices.Concat(ids...)); err != nil {
		return err
	}
	for t, list := range ids {
		n := len(list)
		g.Types[t].GraphOf, all = all[:n:n], all[n:]
	}
	return nil
}

// GraphsNote says how many graphs a file has that names the graph of each vertex.
func GraphsNote(graphs int) string {
	return fmt.Sprintf("%s, by %q", Counted(graphs, "graph"), BatchKey)
}

// GraphIDs reads the array batch, which exists, for so many vertices.
func (f Fields) GraphIDs(vertices int) ([]int64, error) {
	ids, shape, err := Elements(f, BatchKey, (*npy.Array).Int64s)
	if err == nil && (len(shape) != 1 || shape[0] != vertices) {
		err = f.refusef(BatchKey, "has shape %v: it must be the number of a graph for each of %d vertices",
			shape, vertices)
	}
	return ids, err
}

// Rows refuses an array with another number of rows than it must have.
func (f Fields) Rows(key string, rows, want int) error {
	if rows != want {
		return f.refusef(key, "has %d rows, not %d", rows, want)
	}
	return nil
}

// MaskKeys are the names of the masks, each of V values or V × splits.
var MaskKeys = [3]string{"train_mask", "val_mask", "test_mask"}

// Splits reads the arrays of those names for training, validation and test rows, if they are there. An
// array has a mask for each split. masks separates it into the vertices of each.
func (f Fields) Splits(keys [3]string, rows int, labels *graph.Labels,
	masks func(a *npy.Array, rows int, row graph.Noun) ([][]int64, error),
) ([]graph.Split, error) {
	if !slices.ContainsFunc(keys[:], func(key string) bool { return f.Has(key) }) {
		return nil, nil
	}
	if !f.Has(keys[0]) {
		return nil, f.refusef(keys[0], "is missing beside %q and %q", keys[1], keys[2])
	}
	var parts [3][][]int64
	for part, key := range keys {
		if !f.Has(key) {
			continue
		}
		var err error
		parts[part], _, err = Elements(f, key,
			func(a *npy.Array) ([][]int64, error) { return masks(a, rows, labels.Noun()) })
		if err != nil {
			return nil, err
		}
	}
	splits, err := Splits(parts, keys, labels)
	if failed := (partError{}); errors.As(err, &failed) {
		return nil, f.Refuse(failed.name, failed.error)
	}
	return splits, f.Refuse(keys[0], err)
}

// CountRows returns how many rows an array of that shape has. Rows may be empty, and any number of empty rows
// takes no bytes, so it refuses these.
func CountRows(h npy.Header) (int, error) {
	if n, err := h.Elements(); err != nil || n == 0 || len(h.Shape) == 0 || h.Shape[0] > math.MaxInt32 {
		return 0, refusal.Errorf("has shape %v: give one row for each vertex", h.Shape)
	}
	return h.Shape[0], nil
}

// refusef refuses the array of a key.
func (f Fields) refusef(key, format string, args ...any) error {
	return f.Refuse(key, refusal.Errorf(format, args...))
}
