package arrays

import (
	"errors"
	"io"
	"math"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/npy"
)

// Edges are the edges in the array of a key, 2 × E under EdgeIndexKey and E × 2 under any other, with
// edge_weight and edge_attr, where these are there. The arrays are opened, and read, when Each is called.
func (f Fields) Edges(key string) (e streamed.Edges, err error) {
	h, err := f.Header(key)
	if err != nil {
		return e, err
	}
	list := &edgeFields{Fields: f, key: key}
	if list.edges, err = f.countEdges(key, h.Shape); err != nil {
		return e, err
	}
	if list.weighted = f.Has(weightsKey); list.weighted {
		if h, err = f.Header(weightsKey); err == nil {
			err = f.checkWeights(h.Shape, list.edges)
		}
		if err != nil {
			return e, err
		}
	}
	if f.Has(edgeFeaturesKey) {
		if h, err = f.Header(edgeFeaturesKey); err == nil {
			list.columns, err = f.edgeColumns(h.Shape, list.edges)
		}
		if err != nil {
			return e, err
		}
	}
	refuse := func(err error) error { return f.Refuse(key, err) }
	return streamed.Edges{Count: int64(list.edges), Weighted: list.weighted, Columns: list.columns, Each: list.each, Refuse: refuse}, nil
}

// edgeFields are edges and what they have, in arrays.
type edgeFields struct {
	Fields
	key      string
	edges    int
	weighted bool
	columns  int
}

// each implements streamed.Edges.Each.
func (l *edgeFields) each(do func(graph.Edges) error) error {
	ends, err := OpenEnds(EndsOptions{
		Open: func() (*Entry, error) { return l.Open(l.key) }, ByEnd: l.key == EdgeIndexKey, Low: math.MinInt32, High: [2]int64{math.MaxInt32 + 1, math.MaxInt32 + 1},
		Outside: func(element int, id, _ int64) error { return npy.ExceedsInt32(element, id) },
	})
	if err != nil {
		return l.Refuse(l.key, err)
	}
	defer ends.Close()
	beside := []*besideEdges{{key: weightsKey, columns: 1}, {key: edgeFeaturesKey, columns: l.columns}}
	if !l.weighted {
		beside[0].columns = 0
	}
	for _, b := range beside {
		if err := b.open(l.Fields); err != nil {
			return err
		}
		defer b.close()
	}
	for at := 0; ; {
		source, target, err := ends.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l.Refuse(l.key, err)
		}
		for len(source) > 0 {
			n := len(source)
			for _, b := range beside {
				if n, err = b.atMost(l.Fields, n, at); err != nil {
					return err
				}
			}
			e := graph.Edges{Source: source[:n], Target: target[:n], Weights: beside[0].take(n), Features: beside[1].take(n), FeatureColumns: l.columns}
			if err := do(e); err != nil {
				return err
			}
			source, target, at = source[n:], target[n:], at+n
		}
	}
	for _, b := range beside {
		if err := b.end(l.Fields); err != nil {
			return err
		}
	}
	return nil
}

// besideEdges is an array with a row for each edge, of no columns if it is not there.
type besideEdges struct {
	key     string
	columns int
	rows    *Rows
	left    []float32 // values that have been read, and not taken
}

func (b *besideEdges) open(f Fields) error {
	if b.columns == 0 {
		return nil
	}
	entry, err := f.Open(b.key)
	if err == nil {
		b.rows, err = OpenRows(entry)
	}
	if err != nil {
		return f.Refuse(b.key, err)
	}
	return nil
}

func (b *besideEdges) close() {
	if b.rows != nil {
		b.rows.Close()
	}
}

// atMost returns how many rows are there to take, at most n. The first is that of edge at.
func (b *besideEdges) atMost(f Fields, n, at int) (int, error) {
	if b.columns == 0 {
		return n, nil
	}
	if len(b.left) == 0 {
		var err error
		if b.left, err = b.rows.Next(); err != nil { // not io.EOF: there are as many rows as edges
			return 0, f.Refuse(b.key, err)
		}
		if b.key == edgeFeaturesKey {
			if err := f.checkEdgeFeatures(b.left, b.columns, at); err != nil {
				return 0, err
			}
		}
	}
	return min(n, len(b.left)/b.columns), nil
}

// take returns the next n rows, nil where there are none.
func (b *besideEdges) take(n int) (rows []float32) {
	if b.columns == 0 {
		return nil
	}
	rows, b.left = b.left[:n*b.columns], b.left[n*b.columns:]
	return rows
}

// end makes sure that the array ends behind the rows that were taken.
func (b *besideEdges) end(f Fields) error {
	if b.columns == 0 {
		return nil
	}
	if _, err := b.rows.Next(); err != nil && !errors.Is(err, io.EOF) {
		return f.Refuse(b.key, err)
	}
	return nil
}

// DenseRows are the features under a key, of so many vertices, if they stay dense and can be read in blocks;
// otherwise nil.
func (f Fields) DenseRows(key string, vertices int, keepDense bool) (*streamed.Rows, error) {
	refuse := func(err error) error { return f.Refuse(key, err) }
	rows, n, err := denseRows(func() (*Entry, error) { return f.Open(key) }, keepDense, refuse)
	if err != nil || rows == nil {
		return nil, err
	}
	return rows, f.Rows(key, n, vertices)
}

// denseRows are the rows of a matrix, and how many there are, if they stay dense and can be read in blocks.
func denseRows(open func() (*Entry, error), keepDense bool, refuse func(error) error) (made *streamed.Rows, rows int, err error) {
	entry, err := open()
	if err != nil {
		return nil, 0, refuse(err)
	}
	defer entry.Close()
	b, err := npy.NewBlocks(entry, entry.Size)
	if err != nil {
		return nil, 0, refuse(err)
	}
	if len(b.Shape) != 2 || b.Fortran || b.Shape[0] == 0 || b.Shape[1] == 0 {
		return nil, 0, nil
	}
	shape := b.Shape
	if dense, err := staysDense(b, keepDense); err != nil || !dense {
		if err != nil {
			err = refuse(err)
		}
		return nil, 0, err
	}
	each := func(do func([]float32) error) error {
		entry, err := open()
		if err != nil {
			return refuse(err)
		}
		r, err := OpenRows(entry)
		if err != nil {
			return refuse(err)
		}
		defer r.Close()
		for at := 0; ; {
			rows, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = CheckFinite(rows, shape[1], at)
			}
			if err != nil {
				return refuse(err)
			}
			if err := do(rows); err != nil {
				return err
			}
			at += len(rows) / shape[1]
		}
	}
	return &streamed.Rows{Columns: shape[1], Each: each}, shape[0], nil
}
