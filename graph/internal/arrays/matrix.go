package arrays

import (
	"errors"
	"fmt"
	"io"

	"weft/graph"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Sparse rows take less memory than a dense matrix up to a density of 25 %: a stored value costs 8 bytes in a
// store, and 16 in a run, with its transpose. Time decides. Dense products make better use of a processor,
// and dense features of at most twice --hidden columns, 128 by default, are aggregated once for all epochs.
// Within these bounds an epoch with sparse rows was faster.
const (
	sparseDensity = 0.05
	sparseColumns = 129
)

// Matrix is the features in a file, and how many rows it has.
type Matrix struct {
	graph.Features
	InBlocks *streamed.RowSource // the features are read when they are needed; nil: they are in Features
	Rows     int
	ByID     bool // the file says to which vertex each row belongs
	// Note says that the file stores them in another form; empty: it does not.
	Note string
}

// Give gives the features to a type of vertices, by its number, and adds the note to the graph's notes.
func (m *Matrix) Give(g *streamed.Graph, vertexType int) {
	inMemory := g.InMemory
	g.Types[vertexType].Rows = m.InBlocks
	inMemory.Types[vertexType].Features = m.Features
	if m.Note != "" {
		inMemory.Notes = append(inMemory.Notes, m.Note)
	}
}

// OpenMatrix opens features. If they stay dense and can be read in blocks, they are read when they are
// needed, and otherwise at once. The matrix is opened each time that it is read. refuse adds to an error that
// it is about the matrix.
func OpenMatrix(open func() (*Entry, error), keepDense bool, refuse func(error) error) (*Matrix, error) {
	dense, rows, err := openDense(open, keepDense, refuse)
	if err != nil || dense != nil {
		return &Matrix{InBlocks: dense, Rows: rows}, err
	}
	e, err := open()
	if err != nil {
		return nil, refuse(err)
	}
	defer e.Close()
	m, err := ReadMatrix(e, keepDense)
	if err != nil {
		return nil, refuse(err)
	}
	return m, nil
}

// staysDense reports whether so many of the values are not zero that sparse rows do not pay. It reads until
// that is known, and at most the first 256 MB.
func staysDense(b *npy.Blocks, keepDense bool) (bool, error) {
	c := collector{columns: b.Shape[1], keepDense: keepDense}
	const looked = 1 << 26 // values
	most := c.most(b.Shape[0])
	for c.nonzero <= most {
		if c.rows*c.columns >= looked {
			return c.nonzero > c.most(c.rows), nil
		}
		block, err := b.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		values, err := block.Float32s()
		if err != nil {
			return false, err
		}
		c.count(values)
	}
	return true, nil
}

// ReadMatrix reads features from a V × F array. If so few values are not zero that sparse rows are smaller
// and faster, it makes sparse rows, unless keepDense is set. It makes a dense copy of the whole only if the
// features stay dense.
func ReadMatrix(e *Entry, keepDense bool) (*Matrix, error) {
	b, err := npy.NewBlocks(e, e.Size)
	if err != nil {
		return nil, err
	}
	if len(b.Shape) != 2 {
		return nil, refusal.Errorf("features of shape %v: give a matrix, one row per vertex", b.Shape)
	}
	if b.Shape[1] == 0 {
		return &Matrix{Rows: b.Shape[0]}, e.Sum()
	}
	c := collector{columns: b.Shape[1], keepDense: keepDense}
	if e.Backed {
		c.expected = b.Shape[0]
	}
	for {
		block, err := b.Next()
		if errors.Is(err, io.EOF) {
			if err := e.Sum(); err != nil {
				return nil, err
			}
			return c.matrix()
		}
		if err != nil {
			return nil, err
		}
		values, err := block.Float32s()
		if err != nil {
			return nil, err
		}
		if err := c.add(values); err != nil {
			return nil, err
		}
	}
}

// collector collects the rows of a dense matrix. It keeps them sparse until too many values are not zero.
type collector struct {
	columns   int
	keepDense bool
	expected  int // rows that are known to come; 0: unknown

	rows, nonzero int
	dense         []float32      // nil while the rows are sparse
	sparse        graph.Features // empty once they are dense
}

// add adds whole rows.
func (c *collector) add(values []float32) error {
	if err := CheckFinite(values, c.columns, c.rows); err != nil {
		return err
	}
	if c.dense == nil && c.most(1) < 0 { // sparse rows never pay
		if err := c.expand(); err != nil {
			return err
		}
	}
	nonzero := c.count(values)
	if c.dense != nil {
		var err error
		c.dense, err = memory.Append(c.dense, values...)
		return err
	}
	if err := c.compress(values, nonzero); err != nil {
		return err
	}
	// If the number of rows is unknown, the first rows do not decide.
	const first = 1 << 20
	if c.nonzero > max(first, c.most(max(c.rows, c.expected))) {
		return c.expand()
	}
	return nil
}

// count counts rows and their values other than zero, and returns how many these are.
func (c *collector) count(values []float32) (nonzero int) {
	for _, x := range values {
		if x != 0 {
			nonzero++
		}
	}
	c.rows += len(values) / c.columns
	c.nonzero += nonzero
	return nonzero
}

// CheckFinite refuses features that are not finite. The first row is that of vertex first.
func CheckFinite(values []float32, columns, first int) error {
	if k := graph.NotFinite(values); k >= 0 {
		return refusal.Errorf("feature %d of vertex %d is %v: replace values that are not finite", k%columns,
			first+k/columns, values[k])
	}
	return nil
}

// stored returns the number of values in memory.
func (c *collector) stored() int { return len(c.dense) + len(c.sparse.Data) }

// most returns how many values of so many rows may be other than zero if sparse rows are to pay.
func (c *collector) most(rows int) int {
	if c.keepDense || c.columns < sparseColumns {
		return -1
	}
	return int(sparseDensity * float64(rows) * float64(c.columns))
}

// compress adds rows, with so many values other than zero, to the sparse ones.
func (c *collector) compress(values []float32, nonzero int) (err error) {
	f := &c.sparse
	if f.Indptr == nil {
		*f = graph.Features{Columns: c.columns, Indices: []int32{}, Data: []float32{}}
		if f.Indptr, err = memory.Grow(f.Indptr, 1+c.expected); err != nil {
			return err
		}
		f.Indptr = append(f.Indptr, 0)
	}
	if f.Indptr, err = memory.Grow(f.Indptr, len(values)/c.columns); err != nil {
		return err
	}
	if f.Indices, err = memory.Grow(f.Indices, nonzero); err != nil {
		return err
	}
	if f.Data, err = memory.Grow(f.Data, nonzero); err != nil {
		return err
	}
	for at := 0; at < len(values); at += c.columns {
		for column, x := range values[at : at+c.columns] {
			if x != 0 {
				f.Indices, f.Data = append(f.Indices, int32(column)), append(f.Data, x)
			}
		}
		f.Indptr = append(f.Indptr, int64(len(f.Data)))
	}
	return nil
}

// expand makes the sparse rows dense, with capacity for the expected rows.
func (c *collector) expand() error {
	f, had := &c.sparse, max(len(c.sparse.Indptr)-1, 0)
	dense, err := memory.Grow([]float32{}, max(had, c.expected)*c.columns)
	if err != nil {
		return err
	}
	c.dense = dense[:had*c.columns]
	for i := range had {
		for k := f.Indptr[i]; k < f.Indptr[i+1]; k++ {
			c.dense[i*c.columns+int(f.Indices[k])] = f.Data[k]
		}
	}
	c.sparse = graph.Features{}
	return nil
}

// matrix returns the rows that were added.
func (c *collector) matrix() (m *Matrix, err error) {
	m = &Matrix{Rows: c.rows}
	if c.rows == 0 {
		return m, nil
	}
	switch pays := c.nonzero <= c.most(c.rows); {
	case pays && c.dense != nil:
		values := c.dense
		c.dense = nil
		err = c.compress(values, c.nonzero)
	case !pays && c.dense == nil:
		err = c.expand()
	}
	if err != nil {
		return nil, err
	}
	m.Features = c.sparse
	if c.dense != nil {
		m.Features = graph.Features{Columns: c.columns, Dense: c.dense}
		return m, nil
	}
	m.Note = fmt.Sprintf("%.2g %% of the feature values are not zero: stored as sparse rows "+
		"(--dense-features keeps them dense)",
		100*float64(c.nonzero)/(float64(c.rows)*float64(c.columns)))
	return m, nil
}
