package arrays

import (
	"errors"
	"io"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/npy"
)

// Edges are the edges in the array of a key, 2 × E under EdgeIndexKey and E × 2 under any other, with
// edge_weight and edge_attr, if these are there. The arrays are opened, and read, when Each is called.
func (f Fields) Edges(key string) (e streamed.Edges, err error) {
	h, err := f.Header(key)
	if err != nil {
		return e, err
	}
	edges, err := f.countEdges(key, h.Shape)
	if err != nil {
		return e, err
	}
	return f.edgesWith(edges, EdgeArrays{Open: func() (EndsReader, error) {
		return OpenEnds(EndsOptions{
			Open: func() (*Entry, error) { return f.Open(key) }, ByEnd: key == EdgeIndexKey,
			Low: math.MinInt32, High: [2]int64{math.MaxInt32 + 1, math.MaxInt32 + 1},
			Outside: func(element int, id, _ int64) error { return npy.ExceedsInt32(element, id) },
		})
	}, Refuse: func(err error) error { return f.Refuse(key, err) }})
}

// EdgesAt are edges in memory, without weights and features, together with those that Edges would read.
// refuse adds to an error that it is about them.
func (f Fields) EdgesAt(ends graph.Edges, refuse func(error) error) (streamed.Edges, error) {
	open := func() (EndsReader, error) { return EndsInMemory(ends.Source, ends.Target), nil }
	return f.edgesWith(ends.Len(), EdgeArrays{Open: open, Refuse: refuse})
}

// EndsInMemory reads the ends of edges in memory.
func EndsInMemory(source, target []int32) EndsReader { return &inMemory{source, target} }

type inMemory struct{ source, target []int32 }

// Next implements EndsReader.
func (m *inMemory) Next() (source, target []int32, err error) {
	if len(m.source) == 0 {
		return nil, nil, io.EOF
	}
	source, target = m.source, m.target
	m.source, m.target = nil, nil
	return source, target, nil
}

// Close implements EndsReader.
func (m *inMemory) Close() {}

// edgesWith are the edges of a list, with edge_weight and edge_attr, if these are there.
func (f Fields) edgesWith(edges int, list EdgeArrays) (e streamed.Edges, err error) {
	e.Count, e.Refuse = int64(edges), list.Refuse
	e.Weighted = f.Has(weightsKey)
	if e.Weighted {
		h, err := f.Header(weightsKey)
		if err != nil {
			return e, err
		}
		if len(h.Shape) != 1 || h.Shape[0] != edges {
			return e, f.refusef(weightsKey, "has shape %v: it must be one number for each of %d edges",
				h.Shape, edges)
		}
		list.Weights = f.edgeArray(weightsKey, 1)
		list.Weights.Check = f.checkFiniteWeights
	}
	if f.Has(edgeFeaturesKey) {
		h, err := f.Header(edgeFeaturesKey)
		if err == nil {
			e.Columns, err = f.edgeColumns(h.Shape, edges)
		}
		if err != nil {
			return e, err
		}
	}
	if columns := e.Columns; columns > 0 {
		list.Features = f.edgeArray(edgeFeaturesKey, columns)
		list.Features.Check = func(rows []float32, first int) error {
			return f.checkEdgeFeatures(rows, columns, first)
		}
	}
	e.Each = list.Each
	return e, nil
}

// edgeArray is the array of a key, which has a row for each edge.
func (f Fields) edgeArray(key string, columns int) *Beside {
	return &Beside{
		Columns: columns,
		Open:    func() (RowReader, error) { return OpenRows(func() (*Entry, error) { return f.Open(key) }) },
		Refuse:  func(err error) error { return f.Refuse(key, err) },
	}
}

// EdgeArrays are edges and what they have, in arrays that are opened when they are read.
type EdgeArrays struct {
	Open              func() (EndsReader, error)
	Refuse            func(error) error // adds to an error that it is about the ends
	Weights, Features *Beside           // nil: there are none
}

// RowReader reads the rows of a matrix.
type RowReader interface {
	// Next returns the next rows, row-major, which the next call may overwrite, and io.EOF after the last.
	Next() ([]float32, error)
	Close()
}

// Beside is an array with a row for each edge.
type Beside struct {
	Columns int
	Open    func() (RowReader, error)
	Check   func(rows []float32, first int) error // refuses values of the edges from first on; nil: none
	Refuse  func(error) error                     // adds to an error that it is about the array
}

// Each implements streamed.Edges.Each.
func (l *EdgeArrays) Each(do func(graph.Edges) error) error {
	ends, err := l.Open()
	if err != nil {
		return l.Refuse(err)
	}
	defer ends.Close()
	var rows [2]*edgeRows
	for k, b := range []*Beside{l.Weights, l.Features} {
		if b == nil {
			continue
		}
		if rows[k], err = b.open(); err != nil {
			return err
		}
		defer rows[k].rows.Close()
	}
	columns := 0
	if l.Features != nil {
		columns = l.Features.Columns
	}
	for at := 0; ; {
		source, target, err := ends.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return l.Refuse(err)
		}
		for len(source) > 0 {
			n := len(source)
			for _, r := range rows {
				if n, err = r.atMost(n, at); err != nil {
					return err
				}
			}
			e := graph.Edges{
				Source: source[:n], Target: target[:n], Weights: rows[0].take(n),
				Features: rows[1].take(n), FeatureColumns: columns,
			}
			if err := do(e); err != nil {
				return err
			}
			source, target, at = source[n:], target[n:], at+n
		}
	}
	for _, r := range rows {
		if err := r.end(); err != nil {
			return err
		}
	}
	return nil
}

// edgeRows are the rows of a Beside; nil: there are none.
type edgeRows struct {
	*Beside
	rows RowReader
	left []float32 // values that have been read and not taken
}

func (b *Beside) open() (*edgeRows, error) {
	rows, err := b.Open()
	if err != nil {
		return nil, b.Refuse(err)
	}
	return &edgeRows{Beside: b, rows: rows}, nil
}

// atMost returns how many rows can be taken, at most n. The first is that of edge at.
func (r *edgeRows) atMost(n, at int) (_ int, err error) {
	if r == nil {
		return n, nil
	}
	if len(r.left) == 0 {
		if r.left, err = r.rows.Next(); err != nil { // there are as many rows as edges, so this is not io.EOF
			return 0, r.Refuse(err)
		}
		if r.Check != nil {
			if err := r.Check(r.left, at); err != nil {
				return 0, err
			}
		}
	}
	return min(n, len(r.left)/r.Columns), nil
}

// take returns the next n rows.
func (r *edgeRows) take(n int) (rows []float32) {
	if r == nil {
		return nil
	}
	rows, r.left = r.left[:n*r.Columns], r.left[n*r.Columns:]
	return rows
}

// end checks that the array ends behind the rows that were taken.
func (r *edgeRows) end() error {
	if r == nil {
		return nil
	}
	if _, err := r.rows.Next(); err != nil && !errors.Is(err, io.EOF) {
		return r.Refuse(err)
	}
	return nil
}

// CSREdges are the edges from the rows of a sparse matrix to its columns, one for each value. The arrays of
// the keys are those of a SciPy csr_matrix: indptr, indices and data. The edges have no weights if all values
// are one, or the key of data is empty. refuse adds to an error that it is about the matrix.
func (f Fields) CSREdges(rows, columns int64, keys [3]string,
	refuse func(error) error,
) (e streamed.Edges, err error) {
	indptr, err := f.Array(keys[0])
	if err != nil {
		return e, err
	}
	var shapes [2][]int // of indices and data
	for k := range shapes {
		shapes[k] = shapes[0]
		if keys[1+k] == "" {
			continue
		}
		h, err := f.Header(keys[1+k])
		if err != nil {
			return e, err
		}
		shapes[k] = h.Shape
	}
	m, err := newBounds(rows, columns, indptr, shapes[0], shapes[1])
	if err != nil {
		return e, refuse(err)
	}
	if keys[2] != "" {
		if e.Weighted, err = f.weighted(keys[2], refuse); err != nil {
			return e, err
		}
	}
	var noColumn error // an element that is no column
	list := EdgeArrays{Open: func() (EndsReader, error) {
		entry, err := f.Open(keys[1])
		if err != nil {
			return nil, err
		}
		return OpenCSR(m, entry, func(element int, id, high int64) error {
			if id < math.MinInt32 || id > math.MaxInt32 {
				return npy.ExceedsInt32(element, id)
			}
			noColumn = columnOutside(id, high)
			return noColumn
		})
	}, Refuse: func(err error) error {
		if noColumn != nil { // whoever reads ahead has ended
			return refuse(noColumn)
		}
		return f.Refuse(keys[1], err)
	}}
	if e.Weighted {
		list.Weights = f.edgeArray(keys[2], 1)
	}
	e.Count, e.Each, e.Refuse = int64(shapes[0][0]), list.Each, refuse
	return e, nil
}

// weighted reads the values of a sparse matrix, and reports whether one of them is not one.
func (f Fields) weighted(key string, refuse func(error) error) (some bool, err error) {
	values, err := f.edgeArray(key, 1).open()
	if err != nil {
		return false, err
	}
	defer values.rows.Close()
	for at := 0; ; {
		rows, err := values.rows.Next()
		if errors.Is(err, io.EOF) {
			return some, nil
		}
		if err != nil {
			return false, f.Refuse(key, err)
		}
		if err := checkValues(rows, at); err != nil {
			return false, refuse(err)
		}
		some = some || slices.ContainsFunc(rows, func(w float32) bool { return w != 1 })
		at += len(rows)
	}
}

// openDense opens the rows of a matrix, and tells their number, if they stay dense and can be read in blocks.
// Otherwise the rows are nil.
func openDense(open func() (*Entry, error), keepDense bool,
	refuse func(error) error,
) (made *streamed.RowSource, rows int, err error) {
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
	if dense, err := staysDense(b, keepDense); err != nil {
		return nil, 0, refuse(err)
	} else if !dense {
		return nil, 0, nil
	}
	columns := b.Shape[1]
	each := func(do func([]float32) error) error {
		r, err := OpenRows(open)
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
				err = CheckFinite(rows, columns, at)
			}
			if err != nil {
				return refuse(err)
			}
			if err := do(rows); err != nil {
				return err
			}
			at += len(rows) / columns
		}
	}
	return &streamed.RowSource{Columns: columns, Each: each, Refuse: refuse}, b.Shape[0], nil
}
