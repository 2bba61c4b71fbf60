package arrays

import (
	"math"
	"slices"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// CSR is a matrix of compressed sparse rows whose arrays agree: row i holds Data[k] at column Indices[k] for
// k in Indptr[i]…Indptr[i+1]−1. Columns may come in any order and more than once.
type CSR struct {
	Rows, Columns int
	Indptr        []int64 // len Rows+1
	Indices       []int32
	Data          []float32
}

// NewCSR checks the three arrays of a SciPy csr_matrix against its shape and each other.
func NewCSR(rows, columns int64, indptr, indices, data *npy.Array) (*CSR, error) {
	m, err := newBounds(rows, columns, indptr, indices.Shape, data.Shape)
	if err != nil {
		return nil, err
	}
	if m.Indices, err = indices.Int32s(); err != nil {
		return nil, err
	}
	if m.Data, err = data.Float32s(); err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(m.Indices, func(c int32) bool { return c < 0 || int(c) >= m.Columns }); k >= 0 {
		return nil, columnOutside(int64(m.Indices[k]), int64(m.Columns))
	}
	return m, checkValues(m.Data, 0)
}

// newBounds is NewCSR when only the bounds of the rows are there, and the shapes of the other two arrays.
func newBounds(rows, columns int64, indptr *npy.Array, indices, data []int) (*CSR, error) {
	if rows < 0 || columns < 0 || rows > math.MaxInt32 || columns > math.MaxInt32 {
		return nil, refusal.Errorf("a sparse matrix of %d × %d: at most 2³¹−1 rows and columns are read",
			rows, columns)
	}
	if len(indptr.Shape) != 1 || len(indices) != 1 || len(data) != 1 {
		return nil, refusal.Errorf("indptr, indices and data of a sparse matrix must be vectors")
	}
	m := &CSR{Rows: int(rows), Columns: int(columns)}
	var err error
	if m.Indptr, err = indptr.Int64s(); err != nil {
		return nil, err
	}
	if len(m.Indptr) != m.Rows+1 || data[0] != indices[0] {
		return nil, refusal.Errorf("a sparse matrix of %d rows with %d row bounds, %d column ids and %d "+
			"values", rows, len(m.Indptr), indices[0], data[0])
	}
	if !slices.IsSorted(m.Indptr) || m.Indptr[0] != 0 || m.Indptr[m.Rows] != int64(indices[0]) {
		return nil, refusal.Errorf("the row bounds of a sparse matrix do not ascend from 0 to the %d "+
			"values it has", indices[0])
	}
	return m, nil
}

// columnOutside refuses the id of a column.
func columnOutside(id, columns int64) error {
	return refusal.Errorf("column %d of a sparse matrix of %d columns", id, columns)
}

// checkValues refuses values that are not finite. first is the number of the first of them in the matrix.
func checkValues(values []float32, first int) error {
	if k := graph.NotFinite(values); k >= 0 {
		return refusal.Errorf("value %d of a sparse matrix is %v: replace values that are not finite",
			first+k, values[k])
	}
	return nil
}

// NewCoordinates makes the matrix that has data[k] at row row[k] and column column[k]. The vectors are of
// equal length.
func NewCoordinates(rows, columns int64, row, column, data *npy.Array) (*CSR, error) {
	ids, err := row.Int32s()
	if err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(ids, func(i int32) bool { return i < 0 || int64(i) >= rows }); k >= 0 {
		return nil, refusal.Errorf("row %d of a sparse matrix of %d rows", ids[k], rows)
	}
	// As one row that holds everything, the columns and values are checked like those of any matrix.
	all, err := NewCSR(1, columns, npy.New([]int64{0, int64(len(ids))}), column, data)
	if err != nil {
		return nil, err
	}
	return all.byRow(rows, ids)
}

// NewCSC is NewCSR for the arrays of a csc_matrix, whose columns are compressed.
func NewCSC(rows, columns int64, indptr, indices, data *npy.Array) (*CSR, error) {
	t, err := NewCSR(columns, rows, indptr, indices, data)
	if err != nil {
		return nil, err
	}
	ids := t.Indices
	if err := memory.Need(4 * int64(len(ids))); err != nil {
		return nil, err
	}
	t.Indices = make([]int32, len(ids))
	for column := range t.Rows {
		for k := t.Indptr[column]; k < t.Indptr[column+1]; k++ {
			t.Indices[k] = int32(column)
		}
	}
	t.Columns = int(columns)
	return t.byRow(rows, ids)
}

// byRow sorts the values by row: value k belongs to row row[k]. Values of a row keep their order. In such a
// file an empty row takes no bytes.
func (m *CSR) byRow(rows int64, row []int32) (*CSR, error) {
	if rows < 0 || rows > MaxVertices(len(row)) {
		return nil, refusal.Errorf("a sparse matrix of %d rows with only %d values: save it as a csr_matrix",
			rows, len(row))
	}
	const bounds, value = 2 * 8, 4 + 4 // of a row, with the bounds of the next places
	if err := memory.Need(bounds*(rows+1) + value*int64(len(row))); err != nil {
		return nil, err
	}
	dealt := &CSR{
		Rows: int(rows), Columns: m.Columns, Indptr: make([]int64, rows+1),
		Indices: make([]int32, len(row)), Data: make([]float32, len(row)),
	}
	for _, i := range row {
		dealt.Indptr[i+1]++
	}
	for i := range rows {
		dealt.Indptr[i+1] += dealt.Indptr[i]
	}
	next := slices.Clone(dealt.Indptr)
	for k, i := range row {
		dealt.Indices[next[i]], dealt.Data[next[i]] = m.Indices[k], m.Data[k]
		next[i]++
	}
	return dealt, nil
}

// AppendRow appends row i to sparse features of as many columns: columns ascending, values at the same column
// added up, as SciPy reads them.
func (m *CSR) AppendRow(f *graph.Features, i int) {
	first, end := m.Indptr[i], m.Indptr[i+1]
	indices, data := m.Indices[first:end], m.Data[first:end]
	if ascending(indices) {
		f.Indices = append(f.Indices, indices...)
		f.Data = append(f.Data, data...)
	} else {
		order := make([]int, len(indices))
		for k := range order {
			order[k] = k
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(indices[a]) - int(indices[b]) })
		start := len(f.Indices)
		for _, k := range order {
			if n := len(f.Indices); n > start && f.Indices[n-1] == indices[k] {
				f.Data[n-1] += data[k]
				continue
			}
			f.Indices = append(f.Indices, indices[k])
			f.Data = append(f.Data, data[k])
		}
	}
	f.Indptr = append(f.Indptr, int64(len(f.Indices)))
}

// ascending reports whether each index exceeds the one before it.
func ascending(indices []int32) bool {
	for k := 1; k < len(indices); k++ {
		if indices[k] <= indices[k-1] {
			return false
		}
	}
	return true
}

// RowBytes returns what AppendRow takes for all rows, without their bounds: their values and, if they must be
// sorted, an order of the longest row.
func (m *CSR) RowBytes() int64 {
	longest := int64(0)
	for i := range m.Rows {
		longest = max(longest, m.Indptr[i+1]-m.Indptr[i])
	}
	const value, order = 4 + 4, 8
	return value*int64(len(m.Indices)) + order*longest
}

// Matrix makes sparse features from the matrix, one row per vertex. It refuses features for which there is no
// memory.
func (m *CSR) Matrix() (*Matrix, error) {
	if m.Columns == 0 {
		return &Matrix{Rows: m.Rows}, nil
	}
	if err := memory.Need(m.RowBytes() + 8*int64(len(m.Indptr))); err != nil {
		return nil, err
	}
	f := graph.Features{
		Columns: m.Columns,
		Indptr:  make([]int64, 1, m.Rows+1),
		Indices: make([]int32, 0, len(m.Indices)),
		Data:    make([]float32, 0, len(m.Data)),
	}
	for i := range m.Rows {
		m.AppendRow(&f, i)
	}
	return &Matrix{Features: f, Rows: m.Rows}, nil
}

// Edges lists the values as edges from their rows to their columns. They have no weights if all values are
// one.
func (m *CSR) Edges() (graph.Edges, error) {
	if err := memory.Need(4 * int64(len(m.Indices))); err != nil {
		return graph.Edges{}, err
	}
	e := graph.Edges{Source: make([]int32, 0, len(m.Indices)), Target: m.Indices}
	for u := range m.Rows {
		for range m.Indptr[u+1] - m.Indptr[u] {
			e.Source = append(e.Source, int32(u))
		}
	}
	if slices.ContainsFunc(m.Data, func(w float32) bool { return w != 1 }) {
		e.Weights = m.Data
	}
	return e, nil
}
