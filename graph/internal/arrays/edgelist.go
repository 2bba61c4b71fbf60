package arrays

import (
	"errors"
	"io"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/internal/pump"
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
	edges, err := f.countEdges(key, h.Shape)
	if err != nil {
		return e, err
	}
	e.Count = int64(edges)
	if e.Weighted = f.Has(weightsKey); e.Weighted {
		if h, err = f.Header(weightsKey); err == nil {
			err = f.checkWeights(h.Shape, edges)
		}
		if err != nil {
			return e, err
		}
	}
	if f.Has(edgeFeaturesKey) {
		if h, err = f.Header(edgeFeaturesKey); err == nil {
			e.Columns, err = f.edgeColumns(h.Shape, edges)
		}
		if err != nil {
			return e, err
		}
	}
	e.Refuse = func(err error) error { return f.Refuse(key, err) }
	list := &edgeArrays{Fields: f, weights: weightsKey, weighted: e.Weighted, columns: e.Columns}
	list.open = func() (endsReader, error) {
		ends, err := OpenEnds(EndsOptions{
			Open: func() (*Entry, error) { return f.Open(key) }, ByEnd: key == EdgeIndexKey,
			Low: math.MinInt32, High: [2]int64{math.MaxInt32 + 1, math.MaxInt32 + 1},
			Outside: func(element int, id, _ int64) error { return npy.ExceedsInt32(element, id) },
		})
		if err != nil {
			return nil, f.Refuse(key, err)
		}
		return endsOf{ends, e.Refuse}, nil
	}
	e.Each = list.each
	return e, nil
}

// endsReader reads the ends of edges.
type endsReader interface {
	// Next is that of Ends. Its errors name the array.
	Next() (source, target []int32, err error)
	Close()
}

// endsOf is Ends of an array.
type endsOf struct {
	*Ends
	refuse func(error) error
}

func (e endsOf) Next() (source, target []int32, err error) {
	if source, target, err = e.Ends.Next(); err != nil && !errors.Is(err, io.EOF) {
		err = e.refuse(err)
	}
	return source, target, err
}

// edgeArrays are edges and what they have, in arrays.
type edgeArrays struct {
	Fields
	open     func() (endsReader, error)
	weights  string // key
	weighted bool
	columns  int // of edge_attr
}

// each implements streamed.Edges.Each.
func (l *edgeArrays) each(do func(graph.Edges) error) error {
	ends, err := l.open()
	if err != nil {
		return err
	}
	defer ends.Close()
	beside := [2]besideEdges{{key: l.weights}, {key: edgeFeaturesKey, columns: l.columns}}
	if l.weighted {
		beside[0].columns = 1
	}
	for k := range beside {
		if err := beside[k].open(l.Fields); err != nil {
			return err
		}
		defer beside[k].close()
	}
	for at := 0; ; {
		source, target, err := ends.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for len(source) > 0 {
			n := len(source)
			for k := range beside {
				if n, err = beside[k].atMost(l.Fields, n, at); err != nil {
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
	for k := range beside {
		if err := beside[k].end(l.Fields); err != nil {
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

// CSREdges are the edges from the rows of a sparse matrix to its columns, one for each value. The arrays of the
// keys are those of a SciPy csr_matrix: indptr, indices and data. The edges have no weights where all values
// are one. refuse says of an error that it is about the matrix.
func (f Fields) CSREdges(rows, columns int64, keys [3]string, refuse func(error) error) (e streamed.Edges, err error) {
	indptr, err := f.Array(keys[0])
	if err != nil {
		return e, err
	}
	var shapes [2][]int
	for k := range shapes {
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
	e.Count, e.Refuse = int64(shapes[0][0]), refuse
	values := besideEdges{key: keys[2], columns: 1}
	if err := values.open(f); err != nil {
		return e, err
	}
	defer values.close()
	for at := 0; ; at += len(values.left) {
		if values.left, err = values.rows.Next(); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return e, f.Refuse(keys[2], err)
		}
		if err := checkValues(values.left, at); err != nil {
			return e, refuse(err)
		}
		e.Weighted = e.Weighted || slices.ContainsFunc(values.left, func(w float32) bool { return w != 1 })
	}
	list := &edgeArrays{Fields: f, weights: keys[2], weighted: e.Weighted}
	list.open = func() (endsReader, error) { return f.openCSR(m, keys[1], refuse) }
	e.Each = list.each
	return e, nil
}

// csrEnds reads the ends of the edges of a sparse matrix.
type csrEnds struct {
	Fields
	*CSR
	key     string // of the columns
	refuse  func(error) error
	file    *reading
	columns *pump.Pump[[]int32]
	outside error // an id is no column

	row    int   // of the next edge
	at     int64 // its number
	source []int32
}

func (f Fields) openCSR(m *CSR, key string, refuse func(error) error) (*csrEnds, error) {
	c := &csrEnds{Fields: f, CSR: m, key: key, refuse: refuse}
	entry, err := f.Open(key)
	if err != nil {
		return nil, f.Refuse(key, err)
	}
	blocks, err := npy.NewBlocks(entry, entry.Size)
	if err != nil {
		_ = entry.Close()
		return nil, f.Refuse(key, err)
	}
	c.file = &reading{blocks, entry}
	high := int64(m.Columns)
	c.columns = c.file.ids(0, 0, [2]int64{high, high}, func(element int, id, _ int64) error {
		if id < math.MinInt32 || id > math.MaxInt32 {
			return npy.ExceedsInt32(element, id)
		}
		c.outside = noColumn(id, m.Columns)
		return c.outside
	})
	return c, nil
}

// Next implements endsReader.
func (c *csrEnds) Next() (source, target []int32, err error) {
	target, err = c.columns.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, err
	case err != nil && c.outside != nil: // the pump has ended
		return nil, nil, c.refuse(c.outside)
	case err != nil:
		return nil, nil, c.Refuse(c.key, err)
	}
	c.source = c.source[:0]
	for range target {
		for c.at == c.Indptr[c.row+1] {
			c.row++
		}
		c.source = append(c.source, int32(c.row))
		c.at++
	}
	return c.source, target, nil
}

// Close implements endsReader.
func (c *csrEnds) Close() {
	c.columns.Close()
	_ = c.file.entry.Close()
}

// DenseRows are the features under a key, and how many rows they have, if they stay dense and can be read in
// blocks. Otherwise rows is nil.
func (f Fields) DenseRows(key string, keepDense bool) (rows *streamed.Rows, n int, err error) {
	refuse := func(err error) error { return f.Refuse(key, err) }
	return denseRows(func() (*Entry, error) { return f.Open(key) }, keepDense, refuse)
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
	if dense, err := staysDense(b, keepDense); err != nil {
		return nil, 0, refuse(err)
	} else if !dense {
		return nil, 0, nil
	}
	columns := b.Shape[1]
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
	return &streamed.Rows{Columns: columns, Each: each}, b.Shape[0], nil
}
