// Package reference holds the numerical functions of weft in plain Go: float64, loops, one equation each. It
// is slow on purpose. It is the oracle with which tests of package kernel and others compare the fast paths.
// A function Foo that can be differentiated has a FooBackward, which takes the inputs of Foo and the gradient
// of the loss with respect to its output (dy, dz, …), recomputes what it needs, and returns the gradients
// with respect to the inputs. Arguments of wrong shape panic. The tests here compare each FooBackward with
// central differences of Foo. Package kernel's tests compare the kernels with every Foo, and package gnn's
// tests compare the kernels with PyTorch.
package reference

// Matrix is a dense matrix, row-major: entry (i, j) is Data[i·Cols + j].
type Matrix struct {
	Rows, Cols int
	Data       []float64
}

// New returns a matrix of zeros.
func New(rows, cols int) *Matrix {
	return &Matrix{Rows: rows, Cols: cols, Data: make([]float64, rows*cols)}
}

// From32 returns a matrix with a copy of data, row-major, rows·cols numbers.
func From32(rows, cols int, data []float32) *Matrix {
	if len(data) != rows*cols {
		panic("reference: From32: the length of data is not rows·cols")
	}
	return &Matrix{Rows: rows, Cols: cols, Data: Vector(data)}
}

// Vector returns a float64 copy of data; nil stays nil.
func Vector(data []float32) []float64 {
	if data == nil {
		return nil
	}
	v := make([]float64, len(data))
	for i, x := range data {
		v[i] = float64(x)
	}
	return v
}

// At returns the entry in row i and column j.
func (m *Matrix) At(i, j int) float64 { return m.Data[i*m.Cols+j] }

// Set stores v in row i and column j.
func (m *Matrix) Set(i, j int, v float64) { m.Data[i*m.Cols+j] = v }

// Add adds v to the entry in row i and column j.
func (m *Matrix) Add(i, j int, v float64) { m.Data[i*m.Cols+j] += v }

// row is row i itself.
func (m *Matrix) row(i int) []float64 { return m.Data[i*m.Cols:][:m.Cols] }

// Clone returns a copy that shares nothing with m.
func (m *Matrix) Clone() *Matrix {
	return &Matrix{Rows: m.Rows, Cols: m.Cols, Data: append([]float64(nil), m.Data...)}
}

// Transpose returns mᵀ.
func (m *Matrix) Transpose() *Matrix {
	t := New(m.Cols, m.Rows)
	for i := range m.Rows {
		for j := range m.Cols {
			t.Set(j, i, m.At(i, j))
		}
	}
	return t
}

// Map returns the matrix of f(x) for each entry x of m.
func (m *Matrix) Map(f func(x float64) float64) *Matrix {
	y := New(m.Rows, m.Cols)
	for k, x := range m.Data {
		y.Data[k] = f(x)
	}
	return y
}

// Times returns the entry-by-entry product m ⊙ o.
func (m *Matrix) Times(o *Matrix) *Matrix {
	sameShape(m, o)
	y := New(m.Rows, m.Cols)
	for k := range m.Data {
		y.Data[k] = m.Data[k] * o.Data[k]
	}
	return y
}

// Plus returns m + o.
func (m *Matrix) Plus(o *Matrix) *Matrix {
	sameShape(m, o)
	y := New(m.Rows, m.Cols)
	for k := range m.Data {
		y.Data[k] = m.Data[k] + o.Data[k]
	}
	return y
}

func sameShape(a, b *Matrix) {
	if a.Rows != b.Rows || a.Cols != b.Cols {
		panic("reference: two matrices that must have one shape have not")
	}
}
