package pyg

import (
	"errors"
	"fmt"

	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/pickle"
	"weft/internal/torchfile"
)

var errSparse = errors.New("is no tensor, or a sparse one that is not compressed by row or column, or a " +
	"list of coordinates")

// sparseParts are the tensors of a sparse matrix of PyTorch or torch_sparse.
type sparseParts struct {
	layout        torchfile.Layout
	rows, columns int64
	// bounds are the bounds of compressed rows or columns, and ids the columns or rows within them. A matrix
	// of coordinates has the row of each value, or 2 × values ids of both. values is nil if all are one.
	bounds, ids, row, values *torchfile.Tensor
}

// partsOf finds the tensors of a matrix.
func partsOf(value any) (p sparseParts, err error) {
	switch v := value.(type) {
	case *torchfile.Sparse:
		if len(v.Shape) != 2 {
			return p, fmt.Errorf("a sparse tensor of %d dimensions: a matrix has two", len(v.Shape))
		}
		p.layout, p.rows, p.columns = v.Layout, int64(v.Shape[0]), int64(v.Shape[1])
		switch {
		case (v.Layout == torchfile.CSR || v.Layout == torchfile.CSC) && len(v.Parts) == 3:
			p.bounds, p.ids, p.values = v.Parts[0], v.Parts[1], v.Parts[2]
			return p, nil
		case v.Layout == torchfile.COO && len(v.Parts) == 2:
			p.ids, p.values = v.Parts[0], v.Parts[1]
			return p, nil
		}
	case *pickle.Object:
		if v.Class == sparseClass {
			return storageParts(v)
		}
	}
	return p, errSparse
}

// storageParts finds the tensors of a SparseTensor of torch_sparse.
func storageParts(o *pickle.Object) (p sparseParts, err error) {
	attributes := attributesOf(o)
	if attributes == nil {
		return p, errSparse
	}
	value, _ := attributes.Get("storage")
	attributes = attributesOf(value)
	if attributes == nil {
		return p, errSparse
	}
	value, _ = attributes.Get("_sparse_sizes")
	dims, ok := value.(pickle.Tuple)
	if !ok || len(dims) != 2 {
		return p, errSparse
	}
	for k, to := range []*int64{&p.rows, &p.columns} {
		if *to, ok = dims[k].(int64); !ok {
			return p, errSparse
		}
	}
	for key, to := range map[string]**torchfile.Tensor{
		"_rowptr": &p.bounds, "_col": &p.ids, "_value": &p.values, "_row": &p.row,
	} {
		value, _ := attributes.Get(key)
		*to, _ = value.(*torchfile.Tensor)
	}
	if p.ids == nil || len(p.ids.Shape) != 1 {
		return p, errSparse
	}
	if p.bounds != nil {
		p.layout, p.row = torchfile.CSR, nil
		return p, nil
	}
	if p.row == nil || len(p.row.Shape) != 1 || p.row.Shape[0] != p.ids.Shape[0] {
		return p, errSparse
	}
	p.layout = torchfile.COO
	return p, nil
}

// sparse converts a sparse tensor of PyTorch or torch_sparse into a matrix.
func sparse(value any) (*arrays.CSR, error) {
	p, err := partsOf(value)
	if err != nil {
		return nil, err
	}
	array := func(t *torchfile.Tensor) (a *npy.Array) {
		if err == nil && t != nil {
			a, err = torchfile.Array(t)
		}
		return a
	}
	ids, values, bounds, row := array(p.ids), array(p.values), array(p.bounds), array(p.row)
	if err == nil && p.values == nil {
		values, err = ones(ids.Shape[0])
	}
	switch {
	case err != nil:
		return nil, err
	case p.layout == torchfile.CSR:
		return arrays.NewCSR(p.rows, p.columns, bounds, ids, values)
	case p.layout == torchfile.CSC:
		return arrays.NewCSC(p.rows, p.columns, bounds, ids, values)
	case p.row != nil:
		return arrays.NewCoordinates(p.rows, p.columns, row, ids, values)
	}
	return coordinates(p.rows, p.columns, ids, values)
}

// coordinates makes a matrix from coordinates, 2 × values.
func coordinates(rows, columns int64, indices, values *npy.Array) (*arrays.CSR, error) {
	if len(indices.Shape) != 2 || indices.Shape[0] != 2 || len(values.Shape) != 1 ||
		values.Shape[0] != indices.Shape[1] {
		return nil, fmt.Errorf("coordinates of shape %v for values of shape %v", indices.Shape, values.Shape)
	}
	ids, err := indices.Int64s()
	if err != nil {
		return nil, err
	}
	n := indices.Shape[1]
	return arrays.NewCoordinates(rows, columns, npy.New(ids[:n]), npy.New(ids[n:]), values)
}

// compressed returns the tensors of the compressed rows of a matrix. ok is false for other values, and if the
// tensors cannot be read in blocks.
func compressed(value any) (p sparseParts, ok bool) {
	p, err := partsOf(value)
	return p, err == nil && p.layout == torchfile.CSR && p.ids.InBlocks() &&
		(p.values == nil || p.values.InBlocks())
}

// matrixOf is the tensors of a store's matrix as fields.
type matrixOf struct {
	*store        // with the tensors as fields
	origin *store // the store that has the matrix
}

// Refuse puts the file and the field of the matrix before an error.
func (m matrixOf) Refuse(_ string, err error) error { return m.origin.Refuse(m.origin.key, err) }

// compressedEdges returns the edges of the matrix under the store's key.
func (s *store) compressedEdges(p sparseParts, refuse func(error) error) (streamed.Edges, error) {
	keys := [3]string{"bounds", "columns", "values"}
	fields := map[string]any{keys[0]: p.bounds, keys[1]: p.ids}
	if p.values != nil {
		fields[keys[2]] = p.values
	} else {
		keys[2] = ""
	}
	matrix := arrays.Fields{Source: matrixOf{newStore(s.reader, "", fields), s}}
	return matrix.CSREdges(p.rows, p.columns, keys, refuse)
}

// ones returns a vector of ones.
func ones(n int) (*npy.Array, error) {
	if err := memory.Need(int64(n)); err != nil {
		return nil, err
	}
	values := make([]uint8, n)
	for k := range values {
		values[k] = 1
	}
	return npy.New(values), nil
}
